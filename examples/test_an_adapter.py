"""A test suite for an SDK adapter, with a small adapter to test: pytest examples/test_an_adapter.py."""

from typing import Any

import httpx
import pytest

import chunkfold
from chunkfold.testing import (
    ERROR_SHAPES,
    Answer,
    ManualClock,
    StreamBuilder,
    assert_folds_to,
    assert_same_however_cut,
    hold,
    hostile_streams,
    mock_transport,
)


class AcmeError(Exception):
    """The only exception that the adapter raises."""


def ask(client: httpx.Client, question: str) -> chunkfold.ChatCompletion:
    """The adapter. What yours returns must have `text` and `tool_calls`."""
    request = {"model": "acme-1", "messages": [{"role": "user", "content": question}]}
    try:
        with chunkfold.connect(client, "POST", "chat/completions", json=request) as stream:
            return stream.read()
    except (chunkfold.ChunkfoldError, httpx.TransportError) as error:
        raise AcmeError(str(error)) from error


def fold(answer: Any) -> chunkfold.ChatCompletion:
    """The adapter's result for an answer. Pauses take no time."""
    with httpx.Client(base_url="http://acme.test/v1", transport=mock_transport(answer, clock=ManualClock())) as client:
        return ask(client, "Weather?")


WEATHER = StreamBuilder().text("I'll ", "look.").tool_call("weather", '{"city":', '"Rome"}').finish().done()
PARTS = {
    "the body ends": Answer(WEATHER.body[:400]),
    "the connection ends": WEATHER.answer(cut_at=400, ending="cut"),
    "nothing more comes": WEATHER.answer(cut_at=400, ending="open"),
    "it was refused": Answer(b'{"error": {"message": "Slow down."}}', status=429),
}


def test_every_provider(chunkfold_dialect: str) -> None:
    assert_folds_to(WEATHER.in_dialect(chunkfold_dialect), fold=fold)


def test_however_the_reads_are_cut() -> None:
    assert_same_however_cut(WEATHER, fold_reads=lambda reads: fold(Answer(reads)))


@pytest.mark.parametrize("shape", ERROR_SHAPES)
def test_an_error_in_any_shape(shape: Any) -> None:
    with pytest.raises(AcmeError, match="Overloaded"):
        fold(StreamBuilder().text("I'll ").error("Overloaded", shape=shape))


@pytest.mark.parametrize("answer", PARTS.values(), ids=PARTS.keys())
def test_a_part_does_not_pass_for_the_whole(answer: Answer) -> None:
    with pytest.raises(AcmeError):
        fold(answer)


def test_hostile_streams() -> None:
    wrong = [verdict for verdict in hold(fold, hostile_streams()) if not verdict.right]
    assert [verdict for verdict in wrong if len(verdict.stream.texts) == 1] == []  # it asks for one choice


def test_what_it_sends(chunkfold_provider: Any) -> None:
    with httpx.Client(base_url=chunkfold_provider.base_url) as client:
        ask(client, "Weather?")
    chunkfold_provider.assert_requested(path="/chat/completions", json={"model": "acme-1", "stream": True})
