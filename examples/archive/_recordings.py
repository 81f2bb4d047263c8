"""A small archive of made-up recordings with every ending, so that the examples run anywhere."""

from pathlib import Path
from typing import TYPE_CHECKING

from chunkfold.recording import RecordedRead, Recording
from chunkfold.testing import Dialect, StreamBuilder

if TYPE_CHECKING:
    from chunkfold.recording.format import RecordedEnd

_TEXT = "It was a bright cold day in April, and the clocks were striking thirteen."
_EMPTY_ROLE = Dialect(about="an empty role in each chunk, which breaks a rule", role="empty")


def make_archive(folder: Path, count: int = 200) -> Path:
    """Write this number of files into a folder, most of them complete answers."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        recording = _recording(number)
        name = f"{number:06}"
        if number % 10 == 9:
            (folder / f"{name}.sse").write_bytes(recording.body)  # plain, as `curl -N` saves it
        elif number % 50 == 7:
            (folder / f"{name}.jsonl").write_bytes(recording.dumps().replace(b'"end"', b'"and'))  # damaged
        else:
            recording.save(folder / f"{name}.jsonl")
    return folder


def _recording(number: int) -> Recording:
    """One of them; of twenty, one each is cut, fails, is interrupted, is left and is empty, and the rest end well."""
    head = {"id": f"chatcmpl-{number}", "created": 1_700_000_000, "model": ("small-1", "large-2")[number % 3 == 0]}
    words = [f"{word} " for word in 2 * _TEXT.split()]
    text = StreamBuilder(_EMPTY_ROLE if number % 6 == 1 else "openai", head).text(*words)
    how: RecordedEnd = "body"
    match number % 20:
        case 3:
            stream = text
        case 5:
            stream = text.error("Overloaded.", code=503)
        case 11:
            stream, how = text, "error"
        case 13:
            stream, how = text, "left"
        case 15:
            stream = StreamBuilder().done()
        case _:
            whole = text.tool_call("weather", {"city": "Lisbon"}) if number % 4 == 0 else text
            stream = whole.usage(12, 28).finish().done()
    first = 0.2 + number % 17 / 20
    reads = tuple(RecordedRead(first + place / 50, data) for place, data in enumerate(stream))
    return Recording(
        reads,
        headers={"content-type": "text/event-stream"},
        url="https://api.example.com/v1/chat/completions",
        headers_at=first / 2,
        end=how,
        ended_at=reads[-1].at,
        error="ReadError" if how == "error" else "",
    )
