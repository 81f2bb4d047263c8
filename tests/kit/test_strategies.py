"""Hypothesis strategies: what they make is of the kinds that they promise, can be repeated, and shrinks to little."""

import re
from collections.abc import Callable
from contextlib import suppress
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from own_process import printed_by
from parsed_bodies import parsed

from chunkfold import ChatCompletionStream, StreamEnd
from chunkfold.testing import DIALECTS, Dialect, StreamBuilder, assert_folds_to, strategies
from chunkfold.testing.strategies import bodies, builders, cut_bodies, cuts, events

repeated = settings(max_examples=2000, database=None, derandomize=True)
unshrunk = settings(repeated, phases=[Phase.generate])


@given(builders())
def test_streams_end_well(stream: StreamBuilder) -> None:
    assert parsed(stream.body).end in ("finished", "done")
    assert stream.reading.ending == "complete"
    assert_folds_to(stream)


@given(builders(whole=False))
def test_streams_that_may_fail_come_to_what_they_say(stream: StreamBuilder) -> None:
    parser = parsed(stream.body)
    assert parser.end is not None
    wanted: dict[Any, set[str]] = {"complete": {"finished", "done"}, "error": {"failed"}, "cut": {"truncated", "empty"}}
    assert str(parser.end) in wanted[stream.reading.ending]
    assert_folds_to(stream)


@settings(max_examples=10)
@given(builders("stepfun"), builders(Dialect(about="mine", role="each")))
def test_streams_of_one_dialect(named: StreamBuilder, own: StreamBuilder) -> None:
    assert named.dialect == "stepfun"
    assert isinstance(own.dialect, Dialect)


@pytest.mark.slow
@given(st.lists(events(), max_size=4))
def test_events_stand_by_themselves(several: list[bytes]) -> None:
    assert all(one.endswith(b"\n\n") for one in several)
    parsed(b"".join(several))


@given(st.data(), st.binary(max_size=50), st.integers(1, 10))
def test_cuts_keep_the_bytes(data: st.DataObject, body: bytes, reads: int) -> None:
    pieces = data.draw(cuts(body, max_reads=reads))
    assert b"".join(pieces) == body
    assert 1 <= len(pieces) <= reads


@given(cut_bodies(), cut_bodies(st.just(b"abc")))
def test_bodies_in_reads_may_be_ones_own(reads: list[bytes], own: list[bytes]) -> None:
    assert parsed(b"".join(reads)).end is not None
    assert b"".join(own) == b"abc"


@pytest.mark.slow
@pytest.mark.parametrize("end", [end for end in StreamEnd if end not in ("interrupted", "stalled", "closed")])
def test_bodies_of_every_ending_are_found(end: StreamEnd) -> None:
    find(bodies(), lambda body: parsed(body).end == end, settings=unshrunk)


KINDS: dict[str, Callable[[StreamBuilder], Any]] = {
    "several calls": lambda stream: len(stream.reading.calls) > 1,
    "reasoning": lambda stream: stream.reading.reasoning,
    "text and calls": lambda stream: stream.reading.text and stream.reading.calls,
    "usage": lambda stream: stream.reading.usage,
    "other alphabets": lambda stream: not stream.reading.text.isascii(),
    "line ends": lambda stream: len(stream.body.decode().splitlines()) > stream.body.count(b"\n"),
    **{dialect: lambda stream, dialect=dialect: stream.dialect == dialect for dialect in DIALECTS},
}


def test_streams_of_every_kind_are_found() -> None:
    missing = {*KINDS}

    def is_last(stream: StreamBuilder) -> bool:
        missing.difference_update([kind for kind in missing if KINDS[kind](stream)])
        return not missing

    with suppress(NoSuchExample):
        find(builders(), is_last, settings=unshrunk)
    assert missing == set()


@pytest.mark.slow
def test_what_is_found_is_small() -> None:
    stream = find(builders(), lambda stream: "x" in stream.reading.text, settings=repeated)
    assert stream.reading.text == "x"
    assert len(stream.steps) == 3


def test_the_example_of_the_module_runs() -> None:
    assert strategies.__doc__ is not None
    names: dict[str, Any] = {**globals(), "my_fold": lambda body: ChatCompletionStream([body]).read()}
    example = dedent("\n".join(re.findall(r"^ {4}.*", strategies.__doc__, re.MULTILINE)))
    exec(example, names)  # noqa: S102 - the module's own
    names["test_my_fold"]()


def test_only_they_need_hypothesis() -> None:
    script = (
        "import sys\n"
        "sys.modules['hypothesis'] = None\n"
        "import chunkfold.testing\n"
        "try:\n    import chunkfold.testing.strategies\nexcept ImportError as error:\n    print(error.name)"
    )
    assert printed_by(script) == "hypothesis\n"
