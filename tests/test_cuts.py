"""Recorded bodies cut short anywhere: what came before the cut is delivered, and no cut is called complete."""

import json
from itertools import pairwise

import pytest
from shared_data import shared_data

from chunkfold import ChatCompletionParser, StreamEnd

pytestmark = pytest.mark.slow

CUTS = 60  # in each body


def read(body: bytes) -> tuple[ChatCompletionParser, list[str]]:
    parser = ChatCompletionParser()
    chunks = parser.feed(body) + parser.close()
    return parser, [chunk.model_dump_json() for chunk in chunks]


def test_recordings_cut_short() -> None:
    folder = shared_data("recordings")
    for entry in json.loads((folder / "MANIFEST.json").read_bytes()):
        body = (folder / entry["file"]).read_bytes()
        whole, chunks = read(body)
        places = range(0, len(body), max(1, len(body) // CUTS))
        seen = [read(body[:place]) for place in places]
        for parser, some in seen:
            assert parser.end is not None
            # A block that lost its blank lines is only judged as a whole: nothing of it shows before.
            assert some == chunks[: len(some)], entry["file"]
            finished = all(choice.finish_reason for choice in parser.snapshot.choices)
            done = parser.end in (StreamEnd.DONE, StreamEnd.FAILED, StreamEnd.INVALID)
            assert parser.end.complete <= (finished or done), entry["file"]
            assert whole.snapshot.text.startswith(parser.snapshot.text), entry["file"]
        assert all(len(one) <= len(other) for (_, one), (_, other) in pairwise(seen))
