"""Inputs as short as those of tests go through the paths that are made for long streams and large reads, too."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import chunkfold.fold.stream_fold
import chunkfold.parser.streamed_body
import chunkfold.parser.template


@contextmanager
def short_runs() -> Iterator[None]:
    """While it lasts, events that are alike are learned from at once, few are taken together, and texts are joined."""
    with (
        patch.object(chunkfold.parser.template, "_FIRST_WAIT", 0),
        patch.object(chunkfold.parser.template, "_FEWEST", 1),
        patch.object(chunkfold.parser.streamed_body, "_LONG", 300),
        patch.object(chunkfold.fold.stream_fold, "_COMPACTION", 1),
    ):
        yield
