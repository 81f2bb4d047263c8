"""Events as rows of a table, and the streams that they are read from."""

from collections.abc import Iterable
from typing import Any

import pytest
from made_streams import Stream

from chunkfold import (
    AnnotationReceived,
    AnomalyNoted,
    AudioDelta,
    ChatCompletionEvent,
    ChoiceFinished,
    ImageReceived,
    ParseError,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageReceived,
)
from chunkfold.testing import delta, fragment

IMAGE = {"type": "image_url", "image_url": {"url": "data:,x"}}
CITATION = {"type": "url_citation", "url_citation": {"url": "https://a.test", "title": "t"}}
A_STARTED = ("started", 0, "a", "f")
A, B, C = (0, "a", "f", '{"x":1}'), (1, "b", "g", '{"x":2}'), (2, "c", "h", '{"x":3}')
A_STARTS = [A_STARTED, ("arguments", 0, '{"x":1}')]
B_STARTS = [("started", 1, "b", "g"), ("arguments", 1, '{"x":2}')]
A_DONE, B_DONE = ("done", 0, '{"x":1}', {"x": 1}), ("done", 1, '{"x":2}', {"x": 2})


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


def only(kind: type[Any], events: Iterable[ChatCompletionEvent]) -> list[Any]:
    """The events of one type."""
    return [one for one in events if isinstance(one, kind)]


def calls(*fragments: Any) -> bytes:
    """A chunk with fragments of tool calls, as they are or by what `fragment` takes."""
    return delta(tool_calls=[one if isinstance(one, dict) else fragment(*one) for one in fragments])
