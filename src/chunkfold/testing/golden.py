"""Assertions for any parser of streams: that a body gives the right result, and the same one however it is cut.

    assert_folds_to(body, {"text": "Hello", "tool_calls": []}, fold=my_fold)
    assert_same_however_cut(body, fold_reads=my_fold_of_reads)

A failure shows the events around the first difference. What the parser raised is its cause, with the traceback from the
parser's own code on; pytest shows no frame of this module.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from chunkfold.errors import ChunkfoldError
from chunkfold.json_text.values import is_object
from chunkfold.models.completion import ChatCompletion
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.testing.body_events import events_of, place_at, shown_events
from chunkfold.testing.builder import StreamBuilder
from chunkfold.testing.cuts import cut, ways_to_cut
from chunkfold.testing.differences import at_the_end, complaint_of, first_difference, shown, where_it_raises
from chunkfold.testing.readings import (
    Ending,
    Reading,
    as_reading,
    awaited,
    has_choices,
    has_right_ending,
    refusal,
    without_our_frames,
)
from chunkfold.testing.wire import Body, bytes_of

Fold: TypeAlias = Callable[[bytes], Any]
FoldReads: TypeAlias = Callable[[list[bytes]], Any]

_TRIES: Final = 300  # single cuts that are tried to find one that is enough


def assert_folds_to(body: Body, completion: object = None, *, fold: Fold | None = None) -> None:
    """Assert that a body gives the expected result.

    The texts of all choices are compared if both sides have `choices`, else that of the first. Tool calls, reasoning
    and the finish reason are compared for the first choice. The rules of `chunkfold.testing.hostile` decide whether a
    stream that failed or was cut had to be refused.

    Args:
        body: The bytes, whole or in pieces; or a `StreamBuilder`.
        completion: The expected result: an object or a dict with `text` and `tool_calls`, and, if they are to be
            compared, `reasoning`, `finish_reason`, `usage`; text alone; a `Reading`. With a `ChatCompletion`, or a dict
            that has `choices`, and no `fold`, all of its values are compared, except those that are None in a
            `ChatCompletion`. None for the builder's own reading.
        fold: The parser, plain or async (on asyncio): from the bytes of a body to an object or a dict with `text` and
            `tool_calls`, or to a completion in OpenAI's form. An exception, or an `error` on the returned value, counts
            as a refusal. By default this library.

    Raises:
        AssertionError: The result differs; the message names the difference and the place.
        TypeError: There is no expected result, or the parser returned a value of another form.
    """
    __tracebackhide__ = True
    data, read = bytes_of(body), fold or _fold
    (expected, wanted), (reading, came) = _expected(body, completion), _reading_of(read, data)
    cause = came if fold is not None and isinstance(came, Exception) else None
    complaint = _wrong_ending(expected, reading)
    if complaint is not None:
        where = at_the_end(data) if cause is None else where_it_raises(data, partial(_raises_same, read, cause))
        raise AssertionError(f"{complaint}\n{where}") from cause
    complaint = complaint_of(data, *_comparable(expected, wanted, reading, came))
    if complaint is not None:
        raise AssertionError(complaint) from cause
    if is_object(wanted) and has_choices(wanted) and isinstance(came, ChatCompletion):
        difference = first_difference(wanted, came.model_dump(mode="json"))
        if difference is not None:
            raise AssertionError(f"{difference}\n{at_the_end(data)}")


def assert_same_however_cut(body: Body, *, fold_reads: FoldReads | None = None, seed: int = 0) -> None:
    """Assert that the result of a body does not depend on where its reads are cut.

    It is cut byte by byte, at each line end, at random, and, up to 4,096 bytes, in two at each place. An empty body is
    not cut.

    Args:
        body: The bytes, whole or in pieces; or a `StreamBuilder`.
        fold_reads: The parser, plain or async (on asyncio): from the reads of a body to anything that can be compared.
            If it raises, the exception's type is its result. By default this library: chunks, ending, snapshot, error
            and anomalies.
        seed: For the random cuts.

    Raises:
        AssertionError: A cut makes a difference; the message names the cut and the place.
        TypeError: The parser's results cannot be compared: two results of the whole body differ.
        Exception: The parser's own exception for the whole body, if this library reads that body to its end, or if it
            is a TypeError or an AttributeError: the parser is broken, or does not take a list of reads.
    """
    __tracebackhide__ = True
    data = bytes_of(body)
    fold = fold_reads or _everything
    whole, again = _result_of_whole(fold, data), _result_of_whole(fold, data)
    if not _same(whole, again):
        what = f"received two of {type(whole).__name__} that differ for the same reads"
        raise TypeError(f"fold_reads: expected results that can be compared, {what}")
    for how, reads in ways_to_cut(data, seed):
        came = _result_of(fold, reads)
        if not _same(came, whole):
            place, note = _first_bad_cut(fold, data, reads, whole)
            events = events_of(data)
            raise AssertionError(
                f"cut {how}, the result differs\n"
                f"  whole: {_shown_result(whole)}\n"
                f"  cut:   {_shown_result(came)}\n"
                f"{shown_events(events, place_at(events, place), note)}"
            ) from (came if isinstance(came, Exception) else None)


def _expected(body: Body, completion: object) -> tuple[Reading, object]:
    """The expected reading, and the value that it was made from."""
    __tracebackhide__ = True
    if completion is None and isinstance(body, StreamBuilder):
        return body.reading, body.reading
    if completion is None:
        raise TypeError("completion: expected the result of the body, received None")
    if isinstance(completion, ChatCompletion):
        said = completion.model_dump(mode="json", exclude_none=True)
        return as_reading(said), said
    expected = as_reading(completion)
    if is_object(completion) and has_choices(completion):
        messages: list[Any] = [choice.get("message") or {} for choice in completion["choices"]]
        if not all("content" in message for message in messages):
            expected = replace(expected, texts=None)
        if not any("tool_calls" in message for message in messages[:1]):
            expected = replace(expected, calls=None)
    return expected, completion


def _reading_of(fold: Fold, body: bytes) -> tuple[Reading, Any]:
    __tracebackhide__ = True
    came = _result_of(fold, body)
    return refusal(came) if isinstance(came, Exception) else as_reading(came), came


def _raises_same(fold: Fold, error: Exception, body: bytes) -> bool:
    """Whether it raises the same for another body."""
    other = _result_of(fold, body)
    return isinstance(other, Exception) and _same(error, other) and str(other) == str(error)


def _fold(body: bytes) -> ChatCompletion:
    parser = ChatCompletionParser()
    parser.fold(body)
    parser.close()
    return parser.completion()


def _ending_of(expected: Reading) -> Ending:
    return expected.ending or ("complete" if expected.refused is None else "error")


def _wrong_ending(expected: Reading, came: Reading) -> str | None:
    """The message if there is an answer where a refusal is expected, or a refusal where an answer is expected."""
    ending = _ending_of(expected)
    if has_right_ending(ending, came):
        return None
    wanted = "an answer" if ending == "complete" else f"a refusal ({expected.refused or ending})"
    if came.ending not in (None, ending):
        return f"expected {wanted}, it was taken as {came.ending}"
    if came.refused is None:
        found = f"an answer came: {shown(came.text)}"
    else:
        found = f"it {'crashed' if came.has_crashed else 'was refused'}: {came.refused}"
    return f"expected {wanted}, {found}"


def _comparable(expected: Reading, wanted: object, reading: Reading, came: object) -> tuple[Reading, Reading]:
    """Both readings, as far as they can be compared."""
    is_whole = _ending_of(expected) == "complete"
    if not is_whole:
        expected = replace(expected, finish_reason=None)  # judged by now
    has_all = isinstance(wanted, Reading) or _has_all_choices(wanted, expected)
    if is_whole and has_all and _has_all_choices(came, reading):
        return expected, reading
    return _of_first_choice(expected), _of_first_choice(reading)


def _has_all_choices(value: object, reading: Reading) -> bool:
    """Whether the reading has all choices: that of a function with text alone may be one of many."""
    return has_choices(value) or len(reading.texts or ()) > 1


def _of_first_choice(reading: Reading) -> Reading:
    return reading if reading.texts is None else replace(reading, texts=(reading.text,))


# Cuts


def _everything(reads: Sequence[bytes]) -> Any:
    """All of this library's results for a body."""
    parser = ChatCompletionParser()
    chunks = [chunk for read in reads for chunk in parser.feed(read)]
    chunks += parser.close()
    anomalies = [(anomaly.rule.id, anomaly.count) for anomaly in parser.anomalies]
    said = parser.snapshot.text, str(parser.end), repr(parser.error), anomalies
    return *said, repr([chunk.model_dump() for chunk in chunks]), repr(parser.snapshot.model_dump())


def _result_of_whole(fold: FoldReads, body: bytes) -> Any:
    """The result of the body in one read; raises what the fold raises, unless the body may be refused."""
    __tracebackhide__ = True
    came = _result_of(fold, [body])
    if isinstance(came, Exception):
        may_be_refused = isinstance(_result_of(_fold, body), ChunkfoldError)
        if not may_be_refused or isinstance(came, TypeError | AttributeError):
            raise came
    return came


def _result_of(fold: Callable[[Any], Any], body: bytes | Sequence[bytes]) -> Any:
    """The result of a body or of its reads; an exception is a result too, equal to all exceptions of its type."""
    try:
        return awaited(fold(body))
    except Exception as error:  # noqa: BLE001 - any exception is a result
        return without_our_frames(error)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Exception) or isinstance(other, Exception):
        return type(one) is type(other)
    if isinstance(one, BaseModel) and isinstance(other, BaseModel):
        one, other = repr(one.model_dump()), repr(other.model_dump())  # NaN != NaN
    return bool(one == other)


def _shown_result(result: Any) -> str:
    return str(refusal(result).refused) if isinstance(result, Exception) else shown(result)


def _first_bad_cut(fold: FoldReads, body: bytes, reads: Sequence[bytes], whole: Any) -> tuple[int, str]:
    """The first cut that makes a difference, alone or together with those before it, and a description of it."""
    places = list(accumulate(map(len, reads)))[:-1] or [0]

    def differs(*some: int) -> bool:
        return not _same(_result_of(fold, cut(body, *some)), whole)

    place = next(filter(differs, places[:_TRIES]), None)
    if place is None:
        place = places[bisect_left(range(len(places) - 1), True, key=lambda at: differs(*places[: at + 1]))]  # noqa: FBT003 - what is searched for
    is_enough = differs(place)
    return place, f"a cut at byte {place} is enough" if is_enough else f"the cuts up to byte {place} are enough"
