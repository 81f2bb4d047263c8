"""`chunkfold demo`: a provider on this machine streams two answers, the second one cut."""

import click
import httpx

import chunkfold
from chunkfold import ReasoningDelta, TextDelta, ToolCallArgumentsDelta, ToolCallDone, ToolCallStarted
from chunkfold.cli.demo_answers import FOLLOW_UP, QUESTION, request, scripted_answers
from chunkfold.cli.facts import completion_facts, error_facts, stream_facts
from chunkfold.cli.screen import Screen
from chunkfold.testing import FakeProvider


@click.command()
@click.option(
    "--speed",
    metavar="FACTOR",
    type=click.FloatRange(0, min_open=True),
    default=1,
    help="How much faster than usual it runs; 10 is ten times as fast.",
)
def demo(speed: float) -> None:
    """Watch two streamed answers; the second one breaks.

    Needs no key and no network: the provider is part of chunkfold, and runs on this machine for a
    few seconds.
    """
    screen = Screen()
    # The provider is on this machine, so no proxy from the environment stands in between.
    with FakeProvider(*scripted_answers(speed)) as provider, httpx.Client(trust_env=False) as client:
        screen.heading("1. Reasoning, text, and two tool calls at once")
        screen.question(QUESTION)
        show_answer(screen, client, provider.url)
        screen.heading("2. The connection breaks")
        screen.question(FOLLOW_UP)
        show_broken_answer(screen, client, provider.url)


def show_answer(screen: Screen, client: httpx.Client, url: str) -> None:
    """A stream that ends well: its chunks as they come, then the completion."""
    with chunkfold.connect(client, "POST", url, json=request(QUESTION)) as stream:
        watch(screen, stream)
    completion = stream.completion()  # raises if the stream did not end well
    screen.facts([*completion_facts(completion), *stream_facts(stream.end, stream.timing, completion.usage)])


def show_broken_answer(screen: Screen, client: httpx.Client, url: str) -> None:
    """A stream that does not: every chunk that came, then a typed error, with all that came on it."""
    with chunkfold.connect(client, "POST", url, json=request(QUESTION, FOLLOW_UP)) as stream:
        try:
            watch(screen, stream)
        except chunkfold.ChunkfoldError as error:
            screen.facts(error_facts(error, stream.end))


def watch(screen: Screen, stream: chunkfold.ChatCompletionStream) -> None:
    """Draw what arrives, as it arrives."""
    with screen.answer() as answer:
        for event in stream.events():
            match event:
                case ReasoningDelta(delta=text):
                    answer.add_reasoning(text)
                case TextDelta(delta=text):
                    answer.add_text(text)
                case ToolCallStarted() | ToolCallArgumentsDelta() | ToolCallDone():
                    answer.show_tool_calls(stream.snapshot.tool_calls)
                case _:
                    pass
