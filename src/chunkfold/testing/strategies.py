"""Hypothesis strategies: dialects, stream builders, bodies that providers might send, cuts.

    @given(builders())
    def test_my_fold(stream):
        assert_folds_to(stream, fold=my_fold)

This is the only part of the kit that needs hypothesis.
"""

import json
from itertools import pairwise
from typing import Any

try:
    from hypothesis import strategies as st
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "chunkfold.testing.strategies needs hypothesis: pip install hypothesis", name="hypothesis"
    ) from None

from chunkfold.testing.builder import StreamBuilder
from chunkfold.testing.cuts import cut
from chunkfold.testing.dialects import DIALECTS, Dialect
from chunkfold.testing.error_shapes import ERROR_SHAPES
from chunkfold.testing.wire import choice, chunk, event, fragment

_ALPHABET = st.characters(exclude_categories=["Cs"])  # no halves of surrogate pairs: UTF-8 has none
_TEXTS = st.text(_ALPHABET, max_size=8)
_PIECES = st.lists(st.text(_ALPHABET, min_size=1, max_size=8), min_size=1, max_size=4)
_NAMES = st.text("abcdefgh_", min_size=1, max_size=12)
_VALUES = st.none() | st.booleans() | st.integers(-1000, 1000) | _TEXTS
_OBJECTS = st.dictionaries(_NAMES, _VALUES, max_size=3)
_COUNTS = st.integers(1, 9)
_OTHERS = [event("[DONE]"), event({"error": {"message": "overloaded"}}), event("oops"), b": ping\n\n", b"id: 1\n\n"]


def dialects() -> st.SearchStrategy[str]:
    """The names of the dialects."""
    return st.sampled_from(list(DIALECTS))


@st.composite
def builders(draw: st.DrawFn, dialect: str | Dialect | None = None, *, whole: bool = True) -> StreamBuilder:
    """Stream builders: text, reasoning and tool calls in pieces, usage, a finish reason, `[DONE]`.

    Args:
        draw: Passed by hypothesis.
        dialect: Their dialect; by default any.
        whole: Whether all of them end well; if not, some are cut, some fail, and some have only `[DONE]`.
    """
    built = StreamBuilder(draw(dialects()) if dialect is None else dialect)
    for kind in draw(st.lists(st.sampled_from(["text", "reasoning", "tool_call"]), min_size=1, max_size=4)):
        if kind == "tool_call":
            built = built.tool_call(draw(_NAMES), *_in_pieces(draw, json.dumps(draw(_OBJECTS), ensure_ascii=False)))
        else:
            built = getattr(built, kind)(*draw(_PIECES))
    if draw(st.booleans()):
        built = built.usage(draw(_COUNTS), draw(_COUNTS))
    match "well" if whole else draw(st.sampled_from(["well", "well", "done", "cut", "error"])):
        case "well":
            return built.finish().done()
        case "done":
            return built.done()
        case "error":
            return built.error("overloaded", code=503, shape=draw(st.sampled_from(list(ERROR_SHAPES))))
        case _:
            return built


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """Events that might appear anywhere in a body: chunks of all shapes, comments, errors, `[DONE]`."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(_OTHERS))
    choices = draw(st.lists(_choices(), max_size=2))
    return chunk(*choices, **draw(_sparse(usage=st.none() | _sparse(prompt_tokens=_COUNTS), x=_VALUES)))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Bodies that providers might send: of all dialects, cut or failed, and of chunks that no dialect explains."""
    if draw(st.booleans()):
        return draw(builders(whole=False)).body
    return b"".join(draw(st.lists(events(), max_size=8)))


def cuts(body: bytes, *, max_reads: int = 8) -> st.SearchStrategy[list[bytes]]:
    """A body in reads, some of which may be empty.

    Args:
        body: Any bytes.
        max_reads: How many there are at most.
    """
    places = st.lists(st.integers(0, len(body)), max_size=max_reads - 1)
    return places.map(lambda at: cut(body, *at))


def cut_bodies(of: st.SearchStrategy[bytes] | None = None) -> st.SearchStrategy[list[bytes]]:
    """Bodies in reads; `of` generates the bodies, by default any."""
    return (bodies() if of is None else of).flatmap(cuts)


def _sparse(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def _choices(draw: st.DrawFn) -> dict[str, Any]:
    reason = draw(st.sampled_from([None, None, None, "", "stop", "length", "tool_calls", "content_filter", "eos"]))
    roles = st.sampled_from(["assistant", ""])
    calls = st.lists(_fragments(), max_size=3)
    delta = draw(_sparse(role=roles, content=st.none() | _TEXTS, reasoning_content=_TEXTS, tool_calls=calls))
    return choice(reason, draw(st.integers(0, 2)), **delta)


@st.composite
def _fragments(draw: st.DrawFn) -> dict[str, Any]:
    index = draw(st.none() | st.integers(0, 2))
    name, arguments = [None, None, "", "f", "g"], [None, "", "{}", '{"x":', "1}", {"x": 1}]
    sent = draw(st.sampled_from([None, None, "", "a", "b"]))
    return fragment(index, sent, draw(st.sampled_from(name)), draw(st.sampled_from(arguments)))


def _in_pieces(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(1, len(text) - 1), max_size=3, unique=True)))
    return [text[start:end] for start, end in pairwise([0, *places, len(text)])]
