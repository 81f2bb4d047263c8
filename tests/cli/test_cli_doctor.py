"""`chunkfold doctor`: each check passes with a provider that keeps to the protocol, and each has one that fails it."""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import PATIENCE, on_a_terminal, press_ctrl_c, run, started, wait_until
from doc_blocks import codes_in, keys_of, tables_of, text_of
from doctor_command import KEY, NAMES, STOP, called, doctor, findings, provider, refusal, text

from chunkfold.cli.checks import CHECKS, WRONG_KEY, WRONG_MODEL, Result
from chunkfold.cli.doctor_report import code
from chunkfold.testing import DONE, Answer, StreamBuilder, chunk, event, stalled

# A provider that keeps to the protocol


def test_a_good_provider_passes_every_check() -> None:
    with provider() as good:
        result = doctor(good.base_url, "-m", "some-model")
        requests, connections = good.requests, good.connections
        host = good.base_url.removesuffix("/v1")
    assert (result.stderr, result.exit_code) == ("", 0)
    assert "\x1b" not in result.stdout
    assert result.stdout.startswith(f"## chunkfold doctor: `some-model`\n\n- host: `{host}`\n- date: ")
    date = re.search(r"- date: (\S+ \S+) UTC", result.stdout)
    assert date
    assert abs((datetime.strptime(f"{date[1]}Z", "%Y-%m-%d %H:%M%z") - datetime.now(UTC)).total_seconds()) < 300
    assert re.search(r"- with: chunkfold \S+, Python 3\.\S+, httpx \S+\n", result.stdout)
    assert re.findall(r"^\| ([a-z][a-z-]*) +\| (\S+) +\| (\S+) ", result.stdout, re.MULTILINE) == [
        ("check", "result", "ended"),
        *(
            (name, "pass", {"early-close": "closed"}.get(name, "failed" if "wrong" in name else "finished"))
            for name in NAMES
        ),
    ]
    assert "- result: 11 passed\n" in result.stdout
    assert re.findall("^### (.*)$", result.stdout, re.MULTILINE) == ["Passed"]
    assert [line.split(":")[0] for line in result.stdout.splitlines() if line.startswith("- ")][4:] == [
        f"- {name}" for name in NAMES
    ]
    assert (len(requests), connections) == (14, len(NAMES) + 1)  # one for each check, one after that which is left
    assert all(request.json["max_tokens"] <= 256 and request.json["stream"] is True for request in requests)
    assert {request.json["model"] for request in requests} == {"some-model", WRONG_MODEL}
    assert [number for number, request in enumerate(requests) if request.client_left] == [10]
    assert KEY not in result.stdout


def test_every_reason_to_pass_is_told() -> None:
    with provider() as good:
        found = findings(good)
    assert {name: finding["reason"] for name, finding in found.items()} | {"early-close": ""} == {
        "text": "received text",
        "tools": "received calls",
        "parallel-tools": "received calls",
        "second-turn": "the call and its result were sent back; received text",
        "choices": "received two choices",
        "usage": "received usage",
        "structured-output": "received JSON that fits the schema",
        "reuse": "both requests were answered over one connection",
        "early-close": "",
        "wrong-key": "the provider refused it",
        "wrong-model": "the provider refused it",
    }
    assert re.fullmatch(
        r"left after \d\.\d\d s; the provider stopped \d\.\d\d s later; the next request was answered, from \d\.\d\d s on",
        found["early-close"]["reason"],
    )
    assert found["choices"]["quote"] == "'Hello!', 'Hi!'"
    assert found["parallel-tools"]["quote"] == "get_weather(Paris), get_weather(Tokyo)"
    assert all((finding["first_output"] is None) == ("wrong" in name) for name, finding in found.items())


# Keys


def test_the_wrong_key_replaces_the_right_one_in_every_header_made_for_one() -> None:
    with provider() as good:
        findings(good, "--only", "wrong-key", "--header", f"api-key: {KEY}", "--header", "X-Title: My tool")
        (request,) = good.requests
    assert request.headers["authorization"] == f"Bearer {WRONG_KEY}"
    assert request.headers["api-key"] == WRONG_KEY
    assert request.headers["x-title"] == "My tool"
    assert KEY not in str(request.headers)


def test_without_a_key_there_is_none_to_replace() -> None:
    with provider() as good:
        found = findings(good, "--only", "wrong-key", key=None)["wrong-key"]
        assert good.requests == []
    assert found["result"] == "skipped"


LEAKS = {
    "in an error": refusal(500, f"{'x' * 470} {KEY}"),
    "in the text": text(f"{'x' * 100} {KEY}"),
    "in pieces of the text": text("The key is ", KEY[:11], KEY[11:], "."),
    "at the end of an excerpt": text("x" * 104, KEY),
    "in pieces at the end of an excerpt": text("x" * 104, KEY[:11], KEY[11:]),
    "in arguments": called(("get_weather", json.dumps({"town": KEY}))),
    "in a name": called((KEY, "{}")),
    "in an odd event": StreamBuilder().raw(chunk(object=KEY)).text("Hi").finish().done(),
    "in an event's name": StreamBuilder().event(KEY, KEY).text("Hi").finish().done(),
    "in the request id": refusal(500, "no", **{"x-request-id": f"req_{KEY}"}),
    "in no JSON": Answer(event(f"{'x' * 185}{KEY}")),
}
AT_ONCE = {"in an error", "in pieces at the end of an excerpt", "in an event's name"}  # each report takes a while


@pytest.mark.parametrize(
    "where", [pytest.param(where, marks=() if where in AT_ONCE else pytest.mark.slow) for where in LEAKS]
)
def test_a_key_that_a_provider_echoes_is_in_no_report(where: str) -> None:
    leak = LEAKS[where]
    answers = dict.fromkeys((name.replace("-", "_") for name in NAMES if "wrong" not in name), leak)
    with provider(**answers) as bad:
        url = f"{bad.url}/{KEY}?api-key={KEY}".replace("://", f"://user:{KEY}@")
        others = [option for name in NAMES[1:] for option in ("--only", name)]
        results = [doctor(url, "-m", "m", *options) for options in ([], ["--json"], others, [*others, "--json"])]
    for shown in (result.shown for result in results):
        assert "host" in shown
        assert "user:" not in shown
        assert KEY[:11] not in shown
        assert KEY[-11:] not in shown


# The report as Markdown


def test_what_a_provider_says_stands_as_code() -> None:
    assert code("a") == "`a`"
    assert code("`a`") == "`` `a` ``"
    assert code("a```b\n<b>\x1b") == r"````a```b\n<b>\x1b````"
    evil = text("| ![](http://x) <b> @user ```\n# x", end=STOP + DONE)
    with provider(
        tools=evil, structured_output=StreamBuilder().raw(b"data: null ```` \n\n").text("{}").finish().done()
    ) as bad:
        shown = doctor(bad.base_url, "-m", "m|`", "--only", "tools", "--only", "structured-output").stdout
    assert r"said: ````'| ![](http://x) <b> @user ```\n# x'````" in shown
    assert shown.startswith("## chunkfold doctor: `` m|` ``\n")
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert "\n`````\nbyte 0: null ````" in shown


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80])
def test_on_a_terminal_the_report_is_markdown_that_fits(width: int) -> None:
    with provider(usage=text("Hello"), text=text("日本語のテキスト " * 5, end=event("null") + STOP + DONE)) as bad:
        rows, written, exit_code = on_a_terminal("doctor", bad.base_url, "-m", "m", width=width, OPENAI_API_KEY=KEY)
    shown = "\n".join(rows)
    assert exit_code == 1
    assert ("| usage             | **fail** " in shown) == (width == 80)
    assert ("- usage: **fail**" in shown) == (width == 40)
    assert "- CF105, once: an event whose data is" in shown
    assert all(row.startswith("  ") for row in rows if "include_usage" in row and not row.startswith("- "))
    progress = re.compile(r"[a-z-]+ \(\d+ of 11\)")
    assert progress.search(written)
    assert not progress.search(shown)  # it is gone in the end


# Use


def test_the_checks_are_listed() -> None:
    lines = doctor("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert [line.split(maxsplit=1)[1] for line in lines] == [check.asks for check in CHECKS]


@pytest.mark.skipif(os.name == "nt", reason="needs a system other than Windows, where bash completes in another way")
def test_the_names_of_checks_are_completed() -> None:
    words = {"COMP_WORDS": "chunkfold doctor --only ea", "COMP_CWORD": "3"}
    assert run(_CHUNKFOLD_COMPLETE="bash_complete", **words).stdout == "plain,early-close\n"


def test_the_page_lists_the_checks_and_the_results() -> None:
    page = text_of("docs/inspect.md")
    assert tables_of(page, "check", "asks for") == [[check.name, check.asks] for check in CHECKS]
    assert [result for result, _ in tables_of(page, "result", "what it means")] == list(Result)


def test_the_page_lists_the_keys_of_the_json() -> None:
    with provider(tools=called(("get_weather", '{"city":"Paris"}'), reason="eos")) as other:
        report = json.loads(doctor(other.base_url, "-m", "m", "--json").stdout)
    page = text_of("docs/inspect.md")
    of_a_check = keys_of(page, "key of a check", "what it says")
    assert list(report) == list(keys_of(page, "key of a report", "what it says"))
    assert [list(check) for check in report["checks"]] == [list(of_a_check)] * len(CHECKS)
    (frame,) = report["checks"][1]["frames"]
    assert list(frame) == codes_in(of_a_check["frames"])
    (anomaly,) = report["checks"][1]["anomalies"]
    assert list(anomaly)[-2:] == codes_in(of_a_check["anomalies"])[-2:]


def test_only_some_checks_in_their_order() -> None:
    with provider() as good:
        assert list(findings(good, "--only", "usage", "--only", "text")) == ["text", "usage"]
        assert len(good.requests) == 2
    assert doctor("http://127.0.0.1:9", "-m", "m", "--only", "no-such-check").exit_code == 2
    assert doctor("http://127.0.0.1:9").exit_code == 2


def test_errors_look_the_same_in_all_commands(tmp_path: Path) -> None:
    nowhere, body = "http://127.0.0.1:9/v1", str(tmp_path / "body.sse")
    Path(body).write_bytes(StreamBuilder().error("overloaded", code=503).body)
    with provider(usage=Answer(b"", framing="raw", ending="cut"), tools=refusal(500)) as bad:
        found = findings(bad)
    assert (found["usage"]["result"], found["usage"]["reason"]) == ("fail", "there was no response")
    assert found["structured-output"]["result"] == "pass"  # it goes on behind that
    lines = [
        run("chat", nowhere, "-m", "m", "Hi", "--json").stdout,
        run("replay", body, "--json").stdout,
        run("inspect", body, "--json").stdout.splitlines()[-1],
        *run("fold", body, f"{body}.missing", "--json").stdout.splitlines(),
    ]
    values = [value.get("verdict", value) for value in map(json.loads, lines)]
    assert values[0]["end"] is values[0]["completion"] is None  # there was no response
    errors = [value["error"] for value in (*values, found["usage"], found["tools"])]
    page = text_of("docs/command-line.md").partition("### Error objects")[2]
    keys = [key.strip("`") for key, _ in tables_of(page, "key", "what it is")]
    assert [list(error) for error in errors] == [keys] * len(errors)
    assert [error["type"] for error in errors] == [
        *("ConnectError", "APIError", "APIError", "APIError", "FileNotFoundError"),
        *("RemoteProtocolError", "APIStatusError"),
    ]
    assert errors[1] == errors[2] == errors[3]
    assert (errors[3]["status_code"], errors[3]["retryable"], errors[3]["message"]) == (503, True, "overloaded")


PINGS = stalled(StreamBuilder().text("Hi"), 2, 10.0, keep_alive=b": ping\n\n", every=0.05)


@pytest.mark.parametrize(
    ("answer", "end", "error"),
    [
        (StreamBuilder().text("Hi").answer(ending="open"), "interrupted", "ReadTimeout"),
        (Answer(PINGS, ending="open"), "stalled", "no chunk"),  # keep-alives do not hold it up
    ],
)
def test_silence_ends_a_check_after_the_timeout(answer: Answer, end: str, error: str) -> None:
    with provider(text=answer) as bad:
        found = findings(bad, "--only", "text", "--timeout", "0.3")["text"]
    assert (found["result"], found["reason"]) == ("fail", f"the stream was {end}")
    assert error in found["quote"]


@pytest.mark.slow
def test_ctrl_c_reports_what_was_found() -> None:
    with provider(usage=StreamBuilder().text("Hi").answer(ending="open")) as bad:
        with started("doctor", bad.base_url, "-m", "m", OPENAI_API_KEY=KEY) as process:
            wait_until(lambda: len(bad.requests) == 7 or process.poll() is not None)
            shown, errors, exit_code = press_ctrl_c(process)
        assert bad.requests[6].answered.wait(PATIENCE)
    assert (exit_code, errors) == (130, "")
    assert "- result: 5 passed\n" in shown
