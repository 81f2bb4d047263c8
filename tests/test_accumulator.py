"""The fold, field by field: DESIGN's table of rules, row by row, over the wire and through the parser.

Each table also says which rules of the catalogue are to be noted, and no other may be: what is tolerated is never
silent, and what every provider may do (unknown fields, reasoning fields, where usage stands) is no anomaly.
"""

import json
from base64 import b64encode
from copy import deepcopy
from typing import Any

import pytest

from chunkfold import (
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ServerSentEvent,
    StreamEnd,
    parse_payload,
)
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


def message_of(*deltas: Any) -> Any:
    """The message that deltas make, as its dump without nulls."""
    return fold(*said(*deltas)).completion().message.model_dump(exclude_none=True)


def noted(parser: ChatCompletionParser) -> set[str]:
    return {anomaly.rule.id for anomaly in parser.anomalies}


# Append

APPENDED = [
    pytest.param(lambda text: {"content": text}, lambda message: message.content, id="content"),
    pytest.param(lambda text: {"refusal": text}, lambda message: message.refusal, id="refusal"),
    pytest.param(lambda text: {"reasoning": text}, lambda message: message.reasoning, id="reasoning"),
    pytest.param(lambda text: {"reasoning_content": text}, lambda message: message.reasoning, id="reasoning_content"),
    pytest.param(
        lambda text: {"reasoning_content": text}, lambda message: message.reasoning_content, id="the raw field"
    ),
    pytest.param(
        lambda text: {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": text}}]},
        lambda message: message.tool_calls[0].function.arguments,
        id="function.arguments",
    ),
    pytest.param(
        lambda text: {"tool_calls": [{"index": 0, "id": "a", "custom": {"input": text}}]},
        lambda message: message.tool_calls[0].custom.input,
        id="custom.input",
    ),
    pytest.param(
        lambda text: {"function_call": {"arguments": text}},
        lambda message: message.function_call.arguments,
        id="function_call.arguments",
    ),
    pytest.param(
        lambda text: {"audio": {"transcript": text}}, lambda message: message.audio.transcript, id="audio.transcript"
    ),
]


@pytest.mark.parametrize(("delta", "text"), APPENDED)
def test_appended(delta: Any, text: Any) -> None:
    """Repeated and growing pieces are pieces: "ha" twice is laughter, not a repeat (row 65 is ambiguous with it)."""
    pieces = ["ha", "ha", "", None, "haha", "\r\n", "é", "\U0001f600"]
    parser = fold(*said(*map(delta, pieces)))
    assert text(parser.completion().message) == "hahahaha\r\né\U0001f600"
    assert noted(parser) <= {"CF503"}  # a finish reason of stop beside tool calls


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


@pytest.mark.parametrize(("name", "values", "expected", "rules"), FIRST)
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


ROLES = [
    pytest.param([{"role": "assistant"}, {}], "assistant", set(), id="once"),
    pytest.param([{}, {}], "assistant", set(), id="never: assistant"),
    pytest.param([{"role": None}, {"role": ""}], "assistant", {"CF203"}, id="empty: assistant"),
    pytest.param([{"role": ""}, {"role": "model"}], "model", {"CF203"}, id="empty, then another"),
    pytest.param([{"role": "assistant"}] * 3, "assistant", {"CF204"}, id="on every chunk (StepFun)"),
    pytest.param([{"role": "assistant"}, {"role": "tool"}], "assistant", {"CF204"}, id="changed"),
]


@pytest.mark.parametrize(("deltas", "role", "rules"), ROLES)
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


def test_a_finish_reason_is_never_invented() -> None:
    parser = fold(chunk({"content": "a"}))
    assert parser.end is StreamEnd.DONE
    assert parser.completion().finish_reason is None
    assert parser.completion().choices[0].outcome is None
    assert noted(parser) == {"CF502"}


def test_output_after_the_finish_reason_is_kept() -> None:
    parser = fold(chunk({"content": "a"}, finish_reason="stop"), chunk({"content": "b"}))
    assert parser.completion().text == "ab"
    assert noted(parser) == {"CF505"}


@pytest.mark.parametrize(
    ("values", "expected"), [(["auto", "default"], "default"), (["flex", "", None, ...], "flex"), ([...], None)]
)
def test_service_tier_is_the_last_that_is_not_empty(values: list[Any], expected: str | None) -> None:
    assert fold(*sent_at_the_top("service_tier", values)).completion().service_tier == expected


# Usage

USAGES = [
    pytest.param([None, {"prompt_tokens": 3}], {"prompt_tokens": 3}, set(), id="at the end"),
    pytest.param(
        [{"prompt_tokens": 3}, None, ...], {"prompt_tokens": 3}, set(), id="null and absent take nothing away"
    ),
    pytest.param(
        [{"completion_tokens": n, "total_tokens": n} for n in (1, 2, 9)],
        {"completion_tokens": 9, "total_tokens": 9},
        set(),
        id="cumulative on every chunk: the last, never the sum",
    ),
    pytest.param(
        [{"prompt_tokens": 3, "completion_tokens": 1}, {"prompt_tokens": None, "completion_tokens": 2}],
        {"prompt_tokens": 3, "completion_tokens": 2},
        set(),
        id="key by key, the last that is not null",
    ),
    pytest.param(
        [{"completion_tokens": 9}, {"completion_tokens": 4}], {"completion_tokens": 4}, set(), id="also a smaller one"
    ),
    pytest.param(
        [{"prompt_tokens": 3, "x": 0.5}, {"prompt_tokens": 0, "x": 0}],
        {"prompt_tokens": 3, "x": 0.5},
        {"CF401"},
        id="a 0 never replaces a positive number (MiniMax)",
    ),
    pytest.param(
        [{"prompt_tokens": 0, "completion_tokens": None}, {"prompt_tokens": 3, "completion_tokens": 0}],
        {"prompt_tokens": 3, "completion_tokens": 0},
        set(),
        id="a 0 is a value where none was",
    ),
    pytest.param(
        [
            {
                "prompt_tokens_details": {"cached_tokens": 5, "x": 1},
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            {"prompt_tokens_details": {"cached_tokens": 0, "y": 2}, "completion_tokens_details": None},
        ],
        {
            "prompt_tokens_details": {"cached_tokens": 5, "x": 1, "y": 2},
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        {"CF401"},
        id="details merge alike",
    ),
    pytest.param(
        [{"cached_tokens": 1, "cost": 0.1, "tier": "a"}, {"cached_tokens": 2, "cost": 0.2, "tier": "b", "more": {}}],
        {"cached_tokens": 2, "cost": 0.2, "tier": "b", "more": {}},
        set(),
        id="a provider's own keys too",
    ),
    pytest.param(
        [
            {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
            {"completion_tokens": 5, "total_tokens": 5},
        ],
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        {"CF402"},
        id="a total too small by the merge becomes the sum (bridges to Claude)",
    ),
    pytest.param(
        [
            {"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10},
            {"prompt_tokens": 0, "completion_tokens": 5, "total_tokens": 5},
        ],
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        {"CF401", "CF402"},
        id="also where a 0 was held back",
    ),
    pytest.param(
        [{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 12}] * 2,
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 12},
        set(),
        id="a total that was sent too small stays",
    ),
    pytest.param(
        [{"x": 1}, {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 12}],
        {"x": 1, "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 12},
        set(),
        id="also beside other keys: it was not the merge that made it so",
    ),
    pytest.param(
        [{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 99}, {"completion_tokens": 6}],
        {"prompt_tokens": 10, "completion_tokens": 6, "total_tokens": 99},
        set(),
        id="a larger total stays",
    ),
    pytest.param([{}], {}, set(), id="empty"),
]


@pytest.mark.parametrize(("usages", "expected", "rules"), USAGES)
def test_usage(usages: list[Any], expected: dict[str, Any], rules: set[str]) -> None:
    parser = fold(*sent_at_the_top("usage", usages))
    usage = parser.completion().usage
    assert usage is not None
    assert usage.model_dump(exclude_none=True) == expected
    assert noted(parser) == rules


def test_usage_is_never_invented() -> None:
    assert fold(*said({"content": "a"})).completion().usage is None


WHERE = [
    pytest.param({"usage": {"total_tokens": 1}}, {}, 1, id="in the chunk"),
    pytest.param({}, {"usage": {"total_tokens": 2}}, 2, id="in the choice (Moonshot)"),
    pytest.param({"x_groq": {"id": "req_1", "usage": {"total_tokens": 3}}}, {}, 3, id="in x_groq"),
    pytest.param({"usage": {"total_tokens": 1}}, {"usage": {"total_tokens": 2}}, 1, id="the chunk before the choice"),
    pytest.param(
        {"x_groq": {"usage": {"total_tokens": 3}}}, {"usage": {"total_tokens": 2}}, 2, id="the choice before x_groq"
    ),
    pytest.param(
        {"usage": None, "x_groq": {"usage": {"total_tokens": 3}}}, {"usage": None}, 3, id="a null is not there"
    ),
]


@pytest.mark.parametrize(("top", "choice", "total"), WHERE)
def test_where_usage_stands_is_no_anomaly(top: dict[str, Any], choice: dict[str, Any], total: int) -> None:
    parser = fold(chunk({"content": "a"}), chunk({}, finish_reason="stop", choice=choice, **top))
    usage = parser.completion().usage
    assert usage is not None
    assert usage.total_tokens == total
    assert noted(parser) == set()


def test_usage_after_the_finish_reason() -> None:
    """Row 55: a trailer with empty choices; NagaAI's has nothing else at all."""
    parser = fold(*said({"content": "a"}), {"choices": [], "usage": {"total_tokens": 4}})
    usage = parser.completion().usage
    assert usage is not None
    assert usage.total_tokens == 4
    assert noted(parser) == {"CF206"}  # the trailer has no object


# Audio


def base64(data: bytes) -> str:
    return b64encode(data).decode()


AUDIO = [
    pytest.param(
        [{"data": base64(b"ab")}, {"data": base64(b"c")}, {"data": base64(b"defg")}],
        {"data": base64(b"abcdefg")},
        set(),
        id="each piece is base64 of its own: bytes joined, encoded once",
    ),
    pytest.param(
        [{"data": "YW"}, {"data": "Jj"}],
        {"data": "YWJj"},
        {"CF218"},
        id="one base64 text that was cut anywhere: joined",
    ),
    pytest.param(
        [{"data": "*"}, {"data": base64(b"a")}], {"data": "*" + base64(b"a")}, {"CF218"}, id="no base64: texts joined"
    ),
    pytest.param(
        [{"id": "a1"}, {"id": "a2", "expires_at": 1}, {"id": "", "expires_at": 2}, {"expires_at": None}],
        {"id": "a2", "expires_at": 2},
        set(),
        id="id and expiry: the last that is not empty",
    ),
    pytest.param(
        [{"id": "a1", "data": "", "transcript": "He"}, {"transcript": "llo"}, {"expires_at": 9}],
        {"id": "a1", "transcript": "Hello", "expires_at": 9},
        set(),
        id="row 88: the expiry alone at the end",
    ),
    pytest.param(
        [{"x": 1, "y": 2}, {"x": 3, "y": None}], {"x": 3, "y": 2}, set(), id="unknown keys: the last not null"
    ),
]


@pytest.mark.parametrize(("pieces", "expected", "rules"), AUDIO)
def test_audio(pieces: list[dict[str, Any]], expected: dict[str, Any], rules: set[str]) -> None:
    parser = fold(*said(*({"audio": piece} for piece in pieces)))
    audio = parser.completion().message.audio
    assert audio is not None
    assert {key: value for key, value in audio.model_dump().items() if value not in (None, "")} == expected
    assert noted(parser) == rules


# reasoning_details

TEXT = "reasoning.text"
DETAILS = [
    pytest.param(
        [[{"type": TEXT, "index": 0, "text": "a"}], [{"type": TEXT, "index": 0, "text": "b"}]],
        [{"type": TEXT, "index": 0, "text": "ab"}],
        id="text appends",
    ),
    pytest.param(
        [[{"type": "reasoning.summary", "index": 0, "summary": "a"}]] * 2,
        [{"type": "reasoning.summary", "index": 0, "summary": "aa"}],
        id="summary appends",
    ),
    pytest.param(
        [[{"type": "reasoning.encrypted", "index": 0, "data": "a"}]] * 2,
        [{"type": "reasoning.encrypted", "index": 0, "data": "aa"}],
        id="data appends",
    ),
    pytest.param(
        [[{"type": TEXT, "index": 0, "text": "a", "signature": None}], [{"type": TEXT, "index": 0, "signature": "s"}]],
        [{"type": TEXT, "index": 0, "text": "a", "signature": "s"}],
        id="a signature that comes late and alone",
    ),
    pytest.param(
        [
            [{"type": TEXT, "index": 0, "signature": "s", "id": "i", "format": "f"}],
            [{"type": TEXT, "index": 0, "signature": "", "id": None, "format": ""}],
            [{"type": TEXT, "index": 0, "signature": "t", "format": "g"}],
        ],
        [{"type": TEXT, "index": 0, "signature": "t", "id": "i", "format": "g"}],
        id="signature, id, format: the last that is not empty",
    ),
    pytest.param(
        [
            [{"type": TEXT, "index": 0, "text": "a"}, {"type": TEXT, "index": 1, "text": "b"}],
            [{"type": TEXT, "index": 1, "text": "B"}, {"type": TEXT, "index": 0, "text": "A"}],
        ],
        [{"type": TEXT, "index": 0, "text": "aA"}, {"type": TEXT, "index": 1, "text": "bB"}],
        id="by index, not by place",
    ),
    pytest.param(
        [
            [{"type": TEXT, "index": 0, "text": "a"}],
            [{"type": "reasoning.encrypted", "index": 0, "data": "x"}],
            [{"type": TEXT, "index": 0, "text": "b"}],
        ],
        [{"type": TEXT, "index": 0, "text": "ab"}, {"type": "reasoning.encrypted", "index": 0, "data": "x"}],
        id="by type too: the same index twice",
    ),
    pytest.param(
        [[{"type": TEXT, "text": "a"}], [{"type": "x", "text": "-"}], [{"type": TEXT, "text": "b", "signature": "s"}]],
        [{"type": TEXT, "text": "ab", "signature": "s"}, {"type": "x", "text": "-"}],
        id="without an index: to the last of its type",
    ),
    pytest.param(
        [
            [{"type": TEXT, "index": 0, "text": "a"}, {"type": TEXT, "index": 1, "text": "b"}],
            [{"type": TEXT, "text": "!"}],
        ],
        [{"type": TEXT, "index": 0, "text": "a"}, {"type": TEXT, "index": 1, "text": "b!"}],
        id="the last of its type may have an index",
    ),
    pytest.param(
        [
            [{"type": TEXT, "id": "i", "text": "a"}],
            [{"type": TEXT, "id": "i", "text": "b"}],
            [{"type": TEXT, "id": "j"}],
        ],
        [{"type": TEXT, "id": "i", "text": "ab"}, {"type": TEXT, "id": "j"}],
        id="unless the id differs",
    ),
    pytest.param(
        [[{"type": TEXT, "index": 0, "text": None}], [{"type": TEXT, "index": 0, "text": "a"}]],
        [{"type": TEXT, "index": 0, "text": "a"}],
        id="null text adds nothing",
    ),
]


@pytest.mark.parametrize(("deltas", "expected"), DETAILS)
def test_reasoning_details(deltas: list[Any], expected: list[Any]) -> None:
    # Content begins in between: a signature may well come after it.
    parser = fold(*said(*({"reasoning_details": details, "content": "."} for details in deltas)))
    assert parser.completion().message.reasoning_details == expected
    assert noted(parser) == set()


# Reasoning text, in all its spellings

THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "T"}]}
SPELLINGS = [
    pytest.param({"reasoning_content": "T"}, set(), id="reasoning_content"),
    pytest.param({"reasoning": "T"}, set(), id="reasoning"),
    pytest.param({"reasoning_details": [{"type": TEXT, "text": "T"}]}, set(), id="text of reasoning_details"),
    pytest.param({"reasoning_details": [{"type": "s", "summary": "T"}]}, set(), id="else their summary"),
    pytest.param({"content": [THINKING]}, {"CF208"}, id="thinking parts of the content (Mistral)"),
    pytest.param({"reasoning_content": "T", "reasoning": "T"}, set(), id="twice, the same"),
    pytest.param({"reasoning_content": "T", "reasoning": "other"}, set(), id="twice: reasoning_content first"),
    pytest.param({"reasoning": "T", "reasoning_details": [{"text": "other"}]}, set(), id="reasoning before details"),
    pytest.param({"reasoning_details": [{"text": "T", "summary": "other"}]}, set(), id="text before summary"),
    pytest.param(
        {"reasoning_details": [{"text": "T"}], "content": [{"type": "thinking", "thinking": "other"}]},
        {"CF208"},
        id="details before thinking parts",
    ),
    pytest.param({"reasoning_content": "", "reasoning": "T"}, set(), id="an empty one is not it"),
    pytest.param({"reasoning_content": None, "reasoning": "", "reasoning_details": [{"text": "T"}]}, set(), id="two"),
    pytest.param({"reasoning_content": {"x": 1}, "reasoning": "T"}, {"CF209"}, id="nor one that is no string"),
    pytest.param({"reasoning": 5, "reasoning_content": "T"}, {"CF209"}, id="nor one that is a number"),
]


@pytest.mark.parametrize(("delta", "rules"), SPELLINGS)
def test_reasoning_is_taken_once_from_the_first_spelling(delta: dict[str, Any], rules: set[str]) -> None:
    parser = ChatCompletionParser()
    chunks = parser.feed(b"".join(sse(*said(delta, {}))))
    assert "".join(each.reasoning for each in chunks) == "T"
    message = parser.completion().message
    assert message.reasoning == "T"
    assert message.model_dump()["reasoning"] == "T"
    assert noted(parser) == rules


def test_spellings_may_change_from_delta_to_delta() -> None:
    deltas = [{"reasoning_content": "a"}, {"reasoning": "b"}, {"reasoning_details": [{"text": "c"}]}]
    assert fold(*said(*deltas)).completion().reasoning == "abc"


def test_the_raw_fields_stay_beside_it() -> None:
    deltas = [
        {
            "reasoning_content": "a",
            "reasoning": "a",
            "thinking": "x",
            "reasoning_details": [{"type": TEXT, "text": "a"}],
        },
        {"reasoning_content": "b", "thought": "y"},
    ]
    assert message_of(*deltas) == {
        "role": "assistant",
        "reasoning": "ab",
        "reasoning_content": "ab",
        "reasoning_details": [{"type": TEXT, "text": "a"}],
        "tool_calls": [],
        # Bare `thinking` and `thought` keys are unknown keys (row 51).
        "thinking": "x",
        "thought": "y",
    }


def test_a_raw_reasoning_that_is_no_string_gives_way_to_the_text() -> None:
    """DESIGN: the message has the text as `reasoning`, in place of a raw field of that name."""
    message = message_of({"reasoning": {"effort": "high"}}, {"reasoning_content": "a"})
    assert message["reasoning"] == "a"


def test_without_reasoning_the_field_is_none() -> None:
    assert fold(*said({"content": "a"})).completion().message.reasoning is None


# Content parts

PARTS = [
    pytest.param([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", "", id="text"),
    pytest.param([THINKING], "", "T", id="thinking"),
    pytest.param([{"type": "thinking", "thinking": "T"}], "", "T", id="thinking as a string"),
    pytest.param([THINKING, {"type": "text", "text": "a"}, THINKING], "a", "TT", id="mixed"),
    pytest.param([{"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "a"}], "a", "", id="others"),
    pytest.param(["a", {"type": "text", "text": "b"}, "c"], "abc", "", id="strings among them"),
    pytest.param([{"type": "text", "text": None}, {"type": "text"}, 5, None], "", "", id="without text"),
    pytest.param([{"type": "thinking", "thinking": ["T", {"type": "text", "text": "U"}]}], "", "TU", id="nested"),
    pytest.param([], "", "", id="none"),
]


@pytest.mark.parametrize(("parts", "text", "reasoning"), PARTS)
def test_content_parts_are_split(parts: list[Any], text: str, reasoning: str) -> None:
    parser = ChatCompletionParser()
    chunks = parser.feed(b"".join(sse(*said({"content": parts}, {"content": "!"}))))
    completion = parser.completion()
    assert (completion.message.content, completion.reasoning) == (text + "!", reasoning)
    assert (chunks[0].text, chunks[0].reasoning) == (text, reasoning)
    # The parts themselves stay on the chunk, as sent.
    assert chunks[0].choices[0].delta.content == parts
    assert noted(parser) == {"CF208"}


# Lists: log probabilities, annotations, images

LISTS = [
    pytest.param(lambda items: chunk({"images": items}), lambda choice: choice.message.images, id="images"),
    pytest.param(
        lambda items: chunk({"annotations": items}), lambda choice: choice.message.annotations, id="annotations"
    ),
    pytest.param(
        lambda items: chunk({}, choice={"logprobs": {"content": items}}),
        lambda choice: choice.logprobs.content,
        id="logprobs.content",
    ),
    pytest.param(
        lambda items: chunk({}, choice={"logprobs": {"refusal": items}}),
        lambda choice: choice.logprobs.refusal,
        id="logprobs.refusal",
    ),
]


def plain(items: Any) -> Any:
    """Models as what was sent."""
    return [item if isinstance(item, dict) else item.model_dump(exclude_unset=True) for item in items]


@pytest.mark.parametrize(("sent", "found"), LISTS)
def test_lists_extend(sent: Any, found: Any) -> None:
    a, b, c = ({"x": letter, "token": letter} for letter in "abc")
    parser = fold(sent([a]), sent([]), sent(None), sent([b, c]), sent([a]), *said({}))
    (choice,) = parser.completion().choices
    assert plain(found(choice)) == [a, b, c, a]
    assert noted(parser) == set()


@pytest.mark.parametrize("raw", ["x", 5, {"x": 1}])
@pytest.mark.parametrize(("sent", "found"), LISTS)
def test_a_value_that_is_no_list_is_kept_as_an_unknown_key(sent: Any, found: Any, raw: Any) -> None:
    parser = fold(sent("other"), sent(raw), *said({}))
    (choice,) = parser.completion().choices
    assert found(choice) == raw
    assert noted(parser) == {"CF209"}


@pytest.mark.parametrize("raw", ["x", 5, {"x": 1}])
@pytest.mark.parametrize(("sent", "found"), LISTS)
def test_it_takes_nothing_away_from_the_list(sent: Any, found: Any, raw: Any) -> None:
    a, b = {"token": "a"}, {"token": "b"}
    parser = fold(sent(raw), sent([a]), sent(raw), sent([b]), *said({}))
    (choice,) = parser.completion().choices
    assert plain(found(choice)) == [a, b]


def test_unknown_keys_of_logprobs_are_kept_and_null_is_none() -> None:
    logprobs = [None, {"content": None, "x": 1}, {"refusal": None, "x": 2, "y": None}]
    (choice,) = fold(*(chunk({}, choice={"logprobs": one}) for one in logprobs), *said({})).completion().choices
    assert choice.logprobs is not None
    assert choice.logprobs.model_dump() == {"content": None, "refusal": None, "x": 2}


def test_minus_infinity_is_a_log_probability() -> None:
    """Row 67."""
    data = json.dumps(chunk({}, finish_reason="stop", choice={"logprobs": {"content": [{"logprob": float("-inf")}]}}))
    parser = ChatCompletionParser()
    parser.feed(b"".join(sse(data)))
    (choice,) = parser.completion().choices
    assert choice.logprobs.content[0].logprob == float("-inf")


# function_call

FUNCTION_CALLS = [
    pytest.param(
        [{"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}],
        {"name": "f", "arguments": '{"a":1}'},
        id="name first, arguments append",
    ),
    pytest.param([{"name": "f"}, {"name": "g"}, {"name": ""}], {"name": "f", "arguments": ""}, id="the first name"),
    pytest.param([{"arguments": "1"}, {"name": "f"}], {"name": "f", "arguments": "1"}, id="a late name"),
    pytest.param([{"arguments": "1"}], {"name": None, "arguments": "1"}, id="no name"),
    pytest.param(
        [{"name": "f", "x": 1}, {"x": 2}, {"x": None}], {"name": "f", "arguments": "", "x": 2}, id="unknown keys"
    ),
]


@pytest.mark.parametrize(("fragments", "expected"), FUNCTION_CALLS)
def test_function_call(fragments: list[Any], expected: dict[str, Any]) -> None:
    parser = fold(*said(*({"function_call": one} for one in fragments), finish_reason="function_call"))
    call = parser.completion().message.function_call
    assert call is not None
    assert call.model_dump() == expected
    assert parser.completion().choices[0].outcome == "tool_calls"
    assert noted(parser) == set()


# Unknown keys, and obfuscation

LEVELS = [
    # What is sent with an unknown key at one level; where it is to be found in the completion.
    pytest.param(lambda extra: chunk({}, **extra), lambda completion: completion, id="chunk"),
    pytest.param(lambda extra: chunk({}, choice=extra), lambda completion: completion.choices[0], id="choice"),
    pytest.param(chunk, lambda completion: completion.message, id="delta"),
    pytest.param(
        lambda extra: chunk({}, choice={"logprobs": extra}),
        lambda completion: completion.choices[0].logprobs,
        id="logprobs",
    ),
    pytest.param(lambda extra: chunk({"audio": extra}), lambda completion: completion.message.audio, id="audio"),
    pytest.param(
        lambda extra: chunk({"function_call": extra}),
        lambda completion: completion.message.function_call,
        id="function_call",
    ),
    pytest.param(
        lambda extra: chunk({"tool_calls": [{"index": 0, **extra}]}),
        lambda completion: completion.tool_calls[0],
        id="tool call",
    ),
    pytest.param(
        lambda extra: chunk({"tool_calls": [{"index": 0, "function": extra}]}),
        lambda completion: completion.tool_calls[0].function,
        id="function",
    ),
    pytest.param(
        lambda extra: chunk({"tool_calls": [{"index": 0, "custom": extra}]}),
        lambda completion: completion.tool_calls[0].custom,
        id="custom",
    ),
    pytest.param(lambda extra: chunk({}, usage=extra), lambda completion: completion.usage, id="usage"),
]


@pytest.mark.parametrize(("sent", "found"), LEVELS)
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


@pytest.mark.parametrize(("sent", "found"), LEVELS[:-1])  # usage has a rule of its own, key by key
def test_obfuscation_stays_on_the_chunk(sent: Any, found: Any) -> None:
    parser = ChatCompletionParser()
    chunks = parser.feed(b"".join(sse(sent({"obfuscation": "Xx", "kept": 1}), *said({}))))
    assert "obfuscation" in chunks[0].model_dump_json()
    completion = parser.completion()
    assert found(completion).kept == 1
    assert "obfuscation" not in completion.model_dump_json()


# Values of a wrong type, where they do not matter

WRONG = [
    # A field beside content, tool calls, finish reason and index; the value; where the completion has it.
    pytest.param({"id": 5}, None, {}, lambda c: c["id"], id="id"),
    pytest.param({"created": "yesterday"}, None, {}, lambda c: c["created"], id="created"),
    pytest.param({"model": ["m"]}, None, {}, lambda c: c["model"], id="model"),
    pytest.param({"system_fingerprint": 1}, None, {}, lambda c: c["system_fingerprint"], id="system_fingerprint"),
    pytest.param({"service_tier": 2}, None, {}, lambda c: c["service_tier"], id="service_tier"),
    pytest.param({"usage": "none"}, None, {}, lambda c: c["usage"], id="usage"),
    pytest.param({"usage": {"prompt_tokens": "many"}}, None, {}, lambda c: c["usage"], id="a count"),
    pytest.param({}, {"logprobs": "none"}, {}, lambda c: c["choices"][0]["logprobs"], id="logprobs"),
    pytest.param({}, {"message": "none"}, {}, None, id="message"),
    pytest.param({}, None, {"role": 5}, None, id="role"),  # the message's is assistant then
    pytest.param({}, None, {"refusal": False}, lambda c: c["choices"][0]["message"]["refusal"], id="refusal"),
    pytest.param({}, None, {"reasoning": ["a"]}, None, id="reasoning"),  # the message's is the text
    pytest.param(
        {},
        None,
        {"reasoning_content": 1},
        lambda c: c["choices"][0]["message"]["reasoning_content"],
        id="reasoning_content",
    ),
    pytest.param(
        {},
        None,
        {"reasoning_details": {"text": 1}},
        lambda c: c["choices"][0]["message"]["reasoning_details"],
        id="reasoning_details",
    ),
    pytest.param({}, None, {"audio": "x"}, lambda c: c["choices"][0]["message"]["audio"], id="audio"),
    pytest.param(
        {}, None, {"function_call": "auto"}, lambda c: c["choices"][0]["message"]["function_call"], id="function_call"
    ),
    pytest.param({}, None, {"images": "x"}, lambda c: c["choices"][0]["message"]["images"], id="images"),
    pytest.param({}, None, {"annotations": {}}, lambda c: c["choices"][0]["message"]["annotations"], id="annotations"),
]


@pytest.mark.parametrize(("top", "choice", "delta", "found"), WRONG)
def test_a_wrong_type_is_kept_raw_and_noted(top: Any, choice: Any, delta: Any, found: Any) -> None:
    field, value = next(iter((top or choice or delta).items()))
    payload = chunk({"content": "a", **delta}, choice=choice, **top)
    (anomaly,) = [one for one in fold(payload).anomalies if one.rule.id == "CF209"]
    assert anomaly.count == 1
    assert field in anomaly.detail
    # The chunk has it where it was sent ...
    (parsed,) = parse_payload(ServerSentEvent(json.dumps(payload).encode())).chunks
    dumped = parsed.model_dump(exclude_unset=True, warnings="error")
    assert dumped == payload
    # ... and what stands around it is folded as if nothing were.
    absent = dict.fromkeys(top, ...)
    completion = fold(payload, chunk({"content": "b"}, finish_reason="stop", **absent)).completion()
    assert completion.text == "ab"
    assert completion.message.role == "assistant"
    whole = json.loads(completion.model_dump_json(exclude_unset=True, warnings="error"))
    if found is not None:
        assert found(whole) == value


def test_the_right_type_wins_whenever_it_comes() -> None:
    wrong = {"id": 5, "created": "x", "model": 1, "usage": "none"}
    right = {"id": "c", "created": 7, "model": "m", "usage": {"total_tokens": 3}}
    for order in ((wrong, right), (right, wrong)):
        completion = fold(chunk({}, **order[0]), chunk({}, finish_reason="stop", **order[1])).completion()
        assert (completion.id, completion.created, completion.model) == ("c", 7, "m")
        assert completion.usage is not None
        assert completion.usage.total_tokens == 3


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
    """Row 43: Azure's asynchronous filter."""
    parser = fold(*said({"content": "a"}), chunk(delta, choice={"content_filter_offsets": {"start": 1}}))
    (choice,) = parser.completion().choices
    assert (choice.message.content, choice.finish_reason) == ("a", "stop")
    assert choice.model_extra == {"content_filter_offsets": {"start": 1}}
    assert noted(parser) == {"CF202"}


# Whole messages


def whole(message: Any, finish_reason: str | None = None, **choice: Any) -> dict[str, Any]:
    """A chunk that has a message instead of a delta."""
    return chunk(finish_reason=finish_reason, choice={"message": message, **choice})


MESSAGES = [
    pytest.param([whole({"content": "whole"}, "stop")], "whole", 1, id="instead of deltas (HybridAI)"),
    pytest.param(
        [whole({"content": "w"}), whole({"content": "wh"}), whole({"content": "whole"}, "stop")],
        "whole",
        1,
        id="several: the last (Perplexity's full mode)",
    ),
    pytest.param(
        [chunk({"content": "de"}), chunk({"content": "lta"}), whole({"content": "whole"}, "stop")],
        "delta",
        0,
        id="after deltas, as at the end of MiniMax: the deltas hold",
    ),
    pytest.param(
        [whole({"content": "w"}), chunk({"content": "delta"}), whole({"content": "whole"}, "stop")],
        "delta",
        0,
        id="around deltas",
    ),
    pytest.param(
        [chunk({"content": "de"}, choice={"message": {"content": "whole"}}), *said({"content": "lta"})],
        "delta",
        0,
        id="beside a delta",
    ),
    pytest.param(
        [chunk({"role": "assistant", "content": ""}), whole({"content": "whole"}, "stop")],
        "whole",
        1,
        id="after deltas without output",
    ),
    pytest.param([whole({"content": None}), *said({"content": "a"})], "a", 0, id="an empty message"),
]


@pytest.mark.parametrize(("payloads", "text", "extra"), MESSAGES)
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
        pytest.param(
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
            {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
            id="details without text",
        ),
        pytest.param({"reasoning": "r"}, {"reasoning_content": "r"}, id="reasoning in another spelling"),
        pytest.param({"refusal": "r"}, {"refusal": "r"}, id="refusal"),
        pytest.param({"images": [{"image_url": {"url": "u"}}]}, {"images": [{"image_url": {"url": "u"}}]}, id="images"),
        pytest.param({"audio": {"data": "YQ=="}}, {"audio": {"id": "i", "data": "YQ=="}}, id="audio"),
        pytest.param({"function_call": {"name": "f"}}, {"function_call": {"name": "f"}}, id="function_call"),
        pytest.param({"x": [1]}, {"x": [2]}, id="an unknown key"),
    ],
)
def test_what_deltas_brought_is_no_gap(delta: dict[str, Any], message: dict[str, Any]) -> None:
    alone, both = fold(*said(delta)), fold(chunk(delta), whole(message, "stop"))
    assert both.completion().message == alone.completion().message


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


WRONG_MESSAGES = [
    pytest.param({"content": 5}, None, id="content"),
    pytest.param({"content": "whole", "refusal": 5}, "whole", id="refusal"),
    pytest.param({"content": "whole", "tool_calls": "none"}, "whole", id="tool_calls"),
    pytest.param({"content": "whole", "function_call": []}, "whole", id="function_call"),
    pytest.param({"content": "whole", "audio": ""}, "whole", id="audio"),
    pytest.param({"content": "whole", "role": 0}, "whole", id="role"),
]


@pytest.mark.parametrize(("message", "text"), WRONG_MESSAGES)
def test_a_wrong_type_in_a_message_is_kept_raw(message: dict[str, Any], text: str | None) -> None:
    """Nothing in a message is essential: it only fills gaps."""
    parser = fold(chunk({}), whole(message, "stop"))
    assert parser.completion().text == (text or "")
    assert noted(parser) == {"CF207", "CF209"}
    assert parser.completion().message.role == "assistant"


# Values are values

RICH = [
    chunk({"role": "assistant", "content": [THINKING, {"type": "text", "text": "a"}], "x": {"y": [1]}}),
    chunk({"reasoning_details": [{"type": TEXT, "index": 0, "text": "r"}], "reasoning": "r"}, x_groq={"id": "g"}),
    chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'a"'}}, {"index": 1, "custom": {"input": "i"}}]}),
    chunk({"images": [{"image_url": {"url": "u"}}], "annotations": [{"type": "t", "url_citation": {"url": "u"}}]}),
    chunk({"audio": {"id": "i", "data": "YQ==", "transcript": "t"}, "function_call": {"name": "f", "arguments": "1"}}),
    chunk({"refusal": "no"}, choice={"logprobs": {"content": [{"token": "a", "logprob": -1.0, "bytes": [97]}]}}),
    chunk({"content": "b"}, usage={"total_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1, "x": [1]}}),
    chunk({"content": "c"}, index=1, usage={"total_tokens": 2, "prompt_tokens_details": {"cached_tokens": 2}}),
    chunk({}, index=2, choice={"message": {"content": "d", "tool_calls": [{"id": "z", "function": {"name": "f"}}]}}),
    chunk({}, finish_reason="stop", service_tier="t", system_fingerprint="f"),
]


def test_a_chunk_is_not_changed_by_the_fold() -> None:
    """Neither by `add` nor by what the end makes of it: chunks are the caller's once they are handed out."""
    parser = ChatCompletionParser()
    given = []
    for data in sse(*RICH):
        given += [(one, deepcopy(one)) for one in parser.feed(data)]
    assert len(given) == len(RICH) + 1
    for one, before in given:
        assert one == before
        assert one.model_dump(exclude_unset=True) == before.model_dump(exclude_unset=True)


def test_a_snapshot_is_not_changed_by_later_chunks() -> None:
    parser = ChatCompletionParser()
    taken = []
    for data in sse(*RICH * 2):
        parser.feed(data)
        taken.append((parser.snapshot, parser.snapshot.model_dump_json()))
    assert [snapshot.model_dump_json() for snapshot, _ in taken] == [dump for _, dump in taken]
    assert len({dump for _, dump in taken}) > len(RICH)


def test_a_snapshot_before_the_first_chunk() -> None:
    for snapshot in (ChatCompletionParser().snapshot, ChatCompletionAccumulator().snapshot):
        assert snapshot == ChatCompletion()
        assert (snapshot.text, snapshot.reasoning, snapshot.tool_calls, snapshot.finish_reason) == ("", "", [], None)


def test_an_accumulator_can_be_used_alone() -> None:
    accumulator = ChatCompletionAccumulator()
    for payload in RICH:
        accumulator.add(ChatCompletionChunk.model_validate(payload))
    snapshot = accumulator.snapshot
    assert (snapshot.text, snapshot.reasoning) == ("ab", "Tr")
    assert texts(snapshot) == {0: "ab", 1: "c", 2: None}
    assert accumulator.has_output


NO_OUTPUT = [
    pytest.param({"role": "assistant"}, id="role"),
    pytest.param({"content": ""}, id="empty content"),
    pytest.param({"x": "text"}, id="unknown key"),
    pytest.param({"annotations": [{"type": "t"}]}, id="annotation"),
    pytest.param({"tool_calls": [{"index": 0, "id": "a", "type": "function"}]}, id="a call's id"),
    pytest.param({"audio": {"id": "a", "expires_at": 1}}, id="an audio's id"),
]
OUTPUT = [
    pytest.param({"content": "a"}, id="text"),
    pytest.param({"content": [{"type": "text", "text": "a"}]}, id="text in parts"),
    pytest.param({"reasoning": "a"}, id="reasoning"),
    pytest.param({"reasoning_details": [{"text": "a"}]}, id="reasoning in details"),
    pytest.param({"refusal": "a"}, id="refusal"),
    pytest.param({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}, id="a call's name"),
    pytest.param({"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]}, id="a call's arguments"),
    pytest.param({"audio": {"data": "YQ=="}}, id="audio"),
    pytest.param({"images": [{"image_url": {"url": "u"}}]}, id="image"),
]


@pytest.mark.parametrize("delta", NO_OUTPUT)
def test_what_is_no_output(delta: dict[str, Any]) -> None:
    accumulator = ChatCompletionAccumulator()
    accumulator.add(ChatCompletionChunk.model_validate(chunk(delta, usage={"total_tokens": 1})))
    assert (accumulator.has_output, accumulator.output_size) == (False, 0)


@pytest.mark.parametrize("delta", OUTPUT)
def test_what_is_output(delta: dict[str, Any]) -> None:
    accumulator = ChatCompletionAccumulator()
    accumulator.add(ChatCompletionChunk.model_validate(chunk(delta)))
    assert accumulator.has_output
    assert accumulator.output_size > 0


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


def test_encrypted_reasoning_is_output() -> None:
    parser = fold(*said({"reasoning_details": [{"type": "reasoning.encrypted", "data": "zzz"}]}))
    assert parser.emitted_output


def test_a_snapshot_is_the_readers_own() -> None:
    parser = ChatCompletionParser()
    parser.feed(b"".join(sse(*said({"images": [{"url": "a"}], "x": [1]})[:1], done=False)))
    snapshot = parser.snapshot
    snapshot.message.images[0]["url"] = "changed"
    snapshot.message.model_extra["x"].append(2)
    assert parser.snapshot.message.images == [{"url": "a"}]
    assert parser.snapshot.message.model_extra == {"x": [1]}


@pytest.mark.parametrize(("sent", "kept"), [({}, "{}"), ([], "{}"), (5, "5"), (False, "false"), (None, "")])
def test_arguments_of_a_function_call_that_are_no_text(sent: Any, kept: Any) -> None:
    parser = fold(*said({"function_call": {"name": "f", "arguments": sent}}))
    message = parser.completion().message
    assert message.function_call is not None
    assert message.function_call.arguments == kept
    assert message.to_param()["function_call"]["arguments"] == (kept or "{}")


def test_a_wrong_type_in_the_usage_of_a_choice_is_noted() -> None:
    parser = fold(chunk({"content": "a"}, choice={"usage": {"prompt_tokens": "many"}}), chunk({}, finish_reason="stop"))
    assert parser.completion().usage.model_dump(exclude_unset=True) == {"prompt_tokens": "many"}
    assert noted(parser) == {"CF209"}


def test_what_was_put_in_by_hand_is_copied_too() -> None:
    accumulator = ChatCompletionAccumulator()
    accumulator.add(ChatCompletionChunk.model_validate({"choices": [], "x": {1, 2}}))
    assert accumulator.snapshot.model_extra == {"x": {1, 2}}


def test_annotations_are_the_snapshots_own() -> None:
    parser = ChatCompletionParser()
    parser.feed(b"".join(sse(*said({"annotations": [{"type": "url_citation"}]})[:1], done=False)))
    parser.snapshot.message.annotations[0].type = "changed"
    assert parser.snapshot.message.annotations[0].type == "url_citation"
