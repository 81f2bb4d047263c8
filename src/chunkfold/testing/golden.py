"""Assertions for any parser of streams: that it makes the right thing of a body, and the same however it is cut.

    assert_folds_to(body, {"text": "Hello", "tool_calls": []}, fold=my_fold)
    assert_same_however_cut(body, fold_reads=my_fold_of_reads)

A failure shows the events around the first difference.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

from chunkfold.json_values import is_list, is_object
from chunkfold.models import ChatCompletion
from chunkfold.parser import ChatCompletionParser
from chunkfold.testing.builder import StreamBuilder
from chunkfold.testing.cuts import ways_to_cut
from chunkfold.testing.frames import frame_at, frame_that_brought, frames_of, shown_frames
from chunkfold.testing.outcomes import Outcome, as_outcome, awaited, one_line, same_calls
from chunkfold.testing.wire import Body, bytes_of

Fold: TypeAlias = Callable[[bytes], Any]
FoldReads: TypeAlias = Callable[[Sequence[bytes]], Any]


def assert_folds_to(body: Body, completion: object = None, *, fold: Fold | None = None) -> None:
    """Assert that a body becomes what it should.

    Args:
        body: The bytes, whole or in pieces; or a `StreamBuilder`.
        completion: What must come of it: an object or a dict with `text` and `tool_calls`, and, if they are to be
            judged, `reasoning`, `finish_reason`, `usage`; text alone; an `Outcome`. With a `ChatCompletion`, or a dict
            that has `choices`, and no `fold`, everything that it says is compared. None for the builder's own outcome.
        fold: The parser, plain or async: from the bytes of a body to an object or a dict with `text` and `tool_calls`,
            or to a completion in OpenAI's form. What it raises, and an `error` on what it returns, is a refusal. This
            library if there is none.

    Raises:
        AssertionError: Something else came; the message says what and where.
        TypeError: There is nothing to compare with, or the parser returned something else.
    """
    data = bytes_of(body)
    wanted = _wanted(body, completion)
    expected, (outcome, came) = as_outcome(wanted), _outcome_of(fold or _fold, data)
    complaint = _refusal(expected, outcome)
    if complaint is not None:
        raise AssertionError(f"{complaint}\n{_end_of(data)}")
    for part in _PARTS:
        if not part.agrees(getattr(expected, part.name), getattr(outcome, part.name)):
            raise AssertionError(_complaint(data, part, expected, outcome))
    if isinstance(wanted, ChatCompletion) and isinstance(came, ChatCompletion):
        whole, found = (each.model_dump(mode="json", exclude_none=True) for each in (wanted, came))
        difference = _first_difference(whole, found, "")
        if difference is not None:
            raise AssertionError(f"{difference}\n{_end_of(data)}")


def assert_same_however_cut(body: Body, *, fold_reads: FoldReads | None = None, seed: int = 0) -> None:
    """Assert that what comes of a body does not depend on where its reads are cut.

    It is cut byte by byte, at each line end, at random, and, up to 4,096 bytes, in two at each place.

    Args:
        body: The bytes, whole or in pieces; or a `StreamBuilder`.
        fold_reads: The parser, plain or async: from the reads of a body to anything that can be compared. The type of
            what it raises counts as its result. This library if there is none: chunks, ending, snapshot, error and
            anomalies.
        seed: For the random cuts.

    Raises:
        AssertionError: A cut makes a difference; the message says which, and where.
        TypeError: The parser raised it for the whole body: it takes something else than reads.
    """
    data = bytes_of(body)
    fold = fold_reads or _everything
    whole = _result_of(fold, [data], passes=TypeError)
    for how, reads in ways_to_cut(data, seed):
        came = _result_of(fold, reads)
        if came != whole:
            place = _first_bad_cut(fold, data, reads, whole)
            frames = frames_of(data)
            raise AssertionError(
                f"cut {how}, it comes to something else\n"
                f"  whole: {_shown(whole)}\n"
                f"  cut:   {_shown(came)}\n"
                f"{shown_frames(frames, frame_at(frames, place), f'a cut at byte {place} is enough')}"
            )


def _wanted(body: Body, completion: object) -> object:
    if completion is None and isinstance(body, StreamBuilder):
        return body.outcome
    if completion is None:
        raise TypeError("completion: expected what must come of the body, received None")
    is_whole = is_object(completion) and "choices" in completion
    return ChatCompletion.model_validate(completion) if is_whole else completion


def _outcome_of(fold: Fold, body: bytes) -> tuple[Outcome, Any]:
    try:
        came = awaited(fold(body))
    except Exception as error:  # noqa: BLE001 - whatever it raises is its refusal
        return Outcome(refused=one_line(f"{type(error).__name__}: {error}".rstrip(": "))), error
    return as_outcome(came), came


def _fold(body: bytes) -> ChatCompletion:
    parser = ChatCompletionParser()
    parser.fold(body)
    parser.close()
    return parser.completion()


def _refusal(expected: Outcome, came: Outcome) -> str | None:
    """What is wrong if an answer came where none should, or none where one should."""
    is_bad = expected.refused is not None or expected.ending not in (None, "complete")
    if came.refused is not None:
        return None if is_bad else f"expected an answer, it was refused: {came.refused}"
    if is_bad and came.finish_reason != "":
        return f"expected a refusal ({expected.refused or expected.ending}), an answer came: {_shown(came.text)}"
    return None


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


def _same_texts(wanted: tuple[str, ...], found: tuple[str, ...]) -> bool:
    return all(one == other for one, other in zip(wanted, found, strict=False))


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
    _Part("texts", "text", _same_texts, _text_of),
    _Part("reasoning", "reasoning", _equal, _reasoning_of),
    _Part("calls", "tool calls", same_calls, _text_of_calls),
    _Part("finish_reason", "finish reason", _equal),
    _Part("usage", "usage", _has_counts),
)


def _first_difference(wanted: Any, found: Any, path: str) -> str | None:
    """Where two JSON values differ first, and how."""
    pairs: Iterable[tuple[str, Any, Any]] = ()
    if is_object(wanted) and is_object(found):
        pairs = ((f"{path}.{key}", wanted.get(key), found.get(key)) for key in {**wanted, **found})
    elif is_list(wanted) and is_list(found) and len(wanted) == len(found):
        pairs = ((f"{path}[{place}]", one, other) for place, (one, other) in enumerate(zip(wanted, found, strict=True)))
    elif wanted != found:
        return f"{path.lstrip('.')}: expected {_shown(wanted)}, received {_shown(found)}"
    return next(filter(None, (_first_difference(one, other, at) for at, one, other in pairs)), None)


# What is said of it


def _complaint(body: bytes, part: _Part, expected: Outcome, came: Outcome) -> str:
    wanted, found = (_shown(_value(outcome, part)) for outcome in (expected, came))
    said = f"{part.title}: expected {wanted}\n{' ' * len(part.title)}  received {found}"
    if part.text_of is None:
        return f"{said}\n{_end_of(body)}"
    text_of = part.text_of
    pairs = zip(expected.texts or (), came.texts or (), strict=False)
    choice = next((index for index, (one, other) in enumerate(pairs) if one != other), 0)
    size = _common(text_of(expected, choice), text_of(came, choice))
    frames = frames_of(body)
    place = frame_that_brought(frames, size, lambda snapshot: text_of(as_outcome(snapshot), choice))
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
    return *said, [chunk.model_dump() for chunk in chunks], parser.snapshot.model_dump()


def _result_of(fold: FoldReads, reads: Sequence[bytes], *, passes: type[Exception] | tuple[()] = ()) -> Any:
    try:
        return awaited(fold(reads))
    except passes:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it raises is its result
        return type(error)


def _first_bad_cut(fold: FoldReads, body: bytes, reads: Sequence[bytes], whole: Any) -> int:
    """The place of the first cut that makes a difference alone; of the first of all if it takes several."""
    places = list(accumulate(map(len, reads)))[:-1]
    alone = (place for place in places if _result_of(fold, [body[:place], body[place:]]) != whole)
    return next(alone, places[0] if places else 0)
