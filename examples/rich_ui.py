"""Ask in the terminal: what the model thinks, its answer as Markdown while it is written, its tool calls, the facts.

It needs rich. The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import os
import sys

import httpx
from _provider import base_url
from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text

from chunkfold import ChatCompletionStream, ChunkfoldError, ReasoningDelta, TextDelta, ToolCallDone, connect

HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
STEERING = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])  # characters that a terminal obeys


def settled(text: str) -> int:
    """Where the last whole block of Markdown ends: up to there nothing will look different, whatever follows."""
    end = text.rfind("\n\n") + 2
    return end if end > 1 and text.count("```", 0, end) % 2 == 0 else 0


def show(stream: ChatCompletionStream, console: Console) -> None:
    """Print each block when it is whole; only the one that is being written is drawn again and again."""
    thoughts = text = ""
    try:
        with Live(Spinner("dots"), console=console, transient=True) as live:
            for event in stream.events():
                match event:
                    case ReasoningDelta(choice=0, delta=delta):
                        thoughts = (thoughts + delta.translate(STEERING))[-500:]
                        live.update(Text(thoughts, "dim italic"))
                    case TextDelta(choice=0, delta=delta):
                        text += delta.translate(STEERING)
                        if end := settled(text):
                            console.print(Markdown(text[:end]), "")
                            text = text[end:]
                        live.update(Markdown(text))
                    case ToolCallDone(choice=0, call=call):
                        console.print(
                            Panel(Text(call.arguments.translate(STEERING)), title=Text(call.name.translate(STEERING)))
                        )
    except ChunkfoldError as error:
        text += f"\n\n> **{type(error).__name__}** {str(error).translate(STEERING)}"
    console.print(Markdown(text), Text(facts(stream), "dim"))


def facts(stream: ChatCompletionStream) -> str:
    """How it ended, the time to the first output, and the tokens per second."""
    usage, timing = stream.snapshot.usage, stream.timing
    told = [f"{stream.end}"]
    if timing.first_output is not None:
        told.append(f"first output after {timing.first_output:.1f} s")
    if rate := timing.tokens_per_second(usage.completion_tokens if usage else None):
        told.append(f"{rate:.0f} tokens/s")
    return ", ".join(told)


def main() -> None:
    """Send the question in the arguments."""
    question = " ".join(sys.argv[1:]) or "Greet me in one sentence."
    request = {"model": MODEL, "messages": [{"role": "user", "content": question}]}
    with base_url() as base, httpx.Client(headers=HEADERS, timeout=120) as client:
        options = {"stream_options": {"include_usage": True}}
        with connect(client, "POST", f"{base}/chat/completions", json=request | options) as stream:
            show(stream, Console())


if __name__ == "__main__":
    main()
