"""Surrogate pairs that are split over deltas: the halves are joined, each in its own text."""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from parsed_bodies import parsed
from wire_events import calls, chunk, compact, noted, parse, stream

from chunkfold import ChatCompletionParser, ThinkTags
from chunkfold.testing import sse


def text_of(delta: Any, *path: str | int) -> str:
    """The text at a place in a delta or a message; "" where there is none."""
    for part in path:
        delta = delta[part] if isinstance(part, int) and delta else getattr(delta, str(part), None)
    return delta or ""


CHANNELS: dict[str, Any] = {
    # The delta that brings a text, and where the text stands in a delta and in the message.
    "content": (lambda text: {"content": text}, lambda part: text_of(part, "content")),
    "refusal": (lambda text: {"refusal": text}, lambda part: text_of(part, "refusal")),
    "reasoning": (lambda text: {"reasoning": text}, lambda part: text_of(part, "reasoning")),
    "reasoning_content": (lambda text: {"reasoning_content": text}, lambda part: text_of(part, "reasoning_content")),
    "reasoning_details: text":
        (lambda text: {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": text}]},
         lambda part: (text_of(part, "reasoning_details", 0) or {}).get("text") or ""),
    "reasoning_details: summary":
        (lambda text: {"reasoning_details": [{"type": "reasoning.summary", "summary": text}]},
         lambda part: (text_of(part, "reasoning_details", 0) or {}).get("summary") or ""),
    "arguments":
        (lambda text: {"tool_calls": [{"index": 3, "id": "a", "function": {"arguments": text}}]},
         lambda part: text_of(part, "tool_calls", 0, "function", "arguments")),
    "arguments, by id":
        (lambda text: {"tool_calls": [{"id": "a", "function": {"arguments": text}}]},
         lambda part: text_of(part, "tool_calls", 0, "function", "arguments")),
    "input of a custom tool":
        (lambda text: {"tool_calls": [{"index": 3, "custom": {"input": text}}]},
         lambda part: text_of(part, "tool_calls", 0, "custom", "input")),
    "function_call":
        (lambda text: {"function_call": {"arguments": text}}, lambda part: text_of(part, "function_call", "arguments")),
    "transcript": (lambda text: {"audio": {"transcript": text}}, lambda part: text_of(part, "audio", "transcript")),
}  # fmt: skip
PIECES = [
    pytest.param(["a\ud83d", "\ude00b"], "a\U0001f600b", id="split once"),
    pytest.param(["\ud83d", "\ude00\ud83d", "\ude01"], "\U0001f600\U0001f601", id="split twice"),
    pytest.param(["\ud83d", "", None, "\ude00"], "\U0001f600", id="nothing between"),
    pytest.param(["\ud83d\ude00"], "\U0001f600", id="not split"),
    pytest.param(["a\ud83d"], "a\ufffd", id="the first half at the end"),
    pytest.param(["a\ud83d", "b"], "a\ufffdb", id="the first half alone"),
    pytest.param(["a", "\ude00b"], "a\ufffdb", id="the second half alone"),
    pytest.param(["\ud83d", "\ud83d", "\ude00"], "\ufffd\U0001f600", id="the first half twice"),
    pytest.param(["a\ud83db", "\ude00"], "a\ufffdb\ufffd", id="something between"),
]


@each_case(("pieces", "expected"), PIECES)
@each_case(("sent", "found"), CHANNELS.values(), ids=CHANNELS)
def test_halves_are_joined(sent: Any, found: Any, pieces: list[str | None], expected: str) -> None:
    """What is handed out has whole characters only, and adds up to the message."""
    parser = ChatCompletionParser()
    chunks = [one for data in sse(*(compact(chunk(sent(piece))) for piece in pieces)) for one in parser.feed(data)]
    texts = [found(choice.delta) for one in chunks for choice in one.choices]
    assert "".join(texts) == expected
    assert found(parser.snapshot.message) == expected
    assert "".join(texts).encode().decode() == expected  # no half anywhere
    if all(piece is None or piece.isascii() or piece == "\U0001f600" for piece in pieces):
        assert "CF211" not in noted(parser)
    elif pieces != ["\ud83d\ude00"]:
        assert "CF211" in noted(parser)


def test_halves_at_the_end_of_a_list_are_kept_in_both_channels() -> None:
    parts = [{"type": "thinking", "thinking": "a\ud83d"}, {"type": "text", "text": "b\ud83d"}]
    parser = parsed(stream(chunk({"content": parts})))
    assert (parser.snapshot.message.reasoning, parser.snapshot.text) == ("a\ufffd", "b\ufffd")


def test_channels_do_not_mix() -> None:
    """Choices, fields, calls and details that speak in turns, each cut between the halves of another character."""

    def say(half: int) -> list[dict[str, Any]]:
        def text(place: int) -> str:
            return ("\ud83d", chr(0xDE00 + place))[half]

        deltas = [
            {"content": text(0)},
            {"reasoning": text(1)},
            {"refusal": text(2)},
            {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": text(3)}}]},
            {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "f", "arguments": text(4)}}]},
            {"tool_calls": [{"index": 2, "id": "c", "custom": {"name": "f", "input": text(5)}}]},
        ]
        return [*map(chunk, deltas), chunk({"content": text(6)}, index=1), chunk({"content": text(7)}, index=2)]

    parser = parsed(stream(*say(0), *say(1)))
    first, second, third = parser.snapshot.choices
    assert (first.message.content, first.message.reasoning, first.message.refusal) == ("😀", "😁", "😂")
    assert [one.arguments for one in first.message.tool_calls] == ["😃", "😄", "😅"]
    assert (second.message.content, third.message.content) == ("😆", "😇")


@each_case(("transforms", "begin"), [((), ""), ((), "\ud83d\ude00"), ((ThinkTags(),), "")])
def test_halves_in_calls_are_joined_by_the_fragments_before_them(transforms: Any, begin: str) -> None:
    """The second call begins without a half, and its fragments are known by its id, then by its index."""
    parser = parsed(
        stream(
            calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": '"'}}),
            *(calls({"index": 0, "function": {"arguments": half}}) for half in begin),
            calls({"index": 1, "id": "b", "function": {"name": "g", "arguments": '"'}}),
            calls({"id": "b", "function": {"arguments": "\ud83d"}}),
            calls({"index": 0, "function": {"arguments": '0"'}}),
            calls({"index": 1, "function": {"arguments": '\ude00"'}}),
        ),
        transforms=transforms,
    )
    whole = "😀" if begin else ""
    assert [one.arguments for one in parser.snapshot.tool_calls] == [f'"{whole}0"', '"😀"']


def test_a_call_that_begins_with_a_half_is_a_part_as_any() -> None:
    """Its fragment is looked at before it is folded, when another call is known."""
    parser = parsed(
        stream(
            calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}),
            calls({"index": 1, "id": "b", "function": {"name": "g", "arguments": "\ud83d"}}),
        )
    )
    parts = [part.tool_call.id for part in parser.snapshot.message.parts if part.type == "tool_call"]
    assert (parts, parser._fold.output_size) == (["a", "b"], len("f{}g\ufffd"))


def test_a_held_half_is_not_lost_at_any_end() -> None:
    for tail in (b"", b"data: [DONE]\n\n", b'data: {"error":{"message":"x"}}\n\n', b"data: garbage\n\n"):
        parser = ChatCompletionParser()
        chunks = parser.feed(stream(chunk({"content": "a\ud83d"})).removesuffix(b"data: [DONE]\n\n"))
        chunks += parser.feed(tail) + parser.close()
        assert "".join(one.text for one in chunks) == parser.snapshot.text == "a\ufffd"


def test_a_held_half_goes_to_its_own_choice() -> None:
    parser = parsed(stream(chunk({"content": "a\ud83d"}), chunk({"content": "b\ud83d"}, index=1)))
    assert [one.message.content for one in parser.snapshot.choices] == ["a\ufffd", "b\ufffd"]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({**chunk({}), "id": "c\ud83d", "model": "\ude00"}, id="id and model"),
        pytest.param(chunk({"role": "\ud83d"}, "\ude00"), id="role and finish reason"),
        pytest.param(calls({"index": 0, "id": "\ud83d", "function": {"name": "\ude00"}}), id="a call's id and name"),
        pytest.param({**chunk({"x": ["\ud83d"]}), "y": {"\ud83d": "\ude00"}}, id="unknown values"),
        pytest.param({**chunk({}), "\ude00": 1}, id="an unknown key of the chunk"),
        pytest.param(chunk({"\ude00": 1}), id="an unknown key of the delta"),
        pytest.param(chunk({}, logprobs={"content": [{"token": "\ud83d"}]}), id="a token"),
        pytest.param(chunk({"reasoning_details": {"text": "a\ud83d"}}), id="an object instead of a list of blocks"),
    ],
)
def test_elsewhere_a_half_is_replaced(payload: Any) -> None:
    """Nothing tells what would continue it there."""
    parser = ChatCompletionParser()
    (one,) = parser.feed(stream(payload).removesuffix(b"data: [DONE]\n\n"))
    assert "\ufffd" in one.model_dump_json().encode().decode()
    assert "\ufffd" in parser.snapshot.model_dump_json().encode().decode()


def test_one_event_alone_keeps_the_half_at_its_edge() -> None:
    """`parse_payload` knows no other event; the parser does."""
    payload = parse(chunk({"content": "a\ud83d"}))
    assert payload.chunks[0].text == "a\ud83d"
    assert noted(payload) == {"CF211"}


@each_case(("size", "text"), [(10, "\ude00 is a\ud83d"), (2**20, "\ufffd is a\ufffd")])
def test_beside_an_error_a_half_at_an_edge_is_kept_unless_the_event_is_large(size: int, text: str) -> None:
    error = {"message": "Overloaded\ud83d", "padding": "x" * size}
    payload = parse({**chunk({"content": "\ude00 is a\ud83d"}), "error": error})
    assert payload.chunks[0].text == text
    assert str(payload.error) == "Overloaded\ufffd"
    assert noted(payload) >= {"CF211"}


def test_halves_are_joined_where_an_error_comes_with_the_second() -> None:
    second = {**chunk({"content": "\ude00b"}), "error": {"message": "Overloaded"}}
    parser = parsed(stream(chunk({"content": "a\ud83d"}), second))
    assert (parser.snapshot.text, parser.end) == ("a\U0001f600b", "failed")


@each_case(
    ("sent", "view"),
    [
        (lambda half: {"content": [{"type": "text", "text": half}]}, "text"),
        (lambda half: {"content": [half]}, "text"),
        (lambda half: {"content": half if half == "\ud83d" else [half]}, "text"),
        (lambda half: {"content": [half, 5] if half == "\ud83d" else half}, "text"),
        (lambda half: {"content": [{"type": "thinking", "thinking": half}]}, "reasoning"),
        (lambda half: {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": half}]}]}, "reasoning"),
        (lambda half: {"reasoning_details": [None, {"type": "reasoning.text", "text": half}]}, "reasoning"),
    ],
)
def test_halves_in_lists_are_joined(sent: Callable[[str], Any], view: str) -> None:
    halves = [chunk(sent(half)) for half in "\ud83d\ude00"]
    assert getattr(parsed(stream(*halves)).snapshot, view) == "\U0001f600"


def test_what_identifies_a_held_half_has_none_itself() -> None:
    """As in the chunk before, which brought the first half of the text."""
    fragment = {"index": 0, "id": "a\ud83d", "function": {"name": "f", "arguments": "x\ud83d"}}
    parser = ChatCompletionParser()
    chunks = [*parser.feed(stream(calls(fragment)).removesuffix(sse()[0])), *parser.close()]
    sent = [call for one in chunks for call in one.choices[0].delta.tool_calls or ()]
    assert [(call.id, call.function and call.function.arguments) for call in sent] == [("a�", "x"), ("a�", "�")]
