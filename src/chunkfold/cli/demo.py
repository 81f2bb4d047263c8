"""`chunkfold demo`: a provider on this machine streams two answers in OpenAI's format, the second one cut."""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from chunkfold.cli.answer_view import answer_view
from chunkfold.cli.chat import ask
from chunkfold.cli.consoles import say
from chunkfold.cli.facts import error_line, footer
from chunkfold.cli.request import ChatRequest
from chunkfold.testing import Answer, Dialect, FakeProvider, StreamBuilder

_QUESTION: Final = "I have to be in Porto on Friday by seven, and need a room for two nights."
_FOLLOW_UP: Final = "Book the train. And where is the hotel?"

_REASONING: Final = """\
Two things are asked for: a train from Lisbon that arrives before 19:00, and a room for two nights.
Neither depends on the other, so I can look for both at once.
"""
_TEXT: Final = "I'll look for a train to Porto and for a room near the station, both at the same time."
_TOOL_CALLS: Final[Sequence[tuple[str, dict[str, Any]]]] = (
    ("search_trains", {"origin": "Lisboa", "destination": "Porto", "date": "2026-03-06", "arrive_before": "19:00"}),
    ("find_rooms", {"city": "Porto", "near": "São Bento", "nights": 2, "max_price": 120.0}),
)
_CUT_TEXT: Final = (
    "Your seat is booked: car 21, seat 46, in the train that leaves Oriente at 15:09 and is in Porto at 18:02. "
    "The hotel is in the Rua das Flores, five minutes on foot from"
)

_STREAM: Final = StreamBuilder(
    Dialect(about="OpenAI's, with reasoning"),
    head={"id": "chatcmpl-demo", "created": 1_772_700_000, "model": "demo-model"},
)
_FIRST_PAUSE: Final = 0.4  # seconds until a model's first token
_PAUSE: Final = 0.03  # seconds from piece to piece
_FRAGMENT: Final = 7  # characters of a tool call's arguments in one chunk


def demo(speed: float) -> None:
    """Ask the provider twice, and show the answers."""
    with FakeProvider(*scripted_answers(speed)) as provider:
        _show("1. Reasoning, text, and two tool calls at once", provider.url, _QUESTION)
        _show("2. The connection breaks", provider.url, _QUESTION, _FOLLOW_UP)


def _show(title: str, url: str, *questions: str) -> None:
    """Send the request and show the answer as `chat` does."""
    is_piped = not sys.stdout.isatty()
    say(f"\n{title}", "bold", err=is_piped)
    say(f"you: {questions[-1]}\n", err=is_piped)
    messages = [{"role": "user", "content": question} for question in questions]
    body = {"model": "demo-model", "messages": messages, "stream_options": {"include_usage": True}}
    view = answer_view("demo-model")
    # The provider is on this machine, so no proxy from the environment is used.
    result, has_left = ask(ChatRequest(url, body, {}, uses_proxy=False), view)
    if has_left:
        raise KeyboardInterrupt
    if is_piped:
        click.echo("\n")
    view.show_facts(footer(result))
    if result.error is not None:
        say(error_line(result), err=is_piped)


def scripted_answers(speed: float = 1.0) -> list[Answer]:
    """Two answers: one that ends with tool calls, and one whose connection is cut within a sentence."""
    first, pace = _FIRST_PAUSE / speed, _PAUSE / speed
    whole = _STREAM.reasoning(*_words(_REASONING)).text(*_words(_TEXT)).tool_calls(*map(_call, _TOOL_CALLS))
    cut = _STREAM.text(*_words(_CUT_TEXT))
    return [
        whole.usage(412, 131, cached=384, reasoning=48).finish().done().answer(first=first, pace=pace),
        cut.answer(first=first, pace=pace, ending="cut"),
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def _call(call: tuple[str, dict[str, Any]]) -> list[str]:
    """The name, and the arguments in pieces."""
    name, arguments = call
    text = json.dumps(arguments, ensure_ascii=False)
    return [name, *(text[start : start + _FRAGMENT] for start in range(0, len(text), _FRAGMENT))]
