"""`chunkfold chat`, as a user sees it: in a pipe, as JSON, and when something goes wrong."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from chat_command import KEY, asked, said
from command_line import COMMAND, PATIENCE, OpenAnswer, Ran, environment, press_ctrl_c, run, started, wait_until

from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, StreamBuilder, chunk, delta, json_answer

ESCAPES = "a\x1b[31mb\x9b1mc\u202ed"
SHOWN_ESCAPES = r"a\x1b[31mb\x9b1mc\u202ed"
HELLO = said("Hel", "lo!").usage(12, 3).finish().done()
WITHOUT_INDEX = {"delta": {"content": "lo"}, "finish_reason": None}  # which is tolerated


def chat(answer: Any, *arguments: str, **options: Any) -> Ran:
    with FakeProvider(answer) as provider:
        return asked(provider.base_url, *arguments, **options)


# The request


def received(*arguments: str, **options: Any) -> ReceivedRequest:
    with FakeProvider(HELLO) as provider:
        result = asked(provider.base_url, *arguments, **options)
        assert result.exit_code == 0, result.shown
        return provider.requests[0]


def test_what_is_sent(tmp_path: Path) -> None:
    one, more = tmp_path / "one.json", tmp_path / "more.json"
    one.write_text('{"name": "f"}')
    more.write_text('[{"type": "function", "function": {"name": "g"}}]')
    request = received(
        *("--system", "Be brief.", "--tool", str(one), "--tool", str(more)),
        *("--param", "temperature=0.5", "--param", "user=me", "--param", "stop=[1]", "--param", "stream_options=null"),
        *("--header", "X-One: 1", "Why?"),
        OPENAI_API_KEY=f"{KEY}\n",
    )
    assert request.path == "/v1/chat/completions"
    assert request.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
        "tools": [{"type": "function", "function": {"name": name}} for name in "fg"],
        "temperature": 0.5,
        "user": "me",
        "stop": [1],
        "stream": True,
    }
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-one"] == "1"
    assert request.headers["accept"] == "text/event-stream"


def test_usage_is_asked_for_and_no_key_is_sent_without_one() -> None:
    request = received("Hi")
    assert request.json["stream_options"] == {"include_usage": True}
    assert "authorization" not in request.headers
    assert received("--key-env", "MINE", "Hi", MINE=KEY).headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("command", [("chat",), ("record", "-o", "-")], ids=["chat", "record"])
def test_a_header_replaces_one_of_that_name_in_any_case(command: tuple[str, ...]) -> None:
    """Was once wrong: both were sent, the key among them."""
    given = {"authorization": "Token t", "ACCEPT": "*/*", "accept-encoding": "gzip"}
    headers = [argument for pair in given.items() for argument in ("--header", ": ".join(pair))]
    with FakeProvider() as provider:
        run(*command, provider.base_url, "-m", "m", "Hi", *headers, OPENAI_API_KEY=KEY)
        sent = provider.requests[0].headers
    assert {name: sent[name.lower()] for name in given} == given


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--system", "s"), "expected a prompt"),
        (("--param", "x", "Hi"), "expected NAME=VALUE"),
        (("--param", "x=1e999", "Hi"), "numbers that JSON allows"),
        (("--param", 'x="\\ud800"', "Hi"), "UTF-8 text"),
        (("--header", KEY, "Hi"), "expected NAME:VALUE"),
        (("--header", f"a b: {KEY}", "Hi"), "expected NAME:VALUE"),
        (("--header", f"X-Key: {KEY}\x07", "Hi"), "--header X-Key: expected only visible ASCII"),
        (("--tool", __file__, "Hi"), "expected JSON"),
        (("--tool", "unnamed.json", "Hi"), "expected a tool with a name"),
        (("--tool", "deep.json", "Hi"), "expected JSON: "),
        *((("--timeout", seconds, "Hi"), "--timeout") for seconds in ("inf", "nan", "1e10", "0", "-1")),
    ],
)
def test_wrong_use_is_told_before_anything_is_sent(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unnamed.json").write_text('{"description": "no name"}')
    Path("deep.json").write_text("[" * 200_000)
    with FakeProvider() as provider:
        result = asked(provider.base_url, *arguments)
        assert (result.stdout, result.exit_code) == ("", 2)
        assert says in result.stderr
        assert KEY not in result.shown
        assert not provider.requests


def test_a_key_that_no_header_can_carry_is_not_shown() -> None:
    result = asked("http://127.0.0.1:9/v1", OPENAI_API_KEY=f"{KEY}\u20ac")
    assert (result.exit_code, KEY in result.shown) == (2, False)
    assert "OPENAI_API_KEY: expected only visible ASCII" in result.stderr


# In a pipe


def test_a_pipe_gets_the_text_as_it_was_sent_and_nothing_else() -> None:
    text = "# A *title*\n\n| a | b |\n\tTab, [link](http://x), 日本語 👩‍👩‍👧, no end"
    answer = StreamBuilder("deepseek").reasoning("Hm.").text(*text).tool_call("f", '{"a": 1}').usage(1200, 1)
    result = chat(answer.finish().done())
    assert result.stdout == text
    call_line, footer = result.stderr.splitlines()
    assert call_line == 'tool call: f {"a": 1}'
    assert re.fullmatch(
        r"finished: tool_calls · first token \d.\d\d s( · [\d.]+ tokens/s)?"
        r" · \d.\d\d s in all · 1,200 prompt tokens, 1 completion token",
        footer,
    )
    assert result.exit_code == 0


def test_quiet_leaves_the_text_alone() -> None:
    result = chat(HELLO, "--quiet", "Hi")
    assert (result.stdout, result.stderr) == ("Hello!", "")


def test_escape_sequences_are_visible_unless_they_are_asked_for() -> None:
    answer = said(*ESCAPES).finish().done()
    assert chat(answer).stdout == SHOWN_ESCAPES
    assert chat(answer, "--raw", "Hi").stdout == ESCAPES


def test_an_answer_whose_parts_say_what_is_not_drawn() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    annotation = {"type": "url_citation", "url_citation": {"url": "http://x", "title": "t"}}
    result = chat(
        delta(refusal="I can't.")
        + delta(images=[image, image])
        + delta(index=1, content="other")
        + delta("stop", annotations=[annotation])
        + delta("stop", index=1)
        + DONE,
        *("--param", "n=2", "Hi"),
    )
    assert result.stdout == "I can't."
    assert "no usage · " in result.stderr
    assert "choice 0 of 2 is shown · 2 images · 1 citation" in result.stderr


def test_what_was_tolerated_is_named() -> None:
    assert "tolerated CF210" in chat(chunk({**WITHOUT_INDEX, "finish_reason": "stop"}) + DONE).stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "asked_for"),
    [
        (("Summarize",), "An article.", "Summarize\n\nAn article."),
        (("Hi",), "", "Hi"),
        (("-",), "Why\nnot?\n", "Why\nnot?\n"),
        (("--param", "user=me"), "Piped.", "Piped."),  # without a prompt
        (("-",), b"\xff\xfeok", "\ufffd\ufffdok"),  # what is no text does not stop it
    ],
)
def test_what_is_piped_in_is_sent_behind_the_prompt(
    arguments: tuple[str, ...], stdin: str | bytes, asked_for: str
) -> None:
    assert received(*arguments, stdin=stdin).json["messages"] == [{"role": "user", "content": asked_for}]


def test_the_environment_says_whom_to_ask() -> None:
    with FakeProvider(HELLO, HELLO) as provider:
        variables = {"OPENAI_BASE_URL": provider.base_url, "CHUNKFOLD_MODEL": "mine"}
        assert run("chat", "Hi", **variables).stdout == "Hello!"
        assert run("chat", stdin="Piped.", **variables).stdout == "Hello!"
        asked_for = [(request.json["model"], request.json["messages"][0]["content"]) for request in provider.requests]
        assert provider.requests[0].headers["user-agent"].startswith("chunkfold/")
    assert asked_for == [("mine", "Hi"), ("mine", "Piped.")]


def test_an_empty_variable_counts_as_not_set() -> None:
    variables = {"CHUNKFOLD_MODEL": "m", "OPENAI_BASE_URL": ""}
    for arguments in ((), ("Hi",), ("Say hello.",), ("Hello.",), ("", "Hi")):
        result = run("chat", *arguments, stdin="Hi", **variables)
        assert "Error: expected a URL, as an argument or in OPENAI_BASE_URL\n" in result.stderr, arguments
    assert "URL: expected http://HOST" in run("chat", "Say", "hello.", **variables).stderr


def test_the_facts_begin_a_line_where_both_outputs_are_one_pipe() -> None:
    with FakeProvider(HELLO) as provider:
        command = [COMMAND, "chat", provider.base_url, "-m", "m", "Hi"]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(
            command, env=environment(), stdin=subprocess.DEVNULL, timeout=PATIENCE, check=True, **both
        )
    text, facts = done.stdout.decode("utf-8").splitlines()
    assert text == "Hello!"
    assert "stop" in facts


def test_a_url_without_a_scheme_is_completed_in_the_error() -> None:
    assert "did you mean http://localhost:8080/v1?" in asked("localhost:8080/v1").stderr
    assert "did you mean" not in asked("user:secret@localhost:8080").stderr


def test_a_provider_that_hangs_is_told_with_how_long_was_waited() -> None:
    with FakeProvider(Answer([*said("Hel"), 5.0])) as provider:
        result = asked(provider.base_url, "--timeout", "0.2", "Hi")
    assert (result.stdout, result.exit_code) == ("Hel", 5)
    assert "nothing arrived for 0.2 s" in result.stderr


# As JSON


def test_json_is_one_object() -> None:
    answer = said("Grüße ", ESCAPES).usage(12, 3).finish().done()
    result = chat(answer.answer(headers={"x-request-id": "req_1"}), "--json", "Hi")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    assert "Grüße" in result.stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.stdout)
    value = json.loads(result.stdout)
    assert list(value) == ["end", "error", "anomalies", "completion", "timing", "request_id"]
    assert (value["end"], value["error"], value["anomalies"], value["request_id"]) == ("finished", None, [], "req_1")
    assert value["completion"]["choices"][0]["message"]["content"] == f"Grüße {ESCAPES}"
    assert value["completion"]["usage"]["total_tokens"] == 15
    assert value["timing"]["first_output"] <= value["timing"]["last_byte"]


def test_json_of_a_failure_has_what_had_come() -> None:
    answer = said("Hel").raw(chunk(WITHOUT_INDEX)).error("overloaded", code="busy")
    result = chat(answer, "--json", "Hi")
    value = json.loads(result.stdout)
    assert result.exit_code == 3
    assert result.stderr == "Error: the provider reported an error: overloaded\n"
    assert value["end"] == "failed"
    assert value["error"]["type"] == "APIError"
    assert value["error"]["message"] == "overloaded"
    assert value["error"]["code"] == "busy"
    assert value["completion"]["choices"][0]["message"]["content"] == "Hello"
    assert [anomaly["rule"] for anomaly in value["anomalies"]] == ["CF210"]


# What goes wrong


def test_a_status_is_one_line_with_the_request_id() -> None:
    body = {"error": {"message": "Slow\ndown\x1b[2J.", "type": "rate_limit", "code": None}}
    result = chat(json_answer(body, 429, {"x-request-id": "req_7", "retry-after": "20"}))
    assert result.stdout == ""
    assert result.stderr == "Error: HTTP 429: Slow down\\x1b[2J. (request id req_7, retry after 20 s)\n"
    assert result.exit_code == 3


@pytest.mark.parametrize("url", ["localhost:1/v1", "http://[::1", "http://a b/", "ftp://x/", "http://exa\x1bmple/"])
def test_a_url_that_is_none_is_one_line(url: str) -> None:
    result = asked(url)
    assert result.stdout == ""
    assert result.exit_code in (1, 2)
    assert sum(line.startswith("Error: ") for line in result.stderr.splitlines()) == 1
    assert "\x1b" not in result.stderr


def test_a_base_with_a_query_is_one_too() -> None:
    with FakeProvider() as provider:
        assert asked(f"{provider.base_url}/?api-version=1").exit_code == 0
    (request,) = provider.requests
    assert (request.path, request.query) == ("/v1/chat/completions", "api-version=1")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--quiet",), ("--json",)], ids=["text", "quiet", "json"])
def test_ctrl_c_closes_the_request_and_shows_what_had_come(arguments: tuple[str, ...]) -> None:
    hello = OpenAnswer(*said("Hello"))
    with FakeProvider(hello.answer) as provider:
        with started("chat", provider.url, "-m", "m", *arguments, "Hi") as process:
            wait_until(lambda: hello.is_read_by(process))
            stdout, stderr, exit_code = press_ctrl_c(process)
        assert exit_code == 130
        assert provider.requests[0].answered.wait(PATIENCE)
        assert provider.requests[0].client_left
    if arguments == ("--json",):
        value = json.loads(stdout)
        assert (value["end"], value["error"]) == ("closed", None)
        assert value["completion"]["choices"][0]["message"]["content"] == "Hello"
    else:
        assert stdout.rstrip("\n") == "Hello"
        assert stderr.startswith("closed · ") if not arguments else not stderr
