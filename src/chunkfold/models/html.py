"""Render a completion as HTML for notebooks, with escaping by default.

Anything that is not `Html` is escaped when it is put into HTML, so a mistake shows too much escaping, never too little.
Invisible control characters are written as Python escapes.
"""

import html
from collections.abc import Iterable, Iterator
from typing import Any, Final

from chunkfold.excerpts import TERMINAL_CONTROLS, counted, short_repr
from chunkfold.models.base import Model
from chunkfold.models.content import read_part
from chunkfold.models.shared import CompletionUsage

_CHOICES: Final = 3  # choices that are shown
_CALLS: Final = 12  # tool calls that are shown of each
_LONG: Final = 4000  # characters that are shown of a text or a reasoning
_SHORT: Final = 300  # of arguments
_WORD: Final = 120  # of a word

_VISIBLE: Final = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (
        *range(0x20),  # C0
        *TERMINAL_CONTROLS,
        0x200B,  # spaces and signs of no width
        *range(0x2060, 0x2065),
        *range(0xD800, 0xE000),  # halves of characters, which no encoding can write
        0xFEFF,
        *range(0xFFF9, 0xFFFC),
        *range(0xFFFE, 0x10000),
        *range(0xE0000, 0xE0080),  # tags, in which text can hide
    )
    if chr(code) not in "\n\t"
} | {ord("\r"): None}

_BOX: Final = "max-width:60em;line-height:1.45;text-align:left;overflow-wrap:anywhere"
_TEXT: Final = "white-space:pre-wrap;overflow-wrap:anywhere;margin:.4em 0"
_CELL: Final = "text-align:left;vertical-align:top;padding:.2em .8em .2em 0;white-space:pre-wrap;overflow-wrap:anywhere"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """The text as HTML shows it, every character of it; what is HTML already stays."""
    return text if isinstance(text, Html) else Html(html.escape(text.translate(_VISIBLE)))


def joined(parts: Iterable[str]) -> Html:
    """The parts, one after the other."""
    return Html("".join(map(escaped, parts)))


def tag(name: str, *children: str, **attributes: str | None) -> Html:
    """An element. Attributes that are None are left out; `class_` is `class`, `aria_label` is `aria-label`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{joined(children)}</{name}>")


def completion_html(completion: Model) -> Html:
    """What a notebook shows of a completion: bounded in size, without scripts, in the notebook's own colours."""
    fields = completion.__dict__
    choices: list[Any] = fields.get("choices") or []
    shown = [part for choice in choices[:_CHOICES] for part in _choice(choice, fields.get("model"), len(choices))]
    if len(choices) > _CHOICES:
        shown.append(tag("div", f"and {len(choices) - _CHOICES:,} more choices", style=_TEXT))
    if not choices:
        shown.append(tag("div", "a completion without choices", style=_TEXT))
    shown.append(tag("div", _usage(fields.get("usage")), style="font-size:.9em"))
    return tag("div", *shown, class_="chunkfold", style=_BOX)


def _choice(choice: Any, model: Any, count: int) -> Iterator[Html]:
    message: dict[str, Any] = choice.message.__dict__
    place = f", choice {word(choice.index)}" if count > 1 else ""
    by = f", {word(model)}" if model else ""
    yield tag("div", tag("strong", word(message.get("role")) or "no role"), place, by)
    if reasoning := message.get("reasoning"):
        summary = tag("summary", f"reasoning ({len(reasoning):,} characters)", style="cursor:pointer")
        yield tag("details", summary, _text(reasoning))
    if content := message.get("content"):
        yield _text(content)
    if refusal := message.get("refusal"):
        yield tag("div", tag("em", "refusal"), _text(refusal))
    yield from _calls(message)
    if beside := ", ".join(_beside(message)):
        yield tag("div", f"with {beside}")
    yield tag("div", f"finish reason: {word(choice.finish_reason) or 'none so far'}", style="font-size:.9em")


def _text(text: str) -> Html:
    rest = len(text) - _LONG
    more = tag("em", f"... and {rest:,} more characters") if rest > 0 else ""
    return tag("div", text[:_LONG], more, dir="auto", style=_TEXT)


def _calls(message: dict[str, Any]) -> Iterator[Html]:
    found: list[Any] = message.get("tool_calls") or []
    cells = [(word(call.name), cut(call.arguments, _SHORT), word(call.id)) for call in found[:_CALLS]]
    legacy = message.get("function_call")
    if legacy is not None and not cells:  # else it is the same call, in its other form
        cells.append((word(legacy.name), cut(legacy.arguments, _SHORT), ""))
    if cells:
        head = tag("tr", *(tag("th", name, scope="col", style=_CELL) for name in ("tool call", "arguments", "id")))
        rows = (tag("tr", *(tag("td", cell, style=_CELL) for cell in row)) for row in cells)
        yield tag("table", tag("thead", head), tag("tbody", *rows), style="border-collapse:collapse;margin:.4em 0")
    if len(found) > _CALLS:
        yield tag("div", f"and {len(found) - _CALLS:,} more tool calls")


def _beside(message: dict[str, Any]) -> Iterator[str]:
    """The content that is not shown."""
    if message.get("audio") is not None:
        yield "audio"
    counts = {noun: len(message.get(f"{noun}s") or ()) for noun in ("image", "annotation")}
    counts["content part"] = sum(read_part(part)[0] == "other" for part in message.get("content_parts") or ())
    yield from (counted(count, noun) for noun, count in counts.items() if count)


def _usage(usage: CompletionUsage | None) -> str:
    if usage is None:
        return "usage: not reported"
    cached = "" if usage.cached_tokens is None else f" ({word(usage.cached_tokens)} cached)"
    reasoning = "" if usage.reasoning_tokens is None else f" ({word(usage.reasoning_tokens)} reasoning)"
    prompt, completion = (word(usage.__dict__.get(name)) or "?" for name in ("prompt_tokens", "completion_tokens"))
    return f"usage: {prompt} prompt tokens{cached}, {completion} completion tokens{reasoning}"


def word(value: Any) -> str:
    """A name, an id or a finish reason, shortened; "" for None."""
    if value is None:
        return ""
    return cut(value if isinstance(value, str) else short_repr(value), _WORD)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of a text, and how many it has."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text):,} characters)"
