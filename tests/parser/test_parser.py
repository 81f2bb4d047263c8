"""The parser: how a stream ends, as the table of the design says, what its errors have, and `[DONE]`."""

import copy
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from cases import each_case
from copies import pickled
from own_process import printed_by
from parsed_bodies import fed, parsed
from played import ERROR, GARBAGE, HI, PING, ROLE, STOP, USAGE, WAYS_OUT, cuts, play, rules, text

from chunkfold import (
    APIError,
    ChatCompletionAccumulator,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    InvalidChunkError,
    ParseError,
    StreamEnd,
    StreamInterruptedError,
)
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.testing import DONE, choice, chunk, delta

LIMIT = 1000  # bytes that an event may have, so that this one is too large
LARGE = text("x" * LIMIT)


def test_the_snapshot_of_an_error_is_made_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be large, and the event that failed is to cost little."""
    parser = ChatCompletionParser()
    with monkeypatch.context() as patch:
        patch.delattr(StreamFold, "snapshot")
        parser.feed(HI + GARBAGE)
        error = parser.error
        assert error is not None
        with pytest.raises(AttributeError):
            _ = error.snapshot
    assert error.snapshot.text == "Hi"
    assert error.snapshot is parser.snapshot


@each_case("is_read", [False, True])
@each_case("copied", [copy.copy, copy.deepcopy, pickled])
def test_an_error_is_copied_with_its_snapshot(copied: Callable[[Any], Any], is_read: bool) -> None:
    parser = fed(HI + ERROR)
    error = parser.error
    assert error is not None
    if is_read:
        assert error.snapshot.text == "Hi"
    other = copied(error)
    assert (type(other), str(other), other.emitted_output) == (type(error), str(error), True)
    assert other.snapshot == parser.snapshot
    assert copied(ChunkfoldError("x")).snapshot is None
    if copied is not copy.copy:  # and so is a parser
        again = copied(parser)
        assert again.error.snapshot == again.snapshot == parser.snapshot


def test_the_words_for_an_end() -> None:
    assert {end.value for end in StreamEnd} == {
        "finished", "done", "empty", "truncated", "failed", "invalid", "interrupted", "stalled", "closed",
    }  # fmt: skip
    assert {end for end in StreamEnd if end.complete} == {"finished", "done"}


#                                                    the body ends, the transport fails, it stalls, the consumer leaves
OPEN_WITHOUT_OUTPUT = ("empty", "interrupted", "stalled", "closed")
OPEN_WITH_OUTPUT = ("truncated", "interrupted", "stalled", "closed")
# A finish reason that output followed is no proof where something else than the provider stopped the bytes.
EARLY = ("finished", "interrupted", "stalled", "closed")


def always(end: str) -> tuple[str, str, str, str]:
    """What came has decided; how the bytes stop after it changes nothing."""
    return (end, end, end, end)


# What came, and how the stream has ended then, one for each way out.
ENDS: dict[str, tuple[bytes, tuple[str, str, str, str]]] = {
    # Not decided by what came.
    "nothing": (b"", OPEN_WITHOUT_OUTPUT),
    "a keep-alive": (PING, OPEN_WITHOUT_OUTPUT),
    "a role": (ROLE, OPEN_WITHOUT_OUTPUT),
    "an empty text": (text(""), OPEN_WITHOUT_OUTPUT),
    "usage alone": (USAGE, OPEN_WITHOUT_OUTPUT),
    "an empty finish reason": (delta(""), OPEN_WITHOUT_OUTPUT),
    "text": (ROLE + HI, OPEN_WITH_OUTPUT),
    "text, then the word null as finish reason": (HI + delta("null"), OPEN_WITH_OUTPUT),
    "text, then an empty finish reason": (HI + delta(""), OPEN_WITH_OUTPUT),
    "text, then usage": (HI + USAGE, OPEN_WITH_OUTPUT),
    "one of two choices finished": (HI + text("Ho", 1) + delta("stop", 1), OPEN_WITH_OUTPUT),
    "a second choice opened after the first finished": (HI + STOP + text("Ho", 1), OPEN_WITH_OUTPUT),
    "a second choice without output after the first finished": (
        STOP + delta(index=1, role="assistant"),
        OPEN_WITHOUT_OUTPUT,
    ),
    # Every choice seen has its finish reason: nothing that happens later takes that back, but for output.
    "text and finish": (HI + STOP, always("finished")),
    "text and finish in one chunk": (delta("length", content="Hi"), always("finished")),
    "finish without output": (STOP, always("finished")),
    "an unknown finish reason": (HI + delta("eos_token"), always("finished")),
    "both choices finished": (HI + text("Ho", 1) + delta("stop", 1) + STOP, always("finished")),
    "finish, then usage": (HI + STOP + USAGE, always("finished")),
    "text after the finish reason": (HI + STOP + text("!"), EARLY),
    "finish with every chunk": (delta("stop", content="H") + delta("stop", content="i"), EARLY),
    "text after the finish reason and [DONE]": (HI + STOP + text("!") + DONE, always("finished")),
    "no output after the finish reason": (HI + STOP + text("") + ROLE + STOP, always("finished")),
    "finish and [DONE]": (HI + STOP + DONE, always("finished")),
    "finish without output and [DONE]": (STOP + DONE, always("finished")),
    # [DONE] without a finish reason.
    "text and [DONE]": (HI + DONE, always("done")),
    "[DONE], one of two choices finished": (HI + text("Ho", 1) + STOP + DONE, always("done")),
    "[DONE] alone": (DONE, always("empty")),
    "[DONE] after a role": (ROLE + DONE, always("empty")),
    "[DONE] after usage": (USAGE + DONE, always("empty")),
    # The provider said so; in which shapes, `wire/test_envelopes` shows.
    "an error": (ERROR, always("failed")),
    "an error and [DONE]": (ERROR + DONE, always("failed")),
    "text, then an error": (HI + ERROR, always("failed")),
    "finish, then an error": (HI + STOP + ERROR, always("failed")),
    "an error beside choices": (
        chunk(choice("stop", content="Hi"), error={"message": "overloaded"}),
        always("failed"),
    ),
    "finish reason error": (HI + delta("error"), always("failed")),
    "finish, then finish reason error": (HI + STOP + delta("error"), always("failed")),
    # Not a stream of chunks.
    "an event that is no JSON": (HI + GARBAGE, always("invalid")),
    "finish, then an event that is no JSON": (HI + STOP + GARBAGE, always("invalid")),
    "an event that is too large": (HI + LARGE, always("invalid")),
    "finish, then an event that is too large": (HI + STOP + LARGE, always("invalid")),
    "finish, then the beginning of one that is too large": (HI + STOP + LARGE[:-20], always("invalid")),
    # The first that came decides between two that both would.
    "[DONE], then an error": (HI + STOP + DONE + ERROR, always("finished")),
    "[DONE], then an event that is no JSON": (HI + DONE + GARBAGE, always("done")),
    "an error, then an event that is no JSON": (ERROR + GARBAGE, always("failed")),
    "an event that is no JSON, then an error": (GARBAGE + ERROR, always("invalid")),
    "an error, then finish and [DONE]": (ERROR + STOP + DONE, always("failed")),
}


@cuts
@each_case("what_came", ENDS)
def test_ends(what_came: str, size: int | None) -> None:
    """What each end raises, and that nothing has an effect after it, are promises (`invariants.endings`)."""
    body, ends = ENDS[what_came]
    for way_out, expected in zip(WAYS_OUT, ends, strict=True):
        parser = play(body, way_out, size, max_event_size=LIMIT)
        assert parser.end is StreamEnd(expected)


def test_reprs_show_the_state_without_content() -> None:
    parser, accumulator = ChatCompletionParser(), ChatCompletionAccumulator()
    for sent in parser.feed(HI):
        accumulator.add(sent)
    assert (repr(parser), repr(accumulator)) == (
        "<ChatCompletionParser: running, 1 chunk>",
        "<ChatCompletionAccumulator: 1 chunk>",
    )
    stream = ChatCompletionStream([HI, STOP])
    assert repr(stream) == "<ChatCompletionStream: running, 0 chunks>"
    stream.read()
    assert repr(stream) == "<ChatCompletionStream: finished, 2 chunks>"


@each_case("status_code", [200, 500])
@each_case("data", ["text", None, 5, [b"x"]])
def test_what_is_not_bytes_is_a_wrong_argument_and_changes_nothing(data: Any, status_code: int) -> None:
    parser = ChatCompletionParser(status_code=status_code)
    for take in (parser.feed, parser.fold):
        hint = ": pass the bytes of the body, not its lines, or encode its text" if data == "text" else ""
        with pytest.raises(TypeError, match=f"^data: expected bytes, received {type(data).__name__}{hint}$"):
            take(data)
    assert parser.end is None


@each_case("strict", [False, True, ("CF501",)])
def test_where_and_what_an_invalid_chunk_is(strict: Any) -> None:
    error = parsed(HI + delta(content={}), strict=strict).error
    assert type(error) is InvalidChunkError
    assert error.position == len(HI)
    for word in ("choices[0].delta.content", "string", "dict"):
        assert word in str(error)
    assert error.rule is None  # no rule of strict mode


@each_case("raised", [StreamInterruptedError("x"), APIError("x"), ParseError("x", text=""), OSError("x")])
def test_any_exception_of_a_source_is_the_transports(raised: Exception) -> None:
    """The source of a relay may be another stream of this library."""
    parser = fed(HI)
    parser.interrupt(raised)
    assert (parser.end, type(parser.error)) == (StreamEnd.INTERRUPTED, StreamInterruptedError)
    assert parser.error is not raised
    assert parser.error.__cause__ is raised
    assert getattr(raised, "snapshot", None) is None
    parser = fed(HI + STOP)
    parser.interrupt(raised)
    assert (parser.end, rules(parser)) == (StreamEnd.FINISHED, ["CF507"])


@cuts
@each_case(
    ("done", "noted"),
    [
        (b"data: [DONE]\n\n", []),
        (b"data:[DONE]\n\n", []),
        (b"data: [DONE]\r\n\r\n", []),
        (b"data: [DONE]\r\r", []),
        (b"id: 7\ndata: [DONE]\n\n", []),
        (b": bye\ndata: [DONE]\n\n", []),
        (b"data: [DONE] \n\n", ["CF108"]),
        (b"data:   [DONE]\t\n\n", ["CF108"]),
        (b"data: [DONE]", ["CF101"]),
        (b"data: [DONE]\n", ["CF101"]),
        (b"data: [DONE] ", ["CF101", "CF108"]),
    ],
)
def test_done(done: bytes, noted: list[str], size: int | None) -> None:
    assert rules(parsed(HI + STOP + done, size)) == noted
    assert parsed(HI + done, size).end is StreamEnd.DONE


@cuts
@each_case("no_done", [b'data: "[DONE]"\n\n', b"data: DONE\n\n", b"data: [DONE]]\n\n"])
def test_what_is_not_done(no_done: bytes, size: int | None) -> None:
    assert type(parsed(HI + no_done + STOP + DONE, size).error) is InvalidChunkError


def test_an_error_that_is_raised_again_keeps_one_traceback() -> None:
    parser = ChatCompletionParser()
    parser.feed(b"data: 42\n\n")
    for _ in range(3):
        with pytest.raises(InvalidChunkError) as caught:
            parser.completion()
        assert len(traceback.extract_tb(caught.value.__traceback__)) == 3


def test_an_error_that_is_being_handled_keeps_its_traceback() -> None:
    parser = ChatCompletionParser()
    parser.feed(b"data: 42\n\n")
    try:
        parser.completion()
    except InvalidChunkError as error:
        with suppress(InvalidChunkError):
            parser.raise_error()
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert "completion" in names


def test_a_half_character_may_be_the_first_of_which_a_process_makes_a_chunk() -> None:
    """Was once wrong: CPython 3.13.0 crashed as pydantic built the model."""
    body = HI.replace(b"Hi", rb"a\ud83d") + GARBAGE
    code = f"from chunkfold import ChatCompletionParser as P; p = P(); p.feed({body!r}); print(ascii(p.snapshot.text))"
    assert printed_by(code).strip() == r"'a\ufffd'"
