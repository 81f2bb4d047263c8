"""One file to its result. This runs in worker processes, so it loads neither click nor rich."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from chunkfold import ChatCompletion, ChatCompletionMessage, StreamEnd
from chunkfold.cli.facts import Problem, StreamResult, calls_of, completion_object, error_object, result_of
from chunkfold.cli.safe import json_line, one_line, reason_of
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
        return folded(job, StreamResult(job.problem))
    try:
        with Path(job.file).open("rb") if job.data is None else BytesIO(job.data) as file:
            parser = replay(Recording.loads(b"".join(unpacked(file))))
        return folded(job, result_of(parser))
    except Exception as error:  # noqa: BLE001 - one bad file must not end the run, whatever is wrong with it
        return folded(job, StreamResult(Problem(type(error).__name__, reason_of(error))))


def folded(job: Job, result: StreamResult) -> Folded:
    """The result of a file; an incomplete stream has a snapshot instead of a completion."""
    error, end, completion = result.error, result.end, result.completion
    anomalies = {anomaly.rule.id: anomaly.count for anomaly in result.anomalies}
    text = str(error) if error or not completion else _first_output(completion)
    json = ""
    if job.as_json:
        told: dict[str, Any] = {"file": job.file, "end": end, "error": error_object(error), "anomalies": anomalies}
        told |= {"completion": None, "snapshot": None}
        told["completion" if end and end.complete else "snapshot"] = completion_object(completion)
        json = json_line(told)
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
