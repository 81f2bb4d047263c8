"""Folded again, the events are the message."""

import base64
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from chunkfold import (
    AnnotationReceived,
    AnomalyNoted,
    AudioDelta,
    ChatCompletionEvent,
    ChoiceFinished,
    CompletionUsage,
    ImageReceived,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageReceived,
)
from invariants.holding import hold, plain, same
from invariants.readings import Reading
from invariants.values import check_error


@dataclass
class Told:
    """What events add up to."""

    texts: defaultdict[tuple[type, int], str] = field(default_factory=lambda: defaultdict(str))
    arguments: dict[tuple[int, int], str] = field(default_factory=dict)
    done: dict[tuple[int, int], Any] = field(default_factory=dict)
    images: defaultdict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    audio: defaultdict[int, bytes] = field(default_factory=lambda: defaultdict(bytes))
    transcripts: defaultdict[int, str] = field(default_factory=lambda: defaultdict(str))
    annotations: defaultdict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    finishes: dict[int, tuple[str, str]] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)  # choices with a call that was done after their finish reason
    usage: CompletionUsage | None = None
    rules: list[str] = field(default_factory=list)

    def take(self, event: ChatCompletionEvent) -> None:
        """Take the next one."""
        match event:
            case TextDelta() | ReasoningDelta() | RefusalDelta():
                hold("a delta is not empty", event.delta)
                self.texts[type(event), event.choice] += event.delta
                same("a delta knows its text", event.snapshot, self.texts[type(event), event.choice])
            case ToolCallStarted() | ToolCallArgumentsDelta() | ToolCallDone():
                self._take_call(event, (event.choice, event.position))
            case AudioDelta():
                self.audio[event.choice] += event.data
                self.transcripts[event.choice] += event.transcript
            case ImageReceived():
                self.images[event.choice].append(event.image)
            case AnnotationReceived():
                self.annotations[event.choice].append(event.annotation)
            case ChoiceFinished():
                finish = event.finish_reason, event.outcome
                hold(
                    "a choice that finishes again does so in another way, or after another call",
                    self.finishes.get(event.choice) != finish or event.choice in self.late,
                    event,
                )
                self.finishes[event.choice] = finish
                self.late.discard(event.choice)
            case UsageReceived():
                hold("usage that is told again has changed", plain(event.usage) != plain(self.usage), event)
                self.usage = event.usage
            case AnomalyNoted():
                self.rules.append(event.anomaly.rule.id)

    def _take_call(
        self, event: ToolCallStarted | ToolCallArgumentsDelta | ToolCallDone, place: tuple[int, int]
    ) -> None:
        match event:
            case ToolCallStarted():
                hold("a call starts once", place not in self.arguments, event)
                self.arguments[place] = ""
            case ToolCallArgumentsDelta():
                hold("a delta is not empty", event.delta)
                if place in self.done and self.arguments[place] == "{}" and event.snapshot == event.delta:
                    self.arguments[place] = ""  # an empty object (CF310) that was a placeholder
                self.arguments[place] += event.delta
                same("a delta knows its text", event.snapshot, self.arguments[place])
            case ToolCallDone():
                same("a call that is done is what was told of it", event.call.arguments, self.arguments[place])
                hold("it is parsed, or says why not", (event.parsed is None) == (event.error is not None), event)
                if event.error is not None:
                    check_error(event.error)
                self.done[place] = event.call
                if event.choice in self.finishes:
                    self.late.add(event.choice)


def check_events(reading: Reading) -> None:
    """Folded again, the events are the message."""
    snapshot, anomalies = reading.parser.snapshot, reading.parser.anomalies
    told = Told()
    for event in reading.events:
        told.take(event)
    same("anomalies are told, once each", told.rules, [anomaly.rule.id for anomaly in anomalies])
    same("usage is told", plain(told.usage), plain(vars(snapshot).get("usage")))
    finished = [choice for choice in snapshot.choices if choice.finish_reason]
    finishes = {choice.index: (choice.finish_reason, choice.outcome) for choice in finished}
    same("finish reasons are told", told.finishes, finishes)
    is_complete = reading.parser.end is not None and reading.parser.end.complete
    hold("the last finish reason comes after every call", not (is_complete and told.late), told.late)
    choices = {event.choice for event in reading.events if not isinstance(event, UsageReceived | AnomalyNoted)}
    hold("events are of choices that are there", choices <= {choice.index for choice in snapshot.choices}, choices)
    for choice in snapshot.choices:
        index, message = choice.index, vars(choice.message)
        for kind, name in ((TextDelta, "content"), (ReasoningDelta, "reasoning"), (RefusalDelta, "refusal")):
            same(f"the {name} is told", told.texts[kind, index], message.get(name) or "")
        in_content = [part for part in choice.message.content_parts or () if part.get("type") in ("image_url", "image")]
        images = [*(message.get("images") or ()), *in_content]
        same("images are told", sorted(map(plain, told.images[index])), sorted(map(plain, images)))
        same("annotations are told", plain(told.annotations[index]), plain(message.get("annotations") or []))
        spoken = {} if message.get("audio") is None else vars(message["audio"])
        same("a transcript is told", told.transcripts[index], spoken.get("transcript") or "")
        if "CF218" not in told.rules:  # else its pieces are not base64
            same("audio is told", told.audio[index], base64.b64decode(spoken.get("data") or ""))
        if is_complete:
            calls = [told.done.get((index, position)) for position, _ in enumerate(choice.message.tool_calls)]
            same("calls are told when they are done", plain(calls), plain(choice.message.tool_calls))
        for position, call in enumerate(choice.message.tool_calls):
            text = told.arguments.get((index, position))
            if text or (call.name and call.arguments not in ("", "{}")):  # else it need not have started
                same("arguments are told", text, call.arguments)
