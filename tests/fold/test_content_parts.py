"""The fold of content that is a list of parts."""

from typing import Any

from cases import each_case
from folded_payloads import THINKING, chunk, fold, noted, read_all, said
from transformed import read

from chunkfold import ChatCompletion, ContentPart, ImageReceived

PARTS = {
    "text": ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", ""),
    "thinking": ([THINKING], "", "T"),
    "thinking as a string": ([{"type": "thinking", "thinking": "T"}], "", "T"),
    "mixed": ([THINKING, {"type": "text", "text": "a"}, THINKING], "a", "TT"),
    "others": ([{"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "a"}], "a", ""),
    "an empty type": ([{"type": "", "text": "a"}, {"type": "", "text": "b", "x": 1}], "ab", ""),
    "strings among them": (["a", {"type": "text", "text": "b"}, "c"], "abc", ""),
    "without text": ([{"type": "text", "text": None}, {"type": "text"}], "", ""),
    "nested": ([{"type": "thinking", "thinking": ["T", {"type": "text", "text": "U"}]}], "", "TU"),
    "references in thinking":
        ([{"type": "thinking", "thinking": [THINKING["thinking"][0], {"type": "reference"}, 5]}], "", "T"),
    "none": ([], "", ""),
}  # fmt: skip


@each_case(("parts", "text", "reasoning"), PARTS.values(), ids=PARTS)
def test_content_parts_are_split(parts: list[Any], text: str, reasoning: str) -> None:
    parser, chunks = read(said({"content": parts}, {"content": "!"}))
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
    parser, chunks = read_all(*said({"content": OTHERS[0]}, {"content": OTHERS[1]}, {"content": "!"}))
    message = parser.completion().message
    assert message.content == "".join(each.text for each in chunks) == "See this.!"
    assert message.model_dump()["content_parts"] == [*OTHERS[0], *OTHERS[1], {"type": "text", "text": "!"}]
    shown = [part.part if isinstance(part, ContentPart) else getattr(part, "text", None) for part in message.parts]
    assert shown == ["See ", *OTHERS[0][1:], "this.", *OTHERS[1][1:], "!"]
    (again,) = ChatCompletion.model_validate_json(parser.completion().model_dump_json()).choices
    assert [type(part).__name__ for part in again.message.parts] == ["TextPart", *["ContentPart"] * 4]


def test_images_in_content_lists_are_never_merged() -> None:
    images = [{"type": "image_url", "image_url": n, "signature": "s", "text": "t"} for n in range(2)]
    parser = fold(*said({"content": images}))
    assert parser.completion().message.content_parts == images
    assert [one.image for one in parser.events() if isinstance(one, ImageReceived)] == images


def test_images_in_content_blocks_are_images() -> None:
    """Portkey sends Gemini's images so, all with the index of the text."""
    texts = [{"content": text, "content_blocks": [{"index": 0, "delta": {"text": text}}]} for text in ("a", "b")]
    images = [{"type": "image_url", "image_url": {"url": f"data:,{n}"}} for n in range(2)]
    first, last = ({"content_blocks": [{"index": 0, "delta": image}]} for image in images)
    last["content_blocks"].append(texts[1].pop("content_blocks")[0])
    parser = fold(*said(texts[0], first, last, texts[1]))
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


@each_case(("part", "kept"), WRONG_PARTS.values(), ids=WRONG_PARTS)
def test_a_part_of_a_wrong_type_is_noted_and_an_object_kept(part: Any, kept: list[Any] | None) -> None:
    parser = fold(*said({"content": [part, {"type": "text", "text": "Hi"}]}))
    message = parser.completion().message
    assert message.content == "Hi"
    assert message.content_parts == (kept and [*kept, {"type": "text", "text": "Hi"}])
    assert noted(parser) == {"CF208", "CF209"}


def test_a_text_of_another_part_may_be_of_any_type() -> None:
    assert noted(fold(*said({"content": [{"type": "reference", "text": 5}]}))) == {"CF208"}


@each_case("part", [{"type": "text"}, {"type": "text", "text": None}, {"type": "output_text", "text": ""}])
def test_a_text_part_without_text_is_nothing(part: dict[str, Any]) -> None:
    parser = fold(*said({"content": [part, "Hi"]}))
    assert (parser.completion().text, parser.completion().message.content_parts) == ("Hi", None)
    assert noted(parser) == {"CF208"}


def test_a_text_part_with_more_values_is_kept_as_sent() -> None:
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
