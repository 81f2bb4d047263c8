"""Errors as streams and calls come to them."""

from collections.abc import Callable
from typing import Any

import pytest

from chunkfold import ChatCompletionParser, ChunkfoldError
from chunkfold.testing import ManualClock


def raised(call: Callable[[], Any]) -> ChunkfoldError:
    with pytest.raises(ChunkfoldError) as caught:
        call()
    return caught.value


def failed(*reads: bytes, exc: BaseException | None = None, left: bool = False, **options: Any) -> ChunkfoldError:
    """That of a stream that ends after these reads: by itself, by what the transport raised, or because it is left."""
    parser = ChatCompletionParser(**options)
    for data in reads:
        parser.feed(data)
    if left:
        parser.leave()
    elif exc is not None:
        parser.interrupt(exc)
    else:
        parser.close()
    return raised(parser.completion)


def stalled(*reads: bytes, **options: Any) -> ChunkfoldError:
    """That of a stream of which nothing but a keep-alive came for longer than it may take."""
    clock = ManualClock()
    parser = ChatCompletionParser(progress_timeout=60, clock=clock, **options)
    for data in reads:
        parser.feed(data)
    clock.advance(61)
    parser.feed(b": ping\n\n")
    return raised(parser.completion)
