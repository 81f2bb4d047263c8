"""A parser that has read a body to its end: what most tests of bodies begin with."""

from typing import Any

from chunkfold import ChatCompletionParser
from chunkfold.testing import cut_every


def parsed(body: bytes, size: int | None = None, **options: Any) -> ChatCompletionParser:
    """A parser that was fed the body, at once or in reads of this size, and closed."""
    parser = ChatCompletionParser(**options)
    for piece in cut_every(body, size or len(body) or 1):
        parser.feed(piece)
    parser.close()
    return parser
