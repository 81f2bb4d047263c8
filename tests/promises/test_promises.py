"""The promises of the design, each with the test that owns it.

1. The result does not depend on how the bytes were cut: chunks, end, error, snapshot and anomalies.
2. Whatever a peer sends, nothing comes out but chunkfold's own errors, and a snapshot can always be dumped.
3. What is quoted from a peer is bounded and escaped.
4. The cost is linear in the bytes.
5. An import goes down the layers, never up; the library loads pydantic and the standard library only,
   and a name of it no more than its layer.
6. The public names are these and no others.
7. Files and functions are short.
"""

import ast
import importlib
import json
import os
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import FrozenInstanceError, fields, is_dataclass
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import pytest
from cases import each_case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from invariants import (
    Options,
    Reading,
    check,
    check_anomalies,
    check_ended,
    check_error,
    check_text,
    curious_reading,
    plain,
    whole_reading,
)
from linear import assert_linear
from made_streams import STREAMS, Stream, custom
from own_process import loaded_by
from parsed_bodies import parsed
from pydantic import TypeAdapter

import chunkfold
import chunkfold.errors
from chunkfold import (
    RULES,
    ChatCompletionParser,
    ChunkfoldError,
    LimitExceededError,
    ServerSentEvent,
    error_from_response,
    is_retryable,
    parse_payload,
)
from chunkfold.models.base import Model
from chunkfold.testing import DONE, HEAD, bytewise, choice, chunk, cut, cut_every, delta, event, fragment, usage
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
}
REALISTIC = {
    "a role": delta(role="assistant", content=""),
    "a text": delta(content="Hé 号 😀"),
    "another choice": delta(index=1, content="b"),
    "a think tag": delta(content="<think>hm</think>a"),
    "reasoning": delta(reasoning_content="hm"),
    "reasoning details": delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "hm"}]),
    "a tool call": delta(tool_calls=[fragment(0, "call_a", "f", '{"a"')]),
    "its arguments": delta(tool_calls=[fragment(0, arguments=":1}")]),
    "a tool call by id alone": delta(tool_calls=[fragment(None, "call_b", "g", {"b": 2})]),
    "a finish reason": STOP,
    "a finish reason for another choice": delta("length", 1),
    "usage": chunk(usage=usage(1, 2)),
    "[DONE]": DONE,
}
BODIES = {
    **{name: written(body) for name, body in HOSTILE.items()},
    **GARBAGE,
    **REALISTIC,
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
SEVERAL = st.lists(st.sampled_from(sorted(BODIES)), max_size=6)
LINE_ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
CUTS = st.lists(st.integers(0, 2000), min_size=1, max_size=12)


@settings(often, max_examples=80)
@given(SEVERAL, LINE_ENDS, CUTS, st.sampled_from([None, -1, -2, -9]), OPTIONS)
@example(["a body of another kind, with CRLF"], b"\n", [7], None, Options())
@example(["a JSON error over many short lines"], b"\n", [12], None, Options(max_event_size=10))
def test_the_result_does_not_depend_on_the_cuts(
    names: list[str], line_end: bytes, cuts: list[int], last: int | None, options: Options
) -> None:
    check(b"".join(BODIES[name] for name in names).replace(b"\n", line_end)[:last], cuts, options)


@often
@given(STREAMS, CUTS)
def test_nor_does_that_of_a_stream_of_all_that_is_folded(stream: Stream, cuts: list[int]) -> None:
    check(b"".join(stream.pieces), cuts, Options(is_reset=stream.is_reset))


@each_case("name", BODIES)
def test_nor_does_any_one_body_read_byte_by_byte(name: str) -> None:
    body = delta(content="a") + BODIES[name] + STOP
    for strict in (False, True):
        options = Options(strict=strict, max_event_size=100_000)
        whole, reading = whole_reading(body, options), Reading(options.parser(), options)
        reading.fed = [one for byte in bytewise(body) for one in reading.parser.feed(byte)]
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
    check(delta(content="a") + BODIES[name] + STOP + DONE, [61, 300], Options(is_transformed=True))


@often
@given(st.binary(max_size=60), st.sampled_from([b"", b"data: ", b"data: {", b"event: error\ndata: ", b"{"]))
def test_random_bytes_raise_nothing_but_our_errors(data: bytes, start: bytes) -> None:
    check(start + data + b"\n\n", [len(data) // 2])


EDITS = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 12), st.binary(max_size=4)), min_size=1, max_size=4)


@often
@given(st.lists(st.sampled_from(sorted(BODIES.values())), min_size=1, max_size=3), EDITS)
def test_mutated_bodies_raise_nothing_but_our_errors(bodies: list[bytes], edits: list[tuple[int, int, bytes]]) -> None:
    body = b"".join(bodies)
    for start, removed, inserted in edits:
        place = start % (len(body) + 1)
        body = body[:place] + inserted + body[place + removed :]
    check(body, [len(body) // 2])


# A chunk with every field that chunkfold knows; the other tables of this file name the deviations.
EVERYTHING: dict[str, Any] = json.loads(
    chunk(
        {
            **choice(
                "stop",
                role="assistant",
                content="a",
                refusal="no",
                reasoning="hm",
                reasoning_content="hm",
                reasoning_details=[{"type": "reasoning.text", "index": 0, "id": "r", "text": "hm", "summary": "h"}],
                tool_calls=[fragment(0, "call_a", "f", "{}"), custom(1, "call_b", "g", "x")],
                function_call={"name": "f", "arguments": "{}"},
                audio={"id": "audio_1", "data": "AAAA", "transcript": "a", "expires_at": 1},
                images=[{"type": "image_url", "image_url": {"url": "data:,"}}],
                annotations=[{"type": "url_citation", "url_citation": {"title": "t", "url": "u", "start_index": 0}}],
                unknown=1,
            ),
            "logprobs": {
                "content": [{"token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": [{"token": "a"}]}],
                "refusal": [],
            },
            "unknown": 1,
        },
        {
            "index": 1,
            "message": {
                "role": "assistant",
                "content": "a",
                "reasoning_content": "hm",
                "audio": {"data": "AAAA"},
                "unknown": 1,
                "tool_calls": [{"id": "call_c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                "function_call": {"name": "f", "arguments": "{}"},
            },
            "finish_reason": "stop",
        },
        usage=usage(1, 2)
        | {
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
            "unknown": 1,
        },
        service_tier="default",
        system_fingerprint="fp",
        x_groq={"id": "g", "usage": {"prompt_tokens": 1}},
        unknown=1,
    ).removeprefix(b"data: ")
)
ERRORS: dict[str, Any] = {
    "error": {"message": "m", "type": "t", "param": "p", "code": 400, "status": "s", "metadata": {"error_type": "t"}},
    "base_resp": {"status_code": 1002, "status_msg": "rate limit"},
    "object": "error",
    "detail": [{"msg": "m"}],
    "code": 400,
}
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
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
DROPPED = "<dropped>"
TEMPLATES = {"chunk": EVERYTHING, "errors": ERRORS}

Place = tuple[str | int, ...]


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value but the outermost."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from places(item, (*place, key))


class Strange(NamedTuple):
    """A template with other values in some places; small, so that a failing example can be read."""

    template: str
    edits: list[tuple[Place, Any]]

    @property
    def payload(self) -> Any:
        payload = deepcopy(TEMPLATES[self.template])
        for place, value in self.edits:
            holder = payload
            with suppress(IndexError, KeyError, TypeError):  # an earlier edit may have taken the place away
                for key in place[:-1]:
                    holder = holder[key]
                holder[place[-1]] = value
                if value == DROPPED:
                    del holder[place[-1]]
        return payload


def strange(template: str) -> st.SearchStrategy[Strange]:
    edits = st.tuples(st.sampled_from(list(places(TEMPLATES[template]))), VALUES | st.just(DROPPED))
    return st.builds(Strange, st.just(template), st.lists(edits, min_size=1, max_size=3))


STRANGE = strange("chunk") | strange("errors")


@often
@given(
    st.lists(STRANGE, min_size=1, max_size=3), st.sampled_from(["message", "message", "error", "meta"]), st.booleans()
)
def test_strange_values_raise_nothing_but_our_errors(several: list[Strange], name: str, transformed: bool) -> None:
    body = written(b"".join(event(compact_json(one.payload), name) for one in several))
    body = event(EVERYTHING) + body + event(EVERYTHING)
    reading = curious_reading(cut(body, len(body) // 2), Options(is_transformed=transformed))
    check_ended(reading)
    check_anomalies(reading.parser.anomalies, len(body))
    for one in reading.chunks:
        one.model_dump_json()


@often
@given(STRANGE.map(lambda one: one.payload) | VALUES, st.sampled_from(["message", "error", "meta", "response.created"]))
def test_parse_payload_and_error_bodies_never_raise(payload: Any, name: str) -> None:
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


# 3. What is quoted from a peer is bounded and escaped: see `test_secrets`, `test_secrets_in_values`, `test_terminal`

# 4. The cost is linear in the bytes


class Growth(NamedTuple):
    """A body for a size, how much of it comes with each read, and the smaller of the two sizes."""

    body: Callable[[int], bytes]
    read_size: int = 4096
    small: int = 150


KILOBYTE = "x" * 1024  # in pieces of this size, copying what came before costs more than reading what is new
TOKEN = {"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}
FIRST_CALL = delta(tool_calls=[fragment(0, "call_a", "f", "")])


def calls(*fragments: Any) -> bytes:
    """A chunk with fragments of tool calls, by what `fragment` takes."""
    return delta(tool_calls=[fragment(*one) for one in fragments])


BIG_CALL = calls((0, "big", "f", '{"x":"'))


def tens(n: int) -> list[range]:
    """The numbers from 0 to n, ten to a chunk: so what finding each of them costs is not lost in what a chunk costs."""
    return [range(start, start + 10) for start in range(0, n, 10)]


def interleaved(n: int) -> bytes:
    """As many calls, each in three fragments."""
    texts = ("", '{"x":', "1}")
    return b"".join(
        calls(*((i, f"c{i}" if not at else None, "f" if not at else None, text) for i in ten))
        for at, text in enumerate(texts)
        for ten in tens(n)
    )


def finishing(n: int) -> bytes:
    """As many calls, and then as many finish reasons."""
    return b"".join(calls(*((i, f"c{i}", "f", "{}") for i in ten)) for ten in tens(n)) + delta("tool_calls") * n


GROWTH = {
    "text": Growth(lambda n: delta(content=KILOBYTE) * n),
    "text in small reads": Growth(lambda n: delta(content="word ") * n, 16),
    "text after the first half of a pair": Growth(lambda n: delta(content="\ud83d", index=1) + delta(content="a") * n),
    "reasoning": Growth(lambda n: delta(reasoning_content=KILOBYTE) * n),
    "reasoning details": Growth(lambda n: delta(reasoning_details=[{"type": "reasoning.text", "text": KILOBYTE}]) * n),
    "audio": Growth(lambda n: delta(audio={"data": "AAAA" * 256, "transcript": KILOBYTE}) * n),
    "arguments of one tool call": Growth(lambda n: FIRST_CALL + delta(tool_calls=[fragment(0, arguments=KILOBYTE)]) * n),
    "arguments of the legacy function call": Growth(lambda n: delta(function_call={"arguments": KILOBYTE}) * n),
    "a name in pieces": Growth(lambda n: FIRST_CALL + delta(tool_calls=[fragment(0, name=KILOBYTE)]) * n),
    "many tool calls": Growth(
        lambda n: b"".join(delta(tool_calls=[fragment(i, f"c{i}", "f") for i in ten]) for ten in tens(3 * n))
    ),
    "many tool calls without id and index": Growth(
        lambda n: b"".join(delta(tool_calls=[fragment(None, name="f", arguments="{}")] * len(ten)) for ten in tens(3 * n))
    ),
    "many choices": Growth(
        lambda n: b"".join(event({"choices": [{"index": i, "delta": {"content": "a"}} for i in ten]}) for ten in tens(3 * n))
    ),
    "many choices in one chunk": Growth(
        lambda n: event({"choices": [{"index": i, "delta": {"content": "a"}} for i in range(n)]})
    ),
    "values of a wrong type in one chunk": Growth(lambda n: delta(content="a", annotations=[1] * n)),
    "tool calls of a wrong type in one chunk": Growth(lambda n: delta(tool_calls=[{**fragment(i), "type": 5} for i in range(n)])),
    "an id that changes": Growth(lambda n: event({**HEAD, "id": "x" * 100 * n}) + event({**HEAD, "id": "y"}) * n),
    "usage in every chunk": Growth(lambda n: chunk(usage={"prompt_tokens": 1}) * n),
    "one huge event in small reads": Growth(lambda n: delta(content="x" * 400 * n), 16),
    "one event of many lines in small reads": Growth(lambda n: b"data: \n" * 30 * n + delta(content="a"), 16),
    "one huge comment in small reads": Growth(lambda n: b":" + b"x" * 400 * n + b"\n\n", 16),
    "empty lines": Growth(lambda n: delta(content="a") + b"\n" * 100 * n, 512),
    "empty lines before anything else, in small reads": Growth(lambda n: b"\n" * 150 * n + delta(content="a"), 16),
    "comments": Growth(lambda n: delta(content="a") + b": ping\n\n" * 30 * n),
    "comments inside one block": Growth(lambda n: b"data: \n" + b": ping\n" * 50 * n),
    "another kind of body in small reads": Growth(lambda n: b"<p>lorem ipsum</p>\r\n" * 15 * n, 16),
    "events in one block": Growth(lambda n: delta(content="a").replace(b"\n\n", b"\n") * n, 2**16, 900),
    "calls in one chunk": Growth(lambda n: delta(tool_calls=[{"index": i, "id": f"c{i}"} for i in range(n)]), 2**16, 900),
    "calls without an index in one chunk": Growth(lambda n: delta(tool_calls=[{"id": f"c{i}", "function": {"name": "f"}} for i in range(n)]), 2**16, 900),
    "ids of one call": Growth(lambda n: delta(tool_calls=[{"index": 0, "id": f"c{i}"} for i in range(n)]), 2**16, 900),
    "annotations in one chunk": Growth(lambda n: delta(annotations=[{} for _ in range(n)]), 2**16, 900),
    "log probabilities": Growth(lambda n: chunk({**choice(), "logprobs": {"content": [TOKEN] * n}}), 2**16, 3_000),
    "new reasoning details": Growth(lambda n: delta(reasoning_details=[{"index": i} for i in range(n)]), 2**16, 900),
    "chunks with a new reasoning detail each": Growth(lambda n: b"".join(delta(reasoning_details=[{"index": i, "text": "x"}]) for i in range(n)), 2**16, 3_000),
    "content parts": Growth(lambda n: delta(content=[{"type": "text", "text": "x"}] * 10) * (n // 10), 2**16, 3_000),
    "chunks with a new key each": Growth(lambda n: b"".join(chunk(**{f"key{i}": i}) for i in range(n)), 2**16, 3_000),
    "chunks with a new key of usage each": Growth(lambda n: b"".join(chunk(usage={f"key{i}": i}) for i in range(n)), 2**16, 3_000),
    # Of more the footprint is measured, once or twice, and of a tenth it is not.
    "chunks with a new call each": Growth(lambda n: b"".join(calls((i, f"call_{i}", "f", "")) for i in range(n)), 2**16, 900),
    "text and reasoning by turns": Growth(lambda n: (delta(content=KILOBYTE) + delta(reasoning="x")) * n),
    "arguments before the name": Growth(lambda n: calls((0, "a", None, "{")) + calls((0, None, None, KILOBYTE)) * n),
    "interleaved calls": Growth(interleaved),
    "many tool calls without ids": Growth(lambda n: b"".join(calls(*((i, None, "f", "{}") for i in ten)) for ten in tens(n))),
    "new calls and a big old one by turns": Growth(lambda n: BIG_CALL + b"".join(calls((i + 1, f"c{i}", "f", "{}"), (0, None, None, KILOBYTE)) for i in range(n))),
    "new calls and a whole old one by turns": Growth(lambda n: calls((0, "big", "f", f'"{KILOBYTE * n}"')) + b"".join(calls((i + 1, f"c{i}", "f", "{}"), (0, None, None, " ")) for i in range(n))),
    "new calls without a name and a big old one by turns": Growth(lambda n: BIG_CALL + b"".join(calls((i + 1, f"c{i}", None, None), (0, None, None, KILOBYTE)) for i in range(n))),
    "audio cut anywhere": Growth(lambda n: delta(audio={"data": "A" * 1023}) * n),
    "images": Growth(lambda n: delta(images=[{"url": KILOBYTE}]) * n),
    "annotations": Growth(lambda n: delta(annotations=[{"type": KILOBYTE}]) * n),
    "usage that grows": Growth(lambda n: b"".join(chunk(usage={"prompt_tokens": count}) for count in range(n))),
    "anomalies": Growth(lambda n: delta(role="", content="a") * n),
    "many calls and many finish reasons": Growth(finishing),
    "a finish reason with every fragment": Growth(lambda n: BIG_CALL + delta("tool_calls", tool_calls=[fragment(0, None, None, KILOBYTE)]) * n),
    # Was once wrong: every chunk's usage has all of it copied, to see whether it changes.
    "usage of many keys": Growth(lambda n: chunk(usage={f"k{i}": i for i in range(n)}) + chunk(usage={"prompt_tokens": 1}) * n),
}  # fmt: skip


def read_whole(body: bytes, read_size: int) -> str:
    parser = parsed(body, read_size)
    assert not isinstance(parser.error, LimitExceededError)
    return parser.snapshot.model_dump_json()


def read_events(body: bytes, read_size: int = 4096, *, late: bool = False) -> str:
    """Read a body with its events, or with one look at them at its end; what the last adds up to."""
    parser = ChatCompletionParser()
    last: list[Any] = [] if late else parser.events()
    for data in cut_every(body, read_size):
        parser.feed(data)
        last = last if late else parser.events() or last
    parser.feed(DONE)
    last = parser.events() or last
    return str([getattr(one, "snapshot", one) for one in last[-1:]])


@pytest.mark.slow
@pytest.mark.parametrize(
    "read", [read_whole, read_events, partial(read_events, late=True)], ids=["whole", "events", "late"]
)
@pytest.mark.parametrize("growth", GROWTH.values(), ids=GROWTH)
def test_ten_times_the_body_costs_ten_times_as_much(growth: Growth, read: Callable[[bytes, int], str]) -> None:
    assert_linear(lambda n: partial(read, growth.body(n), growth.read_size), growth.small)


def many_texts(n: int) -> bytes:
    """As many deltas, a hundred to a chunk."""
    return chunk(*[choice(content="ab")] * 100) * (n // 100)


def many_fragments(n: int) -> bytes:
    """As many fragments for a thousand calls by turns, a hundred to a chunk."""
    starts = b"".join(calls(*((i, f"c{i}", "f", "") for i in ten)) for ten in tens(1000))
    chunks = [calls(*((i, None, None, "ab") for i in range(start, start + 100))) for start in range(0, 1000, 100)]
    return starts + b"".join(chunks) * (n // 1000)


@pytest.mark.parametrize("body", [many_texts, many_fragments])
@pytest.mark.slow
def test_100_000_deltas(body: Callable[[int], bytes]) -> None:
    """Every delta can say what it adds up to, and none of them holds it."""
    assert_linear(lambda n: partial(read_events, body(n)), 10_000)


# 5. An import goes down the layers

PACKAGE = Path(chunkfold.__file__).parent

# From top to bottom: an import goes down this list, one for types alone too.
LAYERS = (
    "chunkfold",
    *("stream", "parser", "transforms", "events", "fold", "wire", "models", "json_text", "event_stream"),
    *("errors", "anomaly_log", "anomalies", "rule_examples", "arguments", "excerpts"),
)
# They import the core and are below no layer, so never imported by it.
BESIDE = {"archive", "testing", "cli", "otel", "recording", "report"}
KNOWS_IO = "stream"  # the package that reads responses
IO = {"anyio", "asyncio", "concurrent", "httpx", "httpx2", "multiprocessing", "selectors", "socket", "ssl", "threading"}


def module_name(path: Path) -> str:
    """Like "models.chunk"; the package itself is "chunkfold"."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "chunkfold"


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
CORE = {name: path for name, path in MODULES.items() if name.partition(".")[0] not in BESIDE}


def imported(path: Path) -> set[str]:
    """The modules that a module imports, also inside functions, and for type checkers only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not followed here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name.removeprefix("chunkfold.") in MODULES else str(node.module) for name in names}
    return found


def own_imports(name: str) -> set[str]:
    """Those of chunkfold, without the package's name."""
    ours = {found for found in imported(CORE[name]) if found.partition(".")[0] == "chunkfold"}
    return {found.removeprefix("chunkfold.") for found in ours}


def place(name: str) -> int:
    """Where a module stands among the layers."""
    return LAYERS.index(name.partition(".")[0])


@each_case("name", CORE)
def test_imports_go_down_the_layers(name: str) -> None:
    assert not {found for found in own_imports(name) - BESIDE if place(found) < place(name)}


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: own_imports(name) - {"chunkfold"} for name in CORE}
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, which shows the circle


@each_case("name", sorted(CORE))
def test_only_the_stream_knows_of_io(name: str) -> None:
    if name.partition(".")[0] != KNOWS_IO:
        assert not {found.partition(".")[0] for found in imported(CORE[name])} & IO


def test_importing_chunkfold_alone_loads_nothing_else() -> None:
    assert {name for name in loaded_by("import chunkfold") if name.startswith("chunkfold")} == {"chunkfold"}
    assert "pydantic" not in loaded_by("import chunkfold; chunkfold.ChunkfoldError")


def test_using_chunkfold_loads_pydantic_and_the_standard_library_only() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("from chunkfold import *")}
    assert "chunkfold" in loaded
    assert loaded.isdisjoint({"httpx", "httpx2", "httpcore", "click", "rich", "anyio", "asyncio", "opentelemetry"})
    pydantic = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
    foreign = {name for name in loaded - sys.stdlib_module_names if not name.startswith("_sysconfigdata")}
    assert foreign <= {"chunkfold", *pydantic}


# 6. The public names

PUBLIC = [
    "APIError", "APIStatusError", "Annotation", "AnnotationReceived", "AnnotationURLCitation", "Anomaly",
    "AnomalyNoted", "AsyncChatCompletionStream", "AudioDelta", "AudioPart", "ChatCompletion",
    "ChatCompletionAccumulator", "ChatCompletionAudio", "ChatCompletionChunk", "ChatCompletionEvent",
    "ChatCompletionMessage", "ChatCompletionMessageCustomToolCall", "ChatCompletionMessageFunctionToolCall",
    "ChatCompletionMessageToolCall", "ChatCompletionParser", "ChatCompletionStream", "ChatCompletionTokenLogprob",
    "Choice", "ChoiceDelta", "ChoiceDeltaAudio", "ChoiceDeltaFunctionCall", "ChoiceDeltaToolCall",
    "ChoiceDeltaToolCallCustom", "ChoiceDeltaToolCallFunction", "ChoiceFinished", "ChoiceLogprobs", "ChunkChoice",
    "ChunkfoldError", "CompletionTokensDetails", "CompletionUsage", "ConnectOptions", "ContentPart",
    "CumulativeDeltas", "Custom", "ErrorObject", "EventStreamDecoder", "Function", "FunctionCall", "ImagePart",
    "ImageReceived", "IncompleteStreamError", "InvalidChunkError", "InvalidStreamError", "LimitExceededError",
    "MessagePart", "NotAnEventStreamError", "OneChoice", "Outcome", "ParseError", "ParserOptions", "PartialJSON",
    "Payload", "PromptTokensDetails", "RULES", "ReasoningDelta", "ReasoningPart", "RefusalDelta", "RefusalPart",
    "Rule", "ServerSentEvent", "StreamConsumedError", "StreamEnd", "StreamInterruptedError", "StreamStalledError",
    "StreamTiming", "TextDelta", "TextPart", "ThinkTags", "ToolCallArgumentsDelta", "ToolCallDone", "ToolCallPart",
    "ToolCallStarted", "TopLogprob", "Transform", "UsageReceived", "aconnect", "connect", "encode_event",
    "error_from_response", "fold_record", "is_retryable", "parse_payload",
]  # fmt: skip


def test_what_is_loaded_later_is_a_public_name_too() -> None:
    assert set(PUBLIC) <= set(dir(chunkfold))
    with pytest.raises(AttributeError, match="module 'chunkfold' has no attribute 'Nothing'"):
        _ = chunkfold.Nothing


def test_the_version_is_the_package_s() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert chunkfold.__version__ == project["version"]


def test_the_public_names_are_these() -> None:
    assert sorted(chunkfold.__all__) == PUBLIC
    assert all(hasattr(chunkfold, name) for name in PUBLIC)


def test_a_public_name_is_what_the_imports_for_type_checkers_say() -> None:
    homes = {
        alias.name: node.module
        for node in ast.walk(ast.parse(CORE["chunkfold"].read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("chunkfold")
        for alias in node.names
    }
    assert sorted(homes) == PUBLIC
    for name, home in homes.items():
        assert getattr(chunkfold, name) is getattr(importlib.import_module(str(home)), name)


def test_public_names_can_be_pickled_by_their_place() -> None:
    for value in (chunkfold.StreamEnd.FINISHED, chunkfold.ChatCompletion(), chunkfold.TextDelta):
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301


def test_the_fields_of_public_types_have_types_that_can_be_resolved() -> None:
    """As libraries that validate, convert and document need them."""
    kinds = [value for name in PUBLIC if isinstance(value := getattr(chunkfold, name), type)]
    assert all(get_type_hints(kind).keys() >= getattr(kind, "__annotations__", {}).keys() for kind in kinds)
    part = chunkfold.AudioPart(chunkfold.ChatCompletionAudio(transcript="Hi"))
    parts: TypeAdapter[Any] = TypeAdapter(chunkfold.MessagePart)
    assert parts.validate_json(parts.dump_json(part)) == part


def test_all_errors_and_models_are_public() -> None:
    errors = {
        name
        for name, value in vars(chunkfold.errors).items()
        if isinstance(value, type) and issubclass(value, ChunkfoldError)
    }
    models = {kind.__name__ for kind in Model.__subclasses__() if kind.__module__.startswith("chunkfold.")}
    assert errors | models <= set(chunkfold.__all__)


GROWING = {"Payload", "StreamTiming"}  # while they are made
VALUES = {
    name: value
    for name in chunkfold.__all__
    if name not in GROWING and isinstance(value := getattr(chunkfold, name), type) and is_dataclass(value)
}


@each_case("name", VALUES)
def test_values_cannot_be_changed(name: str) -> None:
    value = object.__new__(VALUES[name])
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, "changed")
    assert not hasattr(value, "__dict__")


# 7. Files and functions are short

FILE_LINES = 400
FUNCTION_LINES = 40  # the signature and the docstring are not counted


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return statements[-1].end_lineno - statements[0].lineno + 1 if statements else 0


@each_case("name", MODULES)
def test_a_file_and_its_functions_are_short(name: str) -> None:
    source = MODULES[name].read_text("utf-8")
    assert len(source.splitlines()) <= FILE_LINES
    functions = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert {
        f"{function.name}, line {function.lineno}" for function in functions if body_lines(function) > FUNCTION_LINES
    } == set()
