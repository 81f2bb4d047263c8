"""Assertions for any parser of streams: that it makes the right thing of a body, and the same however it is cut.

    assert_folds_to(body, {"text": "Hello", "tool_calls": []}, fold=my_fold)
    assert_same_however_cut(body, fold_reads=my_fold_of_reads)

A failure shows the events around the first difference.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel

from chunkfold.errors import ChunkfoldError
from chunkfold.json_values import is_list, is_object
from chunkfold.models import ChatCompletion
from chunkfold.parser import ChatCompletionParser
from chunkfold.testing.builder import StreamBuilder
from chunkfold.testing.cuts import cut, ways_to_cut
from chunkfold.testing.frames import frame_at, frame_that_brought, frames_of, shown_frames
from chunkfold.testing.outcomes import (
    Ending,
    Outcome,
    as_outcome,
    awaited,
    has_choices,
    one_line,
    refusal,
    same_calls,
    takes_rightly,
)
from chunkfold.testing.wire import Body, bytes_of

Fold: TypeAlias = Callable[[bytes], Any]
FoldReads: TypeAlias = Callable[[Sequence[bytes]], Any]

_TRIES: Final = 300  # single cuts that are tried to find one that is enough


def assert_folds_to(body: Body, completion: object = None, *, fold: Fold | None = None) -> None:
    """Assert that a body becomes what it should.

    The texts of all choices are compared where both sides have `choices`, else that of choice 0. Tool calls, reasoning
    and the finish reason are judged for choice 0. Whether a stream that failed or was cut had to be refused is judged
    by the rules of `chunkfold.testing.hostile`.

    Args:
        body: The bytes, whole or in pieces; or a `StreamBuilder`.
        completion: What must come of it: an object or a dict with `text` and `tool_calls`, and, if they are to be
            judged, `reasoning`, `finish_reason`, `usage`; text alone; an `Outcome`. With a `ChatCompletion`, or a dict
            that has `choices`, and no `fold`, everything that it says is compared; what is None in a `ChatCompletion`
            is not said. None for the builder's own outcome.
        fold: The parser, plain or async (on asyncio): from the bytes of a body to an object or a dict with `text` and
            `tool_calls`, or to a completion in OpenAI's form. What it raises, and an `error` on what it returns, is a
            refusal. This library if there is none.

    Raises:
        AssertionError: Something else came; the message says what and where.
        TypeError: There is nothing to compare with, or the parser returned something else.
    """
    data = bytes_of(body)
    (expected, wanted), (outcome, came) = _expected(body, completion), _outcome_of(fold or _fold, data)
    complaint = _misjudgement(expected, outcome)
    if complaint is not None:
        raise AssertionError(f"{complaint}\n{_end_of(data)}")
    is_whole = _ending_of(expected) == "complete"
    if not is_whole:
        expected = replace(expected, finish_reason=None)  # judged by now
    has_all = isinstance(wanted, Outcome) or _tells_choices(wanted, expected)
    if not (is_whole and has_all and _tells_choices(came, outcome)):
        expected, outcome = _of_first_choice(expected), _of_first_choice(outcome)
    for part in _PARTS:
        if not part.agrees(getattr(expected, part.name), getattr(outcome, part.name)):
            raise AssertionError(_complaint(data, part, expected, outcome))
    if is_object(wanted) and has_choices(wanted) and isinstance(came, ChatCompletion):
        difference = _first_difference(wanted, came.model_dump(mode="json"), "")
        if difference is not None:
            raise AssertionError(f"{difference}\n{_end_of(data)}")


def assert_same_however_cut(body: Body, *, fold_reads: FoldReads | None = None, seed: int = 0) -> None:
    """Assert that what comes of a body does not depend on where its reads are cut.

    It is cut byte by byte, at each line end, at random, and, up to 4,096 bytes, in two at each place; an empty body in
    no way.

    Args:
        body: The bytes, whole or in pieces; or a `StreamBuilder`.
        fold_reads: The parser, plain or async (on asyncio): from the reads of a body to anything that can be compared.
            The type of what it raises counts as its result. This library if there is none: chunks, ending, snapshot,
            error and anomalies.
        seed: For the random cuts.

    Raises:
        AssertionError: A cut makes a difference; the message says which, and where.
        TypeError: The parser's results cannot be compared: two of the whole body differ.
        Exception: What the parser raised for the whole body, if this library reads that to its end, or if it is a
            TypeError or an AttributeError: the parser is broken, or takes something else than reads.
    """
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
            frames = frames_of(data)
            raise AssertionError(
                f"cut {how}, it comes to something else\n"
                f"  whole: {_shown(whole)}\n"
                f"  cut:   {_shown(came)}\n"
                f"{shown_frames(frames, frame_at(frames, place), note)}"
            )


def _expected(body: Body, completion: object) -> tuple[Outcome, object]:
    """The outcome that must come, and what said it."""
    if completion is None and isinstance(body, StreamBuilder):
        return body.outcome, body.outcome
    if completion is None:
        raise TypeError("completion: expected what must come of the body, received None")
    if isinstance(completion, ChatCompletion):
        said = completion.model_dump(mode="json", exclude_none=True)
        return as_outcome(said), said
    expected = as_outcome(completion)
    if is_object(completion) and has_choices(completion):
        messages: list[Any] = [choice.get("message") or {} for choice in completion["choices"]]
        if not all("content" in message for message in messages):
            expected = replace(expected, texts=None)
        if not any("tool_calls" in message for message in messages[:1]):
            expected = replace(expected, calls=None)
    return expected, completion


def _outcome_of(fold: Fold, body: bytes) -> tuple[Outcome, Any]:
    try:
        came = awaited(fold(body))
    except Exception as error:  # noqa: BLE001 - whatever it raises is its refusal
        return refusal(error), error
    return as_outcome(came), came


def _fold(body: bytes) -> ChatCompletion:
    parser = ChatCompletionParser()
    parser.fold(body)
    parser.close()
    return parser.completion()


def _ending_of(expected: Outcome) -> Ending:
    return expected.ending or ("complete" if expected.refused is None else "error")


def _misjudgement(expected: Outcome, came: Outcome) -> str | None:
    """What is wrong if an answer came where none should, or none where one should."""
    ending = _ending_of(expected)
    if takes_rightly(ending, came):
        return None
    wanted = "an answer" if ending == "complete" else f"a refusal ({expected.refused or ending})"
    if came.ending not in (None, ending):
        return f"expected {wanted}, it was taken as {came.ending}"
    found = f"an answer came: {_shown(came.text)}" if came.refused is None else f"it was refused: {came.refused}"
    return f"expected {wanted}, {found}"


def _tells_choices(value: object, outcome: Outcome) -> bool:
    """Whether the outcome has all choices: that of a function with text alone may be one of many."""
    return has_choices(value) or len(outcome.texts or ()) > 1


def _of_first_choice(outcome: Outcome) -> Outcome:
    return outcome if outcome.texts is None else replace(outcome, texts=(outcome.text,))


# What is compared


class _Part(NamedTuple):
    """Something that two outcomes can differ in.

    Attributes:
        name: The field of an `Outcome`.
        title: In words.
        same: Whether two values of it are the same; None is a value of neither.
        text_of: The same in a snapshot, as text, of a choice if each has one; None for what only the end tells.
    """

    name: str
    title: str
    same: Callable[[Any, Any], bool]
    text_of: Callable[[Outcome, int], str] | None = None

    def agrees(self, wanted: Any, found: Any) -> bool:
        """Whether they are the same, as far as both say something."""
        return wanted is None or found is None or self.same(wanted, found)


def _has_counts(wanted: Mapping[str, int], found: Mapping[str, int]) -> bool:
    return all(found.get(name) == count for name, count in wanted.items())


def _equal(wanted: object, found: object) -> bool:
    return wanted == found


def _text_of(outcome: Outcome, choice: int) -> str:
    texts = outcome.texts or ()
    return texts[choice] if choice < len(texts) else ""


def _reasoning_of(outcome: Outcome, _choice: int) -> str:
    return outcome.reasoning or ""


def _text_of_calls(outcome: Outcome, _choice: int) -> str:
    return "".join(f"{call.name}{call.arguments}" for call in outcome.calls or ())


_PARTS: Final = (
    _Part("texts", "text", _equal, _text_of),
    _Part("reasoning", "reasoning", _equal, _reasoning_of),
    _Part("calls", "tool calls", same_calls, _text_of_calls),
    _Part("finish_reason", "finish reason", _equal),
    _Part("usage", "usage", _has_counts),
)


def _first_difference(wanted: Any, found: Any, path: str) -> str | None:
    """Where what is wanted of a JSON value is not found, first, and how."""
    pairs: Iterable[tuple[str, Any, Any]] = ()
    if is_object(wanted) and is_object(found):
        pairs = ((f"{path}.{key}", wanted.get(key), found.get(key)) for key in wanted)
    elif is_list(wanted) and is_list(found) and len(wanted) == len(found):
        pairs = ((f"{path}[{place}]", one, other) for place, (one, other) in enumerate(zip(wanted, found, strict=True)))
    elif wanted != found and repr(wanted) != repr(found) and (wanted, found) != (None, []):  # NaN != NaN
        return f"{path.lstrip('.')}: expected {_shown(wanted)}, received {_shown(found)}"
    return next(filter(None, (_first_difference(one, other, at) for at, one, other in pairs)), None)


# What is said of it


def _complaint(body: bytes, part: _Part, expected: Outcome, came: Outcome) -> str:
    wanted, found = (_shown(_value(outcome, part)) for outcome in (expected, came))
    said = f"{part.title}: expected {wanted}\n{' ' * len(part.title)}  received {found}"
    if part.text_of is None:
        return f"{said}\n{_end_of(body)}"
    text_of = part.text_of
    pairs = zip_longest(expected.texts or (), came.texts or (), fillvalue="")
    choice = next((index for index, (one, other) in enumerate(pairs) if one != other), 0)
    size = _common(text_of(expected, choice), text_of(came, choice))
    frames = frames_of(body)
    place = frame_that_brought(body, frames, size, lambda snapshot: text_of(as_outcome(snapshot), choice))
    return f"{said}\n{shown_frames(frames, place, 'the first difference')}"


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _end_of(body: bytes) -> str:
    frames = frames_of(body)
    return shown_frames(frames, len(frames) - 1 if frames else None, "the end")


def _value(outcome: Outcome, part: _Part) -> Any:
    """What is compared; the text, where there is one choice."""
    return outcome.text if part.name == "texts" and len(outcome.texts or ()) == 1 else getattr(outcome, part.name)


def _shown(value: Any) -> str:
    return one_line(value.__name__ if isinstance(value, type) else repr(value))


# Cuts


def _everything(reads: Sequence[bytes]) -> Any:
    """All that this library says of a body."""
    parser = ChatCompletionParser()
    chunks = [chunk for read in reads for chunk in parser.feed(read)]
    chunks += parser.close()
    anomalies = [(anomaly.rule.id, anomaly.count) for anomaly in parser.anomalies]
    said = parser.snapshot.text, str(parser.end), repr(parser.error), anomalies
    return *said, repr([chunk.model_dump() for chunk in chunks]), repr(parser.snapshot.model_dump())


def _result_of_whole(fold: FoldReads, body: bytes) -> Any:
    """What comes of the body in one read; raises what the fold raises, unless the body may well be refused."""
    try:
        return awaited(fold([body]))
    except (TypeError, AttributeError):
        raise
    except Exception as error:
        try:
            _fold(body)
        except ChunkfoldError:
            return type(error)
        raise


def _result_of(fold: FoldReads, reads: Sequence[bytes]) -> Any:
    try:
        return awaited(fold(reads))
    except Exception as error:  # noqa: BLE001 - whatever it raises is its result
        return type(error)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, BaseModel) and isinstance(other, BaseModel):
        one, other = repr(one.model_dump()), repr(other.model_dump())  # NaN != NaN
    return bool(one == other)


def _first_bad_cut(fold: FoldReads, body: bytes, reads: Sequence[bytes], whole: Any) -> tuple[int, str]:
    """The first cut that makes a difference alone, or with which those before it do, and what is to be said of it."""
    places = list(accumulate(map(len, reads)))[:-1] or [0]

    def differs(*some: int) -> bool:
        return not _same(_result_of(fold, cut(body, *some)), whole)

    place = next(filter(differs, places[:_TRIES]), None)
    if place is None:
        place = places[bisect_left(range(len(places) - 1), True, key=lambda at: differs(*places[: at + 1]))]  # noqa: FBT003
    is_enough = differs(place)
    return place, f"a cut at byte {place} is enough" if is_enough else f"the cuts up to byte {place} are enough"
