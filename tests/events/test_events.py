"""Events: what each tells, and when a tool call starts and is done.

Most tables go over the wire and through the parser, and write events briefly (see `brief`).
"""

import base64
import dataclasses
import pickle
from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from typing import Any, get_args

import anyio
import anyio.lowlevel
import fronts
import pytest
from cases import each_case
from fronts import generators_of_httpx_are_not_ours, over_both_streams
from hypothesis import example, given, settings
from hypothesis import strategies as st
from invariants import check, plain
from made_streams import CUTS, ERROR, STOP, STREAMS, Stream, custom, encoded
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict

from chunkfold import (
    RULES,
    AnnotationReceived,
    AnomalyNoted,
    AudioDelta,
    ChatCompletionEvent,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionParser,
    ChoiceFinished,
    ImageReceived,
    ParseError,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    ThinkTags,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageReceived,
)
from chunkfold.testing import (
    DONE,
    Answer,
    ManualClock,
    choice,
    chunk,
    delta,
    event,
    fragment,
    paced,
)
from chunkfold.testing.playback import Playback

pytestmark = generators_of_httpx_are_not_ours

often = settings(max_examples=40, deadline=None)  # no deadline: the machine may be busy
seldom = settings(max_examples=25, deadline=None)


def short_repr(event: ChatCompletionEvent) -> tuple[Any, ...]:  # noqa: PLR0912 - a case for each
    """An event as a row of a table, without its choice."""
    match event:
        case TextDelta(delta=delta):
            return ("text", delta)
        case ReasoningDelta(delta=delta):
            return ("reasoning", delta)
        case RefusalDelta(delta=delta):
            return ("refusal", delta)
        case ToolCallStarted(position=position, id=id_, name=name):
            return ("started", position, id_, name)
        case ToolCallArgumentsDelta(position=position, delta=delta):
            return ("arguments", position, delta)
        case ToolCallDone(position=position, call=call, parsed=parsed, error=None):
            return ("done", position, call.arguments, parsed)
        case ToolCallDone(position=position, call=call, parsed=None, error=ParseError(cut=cut)):
            return ("done", position, call.arguments, "cut" if cut else "wrong")
        case AudioDelta(data=data, transcript=transcript):
            return ("audio", data, transcript)
        case ImageReceived(image=image):
            return ("image", image)
        case AnnotationReceived(annotation=annotation):
            return ("annotation", annotation.type)
        case ChoiceFinished(finish_reason=reason, outcome=outcome):
            return ("finished", reason, outcome.value)
        case UsageReceived(usage=usage):
            return ("usage", usage.model_dump(exclude_unset=True))
        case AnomalyNoted(anomaly=anomaly):
            return ("noted", anomaly.rule.id)
    pytest.fail(f"no event of ours: {event!r}")


def briefly(events: Iterable[ChatCompletionEvent], *, noted: bool = False) -> list[tuple[Any, ...]]:
    return [short_repr(one) for one in events if noted or not isinstance(one, AnomalyNoted)]


def events_of(*pieces: bytes, **options: Any) -> list[ChatCompletionEvent]:
    return Stream([*pieces]).read(**options)[1]


def calls(*fragments: Any) -> bytes:
    """A chunk with fragments of tool calls, as they are or by what `fragment` takes."""
    return delta(tool_calls=[one if isinstance(one, dict) else fragment(*one) for one in fragments])


# What each event tells

IMAGE = {"type": "image_url", "image_url": {"url": "data:,x"}}
CITATION = {"type": "url_citation", "url_citation": {"url": "https://a.test", "title": "t"}}
F_START = (0, "a", "f", '{"x"')

TELLS: dict[str, tuple[list[bytes], list[tuple[Any, ...]]]] = {
    "text": ([delta(content="Hel"), delta(content="lo")], [("text", "Hel"), ("text", "lo")]),
    "nothing": ([delta(role="assistant", content=""), delta(refusal="", reasoning=""), delta()], []),
    "text in a content list": (
        [delta(content=[{"type": "text", "text": "a"}, "b", {"type": "text", "text": ""}])],
        [("text", "a"), ("text", "b")],
    ),
    "refusal": ([delta(refusal="I "), delta(refusal="can't")], [("refusal", "I "), ("refusal", "can't")]),
    "a content list, in its order": (
        [delta(content=[{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "b"}])],
        [("text", "a"), ("reasoning", "hm"), ("text", "b")],
    ),
    "several fields of one delta": (
        [delta(content="a", refusal="b", reasoning="c")],
        [("reasoning", "c"), ("text", "a"), ("refusal", "b")],
    ),
    "a pair of surrogates that was cut": (
        [delta(content="a\ud83d"), delta(content="\ude00b")],
        [("text", "a"), ("text", "😀b")],
    ),
    "half a pair at the end": ([delta(content="a\ud83d"), DONE], [("text", "a"), ("text", "\N{REPLACEMENT CHARACTER}")]),
    "a tool call": (
        [calls(F_START), calls((0, None, None, ":1}")), delta("tool_calls")],
        [
            ("started", 0, "a", "f"),
            ("arguments", 0, '{"x"'),
            ("arguments", 0, ":1}"),
            ("done", 0, '{"x":1}', {"x": 1}),
            ("finished", "tool_calls", "tool_calls"),
        ],
    ),
    "audio": (
        [delta(audio={"id": "i", "data": "QUI=", "transcript": "A"}), delta(audio={"expires_at": 1})],
        [("audio", b"AB", "A")],
    ),
    "a transcript alone": ([delta(audio={"transcript": "A"})], [("audio", b"", "A")]),
    "images": ([delta(images=[IMAGE, IMAGE]), delta(images=[])], [("image", IMAGE)] * 2),
    "images in content lists": (
        [delta(content=[{"type": "reference"}, "a", IMAGE, {"type": "refusal", "refusal": "b"}]), delta(content=[IMAGE])],
        [("text", "a"), ("image", IMAGE), ("image", IMAGE)],
    ),
    "annotations": (
        [delta(annotations=[CITATION, {"type": "x"}])],
        [("annotation", "url_citation"), ("annotation", "x")],
    ),
    "a finish reason": ([STOP], [("finished", "stop", "stop")]),
    "a finish reason of the provider's own": ([delta("eos_token")], [("finished", "eos_token", "stop")]),
    "an unknown finish reason": ([delta("whatever")], [("finished", "whatever", "other")]),
    "an empty finish reason": ([delta("")], []),
    "stop beside tool calls": ([calls((0, "a", "f", "{}")), STOP], [("started", 0, "a", "f"), ("arguments", 0, "{}"), ("done", 0, "{}", {}), ("finished", "stop", "tool_calls")]),
    "usage": ([chunk(usage={"prompt_tokens": 1, "x": 2})], [("usage", {"prompt_tokens": 1, "x": 2})]),
    "text beside a finish reason and usage": (
        [chunk(choice("stop", content="a"), usage={"total_tokens": 3})],
        [("text", "a"), ("finished", "stop", "stop"), ("usage", {"total_tokens": 3})],
    ),
}  # fmt: skip


@each_case(("pieces", "expected"), TELLS.values(), ids=TELLS)
def test_what_each_event_tells(pieces: list[bytes], expected: list[tuple[Any, ...]]) -> None:
    assert briefly(events_of(*pieces)) == expected


def test_an_anomaly_is_noted_once_where_it_comes_first() -> None:
    pieces = [delta(content="a"), delta(role="", content="b"), delta(role="", content="c"), delta("odd")]
    parser, events = Stream(pieces).read()
    assert briefly(events, noted=True) == [
        ("text", "a"),
        ("text", "b"),
        ("noted", "CF203"),
        ("text", "c"),
        ("noted", "CF506"),
        ("finished", "odd", "other"),
        ("noted", "CF501"),
    ]
    first, *_ = [one.anomaly for one in events if isinstance(one, AnomalyNoted)]
    assert (first.count, first.offset) == (1, len(pieces[0]))
    assert parser.anomalies[0] == dataclasses.replace(first, count=2)


@each_case("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_is_noted_once(rule: Any) -> None:
    parser, events = Stream([rule.example]).read(one_choice=True)
    noted = [one.anomaly.rule for one in events if isinstance(one, AnomalyNoted)]
    assert noted == [anomaly.rule for anomaly in parser.anomalies]
    assert rule in noted or rule.id == "CF507"  # which takes a transport that fails


def test_every_event_names_its_choice() -> None:
    fields: dict[str, Any] = {
        "content": "a",
        "reasoning": "b",
        "refusal": "c",
        "tool_calls": [fragment(0, "a", "f", "{}")],
        "audio": {"data": "QUI="},
        "images": [IMAGE],
        "annotations": [CITATION],
    }
    events = events_of(delta(index=3, **fields), delta("stop", 3))
    told = {type(one): one.choice for one in events if not isinstance(one, UsageReceived | AnomalyNoted)}
    assert told == dict.fromkeys(set(get_args(ChatCompletionEvent)) - {UsageReceived, AnomalyNoted}, 3)


def test_choices_come_as_they_are_interleaved() -> None:
    pieces = [delta(content="a"), delta(index=1, content="b"), delta(content="c"), delta("stop", 1), STOP]
    told = [(one.choice, *short_repr(one)[:2]) for one in events_of(*pieces, DONE)]
    assert told == [
        (0, "text", "a"),
        (1, "text", "b"),
        (0, "text", "c"),
        (1, "finished", "stop"),
        (0, "finished", "stop"),
    ]


@each_case("last", [DONE, ERROR])
def test_a_stop_that_turns_out_to_mean_calls_comes_again(last: bytes) -> None:
    assert briefly(events_of(STOP, calls(A), last)) == [
        ("finished", "stop", "stop"),
        *A_STARTS,
        *([A_DONE] if last == DONE else []),
        ("finished", "stop", "tool_calls"),
    ]


def test_another_finish_reason_comes_as_another_event() -> None:
    pieces = [STOP, STOP, delta("length"), delta(content="a"), delta("length"), DONE]
    assert briefly(events_of(*pieces)) == [
        ("finished", "stop", "stop"),
        ("finished", "length", "length"),
        ("text", "a"),
    ]


# Reasoning, in all its spellings


def test_reasoning_that_transforms_find() -> None:
    pieces = [delta(content="<thi"), delta(content="nk>hm</think>a"), STOP, DONE]
    told = briefly(events_of(*pieces, transforms=[ThinkTags()]))
    assert told == [("reasoning", "hm"), ("text", "a"), ("finished", "stop", "stop")]


# When a call starts


def told_of(steps: list[Any]) -> list[tuple[Any, ...]]:
    """What a stream tells of its calls. A step is a fragment, a list of them, a finish reason, or "[DONE]"."""
    pieces = []
    for step in steps:
        if isinstance(step, str):
            pieces.append(DONE if step == "[DONE]" else delta(step))
        else:
            pieces.append(calls(*(step if isinstance(step, list) else [step])))
    return [row for row in briefly(events_of(*pieces)) if row[0] != "finished"]


A_STARTED = ("started", 0, "a", "f")
STARTS = {
    "name and arguments together": ([(0, "a", "f", "{")], [A_STARTED, ("arguments", 0, "{")]),
    "the name, then arguments": ([(0, "a", "f", ""), (0, None, None, "{")], [A_STARTED, ("arguments", 0, "{")]),
    "not by a name alone": ([(0, "a", "f", None), (0, None, None, "")], []),
    "a name in pieces":
        ([(0, "a", "get", None), (0, None, "_we", None), (0, None, "ather", None), (0, None, None, "{")],
         [("started", 0, "a", "get_weather"), ("arguments", 0, "{")]),
    "a name that grows":
        ([(0, "a", "get", None), (0, None, "get_weather", "{")],
         [("started", 0, "a", "get_weather"), ("arguments", 0, "{")]),
    "arguments before the name":
        ([(0, "a", None, "{"), (0, None, None, '"x"'), (0, None, "f", None), (0, None, None, ":1}")],
         [A_STARTED, ("arguments", 0, '{"x"'), ("arguments", 0, ":1}")]),
    "arguments before the name, and with it":
        ([(0, "a", None, "{"), (0, None, "f", '"x"')], [A_STARTED, ("arguments", 0, '{"x"')]),
    "no arguments, but done": ([(0, "a", "f", None), "tool_calls"], [A_STARTED, ("done", 0, "", {})]),
    "an id that comes late":
        ([(0, None, "f", "{"), (0, "a", None, "}"), "tool_calls"], [("started", 0, None, "f"), ("arguments", 0, "{"),
         ("arguments", 0, "}"), ("done", 0, "{}", {})]),
    "no name at all, but done":
        ([(0, "a", None, "{}"), "tool_calls"],
         [("started", 0, "a", ""), ("arguments", 0, "{}"), ("done", 0, "{}", {})]),
    "arguments that are an object":
        ([(0, "a", "f", {"x": 1}), "tool_calls"],
         [A_STARTED, ("arguments", 0, '{"x":1}'), ("done", 0, '{"x":1}', {"x": 1})]),
    "arguments that are an empty object": (
        [(0, "a", "f", {}), "tool_calls"],
        [A_STARTED, ("arguments", 0, "{}"), ("done", 0, "{}", {})],  # at the end: it counts only if nothing else comes
    ),
    "an empty object before other arguments":
        ([(0, "a", "f", {}), (0, None, None, '{"x":1}'), "tool_calls"],
         [A_STARTED, ("arguments", 0, '{"x":1}'), ("done", 0, '{"x":1}', {"x": 1})]),
    "a custom tool":
        ([custom(0, "a", "h"), custom(0, input="in"), custom(0, input="put"), "tool_calls"],
         [("started", 0, "a", "h"), ("arguments", 0, "in"), ("arguments", 0, "put"), ("done", 0, "input", "input")]),
    "several in one delta":
        ([[(0, "a", "f", "{"), (1, "b", "g", "[")]],
         [A_STARTED, ("arguments", 0, "{"), ("started", 1, "b", "g"), ("arguments", 1, "[")]),
}  # fmt: skip


@each_case(("steps", "expected"), STARTS.values(), ids=STARTS)
def test_when_a_call_starts(steps: list[Any], expected: list[tuple[Any, ...]]) -> None:
    assert told_of(steps) == expected


# When a call is done

A, B, C = (0, "a", "f", '{"x":1}'), (1, "b", "g", '{"x":2}'), (2, "c", "h", '{"x":3}')
A_STARTS = [A_STARTED, ("arguments", 0, '{"x":1}')]
B_STARTS = [("started", 1, "b", "g"), ("arguments", 1, '{"x":2}')]
A_DONE, B_DONE = ("done", 0, '{"x":1}', {"x": 1}), ("done", 1, '{"x":2}', {"x": 2})

DONES = {
    "never because its arguments parse": ([A], A_STARTS),
    "nor because they parse, and text follows": ([A, (0, None, None, " ")], [*A_STARTS, ("arguments", 0, " ")]),
    "by [DONE] alone": ([A, "[DONE]"], [*A_STARTS, A_DONE]),
    "by a later call": ([A, B], [*A_STARTS, A_DONE, *B_STARTS]),
    "by a later call, whatever it has": ([A, (1, "b", None, None)], [*A_STARTS, A_DONE]),
    "by a later call without index and id": (
        [(None, None, "f", '{"x":1}'), (None, None, "g", '{"x":2}')],
        [("started", 0, None, "f"), A_STARTS[1], A_DONE, ("started", 1, None, "g"), B_STARTS[1]],
    ),
    "by a later call in the same delta": ([[A, B]], [*A_STARTS, A_DONE, *B_STARTS]),
    "each by the next": (
        [A, B, C],
        [*A_STARTS, A_DONE, *B_STARTS, B_DONE, ("started", 2, "c", "h"), ("arguments", 2, '{"x":3}')],
    ),
    "not by a later call while its arguments are not whole": (
        [(0, "a", "f", '{"x"'), B, (0, None, None, ":1}"), "tool_calls"],
        [A_STARTED, ("arguments", 0, '{"x"'), *B_STARTS, ("arguments", 0, ":1}"), A_DONE, B_DONE],
    ),
    "not by a later call while it has none": (
        [(0, "a", "f", ""), B, (0, None, None, '{"x":1}'), "tool_calls"],
        [*B_STARTS, *A_STARTS, A_DONE, B_DONE],
    ),
    "not by a later call while they are an empty object": (
        [(0, "a", "f", {}), B, (0, None, None, '{"x":1}'), "tool_calls"],
        [*B_STARTS, *A_STARTS, A_DONE, B_DONE],
    ),
    "not by a later call behind an empty object, which may stand before other arguments": (
        [(0, "a", "f", "{}"), B, (0, None, None, '{"x":1}'), "tool_calls"],
        [A_STARTED, ("arguments", 0, "{}"), *B_STARTS, ("arguments", 0, '{"x":1}'), ("done", 0, '{}{"x":1}', {"x": 1}), B_DONE],
    ),
    **{
        f"not by a later call while they are {text}": ([(0, "a", "f", text), B], [A_STARTED, ("arguments", 0, text), *B_STARTS])
        for text in ("1", "true", '[{"x":1}]', '"x"')
    },
    "not by a later call when they are nested too deeply to tell": (
        [(0, "a", "f", "[" * 100_000), B],
        [A_STARTED, ("arguments", 0, "[" * 100_000), *B_STARTS],
    ),
    "not by a later call when it is a custom one, whose input has no end of its own": (
        [custom(0, "a", "f", '{"x":1}'), B, custom(0, input="[2]"), "tool_calls"],
        [*A_STARTS, *B_STARTS, ("arguments", 0, "[2]"), ("done", 0, '{"x":1}[2]', '{"x":1}[2]'), B_DONE],
    ),
    "not by a second later call: each call is checked once": (
        [(0, "a", "f", '{"x"'), B, (0, None, None, ":1}"), C],
        [A_STARTED, ("arguments", 0, '{"x"'), *B_STARTS, ("arguments", 0, ":1}"), ("started", 2, "c", "h"), ("arguments", 2, '{"x":3}')],
    ),
    "interleaved": (
        [(0, "a", "f", '{"x"'), (1, "b", "g", '{"x"'), (1, None, None, ":2}"), (0, None, None, ":1}"), "tool_calls"],
        [A_STARTED, ("arguments", 0, '{"x"'), ("started", 1, "b", "g"), ("arguments", 1, '{"x"'), ("arguments", 1, ":2}"), ("arguments", 0, ":1}"), A_DONE, B_DONE],
    ),
    "once": ([A, "tool_calls", "tool_calls", "stop", "[DONE]"], [*A_STARTS, A_DONE]),
    "once, also by a later call": ([A, B, "tool_calls", "[DONE]"], [*A_STARTS, A_DONE, *B_STARTS, B_DONE]),
    "with nothing new": ([A, "tool_calls", (0, None, None, ""), (0, "a", "f", None), "[DONE]"], [*A_STARTS, A_DONE]),
    "again, when more comes after the finish reason": (
        [(0, "a", "f", '{"x"'), "tool_calls", (0, None, None, ":1}"), "[DONE]"],
        [A_STARTED, ("arguments", 0, '{"x"'), ("done", 0, '{"x"', "cut"), ("arguments", 0, ":1}"), A_DONE],
    ),
    "again, when more comes after a later call": (
        [A, B, (0, None, None, " "), "tool_calls"],
        [*A_STARTS, A_DONE, *B_STARTS, ("arguments", 0, " "), B_DONE, ("done", 0, '{"x":1} ', {"x": 1})],
    ),
    "again at the end only, when finish reasons are repeated": (
        [(0, "a", "f", "{"), "tool_calls", (0, None, None, '"x"'), "tool_calls", (0, None, None, ":1}"), "stop", "[DONE]"],
        [A_STARTED, ("arguments", 0, "{"), ("done", 0, "{", "cut"), ("arguments", 0, '"x"'), ("arguments", 0, ":1}"), A_DONE],
    ),
    "a call that comes after the finish reason": ([A, "tool_calls", B, "[DONE]"], [*A_STARTS, A_DONE, *B_STARTS, B_DONE]),
    "cut by a token limit": (
        [(0, "a", "f", '{"x'), "length"],
        [A_STARTED, ("arguments", 0, '{"x'), ("done", 0, '{"x', "cut")],
    ),
    "with arguments that are no JSON": (
        [(0, "a", "f", "{x}"), "tool_calls"],
        [A_STARTED, ("arguments", 0, "{x}"), ("done", 0, "{x}", "wrong")],
    ),
    "with arguments that are no object": (
        [(0, "a", "f", "[1]"), "tool_calls"],
        [A_STARTED, ("arguments", 0, "[1]"), ("done", 0, "[1]", "wrong")],
    ),
    "not by a later call before its name is there": (
        [(0, "a", None, '{"x":1}'), B, (0, None, "f", None), "tool_calls"],
        [*B_STARTS, *A_STARTS, A_DONE, B_DONE],
    ),
}  # fmt: skip


@each_case(("steps", "expected"), DONES.values(), ids=DONES)
def test_when_a_call_is_done(steps: list[Any], expected: list[tuple[Any, ...]]) -> None:
    assert told_of(steps) == expected


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "content_filter", "function_call", "tool_use", "odd"])  # fmt: skip
def test_a_finish_reason_completes_the_calls(reason: str) -> None:
    assert told_of([A, reason]) == [*A_STARTS, A_DONE]


@each_case("reason", ["error", "network_error", "abort", "insufficient_system_resource"])
@each_case("late", [0, 9], ids=["at once", "late"])
def test_a_finish_reason_that_means_an_error_does_not(reason: str, late: int) -> None:
    parser, events = Stream([calls(A), delta(reason), DONE]).read(late)
    assert briefly(events) == [*A_STARTS, ("finished", reason, "error")]
    assert parser.end is StreamEnd.FAILED


def test_a_finish_reason_completes_the_calls_of_its_own_choice() -> None:
    both = [delta(index=index, tool_calls=[fragment(*A)]) for index in (0, 1)]
    told = [one.choice for one in events_of(*both, delta("tool_calls", 1)) if isinstance(one, ToolCallDone)]
    assert told == [1]
    told = [one.choice for one in events_of(*both, delta("stop", 1), DONE) if isinstance(one, ToolCallDone)]
    assert told == [1, 0]


ENDINGS: dict[str, Callable[[ChatCompletionParser], object]] = {
    "truncated": lambda parser: parser.close(),
    "interrupted": lambda parser: parser.interrupt(ConnectionError("reset")),
    "failed": lambda parser: parser.feed(ERROR + DONE),
    "invalid": lambda parser: parser.feed(event("oops") + DONE),
    "stalled": lambda parser: parser.feed(b": ping\n\n"),
    "closed": lambda parser: parser.leave(),
}


@each_case("late", [False, True], ids=["at once", "late"])
@each_case("end", ENDINGS)
def test_a_stream_that_does_not_end_well_completes_no_call(end: str, late: bool) -> None:
    times = iter([0.0, 1.0, 99.0])
    parser = ChatCompletionParser(progress_timeout=10, clock=lambda: next(times))
    told = [] if late else parser.events()
    parser.feed(calls(A) + calls(B))
    told += [] if late else parser.events()
    ENDINGS[end](parser)
    assert parser.end == end
    assert briefly(told + parser.events()) == [*A_STARTS, A_DONE, *B_STARTS]  # what is done stays done
    assert parser.events() == []


def test_leaving_ends_no_call_that_came_after_the_finish_reason() -> None:
    parser = ChatCompletionParser()
    parser.events()
    parser.feed(calls(A) + delta("tool_calls") + calls(B))
    parser.events()
    parser.leave()
    assert parser.end is StreamEnd.CLOSED
    assert [row for row in briefly(parser.events()) if row[0] == "done"] == []


NO_NAME = (2, "c", None, '{"x":')
AFTER_FINISH: dict[str, tuple[list[Any], list[Any]]] = {
    "another call": ([B], [*A_STARTS, A_DONE, *B_STARTS]),
    "a call without a name": ([NO_NAME], [*A_STARTS, A_DONE]),
    "more of the call": ([(0, None, None, " ")], [A_STARTED, ("arguments", 0, A[3] + " ")]),
}


@each_case("end", ["interrupted", "closed", None])
@each_case("name", AFTER_FINISH)
def test_late_events_end_no_call_that_came_after_the_finish_reason(name: str, end: str | None) -> None:
    """Was once wrong: the first call of `events` told that it was done, even with arguments that were cut."""
    fragments, expected = AFTER_FINISH[name]
    parser = ChatCompletionParser()
    parser.feed(calls(A) + delta("tool_calls") + calls(*fragments))
    if end is not None:
        ENDINGS[end](parser)
    assert parser.end == end
    assert [row for row in briefly(parser.events()) if row[0] in ("started", "arguments", "done")] == expected


def test_a_choice_that_was_continued_is_over_at_its_next_finish_reason() -> None:
    parser = ChatCompletionParser(one_choice=True)
    parser.feed(delta(content="a") + delta("stop") + calls((1, "b", "g", '{"x":')))
    parser.feed(delta(content="x", index=1) + delta(index=1, tool_calls=[fragment(*A)]) + delta("stop", 1))
    assert [row for row in briefly(parser.events()) if row[0] == "done"] == [("done", 1, *A_DONE[2:])]


def test_arguments_with_very_many_values_are_left_to_you() -> None:
    """To parse them, where nobody asked, was once a minute of work and gigabytes."""
    whole = '{"x":[1' + ",1" * 250_000 + "]}"
    body = calls((0, "a", "f", whole)), calls(B), delta("tool_calls"), DONE
    first, second = [one for one in events_of(*body) if isinstance(one, ToolCallDone)]
    assert first.parsed is None
    assert isinstance(first.error, ParseError)
    assert "expected at most 250000 values" in str(first.error)
    assert first.error.text == first.call.arguments == whole
    assert first.call.type == "function"
    assert len(first.call.function.parse()["x"]) == 250_001
    assert second.error is None
    text = '{"x":"' + "," * 300_000 + '"}'
    [done] = [one for one in events_of(calls((0, "a", "f", text)), DONE) if isinstance(one, ToolCallDone)]
    assert done.parsed == {"x": "," * 300_000}


def test_very_many_values_in_several_calls_are_left_to_you() -> None:
    """One event of 32 MiB was once parsed for ten seconds, to values of 700 MB."""
    large = '{"x":[1' + ",1" * 200_000 + "]}"
    parser = ChatCompletionParser()
    parser.events()
    parser.feed(b"".join(calls((i, f"c{i}", "f", large)) for i in range(4)))
    early = [one for one in parser.events() if isinstance(one, ToolCallDone)]
    parser.feed(delta("tool_calls"))
    late = [one for one in parser.events() if isinstance(one, ToolCallDone)]
    assert [(one.position, one.error) for one in early] == [(0, None), (1, None)]
    assert [(one.position, one.parsed) for one in late] == [(2, None), (3, None)]
    assert all("and 500000 in a stream" in str(one.error) for one in late)


def test_the_values_of_arguments_are_counted_also_where_they_are_left_to_you() -> None:
    most, more = ('{"x":[1' + ",1" * commas + "]}" for commas in (249_998, 249_999))
    for several, parsed in {(most, most, "{}"): [True, True, False], (more, more, '{"x":1}'): [False] * 3}.items():
        pieces = [calls((place, f"c{place}", "f", text)) for place, text in enumerate(several)]
        done = [one for one in events_of(*pieces, DONE) if isinstance(one, ToolCallDone)]
        assert [one.error is None for one in done] == parsed


# A done call is the final message's


def id_made_up_with(arguments: str) -> str:
    """The id of the first call, named f, if it is sent without one."""
    parser = ChatCompletionParser()
    parser.feed(calls((0, None, "f", arguments)) + delta("tool_calls") + DONE)
    return parser.completion().tool_calls[0].id or ""


WHOLE_CALLS = {
    "ids": [A, B],
    "no ids": [(0, None, "f", "{}"), (1, None, "g", "{}")],
    "no ids, no indexes": [(None, None, "f", "{}"), (None, None, "g", "{}"), (None, None, "f", "{}")],
    "an id like one that is made up": [(0, None, "f", "{}"), (1, id_made_up_with("{}"), "g", "{}")],
    "a name that comes late": [(0, "a", None, '{"x":1}'), B, (0, None, "f", None)],
    "an id that comes with more arguments": [(0, None, "f", '{"x"'), (1, "b", "g", "{}"), (0, "a", None, ":1}")],
    "unknown keys": [{**fragment(*A), "x": 1}, fragment(*B)],
    "a custom tool": [custom(0, "a", "h", "in"), B],
    "a custom tool without an id": [custom(0, None, "h", "in"), B],
}
LATE_CALLS = {
    "an id that comes late": [(0, None, "f", '{"x":1}'), B, (0, "a", None, None)],
    "an id like the one that was made up": [(0, None, "f", '{"x":1}'), B, (2, id_made_up_with('{"x":1}'), "h", "{}")],
    "a name that comes late, in a call of no id": [(0, None, None, '{"x":1}'), B, (0, None, "get_weather", None)],
    "an unknown key that comes late": [A, B, {"index": 0, "extra_content": {"google": {"thought_signature": "s"}}}],
}  # fmt: skip


@each_case("name", [*WHOLE_CALLS, *LATE_CALLS])
def test_a_done_call_is_the_final_messages(name: str) -> None:
    """Of a call that changed late, the last one is."""
    pieces = [calls(one) for one in {**WHOLE_CALLS, **LATE_CALLS}[name]]
    parser, events = Stream([*pieces, delta("tool_calls"), DONE]).read()
    dones, final = [one for one in events if isinstance(one, ToolCallDone)], parser.completion().tool_calls
    last = {one.position: one.call for one in dones}
    assert list(last.values()) == list(final)
    assert list(last) == list(range(len(final)))
    if name in WHOLE_CALLS:
        assert len(dones) == len({one.call.id for one in dones} - {None}) == len(final)


EMPTY_STARTED, EMPTY_DONE = [A_STARTED, ("arguments", 0, "{}")], ("done", 0, "{}", {})
EMPTY: dict[str, tuple[list[Any], list[tuple[Any, ...]]]] = {
    "again as text": ([(0, "a", "f", {}), "stop", (0, None, None, "{}")], [*EMPTY_STARTED, EMPTY_DONE, EMPTY_STARTED[1]]),
    "done again": ([(0, None, "f", {}), "tool_calls", (0, "a", None, None)], [("started", 0, None, "f"), EMPTY_STARTED[1], EMPTY_DONE, EMPTY_DONE]),
    "after its call was done": ([(0, "a", "f", None), "tool_calls", (0, None, None, {})], [A_STARTED, ("done", 0, "", {}), EMPTY_STARTED[1], EMPTY_DONE]),
    "before later arguments": ([(0, "a", "f", {}), "tool_calls", (0, None, None, '{"x":1}')], [*EMPTY_STARTED, EMPTY_DONE, A_STARTS[1], A_DONE]),
}  # fmt: skip


@each_case(("steps", "expected"), EMPTY.values(), ids=EMPTY)
def test_an_empty_object_of_a_call_that_was_done(steps: list[Any], expected: list[tuple[Any, ...]]) -> None:
    pieces = [delta(one) if isinstance(one, str) else calls(one) for one in steps]
    parser, events = Stream([*pieces, DONE]).read()
    check(b"".join([*pieces, DONE]))
    assert [row for row in briefly(events) if row[0] != "finished"] == expected
    assert parser.completion().tool_calls[0].arguments == expected[-1][2]


@each_case("reason", ["tool_calls", "length", "stop"])
def test_the_finish_reason_comes_again_after_a_late_call(reason: str) -> None:
    pieces = [calls((0, "a", "f", "{}")), delta(reason), calls((1, "b", "g", "{}")), DONE]
    _, events = Stream(pieces).read()
    late = [type(one).__name__ for one in events if isinstance(one, ToolCallDone | ChoiceFinished)]
    assert late == ["ToolCallDone", "ChoiceFinished", "ToolCallDone", "ChoiceFinished"]


# Types of the tools' arguments


class Weather(BaseModel):
    city: str
    days: int = 1


class WeatherDict(TypedDict):
    city: str


@dataclasses.dataclass
class WeatherData:
    city: str


TYPES = {Weather: Weather(city="Oslo"), WeatherDict: {"city": "Oslo"}, WeatherData: WeatherData("Oslo")}
OSLO = (0, "a", "weather", '{"city":"Oslo"}')


@pytest.mark.parametrize("late", [0, 9], ids=["at once", "late"])
@pytest.mark.parametrize(("as_type", "expected"), TYPES.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_arguments_of_a_registered_type(as_type: Any, expected: Any, late: int) -> None:
    pieces = [calls(OSLO), calls((1, "b", "other", '{"city":1}')), delta("tool_calls"), DONE]
    parser, events = Stream(pieces).read(late, tools={"weather": as_type})
    first, other = [one for one in events if isinstance(one, ToolCallDone)]
    assert first.parsed == expected
    assert type(first.parsed) is type(expected)
    assert other.parsed == {"city": 1}
    assert isinstance(first.call, ChatCompletionMessageFunctionToolCall)
    assert first.call.function.parse() == expected
    assert first.call == parser.completion().tool_calls[0]


class Broken(BaseModel):
    city: str

    @field_validator("city")
    @classmethod
    def fail(cls, value: str) -> str:
        raise KeyError(value)


@each_case(
    ("arguments", "finish", "tools", "expected"),
    [
        pytest.param('{"x": "h', "length", {}, (True, (), False), id="cut"),
        pytest.param('{"city":1}', "tool_calls", {"weather": Weather}, (False, ("city",), False), id="no text"),
        pytest.param(OSLO[3], "tool_calls", {"weather": Broken}, (False, (), True), id="the user's validator fails"),
    ],
)
def test_arguments_that_cannot_be_parsed(arguments: str, finish: str, tools: dict[str, Any], expected: Any) -> None:
    pieces = [calls((0, "a", "weather", arguments)), delta(finish), DONE]
    (done,) = [one for one in events_of(*pieces, tools=tools) if isinstance(one, ToolCallDone)]
    assert done.parsed is None
    assert isinstance(done.error, ParseError)
    assert done.error.text == arguments
    assert (done.error.cut, done.error.path, isinstance(done.error.__cause__, KeyError)) == expected


def test_a_custom_tools_input_stays_text() -> None:
    pieces = [calls(custom(0, "a", "weather", '{"city":"Oslo"}')), delta("tool_calls"), DONE]
    (done,) = [one for one in events_of(*pieces, tools={"weather": Weather}) if isinstance(one, ToolCallDone)]
    assert (done.parsed, done.error) == ('{"city":"Oslo"}', None)


# Snapshots of deltas

GROWING = {
    "text": (TextDelta, [delta(content=text) for text in ("a", "b\r\n", "", "😀", "d")]),
    "reasoning": (ReasoningDelta, [delta(**{name: text}) for name, text in (("reasoning", "a"), ("reasoning_content", "b\r\n"), ("reasoning", "😀d"))]),
    "refusal": (RefusalDelta, [delta(refusal=text) for text in ("a", "b\r\n", "😀d")]),
    "arguments": (ToolCallArgumentsDelta, [calls((0, "a", "f", "a")), *(calls((0, None, None, text)) for text in ("b\r\n", "😀d"))]),
    "input": (ToolCallArgumentsDelta, [calls(custom(0, "a", "f", "a")), *(calls(custom(0, input=text)) for text in ("b\r\n", "😀d"))]),
    "an empty object": (ToolCallArgumentsDelta, [calls((0, "a", "f", {})), STOP]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "pieces"), GROWING.values(), ids=GROWING)
def test_a_snapshot_is_the_text_up_to_and_with_the_piece(kind: Any, pieces: list[bytes]) -> None:
    parser = ChatCompletionParser()
    deltas: list[Any] = parser.events()
    for piece in pieces:
        parser.feed(piece)
        new = [one for one in parser.events() if isinstance(one, kind)]
        deltas += new
        grown = "".join(one.delta for one in deltas)
        assert not new or new[-1].snapshot == grown
    parser.close()
    # Also when somebody looks later, in any order.
    for end in reversed(range(len(deltas))):
        assert deltas[end].snapshot == "".join(one.delta for one in deltas[: end + 1])
    assert all(one.delta for one in deltas)


def test_snapshots_of_texts_that_grow_side_by_side() -> None:
    pieces = [delta(index=index, content=text) for index, text in ((0, "a"), (1, "x"), (0, "b"), (1, "y"))]
    assert [one.snapshot for one in events_of(*pieces) if isinstance(one, TextDelta)] == ["a", "x", "ab", "xy"]
    pieces = [calls((0, "a", "f", "1")), calls((1, "b", "g", "x")), calls((0, None, None, "2")), calls((1, None, None, "y"))]  # fmt: skip
    assert [one.snapshot for one in events_of(*pieces) if isinstance(one, ToolCallArgumentsDelta)] == ["1", "x", "12", "xy"]  # fmt: skip


# Audio, images, annotations, usage


def audio_events(pieces: list[str]) -> tuple[bytes, bytes]:
    """The bytes of the events, joined, and those of the final message."""
    parser, events = Stream([*(delta(audio={"data": piece}) for piece in pieces), STOP, DONE]).read()
    audio = parser.completion().message.audio
    assert all(one.data for one in events if isinstance(one, AudioDelta))
    return b"".join(one.data for one in events if isinstance(one, AudioDelta)), base64.b64decode((audio and audio.data) or "")  # fmt: skip


@often
@given(st.lists(st.binary(max_size=7), max_size=6))
def test_audio_whose_pieces_are_encoded_one_by_one(pieces: list[bytes]) -> None:
    joined = b"".join(pieces)
    assert audio_events([encoded(piece) for piece in pieces]) == (joined, joined)


@often
@given(st.binary(max_size=30), CUTS)
@example(b"abcd", [1, 2, 3, 4, 5, 6, 7])
@example(b"abcdef", [5])
def test_audio_that_is_one_encoded_text_cut_anywhere(data: bytes, cuts: list[int]) -> None:
    pieces = Stream([encoded(data).encode()]).cut(cuts).pieces
    assert audio_events([piece.decode() for piece in pieces]) == (data, data)


def test_audio_comes_as_soon_as_it_can() -> None:
    told = briefly(events_of(*(delta(audio={"data": piece}) for piece in ("QUJ", "DREVG", "R0", "g="))))
    assert told == [("audio", b"ABCDEF", ""), ("audio", b"GH", "")]


@pytest.mark.parametrize(
    "pieces",
    [["QU*D"], ["QU", "*D"], ["QU**JD"], ["\xe9" * 4]],
    ids=["at once", "cut", "but for some characters", "beyond ASCII"],
)
def test_what_is_no_base64_gives_no_bytes(pieces: list[str]) -> None:
    told = briefly(events_of(*(delta(audio={"data": piece, "transcript": "a"}) for piece in pieces)))
    assert told == [("audio", b"", "a")] * len(pieces)


# Was once wrong: the line end is kept as the rest of a cut text, so all that follows is out of step and gives nothing.
def test_audio_whose_pieces_end_in_line_ends() -> None:
    """As Python's `base64.encodebytes` has them."""
    assert audio_events(["QUJD\n", "REVG\n"]) == (b"ABCDEF", b"ABCDEF")


def test_audio_that_is_sent_as_the_content() -> None:
    """vLLM-Omni does so. Many chunks in a row are alike, so a short path could take them."""
    texts, sounds = [f"word {n} " for n in range(20)], [b"sound %d" % n for n in range(20)]
    written = [chunk(choice(content=text), modality="text") for text in texts]
    spoken = [chunk(choice(content=encoded(sound)), modality="audio") for sound in sounds]
    parser, events = Stream([*written, *spoken, *written, chunk(choice("stop", content=""), modality="audio")]).read()
    message = parser.completion().message
    assert message.content == "".join(one.delta for one in events if isinstance(one, TextDelta)) == "".join(texts * 2)
    assert [one.data for one in events if isinstance(one, AudioDelta)] == sounds
    assert message.audio is not None
    assert message.audio.data == encoded(b"".join(sounds))
    assert [one.text + one.reasoning for one in ChatCompletionParser().feed(spoken[0])] == [""]


def test_audio_beside_its_content_stays_where_it_is() -> None:
    spoken = chunk(choice(content="a word", audio={"data": encoded(b"a")}), modality="audio")
    (only,) = ChatCompletionParser().feed(spoken)
    sent = only.choices[0].delta
    assert sent.audio is not None
    assert (sent.content, sent.audio.data) == ("a word", encoded(b"a"))


def test_audio_of_choices_is_kept_apart() -> None:
    pieces = [delta(index=index, audio={"data": piece}) for piece in ("QU", "JD") for index in (0, 1)]
    assert [(one.choice, *short_repr(one)) for one in events_of(*pieces) if isinstance(one, AudioDelta)] == [
        (0, "audio", b"ABC", ""),
        (1, "audio", b"ABC", ""),
    ]


def test_images_and_annotations_are_the_messages() -> None:
    pieces = [delta(images=[IMAGE]), delta(annotations=[CITATION]), delta(images=["data:,y"]), STOP, DONE]
    parser, events = Stream(pieces).read()
    message = parser.completion().message
    assert [one.image for one in events if isinstance(one, ImageReceived)] == message.images
    assert [one.annotation for one in events if isinstance(one, AnnotationReceived)] == message.annotations


@each_case("citation", ["https://a.org", {"url": 5, "title": "a"}])
def test_an_annotation_with_a_wrong_type_is_the_messages_too(citation: Any) -> None:
    """Was once wrong: the event had the raw value as its field."""
    parser, events = Stream(
        [delta(annotations=[{"type": "url_citation", "url_citation": citation}]), STOP, DONE]
    ).read()
    (received,) = (one.annotation for one in events if isinstance(one, AnnotationReceived))
    assert [received] == parser.completion().message.annotations
    assert received.url_citation is None or received.url_citation.url is None


USAGES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "the same in every chunk": ([{"prompt_tokens": 1}] * 3, [{"prompt_tokens": 1}]),
    "growing":
        ([{"completion_tokens": 1}, {"completion_tokens": 2}], [{"completion_tokens": 1}, {"completion_tokens": 2}]),
    "in parts":
        ([{"prompt_tokens": 1}, {"completion_tokens": 2}],
         [{"prompt_tokens": 1}, {"prompt_tokens": 1, "completion_tokens": 2}]),
    "details":
        ([{"prompt_tokens_details": {"cached_tokens": 1}}, {"prompt_tokens_details": {"audio_tokens": 2}}],
         [{"prompt_tokens_details": {"cached_tokens": 1}},
         {"prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 2}}]),
    "details of the provider's own":
        ([{"x": {"y": {"a": 1}}}, {"x": {"y": {"b": 2}}}], [{"x": {"y": {"a": 1}}}, {"x": {"y": {"a": 1, "b": 2}}}]),
    "a 0 that changes nothing": ([{"prompt_tokens": 1}, {"prompt_tokens": 0}], [{"prompt_tokens": 1}]),
    "a total that becomes the sum again":
        ([{"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, {"total_tokens": 2}],
         [{"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}]),
    "a null that changes nothing": ([{"prompt_tokens": 1}, {"prompt_tokens": None}], [{"prompt_tokens": 1}]),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "told"), USAGES.values(), ids=USAGES)
def test_usage_is_told_when_it_changes(sent: list[dict[str, Any]], told: list[dict[str, Any]]) -> None:
    parser, events = Stream([*(chunk(usage=one) for one in sent), STOP, DONE]).read()
    usages = [one.usage for one in events if isinstance(one, UsageReceived)]
    assert [one.model_dump(exclude_unset=True) for one in usages] == told
    assert usages[-1] == parser.completion().usage


@pytest.mark.parametrize("late", [0, 9], ids=["at once", "late"])
def test_usage_that_says_nothing_is_told_too(late: int) -> None:
    parser, events = Stream([chunk(usage={}), chunk(usage={}), STOP, DONE]).read(late)
    assert [one.usage for one in events if isinstance(one, UsageReceived)] == [parser.completion().usage]


# A first call that comes late


def test_a_late_first_call_begins_with_what_has_arrived() -> None:
    parser = ChatCompletionParser()
    parser.feed(b"".join([delta(role="assistant"), delta(reasoning="h"), delta(reasoning="m"), delta(content="a")]))
    parts = delta(content=["b", IMAGE, {"type": "reference"}])
    parser.feed(b"".join([parts, calls((0, "a", "f", '{"x"')), chunk(usage={"prompt_tokens": 1})]))
    assert briefly(parser.events()) == [
        ("reasoning", "hm"),
        ("text", "ab"),
        ("image", IMAGE),
        A_STARTED,
        ("arguments", 0, '{"x"'),
        ("usage", {"prompt_tokens": 1}),
    ]
    parser.feed(calls((0, None, None, ":1}")) + delta(reasoning="!"))
    assert briefly(parser.events()) == [("arguments", 0, ":1}"), ("reasoning", "!")]
    parser.feed(delta("tool_calls") + DONE)
    assert briefly(parser.events()) == [A_DONE, ("finished", "tool_calls", "tool_calls")]
    assert parser.events() == []


def test_a_late_first_call_tells_things_in_their_order() -> None:
    pieces = [
        *(delta(reasoning="h"), delta(content="a"), delta(images=[IMAGE]), delta(reasoning="m"), calls(A)),
        *(delta(refusal="r"), calls(B), delta(audio={"data": "QUI="}), delta(content="b")),
        *(delta(index=1, content="x"), delta(annotations=[CITATION]), delta("tool_calls"), delta("stop", 1)),
    ]
    _, events = Stream([*pieces, DONE]).read(99)
    assert [(one.choice, *short_repr(one)) for one in events] == [
        (0, "reasoning", "h"),
        (0, "text", "a"),
        (0, "image", IMAGE),
        (0, "reasoning", "m"),
        *((0, *row) for row in A_STARTS),
        (0, "refusal", "r"),
        (0, *A_DONE),
        *((0, *row) for row in B_STARTS),
        (0, "audio", b"AB", ""),
        (0, "text", "b"),
        (0, "annotation", "url_citation"),
        (0, *B_DONE),
        (0, "finished", "tool_calls", "tool_calls"),
        (1, "text", "x"),
        (1, "finished", "stop", "stop"),
    ]


def test_a_late_first_call_knows_what_a_text_was_at_its_places() -> None:
    pieces = [delta(content="a"), delta(reasoning="h"), delta(content="b"), delta(content="c")]
    _, events = Stream(pieces).read(3)
    assert [(*short_repr(one), one.snapshot) for one in events if isinstance(one, TextDelta)] == [
        ("text", "a", "a"),
        ("text", "b", "ab"),
        ("text", "c", "abc"),
    ]


def test_a_late_first_call_knows_that_done_came() -> None:
    assert briefly(Stream([calls(A), DONE]).read(99)[1]) == [*A_STARTS, A_DONE]


@each_case("late", [1, 2, 3, 4])
@each_case("pieces", [["QUI=", "Qw==", "REVG", "Rw=="], ["Q", "UJDR", "EVGR", "w=="]], ids=["each", "cut"])
def test_a_late_first_call_in_the_middle_of_audio(pieces: list[str], late: int) -> None:
    stream = Stream([delta(audio={"data": piece, "transcript": piece[0]}) for piece in pieces])
    told = [one for one in stream.read(late)[1] if isinstance(one, AudioDelta)]
    assert b"".join(one.data for one in told) == b"ABCDEFG"
    assert "".join(one.transcript for one in told) == "".join(piece[0] for piece in pieces)
    assert len(told) == 1 + len(pieces) - late


def test_a_late_first_call_tells_of_anomalies_first() -> None:
    parser, events = Stream([delta(content="a", role=""), delta(role=""), STOP]).read(99)
    assert briefly(events, noted=True) == [
        ("noted", "CF203"),
        ("noted", "CF501"),
        ("text", "a"),
        ("finished", "stop", "stop"),
    ]
    assert [one.anomaly for one in events if isinstance(one, AnomalyNoted)] == list(parser.anomalies)


def test_a_late_first_call_of_a_stream_without_anything() -> None:
    assert ChatCompletionParser().events() == []
    parser = ChatCompletionParser(status_code=500)
    parser.feed(b"oops")
    parser.close()
    assert parser.events() == []


FEW = {
    "text": [delta(content="a")] * 500,
    "reasoning and text": [delta(reasoning="h")] * 500 + [delta(content="a")] * 500,
    "arguments": [calls((0, "a", "f", "x"))] + [calls((0, None, None, "x"))] * 500,
    "interleaved calls": [calls((0, "a", "f", "x"), (1, "b", "g", "x"))] * 500,
    "usage": [chunk(usage={"prompt_tokens": count}) for count in range(500)],
    "audio": [delta(audio={"data": "QUJD"})] * 500,
}


@pytest.mark.parametrize("pieces", FEW.values(), ids=FEW)
def test_a_late_first_call_tells_it_in_few_events(pieces: list[bytes]) -> None:
    assert 0 < len(briefly(Stream(pieces).read(len(pieces))[1])) <= 4


# A whole message

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
MESSAGE = {"role": "assistant", "content": "a", "reasoning": "hm", "tool_calls": [CALL]}
OF_THE_MESSAGE = [("reasoning", "hm"), ("text", "a"), *A_STARTS, A_DONE, ("finished", "stop", "tool_calls")]
IN_A_CHOICE = chunk({"index": 0, "message": MESSAGE, "finish_reason": "stop"})
WHOLE_MESSAGES = {
    "the body": IN_A_CHOICE.removeprefix(b"data: "),
    "instead of deltas": IN_A_CHOICE + DONE,
    "after a delta": delta(reasoning="hm") + delta(content="a") + IN_A_CHOICE + DONE,
    "before the finish reason": IN_A_CHOICE.replace(b'"stop"', b"null") + STOP + DONE,
}


@each_case("late", [0, 1, 9], ids=["at once", "after the body", "late"])
@each_case("body", WHOLE_MESSAGES.values(), ids=WHOLE_MESSAGES)
def test_a_whole_message_is_told_too(body: bytes, late: int) -> None:
    assert briefly(Stream([body]).read(late)[1]) == OF_THE_MESSAGE


def test_what_a_message_adds_after_the_first_call_came() -> None:
    """It is told when the stream ends: deltas may still bring it. So is its finish reason."""
    parser = ChatCompletionParser()
    parser.feed(IN_A_CHOICE)
    assert briefly(parser.events()) == []
    parser.feed(DONE)
    assert briefly(parser.events()) == OF_THE_MESSAGE


# Events are values

EVERYTHING = [
    delta(content="a", reasoning="b", refusal="c", audio={"data": "QUI=", "transcript": "A"}, images=[IMAGE]),
    delta(annotations=[CITATION], tool_calls=[fragment(*A)], role=""),
    delta("tool_calls"),
    chunk(usage={"prompt_tokens": 1}),
    DONE,
]
ONE_OF_EACH = {type(one): one for one in events_of(*EVERYTHING)}
each = each_case("one", ONE_OF_EACH.values(), ids=lambda one: type(one).__name__)


def test_the_union_has_every_event() -> None:
    assert ONE_OF_EACH.keys() == set(get_args(ChatCompletionEvent))


@each
def test_events_are_frozen(one: Any) -> None:
    for field in dataclasses.fields(one):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, field.name, None)
    assert not hasattr(one, "__dict__")


@each
def test_events_of_equal_streams_are_equal(one: Any) -> None:
    again = next(other for other in events_of(*EVERYTHING) if type(other) is type(one))
    assert one == again
    assert [other for other in ONE_OF_EACH.values() if other == one] == [one]
    assert repr(one) == repr(again)
    assert hash(one) == hash(again)


def test_events_with_another_value_are_not_equal() -> None:
    first, second, *_ = events_of(delta(content="a"), delta(content="a", index=1), delta(content="b"))
    assert first != second
    a, b = (events_of(delta(content=text))[0] for text in ("a", "b"))
    assert a != b
    # The same piece of another text is an equal event: what it adds up to is not its value.
    _, second = events_of(delta(content="x"), delta(content="a"))
    assert a == second
    assert hash(a) == hash(second)


@pytest.mark.parametrize(
    ("id_", "type_", "name", "expected"),
    [
        ("srvtoolu_1", None, "f", True),
        ("a", "web_search", "f", True),
        (None, None, "", True),
        (None, "function", "f", False),
    ],
)
def test_a_call_that_the_server_ran_says_so_when_it_starts(
    id_: str | None, type_: str | None, name: str, expected: bool
) -> None:
    call = {"index": 0, "id": id_, "type": type_, "function": {"name": name, "arguments": "{}"}}
    started = [one for one in events_of(delta(tool_calls=[call]), STOP, DONE) if isinstance(one, ToolCallStarted)]
    assert [one.is_server_side for one in started] == [expected]


def test_the_repr_shows_what_an_event_tells() -> None:
    first, *_ = events_of(delta(content="a"))
    assert repr(first) == "TextDelta(choice=0, delta='a')"
    assert [repr(one) for one in events_of(calls((0, "a", "f", "{")))] == [
        "ToolCallStarted(choice=0, position=0, id='a', name='f', type='function')",
        "ToolCallArgumentsDelta(choice=0, position=0, delta='{')",
    ]
    assert [repr(one) for one in events_of(STOP, DONE)] == [
        "ChoiceFinished(choice=0, finish_reason='stop', outcome=<Outcome.STOP: 'stop'>)"
    ]


@each
def test_events_can_be_copied_and_pickled(one: Any) -> None:
    for made in (copy(one), deepcopy(one), pickle.loads(pickle.dumps(one)), dataclasses.replace(one)):  # noqa: S301 - our own
        assert type(made) is type(one)
        assert repr(made) == repr(one)
        assert isinstance(one, ToolCallDone) or made == one


def test_a_delta_that_was_made_by_hand_or_pickled_knows_its_own_piece() -> None:
    *_, last = events_of(delta(content="a"), delta(content="b"))
    assert TextDelta(0, "b") == last
    assert (copy(last).snapshot, deepcopy(last).snapshot) == ("ab", "ab")
    for made in (TextDelta(0, "b"), pickle.loads(pickle.dumps(last)), dataclasses.replace(last)):  # noqa: S301 - our own
        assert made.snapshot == "b"


# Was once wrong: the recorder compares with the call that it handed out, so one that was changed by its consumer is done again.
def test_what_a_consumer_does_to_an_event_changes_nothing_else() -> None:
    parser = ChatCompletionParser()
    parser.events()
    parser.feed(b"".join(EVERYTHING[:-1]))
    for one in parser.events():
        match one:
            case ImageReceived(image=image):
                image.clear()
            case AnnotationReceived(annotation=annotation):
                annotation.type = "mine"
                annotation.url_citation.url = "mine"
            case UsageReceived(usage=counts):
                counts.prompt_tokens = 99
            case ToolCallDone(call=call, parsed=parsed):
                call.id = "mine"
                call.function.arguments = "mine"
                parsed.clear()
    parser.feed(DONE)
    assert parser.events() == []
    completion = parser.completion()
    assert completion == Stream(EVERYTHING).read()[0].completion()
    message = completion.message
    assert message.images == [IMAGE]
    assert [one.model_dump(exclude_unset=True) for one in message.annotations or ()] == [CITATION]


# That they add up to the message, whatever the cuts, is a promise (`invariants.check_events`)


def shown(events: Iterable[ChatCompletionEvent]) -> list[Any]:
    """All that events show. Exceptions compare by identity, so what they say stands for them."""
    return [(plain(one), getattr(one, "snapshot", None)) for one in events]


def said(text: str) -> bytes:
    return delta(content=text)


# The events, the text that they give, and where the first anomaly stands among them.
IN_SHORT: dict[str, tuple[list[bytes], str, int | None]] = {
    "an anomaly": ([delta(role="assistant"), delta(refusal="no"), delta(content="", tool_calls=[fragment(None, "a", "f", "{}")]), STOP], "", 2),
    "texts": ([*map(said, ("a", "b", "c", 'd"')), delta(reasoning="h"), *map(said, ("e\n", "f")), STOP, DONE], 'abcd"e\nf', None),
    "half a pair": ([*map(said, ("a", "b", "c", "\ud83d", "d", "e")), STOP, DONE], "abc\N{REPLACEMENT CHARACTER}de", 3),
}  # fmt: skip


@each_case("late", [0, 3, 99])
@each_case(("pieces", "text", "place"), IN_SHORT.values(), ids=IN_SHORT)
def test_events_of_what_is_folded_in_short(pieces: list[bytes], text: str, place: int | None, late: int) -> None:
    stream = Stream(pieces)
    (parser, events), (folded_parser, folded_events) = stream.read(late), stream.read(late, folded=True)
    assert shown(folded_events) == shown(events)
    assert folded_parser.snapshot.text == parser.snapshot.text == text
    assert folded_parser.anomalies == parser.anomalies
    assert place is None or parser.anomalies[0].offset == len(b"".join(pieces[:place]))


# Sync and async


pytest_generate_tests = over_both_streams


def opened(front: Any, pieces: list[bytes], **options: Any) -> Any:
    return front(Playback(Answer(pieces)), **options)


async def collect(stream: Any, events: list[ChatCompletionEvent]) -> None:
    """Gather the events in a list that the caller keeps when the stream raises."""
    async with stream:
        async for one in stream.events():
            events.append(one)  # noqa: PERF401 - what came before an error is to be kept


HELLO = [delta(role="assistant"), delta(content="Hello"), delta(content=" world"), calls(A), delta("tool_calls"), DONE]  # fmt: skip
OF_HELLO = [("text", "Hello"), ("text", " world"), *A_STARTS, A_DONE, ("finished", "tool_calls", "tool_calls")]


@pytest.mark.parametrize("name", fronts.STREAMS)
@seldom
@given(stream=STREAMS, cuts=CUTS)
def test_every_front_gives_the_parsers_events(name: str, stream: Stream, cuts: list[int]) -> None:
    front, backend = fronts.STREAMS[name]
    parser, expected = stream.read()
    given_stream = front(stream.cut(cuts))
    told: list[ChatCompletionEvent] = []

    async def read() -> None:
        await collect(given_stream, told)

    if parser.error is None:
        anyio.run(read, backend=backend)
    else:
        with pytest.raises(type(parser.error)) as caught:
            anyio.run(read, backend=backend)
        assert caught.value is given_stream.error
    assert shown(told) == shown(expected)
    assert given_stream.end is parser.end


async def test_events_come_as_they_arrive(front: Any) -> None:
    clock = ManualClock()
    stream = front(Playback(Answer(paced(HELLO, pace=1)), clock=clock))
    told = [(short_repr(one)[0], clock()) async for one in stream.events()]
    assert told == [("text", 1), ("text", 2), ("started", 3), ("arguments", 3), ("done", 4), ("finished", 4)]


async def test_events_after_some_chunks_begin_with_what_has_arrived(front: Any) -> None:
    stream = opened(front, HELLO)
    chunks = aiter(stream)
    assert [(await anext(chunks)).text for _ in range(3)] == ["", "Hello", " world"]
    assert briefly([one async for one in stream.events()]) == [("text", "Hello world"), *OF_HELLO[2:]]


@pytest.mark.parametrize("pieces", [HELLO, [b"".join(HELLO)]], ids=["a read each", "one read"])
async def test_going_on_after_a_break(front: Any, pieces: list[bytes]) -> None:
    stream = opened(front, pieces)
    told = []
    for _ in range(2):
        async for one in stream.events():
            told.append(one)
            break
    told += [one async for one in stream.events()]
    assert briefly(told) == OF_HELLO


async def test_going_on_with_the_same_iterator(front: Any) -> None:
    stream = opened(front, [b"".join(HELLO)])
    events = stream.events()
    told = [await anext(events), await anext(events)]
    assert briefly(told + [one async for one in events]) == OF_HELLO


def test_any_of_2_000_snapshots() -> None:
    texts = chunk(*[choice(content="ab")] * 100) * 20
    deltas: list[Any] = [one for one in events_of(texts) if isinstance(one, TextDelta)]
    assert [len(deltas[place].snapshot) for place in (0, 999, 1_999)] == [2, 2_000, 4_000]
