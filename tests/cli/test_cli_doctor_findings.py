"""What `chunkfold doctor` finds at providers that do not keep to the protocol."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from command_line import PATIENCE
from doctor_command import GOOD, NAMES, PARIS, STOP, Given, called, check_of, doctor, findings, provider, refusal, text

from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, StreamBuilder, chunk, delta, fragment, usage
from chunkfold.testing.received import read_request

SAME_ID = StreamBuilder().tool_call(*PARIS, id="a").tool_call(*PARIS, id="a").finish().done()
HTML = Answer(b"<html>oops</html>", 500, headers={"content-type": "text/html"})
BAD: list[tuple[str, Given, str, str]] = [
    ("text", Answer(DONE), "fail", "the stream was empty"),
    ("text", StreamBuilder().error("overloaded"), "fail", "the stream failed"),
    ("text", called(PARIS), "fail", "received no text; the stream finished"),
    ("text", text(" ", end=delta("length") + DONE), "fail", "received no text; the stream finished"),
    ("text", StreamBuilder("deepseek").reasoning("Hm").finish("length").done(), "pass", "received only reasoning, up to the token limit"),
    ("tools", called(("get_weather", '{"town":"Paris"}')), "fail", "the arguments of call 0 do not fit the tool"),
    ("tools", called(("weather", '{"city":"Paris"}')), "fail", "call 0 has another name than get_weather"),
    ("tools", text('<tool>get_weather{"city":"Paris"}</tool>'), "fail", "the call arrived as text"),
    ("tools", HTML, "fail", "the stream failed"),
    ("tools", text("It is sunny."), "skipped", "the model called no tool; it said"),
    ("tools", called(("get_weather", '{"ci'), reason="length"), "skipped", "the token limit cut the answer"),
    ("tools", refusal(400, "no tools"), "unsupported", "the provider refuses the request"),
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
    ("choices", StreamBuilder().text("Hello!").text(" ", choice=1).finish().finish(choice=1).done(), "fail", "received no text in choice 1"),
    ("choices", StreamBuilder().text("A").text("B", choice=2).finish().finish(choice=2).done(), "fail", "expected choices 0 and 1, received"),
    ("usage", text("Hello"), "fail", "received no usage, although stream_options.include_usage requested it"),
    ("usage", text("Hello", end=STOP + chunk(usage=usage(0, 7)) + DONE), "fail", "received usage without prompt or completion tokens"),
    ("usage", text("Hello", end=STOP + chunk(usage=usage(5, 7, total_tokens=9)) + DONE), "fail", "the total is less than prompt + completion"),
    ("usage", refusal(422), "unsupported", "the provider refuses the request"),
    ("structured-output", text('```json\n{"name":"Tokyo","country":"Japan"}\n```'), "fail", "the text does not fit the schema"),
    ("structured-output", text('{"name":"Tokyo"}'), "fail", "the text does not fit the schema"),
    ("structured-output", text('{"name":"To', end=delta("length") + DONE), "skipped", "the token limit cut the answer"),
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
    headings = [f"{name}: {result}" for name, (_, result) in named.items()]  # and none for checks that passed
    assert re.findall("^### (.*)$", shown, re.MULTILINE) == headings


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
        r"left after .* s; the provider stopped .* s later; the next request failed", found["early-close"]["reason"]
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
