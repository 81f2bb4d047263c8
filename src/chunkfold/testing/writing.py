"""What was said, written down in a dialect: one event for each piece.

A `Writer` knows where in the stream it is, and no more: which choices have begun, what their messages have so far, how
many pieces were written. Each kind of step is one method.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final, Literal, TypeAlias, cast

from chunkfold.testing.dialects import Calls, Dialect
from chunkfold.testing.error_shapes import ErrorShape, ToldError, error_event
from chunkfold.testing.wire import event, fragment


@dataclass(frozen=True, slots=True)
class Say:
    """Text in pieces, of one of the kinds that a message has."""

    kind: Literal["content", "reasoning", "refusal"]
    pieces: tuple[str, ...]
    choice: int = 0

    def __post_init__(self) -> None:
        """Refuse here what would otherwise become JSON of another type."""
        _check_texts(self.pieces)


@dataclass(frozen=True, slots=True)
class SaidCall:
    """A tool call whose arguments come in pieces."""

    name: str
    pieces: tuple[str, ...]
    id: str

    def __post_init__(self) -> None:
        """Refuse arguments that are not text yet."""
        _check_texts((self.name, *self.pieces))


@dataclass(frozen=True, slots=True)
class CallTools:
    """Tool calls; the pieces of several come in turns."""

    calls: tuple[SaidCall, ...]
    first: int = 0  # the index of the first of them
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """The finish reason of a choice, in OpenAI's words."""

    reason: str
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Fail:
    """An error, in the dialect's shape unless another is given."""

    error: ToldError
    shape: ErrorShape | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """One event, as `event` writes it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Bytes as they are."""

    data: bytes

    def __post_init__(self) -> None:
        """Refuse here what would otherwise fail where the body is joined."""
        if not isinstance(cast("object", self.data), bytes):
            raise TypeError(f"data: expected bytes, received {type(self.data).__name__}")


@dataclass(frozen=True, slots=True)
class SayDone:
    """The last event, `[DONE]`."""


def _check_texts(pieces: Iterable[str]) -> None:
    for piece in pieces:
        if not isinstance(cast("object", piece), str):
            raise TypeError(f"pieces: expected text, received {type(piece).__name__}")


Step: TypeAlias = Say | CallTools | Finish | Fail | Encoded | Verbatim | SayDone


@dataclass(frozen=True, slots=True)
class UsageCounts:
    """What the answer cost, in tokens."""

    prompt: int
    completion: int
    cached: int | None = None
    reasoning: int | None = None


class Writer:
    """Writes one stream.

    Args:
        dialect: How.
        head: The id, object, created and model of each chunk.
        usage: What it cost; None if the provider does not tell.
    """

    def __init__(self, dialect: Dialect, head: Mapping[str, Any], usage: UsageCounts | None) -> None:
        self._dialect = dialect
        self._head = head
        self._usage = usage
        self._begun: set[int] = set()
        self._messages: dict[int, str] = defaultdict(str)
        self._written = 0  # pieces of output
        self._is_first = True  # no chunk was made yet

    def write(self, steps: Sequence[Step]) -> Iterator[bytes]:
        """The events of the stream; bytes that are none stand by themselves."""
        yield from self._ahead(steps)
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
                    told = step.error._replace(head=self._finish_head())
                    yield self._framed(error_event(told, step.shape or self._dialect.error))
                case Encoded():
                    yield self._framed(step.data)
                case Verbatim():
                    yield step.data
                case SayDone():
                    yield from filter(None, [self._framed(self._dialect.done)])

    def _ahead(self, steps: Sequence[Step]) -> Iterator[bytes]:
        if any(isinstance(step, Say | CallTools | Finish) for step in steps):
            yield from filter(None, [self._dialect.keep_alive])
            yield from map(self._event, self._dialect.head)

    def _say(self, step: Say) -> Iterator[bytes]:
        for piece in step.pieces:
            if step.kind == "content":
                self._messages[step.choice] += piece
            fields: dict[str, Any] = self._reasoning(piece) if step.kind == "reasoning" else {step.kind: piece}
            if fields:
                yield from self._output(step.choice, fields)
        if step.kind == "reasoning" and any(step.pieces):
            yield from self._sign(step.choice)

    def _sign(self, choice: int) -> Iterator[bytes]:
        if self._dialect.reasoning and self._dialect.signature is not None:
            signed = {"type": "reasoning.text", "index": 0, "signature": self._dialect.signature}
            yield from self._output(choice, {"reasoning_details": [signed]})

    def _reasoning(self, piece: str) -> dict[str, Any]:
        forms: dict[str, dict[str, Any]] = {
            "reasoning_content": {"reasoning_content": piece},
            "reasoning": {"reasoning": piece},
            "reasoning_details": {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": piece}]},
            "thinking": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]},
        }
        return {name: value for form in self._dialect.reasoning for name, value in forms[form].items()}

    def _call(self, step: CallTools) -> Iterator[bytes]:
        of_calls = [self._fragments(call, step.first, place) for place, call in enumerate(step.calls)]
        for in_turn in zip_longest(*of_calls):
            for part in in_turn:
                if part is not None:
                    yield from self._output(step.choice, {"tool_calls": [part]})

    def _fragments(self, call: SaidCall, first: int, place: int) -> list[dict[str, Any]]:
        """The fragments of a call, which is the one at this place among those that are said together."""
        parts = _FRAGMENTS[self._dialect.calls](call, first + place)
        if self._dialect.object_arguments and len(call.pieces) == 1:
            parts = [_with_object(part) for part in parts]
        return [{**parts[0], **self._dialect.more_of_call}, *parts[1:]] if place == 0 else parts

    def _finish(self, step: Finish, *, is_last: bool) -> Iterator[bytes]:
        dialect = self._dialect
        reason = dialect.finish_reasons.get(step.reason, step.reason)
        choice: dict[str, Any] = {"index": step.choice, "delta": self._role_in_each(), "finish_reason": reason}
        if dialect.message != "never":
            choice["message"] = self._message(step.choice)
        usage = self._counts(self._usage) if is_last and self._usage is not None else None
        if usage is not None and dialect.usage == "choice":
            choice["usage"] = usage
        chunk = self._chunk([choice], self._finish_head())
        if usage is not None and dialect.usage in ("finish", "each", "x_groq"):
            chunk["usage"] = usage
        if usage is not None and dialect.usage == "x_groq":
            chunk["x_groq"] = {**chunk.get("x_groq", {"id": "req_1"}), "usage": usage}
        yield self._event(chunk)
        if usage is not None:
            yield from map(self._event, self._trailers(step, usage))

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
        """What each delta begins with."""
        roles = {"each": "assistant", "empty": ""}
        return {"role": roles[self._dialect.role], "content": ""} if self._dialect.role in roles else {}

    def _open_choice(self, index: int, delta: dict[str, Any]) -> dict[str, Any]:
        """A choice that goes on."""
        choice: dict[str, Any] = {"index": index, "delta": delta}
        if self._dialect.has_open_finish_reason:
            choice["finish_reason"] = self._dialect.open_finish_reason
        if self._dialect.message == "each":
            choice["message"] = self._message(index)
        return choice

    def _message(self, index: int) -> dict[str, Any]:
        return {"role": "assistant", "content": self._messages[index]}

    def _chunk(self, choices: list[dict[str, Any]], head: Mapping[str, Any] | None = None) -> dict[str, Any]:
        chunk: dict[str, Any] = {**(self._head_without() if head is None else head), "choices": choices}
        if self._is_first:
            chunk |= self._dialect.more_of_first
            self._is_first = False
        if self._usage is not None and self._dialect.usage in ("trailer", "finish") and self._dialect.null_usage:
            chunk["usage"] = None
        elif self._usage is not None and self._dialect.usage == "each":
            before = self._dialect.usage_before
            chunk["usage"] = self._counts(self._so_far(self._usage)) if before is None else before
        return chunk

    def _head_without(self, left_out: Iterable[str] = ()) -> dict[str, Any]:
        absent = {*self._dialect.left_out, *left_out}
        head = {**self._head, **dict.fromkeys(self._dialect.empty, "")}
        return {name: value for name, value in head.items() if name not in absent}

    def _finish_head(self) -> dict[str, Any]:
        """The head of a chunk with a finish reason."""
        head = self._head_without(self._dialect.finish_left_out)
        return head if self._dialect.finish_object is None else {**head, "object": self._dialect.finish_object}

    def _so_far(self, usage: UsageCounts) -> UsageCounts:
        """As much of the usage as there is after so many pieces."""
        completion = min(self._written, usage.completion)
        reasoning = None if usage.reasoning is None else min(usage.reasoning, completion)
        return replace(usage, completion=completion, reasoning=reasoning)

    def _counts(self, usage: UsageCounts) -> dict[str, Any]:
        counts: dict[str, Any] = {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
        }
        if usage.cached is not None:
            counts |= self._cached(usage.cached, usage.prompt)
        if usage.reasoning is not None:
            counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
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
        """An event as the dialect frames it. A space with which the data itself begins keeps the one before it."""
        return data if self._dialect.has_space else re.sub(rb"(?m)^(\w+): (?! )", rb"\1:", data)


def _with_object(part: dict[str, Any]) -> dict[str, Any]:
    """A fragment with an object for arguments that are the JSON of one."""
    function = part["function"]
    try:
        arguments = json.loads(function.get("arguments", ""))
    except ValueError:
        return part
    return {**part, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else part


def _first(call: SaidCall, index: int | None, id: str | None) -> dict[str, Any]:
    return fragment(index, id, call.name, "")


def _whole(call: SaidCall, index: int | None) -> list[dict[str, Any]]:
    return [fragment(index, call.id, call.name, "".join(call.pieces))]


def _by_index(call: SaidCall, index: int) -> list[dict[str, Any]]:
    return [_first(call, index, call.id), *(fragment(index, arguments=piece) for piece in call.pieces)]


def _by_id(call: SaidCall, _index: int) -> list[dict[str, Any]]:
    return [_first(call, None, call.id), *(fragment(None, call.id, "", piece) for piece in call.pieces)]


def _repeated(call: SaidCall, index: int) -> list[dict[str, Any]]:
    return [fragment(index, call.id, call.name, piece) for piece in call.pieces or ("",)]


def _then_empty(call: SaidCall, index: int) -> list[dict[str, Any]]:
    return [_first(call, index, call.id), *(fragment(index, "", "", piece) for piece in call.pieces)]


def _fresh_ids(call: SaidCall, index: int) -> list[dict[str, Any]]:
    numbered = enumerate(call.pieces, 1)
    later = [fragment(index, f"{call.id}_{number}", arguments=piece) for number, piece in numbered]
    return [_first(call, index, call.id), *later]


def _without_id(call: SaidCall, index: int) -> list[dict[str, Any]]:
    return [_first(call, index, None), *(fragment(index, arguments=piece) for piece in call.pieces)]


def _name_in_two(call: SaidCall, index: int) -> list[dict[str, Any]]:
    first, *rest = _halves(call.name)
    name = [fragment(index, call.id, first), *(fragment(index, name=piece) for piece in rest)]
    return [*name, *(fragment(index, arguments=piece) for piece in call.pieces)]


def _halves(name: str) -> tuple[str, ...]:
    """A name in two pieces, unless the second would look like a repetition of the first."""
    first, second = name[: len(name) // 2], name[len(name) // 2 :]
    return (first, second) if first and not second.startswith(first) else (name,)


# The fragments of a tool call; see `Dialect.calls`.
_FRAGMENTS: Final[dict[Calls, Callable[[SaidCall, int], list[dict[str, Any]]]]] = {
    "index": _by_index,
    "whole": _whole,
    "whole without index": lambda call, _index: _whole(call, None),
    "whole at 0": lambda call, _index: _whole(call, 0),
    "id": _by_id,
    "repeated": _repeated,
    "empty": _then_empty,
    "fresh ids": _fresh_ids,
    "no ids": _without_id,
    "name in two": _name_in_two,
}
