"""Write the steps of a stream in a dialect: one event for each piece.

A `Writer` only keeps its position in the stream: which choices have started, their messages so far, and how many pieces
were written. Each kind of step has one method.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final

from chunkfold.testing.answers import Raw
from chunkfold.testing.dialects import Calls, Dialect, Reasoning
from chunkfold.testing.error_shapes import ERROR_SHAPES
from chunkfold.testing.expected import sent_steps
from chunkfold.testing.steps import (
    CallTools,
    Encoded,
    Fail,
    Finish,
    SaidCall,
    Say,
    SayDone,
    Step,
    UsageCounts,
)
from chunkfold.testing.wire import event, fragment, usage


class Writer:
    """Writes one stream; the head has the id, object, created and model of each chunk."""

    def __init__(self, dialect: Dialect, head: Mapping[str, Any], usage: UsageCounts | None) -> None:
        self._dialect = dialect
        self._head = head
        self._usage = usage
        self._begun: set[int] = set()
        self._thinking: set[int] = set()  # choices whose thoughts are content, in a tag that is open
        self._messages: dict[int, list[str]] = defaultdict(list)  # in pieces: text that grows is copied each time
        self._written = 0  # pieces of output
        self._is_first = True  # no chunk was made yet

    def write(self, steps: Sequence[Step]) -> Iterator[bytes]:
        """The events of the stream; raw bytes that are not events are items of their own."""
        yield from self._before_first(steps)
        finishes = [step for step in steps if isinstance(step, Finish)]
        for step in steps:
            match step:
                case Say():
                    yield from self._say(step)
                case CallTools():
                    yield from self._call(step)
                case Finish():
                    yield from self._finish(step, is_last=step is finishes[-1])
                case Fail():
                    error = step.error._replace(head=self._head_of(finishes=True))
                    yield self._framed(ERROR_SHAPES[step.shape or self._dialect.error](error))
                case Encoded():
                    yield self._framed(step.data)
                case Raw():
                    yield step.data
                case SayDone():
                    yield from filter(None, [self._framed(self._dialect.done)])

    def _before_first(self, steps: Sequence[Step]) -> Iterator[bytes]:
        """The events that the dialect sends before the first chunk, if there is one."""
        sent = sent_steps(steps, self._dialect)
        choices = [step.choice for step in sent if isinstance(step, Say | CallTools | Finish)]
        if choices:
            yield from filter(None, [self._dialect.keep_alive])
            for head in self._dialect.head:
                yield self._event({**head, "choices": [{**one, "index": min(choices)} for one in head["choices"]]})

    def _say(self, step: Say) -> Iterator[bytes]:
        for piece in step.pieces:
            if step.kind == "content":
                self._messages[step.choice].append(piece)
            fields = self._reasoning(piece, step.choice) if step.kind == "reasoning" else self._text(piece, step)
            if fields:
                yield from self._output(step.choice, fields)
        if step.kind == "reasoning" and any(step.pieces) and self._dialect.reasoning and self._dialect.after_reasoning:
            yield from self._output(step.choice, dict(self._dialect.after_reasoning))

    def _text(self, piece: str, step: Say) -> dict[str, Any]:
        """A piece of text; the first one after thoughts that are content closes their tag."""
        closes = step.kind == "content" and step.choice in self._thinking
        if closes:
            self._thinking.remove(step.choice)
        return {step.kind: f"</thought>{piece}" if closes else piece}

    def _reasoning(self, piece: str, choice: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for form in self._dialect.reasoning:
            fields |= self._thought(piece, choice) if form == "thoughts" else _REASONING[form](piece)
        return fields

    def _thought(self, piece: str, choice: int) -> dict[str, Any]:
        opened = piece if choice in self._thinking else f"<thought>{piece}"
        self._thinking.add(choice)
        return {"content": opened, "extra_content": {"google": {"thought": True}}}

    def _call(self, step: CallTools) -> Iterator[bytes]:
        of_calls = [self._fragments(call, step.first, place) for place, call in enumerate(step.calls)]
        in_turns = (part for parts in zip_longest(*of_calls) for part in parts if part is not None)
        deltas = of_calls if self._dialect.calls == "in one delta" else ([part] for part in in_turns)
        for parts in deltas:
            yield from self._output(step.choice, {"tool_calls": parts})

    def _fragments(self, call: SaidCall, first: int, place: int) -> list[dict[str, Any]]:
        """The fragments of a call; `place` is its position among the calls of the step."""
        parts = _FRAGMENTS[self._dialect.calls](call, first + place)
        if self._dialect.object_arguments and len(call.pieces) == 1:
            parts = [_with_object(part) for part in parts]
        return [{**parts[0], **self._dialect.more_of_call}, *parts[1:]] if place == 0 else parts

    def _finish(self, step: Finish, *, is_last: bool) -> Iterator[bytes]:
        usage = None
        if is_last and self._usage is not None:
            usage = self._counts(self._usage)
            self._written = self._usage.completion  # so that no later chunk has less
        if self._dialect.has_finish_reason:
            yield from self._end_choice(step, usage)
        if usage is not None:
            yield from map(self._event, self._trailers(step, usage))

    def _end_choice(self, step: Finish, usage: Mapping[str, Any] | None) -> Iterator[bytes]:
        dialect = self._dialect
        if dialect.before_finish is not None:
            yield self._event(self._chunk([{"index": step.choice, "finish_reason": None, **dialect.before_finish}]))
        reason = dialect.finish_reasons.get(step.reason, step.reason)
        choice: dict[str, Any] = {"index": step.choice, "delta": self._role_in_each(), "finish_reason": reason}
        if dialect.message != "never":
            choice["message"] = self._message(step.choice)
        if usage is not None and dialect.usage == "choice":
            choice["usage"] = usage
        chunk = self._chunk([choice], finishes=True)
        if usage is not None and dialect.usage in ("finish", "each", "x_groq"):
            chunk["usage"] = usage
        if usage is not None and dialect.usage == "x_groq":
            chunk["x_groq"] = {**chunk.get("x_groq", {"id": "req_1"}), "usage": usage}
        yield self._event(chunk)

    def _trailers(self, step: Finish, usage: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        if self._dialect.usage == "trailer":
            yield {**self._chunk([]), "usage": usage}
        elif self._dialect.usage == "bare trailer":
            yield {"choices": [], "usage": usage}
        elif self._dialect.usage == "after finish":
            delta = {"content": "", **self._role_in_each()}
            yield {**self._chunk([self._open_choice(step.choice, delta)]), "usage": usage}

    def _output(self, choice: int, fields: dict[str, Any]) -> Iterator[bytes]:
        """The chunk of one piece, and before the first that of the role."""
        is_first = choice not in self._begun
        self._begun.add(choice)
        if self._dialect.role == "first" and is_first:
            yield self._event(self._chunk([self._open_choice(choice, {"role": "assistant", "content": ""})]))
        self._written += 1
        role = {"role": "assistant"} if self._dialect.role == "with output" and is_first else self._role_in_each()
        yield self._event(self._chunk([self._open_choice(choice, {**role, **fields})]))

    def _role_in_each(self) -> dict[str, Any]:
        """The fields that each delta starts with."""
        roles = {"each": "assistant", "empty": ""}
        return {"role": roles[self._dialect.role], "content": ""} if self._dialect.role in roles else {}

    def _open_choice(self, index: int, delta: dict[str, Any]) -> dict[str, Any]:
        """A choice that is not finished."""
        choice: dict[str, Any] = {"index": index, "delta": delta}
        if self._dialect.has_open_finish_reason:
            choice["finish_reason"] = self._dialect.open_finish_reason
        if self._dialect.message == "each":
            choice["message"] = self._message(index)
        return choice

    def _message(self, index: int) -> dict[str, Any]:
        return {"role": "assistant", "content": "".join(self._messages[index])}

    def _chunk(self, choices: list[dict[str, Any]], *, finishes: bool = False) -> dict[str, Any]:
        chunk: dict[str, Any] = {**self._head_of(finishes=finishes), "choices": choices}
        if self._is_first:
            chunk |= self._dialect.more_of_first
            self._is_first = False
        if self._usage is not None and self._dialect.usage in ("trailer", "finish") and self._dialect.null_usage:
            chunk["usage"] = None
        elif self._usage is not None and self._dialect.usage == "each":
            before = self._dialect.usage_before
            chunk["usage"] = self._counts(self._so_far(self._usage)) if before is None else before
        return chunk

    def _head_of(self, *, finishes: bool) -> dict[str, Any]:
        """The head of a chunk, with a finish reason or without."""
        dialect = self._dialect
        absent = {*dialect.left_out, *(dialect.finish_left_out if finishes else ())}
        head = {**self._head, **dict.fromkeys(dialect.empty, "")}
        head = {name: value for name, value in head.items() if name not in absent}
        if finishes and dialect.finish_object is not None:
            head["object"] = dialect.finish_object
        return head

    def _so_far(self, usage: UsageCounts) -> UsageCounts:
        """The usage after the pieces written so far."""
        completion = min(self._written, usage.completion)
        reasoning = None if usage.reasoning is None else min(usage.reasoning, completion)
        return replace(usage, completion=completion, reasoning=reasoning)

    def _counts(self, told: UsageCounts) -> dict[str, Any]:
        counts = usage(told.prompt, told.completion)
        if told.cached is not None:
            counts |= self._cached(told.cached, told.prompt)
        if told.reasoning is not None:
            counts["completion_tokens_details"] = {"reasoning_tokens": told.reasoning}
        for name, value in self._dialect.more_usage.items():
            counts[name] = {**value, **counts.get(name, {})} if isinstance(value, Mapping) else value
        return counts

    def _cached(self, cached: int, prompt: int) -> dict[str, Any]:
        match self._dialect.cached_tokens:
            case "cached_tokens":
                return {"cached_tokens": cached}
            case "prompt_cache_hit_tokens":
                hits = {"prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": prompt - cached}
                return {"prompt_tokens_details": {"cached_tokens": cached}, **hits}
            case "prompt_tokens_details":
                return {"prompt_tokens_details": {"cached_tokens": cached}}

    def _event(self, payload: Mapping[str, Any]) -> bytes:
        return self._framed(event(payload))

    def _framed(self, data: bytes) -> bytes:
        """An event as the dialect frames it. The optional space is kept if the data itself starts with a space."""
        return data if self._dialect.has_space else re.sub(rb"(?m)^(\w+): (?! )", rb"\1:", data)


_REASONING: Final[dict[Reasoning, Callable[[str], dict[str, Any]]]] = {
    "reasoning_content": lambda piece: {"reasoning_content": piece},
    "reasoning": lambda piece: {"reasoning": piece},
    "reasoning_text": lambda piece: {"reasoning_text": piece},
    "reasoning_details": lambda piece: {
        "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": piece}],
    },
    "reasoning_parts": lambda piece: {
        "content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": piece, "signature": ""}]}],
    },
    "thinking": lambda piece: {
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}],
    },
    "thinking_blocks": lambda piece: {"thinking_blocks": [{"type": "thinking", "thinking": piece}]},
}


# The fragments of a tool call, for each of the ways that `Dialect.calls` names


def _with_object(part: dict[str, Any]) -> dict[str, Any]:
    """A fragment whose arguments, if they are the JSON of an object, are that object."""
    function = part["function"]
    try:
        arguments = json.loads(function.get("arguments", ""))
    except (ValueError, RecursionError):
        return part
    return {**part, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else part


def _whole(call: SaidCall, index: int | None) -> list[dict[str, Any]]:
    return [fragment(index, call.id, call.name, "".join(call.pieces))]


def _in_pieces(
    call: SaidCall, index: int | None, id: str | None, later_id: str | None = None, later_name: str | None = None
) -> list[dict[str, Any]]:
    """The id and the name first, then the pieces, of which each has the later id and name."""
    later = (fragment(index, later_id, later_name, piece) for piece in call.pieces)
    return [fragment(index, id, call.name, ""), *later]


def _repeated(call: SaidCall, index: int) -> list[dict[str, Any]]:
    return [fragment(index, call.id, call.name, piece) for piece in call.pieces or ("",)]


def _fresh_ids(call: SaidCall, index: int) -> list[dict[str, Any]]:
    numbered = enumerate(call.pieces, 1)
    later = [fragment(index, f"{call.id}_{number}", arguments=piece) for number, piece in numbered]
    return [fragment(index, call.id, call.name, ""), *later]


def _name_in_two(call: SaidCall, index: int) -> list[dict[str, Any]]:
    first, *rest = _halves(call.name)
    name = [fragment(index, call.id, first), *(fragment(index, name=piece) for piece in rest)]
    return [*name, *(fragment(index, arguments=piece) for piece in call.pieces)]


def _halves(name: str) -> tuple[str, ...]:
    """A name in two pieces, unless the second would look like a repetition of the first."""
    first, second = name[: len(name) // 2], name[len(name) // 2 :]
    return (first, second) if first and not second.startswith(first) else (name,)


_FRAGMENTS: Final[dict[Calls, Callable[[SaidCall, int], list[dict[str, Any]]]]] = {
    "index": lambda call, index: _in_pieces(call, index, call.id),
    "whole": _whole,
    "whole without index": lambda call, _index: _whole(call, None),
    "whole at 0": lambda call, _index: _whole(call, 0),
    "id": lambda call, _index: _in_pieces(call, None, call.id, call.id, ""),
    "repeated": _repeated,
    "empty": lambda call, index: _in_pieces(call, index, call.id, "", ""),
    "fresh ids": _fresh_ids,
    "no ids": lambda call, index: _in_pieces(call, index, None),
    "name in two": _name_in_two,
    "in one delta": lambda call, index: _in_pieces(call, index, call.id),
}
