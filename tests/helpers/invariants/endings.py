"""How a stream ended, what that means for its error and its completion, and that it is the end."""

from dataclasses import replace
from typing import Any

from reference_decoder import decode_whole

from chunkfold import (
    APIError,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidStreamError,
    LimitExceededError,
    StreamEnd,
    StreamInterruptedError,
)
from chunkfold.parser.parser import feed_in_slices
from invariants.decoding import decoded
from invariants.holding import Broken, hold, same, shown
from invariants.readings import RESET, Options, Reading, Result, has_output, whole_reading
from invariants.values import check_completion, check_error

LONGEST_MARKUP = 400_000  # characters
MORE = b'data: {"choices":[{"index":0,"delta":{"content":"late"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ERROR_OF: dict[StreamEnd | None, type[ChunkfoldError]] = {
    StreamEnd.EMPTY: IncompleteStreamError,
    StreamEnd.TRUNCATED: IncompleteStreamError,
    StreamEnd.FAILED: APIError,
    StreamEnd.INVALID: InvalidStreamError,
    StreamEnd.INTERRUPTED: StreamInterruptedError,
}


def check_ended(reading: Reading) -> None:
    """How it ended, what that means for the error and the completion, and that it is the end."""
    parser = reading.parser
    end, error, snapshot = parser.end, parser.error, parser.snapshot
    if end is None:
        raise Broken("a body that is over has an end")
    finished = bool(snapshot.choices) and all(choice.finish_reason for choice in snapshot.choices)
    hold("an end that fails has its error", isinstance(error, ERROR_OF.get(end, type(None))), end, error)
    if end in (StreamEnd.EMPTY, StreamEnd.TRUNCATED):
        same("that of a body that ends too early", type(error), IncompleteStreamError)
    finished_early = any(anomaly.rule.id == "CF505" for anomaly in parser.anomalies)
    if finished_early and end in (StreamEnd.INTERRUPTED, StreamEnd.STALLED, StreamEnd.CLOSED):
        return
    if end not in (StreamEnd.FAILED, StreamEnd.INVALID):
        same("finished is where every choice has its finish reason", end is StreamEnd.FINISHED, finished)
    hold(
        "empty is without output", has_output(parser) is (end is not StreamEnd.EMPTY) or end not in _TOLD_BY_OUTPUT, end
    )
    hold("interrupted is where the transport failed", end is not StreamEnd.INTERRUPTED or reading.options.is_reset)
    hold("closed is where the consumer left", end is not StreamEnd.CLOSED or reading.options.is_left)
    hold("nothing stalls without a deadline", end is not StreamEnd.STALLED)
    if isinstance(error, IncompleteStreamError):
        same("the error knows the end", error.end, end)
    if isinstance(error, StreamInterruptedError):
        hold("and the transport's exception", error.__cause__ is RESET)
    try:
        completion = parser.completion()
    except ChunkfoldError as raised:
        hold("an end that is complete has a completion", not end.complete, end)
        is_of_leaving = end is StreamEnd.CLOSED and type(raised) is IncompleteStreamError and raised.end is end
        hold("what is raised is the error", raised is error or (error is None and is_of_leaving), raised)
        hold("and has what arrived", raised.snapshot is snapshot and raised.emitted_output is parser.emitted_output)
        check_error(raised)
    else:
        hold("a completion is of a complete end", end.complete and completion is snapshot, end)
    check_completion(snapshot)
    hold("a notebook can show it, in bounds", len(snapshot._repr_html_()) < LONGEST_MARKUP)
    before = reading.result
    nothing: list[Any] = [parser.feed(MORE), parser.fold(MORE), parser.close(), parser.interrupt(ValueError())]
    nothing += [*feed_in_slices(parser, MORE), parser.leave()]
    hold("nothing comes after the end", not any(nothing), nothing)
    same("nothing changes after the end", reading.result, before)


_TOLD_BY_OUTPUT = (StreamEnd.EMPTY, StreamEnd.TRUNCATED, StreamEnd.DONE)


def check_strict(body: bytes, whole: Reading, result: Result) -> None:
    """Strict lets no anomaly through with a complete end; where there is none, it changes nothing.

    What shows only because the transport broke or the consumer left is not refused.
    """
    options = whole.options
    other = whole_reading(body, replace(options, strict=not options.strict))
    tolerant, strict = (other.result, result) if options.strict else (result, other.result)
    error = (whole if options.strict else other).parser.error
    if tolerant.anomalies:
        is_cut = options.is_reset or options.is_left
        is_complete = strict.end is not None and strict.end.complete
        hold("strict lets no anomaly through", is_cut or not is_complete, strict.anomalies)
        if type(error) is InvalidStreamError:
            same("strict names the first rule", error.rule, strict.anomalies[0].rule)
    else:
        same("strict changes nothing where nothing is tolerated", strict, tolerant)


def check_limits(body: bytes, limited: Reading, result: Result) -> None:
    """A limit that was not passed changes nothing; one that was is named."""
    options = limited.options
    if options.max_event_size is None and options.max_output_size is None:
        return
    error = limited.parser.error
    if isinstance(error, LimitExceededError):
        same("a limit is named", error.value, getattr(options, error.limit))
        if error.limit == "max_event_size":
            hold("a limit that is passed is one", decode_whole(body, options.max_event_size).limit_exceeded)
        else:
            hold("output has to be too long", len(body) > error.value)
    elif decoded([body]).preamble is None:  # else of a body that is no event stream only the beginning is kept
        unlimited = whole_reading(body, replace(options, max_event_size=None, max_output_size=None))
        same("a limit that was not passed changes nothing", result, unlimited.result)
        same("nor does it change chunks", shown(limited.chunks), shown(unlimited.chunks))


def check_cut_short(body: bytes, options: Options, fed: list[str]) -> None:
    """What came before a cut was delivered, and no cut is called complete."""
    short = whole_reading(body, options)
    delivered = shown(short.fed)
    same("what came before a cut is delivered", delivered, fed[: len(delivered)])
    finished = all(choice.finish_reason for choice in short.parser.snapshot.choices)
    end = short.parser.end
    hold("no cut is called complete", end is not StreamEnd.FINISHED or finished, end)
    hold("unless [DONE] came", end is not StreamEnd.DONE or b"[DONE]" in body, end)
