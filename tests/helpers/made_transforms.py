"""Transforms of a user's own, made of functions."""

from collections.abc import Callable
from typing import Any

from chunkfold import ChatCompletionChunk


class Made:
    """One that hands on each chunk, and nothing at the end, unless it is told otherwise."""

    def __init__(
        self, feed: Callable[[ChatCompletionChunk], Any] = lambda chunk: [chunk], close: Callable[[], Any] = list
    ) -> None:
        self.feed = feed
        self.close = close
