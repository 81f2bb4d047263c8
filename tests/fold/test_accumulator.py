"""The fold, field by field: its table of rules, row by row, over the wire and through the parser.

Each table also says which rules of the catalogue are to be noted, and no other may be: what is tolerated is never
silent, and what every provider may do (unknown fields, reasoning fields, where usage stands) is no anomaly.
"""

import inspect
import json
import pickle
import sys
from base64 import b64encode
from copy import deepcopy
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import pytest
from cases import each_case
from invariants import check
from pydantic import BaseModel
from shared_data import shared_data

from chunkfold import (
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ContentPart,
    ImageReceived,
    ReasoningDelta,
    ReasoningPart,
    ServerSentEvent,
    StreamEnd,
    parse_payload,
)
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.testing import HEAD, sse


def chunk(
    delta: Any = ..., *, finish_reason: Any = None, index: Any = 0, choice: dict[str, Any] | None = None, **top: Any
) -> dict[str, Any]:
    """A chunk as OpenAI sends it, with one choice; `...` leaves a key out."""
    keys = {"index": index, "delta": delta, "finish_reason": finish_reason, **(choice or {})}
    one = {key: value for key, value in keys.items() if value is not ...}
    return {key: value for key, value in {**HEAD, "choices": [one], **top}.items() if value is not ...}


def said(*deltas: Any, finish_reason: Any = "stop") -> list[dict[str, Any]]:
    """A chunk for each delta, and the finish reason beside the last."""
    *first, last = deltas
    return [*(chunk(delta) for delta in first), chunk(last, finish_reason=finish_reason)]


def fold(*payloads: dict[str, Any]) -> ChatCompletionParser:
    """A parser that read the payloads and [DONE], without an error."""
    parser = ChatCompletionParser()
    for data in sse(*payloads):
        parser.feed(data)
    parser.raise_error()
    return parser


def noted(parser: ChatCompletionParser) -> set[str]:
    return {anomaly.rule.id for anomaly in parser.anomalies}


# Append

APPENDED = {
    "content": (lambda text: {"content": text}, lambda message: message.content),
    "refusal": (lambda text: {"refusal": text}, lambda message: message.refusal),
    "reasoning": (lambda text: {"reasoning": text}, lambda message: message.reasoning),
    "reasoning_content": (lambda text: {"reasoning_content": text}, lambda message: message.reasoning),
    "the raw field": (lambda text: {"reasoning_content": text}, lambda message: message.reasoning_content),
    "function.arguments":
        (lambda text: {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": text}}]},
         lambda message: message.tool_calls[0].function.arguments),
    "custom.input":
        (lambda text: {"tool_calls": [{"index": 0, "id": "a", "custom": {"input": text}}]},
         lambda message: message.tool_calls[0].custom.input),
    "function_call.arguments":
        (lambda text: {"function_call": {"arguments": text}}, lambda message: message.function_call.arguments),
    "audio.transcript": (lambda text: {"audio": {"transcript": text}}, lambda message: message.audio.transcript),
}  # fmt: skip


@each_case(("delta", "text"), APPENDED.values(), ids=APPENDED)
def test_appended(delta: Any, text: Any) -> None:
    """Repeated and growing pieces are pieces: "ha" twice is laughter, not a repeat."""
    pieces = ["ha", "ha", "", None, "haha", "\r\n", "é", "\U0001f600"]
    parser = fold(*said(*map(delta, pieces)))
    assert text(parser.completion().message) == "hahahaha\r\né\U0001f600"
    assert noted(parser) == set()


@pytest.mark.parametrize(
    ("deltas", "content"),
    [
        pytest.param([{}], None, id="never sent"),
        pytest.param([{"content": None}], None, id="null"),
        pytest.param([{"content": ""}], "", id="only empty"),
        pytest.param([{"content": None}, {"content": "a"}, {"content": None}], "a", id="null around it"),
    ],
)
def test_no_content_is_none_and_empty_content_is_empty(deltas: list[Any], content: str | None) -> None:
    assert fold(*said(*deltas)).completion().message.content == content


# First, and last, value that is not empty

FIRST = [
    pytest.param("id", ["a", "a"], "a", set(), id="id"),
    pytest.param("id", ["", None, "b", "b"], "b", {"CF203"}, id="id: empty is absent (Azure)"),
    pytest.param("id", ["a", "b", ...], "a", {"CF205"}, id="id: changed"),
    pytest.param("id", [..., None, ...], None, {"CF216"}, id="id: never sent"),
    pytest.param("id", ["", ""], None, {"CF203", "CF216"}, id="id: always empty"),
    pytest.param("created", [0, 5, 6], 5, {"CF203"}, id="created: 0 is absent"),
    pytest.param("created", [..., None, 6], 6, set(), id="created: late"),
    pytest.param("created", [..., ...], None, {"CF216"}, id="created: never sent"),
    pytest.param("model", ["", "m-1", "m-2"], "m-1", {"CF203", "CF205"}, id="model"),
    pytest.param("system_fingerprint", [None, "f1", "f2"], "f1", set(), id="system_fingerprint"),
    pytest.param("system_fingerprint", ["", "f2"], "f2", set(), id="system_fingerprint: empty"),
]


def sent_at_the_top(name: str, values: list[Any]) -> list[dict[str, Any]]:
    *first, last = values
    return [*(chunk({}, **{name: value}) for value in first), chunk({}, finish_reason="stop", **{name: last})]


@each_case(("name", "values", "expected", "rules"), FIRST)
def test_first_that_is_not_empty(name: str, values: list[Any], expected: Any, rules: set[str]) -> None:
    parser = fold(*sent_at_the_top(name, values))
    assert getattr(parser.completion(), name) == expected
    assert noted(parser) == rules


@pytest.mark.parametrize(
    ("values", "rules"),
    [
        (["chat.completion.chunk"] * 2, set()),
        (["", "chat.completion.chunk"], {"CF206"}),
        ([..., "chat.reasoning"], {"CF206"}),
        (["chat.completion", None], {"CF206"}),
    ],
)
def test_object_decides_nothing(values: list[Any], rules: set[str]) -> None:
    parser = fold(*sent_at_the_top("object", values))
    assert parser.completion().object == "chat.completion"
    assert noted(parser) == rules


ROLES = {
    "once": ([{"role": "assistant"}, {}], "assistant", set()),
    "never: assistant": ([{}, {}], "assistant", set()),
    "empty: assistant": ([{"role": None}, {"role": ""}], "assistant", {"CF203"}),
    "empty, then another": ([{"role": ""}, {"role": "model"}], "model", {"CF203"}),
    "on every chunk (StepFun)": ([{"role": "assistant"}] * 3, "assistant", set()),
    "changed": ([{"role": "assistant"}, {"role": "model"}], "assistant", {"CF204"}),
    "neither is assistant": ([{"role": "model"}, {"role": "bot"}], "model", {"CF204"}),
    "a passing one before assistant":
        ([{"role": "model"}, {"role": "assistant"}, {"role": "user"}], "assistant", {"CF204"}),
}  # fmt: skip


@each_case(("deltas", "role", "rules"), ROLES.values(), ids=ROLES)
def test_role(deltas: list[Any], role: str, rules: set[str]) -> None:
    parser = fold(*said(*deltas))
    assert parser.completion().message.role == role
    assert noted(parser) == rules


FINISH_REASONS = [
    pytest.param([None, "stop"], "stop", set(), id="once"),
    pytest.param(["", "", "stop"], "stop", {"CF203"}, id="empty until the end (StepFun)"),
    pytest.param(["stop", "stop"], "stop", {"CF504"}, id="twice (SGLang)"),
    pytest.param(["stop", "length"], "length", {"CF504"}, id="the last"),
    pytest.param(["length", "", None, ...], "length", {"CF203"}, id="empty after it"),
    pytest.param([None, "eos_token"], "eos_token", {"CF506"}, id="another word, as sent"),
]


@pytest.mark.parametrize(("reasons", "expected", "rules"), FINISH_REASONS)
def test_finish_reason_is_the_last_that_is_not_empty(reasons: list[Any], expected: str, rules: set[str]) -> None:
    parser = fold(*(chunk({}, finish_reason=reason) for reason in reasons))
    assert parser.completion().finish_reason == expected
    assert noted(parser) == rules


@pytest.mark.parametrize(
    ("values", "expected"), [(["auto", "default"], "default"), (["flex", "", None, ...], "flex"), ([...], None)]
)
def test_service_tier_is_the_last_that_is_not_empty(values: list[Any], expected: str | None) -> None:
    assert fold(*sent_at_the_top("service_tier", values)).completion().service_tier == expected


# Usage


def counts(prompt: Any = ..., completion: Any = ..., total: Any = ..., **more: Any) -> dict[str, Any]:
    """Usage; `...` leaves a count out."""
    known = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}
    return {name: count for name, count in known.items() if count is not ...}


USAGES = {
    "at the end": ([None, counts(3)], counts(3), set()),
    "null and absent take nothing away": ([counts(3), None, ...], counts(3), set()),
    "cumulative on every chunk: the last, never the sum":
        ([counts(completion=n, total=n) for n in (1, 2, 9)], counts(completion=9, total=9), set()),
    "key by key, the last that is not null": ([counts(3, 1), counts(None, 2)], counts(3, 2), set()),
    "also a smaller one": ([counts(completion=9), counts(completion=4)], counts(completion=4), set()),
    "a 0 never replaces a positive number (MiniMax)": ([counts(3, x=0.5), counts(0, x=0)], counts(3, x=0.5), {"CF401"}),
    "a 0 is a value where none was": ([counts(0, None), counts(3, 0)], counts(3, 0), set()),
    "details merge alike":
        ([{"prompt_tokens_details": {"cached_tokens": 5, "x": 1},
         "completion_tokens_details": {"reasoning_tokens": 7}},
         {"prompt_tokens_details": {"cached_tokens": 0, "y": 2}, "completion_tokens_details": None}],
         {"prompt_tokens_details": {"cached_tokens": 5, "x": 1, "y": 2},
         "completion_tokens_details": {"reasoning_tokens": 7}}, {"CF401"}),
    "a provider's own keys too":
        ([{"cached_tokens": 1, "cost": 0.1, "tier": "a"}, {"cached_tokens": 2, "cost": 0.2, "tier": "b", "more": {}}],
         {"cached_tokens": 2, "cost": 0.2, "tier": "b", "more": {}}, set()),
    "a total too small by the merge becomes the sum (bridges to Claude)":
        ([counts(10, 1, 11), counts(completion=5, total=5)], counts(10, 5, 15), {"CF402"}),
    "also where a 0 was held back": ([counts(10, 0, 10), counts(0, 5, 5)], counts(10, 5, 15), {"CF401", "CF402"}),
    "a total that was sent too small stays": ([counts(10, 5, 12)] * 2, counts(10, 5, 12), set()),
    "also where a part of it comes again": ([counts(10, 5, 12), counts(10)], counts(10, 5, 12), set()),
    "also beside other keys: it was not the merge that made it so":
        ([{"x": 1}, counts(10, 5, 12)], counts(10, 5, 12, x=1), set()),
    "a larger total stays": ([counts(10, 5, 99), counts(completion=6)], counts(10, 6, 99), set()),
    "a total that is one below the sum": ([counts(10, total=14), counts(completion=5)], counts(10, 5, 15), {"CF402"}),
    "a total that is the sum": ([counts(10, total=15), counts(completion=5)], counts(10, 5, 15), set()),
    "empty": ([{}], {}, set()),
    "the names of another API (mlx-vlm)":
        ([counts(total=16, input_tokens=11, output_tokens=5), {"output_tokens": 7}],
         counts(11, 7, 18, input_tokens=11, output_tokens=7), {"CF402", "CF405"}),
    "beside its own":
        ([counts(10, 5, 15, input_tokens=0, output_tokens=0)], counts(10, 5, 15, input_tokens=0, output_tokens=0),
         set()),
    "after its own":
        ([counts(100, 20, 120), {"input_tokens": 3, "output_tokens": 20}],
         counts(100, 20, 120, input_tokens=3, output_tokens=20), set()),
    "unless they are below 0": ([{"output_tokens": -5}], {"output_tokens": -5}, set()),
    "unless they are no counts":
        ([counts(total=3, input_tokens="11", output_tokens=2.5)],
         counts(total=3, input_tokens="11", output_tokens=2.5), set()),
}  # fmt: skip


@each_case(("usages", "expected", "rules"), USAGES.values(), ids=USAGES)
def test_usage(usages: list[Any], expected: dict[str, Any], rules: set[str]) -> None:
    parser = fold(*sent_at_the_top("usage", usages))
    assert parser.completion().usage.model_dump(exclude_none=True) == expected
    assert noted(parser) == rules


GOOD_USAGE = {
    "total_tokens": 5,
    "cached_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 3},
    "x_details": {"a": 1},
}
WRONG_USAGES = [
    pytest.param({"total_tokens": "many"}, id="a text"),
    pytest.param({"total_tokens": [1]}, id="a list"),
    pytest.param({"total_tokens": True}, id="a boolean"),
    pytest.param({"total_tokens": {"a": 1}}, id="an object"),
    pytest.param({"prompt_tokens_details": {"cached_tokens": "many"}}, id="in details"),
    pytest.param({"prompt_tokens_details": 7}, id="details that are a number"),
    pytest.param({"cached_tokens": "many"}, id="a provider's own count"),
    pytest.param({"x_details": "none"}, id="a provider's own details"),
    pytest.param([], id="no object (PHP)"),
    pytest.param("12", id="a text for all of it"),
]


@each_case("wrong", WRONG_USAGES)
def test_a_wrong_count_never_displaces_a_good_one(wrong: Any) -> None:
    for order in ([GOOD_USAGE, wrong], [wrong, GOOD_USAGE]):
        parser = fold(*sent_at_the_top("usage", order))
        assert parser.completion().usage.model_dump(exclude_none=True) == GOOD_USAGE
        assert noted(parser) <= {"CF209"}
    assert noted(fold(*sent_at_the_top("usage", [GOOD_USAGE, wrong]))) == {"CF209"}


@pytest.mark.parametrize("raw", [[], "12", 5, True, [{"total_tokens": 1}]])
def test_a_usage_that_is_no_object_is_none(raw: Any) -> None:
    """PHP relays."""
    parser = fold(*sent_at_the_top("usage", [raw]))
    completion = parser.completion()
    assert completion.usage is None
    assert completion.raw_values == {"usage": raw}
    assert noted(parser) == {"CF209"}
    assert ChatCompletion.model_validate(completion.model_dump()) == completion
    assert ChatCompletion.model_validate_json(completion.model_dump_json()) == completion


def test_a_usage_that_is_no_object_makes_way_for_that_of_groq() -> None:
    completion = fold(*said({"content": "a"}), chunk({}, usage=[], x_groq={"usage": {"total_tokens": 3}})).completion()
    assert completion.usage.total_tokens == 3


def test_the_head_of_a_keep_alive_is_not_that_of_the_completion() -> None:
    """Gateways send such chunks until the model answers (oMLX, OmniRoute)."""
    waiting = chunk({"content": ""}, id="chatcmpl-keepalive", model="keepalive", created=0)
    parser = fold(waiting, waiting, *said({"content": "Hi"}))
    completion = parser.completion()
    assert (completion.id, completion.model, completion.created) == (HEAD["id"], HEAD["model"], HEAD["created"])
    assert noted(parser) == {"CF203"}
    ping = {"id": "acme-keepalive", "model": "tiny-keepalive"}
    assert fold(*(chunk({"content": "Hi"}, **ping) for _ in range(2))).snapshot.model == "tiny-keepalive"
    odd = ChatCompletionChunk.model_construct(id=5, model=["m"], created=1, object="chat.completion.chunk", choices=[])
    StreamFold().add(odd)  # what nobody validated


def test_usage_has_the_details_that_were_sent() -> None:
    sent = {"prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": None, "x": [1]}}
    usage = fold(*said({"content": "a"}), chunk({}, usage=sent)).completion().usage
    assert usage is not None
    details = {"cached_tokens": 0, "x": [1]}
    assert usage.model_dump(exclude_unset=True) == {"prompt_tokens": 4, "prompt_tokens_details": details}


WHERE = {
    "in the chunk": ({"usage": {"total_tokens": 1}}, {}, 1),
    "in the choice (Moonshot)": ({}, {"usage": {"total_tokens": 2}}, 2),
    "in x_groq": ({"x_groq": {"id": "req_1", "usage": {"total_tokens": 3}}}, {}, 3),
    "the chunk before the choice": ({"usage": {"total_tokens": 1}}, {"usage": {"total_tokens": 2}}, 1),
    "the choice before x_groq": ({"x_groq": {"usage": {"total_tokens": 3}}}, {"usage": {"total_tokens": 2}}, 2),
    "a null is not there": ({"usage": None, "x_groq": {"usage": {"total_tokens": 3}}}, {"usage": None}, 3),
    "nor is an empty one": ({"usage": {}, "x_groq": {"usage": {"total_tokens": 3}}}, {}, 3),
    "an empty one before the choice's": ({"usage": {}}, {"usage": {"total_tokens": 2}}, 2),
}  # fmt: skip


@each_case(("top", "choice", "total"), WHERE.values(), ids=WHERE)
def test_where_usage_stands_is_no_anomaly(top: dict[str, Any], choice: dict[str, Any], total: int) -> None:
    parser = fold(chunk({"content": "a"}), chunk({}, finish_reason="stop", choice=choice, **top))
    assert parser.completion().usage.total_tokens == total
    assert noted(parser) == set()


def test_usage_of_a_wrong_type_is_noted_wherever_it_stands() -> None:
    parser = fold(*said({"content": "a"}), chunk({}, choice={"usage": "x"}, x_groq={"usage": {"total_tokens": 3}}))
    assert parser.completion().usage.total_tokens == 3
    assert [(one.rule.id, one.detail) for one in parser.anomalies if one.rule.id == "CF209"] == [
        ("CF209", "usage: expected an object, received str")
    ]


@pytest.mark.parametrize("place", ["top", "choice", "x_groq"])
def test_counts_are_read_from_strings_wherever_usage_stands(place: str) -> None:
    usage = {"usage": {"prompt_tokens": "3", "total_tokens": 5.0, "prompt_tokens_details": {"cached_tokens": "2"}}}
    sent = {"top": usage, "choice": {"choice": usage}, "x_groq": {"x_groq": usage}}[place]
    parser = fold(*said({"content": "a"}), chunk({}, **sent))
    counted = parser.completion().usage
    assert (counted.prompt_tokens, counted.total_tokens, counted.cached_tokens) == (3, 5, 2)
    assert [(one.rule.id, one.count) for one in parser.anomalies if one.rule.id == "CF215"] == [("CF215", 3)]


def test_usage_after_the_finish_reason() -> None:
    """A trailer with empty choices; NagaAI's has nothing else at all."""
    parser = fold(*said({"content": "a"}), {"choices": [], "usage": {"total_tokens": 4}})
    assert parser.completion().usage.total_tokens == 4
    assert noted(parser) == {"CF206"}  # the trailer has no object


# Audio


def base64(data: bytes) -> str:
    return b64encode(data).decode()


AUDIO = {
    "each piece is base64 of its own: bytes joined, encoded once":
        ([{"data": base64(b"ab")}, {"data": base64(b"c")}, {"data": base64(b"defg")}], {"data": base64(b"abcdefg")},
         set()),
    "one base64 text that was cut anywhere: joined": ([{"data": "YW"}, {"data": "Jj"}], {"data": "YWJj"}, {"CF218"}),
    "no base64: texts joined": ([{"data": "*"}, {"data": base64(b"a")}], {"data": "*" + base64(b"a")}, {"CF218"}),
    "id and expiry: the last that is not empty":
        ([{"id": "a1"}, {"id": "a2", "expires_at": 1}, {"id": "", "expires_at": 2}, {"expires_at": None}],
         {"id": "a2", "expires_at": 2}, set()),
    "the expiry alone at the end":
        ([{"id": "a1", "data": "", "transcript": "He"}, {"transcript": "llo"}, {"expires_at": 9}],
         {"id": "a1", "transcript": "Hello", "expires_at": 9}, set()),
    "unknown keys: the last not null": ([{"x": 1, "y": 2}, {"x": 3, "y": None}], {"x": 3, "y": 2}, set()),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "expected", "rules"), AUDIO.values(), ids=AUDIO)
def test_audio(pieces: list[dict[str, Any]], expected: dict[str, Any], rules: set[str]) -> None:
    parser = fold(*said(*({"audio": piece} for piece in pieces)))
    audio = parser.completion().message.audio
    assert {key: value for key, value in audio.model_dump().items() if value not in (None, "")} == expected
    assert noted(parser) == rules


# reasoning_details

TEXT = "reasoning.text"


def at(index: int, **fields: Any) -> dict[str, Any]:
    """A block of text at an index."""
    return {"type": TEXT, "index": index, **fields}


def summary(text: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.summary", "index": 0, **({} if text is None else {"summary": text}), **fields}


def encrypted(data: str, id_: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    ids = {} if id_ is None else {"id": id_}
    return {"type": "reasoning.encrypted", "index": index, "data": data, **ids, **fields}


def signed(signature: str, id_: str | None = None, **fields: Any) -> dict[str, Any]:
    ids = {} if id_ is None else {"id": id_}
    return {"type": "reasoning.encrypted", "index": 0, "signature": signature, **ids, **fields}


def thinking(text: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "thinking", **({} if text is None else {"thinking": text}), **fields}


REDACTED = {"type": "redacted_thinking", "data": "x", "index": 0}
DETAILS = {
    "text appends": ([[at(0, text="a")], [at(0, text="b")]], [at(0, text="ab")]),
    "summary appends": ([[summary("a")]] * 2, [summary("aa")]),
    "data appends": ([[encrypted("a")]] * 2, [encrypted("aa")]),
    "a signature that comes late and alone":
        ([[at(0, text="a", signature=None)], [at(0, signature="s")]], [at(0, text="a", signature="s")]),
    "signature, id, format: the last that is not empty":
        ([[at(0, signature="s", id="i", format="f")], [at(0, signature="", id=None, format="")],
         [at(0, signature="t", format="g")]], [at(0, signature="t", id="i", format="g")]),
    "by index, not by place":
        ([[at(0, text="a"), at(1, text="b")], [at(1, text="B"), at(0, text="A")]],
         [at(0, text="aA"), at(1, text="bB")]),
    "by type too: the same index twice":
        ([[at(0, text="a")], [encrypted("x")], [at(0, text="b")]], [at(0, text="ab"), encrypted("x")]),
    "a fragment without a type: to the last block with its index":
        ([[at(0, text="a"), at(1, text="b")], [{"index": 0, "text": "A"}], [{"index": 0, "type": "", "signature": "s"}]],
         [at(0, text="aA", signature="s"), at(1, text="b")]),
    "of whichever type that is":
        ([[at(0, text="a")], [encrypted("x")], [{"index": 0, "type": None, "data": "X"}]],
         [at(0, text="a"), encrypted("xX")]),
    "but a text without a type after encrypted data with an id is another block":
        ([[encrypted("x", "rs_1")], [{"index": 0, "text": "a"}], [{"index": 0, "text": "A"}]],
         [encrypted("x", "rs_1"), {"index": 0, "text": "aA"}]),
    "encrypted data of another id is another block, at the same index too (OpenRouter)":
        ([[encrypted("x", "rs_1")], [encrypted("y", "rs_2")], [encrypted("z")], [encrypted("!", "rs_2")]],
         [encrypted("x", "rs_1"), encrypted("yz!", "rs_2")]),
    "a summary after encrypted data with an id is another block, at the same index too (OpenRouter)":
        ([[summary("a")], [summary("b")], [encrypted("x", "rs_1")], [summary(format="f")], [encrypted("X", "rs_1")],
         [summary("c")], [summary("d")], [encrypted("y", "rs_2")]], [summary("ab", format="f"),
         encrypted("xX", "rs_1"), summary("cd"), encrypted("y", "rs_2")]),
    "not where the encrypted data has an index of its own":
        ([[summary("a")], [encrypted("x", "rs_1", 1)], [summary("b")]], [summary("ab"), encrypted("x", "rs_1", 1)]),
    "nor where the text is of the same type":
        ([[encrypted("x", "rs_1")], [{"type": "reasoning.encrypted", "index": 0, "text": "a"}]],
         [encrypted("x", "rs_1", text="a")]),
    "another signature in place of the data is another block, at the same index too (Bifrost)":
        ([[at(0, text="a")], [signed("s")], [signed("t", "tool_call_1")], [signed("t", "tool_call_1")],
         [signed("u", "tool_call_2")], [signed("", "tool_call_2", format="f")]],
         [at(0, text="a"), signed("s"), signed("t", "tool_call_1"), signed("u", "tool_call_2", format="f")]),
    "a text after a signed one is another block, at the same index too (Bifrost)":
        ([[at(0, text="a")], [at(0, text="b")], [at(0, signature="s")], [at(0, signature="t")], [at(0, text="c")],
         [at(0, text="d", signature="u")], [at(0, text="e", signature="v")], [at(0, text="f", signature="v")]],
         [at(0, text="ab", signature="t"), at(0, text="cd", signature="u"), at(0, text="ef", signature="v")]),
    "not where only a signature came before it":
        ([[at(0, signature="s")], [at(0, text="a")]], [at(0, text="a", signature="s")]),
    "text of another id at the same index is not":
        ([[at(0, text="a", id="1")], [at(0, text="b", id="2")]], [at(0, text="ab", id="2")]),
    "without an index: to the last of its type":
        ([[{"type": TEXT, "text": "a"}], [{"type": "x", "text": "-"}],
         [{"type": TEXT, "text": "b", "signature": "s"}]],
         [{"type": TEXT, "text": "ab", "signature": "s"}, {"type": "x", "text": "-"}]),
    "the last of its type may have an index":
        ([[at(0, text="a"), at(1, text="b")], [{"type": TEXT, "text": "!"}]], [at(0, text="a"), at(1, text="b!")]),
    "unless the id differs":
        ([[{"type": TEXT, "id": "i", "text": "a"}], [{"type": TEXT, "id": "i", "text": "b"}],
         [{"type": TEXT, "id": "j"}]], [{"type": TEXT, "id": "i", "text": "ab"}, {"type": TEXT, "id": "j"}]),
    "null text adds nothing": ([[at(0, text=None)], [at(0, text="a")]], [at(0, text="a")]),
    "Anthropic's blocks (Meituan)":
        ([[thinking("a")], [thinking("b")], [thinking(signature="s")], [thinking("c")], [thinking("d", signature="t")]],
         [thinking("ab", signature="s"), thinking("cd", signature="t")]),
    "a text beside the signature that repeats the block":
        ([[thinking("a")], [thinking("b")], [thinking("ab", signature="s")]], [thinking("ab", signature="s")]),
    "by index, and redacted ones":
        ([[REDACTED], [thinking("", index=1)], [thinking("a", index=1)], [thinking("b", index=1)],
         [thinking(signature="s", index=1)]], [REDACTED, thinking("ab", index=1, signature="s")]),
    "not where the type is Anthropic's and the text is not":
        ([[{"type": "thinking", "text": "a"}], [{"type": "thinking", "text": "b"}]],
         [{"type": "thinking", "text": "ab"}]),
    "whole blocks without type and index (Helicone)":
        ([[{"thinking": "a", "signature": "s"}, {"thinking": "b", "signature": "t"}]],
         [{"thinking": "a", "signature": "s"}, {"thinking": "b", "signature": "t"}]),
}  # fmt: skip


@each_case(("deltas", "expected"), DETAILS.values(), ids=DETAILS)
def test_reasoning_details(deltas: list[Any], expected: list[Any]) -> None:
    # Content begins in between: a signature may well come after it.
    parser = fold(*said(*({"reasoning_details": details, "content": "."} for details in deltas)))
    assert parser.completion().message.reasoning_details == expected
    assert noted(parser) == set()


@each_case("signature", ["s", None])
def test_signed_thinking_in_details_is_a_repeat(signature: str | None) -> None:
    """Of reasoning that came in another field; without a signature it is as new as in any other spelling."""
    parser = fold(*said({"reasoning": "a"}, {"reasoning_details": [thinking("a", signature=signature)]}))
    assert parser.completion().reasoning == ("a" if signature else "aa")


# Reasoning text, in all its spellings

THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "T"}]}
REASONING_PART = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "T"}]}
THOUGHT = {"google": {"thought": True}}
SPELLINGS = {
    "reasoning_content": ({"reasoning_content": "T"}, set()),
    "reasoning": ({"reasoning": "T"}, set()),
    "text of reasoning_details": ({"reasoning_details": [{"type": TEXT, "text": "T"}]}, set()),
    "else their summary": ({"reasoning_details": [{"type": "s", "summary": "T"}]}, set()),
    "thinking in them (Meituan)": ({"reasoning_details": [{"type": "thinking", "thinking": "T"}]}, set()),
    "thinking parts of the content (Mistral)": ({"content": [THINKING]}, {"CF208"}),
    "twice, the same": ({"reasoning_content": "T", "reasoning": "T"}, set()),
    "twice: reasoning_content first": ({"reasoning_content": "T", "reasoning": "other"}, set()),
    "reasoning before details": ({"reasoning": "T", "reasoning_details": [{"text": "other"}]}, set()),
    "text before summary": ({"reasoning_details": [{"text": "T", "summary": "other"}]}, set()),
    "details before thinking parts":
        ({"reasoning_details": [{"text": "T"}], "content": [{"type": "thinking", "thinking": "other"}]}, {"CF208"}),
    "an empty one is not it": ({"reasoning_content": "", "reasoning": "T"}, set()),
    "two": ({"reasoning_content": None, "reasoning": "", "reasoning_details": [{"text": "T"}]}, set()),
    "reasoning_text (GitHub Copilot)": ({"reasoning_text": "T"}, set()),
    "reasoning before reasoning_text": ({"reasoning": "T", "reasoning_text": "other"}, set()),
    "cot_summary (GitHub Copilot in front of Azure)": ({"cot_summary": "T"}, set()),
    "then details": ({"reasoning_text": "T", "reasoning_details": [{"text": "other"}]}, set()),
    "thinking_blocks (LiteLLM)": ({"thinking_blocks": [{"type": "thinking", "thinking": "T"}]}, set()),
    "details before thinking_blocks":
        ({"reasoning_details": [{"text": "T"}], "thinking_blocks": [{"type": "thinking", "thinking": "other"}]}, set()),
    "thinking as an object (musistudio/llms)": ({"thinking": {"content": "T"}}, set()),
    "reasoning_content as an object (Envoy)": ({"reasoning_content": {"text": "T"}}, {"CF209"}),
    "reasoning as an object (Braintrust)": ({"reasoning": {"content": "T"}}, {"CF209"}),
    "an object with an empty id": ({"reasoning": {"id": "", "content": "T"}}, {"CF209"}),
    "a list of objects, in a whole message": ({"reasoning": [{"content": "T"}, "x"]}, {"CF209"}),
    "an object whose text is a number": ({"reasoning": {"text": 5}, "reasoning_text": "T"}, {"CF209"}),
    "blocks before thinking": ({"thinking_blocks": [{"thinking": "T"}], "thinking": {"content": "other"}}, set()),
    "content_blocks (Portkey)": ({"content_blocks": [{"index": 0, "delta": {"thinking": "T"}}]}, set()),
    "content_blocks only where no field of its own brought it":
        ({"reasoning_content": "T", "content_blocks": [{"index": 0, "delta": {"thinking": "other"}}]}, set()),
    "tensorzero_extra_content":
        ({"tensorzero_extra_content": [{"type": "thought", "text": "T", "summary_text": "S", "signature": "c2ln"}]},
         set()),
    "a summary in tensorzero_extra_content":
        ({"tensorzero_extra_content": [{"type": "thought", "id": "0", "text": None, "summary_text": "T"}]}, set()),
    "reasoning parts of the content (Databricks)": ({"content": [REASONING_PART]}, {"CF208"}),
    "a flagged content (Gemini)": ({"content": "<thought>T", "extra_content": THOUGHT}, set()),
    "a flagged content without a tag": ({"content": "T", "extra_content": THOUGHT}, set()),
    "a field of its own before the flag": ({"content": "other", "extra_content": THOUGHT, "reasoning": "T"}, set()),
    "a reasoning_text that is a number": ({"reasoning_text": 5, "reasoning": "T"}, {"CF209"}),
    "nulls": ({"reasoning_text": None, "thinking_blocks": None, "reasoning": "T"}, set()),
    "thinking_blocks that are no list": ({"thinking_blocks": "x", "reasoning": "T"}, {"CF209"}),
    "thinking_blocks of no objects": ({"thinking_blocks": ["x"], "reasoning": "T"}, {"CF209"}),
    "a block whose text is a number": ({"thinking_blocks": [{"thinking": 5}], "reasoning": "T"}, {"CF209"}),
    "a bare thinking is an unknown field": ({"thinking": "x", "reasoning": "T"}, set()),
    "nor one that is no string": ({"reasoning_content": {"x": 1}, "reasoning": "T"}, {"CF209"}),
    "nor one that is a number": ({"reasoning": 5, "reasoning_content": "T"}, {"CF209"}),
}  # fmt: skip


@each_case(("delta", "rules"), SPELLINGS.values(), ids=SPELLINGS)
def test_reasoning_is_taken_once_from_the_first_spelling(delta: dict[str, Any], rules: set[str]) -> None:
    parser = ChatCompletionParser()
    chunks = parser.feed(b"".join(sse(*said(delta, {}))))
    assert "".join(each.reasoning for each in chunks) == "T"
    message = parser.completion().message
    assert message.reasoning == "T"
    assert message.model_dump()["reasoning"] == "T"
    assert noted(parser) == rules


@each_case(("delta", "rules"), SPELLINGS.values(), ids=SPELLINGS)
def test_reasoning_is_output_in_every_spelling(delta: dict[str, Any], rules: set[str]) -> None:
    """A stream that is cut while it thinks is truncated, and no retry is safe."""
    parser = ChatCompletionParser(clock=lambda: 1.0)
    parser.events()
    parser.feed(b"".join(sse(chunk(delta), done=False)))
    events = [each.delta for each in parser.events() if isinstance(each, ReasoningDelta)]
    parser.close()
    assert events == ["T"]
    assert parser.end is StreamEnd.TRUNCATED
    assert not parser.error.retryable
    assert parser.timing.first_output is not None
    assert [type(part) for part in parser.snapshot.message.parts] == [ReasoningPart]


@each_case(("delta", "rules"), SPELLINGS.values(), ids=SPELLINGS)
def test_reasoning_of_a_whole_message_is_the_same(delta: dict[str, Any], rules: set[str]) -> None:
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": delta, "finish_reason": "stop"}]}
    parser = ChatCompletionParser()
    parser.feed(json.dumps(whole).encode())
    parser.close()
    assert parser.completion().reasoning == "T"


DETAIL = {"type": TEXT, "text": "a"}
SIGNED = [
    {"content": text, **signature} for text, sign in (("a", "s"), ("b", "t")) for signature in ({}, {"signature": sign})
]
BESIDE_THE_FLAG = {"google": {"thought_signature": "s"}, "x": 1}
CITED = {"type": "text", "text": "D", "citations": [1], "index": 1}
SIGNED_PART = {"type": "thinking", "thinking": "hm", "signature": "s", "index": 0}
SIGNED_SUMMARY = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "T", "signature": "s"}]}
EMPTY_CITED = [{"type": "text", "text": "", "citations": [number]} for number in (1, 2)]


def block(thinking: Any = "hm", **fields: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": thinking, **fields}


def text_part(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **fields}


# The deltas, and fields of the message as it is dumped without nulls; all of them where its role is among them.
DUMPED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a spelling of reasoning that changes from delta to delta":
        ([{"reasoning_content": "a"}, {"reasoning": "b"}, {"reasoning_details": [{"text": "c"}]}],
         {"reasoning": "abc"}),
    "raw fields beside the reasoning; bare `thinking` and `thought` are unknown keys":
        ([{"reasoning_content": "a", "reasoning": "a", "thinking": "x", "reasoning_details": [DETAIL]},
         {"reasoning_content": "b", "thought": "y"}],
         {"role": "assistant", "reasoning": "ab", "reasoning_content": "ab", "reasoning_details": [DETAIL],
         "tool_calls": [], "thinking": "x", "thought": "y"}),
    "a raw reasoning that is no string gives way to the text":
        ([{"reasoning": {"effort": "high"}}, {"reasoning_content": "a"}], {"reasoning": "a"}),
    "two thoughts of one thinking object":
        ([{"thinking": one} for one in SIGNED], {"reasoning": "ab", "thinking": {"content": "ab", "signature": "t"}}),
    "what stands beside the flag of a thought":
        ([{"content": "a", "extra_content": {**BESIDE_THE_FLAG, "google": {"thought": True, "thought_signature": "s"}}}],
         {"extra_content": BESIDE_THE_FLAG}),
    "text parts are not merged by their places":
        ([{"content": content} for content in (
         [SIGNED_PART], [text_part("A", index=1)], "B", [text_part("C", index=1)], [CITED, CITED], "E")],
         {"content_parts": [SIGNED_PART, text_part("ABC"), CITED, CITED, text_part("E")], "content": "ABCDDE"}),
    "parts at one place are each their own":
        ([{"content": EMPTY_CITED}, {"content": "a"}], {"content_parts": [*EMPTY_CITED, text_part("a")]}),
    "reasoning parts are pieces until text comes":
        ([{"content": content} for content in ([REASONING_PART], [SIGNED_SUMMARY], "a", [REASONING_PART],
         [{"type": "reasoning", "summary": "U"}], [THINKING])],
         {"reasoning": "TTTUT", "content_parts": [SIGNED_SUMMARY, text_part("a"),
          {**REASONING_PART, "summary": [*REASONING_PART["summary"], text_part("U")]}, THINKING]}),
    "a text before a list under the same key":
        ([{"content": [block(text)]} for text in ("", "a", [{"type": "x", "text": "b"}], "", "c")],
         {"reasoning": "abc", "content_parts": [block([text_part("a"), {"type": "x", "text": "b"}, text_part("c")])]}),
    "an empty text before a list under the same key":
        ([{"content": [block(text)]} for text in ("", [{"type": "x", "text": "b"}], "")],
         {"reasoning": "b", "content_parts": [block([{"type": "x", "text": "b"}])]}),
    "raw values beside what a provider sent under that name":
        ([{"refusal": "no"}, {"refusal": 5, "raw_values": {"a": 1}}], {"raw_values": {"a": 1, "refusal": 5}}),
    "raw values beside a text under that name":
        ([{"refusal": "no"}, {"refusal": 5, "raw_values": "x"}], {"raw_values": {"refusal": 5}}),
}  # fmt: skip


@each_case("name", DUMPED)
def test_what_deltas_come_to(name: str) -> None:
    deltas, expected = DUMPED[name]
    dumped = fold(*said(*deltas)).completion().message.model_dump(exclude_none=True)
    if "role" not in expected:  # a few fields
        dumped = {field: dumped[field] for field in expected}
    assert dumped == expected


def read_all(body: bytes, **options: Any) -> tuple[ChatCompletionParser, list[ChatCompletionChunk]]:
    """The parser that read a body to its end, and the chunks; every other way to read it comes to the same."""
    check(body)
    parser = ChatCompletionParser(**options)
    return parser, [*parser.feed(body), *parser.close()]


BLOCKS = {
    "at once": ([[block(signature="s")]], [block(signature="s")], "hm"),
    "the last piece has the signature": ([[block("h")], [block("m", signature="s")]], [block(signature="s")], "hm"),
    "the signed block repeats the text, twice":
        ([[block()], [block(signature="s")], [block(signature="s")]], [block(signature="s")], "hm"),
    "pieces": ([[block()], [block()]], [block("hmhm")], "hmhm"),
    "a signature that is empty": ([[block(signature="")]], [block()], "hm"),
    "after a signature comes another block":
        ([[block(signature="s")], [block("so")]], [block(signature="s"), block("so")], "hmso"),
    "by index":
        ([[block(index=0), block(index=1)], [block("!", index=0)]], [block("hm!", index=0), block(index=1)], "hmhm!"),
    "by id": ([[block(id="a")], [block(id="b")]], [block(id="a"), block(id="b")], "hmhm"),
    "by signature, where the text is left out":
        ([[block("", signature=signature)] for signature in ("s", "s", "t", "", "t")],
         [block("", signature=signature) for signature in ("s", "t")], None),
    "not by signature, where the text is repeated":
        ([[block(signature="s")], [block(signature="t")]], [block(signature="t")], "hm"),
}  # fmt: skip


@pytest.mark.parametrize(("deltas", "expected", "reasoning"), BLOCKS.values(), ids=BLOCKS)
def test_thinking_blocks(deltas: list[Any], expected: list[Any], reasoning: str | None) -> None:
    message = fold(*said(*({"thinking_blocks": blocks} for blocks in deltas))).completion().message
    assert message.model_dump()["thinking_blocks"] == expected
    assert message.reasoning == reasoning


def test_many_blocks_are_linear() -> None:
    """Pieces of thousands of blocks, by turns: joining them now and then must not look at all blocks each time."""
    accumulator = StreamFold()
    looked: list[int] = []
    for place in range(6_000):
        blocks = [{"type": "t", "index": place % 3_000, "text": "a"}]
        accumulator.add(ChatCompletionChunk.model_validate(chunk({"reasoning_details": blocks})))
        looked.append(accumulator._next_compaction)
    assert len(set(looked)) <= 4
    details = accumulator.snapshot.message.reasoning_details
    assert details is not None
    assert [one["text"] for one in details] == ["aa"] * 3_000


PIECES = {
    "a call": ({"tool_calls": [{"index": 0, "function": {"arguments": "a"}}]}, "tool_calls.last.arguments"),
    "the legacy call": ({"function_call": {"arguments": "a"}}, "function_call.arguments"),
    "a transcript": ({"audio": {"transcript": "a"}}, "audio.transcript"),
}  # fmt: skip


@pytest.mark.parametrize(("delta", "buffer"), PIECES.values(), ids=PIECES)
def test_the_pieces_of_every_text_are_joined_now_and_then(delta: dict[str, Any], buffer: str) -> None:
    accumulator = StreamFold()
    piece = ChatCompletionChunk.model_validate(chunk(delta))
    for _ in range(3_000):
        accumulator.compact()
        accumulator.add(piece)
    text = attrgetter(buffer)(accumulator.states[0])
    assert text.tell() == 3_000
    assert text._open.tell() < 2_000


# Content that is flagged as a thought (Gemini's compatible endpoint)


def thought(text: str, **fields: Any) -> dict[str, Any]:
    return {"content": text, "extra_content": {"google": {"thought": True, **fields}}}


THOUGHTS = {
    "tags": ([thought("<thought>h"), thought("m"), {"content": "</thought>Hi"}], "hm", "Hi"),
    "no tags": ([thought("h"), thought("m"), {"content": "Hi"}], "hm", "Hi"),
    "a tag alone": ([thought("<thought>hm"), {"content": "</thought>"}, {"content": "Hi"}], "hm", "Hi"),
    "an empty text": ([thought("<thought>hm"), {"content": ""}, {"content": "</thought>Hi"}], "hm", "Hi"),
    "the first one only":
        ([thought("<thought>hm"), {"content": "</thought>Hi"}, {"content": "</thought>"}], "hm", "Hi</thought>"),
    "not later": ([thought("hm"), {"content": "Hi"}, {"content": "</thought>"}], "hm", "Hi</thought>"),
    "not inside": ([thought("a<thought>b</thought>"), {"content": "Hi"}], "a<thought>b</thought>", "Hi"),
    "no flag": ([{"content": "<thought>a"}, {"content": "</thought>b"}], None, "<thought>a</thought>b"),
    "a flag of false":
        ([{"content": "a", "extra_content": {"google": {"thought": False}}}, {"content": "</thought>b"}], None,
         "a</thought>b"),
    "twice":
        ([thought("<thought>a"), {"content": "</thought>b"}, thought("<thought>c"), {"content": "</thought>d"}], "ac",
         "bd"),
    "a list of parts closes it too":
        ([thought("<thought>a"), {"content": [{"type": "text", "text": "b"}]}, {"content": "</thought>"}], "a",
         "b</thought>"),
    "nothing in it": ([thought(""), thought("<thought>")], None, None),
}  # fmt: skip


@each_case(("deltas", "reasoning", "text"), THOUGHTS.values(), ids=THOUGHTS)
def test_flagged_thoughts(deltas: list[Any], reasoning: str | None, text: str | None) -> None:
    """Plain text chunks come before and after, so that each way a chunk can take is taken."""
    last = [{"content": "."}] * 3
    parser, chunks = read_all(b"".join(sse(*said({"role": "assistant"}, *deltas, *last))))
    message = parser.completion().message
    assert (message.reasoning, message.content) == (reasoning, (text or "") + "...")
    assert "".join(each.text for each in chunks) == message.content
    assert "".join(each.reasoning for each in chunks) == (reasoning or "")
    assert "thought" not in message.model_dump().get("extra_content", {}).get("google", {})
    assert {one.rule.id for one in parser.anomalies} <= {"CF208"}


def test_a_thought_of_one_choice_does_not_touch_another() -> None:
    payloads = [
        chunk({"content": "a"}),
        chunk({"content": "b"}, index=1),
        chunk(thought("<thought>hm"), index=1),
        chunk({"content": "</thought>a"}),
        chunk(..., usage={"total_tokens": 1}, choices=[]),
        chunk({"content": "</thought>b"}, index=1),
        chunk({"content": "</thought>c"}, index=1),
    ]
    parser, _ = read_all(b"".join(sse(*payloads)))
    assert texts(parser.snapshot) == {0: "a</thought>a", 1: "bb</thought>c"}


def test_the_chunk_that_was_sent_is_not_changed() -> None:
    accumulator = ChatCompletionAccumulator()
    accumulator.add(ChatCompletionChunk.model_validate(chunk(thought("<thought>a"))))
    sent = ChatCompletionChunk.model_validate(chunk({"content": "</thought>b"}))
    before = sent.model_copy(deep=True)
    given = accumulator.add(sent)
    assert sent == before
    assert (given.text, accumulator.snapshot.text) == ("b", "b")
    assert accumulator.add(sent) is sent


# Content parts

PARTS = {
    "text": ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", ""),
    "thinking": ([THINKING], "", "T"),
    "thinking as a string": ([{"type": "thinking", "thinking": "T"}], "", "T"),
    "mixed": ([THINKING, {"type": "text", "text": "a"}, THINKING], "a", "TT"),
    "others": ([{"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "a"}], "a", ""),
    "strings among them": (["a", {"type": "text", "text": "b"}, "c"], "abc", ""),
    "without text": ([{"type": "text", "text": None}, {"type": "text"}], "", ""),
    "nested": ([{"type": "thinking", "thinking": ["T", {"type": "text", "text": "U"}]}], "", "TU"),
    "references in thinking":
        ([{"type": "thinking", "thinking": [THINKING["thinking"][0], {"type": "reference"}, 5]}], "", "T"),
    "none": ([], "", ""),
}  # fmt: skip


@each_case(("parts", "text", "reasoning"), PARTS.values(), ids=PARTS)
def test_content_parts_are_split(parts: list[Any], text: str, reasoning: str) -> None:
    parser = ChatCompletionParser()
    chunks = parser.feed(b"".join(sse(*said({"content": parts}, {"content": "!"}))))
    completion = parser.completion()
    assert (completion.message.content, completion.reasoning) == (text + "!", reasoning)
    assert (chunks[0].text, chunks[0].reasoning) == (text, reasoning)
    # The parts themselves stay on the chunk, as sent.
    assert chunks[0].choices[0].delta.content == parts
    assert noted(parser) == {"CF208"}


OTHERS = [
    [{"type": "text", "text": "See "}, {"type": "reference", "reference_ids": [1]}, {"type": "reference", "reference_ids": [2]}],
    [{"type": "text", "text": "this."}, {"type": "image_url", "image_url": {"url": "data:,"}}, {"x": 1}],
]  # fmt: skip


def test_other_parts_stay_in_their_order() -> None:
    """Mistral's references, and whatever else a content list may hold."""
    parser, chunks = read_all(b"".join(sse(*said({"content": OTHERS[0]}, {"content": OTHERS[1]}, {"content": "!"}))))
    message = parser.completion().message
    assert message.content == "".join(each.text for each in chunks) == "See this.!"
    assert message.model_dump()["content_parts"] == [*OTHERS[0], *OTHERS[1], {"type": "text", "text": "!"}]
    shown = [part.part if isinstance(part, ContentPart) else getattr(part, "text", None) for part in message.parts]
    assert shown == ["See ", *OTHERS[0][1:], "this.", *OTHERS[1][1:], "!"]
    (again,) = ChatCompletion.model_validate_json(parser.completion().model_dump_json()).choices
    assert [type(part).__name__ for part in again.message.parts] == ["TextPart", *["ContentPart"] * 4]


def test_images_in_content_lists_are_never_merged() -> None:
    images = [{"type": "image_url", "image_url": n, "signature": "s", "text": "t"} for n in range(2)]
    parser = ChatCompletionParser()
    parser.events()
    parser.feed(b"".join(sse(*said({"content": images}))))
    assert parser.completion().message.content_parts == images
    assert [one.image for one in parser.events() if isinstance(one, ImageReceived)] == images


def test_images_in_content_blocks_are_images() -> None:
    """Portkey sends Gemini's images so, all with the index of the text."""
    texts = [{"content": text, "content_blocks": [{"index": 0, "delta": {"text": text}}]} for text in ("a", "b")]
    images = [{"type": "image_url", "image_url": {"url": f"data:,{n}"}} for n in range(2)]
    first, last = ({"content_blocks": [{"index": 0, "delta": image}]} for image in images)
    parser = ChatCompletionParser()
    parser.events()
    parser.feed(b"".join(sse(*said(texts[0], first, last, texts[1]))))
    message = parser.completion().message
    received = [{"index": 0, **image} for image in images]
    assert message.images == received
    assert message.model_dump()["content_blocks"] == [{"type": "text", "text": "ab"}]
    assert [one.image for one in parser.events() if isinstance(one, ImageReceived)] == received
    assert [type(part).__name__ for part in message.parts] == ["TextPart", "ImagePart", "ImagePart", "TextPart"]
    assert fold(*said(first)).completion().message.model_dump().keys() & {"images", "content_blocks"} == {"images"}
    assert fold(chunk(first)).end == "done"  # an image is output


WRONG_PARTS: dict[str, tuple[Any, list[Any] | None]] = {
    "a number": (5, None),
    "null": (None, None),
    "a list": (["a"], None),
    "a text that is a number": ({"type": "text", "text": 5}, [{"type": "text", "text": 5}]),
    "a text without a type": ({"text": {"a": 1}}, [{"text": {"a": 1}}]),
    "thinking that is a number": ({"type": "thinking", "thinking": 5}, [{"type": "thinking", "thinking": 5}]),
}


@each_case("name", WRONG_PARTS)
def test_a_part_of_a_wrong_type_is_noted_and_an_object_kept(name: str) -> None:
    part, kept = WRONG_PARTS[name]
    parser = fold(*said({"content": [part, {"type": "text", "text": "Hi"}]}))
    message = parser.completion().message
    assert message.content == "Hi"
    assert message.content_parts == (kept and [*kept, {"type": "text", "text": "Hi"}])
    assert noted(parser) == {"CF208", "CF209"}


@each_case("part", [{"type": "text"}, {"type": "text", "text": None}, {"type": "output_text", "text": ""}])
def test_a_text_part_without_text_is_nothing(part: dict[str, Any]) -> None:
    parser = fold(*said({"content": [part, "Hi"]}))
    assert (parser.completion().text, parser.completion().message.content_parts) == ("Hi", None)
    assert noted(parser) == {"CF208"}


def test_a_text_part_with_more_values_is_kept_as_sent() -> None:
    """Was once wrong: citations beside a text were lost."""
    cited = {"type": "text", "text": "b", "citations": [{"url": "u"}]}
    empty = {"type": "text", "text": "c", "annotations": [], "id": None}
    message = (
        fold(*said({"content": "a"}, {"content": [cited, empty]}, {"content": [cited]}, {"content": "d"}))
        .completion()
        .message
    )
    assert message.content == "abcbd"
    assert message.to_param() == {"role": "assistant", "content": "abcbd"}
    assert message.content_parts == [
        {"type": "text", "text": "a"},
        cited,
        {"type": "text", "text": "c"},
        cited,
        {"type": "text", "text": "d"},
    ]
    assert [part.type for part in message.parts] == ["text"]


def test_many_pieces_of_a_part_are_joined_now_and_then() -> None:
    accumulator = ChatCompletionAccumulator()
    for _ in range(3_000):
        accumulator.add(ChatCompletionChunk.model_validate(chunk({"content": [REASONING_PART]})))
    message = accumulator.snapshot.message
    assert message.reasoning == "T" * 3_000
    assert message.content_parts == [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "T" * 3_000}]}]


# A tool's messages

TOOL = {"reasoning": "x", "role": "tool", "tool_call_id": "a", "content": "[1]", "name": "search"}


def test_what_a_tool_says_is_not_the_assistants() -> None:
    """MiniMax's search: its results come in choice 0, with a finish reason of their own."""
    payloads = [
        chunk({"role": "tool", **TOOL}, finish_reason="tool_calls"),
        chunk({"role": "function", "content": "x"}),
        *said({"role": "assistant", "content": "Hi"}, {"content": "!"}),
    ]
    parser, chunks = read_all(b"".join(sse(*payloads)))
    completion = parser.completion()
    (choice,) = completion.choices
    assert (completion.text, completion.message.role, choice.finish_reason) == ("Hi!", "assistant", "stop")
    assert choice.model_extra == {"tool_messages": [TOOL, {"role": "function", "content": "x"}]}
    assert [each.text + each.reasoning for each in chunks] == ["", "", "Hi", "!"]
    assert noted(parser) == {"CF220"}


def test_how_long_a_function_still_takes_is_not_the_answer() -> None:
    """GigaChat says so while it draws an image. Was once wrong: the answer began with it."""
    progress = {"role": "function_in_progress", "content": "10 s left", "created": 1760000000, "name": "text2image"}
    parser, chunks = read_all(b"".join(sse(*said(progress, progress, {"role": "assistant", "content": "Hi"}))))
    (choice,) = parser.completion().choices
    assert (choice.message.content, choice.message.model_extra) == ("Hi", {})
    assert choice.model_extra == {"tool_messages": [progress] * 2}
    assert [each.text for each in chunks] == ["", "", "Hi"]
    assert [(one.rule.id, one.count) for one in parser.anomalies] == [("CF220", 2)]


@each_case("place", ["delta", "message"])
def test_a_finish_reason_of_a_tool_does_not_end_the_answer(place: str) -> None:
    """MiniMax sends whole messages, too. Was once wrong: it was the answer, and its finish reason ended it."""
    of_the_tool = {"choices": [{"index": 0, place: TOOL, "finish_reason": "stop"}]}
    parser = ChatCompletionParser()
    parser.feed(b"".join(sse(chunk({"content": "Hi"}), of_the_tool, done=False)))
    parser.close()
    (choice,) = parser.snapshot.choices
    assert (parser.end, parser.snapshot.text, choice.model_extra) == ("truncated", "Hi", {"tool_messages": [TOOL]})
    assert noted(parser) >= {"CF220"}


@pytest.mark.parametrize("count", [3, 60])  # of 60 alike events a template is learned
def test_a_copy_continues_independently(count: int) -> None:
    """Was once wrong: what was fed to a copy was folded into the original."""
    texts = [f" {number}" for number in range(2 * count)]
    parser = ChatCompletionParser()
    for text in texts[:count]:
        parser.feed(b"".join(sse(chunk({"content": text}), done=False)))
    for copy in (deepcopy(parser), pickle.loads(pickle.dumps(parser))):  # noqa: S301 - its own
        for text in texts[count:]:
            copy.feed(b"".join(sse(chunk({"content": text}), done=False)))
        assert copy.snapshot.text == "".join(texts)
    assert parser.snapshot.text == "".join(texts[:count])


def test_tool_calls_are_the_assistants_whatever_the_role() -> None:
    calls = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]
    parser = fold(*said({"role": "tool", "tool_calls": calls, "reasoning": "x"}, {}, finish_reason="tool_calls"))
    (choice,) = parser.completion().choices
    assert [call.name for call in choice.message.tool_calls] == ["f"]
    assert choice.message.reasoning is None
    assert choice.model_extra == {"tool_messages": [{"role": "tool", "reasoning": "x"}]}


# Lists: log probabilities, annotations, images

LISTS = {
    "images": (lambda items: chunk({"images": items}), lambda choice: choice.message.images),
    "annotations": (lambda items: chunk({"annotations": items}), lambda choice: choice.message.annotations),
    "logprobs.content":
        (lambda items: chunk({}, choice={"logprobs": {"content": items}}), lambda choice: choice.logprobs.content),
    "logprobs.refusal":
        (lambda items: chunk({}, choice={"logprobs": {"refusal": items}}), lambda choice: choice.logprobs.refusal),
}  # fmt: skip


def plain(items: Any) -> Any:
    """Models as what was sent."""
    return [item if isinstance(item, dict) else item.model_dump(exclude_unset=True) for item in items]


@pytest.mark.parametrize(("sent", "found"), LISTS.values(), ids=LISTS)
def test_lists_extend(sent: Any, found: Any) -> None:
    a, b, c = ({"x": letter, "token": letter} for letter in "abc")
    parser = fold(sent([a]), sent([]), sent(None), sent([b, c]), sent([a]), *said({}))
    (choice,) = parser.completion().choices
    assert plain(found(choice)) == [a, b, c, a]
    assert noted(parser) == set()


@each_case("more", [[], [{"type": "b", "x": [1]}]], ids=["the same", "a longer list"])
def test_annotations_that_are_sent_again_count_once(more: list[Any]) -> None:
    """DashScope's speech recognition sends the language with each piece of text."""
    first = {"type": "audio_info", "language": "zh"}
    parser = fold(*said({"content": "a", "annotations": [first]}, {"content": "b", "annotations": [first, *more]}))
    assert plain(parser.completion().message.annotations) == [first, *more]
    assert noted(parser) == set()


@each_case("raw", ["x", 5, {"x": 1}])
@each_case(("sent", "found"), LISTS.values(), ids=LISTS)
def test_a_value_that_is_no_list_is_kept_raw(sent: Any, found: Any, raw: Any) -> None:
    parser = fold(sent("other"), sent(raw), *said({}))
    (choice,) = parser.completion().choices
    assert found(choice) is None
    holder = choice.logprobs or choice.message
    assert list(holder.raw_values.values()) == [raw]
    assert noted(parser) == {"CF209"}
    # It takes nothing away from a list.
    a, b = {"token": "a"}, {"token": "b"}
    parser = fold(sent(raw), sent([a]), sent(raw), sent([b]), *said({}))
    (choice,) = parser.completion().choices
    assert plain(found(choice)) == [a, b]


def test_other_log_probabilities_add_up() -> None:
    """DeepSeek has those of the reasoning, and Fireworks, if `logprobs` is a number, those of the legacy API."""
    names = ("reasoning_content", "tokens", "token_ids", "token_logprobs", "top_logprobs", "text_offset")
    logprobs = [{"content": None, **{name: [number] for name in names}} for number in range(3)]
    (choice,) = fold(*(chunk({}, choice={"logprobs": one}) for one in logprobs), *said({})).completion().choices
    assert choice.logprobs.model_extra == {name: [0, 1, 2] for name in names}


ITEMS = [{"type": "reasoning", "id": f"rs_{number}", "encrypted_content": "x", "summary": []} for number in range(3)]
TOOLS = [{"index": place, "type": "search", **more} for place in range(2) for more in ({}, {"output": "found"})]


@each_case(
    ("name", "items", "is_sent_back"),
    [
        pytest.param("reasoning_items", ITEMS, True, id="encrypted reasoning (LiteLLM), which the next request needs"),
        pytest.param("executed_tools", TOOLS, False, id="each tool as it is called, and with its output (Groq)"),
        pytest.param("completion_token_ids", [1, 2, 3, 4], False, id="token ids (FastDeploy)"),
        pytest.param("gen_tokens", [1, 2, 3, 4], False, id="token ids (LMDeploy)"),
    ],
)
def test_lists_of_one_provider_extend(name: str, items: list[Any], is_sent_back: bool) -> None:
    message = fold(*said({name: items[:2]}, {name: None}, {"content": "a", name: items[2:]})).completion().message
    assert message.model_extra == {name: items}
    assert message.to_param() == {"role": "assistant", "content": "a", **({name: items} if is_sent_back else {})}


def test_reasoning_steps_extend() -> None:
    """Perplexity's `stream_mode: concise`; when they are all there, a whole message has them once more."""
    steps = [{"type": "web_search", "thought": thought} for thought in "abc"]
    whole = {"role": "assistant", "content": "", "reasoning_steps": steps}
    parser = fold(
        *(chunk({"content": "", "reasoning_steps": some}) for some in (steps[:1], steps[1:])),
        {"choices": [{"index": 0, "delta": {}, "message": whole}]},
        *said({"content": "d"}),
    )
    assert parser.completion().message.model_extra == {"reasoning_steps": steps}
    assert parser.completion().text == "d"


@each_case(
    ("values", "expected"),
    [
        ([{"citation": {"n": 1}}, {"x": 1}, {"citation": {"n": 2}}], {"citations": [{"n": 1}, {"n": 2}], "x": 1}),
        ([{"citation": {"n": 1}}, {"citation": None}], {"citations": [{"n": 1}]}),
        ([{"citations": [[1]]}, {"citations": [[2]]}], {"citations": [[1], [2]]}),
        ([{"citations": [1], "citation": 2}, {"citations": "x", "citation": 3}], {"citations": [1, 2, 3]}),
        ([{"citation": None}], {}),
    ],
)
def test_citations_of_litellm_accumulate(values: list[Any], expected: Any) -> None:
    """LiteLLM's proxy in front of Anthropic sends each citation in a delta of its own."""
    sent = deepcopy(values)
    deltas = [{"content": "a", "provider_specific_fields": value} for value in values]
    message = fold(*said(*deltas)).completion().message
    assert message.model_extra == {"provider_specific_fields": expected}
    assert values == sent  # what was folded is not changed
    assert "provider_specific_fields" not in message.to_param()


def test_unknown_keys_of_logprobs_are_kept_and_null_is_none() -> None:
    logprobs = [None, {"content": None, "x": 1}, {"refusal": None, "x": 2, "y": None}]
    (choice,) = fold(*(chunk({}, choice={"logprobs": one}) for one in logprobs), *said({})).completion().choices
    assert choice.logprobs.model_dump() == {"content": None, "refusal": None, "x": 2}


def test_token_ids_of_a_choice_extend() -> None:
    """vLLM's `return_token_ids`."""
    parser, _ = read_all(shared_data("recordings-2/vllm__token_ids.sse").read_bytes())
    (choice,) = parser.completion().choices
    assert choice.model_extra["token_ids"] == [726, 18, 1111, 1120, 1244, 328, 300, 428, 20, 2]
    assert (parser.completion().model_extra or {})["prompt_token_ids"] == [*range(10, 30)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([[1], None, [2, 3], []], [1, 2, 3], id="lists"),
        pytest.param(["x", [1]], [1], id="a list after another value"),
        pytest.param([[1], "x"], "x", id="another value is an unknown key"),
    ],
)
def test_token_ids(values: list[Any], expected: Any) -> None:
    (choice,) = fold(*(chunk({}, choice={"token_ids": one}) for one in values), *said({})).completion().choices
    assert choice.model_extra == {"token_ids": expected}


# function_call

FUNCTION_CALLS = {
    "name first, arguments append":
        ([{"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}],
         {"name": "f", "arguments": '{"a":1}'}),
    "the first name": ([{"name": "f"}, {"name": "g"}, {"name": ""}], {"name": "f", "arguments": ""}),
    "a late name": ([{"arguments": "1"}, {"name": "f"}], {"name": "f", "arguments": "1"}),
    "no name": ([{"arguments": "1"}], {"name": None, "arguments": "1"}),
    "unknown keys": ([{"name": "f", "x": 1}, {"x": 2}, {"x": None}], {"name": "f", "arguments": "", "x": 2}),
}  # fmt: skip


@pytest.mark.parametrize(("fragments", "expected"), FUNCTION_CALLS.values(), ids=FUNCTION_CALLS)
def test_function_call(fragments: list[Any], expected: dict[str, Any]) -> None:
    parser = fold(*said(*({"function_call": one} for one in fragments), finish_reason="function_call"))
    assert parser.completion().message.function_call.model_dump() == expected
    assert parser.completion().choices[0].outcome == "tool_calls"
    assert noted(parser) == set()


# Unknown keys, and obfuscation

LEVELS = [
    # What is sent with an unknown key at one level; where it is to be found in the completion.
    pytest.param(lambda extra: chunk({}, **extra), lambda completion: completion, id="chunk"),
    pytest.param(lambda extra: chunk({}, choice=extra), lambda completion: completion.choices[0], id="choice"),
    pytest.param(chunk, lambda completion: completion.message, id="delta"),
    pytest.param(lambda extra: chunk({}, choice={"logprobs": extra}),
         lambda completion: completion.choices[0].logprobs, id="logprobs"),
    pytest.param(lambda extra: chunk({"audio": extra}), lambda completion: completion.message.audio, id="audio"),
    pytest.param(lambda extra: chunk({"function_call": extra}), lambda completion: completion.message.function_call,
         id="function_call"),
    pytest.param(lambda extra: chunk({"tool_calls": [{"index": 0, **extra}]}),
         lambda completion: completion.tool_calls[0], id="tool call"),
    pytest.param(lambda extra: chunk({"tool_calls": [{"index": 0, "function": extra}]}),
         lambda completion: completion.tool_calls[0].function, id="function"),
    pytest.param(lambda extra: chunk({"tool_calls": [{"index": 0, "custom": extra}]}),
         lambda completion: completion.tool_calls[0].custom, id="custom"),
    pytest.param(lambda extra: chunk({}, usage=extra), lambda completion: completion.usage, id="usage"),
]  # fmt: skip


@each_case(("sent", "found"), LEVELS)
def test_unknown_keys_are_kept_where_they_came_the_last_not_null(sent: Any, found: Any) -> None:
    values = [{"x": [1], "y": {"a": 1}, "z": None}, {"x": "2", "y": None}, {"x": [3], "w": 0}]
    parser = fold(*map(sent, values), *said({}, finish_reason="tool_calls"))
    level = found(parser.completion())
    assert {key: value for key, value in level.model_extra.items() if value is not None} == {
        "x": [3],
        "y": {"a": 1},
        "w": 0,
    }
    assert level.model_dump()["x"] == level.x == [3]
    assert noted(parser) <= {"CF302"}  # unknown fields are no anomaly; the tool calls here have no id


@each_case(("sent", "found"), LEVELS[:-1])  # usage has a rule of its own, key by key
def test_obfuscation_stays_on_the_chunk(sent: Any, found: Any) -> None:
    parser = ChatCompletionParser()
    chunks = parser.feed(b"".join(sse(sent({"obfuscation": "Xx", "kept": 1}), *said({}))))
    assert "obfuscation" in chunks[0].model_dump_json()
    completion = parser.completion()
    assert found(completion).kept == 1
    assert "obfuscation" not in completion.model_dump_json()


# Values of a wrong type, where they do not matter

# A field beside content, tool calls, finish reason and index, where it stands, and a value of a wrong type.
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("chunk", {"id": 5}),
    ("chunk", {"created": "yesterday"}),
    ("chunk", {"model": ["m"]}),
    ("chunk", {"system_fingerprint": 1}),
    ("chunk", {"service_tier": 2}),
    ("chunk", {"usage": "none"}),
    ("usage", {"prompt_tokens": "many"}),
    ("choice", {"logprobs": "none"}),
    ("choice", {"message": "none"}),
    ("message", {"role": 5}),
    ("message", {"refusal": False}),
    ("message", {"reasoning": ["a"]}),
    ("message", {"reasoning_content": 1}),
    ("message", {"reasoning_details": {"text": 1}}),
    ("message", {"audio": "x"}),
    ("message", {"function_call": "auto"}),
    ("message", {"images": "x"}),
    ("message", {"annotations": {}}),
]


@each_case(("level", "wrong"), WRONG)
def test_a_wrong_type_is_kept_raw_and_noted(level: str, wrong: dict[str, Any]) -> None:
    top = {"chunk": wrong, "usage": {"usage": wrong}}.get(level, {})
    delta = wrong if level == "message" else {}
    payload = chunk({"content": "a", **delta}, choice=wrong if level == "choice" else {}, **top)
    (anomaly,) = [one for one in fold(payload).anomalies if one.rule.id == "CF209"]
    assert anomaly.count == 1
    assert next(iter(wrong)) in anomaly.detail
    # The chunk has it where it was sent ...
    (parsed,) = parse_payload(ServerSentEvent(json.dumps(payload).encode())).chunks
    dumped = parsed.model_dump(exclude_unset=True, warnings="error")
    assert dumped == payload
    # ... the completion, which can be stored and read again, has it in `raw_values` ...
    stored = fold(payload).snapshot
    assert ChatCompletion.model_validate(stored.model_dump(warnings="error")) == stored
    assert ChatCompletion.model_validate_json(stored.model_dump_json()) == stored
    # ... and what stands around it is folded as if nothing were.
    absent = dict.fromkeys(top, ...)
    completion = fold(payload, chunk({"content": "b"}, finish_reason="stop", **absent)).completion()
    assert completion.text == "ab"
    assert completion.message.role == "assistant"
    whole = json.loads(completion.model_dump_json(exclude_unset=True, warnings="error"))
    holders = {"chunk": whole, "usage": whole.get("usage"), "choice": whole["choices"][0]}
    if wrong != {"reasoning": ["a"]}:  # the message's is the text
        assert holders.get(level, whole["choices"][0]["message"])["raw_values"] == wrong


@each_case("raw", [7, 0, 1.5, False, ["a"], {"x": 1}])
@each_case("key", ["text", "summary", "data"])
def test_a_detail_whose_text_is_none_is_kept_raw_and_noted(key: str, raw: Any) -> None:
    detail = {"type": "reasoning.text", "index": 0, key: raw}
    parser = fold(*said({"content": "a", "reasoning_details": [detail]}))
    message = parser.completion().message
    assert message.reasoning_details == [detail]
    assert (message.reasoning, message.content) == (None, "a")
    (anomaly,) = parser.anomalies
    assert (anomaly.rule.id, anomaly.count) == ("CF209", 1)
    assert anomaly.detail == f"reasoning_details: {key}: expected a string, received {type(raw).__name__}"
    # A text wins over it, whenever it comes.
    right = {**detail, key: "b"}
    for details in ([detail, right], [right, detail]):
        assert fold(
            *said(*({"reasoning_details": [one]} for one in details))
        ).completion().message.reasoning_details == [right]


CALLED = {"name": "f", "arguments": "{}"}
RAW_CALL = {"id": 5.5, "type": 6, "function": CALLED}


def test_what_has_a_default_keeps_its_raw_value_beside_it() -> None:
    call = {"index": 0, "id": "a", "type": 5, "function": {"name": "f", "arguments": "{}"}}
    sent = [{"tool_calls": [call], "function_call": {"name": [5]}}, {"role": 5, "content": "a"}]
    message = fold(*said(*sent)).completion().message
    (kept,) = message.tool_calls
    assert (kept.type, kept.raw_values) == ("function", {"type": 5})
    assert message.function_call.raw_values == {"name": [5]}
    assert (message.role, message.raw_values) == ("assistant", {"role": 5})
    assert message.to_param()["tool_calls"] == [{"id": "a", "type": "function", "function": call["function"]}]


def test_a_raw_value_is_beside_one_that_is_right() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    first = {"role": 5, "tool_calls": [{**call, "type": 5}], "function_call": {"name": 5}}
    second = {"role": "assistant", "tool_calls": [{"index": 0, "type": "function"}], "function_call": {"name": "g"}}
    for deltas in ([first, second], [second, first]):
        message = fold(*said(*deltas)).completion().message
        assert (message.role, message.raw_values) == ("assistant", {"role": 5})
        assert (message.tool_calls[0].type, message.tool_calls[0].raw_values) == ("function", {"type": 5})
        assert (message.function_call.name, message.function_call.raw_values) == ("g", {"name": 5})


def test_a_call_in_a_whole_message_keeps_its_raw_values() -> None:
    """It is identified by its place, so a wrong index or id is no error there."""
    parser = fold(
        chunk(choice={"message": {"role": 5, "raw_values": 5, "tool_calls": [RAW_CALL]}}, finish_reason="stop")
    )
    snapshot, completion = parser.snapshot, parser.completion()
    for found in (snapshot, completion):
        assert found.message.raw_values["role"] == 5
        (kept,) = found.message.model_dump(exclude_unset=True)["tool_calls"]
        assert {**kept.pop("raw_values"), "function": CALLED} == RAW_CALL
        assert kept == {"id": kept["id"], "type": "function", "function": CALLED}
        assert ChatCompletion.model_validate_json(found.model_dump_json()) == found


def test_calls_with_indexes_of_a_wrong_type_in_a_whole_message_stay_apart() -> None:
    calls = [{"index": "x", "function": {"name": name, "arguments": "{}"}} for name in "fg"]
    assert [call.name for call in fold(chunk(choice={"message": {"tool_calls": calls}})).snapshot.tool_calls] == [*"fg"]


BESIDE: list[Any] = [
    pytest.param({"usage": "12"}, {"usage": {"prompt_tokens": 5}}, lambda c: c, id="usage"),
    pytest.param({"service_tier": 2}, {"service_tier": "flex"}, lambda c: c, id="service_tier"),
    pytest.param({"model": ["m"]}, {}, lambda c: c, id="model"),
    pytest.param({"id": 5}, {}, lambda c: c, id="id"),
    pytest.param({"created": "x"}, {"created": 7}, lambda c: c, id="created"),
    pytest.param({"role": 5}, {"role": "assistant"}, lambda c: c.message, id="role"),
    pytest.param({"reasoning": {"a": 1}}, {"reasoning_content": "R"}, lambda c: c.message, id="reasoning"),
    pytest.param({"refusal": ["no"]}, {"refusal": "no"}, lambda c: c.message, id="refusal"),
    pytest.param({"images": "x"}, {"images": [{"url": "y"}]}, lambda c: c.message, id="images"),
    pytest.param({"logprobs": "x"}, {"logprobs": {"content": []}}, lambda c: c.choices[0], id="logprobs"),
]


@each_case(("wrong", "right", "holder"), BESIDE)
def test_a_wrong_type_is_kept_beside_a_right_one_in_either_order(wrong: Any, right: Any, holder: Any) -> None:
    def with_fields(fields: dict[str, Any]) -> dict[str, Any]:
        at_top = {
            name: value for name, value in fields.items() if name in ("usage", "service_tier", "model", "id", "created")
        }
        of_choice = {name: value for name, value in fields.items() if name == "logprobs"}
        delta = {name: value for name, value in fields.items() if name not in {*at_top, *of_choice}}
        return chunk({"content": "a", **delta}, choice=of_choice, **at_top)

    for payloads in ([wrong, right], [right, wrong]):
        completion = fold(*map(with_fields, payloads), chunk({}, finish_reason="stop")).completion()
        assert holder(completion).raw_values == wrong
        assert ChatCompletion.model_validate(completion.model_dump(warnings="error")) == completion
        name = next(iter(right or wrong))
        expected = right.get(name, HEAD.get(name))
        typed = getattr(holder(completion), name)
        given = typed.model_dump(exclude_unset=True) if isinstance(typed, BaseModel) else typed
        assert given == expected


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ({"type": 5}, {"raw_values": {"type": 5}}),
        ({"url_citation": "u"}, {"raw_values": {"url_citation": "u"}}),
        (
            {"type": "url_citation", "url_citation": {"url": "u", "start_index": "1"}},
            {"type": "url_citation", "url_citation": {"url": "u", "raw_values": {"start_index": "1"}}},
        ),
    ],
)
@pytest.mark.parametrize("place", ["delta", "message"])
def test_a_wrong_type_in_an_annotation_is_kept_raw(annotation: Any, expected: Any, place: str) -> None:
    sent = chunk(..., choice={place: {"content": "a", "annotations": [annotation]}}, finish_reason="stop")
    completion = fold(sent).completion()
    (kept,) = completion.message.annotations or ()
    assert kept.model_dump(exclude_unset=True) == expected
    assert ChatCompletion.model_validate_json(completion.model_dump_json()) == completion


@pytest.mark.parametrize(
    "choice", [{"logprobs": {"content": [{"token": 5}]}}, {"delta": {"annotations": [{"type": 5}]}}]
)
def test_a_stream_may_have_more_wrong_types_than_an_event(choice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chunkfold.models.base._MOST_WRONG", 10)
    completion = fold(*[chunk(choice=choice)] * 20, *said({"content": "a"})).completion()
    assert completion.text == "a"
    assert ChatCompletion.model_validate_json(completion.model_dump_json()) == completion


# Choices


def texts(completion: ChatCompletion) -> dict[int, str | None]:
    return {choice.index: choice.message.content for choice in completion.choices}


CHOICES = [
    pytest.param([(0, "a"), (1, "b"), (0, "A"), (1, "B")], {0: "aA", 1: "bB"}, id="interleaved"),
    pytest.param([(1, "b"), (0, "a"), (1, "B"), (0, "A")], {0: "aA", 1: "bB"}, id="index 1 first"),
    pytest.param([(7, "b"), (2, "a"), (7, "B")], {2: "a", 7: "bB"}, id="gaps"),
    pytest.param([(-1, "a"), (1_000_000, "b")], {-1: "a", 1_000_000: "b"}, id="any integer"),
]


@pytest.mark.parametrize(("pieces", "expected"), CHOICES)
def test_choices_are_told_apart_by_their_index_and_come_out_by_it(pieces: Any, expected: dict[int, str]) -> None:
    one_per_chunk = [chunk({"content": text}, index=index) for index, text in pieces]
    together = {**HEAD, "choices": [one["choices"][0] for one in one_per_chunk]}
    for payloads in (one_per_chunk, [together]):
        completion = fold(*payloads).completion()
        assert texts(completion) == expected
        assert [choice.index for choice in completion.choices] == sorted(expected)


def test_each_choice_has_a_message_of_its_own() -> None:
    tool_calls = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]
    parser = fold(
        chunk({"tool_calls": tool_calls}, index=1),
        chunk({"content": "a", "x": 1}, index=0),
        chunk({}, index=1, finish_reason="tool_calls"),
        chunk({"refusal": "no"}, index=2, finish_reason="stop", choice={"y": 1}),
        chunk({}, index=0, finish_reason="length"),
    )
    first, second, third = parser.completion().choices
    assert (first.message.content, first.finish_reason, first.message.tool_calls) == ("a", "length", [])
    assert (second.message.content, second.finish_reason, second.message.tool_calls[0].id) == (None, "tool_calls", "a")
    assert (third.message.refusal, third.finish_reason, third.model_extra) == ("no", "stop", {"y": 1})
    assert first.message.model_extra == {"x": 1}
    assert second.message.model_extra == {}
    assert noted(parser) == set()


@pytest.mark.parametrize("index", [..., None])
def test_a_choice_without_index_is_choice_0(index: Any) -> None:
    parser = fold(chunk({"content": "a"}, index=index), chunk({"content": "b"}, finish_reason="stop"))
    assert texts(parser.completion()) == {0: "ab"}
    assert noted(parser) == {"CF210"}


@pytest.mark.parametrize("choices", [..., None])
def test_no_choices_are_an_empty_list(choices: Any) -> None:
    parser = fold(chunk(choices=choices, x=1), *said({"content": "a"}))
    assert parser.completion().text == "a"
    assert parser.completion().model_extra == {"x": 1}
    assert noted(parser) == {"CF201"}


@pytest.mark.parametrize("delta", [..., None])
def test_no_delta_is_an_empty_one(delta: Any) -> None:
    """Azure's asynchronous filter."""
    parser = fold(*said({"content": "a"}), chunk(delta, choice={"content_filter_offsets": {"start": 1}}))
    (choice,) = parser.completion().choices
    assert (choice.message.content, choice.finish_reason) == ("a", "stop")
    assert choice.model_extra == {"content_filter_offsets": {"start": 1}}
    assert noted(parser) == {"CF202"}


# Whole messages


def whole(message: Any, finish_reason: str | None = None, **choice: Any) -> dict[str, Any]:
    """A chunk that has a message instead of a delta."""
    return chunk(finish_reason=finish_reason, choice={"message": message, **choice})


MESSAGES = {
    "instead of deltas (HybridAI)": ([whole({"content": "whole"}, "stop")], "whole", 1),
    "several: the last (Perplexity's full mode)":
        ([whole({"content": "w"}), whole({"content": "wh"}), whole({"content": "whole"}, "stop")], "whole", 1),
    "after deltas, as at the end of MiniMax: the deltas hold":
        ([chunk({"content": "de"}), chunk({"content": "lta"}), whole({"content": "whole"}, "stop")], "delta", 0),
    "around deltas":
        ([whole({"content": "w"}), chunk({"content": "delta"}), whole({"content": "whole"}, "stop")], "delta", 0),
    "beside a delta":
        ([chunk({"content": "de"}, choice={"message": {"content": "whole"}}), *said({"content": "lta"})], "delta", 0),
    "after deltas without output":
        ([chunk({"role": "assistant", "content": ""}), whole({"content": "whole"}, "stop")], "whole", 1),
    "an empty message": ([whole({"content": None}), *said({"content": "a"})], "a", 0),
}  # fmt: skip


@pytest.mark.parametrize(("payloads", "text", "extra"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_is_the_content_only_where_no_delta_was(payloads: list[Any], text: str, extra: int) -> None:
    """What it adds is handed out as one more chunk at the end, so that the chunks add up to the message."""
    parser = ChatCompletionParser()
    chunks = parser.feed(b"".join(sse(*payloads)))
    assert parser.completion().text == text
    assert len(chunks) == len(payloads) + extra
    assert "".join(one.text for one in chunks) == text
    assert noted(parser) == {"CF207"}


def test_a_message_fills_gaps() -> None:
    message = {
        "role": "bot",
        "content": "whole",
        "reasoning_content": "why",
        "annotations": [{"type": "url_citation"}],
        "x": 1,
        "y": 1,
    }
    parser = ChatCompletionParser()
    chunks = parser.feed(b"".join(sse(chunk({"content": "delta", "y": 2}), whole(message, "stop", z=3))))
    (choice,) = parser.completion().choices
    assert choice.message.model_dump(exclude_none=True) == {
        "role": "bot",
        "content": "delta",
        "reasoning": "why",
        "reasoning_content": "why",
        "annotations": [{"type": "url_citation"}],
        "tool_calls": [],
        "x": 1,
        "y": 2,
    }
    assert choice.model_extra == {"z": 3}
    assert "".join(one.reasoning for one in chunks) == "why"


def test_a_message_may_have_whole_tool_calls() -> None:
    """They have no index, and need none: they are told apart by their places."""
    calls = [{"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id_ in "ab"]
    parser = fold(whole({"content": None, "tool_calls": calls}, "tool_calls"))
    assert [call.model_dump() for call in parser.completion().tool_calls] == calls


def test_tool_calls_of_a_message_do_not_repeat_those_of_deltas() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    parser = fold(chunk({"tool_calls": [{"index": 0, **call}]}), whole({"tool_calls": [call]}, "tool_calls"))
    assert [one.model_dump() for one in parser.completion().tool_calls] == [call]


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        pytest.param({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
                     {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, id="details without text"),
        pytest.param({"reasoning": "r"}, {"reasoning_content": "r"}, id="reasoning in another spelling"),
        pytest.param({"refusal": "r"}, {"refusal": "r"}, id="refusal"),
        pytest.param({"images": [{"image_url": {"url": "u"}}]}, {"images": [{"image_url": {"url": "u"}}]}, id="images"),
        pytest.param({"content_blocks": [{"index": 0, "delta": {"type": "image_url", "image_url": {"url": "u"}}}]},
                     {"content_blocks": [{"type": "image_url", "image_url": {"url": "u"}}]},
                     id="images among content blocks"),
        pytest.param({"audio": {"data": "YQ=="}}, {"audio": {"id": "i", "data": "YQ=="}}, id="audio"),
        pytest.param({"function_call": {"name": "f"}}, {"function_call": {"name": "f"}}, id="function_call"),
        pytest.param({"x": [1]}, {"x": [2]}, id="an unknown key"),
        pytest.param({"reasoning": "r"}, {"content": "r", "extra_content": THOUGHT}, id="a flagged thought"),
        pytest.param({"content": "r", "extra_content": THOUGHT}, {"content": "r", "extra_content": THOUGHT},
                     id="a flagged thought, twice"),
    ],
)  # fmt: skip
def test_what_deltas_brought_is_no_gap(delta: dict[str, Any], message: dict[str, Any]) -> None:
    alone, both = fold(*said(delta)), fold(chunk(delta), whole(message, "stop"))
    assert both.completion().message == alone.completion().message


IMAGE = {"type": "image_url", "image_url": {"url": "u"}}
REFERENCE = {"type": "reference", "reference_ids": [1]}
HI_PART = {"type": "text", "text": "Hi"}
GAPS_IN_A_LIST = {
    "an image after text": ({"content": "Hi"}, [HI_PART, IMAGE], ("Hi", "", [HI_PART, IMAGE])),
    "reasoning after text": ({"content": "Hi"}, [THINKING, HI_PART], ("Hi", "T", [HI_PART, THINKING])),
    "text after reasoning": ({"reasoning": "r"}, [THINKING, HI_PART, IMAGE], ("Hi", "r", [HI_PART, IMAGE])),
    "an image after an image": ({"content": [IMAGE]}, [HI_PART, IMAGE], ("Hi", "", [IMAGE, HI_PART])),
    "an image after a reference": ({"content": [REFERENCE]}, [IMAGE], ("", "", [REFERENCE, IMAGE])),
    "no text after reasoning": ({"reasoning": "r"}, [THINKING], (None, "r", None)),
    "nothing": ({"content": [HI_PART, THINKING, IMAGE]}, [HI_PART, THINKING, IMAGE], ("Hi", "T", [HI_PART, THINKING, IMAGE])),
}  # fmt: skip


@each_case("name", GAPS_IN_A_LIST)
def test_a_content_list_of_a_message_fills_gaps_part_by_part(name: str) -> None:
    """Was once wrong: an image beside streamed text was lost."""
    delta, content, expected = GAPS_IN_A_LIST[name]
    parser = ChatCompletionParser()
    parser.feed(b"".join(sse(chunk(delta), whole({"content": content}), done=False)))
    running = parser.snapshot.message
    parser.close()
    message = parser.snapshot.message
    assert (message.content, message.reasoning or "", message.content_parts) == expected
    assert running == message


EMPTY_BEFORE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": ({"content": ""}, {"content": "whole"}),
    "a refusal": ({"refusal": ""}, {"refusal": "no"}),
    "images": ({"images": []}, {"images": [{"image_url": {"url": "u"}}]}),
    "images after text": ({"content": "Hi"}, {"images": [{"image_url": {"url": "u"}}]}),
    "reasoning after text": ({"content": "Hi"}, {"content": "other", "reasoning": "hm"}),
    "annotations": ({"annotations": []}, {"annotations": [{"type": "url_citation"}]}),
    "calls": ({"tool_calls": []}, {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}),
    "signatures": ({"x": 1}, {"provider_specific_fields": {"thought_signatures": ["s"]}}),
    "parts": ({"content": [{"type": "reference", "reference_ids": [1]}]}, {"content": [THINKING, HI_PART]}),
}


@each_case("name", EMPTY_BEFORE)
def test_a_running_snapshot_leaves_the_gap_as_it_is(name: str) -> None:
    """Who looks at each snapshot, or at events, gets the same chunks and the same message in the end."""
    delta, message = EMPTY_BEFORE[name]
    check(b"".join(sse(chunk(delta), whole(message), done=False)))


def test_a_running_snapshot_takes_little_of_the_stack() -> None:
    value: Any = 1
    for _ in range(199):
        value = [value]
    parser = ChatCompletionParser()
    message = {"content": "whole", "x": 1}
    deltas = {"content": "Hi", "y": value, "reasoning_details": [{"text": "r", "z": value}]}
    parser.feed(b"".join(sse(chunk(deltas), whole(message), done=False)))
    left = sys.getrecursionlimit() - len(inspect.stack(0)) - 150

    def snapshot_at(depth: int) -> ChatCompletion:
        return snapshot_at(depth - 1) if depth else parser.snapshot

    assert snapshot_at(left).message.model_extra == parser.snapshot.message.model_extra


@pytest.mark.parametrize("end", ["cut", "interrupted", "failed", "left"])
def test_the_message_counts_however_the_stream_ends(end: str) -> None:
    parser = ChatCompletionParser()
    (given,) = parser.feed(b"".join(sse(whole({"content": "whole"}), done=False)))
    assert given.text == ""
    more = {
        "cut": parser.close,
        "interrupted": lambda: parser.interrupt(OSError()),
        "failed": lambda: parser.feed(b'data: {"error":{"message":"x"}}\n\n'),
        "left": lambda: [parser.leave()],
    }[end]()
    assert parser.snapshot.text == "whole"
    if end != "left":  # nobody is there to take a chunk
        assert [one.text for one in more] == ["whole"]


def test_each_choice_has_its_own_message() -> None:
    parser = ChatCompletionParser()
    one, two = whole({"content": "a"}, "stop"), whole({"content": "b"}, "stop", index=1)
    *_, last = parser.feed(b"".join(sse(one, two)))
    assert texts(parser.completion()) == {0: "a", 1: "b"}
    assert {choice.index: choice.delta.content for choice in last.choices} == {0: "a", 1: "b"}


@each_case("wrong", [{"refusal": 5}, {"function_call": []}, {"audio": ""}, {"role": 0}])
def test_a_wrong_type_in_a_message_is_kept_raw(wrong: dict[str, Any]) -> None:
    parser = fold(chunk({}), whole({"content": "whole", **wrong}, "stop"))
    assert parser.completion().text == "whole"
    assert noted(parser) == {"CF207", "CF209"}
    assert parser.completion().message.role == "assistant"


# Values are values


def test_a_snapshot_before_the_first_chunk() -> None:
    for snapshot in (ChatCompletionParser().snapshot, ChatCompletionAccumulator().snapshot):
        assert snapshot == ChatCompletion()
        assert (snapshot.text, snapshot.reasoning, snapshot.tool_calls, snapshot.finish_reason) == ("", "", [], None)


# A snapshot is its reader's own


EVERYTHING = [
    chunk(
        {
            "content": [{"type": "reference", "a": [{"b": [1]}]}, "Hi"],
            "function_call": {"name": "f", "arguments": "{}", "x": {"a": [1]}},
            "tool_calls": [{"index": 0, "id": "a", "x": [[1]], "function": {"name": "f", "arguments": "{}", "y": {"a": [1]}}}],
            "audio": {"id": "a", "data": "QUI=", "x": {"a": [1]}},
            "images": [{"a": [1]}],
            "annotations": [{"type": "t", "url_citation": {"x": [1]}, "y": {"a": [1]}}],
            "reasoning_details": [{"text": "a", "x": [1]}],
            "thinking_blocks": [{"thinking": "a", "x": [1]}],
            "provider_specific_fields": {"thought_signatures": ["a"], "x": [1]},
            "refusal": [1],
            "unknown": {"a": [1]},
        },
        choice={
            "logprobs": {"content": [{"token": "a", "bytes": [1], "top_logprobs": [{"bytes": [1], "x": [1]}], "y": [1]}], "x": [1]},
            "token_ids": [1],
            "x": {"a": [1]},
        },
        usage={"prompt_tokens_details": {"cached_tokens": 1, "x": [1]}, "y": {"a": [1]}},
        x={"a": [1]},
    ),
    chunk({"role": "tool", "content": "x", "y": [1]}),
    chunk({"tool_calls": [{"index": 1, "id": "b", "custom": {"name": "f", "input": "", "x": [1]}}]}),
    chunk({}, choice={"message": {"refusal": "no", "annotations": [{"type": "t", "x": [1]}], "unknown_too": [1]}}),
]  # fmt: skip


def emptied(value: Any) -> int:
    """Empty every container inside a value, models and their unknown fields included; return how many there were."""
    if isinstance(value, BaseModel):
        inside: list[Any] = [vars(value), value.__pydantic_extra__]
        return sum(emptied(one) for part in inside if part for one in list(part.values()))
    if isinstance(value, dict | list):
        items: list[Any] = list(value.values() if isinstance(value, dict) else value)
        value.clear()
        return 1 + sum(map(emptied, items))
    return 0


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "ended"])
def test_changing_a_snapshot_changes_no_later_one(is_over: bool) -> None:
    accumulator = ChatCompletionAccumulator()
    for payload in EVERYTHING:
        (parsed,) = parse_payload(ServerSentEvent(json.dumps(payload).encode())).chunks
        accumulator.add(parsed)
    if is_over:
        accumulator.finish()
    before = accumulator.snapshot.model_dump()
    assert emptied(accumulator.snapshot) > 50
    assert accumulator.snapshot.model_dump() == before


def test_a_running_snapshot_shows_a_whole_message() -> None:
    whole = {
        "role": "model",
        "content": "Hi",
        "reasoning": "hm",
        "tool_calls": [{"id": "a", "function": {"name": "f"}}],
    }
    parser = ChatCompletionParser()
    parser.feed(b"".join(sse(chunk(..., choice={"message": whole}), done=False)))
    running = parser.snapshot
    assert parser.snapshot == running
    parser.close()
    assert running == parser.snapshot
    assert [type(part).__name__ for part in running.message.parts] == ["ReasoningPart", "TextPart", "ToolCallPart"]
    assert running.message.parts == parser.snapshot.message.parts
    assert (running.text, running.message.role) == ("Hi", "model")


@pytest.mark.parametrize("message", [{"content": "Hi"}, {"content": "Hi", "reasoning": "hm"}], ids=["no gap", "a gap"])
def test_chunks_are_counted_as_they_are_handed_out(message: dict[str, Any]) -> None:
    parser = ChatCompletionParser()
    told: list[int] = []
    parser.observe(on_chunks=lambda _, count: told.append(count))
    data = b"".join(sse(chunk({"content": "Hi"}), chunk({}, finish_reason="stop", choice={"message": message})))
    chunks = parser.feed(data)
    assert sum(told) == parser.chunks == len(chunks) == 2 + ("reasoning" in message)


# Lists whose items are not what they should be lose nothing


def test_images_of_any_kind_extend_and_are_output() -> None:
    parser = fold(*said({"images": ["data:a"]}, {"images": [{"image_url": {"url": "b"}}]}))
    assert parser.completion().message.images == ["data:a", {"image_url": {"url": "b"}}]
    assert parser.emitted_output


def test_a_null_among_reasoning_details_does_not_lose_the_text() -> None:
    detail = {"type": "reasoning.text", "index": 0, "text": "T"}
    parser = fold(*said({"reasoning_details": [detail, None]}))
    assert parser.completion().reasoning == "T"
    assert parser.completion().message.reasoning_details == [detail]
    assert noted(parser) == {"CF209"}


@pytest.mark.parametrize(("sent", "kept"), [({}, "{}"), ([], "{}"), (5, "5"), (False, "false"), (None, "")])
def test_arguments_of_a_function_call_that_are_no_text(sent: Any, kept: Any) -> None:
    parser = fold(*said({"function_call": {"name": "f", "arguments": sent}}))
    message = parser.completion().message
    assert message.function_call.arguments == kept
    assert message.to_param()["function_call"]["arguments"] == (kept or "{}")


def test_a_wrong_type_in_the_usage_of_a_choice_is_noted() -> None:
    parser = fold(chunk({"content": "a"}, choice={"usage": {"prompt_tokens": "many"}}), chunk({}, finish_reason="stop"))
    assert parser.completion().usage.model_dump(exclude_unset=True) == {"raw_values": {"prompt_tokens": "many"}}
    assert noted(parser) == {"CF209"}


# What the accumulator shows of itself


def test_it_counts_the_chunks_and_what_was_tolerated() -> None:
    accumulator = ChatCompletionAccumulator()
    for role in ("assistant", "model"):
        accumulator.add(ChatCompletionChunk.model_validate(chunk({"role": role, "content": "a"})))
    assert (accumulator.chunks, accumulator.output_size, accumulator.has_output) == (2, 2, True)
    assert [(anomaly.rule.id, anomaly.count) for anomaly in accumulator.anomalies] == [("CF204", 1)]


@pytest.mark.parametrize("value", [chunk({"content": "a"}), b"{}", SimpleNamespace(choices=[]), None])
def test_what_is_no_chunk_is_refused(value: Any) -> None:
    """Another library's chunk, too: its fields are not these, and what it has beside them would be lost."""
    accumulator = ChatCompletionAccumulator()
    with pytest.raises(TypeError, match="chunk: expected a chunkfold"):
        accumulator.add(value)
    assert accumulator.chunks == 0
