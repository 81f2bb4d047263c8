"""Retries and fallbacks with stamina: the same request again before output, never after it, and no text twice.

What is judged is the tables of `docs/retries.md`, row by row and closed: each exception of chunkfold, httpx and httpx2
stands in one of them. What is retried is shown over real sockets, with the functions of the example where it has them.
stamina's testing mode lets nothing sleep.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import errors_of
import httpx
import httpx2
import pytest
from cases import each_case
from doc_blocks import tables_of, text_of
from errors_of import raised
from example_scripts import load
from fronts import (
    PATIENCE,
    by_turns,
    client_of,
    each_library,
    generators_of_httpx_are_not_ours,
    has_left,
    over_both_fronts,
)

import chunkfold
from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    Function,
    InvalidStreamError,
    connect,
    is_retryable,
)
from chunkfold.testing import DONE, Answer, FakeProvider, StreamBuilder, choice, chunk, delta, event, json_answer, paced

stamina = pytest.importorskip("stamina")

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_fronts
library = each_library

ATTEMPTS = 4
QUESTION = [{"role": "user", "content": "Count to four."}]


EXAMPLE = load("retry_and_fall_back")
wait_or_give_up: Callable[[BaseException], bool | float] = EXAMPLE.wait_or_give_up


@pytest.fixture(autouse=True)
def without_sleep() -> Iterator[None]:
    stamina.instrumentation.set_on_retry_hooks([])
    with stamina.set_testing(True, attempts=ATTEMPTS, cap=True):
        yield
    stamina.instrumentation.set_on_retry_hooks(None)


# What is judged


OURS, THEIRS = (
    [(raised, again) for raised, again, _ in tables_of(part, "what was raised", "retryable", "why")]
    for part in text_of("docs/retries.md").split("These are the exceptions that httpx")
)
OF_THE_CLIENTS = {name: again for raised, again in THEIRS for name in re.findall(r"`(\w+)`", raised)}


HEADERS = {"retry-after": "7"}
ROLE, STOP = delta(role="assistant", content=""), delta("stop")
HI = delta(content="Hi")
WHOLE = [HI, STOP, DONE]


failed = partial(errors_of.failed, headers=HEADERS)
stalled = partial(errors_of.stalled, headers=HEADERS)


def failing(**error: Any) -> bytes:
    return event({"error": {"message": "no", **error}}) + DONE


def read_twice() -> ChunkfoldError:
    stream = ChatCompletionStream(WHOLE, headers=HEADERS)
    stream.read()
    return raised(lambda: list(stream))


PER_MINUTE = "Allocated quota exceeded. See https://help.aliyun.com/zh/model-studio/error-code#token-limit"
RESET = ConnectionResetError("reset")
# One row of the first table each: what comes in it, and what each of them tells of the wait.
CASES: dict[str, tuple[list[ChunkfoldError], float | None]] = {
    "`APIStatusError` with 408, 409, 425, 429, 498 (Groq), or 500 and up, except 501": (
        [failed(b"{}", status_code=status) for status in (408, 409, 425, 429, 498, 500, 502, 503, 504, 529, 599)],
        7.0,
    ),
    "`APIStatusError` with 402 and `retry_after`": ([failed(b"{}", status_code=402)], 7.0),
    "`APIStatusError` with another status": (
        [failed(b"{}", status_code=status) for status in (301, 400, 401, 403, 404, 405, 413, 422, 451, 501)],
        7.0,
    ),
    "`APIError` without an equivalent status": ([failed(failing()), failed(failing(code="odd", type="odder"))], 7.0),
    "either, if its code or type means that the account is out of credit, such as `insufficient_quota`": (
        [
            failed(body, status_code=status)
            for code in ("insufficient_quota", "billing_hard_limit_reached")
            for error in ({"code": code}, {"type": code}, {"type": code, "code": None}, {"type": "requests", "code": code})
            for body, status in ((json.dumps({"error": error}).encode(), 429), (failing(**error), 200))
        ],
        7.0,
    ),
    "either, if `insufficient_quota` comes with Alibaba's message about tokens per minute, which links to "
    "`error-code#token-limit`": (
        [
            failed(body, status_code=status)
            for error in ({"code": "insufficient_quota", "message": PER_MINUTE},)
            for body, status in ((json.dumps({"error": error}).encode(), 429), (failing(**error), 200))
        ],
        7.0,
    ),
    "either, if its code or type is `context_length_exceeded` or `exceed_context_size_error`": (
        [
            failed(body, status_code=status)
            for word in ("context_length_exceeded", "exceed_context_size_error")
            for error in ({"code": word}, {"type": word, "code": 500})
            for body, status in ((json.dumps({"error": error}).encode(), 500), (failing(**error), 200))
        ],
        7.0,
    ),
    **{
        f"`APIStatusError` of a response with `x-should-retry: {told}`": (
            [failed(b"{}", status_code=status, headers=HEADERS | {"X-Should-Retry": told}) for status in (400, 429, 500)],
            7.0,
        )
        for told in ("true", "false")
    },
    "`IncompleteStreamError` of a stream that was empty or truncated": (
        [failed(b""), failed(b": hi\n\n"), failed(b"data: [DONE]\n\n"), failed(ROLE)],
        None,
    ),
    "`IncompleteStreamError` of a stream that still runs or that you left": (
        [failed(b"", left=True), failed(HI, left=True), raised(ChatCompletionParser(headers=HEADERS).completion)],
        None,
    ),
    "`StreamInterruptedError`, `StreamStalledError`": ([failed(b"", exc=RESET), failed(b": hi\n\n", exc=RESET), stalled()], None),
    "`InvalidStreamError`, `NotAnEventStreamError`, `InvalidChunkError`, `LimitExceededError`": (
        [
            failed(chunk(object="odd") + DONE, strict=True),
            failed(b"<html>"),
            failed(b"data: x\n\n"),
            failed(HI, max_event_size=9),
        ],
        None,
    ),
    "`ParseError`": ([raised(Function(arguments="{").parse), raised(Function(arguments="[]").parse)], None),
    "`StreamConsumedError`": ([read_twice()], None),
}  # fmt: skip
STATUSES = {
    408: [{"code": 408}, {"type": "request_timeout"}],
    409: [{"code": "409"}, {"type": "conflict"}],
    429: [{"code": 429}, {"code": "rate_limit_exceeded"}, {"type": "tokens"}, {"status": "RESOURCE_EXHAUSTED"}],
    500: [{"code": 500}, {"type": "server_error"}],
    503: [{"code": "503"}, {"type": "overloaded_error"}],
    400: [{"code": 400}, {"type": "invalid_request_error"}, {"code": "context_length_exceeded"}],
    401: [{"code": "invalid_api_key"}, {"type": "authentication_error"}],
    402: [{"code": 402}, {"code": "insufficient_balance"}],
    404: [{"code": "model_not_found"}],
}


def test_the_table_is_closed() -> None:
    named = {name for raised, _ in OURS for name in re.findall(r"`([A-Z]\w+)`", raised)}
    tree = {ChunkfoldError, *subclasses(ChunkfoldError)}
    assert named == {kind.__name__ for kind in tree if kind.__module__.startswith("chunkfold")} - {"ChunkfoldError"}
    rows = {raised for raised, _ in OURS}
    assert {type(error).__name__ for errors, _ in CASES.values() for error in errors} == named
    assert rows - CASES.keys() == {"`APIError` that is equivalent to one of those statuses", "any of them after output"}


def subclasses(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


@each_case("row", CASES)
def test_each_error_is_retried_as_the_table_says_and_knows_how_long_to_wait(row: str) -> None:
    errors, seconds = CASES[row]
    again = dict(OURS)[row] == "yes"
    for error in errors:
        assert type(error).__name__ in row or "either" in row
        assert is_retryable(error) is error.retryable is again
        assert error.retry_after == seconds
        assert wait_or_give_up(error) == ((seconds or True) if again else False)
        assert isinstance(wait_or_give_up(error), bool) == (seconds is None or not again)


@each_case("status", STATUSES)
def test_an_error_in_the_stream_is_judged_by_the_status_it_stands_for(status: int) -> None:
    same = failed(b"{}", status_code=status)
    for told in STATUSES[status]:
        error = failed(failing(**told))
        assert isinstance(error, APIError)
        assert not isinstance(error, APIStatusError)
        assert error.status_code == status
        assert is_retryable(error) is is_retryable(same)
        assert wait_or_give_up(error) == wait_or_give_up(same)


@pytest.mark.parametrize(
    ("wait", "told"), [("0", True), ("1", 1.0), ("60", 60.0), ("60.5", False), ("999999999", False)]
)
def test_a_wait_that_is_too_long_is_not_kept(wait: str, told: bool | float) -> None:
    error = chunkfold.error_from_response(429, {"retry-after": wait}, b"")
    assert error.retry_after == float(wait)
    assert wait_or_give_up(error) is told or wait_or_give_up(error) == told is not True


def test_each_error_of_the_clients_is_retried_as_the_table_says(library: Any) -> None:
    public = {value for value in vars(library).values() if isinstance(value, type) and issubclass(value, Exception)}
    tree = {*public, *(each for kind in public for each in subclasses(kind))}
    assert tree
    for kind in tree:
        error = kind.__new__(kind)  # some want a request or a response
        again = OF_THE_CLIENTS[kind.__name__] == "yes"
        assert is_retryable(error) is again
        assert is_retryable(error, after_output=True) is again
        assert wait_or_give_up(error) is again


def test_neither_a_consumers_own_exception_nor_a_cancellation_is_retried() -> None:
    assert not any(map(wait_or_give_up, (LookupError(), asyncio.CancelledError())))


def test_the_clients_have_all_that_the_table_names() -> None:
    names = OF_THE_CLIENTS.keys()
    assert names <= {*vars(httpx), *vars(httpx2)}
    assert names - vars(httpx).keys() <= {"SSEError"}


# What is retried


async def ask(client: Any, url: str, show: Callable[[str], object], **options: Any) -> str:
    """The text of the answer, by stamina around a function."""

    @stamina.retry(on=wait_or_give_up)
    async def ask_once() -> str:
        async with client.connect(url, json={"messages": QUESTION}, **options) as stream:
            async for text in stream.text_deltas():
                show(text)
        return str(stream.completion().text)

    return await ask_once()


GOOD = StreamBuilder().text("One, ", "two.").finish().done().answer()
BUSY = {"error": {"message": "The model is overloaded.", "code": 503}}
HELLO = b": hello\n\n"
A_MOMENT = 0.03  # seconds in which the client reads what a reset could cost it
BEFORE_OUTPUT: dict[str, Answer] = {
    "429 and how long to wait": json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after": "7"}),
    "500 and HTML": Answer(b"<html>", status=500, headers={"content-type": "text/html"}),
    "503": json_answer(BUSY, 503),
    "nothing and a cut": Answer([], ending="cut"),
    "a keep-alive and a cut": Answer(HELLO, ending="cut"),
    "a keep-alive and a reset": Answer([HELLO, A_MOMENT], ending="reset"),
    "a role and a cut": Answer(ROLE, ending="cut"),
    "no answer and a reset": Answer([], framing="raw", ending="reset"),
    "no answer and a cut": Answer([], framing="raw", ending="cut"),
    "an empty body": Answer(b""),
    "only [DONE]": Answer(DONE),
    "reasoning, which is not shown, and a cut": Answer(delta(reasoning="Hm"), ending="cut"),
    "an error in the stream": Answer(event(BUSY)),
    "an error as the body": json_answer(BUSY),
    "a role and an error": Answer([ROLE, event(BUSY)]),
    "a finish reason that means an error": Answer([delta("network_error"), event(BUSY)]),
}  # fmt: skip


@by_turns("what", BEFORE_OUTPUT)
async def test_before_output_the_same_request_is_sent_again(front: Any, library: Any, what: str) -> None:
    screen: list[str] = []
    with FakeProvider(BEFORE_OUTPUT[what], BEFORE_OUTPUT[what], GOOD) as provider:
        async with client_of(front, library) as client:
            assert await ask(client, provider.url, screen.append) == "One, two."
    assert screen == ["One, ", "two."]
    assert len(provider.requests) == 3
    assert {request.body for request in provider.requests} == {provider.requests[0].body}


async def test_a_stall_before_output_is_retried(front: Any) -> None:
    silent, pinging = Answer([HELLO], ending="open"), Answer(paced([HELLO] * 1000, pace=0.05), ending="open")
    screen: list[str] = []
    with FakeProvider(silent, pinging, GOOD) as provider:
        async with client_of(front, httpx, timeout=0.3) as client:
            assert await ask(client, provider.url, screen.append, progress_timeout=0.3) == "One, two."
    assert (screen, len(provider.requests)) == (["One, ", "two."], 3)


QUOTA = {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}
FIRST = delta(content="One, ")
ONCE: dict[str, tuple[Answer, type[ChunkfoldError]]] = {
    "400": (json_answer({"error": {"message": "no"}}, 400), APIStatusError),
    "401": (json_answer({"error": {"message": "no"}}, 401), APIStatusError),
    "404 and HTML": (Answer(b"<html>", status=404), APIStatusError),
    "429 without quota": (json_answer({"error": QUOTA}, 429, {"retry-after": "7"}), APIStatusError),
    "429 and an hour to wait": (json_answer({}, 429, {"retry-after": "3600"}), APIStatusError),
    "a redirect": (Answer(b"", status=307, headers={"location": "/"}), APIStatusError),
    "400 in the stream": (Answer(failing(code=400)), APIError),
    "no quota in the stream": (Answer(event({"error": QUOTA})), APIError),
    "an error that tells nothing": (Answer(event({"error": "no"})), APIError),
    "HTML": (Answer(b"<html>"), InvalidStreamError),
    "no chunk": (Answer(event("no")), InvalidStreamError),
    "a large event": (Answer(delta(content="x" * 5000)), InvalidStreamError),
    "a cut after output": (Answer(FIRST, ending="cut"), chunkfold.StreamInterruptedError),
    "a reset after output": (Answer([FIRST, A_MOMENT], ending="reset"), chunkfold.StreamInterruptedError),
    "an end after output": (Answer(FIRST), chunkfold.IncompleteStreamError),
    "an error after output": (Answer([FIRST, event(BUSY)]), APIError),
}  # fmt: skip


@by_turns("what", ONCE)
async def test_what_will_not_pass_and_what_came_after_output_is_sent_once(front: Any, library: Any, what: str) -> None:
    answer, kind = ONCE[what]
    screen: list[str] = []
    with FakeProvider(answer, GOOD) as provider:
        async with client_of(front, library) as client:
            with pytest.raises(kind) as caught:
                await ask(client, provider.url, screen.append, max_event_size=4000)
    assert len(provider.requests) == 1
    assert caught.value.snapshot is not None
    assert "".join(screen) == caught.value.snapshot.text


def test_a_generator_that_is_left_is_not_begun_again() -> None:
    @stamina.retry(on=wait_or_give_up)
    def texts(client: httpx.Client, url: str) -> Iterator[str]:
        with connect(client, "POST", url, json={}) as stream:
            yield from stream.text_deltas()

    with FakeProvider(BEFORE_OUTPUT["503"], Answer(FIRST, ending="open"), GOOD) as provider:
        with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
            for text in texts(client, provider.url):
                assert text == "One, "
                break
        assert [has_left(request) for request in provider.requests] == [False, True]


async def test_the_wait_is_the_one_that_the_provider_asks_for(front: Any, library: Any) -> None:
    waits: list[float] = []
    stamina.instrumentation.set_on_retry_hooks([lambda details: waits.append(details.wait_for)])
    refused = json_answer({}, 429, {"retry-after-ms": "30", "retry-after": "7"})
    failed_inside = Answer(event(BUSY), headers={"retry-after-ms": "50"})
    with FakeProvider(refused, failed_inside, GOOD) as provider, stamina.set_testing(False):
        async with client_of(front, library) as client:
            started = time.monotonic()
            assert await ask(client, provider.url, lambda text: None) == "One, two."
    assert waits == pytest.approx([0.03, 0.05])
    assert time.monotonic() - started >= 0.08  # at least: a busy machine only takes longer


# The fallback of the example


def fall_back(first: Any, second: Any, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, list[Any]]:
    """What is returned, what was shown, and what the second provider was sent."""
    with FakeProvider(*first) as one, FakeProvider(*second) as other, httpx.Client(trust_env=False) as client:
        text = EXAMPLE.answer(client, one.url, other.url, QUESTION)
    shown = re.sub(r"\n.*\n  -> the second provider continues\n", "", capsys.readouterr().out)
    return text, shown, [request.json["messages"] for request in other.requests]


REST = StreamBuilder().text("three, ", "four.").finish().done().answer()
ONE_TWO = StreamBuilder().text("One, ", "two, ")
AFTER_OUTPUT: dict[str, Answer] = {
    "cut": ONE_TWO.answer(ending="cut"),
    "reset": Answer([*ONE_TWO, A_MOMENT], ending="reset"),
    "end": ONE_TWO.answer(),
    "error": ONE_TWO.event(BUSY).answer(),
    "error beside text": Answer([FIRST, chunk(choice(content="two, "), **BUSY)]),
}


@pytest.mark.parametrize("what", AFTER_OUTPUT)
def test_after_output_another_provider_goes_on(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, shown, asked = fall_back([AFTER_OUTPUT[what]], [BEFORE_OUTPUT["503"], REST], capsys)
    assert text == shown == "One, two, three, four."
    assert asked == [[*QUESTION, {"role": "assistant", "content": "One, two, "}]] * 2


def test_all_that_can_happen_before_and_after_output_gives_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("429 and how long to wait", "a keep-alive and a reset", "an error in the stream")
    text, shown, asked = fall_back([*(BEFORE_OUTPUT[name] for name in names), AFTER_OUTPUT["cut"]], [REST], capsys)
    assert text == shown == "One, two, three, four."
    assert asked == [[*QUESTION, {"role": "assistant", "content": "One, two, "}]]


@pytest.mark.parametrize(
    "first",
    [
        [BEFORE_OUTPUT["503"]] * ATTEMPTS,
        [json_answer({}, 429, {"retry-after": "3600"})],
        [Answer(delta(reasoning="Hm"), ending="cut")] * ATTEMPTS,
        [BEFORE_OUTPUT["no answer and a reset"]] * ATTEMPTS,
    ],
    ids=["always busy", "busy for an hour", "reasoning and a cut", "never there"],
)
def test_without_text_another_provider_begins_anew(first: list[Answer], capsys: pytest.CaptureFixture[str]) -> None:
    with FakeProvider(*first, Answer(b"", status=400)) as one, FakeProvider(GOOD) as other:
        with httpx.Client(trust_env=False) as client:
            assert EXAMPLE.answer(client, one.url, other.url, QUESTION) == "One, two."
        assert len(one.requests) == len(first)
    assert capsys.readouterr().out.endswith("\nOne, two.")
    assert [request.json["messages"] for request in other.requests] == [QUESTION]


@each_case("what", [name for name, (_, kind) in ONCE.items() if "output" not in name and "wait" not in name
                                  and name != "a large event"])  # fmt: skip
def test_what_will_not_pass_is_no_reason_to_ask_another(what: str) -> None:
    answer, kind = ONCE[what]
    with FakeProvider(answer) as one, FakeProvider() as other, httpx.Client(trust_env=False) as client:
        with pytest.raises(kind):
            EXAMPLE.answer(client, one.url, other.url, QUESTION)
        assert (len(one.requests), len(other.requests)) == (1, 0)


def test_where_both_break_off_the_second_ones_error_is_raised(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeProvider(AFTER_OUTPUT["cut"]) as one, FakeProvider(StreamBuilder().text("three").event(BUSY)) as other:
        with httpx.Client(trust_env=False) as client, pytest.raises(APIError, match="overloaded"):
            EXAMPLE.answer(client, one.url, other.url, QUESTION)
        assert (len(one.requests), len(other.requests)) == (1, 1)
    assert capsys.readouterr().out.endswith("\nthree")
