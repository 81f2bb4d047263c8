"""What OpenAI-compatible providers really send, quirk by quirk: each has a body here, or names its tests.

A case says all that must come of its body: the end, the text, the rules that are noted and no others, the error, and
whatever else the quirk is about. Every body is read whole and in pieces.
"""

import ast
import json
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from made_up_ids import MADE_UP, shown_id

from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletionParser,
    ChunkfoldError,
    CumulativeDeltas,
    IncompleteStreamError,
    InvalidChunkError,
    LimitExceededError,
    NotAnEventStreamError,
    OneChoice,
    ParseError,
    StreamInterruptedError,
    ThinkTags,
)
from chunkfold.testing import DONE, HEAD, cut, event
from chunkfold.testing.wire import compact_json

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """A body, and what must come of it.

    Attributes:
        name: What it shows.
        rules: The ids of the rules that are noted, blanks between them.
        error: The error's class; None for the one that such an end usually has, if any.
        has: What the snapshot has, by path; what the error has, by a path that begins with `error.`. `calls` are the
            tool calls in short.
        options: The parser's.
        exc: What the transport raises at the end.
        transforms: Classes of transforms; each reading gets its own.
    """

    name: str
    body: bytes
    text: str = "Hi"
    end: str = "finished"
    rules: str = ""
    error: type[ChunkfoldError] | None = None
    has: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    exc: Exception | None = None
    transforms: tuple[Any, ...] = ()


USUAL_ERRORS: dict[str, type[ChunkfoldError]] = {
    "empty": IncompleteStreamError,
    "truncated": IncompleteStreamError,
    "interrupted": StreamInterruptedError,
    "failed": APIError,
    "invalid": InvalidChunkError,
}


# Bodies


def head(**fields: Any) -> dict[str, Any]:
    """A chunk without choices; `...` stands for a key that is not sent."""
    whole = {**HEAD, "id": "c1", "created": 1, "choices": [], **fields}
    return {name: value for name, value in whole.items() if value is not ...}


def choice(delta: Any = None, finish_reason: Any = None, index: Any = 0, **fields: Any) -> dict[str, Any]:
    whole = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish_reason, **fields}
    return {name: value for name, value in whole.items() if value is not ...}


def chunk(delta: Any = None, finish_reason: Any = None, index: Any = 0, **fields: Any) -> dict[str, Any]:
    return head(choices=[choice(delta, finish_reason, index)], **fields)


def stream(*payloads: Any) -> bytes:
    """The payloads, a finish reason and `[DONE]`."""
    return b"".join(map(event, [*payloads, STOP_CHUNK])) + DONE


HI_DELTA = {"role": "assistant", "content": "Hi"}
HI_CHUNK = chunk(HI_DELTA)
STOP_CHUNK = chunk({}, "stop")
HI, STOP = event(HI_CHUNK), event(STOP_CHUNK)
IN_LINES = event(json.dumps(HI_CHUNK, indent=1))
CLEAN = HI + STOP + DONE


def deltas(*several: Any) -> bytes:
    """A whole stream of chunks with a delta each."""
    return stream(*map(chunk, several))


def hi_then_stop(*behind: Any, **fields: Any) -> bytes:
    """A whole stream whose last chunk has these fields, too; payloads may come behind it."""
    return HI + b"".join(map(event, [chunk({}, "stop", **fields), *behind])) + DONE


def with_(*between: bytes) -> bytes:
    """A whole stream with something in its middle."""
    return HI + b"".join(between) + STOP + DONE


def replaced(**fields: Any) -> bytes:
    """A whole stream whose chunks all have these fields instead of their own."""
    return event({**HI_CHUNK, **fields}) + event({**STOP_CHUNK, **fields}) + DONE


def failing(name: str, payload: Any, rules: str = "", **has: Any) -> Case:
    """An error after text."""
    body = HI + (payload if isinstance(payload, bytes) else event(payload))
    return Case(name, body, end="failed", rules=rules, has={f"error.{key}": has[key] for key in has})


def invalid(name: str, body: bytes, *told: str, text: str = "Hi", rules: str = "") -> Case:
    """A body that is refused, in these words."""
    has = {"error.args.0": Contains(*told)} if told else {}
    return Case(name, body, text=text, end="invalid", rules=rules, has=has)


class Contains:
    """Equal to every text that has these words in it."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and all(word in other for word in self.words)

    __hash__ = None

    def __repr__(self) -> str:
        return f"Contains{self.words}"


def calls(
    name: str, *fragments: Any, expected: list[tuple[str, str, str]], rules: str = "", reason: str = "tool_calls"
) -> Case:
    """A stream of tool call fragments, one in each chunk; a list is several in one chunk."""
    deltas = [{"tool_calls": one if isinstance(one, list) else [one]} for one in fragments]
    body = b"".join(event(chunk(delta)) for delta in deltas) + event(chunk({}, reason)) + DONE
    return Case(name, body, text="", rules=rules, has={"calls": expected})


def part(index: Any = ..., id_: Any = ..., name: Any = ..., arguments: Any = ..., **fields: Any) -> dict[str, Any]:
    """A fragment; `...` stands for a key that is not sent."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not ...}
    whole = {"index": index, "id": id_, "function": function or ..., **fields}
    return {key: value for key, value in whole.items() if value is not ...}


def usage(prompt: Any, completion: Any, total: Any, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


USAGE = usage(5, 2, 7)
HAS_USAGE = {"usage.prompt_tokens": 5, "usage.completion_tokens": 2, "usage.total_tokens": 7}
A, B = ("a", "f", '{"n":1}'), ("b", "g", '{"n":2}')
COMPLETION = {
    **head(object="chat.completion", usage=USAGE),
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
}


QUIRKS: dict[str, list[Case | str]] = {
    "framing and transport": [
        Case("comments", b": OPENROUTER PROCESSING\n\n" + with_(b": ping\n\n", b":\n", b":ping\n\n")),
        Case("no event of a comment behind an id", b"id: 1\n" + with_(b": ping\n\n")),
        Case(
            "nor of an id or a reconnection time alone",
            with_(b"id: 2\n\n", b"retry: 3000\n\n", b"event: x\n\n", b"\n\n\n"),
        ),
        "tests/wire/test_payload.py::test_what_is_skipped_and_noted",
        Case("no blank", with_(b"data::\n\n"), rules="CF104"),
        *(
            invalid(data, with_(event(data.encode())), "expected a JSON object")
            for data in ("1", "true", '"Hi"', "[]", "[1,2]", "[{},{}]", "[null]")
        ),
        Case("choices", b"event: delta\n" + CLEAN),
        failing("an error", b'event: meta\ndata: {"error":{"message":"m"}}\n\n', message="m"),
        Case("a chunk's own name", b"event: chat.completion.chunk\n" + CLEAN),
        Case("no blank after the colon", CLEAN.replace(b"data: ", b"data:")),
        Case("a byte order mark", b"\xef\xbb\xbf" + CLEAN),
        Case("only one of them", b"\xef\xbb\xbf\xef\xbb\xbf" + CLEAN, text="", rules="CF110"),
        Case(
            "line ends of Unicode",
            stream(compact_json(chunk({"content": "a\u2028b\u2029c\x85d"}))),
            text="a\u2028b\u2029c\x85d",
        ),
        Case(
            "and of ASCII", HI.replace(b"Hi", b"a\x0bb\x0cc\x1cd") + STOP + DONE, text="a\x0bb\x0cc\x1cd", rules="CF213"
        ),
        *[Case(f"{end!r}", CLEAN.replace(b"\n", end)) for end in (b"\r", b"\r\n")],
        Case("characters of any size", HI.replace(b"Hi", "é號😀".encode()) + STOP + DONE, text="é號😀"),
        "tests/parser/test_parser.py::test_an_event_stream_is_known_by_its_body",
        Case("bytes that are not UTF-8", HI.replace(b"Hi", b"h\xff") + STOP + DONE, text="h\ufffd", rules="CF107"),
        "tests/wire/test_payload.py::test_strict_mode_names_the_repair",
        Case("no blank line", HI + STOP.rstrip() + b"\n", rules="CF101 CF501"),
        Case("no line end", HI + STOP.rstrip(), rules="CF101 CF501"),
        Case("a cut event", HI + STOP[:-20], end="truncated"),
        Case("a cut event that begins a list", HI + b'data: [{"err', end="truncated"),
        Case("a cut event of several lines", HI + b'data: {\ndata: "choices":\n', end="truncated"),
        Case("a cut event behind the finish reason", HI + STOP + b'data: {"usage":{"prom', rules="CF101 CF501"),
        invalid(
            "an error text is not lost", HI + b"data: upstream connect error", "upstream connect error", rules="CF101"
        ),
        failing("an error is read", b'data: {"error":{"message":"m"}}', "CF101", message="m"),
        Case("whole lines before a cut one", HI.rstrip() + b"\n" + STOP[:-20], end="truncated", rules="CF101"),
        "tests/parser/test_parser.py::test_an_unfinished_last_block",
        Case("no blank lines", CLEAN.replace(b"\n\n", b"\n") + b"\n", rules="CF102"),
        Case("and none at the end", CLEAN.replace(b"\n\n", b"\n"), rules="CF101 CF102"),
        invalid(
            "up to the first that is invalid", HI.rstrip() + b"\ndata: oops\n" + STOP + DONE, "oops", rules="CF102"
        ),
        Case(
            "up to an error", HI.rstrip() + b'\ndata: {"error":{"message":"m"}}\n' + STOP, end="failed", rules="CF102"
        ),
        Case("no blank line after a comment in data", b"data: : ping\n" + CLEAN, rules="CF102 CF104"),
        Case("nor after a named event that is text", b"event: ping\ndata: ping\n" + CLEAN, rules="CF102 CF106"),
        Case("nor after a null", b"data: null\n" + CLEAN, rules="CF102 CF105"),
        Case("nor after several", b"data:\ndata: : ping\ndata: null\n" + CLEAN, rules="CF102 CF104 CF105"),
        Case("nor after many", b"data: : ping\n" * 20_000 + CLEAN, rules="CF102 CF104"),
        Case("nor before a doubled prefix", b"data: : ping\ndata: " + CLEAN, rules="CF102 CF104 CF111"),
        Case("nor within one", b"data: data: : ping\ndata: " + CLEAN, rules="CF102 CF104 CF111"),
        Case(
            "nor before an event in several lines", b"data: null\n" + IN_LINES + CLEAN, text="HiHi", rules="CF102 CF105"
        ),
        Case("a comment and blank data", b"data: : ping\ndata:\n\n" + CLEAN, rules="CF104"),
        Case("blank data alone", b"data:\n" + HI.replace(b"data:", b"data: data:") + STOP + DONE, rules="CF111"),
        Case("nor before the end, after a named event", HI + STOP + b"event: a\ndata: b\n" + DONE, rules="CF102 CF106"),
        Case(
            "nor after a comment, at the end",
            b"data: : ping\n" + HI.rstrip() + b"\n" + STOP[:-1],
            rules="CF101 CF102 CF104 CF501",
        ),
        Case(
            "nor within a doubled prefix that is cut",
            HI + STOP + b"data: data: : ping\ndata: data: " + b'{"choices":[',
            rules="CF101 CF104 CF111 CF501",
        ),
        failing("a text that begins like null is read", b"event: error\ndata: nul", "CF101 CF601", message="nul"),
        Case("nothing but keep-alives", b"data: null\ndata: : ping\ndata: null\n\n" + CLEAN, rules="CF102 CF104 CF105"),
        Case(
            "nor between a named event, a doubled prefix and a null",
            b"event: ping\ndata: ping\ndata: " + HI.rstrip() + b"\ndata: null\n\n" + STOP + DONE,
            rules="CF102 CF105 CF106 CF111",
        ),
        Case(
            "nor before a cut event",
            b"data: : ping\n" + HI.rstrip() + b"\n" + STOP[:-20],
            end="truncated",
            rules="CF101 CF102 CF104",
        ),
        Case(
            "no blank line before an event named error",
            HI.rstrip() + b'\nevent: error\ndata: {"message":"m","code":429}\n\n',
            end="failed",
            rules="CF102 CF601",
            has={"error.message": "m", "error.status_code": 429},
        ),
        Case(
            "nor after a keep-alive before it",
            HI + b'data: : ping\nevent: error\ndata: {"message":"m","code":429}\n\n',
            end="failed",
            rules="CF102 CF104 CF601",
            has={"error.message": "m", "error.status_code": 429},
        ),
        Case(
            "nor before one that is text",
            HI.rstrip() + b"\nevent: error\ndata: overloaded\n\n",
            end="failed",
            rules="CF102 CF601",
            has={"error.message": "overloaded"},
        ),
        Case(
            "nor before one after [DONE]",
            HI + STOP + DONE.rstrip() + b"\nevent: error\ndata: m\n\n",
            rules="CF102 CF601",
        ),
        "tests/wire/test_payload.py::test_several_payloads_in_one_block",
        Case(
            "an event of several lines",
            CLEAN.replace(b"data: {", b"data: {\ndata: ").replace(b'"choices"', b'\ndata: "choices"'),
        ),
        Case("a large event", HI.replace(b"Hi", b"x" * 150_000) + STOP + DONE, text="x" * 150_000),
        Case(
            "a limit",
            HI + event(chunk({"content": "x" * 2000})) + STOP,
            end="invalid",
            error=LimitExceededError,
            has={"error.limit": "max_event_size", "error.value": 1000},
            options={"max_event_size": 1000},
        ),
        "tests/promises/test_promises.py::test_ten_times_the_body_costs_ten_times_as_much",
        Case("a thousand events", stream(*[chunk({"content": "a"})] * 1000), text="a" * 1000),
        Case("a whole completion", compact_json(COMPLETION), rules="CF109", has=HAS_USAGE),
        Case(
            "an error",
            b'{"error":{"message":"m","code":429}}',
            "",
            "failed",
            "CF607",
            APIError,
            {"error.status_code": 429},
        ),
        Case(
            "MiniMax",
            b'{"base_resp":{"status_code":1002,"status_msg":"rate limit"},"choices":null}',
            "",
            "failed",
            "CF607 CF605",
            APIError,
            {"error.message": "rate limit", "error.status_code": 429},
        ),
        Case(
            "a page",
            b"<html><body>Blocked</body></html>",
            "",
            "invalid",
            "",
            NotAnEventStreamError,
            {
                "error.status_code": 200,
                "error.content_type": "text/html",
                "error.body": b"<html><body>Blocked</body></html>",
            },
            {"status_code": 200, "headers": {"content-type": "text/html"}},
        ),
        "tests/parser/test_parser.py::test_bodies_that_are_no_event_stream",
        Case(
            "JSON lines",
            b'{"message":{"content":"H"}}\n{"message":{"content":"i"}}\n',
            "",
            "invalid",
            "",
            NotAnEventStreamError,
            {"error.body": b'{"message":{"content":"H"}}\n{"message":{"content":"i"}}'},
        ),
        Case("blank lines before JSON", b"\n\n\n" + compact_json(COMPLETION), rules="CF109", has=HAS_USAGE),
        Case("before an error", b'\n \n{"error":{"message":"m"}}', "", "failed", "CF607", APIError),
        Case("before a stream", b"\n\n\n" + CLEAN),
        Case("missing", HI + STOP, rules="CF501"),
        "tests/parser/test_parser.py::test_done",
        Case("nothing behind it counts", CLEAN + event(chunk({"content": "!"})) + b"data: oops\n\n"),
        "tests/stream/test_connect.py::test_a_body_that_stays_open_after_done_holds_nobody",
        "tests/stream/test_connect.py::test_streams_one_after_the_other_use_one_connection",
        "tests/stream/test_connect.py::test_keep_alives_after_done_hold_nobody",
        "tests/stream/test_stream.py::test_only_http_1_1_is_drained",
        Case(
            "cut",
            HI,
            end="interrupted",
            has={"error.snapshot.text": "Hi", "error.emitted_output": True},
            exc=OSError("incomplete chunked read"),
        ),
        Case("cut inside an event", HI + STOP[:-20], end="interrupted", exc=OSError("incomplete chunked read")),
        Case("cut behind the finish reason", HI + STOP, rules="CF507", exc=OSError("incomplete chunked read")),
        "tests/stream/test_transport_faults.py::test_a_fault_while_the_answer_comes",
        Case(
            "a refusal",
            b'{"error":{"message":"slow down"}}',
            "",
            "failed",
            "",
            APIStatusError,
            {"error.status_code": 429, "error.message": "slow down", "error.retry_after": 7.0},
            {"status_code": 429, "headers": {"Retry-After": "7"}},
        ),
        "tests/stream/test_stream.py::test_a_status_that_is_not_2xx",
        "tests/stream/test_stream.py::test_a_large_body_of_a_refusal_is_not_read_to_its_end",
    ],
    "errors after 200": [
        failing(
            "then [DONE]",
            event({"error": {"message": "m", "type": "server_error", "code": "overloaded"}}) + DONE,
            message="m",
            type="server_error",
            code="overloaded",
            status_code=503,
        ),
        failing("then the end", {"error": {"message": "m"}}, message="m", status_code=None),
        failing(
            "neither index nor delta",
            {"error": {"code": "provider_error", "message": "m"}, "choices": [{"finish_reason": "error"}]},
            "CF202 CF206 CF210",
            message="m",
            code="provider_error",
            status_code=502,
        ),
        Case(
            "text beside it counts",
            event(chunk({"content": "Hi"}, "error", error={"code": 502, "message": "m"})),
            end="failed",
            has={"error.message": "m", "choices.0.finish_reason": "error"},
        ),
        Case(
            "and so does usage",
            HI + event(head(usage=USAGE, error={"code": 502, "message": "m"})),
            end="failed",
            has={"error.message": "m", **HAS_USAGE},
        ),
        Case(
            "also Groq's",
            HI + event(head(x_groq={"id": "r", "error": "m", "usage": USAGE})),
            end="failed",
            rules="CF608",
            has={"error.message": "m", **HAS_USAGE},
        ),
        failing(
            "vLLM",
            {"object": "error", "message": "m", "type": "BadRequestError", "code": 400},
            "CF604",
            message="m",
            type="BadRequestError",
            status_code=400,
        ),
        "tests/wire/test_envelopes.py::test_recognised_wherever_it_comes",
        "tests/wire/test_envelopes.py::test_each_shape_is_noted",
        failing(
            "a string",
            {"error": "m", "error_type": "overloaded"},
            "CF603",
            message="m",
            type="overloaded",
            status_code=503,
            raw={"error": "m", "error_type": "overloaded"},
        ),
        failing("a list", {"error": ["a", "b"]}, "CF603", message="a; b"),
        Case("a status of 0", replaced(base_resp={"status_code": 0, "status_msg": ""})),
        invalid("text", HI + b"data: Internal Server Error\n\n", "Internal Server Error"),
        Case("a small code is none", with_(event(head(code=0)))),
        "tests/wire/test_envelopes.py::test_status",
        Case("only [DONE]", DONE, "", "empty", "", IncompleteStreamError),
        Case("null", replaced(error=None)),
        Case("false", replaced(error=False)),
        *(Case(f"{value!r} beside choices", replaced(error=value)) for value in ({}, "", [])),
        *(failing(f"{value!r} alone", {"error": value}, "CF603") for value in ({}, "", [])),
        Case("null alone", with_(event({**head(choices=...), "error": None})), rules="CF201"),
    ],
    "the shape of a chunk": [
        Case(
            "Azure's first chunk",
            event(
                {
                    "id": "",
                    "object": "",
                    "created": 0,
                    "model": "",
                    "choices": [],
                    "prompt_filter_results": [{"prompt_index": 0}],
                }
            )
            + CLEAN,
            has={
                "id": "c1",
                "model": "m",
                "created": 1,
                "model_extra": {"prompt_filter_results": [{"prompt_index": 0}]},
            },
        ),
        Case(
            "no delta",
            with_(event(head(choices=[choice(..., content_filter_offsets={"start": 1})]))),
            rules="CF202",
            has={"choices.0.model_extra": {"content_filter_offsets": {"start": 1}}},
        ),
        *[Case(f"{value!r}", with_(event(head(choices=value))), rules="CF201") for value in (None, ...)],
        Case(
            "role and finish reason",
            stream(chunk({"role": "", "content": "Hi"}, "")),
            rules="CF203",
            has={"message.role": "assistant", "finish_reason": "stop"},
        ),
        Case(
            "id and model",
            event(chunk({"content": "Hi"}, id="", model="")) + STOP + DONE,
            rules="CF203",
            has={"id": "c1", "model": "m"},
        ),
        calls("a call's id and name", part(0, "a", "f", ""), part(0, "", "", '{"n":1}'), expected=[A], rules="CF203"),
        Case(
            "a role on every chunk",
            deltas(*[{"role": "assistant", "content": text} for text in "Hi"]),
            has={"message.role": "assistant"},
        ),
        Case("the id changes", HI + event({**STOP_CHUNK, "id": "c2"}) + DONE, rules="CF205", has={"id": "c1"}),
        Case("the model changes", HI + event({**STOP_CHUNK, "model": "m2"}) + DONE, rules="CF205", has={"model": "m"}),
        Case("created changes", HI + event({**STOP_CHUNK, "created": 2}) + DONE, has={"created": 1}),
        Case(
            "none of them",
            event(chunk({"content": "Hi"}, "stop", id=..., created=..., model=...)) + DONE,
            rules="CF216",
            has={"id": None, "created": None, "model": None},
        ),
        *[
            Case(f"{value!r}", replaced(object=value), rules="CF206", has={"object": "chat.completion"})
            for value in ("", "chat.completion", "chat.reasoning", "chat.completion.done", None)
        ],
        Case(
            "beside every delta",
            event(head(choices=[choice({"content": "H"}, message={"content": "H"})]))
            + event(head(choices=[choice({"content": "i"}, "stop", message={"role": "assistant", "content": "Hi"})]))
            + DONE,
            rules="CF207",
        ),
        Case(
            "on the last chunk",
            HI
            + event(
                head(
                    choices=[choice(..., "stop", message={"content": "Hi", "annotations": [{"type": "url_citation"}]})]
                )
            )
            + DONE,
            rules="CF207",
            has={"message.annotations.0.type": "url_citation"},
        ),
        Case(
            "and no delta", event(head(choices=[choice(..., "stop", message={"content": "Hi"})])) + DONE, rules="CF207"
        ),
        Case(
            "several and no delta",
            event(head(choices=[choice(..., message={"content": "H"})]))
            + event(head(choices=[choice(..., "stop", message={"content": "Hi"})]))
            + DONE,
            rules="CF207",
        ),
        Case(
            "Mistral",
            deltas(
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
                {"content": "H"},
                {"content": [{"type": "text", "text": "i"}]},
            ),
            rules="CF208",
            has={"reasoning": "hm"},
        ),
        *(
            Case(name, deltas({name: "hm"}, {"content": "Hi"}), has={"reasoning": "hm"})
            for name in ("reasoning", "reasoning_content")
        ),
        *(
            Case(
                name,
                deltas({name: "hm"}, {"content": "Hi"}),
                has={"reasoning": "", "message.model_extra": {name: "hm"}},
            )
            for name in ("thinking", "thought")
        ),
        Case(
            "both spellings",
            deltas(*({"reasoning": text, "reasoning_content": text} for text in ("The ", "user")), HI_DELTA),
            has={"reasoning": "The user"},
        ),
        Case(
            "a signature after the content began",
            deltas(
                {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "h"}]},
                {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "m"}]},
                HI_DELTA,
                {"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s"}]},
            ),
            has={
                "reasoning": "hm",
                "message.reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"}],
            },
        ),
        Case(
            "without an index: by type, unless the id differs",
            deltas(
                {
                    "content": "Hi",
                    "reasoning_details": [
                        {"type": "reasoning.text", "id": "x", "text": "h"},
                        {"type": "reasoning.summary", "summary": "s"},
                    ],
                },
                {
                    "reasoning_details": [
                        {"type": "reasoning.text", "text": "m"},
                        {"type": "reasoning.text", "id": "y", "text": "!"},
                    ]
                },
            ),
            has={
                "message.reasoning_details": [
                    {"type": "reasoning.text", "id": "x", "text": "hm"},
                    {"type": "reasoning.summary", "summary": "s"},
                    {"type": "reasoning.text", "id": "y", "text": "!"},
                ]
            },
        ),
        Case(
            "a delta with nothing else",
            event(chunk({"tool_calls": [part(0, *A)]}))
            + event(
                chunk({"tool_calls": [part(0, extra_content={"google": {"thought_signature": "s"}})]}, "tool_calls")
            )
            + DONE,
            text="",
            has={"calls": [A], "tool_calls.0.model_extra": {"extra_content": {"google": {"thought_signature": "s"}}}},
        ),
        Case("behind the finish reason", HI + STOP + event(head(usage=USAGE)) + DONE, has=HAS_USAGE),
        Case("on the last chunk", hi_then_stop(usage=USAGE), has=HAS_USAGE),
        Case(
            "on every chunk",
            event(chunk({"content": "H"}, usage=usage(5, 1, 6)))
            + event(chunk({"content": "i"}, "stop", usage=USAGE))
            + DONE,
            has=HAS_USAGE,
        ),
        Case("in the choice", HI + event(head(choices=[choice({}, "stop", usage=USAGE)])) + DONE, has=HAS_USAGE),
        Case(
            "in x_groq",
            hi_then_stop(x_groq={"id": "req_1", "usage": USAGE}),
            has={**HAS_USAGE, "model_extra.x_groq.id": "req_1"},
        ),
        Case(
            "vendors' keys",
            hi_then_stop(usage={**USAGE, "cached_tokens": 4, "prompt_cache_hit_tokens": 4, "total_characters": 9}),
            has={**HAS_USAGE, "usage.cached_tokens": 4, "usage.model_extra.total_characters": 9},
        ),
        Case("a null", hi_then_stop(head(usage=None), usage=USAGE), has=HAS_USAGE),
        Case("zeros", hi_then_stop(head(usage=usage(0, 0, 0)), usage=USAGE), rules="CF401", has=HAS_USAGE),
        *(
            Case(
                word,
                HI + event(chunk({}, word)) + DONE,
                rules="CF506",
                has={"finish_reason": word, "choices.0.outcome": outcome},
            )
            for word, outcome in (
                ("eos_token", "stop"),
                ("sensitive", "content_filter"),
                ("max_tokens", "length"),
                ("unheard_of", "other"),
            )
        ),
        *(
            Case(
                word,
                HI + event(chunk({}, word)) + DONE,
                end="failed",
                rules="CF606",
                has={"finish_reason": word, "choices.0.outcome": "error"},
            )
            for word in ("error", "network_error", "insufficient_system_resource", "abort")
        ),
        Case(
            "each its own",
            event(
                head(
                    choices=[choice({"content": "Hi"}, "stop"), choice({"tool_calls": [part(0, *A)]}, "tool_calls", 1)]
                )
            )
            + DONE,
            has={"calls": [], "choices.1.message.tool_calls.0.id": "a"},
        ),
        Case(
            "one, if asked for",
            event(head(choices=[choice({"content": "Hi"}), choice({"tool_calls": [part(0, *A)]}, "tool_calls", 1)]))
            + DONE,
            has={"calls": [A], "finish_reason": "tool_calls"},
            transforms=(OneChoice,),
        ),
        Case(
            "images and annotations",
            stream(HI_CHUNK, *(chunk({"images": [{"image_url": n}], "annotations": [{"type": n}]}) for n in "ab")),
            has={"message.images": [{"image_url": "a"}, {"image_url": "b"}], "message.annotations.1.type": "b"},
        ),
        Case(
            "other lists: the last",
            stream({**HI_CHUNK, "citations": [1], "search_results": [1]}, head(citations=[1, 2], search_results=None)),
            has={"model_extra": {"citations": [1, 2], "search_results": [1]}},
        ),
        Case(
            "obfuscation",
            stream({**HI_CHUNK, "obfuscation": "x"}, chunk({"obfuscation": "y"})),
            has={"model_extra": {}, "message.model_extra": {}},
        ),
        Case(
            "moderation",
            hi_then_stop(moderation={"flagged": False}),
            has={"model_extra.moderation": {"flagged": False}},
        ),
        Case(
            "a refusal",
            deltas(*({"refusal": text} for text in ("I ", "cannot."))),
            text="",
            has={"message.refusal": "I cannot."},
        ),
        Case(
            "split over two deltas", deltas({"content": "a\ud83d"}, {"content": "\ude00b"}), text="a😀b", rules="CF211"
        ),
        Case(
            "the other half never comes",
            deltas({"content": "a\ud83d"}, {"content": "b"}),
            text="a\ufffdb",
            rules="CF211",
        ),
        Case("off by default", deltas(*({"content": text} for text in ("a", "ab", "abc"))), text="aababc"),
        Case(
            "if asked for",
            deltas(*({"content": text} for text in ("a", "ab", "abc"))),
            text="abc",
            transforms=(CumulativeDeltas,),
        ),
        "tests/test_transforms.py::test_real_deltas_come_of_cumulative_ones",
        Case(
            "off by default",
            deltas(*({"content": text} for text in ("<thi", "nk>hm</think>Hi"))),
            text="<think>hm</think>Hi",
            has={"reasoning": ""},
        ),
        Case(
            "if asked for",
            deltas(*({"content": text} for text in ("<thi", "nk>hm</think>Hi"))),
            has={"reasoning": "hm"},
            transforms=(ThinkTags,),
        ),
        Case("an orphan", deltas({"content": "H</think>i"}), has={"reasoning": ""}, transforms=(ThinkTags,)),
        "tests/test_transforms.py::test_what_think_tags_make_of_a_text_does_not_depend_on_the_cuts",
        Case(
            "an infinity",
            stream(
                head(choices=[choice({"content": "Hi"}, logprobs={"content": [{"token": "Hi", "logprob": -math.inf}]})])
            ),
            has={"choices.0.logprobs.content.0.logprob": -math.inf},
        ),
        Case("200 deep", stream({**HI_CHUNK, "x": nested(200)}), has={"model_extra": {"x": nested(200)}}),
        Case("deeper", stream({**HI_CHUNK, "x": nested(201)}), rules="CF212", has={"model_extra": {}}),
        invalid("too deep", with_(event({**HI_CHUNK, "x": nested(500)})), "nested at most 500 deep"),
        invalid("more digits than can be read", with_(event(b'{"choices":[],"x":' + b"9" * 5000 + b"}")), "digits"),
        "tests/wire/test_payload.py::test_no_numbers_are_values",
    ],
    "folding and tool calls": [
        calls("whole calls by id", [part(..., *A), part(..., *B)], expected=[A, B], rules="CF301"),
        calls(
            "fragments by id",
            part(..., "a", "f", ""),
            part(..., "b", "g", ""),
            part(..., "a", ..., A[2]),
            part(..., "b", ..., B[2]),
            expected=[A, B],
            rules="CF301",
        ),
        calls(
            "neither index nor id",
            part(..., ..., *A[1:]),
            part(..., ..., *B[1:]),
            expected=[(MADE_UP, *A[1:]), (MADE_UP, *B[1:])],
            rules="CF301 CF302",
        ),
        calls("index always 0", part(0, *A), part(0, *B), expected=[A, B], rules="CF305"),
        calls(
            "a fresh id on every fragment",
            part(0, "a", "f", ""),
            part(0, "b", ..., '{"n"'),
            part(0, "c", "", ":1}"),
            expected=[A],
            rules="CF203 CF304",
        ),
        calls(
            "id and name in each delta",
            part(0, "a", "f", ""),
            part(0, "a", "f", '{"n"'),
            part(0, "a", "f", ":1}"),
            expected=[A],
            rules="CF307",
        ),
        calls(
            "a name that grows",
            part(0, "a", "get", ...),
            part(0, "a", "get_it", ...),
            part(0, "a", "get_it", "{}"),
            expected=[("a", "get_it", "{}")],
            rules="CF307 CF308",
        ),
        calls(
            "a name in pieces",
            part(0, "a", "get", ...),
            part(0, ..., "_it", ...),
            part(0, ..., ..., "{}"),
            expected=[("a", "get_it", "{}")],
            rules="CF308",
        ),
        calls("another name after the arguments", part(0, *A), part(0, "a", "other", ""), expected=[A], rules="CF309"),
        calls(
            "empty on continuations",
            part(0, "a", "f", ""),
            part(0, "", "", '{"n":1}'),
            part(1, "b", "g", ""),
            part(1, "", "", '{"n":2}'),
            expected=[A, B],
            rules="CF203",
        ),
        calls(
            "the word null on continuations",
            [part(0, "a", "f", '{"n":'), part(1, "b", "g", '{"n":')],
            [part(0, "null", "", "1}"), part(1, "null", "", "2}")],
            expected=[A, B],
            rules="CF203",
        ),
        calls(
            "the word null as the only id",
            part(0, "null", *A[1:]),
            part(1, "null", *B[1:]),
            expected=[(MADE_UP, *A[1:]), (MADE_UP, *B[1:])],
            rules="CF203 CF302",
        ),
        calls(
            "never an id",
            part(0, ..., *A[1:]),
            part(1, ..., *B[1:]),
            expected=[(MADE_UP, *A[1:]), (MADE_UP, *B[1:])],
            rules="CF302",
        ),
        calls(
            "a number", part(0, 7, *A[1:]), part(1, 0, *B[1:]), expected=[("7", *A[1:]), ("0", *B[1:])], rules="CF303"
        ),
        calls(
            "later only the id",
            part(0, ..., "f", ""),
            part(0, "a", ..., '{"n"'),
            part(..., "a", ..., ":1}"),
            expected=[A],
            rules="CF301",
        ),
        calls(
            "later only the index",
            part(..., "a", "f", ""),
            part(0, "a", ..., '{"n"'),
            part(0, ..., ..., ":1}"),
            expected=[A],
            rules="CF301",
        ),
        calls(
            "two of one call in one chunk",
            [part(0, "a", "f"), part(0, ..., ..., '{"n"')],
            [part(0, ..., ..., ":"), part(0, ..., ..., "1}")],
            expected=[A],
        ),
        calls(
            "not from 0 and with gaps",
            part(5, "b", "g", ""),
            part(1, "a", "f", ""),
            part(5, ..., ..., B[2]),
            part(1, ..., ..., A[2]),
            expected=[B, A],
        ),
        calls(
            "the name comes last", part(0, "a", ..., '{"n"'), part(0, ..., ..., ":1}"), part(0, ..., "f"), expected=[A]
        ),
        calls("the name comes alone", part(0, "a", "f"), part(0, ..., ..., '{"n":1}'), expected=[A]),
        calls("null", part(0, "a", "f", None), part(0, ..., ..., '{"n":1}'), part(0, ..., ..., None), expected=[A]),
        calls("an object", part(0, "a", "f", {"n": 1}), expected=[A], rules="CF310"),
        calls(
            "several",
            part(0, "a", "f", {"n": 1}),
            part(0, ..., ..., {"n": 2}),
            expected=[("a", "f", '{"n":1}{"n":2}')],
            rules="CF310 CF312",
        ),
        calls(
            "an empty one before others",
            part(0, "a", "f", {}),
            part(0, ..., ..., '{"n":1}'),
            expected=[A],
            rules="CF310",
        ),
        calls("an empty one alone", part(0, "a", "f", {}), expected=[("a", "f", "{}")], rules="CF310"),
        calls(
            "a placeholder",
            part(0, "a", "f", "{}"),
            part(0, ..., ..., '{"n":1}'),
            expected=[("a", "f", '{}{"n":1}')],
            rules="CF311",
        ),
        "tests/promises/test_quirks.py::test_what_parse_makes_of_placeholders_and_no_arguments",
        calls("no arguments", part(0, "a", "f", ""), expected=[("a", "f", "")]),
        calls("a prefix that parses", part(0, "a", "f", "1"), part(0, ..., ..., "2"), expected=[("a", "f", "12")]),
        calls(
            "an object and blanks",
            part(0, "a", "f", '{"n":1}'),
            part(0, ..., ..., " \n"),
            expected=[("a", "f", '{"n":1} \n')],
        ),
        Case(
            "stop",
            event(chunk({"tool_calls": [part(0, *A)]})) + STOP + DONE,
            text="",
            has={"finish_reason": "stop", "choices.0.outcome": "tool_calls", "calls": [A]},
        ),
        Case("stop without calls", CLEAN, has={"choices.0.outcome": "stop"}),
        calls("cut by the token limit", part(0, "a", "f", '{"city":"Ber'), expected=[("a", "f", '{"city":"Ber')]),
        "tests/promises/test_quirks.py::test_arguments_that_were_cut",
        Case(
            "no finish reason, but [DONE]",
            HI + DONE,
            end="done",
            rules="CF502",
            has={"finish_reason": None, "choices.0.outcome": None},
        ),
        Case("neither", HI, end="truncated", has={"error.snapshot.text": "Hi", "finish_reason": None}),
        Case("twice", HI + STOP + event(chunk({}, "length")) + DONE, rules="CF504", has={"finish_reason": "length"}),
        Case(
            "then an empty one", HI + STOP + event(chunk({}, "")) + DONE, rules="CF203", has={"finish_reason": "stop"}
        ),
        Case(
            "output behind it",
            event(chunk({"content": "H"}, "stop")) + event(chunk({"content": "i"})) + DONE,
            rules="CF505",
        ),
        Case(
            "index 1 first",
            b"".join(
                event(chunk({"content": text}, index=index)) for index, text in ((1, "a"), (0, "H"), (1, "b"), (0, "i"))
            )
            + event(chunk({}, "stop", 1))
            + STOP
            + DONE,
            has={"choices.0.index": 0, "choices.1.index": 1, "choices.1.message.content": "ab"},
        ),
        Case("one of them open", event(chunk({"content": "b"}, index=1)) + HI + STOP, end="truncated"),
        Case(
            "no finish reason",
            b"".join(
                event(chunk({"audio": audio}))
                for audio in (
                    {"id": "a", "data": "aGU="},
                    {"data": "bGxv", "transcript": "hel"},
                    {"transcript": "lo"},
                    {"expires_at": 1},
                )
            )
            + DONE,
            text="",
            end="done",
            rules="CF502",
            has={
                "message.audio.id": "a",
                "message.audio.data": "aGVsbG8=",
                "message.audio.transcript": "hello",
                "message.audio.expires_at": 1,
            },
        ),
        Case(
            "log probabilities",
            stream(
                *(
                    head(choices=[choice({"content": text}, logprobs={"content": [{"token": text, "logprob": -1}]})])
                    for text in "Hi"
                )
            ),
            has={"choices.0.logprobs.content.0.token": "H", "choices.0.logprobs.content.1.token": "i"},
        ),
        Case(
            "the legacy function call",
            b"".join(
                event(chunk({"function_call": call}))
                for call in ({"name": "f", "arguments": ""}, {"arguments": '{"n"'}, {"arguments": ":1}"})
            )
            + event(chunk({}, "function_call"))
            + DONE,
            text="",
            has={
                "message.function_call.name": "f",
                "message.function_call.arguments": '{"n":1}',
                "choices.0.outcome": "tool_calls",
            },
        ),
        Case(
            "think, text, think, text",
            deltas(
                *(
                    delta
                    for delta in (
                        {"reasoning_content": "a"},
                        {"content": "H"},
                        {"reasoning_content": "b"},
                        {"content": "i"},
                    )
                )
            ),
            has={"reasoning": "ab"},
        ),
    ],
    "time, lifetime, concurrency": [
        "tests/stream/test_stream.py::test_a_read_timeout_is_an_interruption",
        "tests/parser/test_time.py::test_deadlines",
        "tests/stream/test_stream.py::test_a_stall_hidden_by_keep_alives",
        "tests/test_errors.py::test_nothing_is_retryable_after_output_unless_the_caller_says_so",
        "tests/stream/test_stream.py::test_every_way_out_closes",
        "tests/stream/test_consumers.py::test_leaving_after_some_items",
        "tests/stream/test_consumers.py::test_closing_from_another_task_ends_the_loop",
        "tests/stream/test_stream.py::test_closing_from_another_task_while_a_generator_runs",
        "tests/stream/test_consumers.py::test_cancelled_anywhere",
        "tests/stream/test_consumers.py::test_a_failure_beside_the_stream_cancels_it",
        "tests/stream/test_stream.py::test_any_response_with_these_methods",
        "tests/test_errors.py::test_transport_errors",
        "tests/test_errors.py::test_no_client_is_loaded_for_it",
        "tests/wire/test_payload.py::test_another_api_is_named",
        Case(
            "a text beside a delta",
            stream(head(choices=[choice({"content": "Hi"}, text="Hi")])),
            has={"choices.0.model_extra": {"text": "Hi"}},
        ),
    ],
}


CASES = [
    pytest.param(case, id=f"{section}: {case.name}")
    for section, cases in QUIRKS.items()
    for case in cases
    if isinstance(case, Case)
]


def read(case: Case, size: int) -> ChatCompletionParser:
    parser = ChatCompletionParser(transforms=[make() for make in case.transforms], **case.options)
    texts = [one.text for piece in cut(case.body, *range(size, len(case.body), size)) for one in parser.feed(piece)]
    texts += [one.text for one in (parser.close() if case.exc is None else parser.interrupt(case.exc))]
    assert "".join(texts) == parser.snapshot.text
    return parser


def look(parser: ChatCompletionParser, path: str) -> Any:
    """What stands at a path."""
    if path == "calls":
        return [(shown_id(call.id), call.name, call.arguments) for call in parser.snapshot.tool_calls]
    value: Any = parser if path.startswith("error.") else parser.snapshot
    for name in path.split("."):
        if isinstance(value, dict):
            value = value[name]
        elif name.isdigit():
            value = value[int(name)]
        else:
            value = getattr(value, name)
    return value


@each_case("case", CASES)
@each_case("size", [None, 1], ids=["whole", "in pieces"])
def test_quirk(case: Case, size: int | None) -> None:
    if size is None or len(case.body) > 10_000:  # byte by byte, a large body would show no more but take long
        size = 997 if size else len(case.body)
    parser = read(case, size)
    assert (parser.end, type(parser.error)) == (case.end, case.error or USUAL_ERRORS.get(case.end, type(None)))
    assert parser.snapshot.text == case.text
    assert sorted(anomaly.rule.id for anomaly in parser.anomalies) == sorted(case.rules.split())
    assert {path: look(parser, path) for path in case.has} == case.has


def arguments_of(*fragments: str) -> Any:
    deltas = [{"tool_calls": [part(0, "a", "f", fragment)]} for fragment in fragments]
    body = b"".join(map(event, [*map(chunk, deltas), chunk({}, "tool_calls")])) + DONE
    parser = ChatCompletionParser()
    parser.feed(body)
    return parser.completion().tool_calls[0].function


def test_what_parse_makes_of_placeholders_and_no_arguments() -> None:
    assert arguments_of("{}", '{"n":1}').parse() == {"n": 1}
    assert arguments_of("").parse() == arguments_of("{}").parse() == {}


def test_arguments_that_were_cut() -> None:
    with pytest.raises(ParseError) as caught:
        arguments_of('{"city":"Ber').parse()
    assert caught.value.cut


# Tests that are named exist


@cache
def functions_of(path: str) -> frozenset[str]:
    """The test functions of a module."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


NAMED = sorted({case for cases in QUIRKS.values() for case in cases if isinstance(case, str)})


@each_case("name", NAMED)
def test_a_test_that_is_named_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert function.startswith("test_")
    assert function in functions_of(path)
