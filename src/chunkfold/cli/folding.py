"""One file to its result. This runs in worker processes, so it loads neither click nor rich."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from chunkfold import ChatCompletion, ChatCompletionMessage, ChatCompletionParser, StreamEnd
from chunkfold.cli.facts import Problem, calls_of, error_object
from chunkfold.cli.safe import json_line, one_line
from chunkfold.recording import Recording, replay
from chunkfold.recording.unpacking import unpacked

_EXCERPT: Final = 200  # characters kept for people


@dataclass(frozen=True, slots=True)
class Job:
    """A recording or a plain body to fold."""

    file: str
    as_json: bool = False
    data: bytes | None = None  # None if it is to be read from the file
    problem: Problem | None = None  # why it cannot be read, if that is known already


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of a file."""

    file: str
    end: StreamEnd | None  # None if it could not be read
    anomalies: dict[str, int]  # how often each rule was broken, by its id
    excerpt: str  # the beginning of the answer, or what went wrong, escaped and on one line
    json: str  # the whole result as one line; "" without --json


def fold(job: Job) -> Folded:
    """Read a file and fold its stream; whatever goes wrong is part of the result."""
    if job.problem is not None:
        return folded(job, job.problem)
    try:
        with Path(job.file).open("rb") if job.data is None else BytesIO(job.data) as file:
            return folded(job, replay(Recording.loads(b"".join(unpacked(file)))))
    except Exception as error:  # noqa: BLE001 - one bad file must not end the run, whatever is wrong with it
        message = "out of memory" if isinstance(error, MemoryError) else getattr(error, "strerror", "") or str(error)
        return folded(job, Problem(type(error).__name__, message))


def folded(job: Job, outcome: ChatCompletionParser | Problem) -> Folded:
    """The result of a file; an incomplete stream has a snapshot instead of a completion."""
    parser, error = (None, outcome) if isinstance(outcome, Problem) else (outcome, outcome.error)
    end, snapshot = (parser.end, parser.snapshot) if parser else (None, None)
    anomalies = {anomaly.rule.id: anomaly.count for anomaly in parser.anomalies} if parser else {}
    text = _first_output(snapshot or ChatCompletion()) if error is None else str(error)
    json = ""
    if job.as_json:
        whole = None if snapshot is None else snapshot.model_dump(mode="json")
        told = {"file": job.file, "end": end, "error": error_object(error), "anomalies": anomalies}
        is_complete = end is not None and end.complete
        json = json_line(
            {**told, "completion": whole if is_complete else None, "snapshot": None if is_complete else whole}
        )
    return Folded(job.file, end, anomalies, _excerpt(text), json)


def _first_output(completion: ChatCompletion) -> str:
    """The first output in the answer that is not blank."""
    return next(filter(None, (_output_of(choice.message) for choice in completion.choices)), "")


def _output_of(message: ChatCompletionMessage) -> str:
    calls = ", ".join(f"{name}({arguments})" for name, arguments in calls_of(message))
    spoken = message.audio.transcript if message.audio else None
    reasoning = f"(reasoning) {message.reasoning}" if message.reasoning else ""
    return (message.content or "").strip() or calls or message.refusal or spoken or reasoning


def _excerpt(text: str) -> str:
    """The beginning, with runs of white space as one space; the part that is cut off is not processed."""
    return one_line(" ".join(text[: 4 * _EXCERPT].split()))[:_EXCERPT]
