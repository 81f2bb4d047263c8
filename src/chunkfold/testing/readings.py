"""The result that a client gets from a body, as a value to which any client's result can be converted."""

import inspect
import json
import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from chunkfold.models.outcome import Outcome, outcome_of

Ending: TypeAlias = Literal["complete", "error", "cut", "invalid"]

_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_LONGEST_LINE: Final = 150
_CRASHES: Final = frozenset(
    {
        AssertionError,
        AttributeError,
        IndexError,
        KeyError,
        NameError,
        RecursionError,
        TypeError,
        UnboundLocalError,
        UnicodeDecodeError,
        UnicodeEncodeError,
        ZeroDivisionError,
        json.JSONDecodeError,
    }
)
_OURS: Final = ("chunkfold.testing.", "asyncio.", "concurrent.futures.")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: its name, its raw arguments, and its id, None where none was sent or none is known."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The result that a client got from a body. None always means that the client does not report the value.

    Attributes:
        texts: The text of each choice that the client keeps separate.
        calls: The tool calls of the first choice.
        reasoning: The reasoning text.
        finish_reason: "" if the client reports finish reasons and there was none.
        usage: Counts by OpenAI's names; empty if no usage was sent.
        refused: The exception or the explicit error, in one line; None if the client returned an answer.
        ending: The kind of ending that the client reports.
        has_crashed: Whether `refused` shows a bug: it is a built-in exception or one of `json`, for a missing key or
            attribute, or for JSON or UTF-8 that does not parse. A client's own exception class never counts, even if
            it inherits from one of these.
    """

    texts: tuple[str, ...] | None = None
    calls: tuple[Call, ...] | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Mapping[str, int] | None = None
    refused: str | None = None
    ending: Ending | None = None
    has_crashed: bool = False

    @property
    def text(self) -> str:
        """The text of the first choice."""
        return self.texts[0] if self.texts else ""


def as_reading(value: Any) -> Reading:
    """Create a reading from a function's result: an object or a dict with `text` and `tool_calls`.

    It may also have `reasoning`, `finish_reason`, `usage` and `error`. Absent text and calls count as empty, or as not
    reported if there is an `error`. A string is a text alone, and a result with `choices` is a completion in OpenAI's
    form.

    Raises:
        TypeError: It has none of these forms.
    """
    __tracebackhide__ = True
    if isinstance(value, Reading):
        return value
    if isinstance(value, str):
        return Reading(texts=(value,))
    error = _get(value, "error")
    if has_choices(value):
        choices: list[Any] = list(_get(value, "choices") or ())
        choice = choices[0] if choices else {"finish_reason": ""}
        message = _get(choice, "message")
        texts = tuple(as_text(_get(_get(each, "message"), "content")) for each in choices)
    elif error or _has(value, "text") or _has(value, "tool_calls"):
        message = choice = value
        texts = () if error and _get(value, "text") is None else (as_text(_get(value, "text")),)
    else:
        what = "text, or an object or a dict with text and tool_calls"
        raise TypeError(f"result: expected {what}, received {type(value).__name__}")
    absent = None if error else ()
    return Reading(
        texts=texts or absent,
        calls=tuple(map(as_call, _get(message, "tool_calls") or ())) or absent,
        reasoning=as_text(_get(message, "reasoning")) if _has(message, "reasoning") else None,
        finish_reason=as_text(_get(choice, "finish_reason")) if _has(choice, "finish_reason") else None,
        usage=counts(_get(value, "usage")) if _has(value, "usage") else None,
        refused=one_line(str(error)) if error else None,
    )


def has_choices(value: Any) -> bool:
    """Whether it is a completion in OpenAI's form."""
    return _has(value, "choices")


def refusal(error: Exception) -> Reading:
    """The reading where a client raised."""
    line = one_line(f"{type(error).__name__}: {error}".rstrip(": "))
    return Reading(refused=line, has_crashed=type(error) in _CRASHES)


def without_our_frames(error: Exception) -> Exception:
    """The error with a traceback that starts in the caller's code, without frames of this kit and the event loop."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        module: str = traceback.tb_frame.f_globals.get("__name__", "")
        if not module.startswith(_OURS):
            break
        traceback = traceback.tb_next
    return error.with_traceback(traceback)


def is_failure(finish_reason: str | None) -> bool:
    """Whether a finish reason is itself the word for an error."""
    return outcome_of(finish_reason) is Outcome.ERROR


def has_right_ending(ending: Ending, reading: Reading) -> bool:
    """Whether a client treats a stream with this ending correctly, by the rules of the hostile set.

    A complete stream has to give an answer. Every other stream has to be refused, and a crash is not a refusal; or the
    answer's finish reason has to show it: a word for an error, else the absence of one. A client that distinguishes the
    kinds of endings has to report the right one.
    """
    if reading.ending not in (None, ending):
        return False
    if reading.refused is not None:
        return ending != "complete" and not reading.has_crashed
    if ending == "error":
        return is_failure(reading.finish_reason)
    return ending == "complete" or reading.finish_reason == ""


def awaited(value: Any) -> Any:
    """Return the result of an awaitable; anything else is returned unchanged.

    The awaitable runs on asyncio, in a thread of its own, so this works even inside another event loop.
    """
    if not inspect.isawaitable(value):
        return value
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _await(value)).result()


async def _await(value: Awaitable[Any]) -> Any:
    return await value


def as_call(call: Any) -> Call:
    """A tool call from an object or a dict; the input of a custom tool is its arguments."""
    function = _get(call, "function") or _get(call, "custom") or call
    arguments = as_text(_get(function, "arguments") or _get(function, "input"))
    sent = _get(call, "id")
    return Call(as_text(_get(function, "name")), arguments, None if sent is None else str(sent))


def as_text(value: Any) -> str:
    """Text unchanged, None as "", anything else as JSON or as its repr."""
    return value if isinstance(value, str) else json.dumps(value, default=str) if value else ""


def counts(usage: Any, names: Mapping[str, str] | None = None) -> dict[str, int]:
    """The counts of a usage, an object or a dict; `names` gives the client's names for OpenAI's."""
    found = {name: _get(usage, (names or {}).get(name, name)) for name in _COUNTS}
    return {name: count for name, count in found.items() if count is not None}


def same_calls(expected: tuple[Call, ...], calls: tuple[Call, ...]) -> bool:
    """Whether they are the same: names, ids where both have them, and arguments that mean the same JSON."""
    return len(expected) == len(calls) and all(map(_same_call, expected, calls))


def one_line(text: str) -> str:
    """A bounded line of text that is the same in every run: without line ends and memory addresses."""
    text = _ADDRESS.sub("", " ".join(text.split()))
    line = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "..."


def _same_call(expected: Call, call: Call) -> bool:
    same_id = None in (expected.id, call.id) or expected.id == call.id
    return same_id and expected.name == call.name and _same_arguments(expected.arguments, call.arguments)


def _same_arguments(expected: str, arguments: str) -> bool:
    """Whether they are equal as JSON, or as texts if one of them is not JSON; absent ones equal an empty object."""
    try:
        return bool(_loaded(expected or "{}") == _loaded(arguments or "{}"))
    except (ValueError, RecursionError):
        return expected == arguments


def _loaded(text: str) -> Any:
    """JSON, each number as a tuple, so that 1 does not equal true."""
    return json.loads(text, parse_int=lambda digits: (int(digits),), parse_float=lambda digits: (float(digits),))


def _get(value: Any, name: str) -> Any:
    """An attribute, or a dict's item; None if there is none."""
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _has(value: Any, name: str) -> bool:
    return name in value if isinstance(value, Mapping) else hasattr(value, name)
