"""Chunks for transforms, and what comes of them."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from chunkfold import ChatCompletionChunk, ChatCompletionParser, Transform, testing
from chunkfold.testing import HEAD, sse


def choice(content: Any = None, finish_reason: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    """A choice whose delta has this content, and what is passed by name."""
    return testing.choice(finish_reason, index, **fields, **({} if content is None else {"content": content}))


def chunk(*choices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The payload of a chunk."""
    return {**HEAD, "choices": list(choices), **fields}


def read(
    chunks: Sequence[dict[str, Any]], *transforms: Transform, **options: Any
) -> tuple[ChatCompletionParser, list[ChatCompletionChunk]]:
    """A parser at its end, and the chunks that it gave."""
    parser = ChatCompletionParser(transforms=transforms, **options)
    return parser, [chunk for data in sse(*chunks) for chunk in parser.feed(data)]


def contents(texts: Sequence[str], index: int = 0, finish_reason: str | None = "stop") -> list[dict[str, Any]]:
    """A chunk for each text; the finish reason comes with the last."""
    last = len(texts) - 1
    return [chunk(choice(text, finish_reason if at == last else None, index)) for at, text in enumerate(texts)]


def adds_up(parser: ChatCompletionParser, chunks: list[ChatCompletionChunk]) -> None:
    """What was handed out bit by bit is what there is at the end."""
    assert "".join(chunk.text for chunk in chunks) == parser.snapshot.text
    assert "".join(chunk.reasoning for chunk in chunks) == parser.snapshot.reasoning


def call(id_: str | None, name: str | None, arguments: str, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {**fields, "function": function} if id_ is None else {**fields, "id": id_, "function": function}


def split_whole(text: str, *, inside: bool = False) -> tuple[str, str]:
    """The text and the reasoning, read from the whole at once."""
    parts = {True: "", False: ""}
    for piece in re.split("(</?think>)", text):
        if piece in ("<think>", "</think>"):
            inside = piece == "<think>"
        else:
            parts[inside] += piece
    return parts[False], parts[True]


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


# Tags, what looks like the beginning of one, and plain text.
TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "</", "<thi", "nk>", "think>", "/", ">", "a", "é\n", "號 ", "😀"]),
    max_size=12,
).map("".join)
CUTS = st.lists(st.integers(0, 100), max_size=30)


def grown(texts: list[str]) -> list[str]:
    """Each text with all that came before it."""
    return ["".join(texts[: at + 1]) for at in range(len(texts))]
