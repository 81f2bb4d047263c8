"""`chunkfold doctor`: each check passes with a provider that keeps to the protocol, and each has one that fails it.

The providers are the embedded one, which answers each request by what it asks for. Most tests run the command in this
process; those about signals and terminals run it as a person would.
"""

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command_line import PATIENCE, Ran, on_a_terminal, piped, press_ctrl_c, run, started, wait_until

from chunkfold.cli.checks import CHECKS, WRONG_KEY, WRONG_MODEL, Result
from chunkfold.cli.doctor_report import code
from chunkfold.rule_examples import example_of
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    ReceivedRequest,
    StreamBuilder,
    chunk,
    delta,
    event,
    fragment,
    json_answer,
    stalled,
    usage,
)
from chunkfold.testing.received import read_request

KEY = "sk-marked-0123456789abcdefghij"
NAMES = [check.name for check in CHECKS]
STOP = delta("stop")

Given = Answer | StreamBuilder


def text(*pieces: str, end: bytes = STOP + DONE) -> StreamBuilder:
    return StreamBuilder().text(*pieces).raw(end)


def called(*calls: tuple[str, str], reason: str | None = None) -> StreamBuilder:
    stream = StreamBuilder()
    for name, arguments in calls:
        stream = stream.tool_call(name, arguments)
    return stream.finish(reason).done()


def refusal(status: int, message: str = "no", **headers: str) -> Answer:
    return json_answer({"error": {"message": message, "type": "invalid_request_error"}}, status, headers)


CHOICES = StreamBuilder().text("Hello!").text("Hi!", choice=1).finish().finish(choice=1).done()
PARIS, TOKYO = ("get_weather", '{"city":"Paris"}'), ("get_weather", '{"city":"Tokyo"}')
GOOD: dict[str, Given] = {
    "text": text("Hel", "lo!"),
    "tools": called(PARIS),
    "parallel-tools": called(PARIS, TOKYO),
    "second-turn": text("Sunny."),
    "choices": CHOICES,
    "usage": StreamBuilder().text("Hello!").usage(5, 7).finish().done(),
    "structured-output": text('{"name":"Tokyo",', '"country":"Japan"}'),
    "early-close": StreamBuilder().text("1 2 3").answer(ending="open"),
    "wrong-key": refusal(401),
    "wrong-model": refusal(404),
}


SENDS = {"reuse": "text"}  # a check that sends the requests of another


def check_of(request: ReceivedRequest) -> str:
    """The name of the check that sent a request, or of the one that sends the same."""
    body = request.json
    prompt = body["messages"][0]["content"]
    if WRONG_KEY in "".join(request.headers.values()):
        return "wrong-key"
    if body["model"] == WRONG_MODEL:
        return "wrong-model"
    if len(body["messages"]) > 1:
        return "second-turn"
    if "n" in body:
        return "choices"
    if "tools" in body:
        return "parallel-tools" if "both" in prompt else "tools"
    if "stream_options" in body:
        return "usage"
    if "response_format" in body:
        return "structured-output"
    return "early-close" if "Count" in prompt else "text"


def provider(**bad: Given | Callable[[ReceivedRequest], Given]) -> FakeProvider:
    """One that keeps to the protocol, but for the checks that are named, with "_" for "-"."""
    answers = {**GOOD, **{SENDS.get(name, name).replace("_", "-"): answer for name, answer in bad.items()}}

    def respond(request: ReceivedRequest) -> Given:
        answer = answers[check_of(request)]
        return answer(request) if callable(answer) else answer

    return FakeProvider(*[respond] * 20)


def doctor(*arguments: str, key: str | None = KEY) -> Ran:
    return run("doctor", *arguments, OPENAI_API_KEY=key)


def findings(server: FakeProvider, *options: str, key: str | None = KEY) -> dict[str, dict[str, Any]]:
    """What is found of each check, by its name."""
    report = json.loads(doctor(server.base_url, "-m", "m", "--json", *options, key=key).stdout)
    return {finding["check"]: finding for finding in report["checks"]}


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
    assert (len(requests), connections) == (
        14,
        len(NAMES) + 1,
    )  # one for each check, and one after the one that is left
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


# Providers that do not

SAME_ID = StreamBuilder().tool_call(*PARIS, id="a").tool_call(*PARIS, id="a").finish().done()
HTML = Answer(b"<html>oops</html>", 500, headers={"content-type": "text/html"})

BAD: list[tuple[str, Given, str, str]] = [
    ("text", Answer(DONE), "fail", "the stream was empty"),
    ("text", text("Hello", end=b""), "fail", "the stream was truncated"),
    ("text", StreamBuilder().text("Hello").answer(ending="cut"), "fail", "the stream was interrupted"),
    ("text", Answer(b"<html>oops</html>"), "fail", "the stream was invalid"),
    ("text", StreamBuilder().error("overloaded"), "fail", "the stream failed"),
    ("text", called(PARIS), "fail", "received no text; the stream finished"),
    ("text", text(" ", end=delta("length") + DONE), "fail", "received no text; the stream finished"),
    ("text", StreamBuilder("deepseek").reasoning("Hm").finish("length").done(), "pass", "received only reasoning, up to the token limit"),
    ("tools", called(("get_weather", '{"city":"Par')), "fail", "the arguments of call 0 do not fit the tool"),
    ("tools", called(("get_weather", '{"town":"Paris"}')), "fail", "the arguments of call 0 do not fit the tool"),
    ("tools", called(("weather", '{"city":"Paris"}')), "fail", "call 0 has another name than get_weather"),
    ("tools", text('<tool>get_weather{"city":"Paris"}</tool>'), "fail", "the call arrived as text"),
    ("tools", HTML, "fail", "the stream failed"),
    ("tools", text("It is sunny."), "skipped", "the model called no tool; it said"),
    ("tools", called(("get_weather", '{"ci'), reason="length"), "skipped", "the token limit cut the answer"),
    ("tools", refusal(400, "no tools"), "unsupported", "the provider refuses the request"),
    ("parallel-tools", called(("get_weather", PARIS[1] + TOKYO[1])), "fail", "the arguments of call 0 do not fit the tool"),
    ("parallel-tools", called(PARIS, ("get_weather", "")), "fail", "the arguments of call 1 do not fit the tool"),
    ("parallel-tools", SAME_ID, "fail", "two calls have the same id"),
    ("parallel-tools", called(PARIS), "skipped", "the model made one call, not two at once"),
    ("second-turn", refusal(400, "no such role: tool"), "fail", "the next request failed"),
    ("second-turn", StreamBuilder().text("Sun").answer(ending="cut"), "fail", "the next request failed"),
    ("second-turn", Answer(b"", framing="raw", ending="cut"), "fail", "the next request got no response"),
    ("second-turn", refusal(429), "skipped", "there were too many requests"),
    ("second-turn", text(" "), "fail", "the call and its result were sent back; received no text; the stream finished"),
    ("second-turn", called(PARIS), "skipped", "the call and its result were sent back; the model called a tool once more"),
    ("choices", text("Hello!"), "unsupported", "`n` was ignored: received one choice"),
    ("choices", refusal(400, "n: expected 1"), "unsupported", "the provider refuses the request"),
    ("choices", StreamBuilder().text("Hello!").text(" ", choice=1).finish().finish(choice=1).done(), "fail", "received no text in choice 1"),
    ("choices", StreamBuilder().text("Hello!").text("Hi", choice=1).finish(), "fail", "the stream was truncated"),
    ("choices", StreamBuilder().text("A").text("B", choice=2).finish().finish(choice=2).done(), "fail", "expected choices 0 and 1, received"),
    ("usage", text("Hello"), "fail", "received no usage, although stream_options.include_usage requested it"),
    ("usage", text("Hello", end=STOP + chunk(usage=usage(0, 7)) + DONE), "fail", "received usage without prompt or completion tokens"),
    (
        "usage",
        text("Hello", end=STOP + chunk(usage=usage(5, 7, total_tokens=9)) + DONE),
        "fail",
        "the total is less than prompt + completion",
    ),
    ("usage", refusal(422), "unsupported", "the provider refuses the request"),
    ("structured-output", text("Tokyo, of course."), "fail", "the text does not fit the schema"),
    ("structured-output", text('```json\n{"name":"Tokyo","country":"Japan"}\n```'), "fail", "the text does not fit the schema"),
    ("structured-output", text('{"name":"Tokyo"}'), "fail", "the text does not fit the schema"),
    ("structured-output", text('{"name":"To', end=delta("length") + DONE), "skipped", "the token limit cut the answer"),
    ("structured-output", refusal(400), "unsupported", "the provider refuses the request"),
    ("reuse", refusal(400), "fail", "the stream failed"),
    ("early-close", refusal(500), "fail", "the stream failed"),
    ("early-close", Answer(text("1 2").body), "skipped", "the answer ended before it could be left"),
    ("wrong-key", text("Hello"), "fail", "expected HTTP 401 or 403, received an answer"),
    ("wrong-key", refusal(500), "fail", "expected HTTP 401 or 403, received"),
    ("wrong-key", Answer(b"<html></html>"), "fail", "expected HTTP 401 or 403, received a stream that was invalid"),
    ("wrong-key", StreamBuilder().error("no", code=401), "tolerated", "expected HTTP 401 or 403, received 200, and the error in the stream"),
    ("wrong-key", Answer(b"Unauthorized", 401), "tolerated", "the error's body is not a JSON object"),
    ("wrong-key", refusal(429), "skipped", "there were too many requests"),
    ("wrong-model", text("Hello"), "fail", "expected HTTP 404 or 400, received an answer"),
    ("wrong-model", HTML, "fail", "expected HTTP 404 or 400, received"),
    ("wrong-model", StreamBuilder().text("H").answer(ending="cut"), "fail", "expected HTTP 404 or 400, received a stream that was interrupted"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer", "result", "reason"), BAD, ids=[f"{case[0]}-{case[3][:40]}" for case in BAD])
def test_what_comes_of_an_answer_that_is_off(name: str, answer: Given, result: str, reason: str) -> None:
    with provider(**{name.replace("-", "_"): answer}) as bad:
        outcome = doctor(bad.base_url, "-m", "m", "--json", "--only", name)
    (found,) = json.loads(outcome.stdout)["checks"]
    assert (found["check"], found["result"], found["reason"]) == (name, result, reason)
    was_refused = name == "wrong-key" and reason == "there were too many requests"  # already at the first request
    assert outcome.exit_code == (result == "fail" or was_refused)


def test_of_all_that_is_no_pass_the_report_tells_more() -> None:
    named = {name: (answer, result) for name, answer, result, _ in BAD if name in ("tools", "usage", "wrong-key")}
    with provider(**{name.replace("-", "_"): answer for name, (answer, _) in named.items()}) as bad:
        shown = doctor(bad.base_url, "-m", "m", *(part for name in named for part in ("--only", name))).stdout
    assert re.findall("^### (.*): (.*)$", shown, re.MULTILINE) == [
        (name, result) for name, (_, result) in named.items()
    ]


def test_every_check_has_a_provider_that_fails_it() -> None:
    assert {name for name, _, result, _ in BAD if result == "fail"} == set(NAMES)


def test_a_provider_that_does_not_let_go_of_what_was_left() -> None:
    busy: list[ReceivedRequest] = []

    def one_at_a_time(request: ReceivedRequest) -> Given:
        busy.append(request)
        return GOOD["early-close"]

    def unless_busy(request: ReceivedRequest) -> Given:
        return refusal(429, "one stream at a time") if busy else GOOD["text"]

    with provider(early_close=one_at_a_time, text=unless_busy) as bad:
        found = findings(bad)
    assert found["text"]["result"] == "pass"
    assert found["early-close"]["result"] == "fail"
    assert re.fullmatch(
        r"left after .* s; the provider stopped .* s later; the next request failed",
        found["early-close"]["reason"],
    )
    assert "one stream at a time" in found["early-close"]["quote"]


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
HELLO = text("Hello").body
NOT_REUSED: dict[str, tuple[Answer, str, str]] = {
    "an open body": (
        text("Hi").answer(ending="open"),
        "tolerated",
        "the connection cannot be used again: the body did not end within 0.1 s of [DONE]; the next request needed another one",
    ),
    "HTTP/1.0": (
        Answer([HEAD.replace(b"1.1", b"1.0") + b"\r\n", HELLO, 0.02], framing="raw"),
        "unsupported",
        "the provider closes the connection after each answer: HTTP/1.0",
    ),
    "connection: close": (
        Answer(HELLO, framing="close"),
        "unsupported",
        "the provider closes the connection after each answer: connection: close",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "result", "reason"), NOT_REUSED.values(), ids=NOT_REUSED)
def test_a_connection_that_is_not_used_again(answer: Answer, result: str, reason: str) -> None:
    with provider(text=answer) as bad:
        found = findings(bad, "--only", "text", "--only", "reuse")
        assert bad.connections == len(bad.requests) == 3
    told = ": ".join(filter(None, (found["reuse"]["reason"], found["reuse"]["quote"])))
    assert (found["reuse"]["result"], told) == (result, reason)
    assert (found["text"]["result"], found["text"]["end"]) == ("pass", "finished")


@contextmanager
def served(answer: Callable[[socket.socket, ReceivedRequest], object]) -> Iterator[str]:
    """The base URL of a provider that reads a request of each connection, and does with it what no provider should."""

    def serve(connected: socket.socket) -> None:
        with connected, suppress(OSError), connected.makefile("rb") as source:
            answer(connected, read_request(source, lambda: None))

    def accept() -> None:
        with suppress(OSError):  # it is closed
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        socket.socket.shutdown(listener, socket.SHUT_RDWR)


def found_at(url: str, name: str) -> dict[str, Any]:
    """What is found of one check."""
    (found,) = json.loads(doctor(url, "-m", "m", "--json", "--only", name).stdout)["checks"]
    return found


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="needs Linux, to send the end of both in one packet")
def test_a_connection_that_is_closed_without_notice() -> None:
    def close(connected: socket.socket, _: ReceivedRequest) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        connected.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(HELLO) + HELLO)

    with served(close) as url:
        found = found_at(url, "reuse")
    assert (found["result"], found["error"]) == ("tolerated", None)
    assert found["reason"] == (
        "the connection was closed after the first answer, without notice; the next request needed another one"
    )


def test_a_provider_that_does_not_notice() -> None:
    stopped = threading.Event()

    def talk(connected: socket.socket, request: ReceivedRequest) -> None:
        connected.sendall(HEAD + b"connection: close\r\n\r\n")
        if check_of(request) == "text":
            connected.sendall(HELLO)
            return
        try:
            while True:
                connected.sendall(delta(content="1 "))
                time.sleep(0.02)  # between its tokens, until the client leaves, whenever that is
        finally:
            stopped.set()

    with served(talk) as url:
        found = found_at(url, "early-close")
        assert stopped.wait(PATIENCE)  # in the end the connection is closed
    assert re.fullmatch(
        r"left after .* s; the provider did not react within 1 s; the next request was answered, from .* s on",
        found["reason"],
    )


@pytest.mark.parametrize("keeps", [False, True])
def test_an_answer_that_is_over_too_soon(keeps: bool) -> None:
    def finish(connected: socket.socket, request: ReceivedRequest) -> None:
        pieces = [delta(content="Hello"), STOP + DONE]
        size = f"content-length: {len(b''.join(pieces))}" if keeps else "connection: close"
        connected.sendall(HEAD + f"{size}\r\n\r\n".encode() + pieces[0])
        if check_of(request) == "early-close":
            assert connected.recv(1) == b""  # the client has left
        connected.sendall(pieces[1])
        if keeps:
            may_close.wait(PATIENCE)

    may_close = threading.Event()
    with served(finish) as url:
        found = found_at(url, "early-close")
        may_close.set()
    assert (found["result"], found["end"]) == ("pass", "closed")
    assert re.fullmatch(
        r"left after .* s; the answer ended before the provider could notice; the next request was answered, .*",
        found["reason"],
    )


def test_what_was_tolerated_is_listed_with_what_came() -> None:
    call = delta(role="assistant", tool_calls=[fragment(0, None, *PARIS)])
    odd = Answer(delta(role="model", content="") + call + delta("tool_calls") + DONE)
    with provider(tools=odd) as bad:
        result = doctor(bad.base_url, "-m", "m", "--only", "tools")
        found = findings(bad, "--only", "tools")["tools"]
    assert result.exit_code == 0
    assert "- result: 1 tolerated\n" in result.stdout
    assert "CF204 CF302 |\n" in result.stdout
    assert "\n- CF204, once: the role changes within the stream (first at byte " in result.stdout
    assert "; chunkfold keeps assistant, else the first\n" in result.stdout
    assert [rule["rule"] for rule in found["anomalies"]] == ["CF204", "CF302"]
    (offset,) = {rule["offset"] for rule in found["anomalies"] if rule["rule"] == "CF204"}
    assert f'\n```\nbyte {offset}: {{"id":"chatcmpl-1",' in result.stdout
    assert found["frames"][0]["offset"] == offset


def test_an_answer_whose_index_wanders_is_one_choice_as_for_chat() -> None:
    with provider(text=Answer(example_of("CF221").body)) as bad:
        found = findings(bad, "--only", "text")["text"]
    assert (found["end"], [rule["rule"] for rule in found["anomalies"]]) == ("finished", ["CF221"])


def test_after_a_plain_request_that_is_refused_nothing_more_is_asked() -> None:
    with provider(text=refusal(401, "Incorrect API key", **{"x-request-id": "req_7"})) as bad:
        result = doctor(bad.base_url, "-m", "m")
        assert len(bad.requests) == 1
    assert result.exit_code == 1
    assert "- result: 1 failed, 10 skipped\n" in result.stdout
    assert (
        "- found: the stream failed: `APIStatusError: HTTP 401: Incorrect API key (status 401, type invalid_request_error)`"
        in result.stdout
    )
    assert "- request id: `req_7`\n" in result.stdout
    assert f"\n### {', '.join(NAMES[1:])}: skipped\n" in result.stdout
    assert result.stdout.count("- found: ") == 2


class Busy(FakeProvider):
    """One that answers everything with 429."""

    def answer_unscripted(self, request: ReceivedRequest) -> Answer:
        del request
        return refusal(429, "Slow down", **{"retry-after": "20"})


@pytest.mark.parametrize("only", [(), ("tools", "usage", "wrong-key")])
def test_a_provider_that_answers_everything_with_429_is_reported_once(only: tuple[str, ...]) -> None:
    options = [part for name in only for part in ("--only", name)]
    names = list(only) or NAMES
    with Busy() as busy:
        shown = doctor(busy.base_url, "-m", "m", *options)
        assert len(busy.requests) == 1
        report = doctor(busy.base_url, "-m", "m", "--json", *options)
    assert (shown.exit_code, report.exit_code) == (1, 1)
    assert f"- result: {len(names)} skipped\n" in shown.stdout
    assert shown.stdout.count("too many requests") == shown.stdout.count("HTTP 429: Slow down") == 1
    first, *others = json.loads(report.stdout)["checks"]
    assert (first["reason"], first["error"]["status_code"], first["error"]["retry_after"]) == (
        "there were too many requests",
        429,
        20.0,
    )
    assert {(check["result"], check["reason"], check["error"]) for check in others} == {
        ("skipped", "not asked, since the first request was refused", None)
    }


def test_max_tokens_gives_way_to_its_successor() -> None:
    def newer(request: ReceivedRequest) -> Given:
        if "max_tokens" in request.json:
            return refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return GOOD["text"]

    with provider(text=newer) as good:
        result = doctor(good.base_url, "-m", "m")
        requests = good.requests
    assert result.exit_code == 0
    assert "- note: `max_tokens` was refused, `max_completion_tokens` sent instead\n" in result.stdout
    assert len(requests) == 15
    assert all("max_tokens" not in request.json for request in requests[1:])
    assert all(request.json["max_completion_tokens"] <= 256 for request in requests[1:])


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
    assert piped(_CHUNKFOLD_COMPLETE="bash_complete", **words).stdout == "plain,early-close\n"


def test_the_page_lists_the_checks_and_the_results() -> None:
    page = (Path(__file__).parents[2] / "docs" / "inspect.md").read_text("utf-8")
    for title, told in (
        ("| check | asks for |", [(check.name, check.asks) for check in CHECKS]),
        ("| result | what it means |", [(result, ...) for result in Result]),
    ):
        rows = re.findall(r"^\| ([\w-]+) \| (.*) \|$", page.partition(title)[2].partition("\n\n")[0], re.MULTILINE)
        assert [
            (name, text if asks is not ... else ...) for (name, text), (_, asks) in zip(rows, told, strict=True)
        ] == told


def test_only_some_checks_in_their_order() -> None:
    with provider() as good:
        assert list(findings(good, "--only", "usage", "--only", "text")) == ["text", "usage"]
        assert len(good.requests) == 2
    assert doctor("http://127.0.0.1:9", "-m", "m", "--only", "no-such-check").exit_code == 2
    assert doctor("http://127.0.0.1:9").exit_code == 2


def error_keys() -> list[str]:
    """Those that the page lists."""
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")
    table = page.partition("### Error objects")[2].partition("\n### ")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


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
    errors = [value["error"] for value in (*values, found["usage"], found["tools"])]
    assert [list(error) for error in errors] == [error_keys()] * len(errors)
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
