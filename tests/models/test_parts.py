"""`message.parts`: what was thought, said and called, in the order in which it came."""

import json
from collections.abc import Iterable
from copy import copy, deepcopy
from typing import Any

import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants.values import check_parts
from made_streams import CUTS, STOP, Stream
from pydantic import BaseModel

from chunkfold import (
    AudioPart,
    ChatCompletion,
    ChatCompletionMessage,
    ChatCompletionParser,
    ImagePart,
    MessagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ThinkTags,
    ToolCallPart,
)
from chunkfold.models.base import Uncompared, validate_leniently
from chunkfold.testing import DONE, HEAD, delta, event, fragment

often = settings(max_examples=40, deadline=None)  # no deadline: the machine may be busy


def short_repr(part: MessagePart) -> tuple[str, Any]:
    """A part as an item of a table."""
    match part:
        case ToolCallPart(tool_call=call):
            return ("tool_call", (call.name, call.arguments))
        case ImagePart(image=image):
            return ("image", image)
        case AudioPart(audio=audio):
            return ("audio", (audio.data, audio.transcript))
        case TextPart(text=text) | ReasoningPart(text=text) | RefusalPart(text=text):
            return (part.type, text)


def parts_of(message: ChatCompletionMessage) -> list[tuple[str, Any]]:
    return [short_repr(part) for part in message.parts]


def read(*pieces: bytes, **options: Any) -> ChatCompletionMessage:
    return Stream([*pieces]).read(**options)[0].snapshot.message


def calls(*fragments: tuple[Any, ...]) -> bytes:
    return delta(tool_calls=[fragment(*one) for one in fragments])


def text(content: str) -> bytes:
    return delta(content=content)


def think(reasoning: str) -> bytes:
    return delta(reasoning=reasoning)


# The order in which they came

A, B = (0, "a", "f", "{}"), (1, "b", "g", "{}")
A_PART, B_PART = ("tool_call", ("f", "{}")), ("tool_call", ("g", "{}"))
IMAGE, OTHER_IMAGE = {"image_url": {"url": "data:,a"}}, {"image_url": {"url": "data:,b"}}
ORDERS: dict[str, tuple[list[bytes], list[tuple[str, Any]]]] = {
    "nothing": ([delta(role="assistant"), text(""), delta(reasoning="", refusal="", images=[])], []),
    "reasoning, text, reasoning, a tool call, text": (
        [think("h"), think("m"), text("a"), text("b"), think("!"), calls(A), text("c"), text("d")],
        [("reasoning", "hm"), ("text", "ab"), ("reasoning", "!"), A_PART, ("text", "cd")],
    ),
    "text before reasoning": ([text("a"), think("hm")], [("text", "a"), ("reasoning", "hm")]),
    "text and reasoning by turns": (
        [text("a"), think("b"), text("c"), think("d")],
        [("text", "a"), ("reasoning", "b"), ("text", "c"), ("reasoning", "d")],
    ),
    "refusal": ([text("a"), delta(refusal="b"), delta(refusal="c"), text("d")], [("text", "a"), ("refusal", "bc"), ("text", "d")]),
    "tool calls before text": ([calls(A), calls(B), text("a")], [A_PART, B_PART, ("text", "a")]),
    "text between tool calls": ([calls(A), text("a"), calls(B)], [A_PART, ("text", "a"), B_PART]),
    "a tool call stands where it first appeared": (
        [calls((0, "a", None, None)), text("a"), calls((0, None, "f", "{")), text("b"), calls(B), calls((0, None, None, "}")), text("c")],
        [A_PART, ("text", "ab"), B_PART, ("text", "c")],
    ),
    "two calls in one delta": ([text("a"), calls(A, B), think("b")], [("text", "a"), A_PART, B_PART, ("reasoning", "b")]),
    "images": (
        [delta(images=[IMAGE]), text("a"), delta(images=[OTHER_IMAGE, IMAGE]), text("b")],
        [("image", IMAGE), ("text", "a"), ("image", OTHER_IMAGE), ("image", IMAGE), ("text", "b")],
    ),
    "audio stands where it began, as a whole": (
        [text("a"), delta(audio={"data": "QUI="}), text("b"), delta(audio={"data": "QUI=", "transcript": "t"}), text("c")],
        [("text", "a"), ("audio", ("QUJBQg==", "t")), ("text", "bc")],
    ),
    "what is no part does not part": (
        [text("a"), delta(annotations=[{"type": "x"}]), delta(role="assistant"), text(""), delta(function_call={"name": "f"}), think(""), text("b"), STOP, text("c")],
        [("text", "abc")],
    ),
    "several fields of one delta": (
        [delta(content="a", reasoning="hm", refusal="no", tool_calls=[fragment(*A)])],
        [("reasoning", "hm"), ("text", "a"), ("refusal", "no"), A_PART],
    ),
    "several fields of every delta": (
        [delta(content="a", reasoning="h"), delta(content="b", reasoning="m")],
        [("reasoning", "h"), ("text", "a"), ("reasoning", "m"), ("text", "b")],
    ),
    "every spelling of reasoning": (
        [delta(reasoning_content="a"), delta(reasoning="b"), delta(reasoning_details=[{"type": "reasoning.text", "text": "c"}]), delta(content=[{"type": "thinking", "thinking": "d"}]), text("e")],
        [("reasoning", "abcd"), ("text", "e")],
    ),
    "the same reasoning in two fields": ([delta(reasoning_content="a", reasoning="a"), text("b")], [("reasoning", "a"), ("text", "b")]),
    "the order inside a content list": (
        [delta(content=[{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}, "c", {"type": "text", "text": "d"}])],
        [("text", "a"), ("reasoning", "b"), ("text", "cd")],
    ),
    "content lists that go on": (
        [delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]), delta(content=[{"type": "thinking", "thinking": "b"}, "c"]), text("d")],
        [("reasoning", "ab"), ("text", "cd")],
    ),
    "halves of a pair, over a tool call": ([text("a\ud83d"), calls(A), text("\ude00b")], [("text", "a"), A_PART, ("text", "😀b")]),
    "characters beyond the BMP and line ends": ([text("😀\r\n"), think("\r\n😀"), text("\r")], [("text", "😀\r\n"), ("reasoning", "\r\n😀"), ("text", "\r")]),
}  # fmt: skip


@each_case(("pieces", "expected"), ORDERS.values(), ids=ORDERS)
def test_parts_come_in_the_order_in_which_they_came(pieces: list[bytes], expected: list[tuple[str, Any]]) -> None:
    assert parts_of(read(*pieces, STOP, DONE)) == expected


def test_each_choice_has_its_own_parts() -> None:
    pieces = [think("a"), delta(index=1, content="b"), text("c"), delta(index=1, reasoning="d"), think("e")]
    first, second = Stream(pieces).read()[0].snapshot.choices
    assert parts_of(first.message) == [("reasoning", "a"), ("text", "c"), ("reasoning", "e")]
    assert parts_of(second.message) == [("text", "b"), ("reasoning", "d")]


def test_parts_that_transforms_make() -> None:
    pieces = [text("a<think>b</think>c"), text("<think>d</think>")]
    assert parts_of(read(*pieces, STOP, DONE, transforms=[ThinkTags()])) == [
        ("text", "a"),
        ("reasoning", "b"),
        ("text", "c"),
        ("reasoning", "d"),
    ]


class Arguments(BaseModel):
    x: int


def test_parts_are_the_messages_own_values() -> None:
    pieces = [delta(images=[IMAGE]), delta(audio={"data": "QUI="}), calls((0, "a", "f", '{"x":1}')), STOP, DONE]
    message = read(*pieces, tools={"f": Arguments})
    assert message == ChatCompletionMessage.model_validate(message.model_dump())
    image, audio, call = message.parts
    assert isinstance(image, ImagePart)
    assert isinstance(audio, AudioPart)
    assert isinstance(call, ToolCallPart)
    assert message.images is not None
    assert image.image is message.images[0]
    assert audio.audio is message.audio
    assert call.tool_call is message.tool_calls[0]
    assert call.tool_call.function.parse() == Arguments(x=1)


def test_parts_are_values() -> None:
    (part,) = read(text("a"), STOP, DONE).parts
    assert part == TextPart("a")
    assert part != ReasoningPart("a")
    assert hash(part) == hash(TextPart("a"))
    assert repr(part) == "TextPart(text='a', type='text')"


# While it runs, and however it ends

ALL_PARTS = [delta(images=[IMAGE]), text("a"), think("hm"), delta(refusal="no"), calls(A), delta(audio={"data": "QUI="})]  # fmt: skip
OF_ALL_PARTS = [("image", IMAGE), ("text", "a"), ("reasoning", "hm"), ("refusal", "no"), A_PART, ("audio", ("QUI=", None))]  # fmt: skip


def test_parts_of_snapshots() -> None:
    parser = ChatCompletionParser()
    assert parser.snapshot.message.parts == []
    snapshots = []
    for number, piece in enumerate(ALL_PARTS, 1):
        parser.feed(piece)
        snapshots.append(parser.snapshot.message)
        assert parts_of(snapshots[-1]) == OF_ALL_PARTS[:number]
    parser.feed(text("b"))
    assert parts_of(parser.snapshot.message) == [*OF_ALL_PARTS, ("text", "b")]
    # A snapshot stays what it was.
    assert [parts_of(message) for message in snapshots] == [OF_ALL_PARTS[:end] for end in range(1, 7)]
    assert [part.type for part in snapshots[-1].parts] == [kind for kind, _ in OF_ALL_PARTS]
    for message in snapshots:  # but for texts that are taken out
        message.content, message.reasoning = None, ""
        assert not {"text", "reasoning"} & {kind for kind, _ in parts_of(message)}


# Whole messages

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGE = {"role": "assistant", "tool_calls": [CALL], "refusal": "no", "content": "a", "reasoning": "hm"}
USUAL = [("reasoning", "hm"), ("text", "a"), ("refusal", "no"), A_PART]


def whole(message: dict[str, Any]) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def whole_body(**message: Any) -> bytes:
    return json.dumps(whole(message)).encode()


OF_A_LIST = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}, {"type": "text", "text": "c"}]
WHOLE: dict[str, tuple[list[bytes], list[tuple[str, Any]]]] = {
    "a body that is a whole completion: the usual order": ([whole_body(**MESSAGE)], USUAL),
    "instead of deltas: the usual order": ([event(whole(MESSAGE)), DONE], USUAL),
    "what it adds comes behind the deltas":
        ([text("a"), event(whole(MESSAGE)), DONE], [USUAL[1], USUAL[0], *USUAL[2:]]),
    "a content list: in its order":
        ([whole_body(content=OF_A_LIST)], [("text", "a"), ("reasoning", "b"), ("text", "c")]),
    "images and audio: the usual order":
        ([whole_body(**MESSAGE, audio={"data": "QUI="}, images=[IMAGE])],
         [*USUAL, ("image", IMAGE), ("audio", ("QUI=", None))]),
}  # fmt: skip


@each_case(("pieces", "expected"), WHOLE.values(), ids=WHOLE)
def test_the_parts_of_a_whole_message(pieces: list[bytes], expected: list[tuple[str, Any]]) -> None:
    message = read(*pieces)
    assert parts_of(message) == expected
    assert message == ChatCompletionMessage.model_validate(message.model_dump())


# Messages that were read from a dump


def again(completion: ChatCompletion) -> Iterable[ChatCompletion]:
    """The completion, stored and read again."""
    yield ChatCompletion.model_validate(completion.model_dump())
    yield ChatCompletion.model_validate_json(completion.model_dump_json())


def test_a_message_that_was_read_from_a_dump_has_the_usual_order() -> None:
    completion = Stream([*ALL_PARTS, text("b"), STOP, DONE]).read()[0].completion()
    for other in again(completion):
        assert other == completion
        assert parts_of(other.message) == [
            ("reasoning", "hm"),
            ("text", "ab"),
            ("refusal", "no"),
            A_PART,
            ("image", IMAGE),
            ("audio", ("QUI=", None)),
        ]


def test_the_order_does_not_make_another_message() -> None:
    """So every message equals its own dump, read again."""
    one, other = read(text("a"), think("b"), STOP, DONE), read(think("b"), text("a"), STOP, DONE)
    assert one.parts != other.parts
    assert one == other == ChatCompletionMessage.model_validate(one.model_dump())


def test_the_order_is_no_part_of_a_dump() -> None:
    message = read(*ALL_PARTS)
    assert message.model_dump().keys() == ChatCompletionMessage().model_dump().keys()
    assert "order" not in repr(message)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"content": "", "reasoning": "", "refusal": None, "images": []}, [], id="nothing in any field"),
        pytest.param({"content": "a", "reasoning": "b"}, [("reasoning", "b"), ("text", "a")], id="texts"),
        pytest.param({"audio": {"id": "x"}}, [("audio", (None, None))], id="audio"),
        pytest.param({"tool_calls": [CALL, CALL]}, [A_PART, A_PART], id="calls"),
    ],
)
def test_a_message_made_by_hand(fields: dict[str, Any], expected: list[tuple[str, Any]]) -> None:
    assert parts_of(ChatCompletionMessage.model_validate(fields)) == expected


def test_values_of_a_wrong_type_are_no_parts() -> None:
    """They are kept raw beside the fields."""
    message = read(delta(content="a", reasoning=5, refusal=[1], images="x", audio=7), STOP, DONE)
    assert parts_of(message) == [("text", "a")]
    lenient, _ = validate_leniently(
        ChatCompletionMessage, {"content": 5, "reasoning": [], "tool_calls": 1, "images": {}, "audio": "x"}
    )
    assert lenient.parts == []


# Copies

COPIES = {
    "copy": copy,
    "deepcopy": deepcopy,
    "model_copy": lambda message: message.model_copy(),
    "deep model_copy": lambda message: message.model_copy(deep=True),
}


@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES)
def test_copies_keep_their_parts(how: Any) -> None:
    completion = Stream([*ALL_PARTS, STOP, DONE]).read()[0].completion()
    copied, message = how(completion), how(completion.message)
    assert (copied, message) == (completion, completion.message)
    assert parts_of(copied.message) == parts_of(message) == OF_ALL_PARTS


TURNS = [text("a"), think("hm"), delta(refusal="no"), calls(A), text("b")]
CHANGES: dict[str, tuple[list[bytes], dict[str, Any], list[tuple[str, Any]]]] = {
    "a text": (TURNS, {"content": "x"}, [("reasoning", "hm"), ("text", "x"), ("refusal", "no"), A_PART]),
    "no reasoning": (TURNS, {"reasoning": None}, [("text", "ab"), ("refusal", "no"), A_PART]),
    "an empty refusal": (TURNS, {"refusal": ""}, [("reasoning", "hm"), ("text", "ab"), A_PART]),
    "no calls": (TURNS, {"tool_calls": []}, [("reasoning", "hm"), ("text", "ab"), ("refusal", "no")]),
    "an image":
        (TURNS, {"images": [IMAGE]},
         [("reasoning", "hm"), ("text", "ab"), ("refusal", "no"), A_PART, ("image", IMAGE)]),
    "no images":
        (ALL_PARTS, {"images": None},
         [("reasoning", "hm"), ("text", "a"), ("refusal", "no"), A_PART, ("audio", ("QUI=", None))]),
    "no audio: the order stays": (ALL_PARTS, {"audio": None}, OF_ALL_PARTS[:-1]),
    "more of a message in the usual order":
        ([think("hm"), text("a")], {"refusal": "no", "images": [IMAGE]},
         [("reasoning", "hm"), ("text", "a"), ("refusal", "no"), ("image", IMAGE)]),
}  # fmt: skip


@each_case(("pieces", "changes", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_message_that_was_changed_has_the_usual_order(
    pieces: list[bytes], changes: dict[str, Any], expected: list[tuple[str, Any]]
) -> None:
    """Nothing is lost, and nothing stands in the middle of something else."""
    message = read(*pieces, STOP, DONE)
    assert parts_of(message.model_copy(update=changes)) == expected
    for field, value in changes.items():
        setattr(message, field, value)
    check_parts(message)
    assert parts_of(message) == expected


def test_a_list_that_was_replaced_by_something_else_has_no_parts() -> None:
    message = read(text("a"), delta(images=[IMAGE]), think("hm"), STOP, DONE)
    message.images = "x"  # type: ignore[assignment]
    assert parts_of(message) == [("text", "a"), ("reasoning", "hm")]


# That joined they are the flat fields is a promise (`invariants.values`)


TEXTS_BY_TURNS = st.lists(st.tuples(st.sampled_from(["content", "reasoning", "refusal"]), st.text("a😀\n", max_size=3)))


@often
@given(TEXTS_BY_TURNS, CUTS)
def test_texts_by_turns(texts: list[tuple[str, str]], cuts: list[int]) -> None:
    """Neighbours of one kind are merged, and nothing else changes."""
    expected: list[tuple[str, str]] = []
    for kind, piece in ((name.replace("content", "text"), piece) for name, piece in texts if piece):
        if expected and expected[-1][0] == kind:
            expected[-1] = (kind, expected[-1][1] + piece)
        else:
            expected.append((kind, piece))
    stream = Stream([*(delta(**{name: piece}) for name, piece in texts), STOP, DONE])
    assert parts_of(stream.cut(cuts).read()[0].snapshot.message) == expected


def test_what_stands_aside_counts_neither_for_equality_nor_for_hashes() -> None:
    assert Uncompared(1) == Uncompared(2)
    assert hash(Uncompared(1)) == hash(Uncompared(2))
    assert Uncompared(1) != 1
