"""`chunkfold demo`: a provider on this machine streams two answers, the second one cut."""

import sys

import click

from chunkfold.cli.chat import ask
from chunkfold.cli.demo_answers import FOLLOW_UP, QUESTION, request, scripted_answers
from chunkfold.cli.facts import error_line, footer
from chunkfold.cli.request import ChatRequest
from chunkfold.cli.view import answer_view, say
from chunkfold.testing import FakeProvider


def demo(speed: float) -> None:
    """Ask the provider twice, and show the answers."""
    with FakeProvider(*scripted_answers(speed)) as provider:
        show("1. Reasoning, text, and two tool calls at once", provider.url, QUESTION)
        show("2. The connection breaks", provider.url, QUESTION, FOLLOW_UP)


def show(title: str, url: str, *questions: str) -> None:
    """Ask as `chat` does, and show what comes as `chat` does."""
    is_piped = not sys.stdout.isatty()
    say(f"\n{title}", "bold", err=is_piped)
    say(f"you: {questions[-1]}\n", err=is_piped)
    view = answer_view("demo-model")
    # The provider is on this machine, so no proxy from the environment is used.
    reply, has_left = ask(ChatRequest(url, request(*questions), {}, uses_proxy=False), view)
    if has_left:
        raise KeyboardInterrupt
    if is_piped:
        click.echo("\n")
    view.settle(footer(reply))
    if reply.error is not None:
        say(error_line(reply), err=is_piped)
