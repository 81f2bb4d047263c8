"""A small archive of made-up recordings with every ending, so that the examples run anywhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunkfold.recording import RecordedRead, Recording
from chunkfold.testing import sse

if TYPE_CHECKING:
    from chunkfold.recording.format import RecordedEnd

_TEXT = "It was a bright cold day in April, and the clocks were striking thirteen."
_CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lisbon"}'}}
_USAGE = {"prompt_tokens": 12, "completion_tokens": 28, "total_tokens": 40}


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
    model = ("small-1", "large-2")[number % 3 == 0]
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model}

    def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    called = number % 4 == 0
    role = {"role": ""} if number % 6 == 1 else {}  # in every chunk, which breaks a rule
    text = [chunk(content=f"{word} ", **role) for word in 2 * _TEXT.split()]
    call = [chunk(tool_calls=[{"index": 0, **_CALL}])] if called else []
    end = [chunk("tool_calls" if called else "stop"), {**head, "choices": [], "usage": _USAGE}]
    how: RecordedEnd = "body"
    match number % 20:
        case 3:
            body = sse(*text, done=False)
        case 5:
            body = sse(*text, {"error": {"message": "Overloaded.", "code": 503}}, done=False)
        case 11:
            body, how = sse(*text, done=False), "error"
        case 13:
            body, how = sse(*text, done=False), "left"
        case 15:
            body = sse()
        case _:
            body = sse(*text, *call, *end)
    first = 0.2 + number % 17 / 20
    reads = tuple(RecordedRead(first + place / 50, data) for place, data in enumerate(body))
    return Recording(
        reads,
        headers={"content-type": "text/event-stream"},
        url="https://api.example.com/v1/chat/completions",
        headers_at=first / 2,
        end=how,
        ended_at=reads[-1].at,
        error="ReadError" if how == "error" else "",
    )
