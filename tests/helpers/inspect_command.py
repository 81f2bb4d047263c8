"""`chunkfold inspect` on a body, and what a program reads of it."""

from pathlib import Path
from typing import Any

from command_line import Ran, run
from recorded_streams import recorded_reads

from chunkfold.testing import DONE, chunk, delta, event, fragment, usage

KEY = "sk-marked-0123456789abcdefghij"
ROLE = delta(role="assistant", content="")
HI = delta(content="Hi")
STOP = delta("stop")


def inspect(*arguments: str, body: bytes | None = None, key: str | None = None) -> Ran:
    return run("inspect", *arguments, stdin=body or b"", OPENAI_API_KEY=key)


BODY = b"".join(
    (
        ROLE,
        delta(role="model", content="Hel"),
        event(""),
        event({"step": 1}, "progress"),
        delta(content="lo"),
        delta(tool_calls=[fragment(0, "call_a", "get_weather", "")]),
        delta(tool_calls=[fragment(0, arguments='{"city":"Paris"}')]),
        delta("tool_calls"),
        chunk(usage=usage(5, 7)),
        DONE,
    )
)


def recording(tmp_path: Path, *reads: tuple[float, bytes], **more: Any) -> str:
    """The path of a recording of these reads."""
    path = tmp_path / "answer.jsonl"
    recorded_reads(*reads, headers={"x-request-id": "req_1"}, headers_at=0.25, **more).save(path)
    return str(path)
