"""Draw the trace of one request that is retried twice: the picture on the telemetry page.

python tests/trace_picture.py docs/trace.svg

The spans are real. A server refuses the first connection, an embedded provider answers 429 and then streams. Each try
goes through `instrument(connect(...))`, and the SDK's in-memory exporter keeps what would be sent.
"""

import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import httpx
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chunkfold import ChunkfoldError, connect
from chunkfold.otel import instrument
from chunkfold.testing import Answer, FakeProvider, StreamBuilder, json_answer

BODY = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Say hello."}]}
WORDS = ["Hello ", "from ", "a ", "stream ", "that ", "came ", "at ", "the ", "third ", "try."]

WIDTH, LEFT, TOP, ROW, BAR = 760, 190, 34, 58, 16
GRAY, GOOD, BAD, PARENT = "#7a7a7a", "#1f9d84", "#cc5a3d", "#8f8aa8"
SHOWN = {"error.type": "error.type", "chunkfold.stream.end": "stream.end"}  # attributes, and what they are called here


def trace() -> Sequence[ReadableSpan]:
    """The spans, in the order in which they began: the program's own, and one for each try."""
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    events = StreamBuilder().text(*WORDS).finish("stop").usage(prompt=9, completion=len(WORDS)).events
    refusal = json_answer({"error": {"message": "Slow down."}}, status=429)
    answers = [
        replace(refusal, body=[0.05, refusal.body]),
        Answer([0.12, *(piece for event in events for piece in (event, 0.02))]),
    ]
    with (
        FakeProvider(*answers) as provider,
        httpx.Client(trust_env=False) as client,
        socket.socket() as closed,
        tracers.get_tracer("program").start_as_current_span("POST /ask"),
    ):
        closed.bind(("127.0.0.1", 0))  # and does not listen
        refusing = f"http://127.0.0.1:{closed.getsockname()[1]}/v1/chat/completions"
        for url in (refusing, provider.url, provider.url):
            try:
                with instrument(connect(client, "POST", url, json=BODY), BODY, tracer_provider=tracers) as stream:
                    stream.read()
            except (ChunkfoldError, httpx.ConnectError):
                time.sleep(0.04)
    tracers.shutdown()
    return sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def picture(spans: Sequence[ReadableSpan]) -> str:
    """A bar for each span, with a mark at its first chunk, and what its attributes say."""
    first, last = spans[0].start_time or 0, max(span.end_time or 0 for span in spans)
    scale = (WIDTH - LEFT - 12) / (last - first)
    height = TOP + ROW * len(spans)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"',
        """role="img" style="font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif;""",
        'font-size: 14px">',
        "<title>A trace: the program's span, and below it one span for each of three tries</title>",
        *axis(last - first, scale),
    ]
    for row, span in enumerate(spans):
        begin, end = (((moment or 0) - first) * scale + LEFT for moment in (span.start_time, span.end_time))
        lines += bar(span, TOP + row * ROW, begin, end, scale)
    return "\n".join([*lines, "</svg>", ""])


def axis(length: int, scale: float) -> list[str]:
    """A line for every 100 ms."""
    step = 100_000_000
    lines: list[str] = []
    for moment in range(0, length, step):
        x = LEFT + moment * scale
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="100%" stroke="{GRAY}" stroke-opacity="0.25"/>')
        lines.append(text(x, 16, f"{moment // 1_000_000} ms", "middle" if moment else "start"))
    return lines


def bar(span: ReadableSpan, y: int, begin: float, end: float, scale: float) -> list[str]:
    """One span: its name, its bar, its first chunk, its attributes."""
    attributes: dict[str, Any] = dict(span.attributes or {})
    color = PARENT if span.parent is None else BAD if "error.type" in attributes else GOOD
    lines = [
        text(LEFT - 12, y + 13, span.name, "end"),
        f'<rect x="{begin:.1f}" y="{y}" width="{max(end - begin, 2):.1f}" height="{BAR}" rx="2" fill="{color}"/>',
    ]
    said = [f"{label} {attributes[name]}" for name, label in SHOWN.items() if name in attributes]
    first_chunk = attributes.get("gen_ai.response.time_to_first_chunk")
    if first_chunk is not None:
        x = begin + first_chunk * 1e9 * scale
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 4}" y2="{y + BAR + 4}" stroke="{GRAY}"/>')
        said.insert(0, f"first chunk after {first_chunk * 1000:.0f} ms")
    lines.append(text(begin, y + BAR + 17, ", ".join(said), "start"))
    return lines


def text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="{GRAY}">{escape(words)}</text>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(trace()), "utf-8")
