"""The promises of the design, each with the test that owns it.

1. The result does not depend on how the bytes were cut: chunks, end, error, snapshot and anomalies.
2. Whatever a peer sends, nothing comes out but chunkfold's own errors, and a snapshot can always be dumped.
3. What is quoted from a peer is bounded and escaped: `test_secrets`, `test_secrets_in_values`, `test_terminal`.
4. The cost is linear in the bytes, and whatever an event holds, it costs little: `test_cost`.
5. An import goes down the layers, never up; the library loads pydantic and the standard library only, and a name of it
   no more than its layer: `test_layers`.
6. The public names are these and no others: `test_public_names`.
7. Files and functions are short: `test_layers`.
"""

import json
import os
import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest
from cases import each_case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from invariants import check
from invariants.endings import check_ended
from invariants.holding import plain
from invariants.readings import Options, Reading, curious_reading, whole_reading
from invariants.values import check_anomalies, check_error, check_text
from made_streams import EVENTS, STREAMS, Stream
from sent_events import places_in, sent_events

from chunkfold import RULES, Rule, ServerSentEvent, error_from_response, is_retryable, parse_payload
from chunkfold.testing import DONE, HEAD, chunk, cut_every, delta, event, fragment
from chunkfold.testing.wire import compact_json

often = settings(max_examples=40, deadline=None)  # no deadline: the machine may be busy

# What `json.dumps` cannot write: a string that stands for it, and its bytes.
UNWRITABLE = {
    "<5000 digits>": b"9" * 5000,
    "<4300 digits>": b"9" * 4300,
    "<infinite>": b"1e999",
    **{f"<{depth} lists>": b"[" * depth + b"]" * depth for depth in (150, 199, 200, 201, 260, 499, 501, 20_000)},
    **{f"<{depth} objects>": b'{"a":' * depth + b"1" + b"}" * depth for depth in (199, 201, 260, 499, 501, 20_000)},
}


def written(body: bytes) -> bytes:
    """The body with the bytes that are meant."""
    for name, meant in UNWRITABLE.items():
        body = body.replace(compact_json(name), meant)
    return body


def message(**fields: Any) -> bytes:
    """An event with a whole message instead of a delta."""
    return chunk({"index": 0, "message": fields, "finish_reason": "stop"})


STOP = delta("stop")

# Bodies that raised something else, or something different in another cut, or could not be dumped.
HOSTILE = {
    "a message whose content is a number": message(content=5),
    "a message whose tool call has an object as id": message(tool_calls=[{"id": {"a": 1}, "function": {"name": "f"}}]),
    "a message whose tool call has a list as name": message(tool_calls=[{"function": {"name": [1]}}]),
    "a message whose tool call has a number as arguments": message(tool_calls=[{"function": {"arguments": 1}}]),
    "a message whose tool call has a list as function": message(tool_calls=[{"index": "0", "function": []}]),
    "log probabilities that are first a number, then a list": (
        event({**HEAD, "choices": [{"logprobs": {"content": 5}}]})
        + event({**HEAD, "choices": [{"logprobs": {"content": []}}]})
    ),
    "a split pair beside reasoning details of no type": delta(reasoning_details=[{"type": [], "text": "\ud83d"}]),
    "a split pair beside reasoning details that are a number": delta(reasoning_details=5, content="\ud83d"),
    "a split pair beside reasoning details that are a text": delta(reasoning_details="text", content="\ud83d"),
    "an audio that is a list": delta(audio=[]),
    "a function call that is a text": delta(function_call="f"),
    "an unknown key `function` with deep arguments": delta(function={"arguments": "<260 lists>"}),
    "a tool call whose function is a list of deep values": delta(
        tool_calls=[{"index": 0, "function": ["<201 lists>", "<201 objects>"]}]
    ),
    "an error whose code is a list": event({"error": {"message": "x", "code": [1]}}),
    "an error whose type is an object": event({"error": {"message": "x", "type": {}}}),
    "an integer of 5,000 digits": event({**HEAD, "x": "<5000 digits>", "choices": []}),
    "an index of 4,300 digits": event({**HEAD, "choices": [{"index": "<4300 digits>", "delta": {"content": "a"}}]}),
    "usage that is infinite": event({**HEAD, "usage": {"prompt_tokens": "<infinite>", "total_tokens": "<infinite>"}}),
    "usage that is nested deeply": event({**HEAD, "usage": {"prompt_tokens_details": {"x": "<199 lists>"}}}),
    "20,000 lists": delta(content="<20000 lists>"),
    "20,000 objects beside a text": delta(content="a", x="<20000 objects>"),
    "half a pair in a key of a delta": delta(content="a", **{"\ud83d": "\ude00"}),
    "half a pair in a key of a chunk": event({**HEAD, "\ud83d": 1, "choices": []}),
    "half a pair in a key of an error": event({"error": {"message": "x", "\ud83d": 1}}),
    "halves of a pair in tool calls that have no index": delta(tool_calls=[fragment(None, arguments="\ud83d")] * 2),
    "an error field that is no JSON": b"error: {oops\n\n" + delta("stop", content="a"),
    "a body of another kind, with CRLF": b"<html>\r\n<p>\r\n</html>\r\n",
    "a body of another kind, after blank lines": b"\n\n\n{}",
    "a JSON error over many short lines": b'{\n"error":\n{\n"code":\n400\n}}\n',
}
GARBAGE = {
    "a BOM": b"\xef\xbb\xbf",
    "half a BOM": b"\xef\xbb",
    "blank lines": b"\n\r\n\r",
    "a comment": b": ping\n\n",
    "an unknown line": b"foo: bar\n",
    "the beginning of a field's name": b"dat",
    "an id": b"id: 1\n",
    "a name of its own": b"event: meta\n",
    "an error's name": b"event: error\n",
    "a line without a blank one behind it": delta(content="a")[:-1],
    "data that is cut": delta(content="cut")[:-9],
    "data over two lines": b'data: {"choices":\ndata: []}\n\n',
    "data that is no JSON": event(b"Internal Server Error"),
    "data that is cut inside JSON": event(b'{"choices":[{"delta"'),
    "bytes that are no UTF-8": event(b'{"choices":[{"delta":{"content":"h\xff"}}]}'),
    "an error field": b'error: {"code":429,"message":"slow down"}\n\n',
    "a null": event(None),
    "a list": event([1]),
    "an error": event({"error": {"message": "overloaded", "code": 503}}),
    "an error beside choices": event({"error": {"code": 502}, "choices": [{"delta": {"content": "a"}}]}),
    "a large text": delta(content="x" * 300),
    "half a pair": delta(content="\ud83d"),
    "the other half": delta(content="\ude00"),
    "a think tag": delta(content="<think>hm</think>a"),
    "[DONE]": DONE,
}
BODIES = {
    **{name: written(body) for name, body in HOSTILE.items()},
    **GARBAGE,
    **{rule.id: rule.example for rule in RULES},
}


# 1. The result does not depend on how the bytes were cut


OPTIONS = st.builds(
    Options,
    is_reset=st.booleans(),
    is_transformed=st.sampled_from([False, False, True]),
    strict=st.sampled_from([False, False, True]),
    # Sizes at which some of the bodies pass and some do not.
    max_event_size=st.none() | st.none() | st.integers(0, 400),
    max_output_size=st.none() | st.integers(0, 20),
    status_code=st.sampled_from([None] * 5 + [200, 503]),
)
SEVERAL = st.lists(st.sampled_from([*BODIES.values()]) | EVENTS, max_size=6)
LINE_ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
CUTS = st.lists(st.integers(0, 2000), min_size=1, max_size=12)


@often
@given(SEVERAL, LINE_ENDS, CUTS, st.sampled_from([None, -1, -2, -9]), OPTIONS)
@example([BODIES["a body of another kind, with CRLF"]], b"\n", [7], None, Options())
@example([BODIES["a JSON error over many short lines"]], b"\n", [12], None, Options(max_event_size=10))
def test_the_result_does_not_depend_on_the_cuts(
    bodies: list[bytes], line_end: bytes, cuts: list[int], last: int | None, options: Options
) -> None:
    check(b"".join(bodies).replace(b"\n", line_end)[:last], cuts, options)


@often
@given(STREAMS, CUTS)
def test_nor_does_that_of_a_stream_of_all_that_is_folded(stream: Stream, cuts: list[int]) -> None:
    check(b"".join(stream.pieces), cuts, Options(is_reset=stream.is_reset))


@each_case("name", BODIES)
def test_nor_does_any_one_body_read_byte_by_byte(name: str) -> None:
    """Except for the longest bodies, which repeat one byte almost throughout: these come in reads of 101 bytes."""
    body = delta(content="a") + BODIES[name] + STOP
    pieces = cut_every(body, 1 if len(body) < 10_000 else 101)
    for strict in (False, True):
        options = Options(strict=strict, max_event_size=100_000)
        whole, reading = whole_reading(body, options), Reading(options.parser(), options)
        reading.fed = [one for data in pieces for one in reading.parser.feed(data)]
        assert reading.end().result == whole.result
        assert plain(reading.chunks) == plain(whole.chunks)


READ_STDIN = """
import sys
from chunkfold import ChatCompletionParser

body = sys.stdin.buffer.read()
for strict in (False, True):
    parser = ChatCompletionParser(strict=strict)
    print(parser.feed(body), parser.close(), parser.error, parser.anomalies, parser.snapshot.model_dump_json())
"""


@pytest.mark.slow
def test_nor_does_it_depend_on_the_process() -> None:
    """Each process orders its sets in its own way; what is folded or noted first must not follow that order."""
    body = delta(
        role="",
        content=[],
        refusal="",
        zeta=1,
        tool_calls=[{"function": {"name": "", "a": 1, "b": 2}}],
        alpha=2,
        beta=3,
    )
    results = {
        subprocess.run(
            [sys.executable, "-c", READ_STDIN],
            input=body + STOP,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(results) == 1


# 2. Nothing but chunkfold's own errors, and snapshots that can be dumped


@each_case("name", BODIES)
def test_nothing_raises_but_our_errors(name: str) -> None:
    check(BODIES[name], [len(BODIES[name]) // 2])
    if not name.startswith("CF"):
        check(delta(content="a") + BODIES[name] + STOP + DONE, [61], Options(is_transformed=True))


@pytest.mark.slow
@each_case("rule", RULES, ids=lambda rule: rule.id)
def test_nor_do_transforms_of_the_examples_of_rules(rule: Rule) -> None:
    """These are whole streams already."""
    check(rule.example, [61], Options(is_transformed=True))


@often
@given(st.binary(max_size=60), st.sampled_from([b"", b"data: ", b"data: {", b"event: error\ndata: ", b"{"]))
def test_random_bytes_raise_nothing_but_our_errors(data: bytes, start: bytes) -> None:
    check(start + data + b"\n\n", [len(data) // 2])


TEXTS = st.text(st.characters(), max_size=4) | st.sampled_from(
    ["\ud83d", "\ude00", "", "0", " 5 ", "stop", "error", "{}"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXTS
    | st.sampled_from([0, -1, 400, 429, 2**63, 10**400, 1.0, 1e300, *UNWRITABLE])
)
KEYS = (
    st.sampled_from(["index", "id", "type", "name", "text", "content", "arguments", "function", "error", "code"])
    | TEXTS
)
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


@often
@given(ANY_JSON, st.sampled_from(["message", "error", "meta", "response.created"]))
def test_parse_payload_and_error_bodies_never_raise(payload: Any, name: str) -> None:
    """Beside `test_any_value_in_any_place`, which puts values into what providers send: any object at all."""
    data = written(compact_json(payload))
    parsed = parse_payload(ServerSentEvent(data, name))
    if parsed.error is not None:
        check_error(parsed.error)
    check_error(error_from_response(500, {}, data))


DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
FAR_ZONE = DATE.replace("GMT", "+" + "9" * 15)
HEADERS = st.dictionaries(
    st.sampled_from(["Retry-After", "retry-after-ms", "Date", "X-Request-Id"]),
    st.text(st.characters(max_codepoint=255), max_size=8)
    | st.sampled_from(["5", " 5 ", "-1", "nan", "1e999", DATE, DATE.replace("2015", "99999"), FAR_ZONE])
    | st.just(DATE.replace("GMT", "-0000")),  # a date without a zone
)


@often
@given(st.integers(100, 599), HEADERS, st.binary(max_size=20))
@example(429, {"Retry-After": "5\x1f"}, b"")  # a blank for `str.strip`, none for `float`
@example(429, {"Retry-After": FAR_ZONE, "Date": DATE}, b"")  # no timedelta is so long
def test_an_error_response_of_any_kind_is_an_error_of_ours(status: int, headers: dict[str, str], body: bytes) -> None:
    error = error_from_response(status, headers, body)
    assert error.status_code is not None
    assert error.retry_after is None or error.retry_after >= 0
    assert error.retryable is is_retryable(error)
    check_text(str(error))


# Whatever stands wherever in what a provider sends


PLAIN = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, "", "a", "null", [], [[]], [{}], [None], ["a"], {}, {"a": 1}, {"type": []}),
    "\x1c7",  # stripped by `str`, not by `int`
]


def read(payload: Any) -> None:
    """In a stream, twice, then as the data of an event named error; and as the body of a refusal."""
    pieces = [b"".join(map(event, (payload, PLAIN, payload))), event(payload, "error") + DONE]
    reading = curious_reading(pieces, Options(one_choice=True))
    check_ended(reading)
    check_error(error_from_response(500, {}, json.dumps(payload).encode()))
    check_anomalies(reading.parser.anomalies, sum(map(len, pieces)))
    snapshot = reading.parser.snapshot
    dumped = snapshot.model_dump_json()
    assert type(snapshot).model_validate(json.loads(dumped)).model_dump_json() == dumped


@pytest.mark.parametrize("group", range(8))
@pytest.mark.parametrize("step", [15 * len(VALUES), pytest.param(4, marks=pytest.mark.slow)])
def test_any_value_in_any_place(group: int, step: int) -> None:
    """Each value into one of so many places; places that are neighbors get values that are far apart, or none."""
    number = 0
    for payload in deepcopy(sent_events()[group::8]):  # `fuzz.made_bodies` uses the same objects
        for holder, key in list(places_in(payload)):
            before = holder[key]
            number += 101
            for value in VALUES[number % step :: step]:
                holder[key] = value
                read(payload)
            holder[key] = before
