"""The answers that `serve` gives: those of scripts in TOML or JSON, recordings, and plain bodies.

The fields of `Script` are the keys of a script, each with its type. What does not depend on the request is checked
when the script is read; the rest is made for each request.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from chunkfold import ChatCompletionParser
from chunkfold.cli.safe import reason_of
from chunkfold.excerpts import short_repr
from chunkfold.json_text.values import is_object
from chunkfold.recording import RecordedRead, Recording
from chunkfold.testing import Answer, Dialect, Raw, ReceivedRequest, StreamBuilder, json_answer
from chunkfold.testing.answers import WITHOUT_BODY, Encoding, Ending, Framing
from chunkfold.testing.defaults import PROMPT_TOKENS, head_of, no_object_answer
from chunkfold.testing.received import json_object
from chunkfold.testing.recorded import BEFORE_RESET, is_header, pause_of, recorded_answer

SCRIPTS: Final = (".toml", ".json")
_SAID: Final = ("text", "reasoning", "tool_calls", "finish_reason", "error")
_FILES: Final = ("body_file", "recording")
_OWN_TEXT: Final = "Hello from the fake provider."
_DIALECT: Final = Dialect(about="OpenAI's, with reasoning")
_BLANK_LINE: Final = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)")


def in_pieces(text: str) -> list[str]:
    """A text as models send it: words with the spaces before them, long ones in parts."""
    return re.findall(r"\s*\S{1,8}|\s+", text)


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:  # TOML knows dates, and `nan`
        raise ValueError(f"expected what JSON can say: {error}") from None


def _error_of(value: Any) -> Any:
    """An error object; a string is its message."""
    if is_object(value):
        _as_json(value)
    return {"message": value, "type": "server_error", "param": None, "code": None} if isinstance(value, str) else value


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not is_header(name, value):
            raise ValueError(f"{_shown_key(name)}: expected a name and a value that a header can have")
    return {name.lower(): value for name, value in headers.items()}


def _where(kind: type, change: Callable[[Any], Any]) -> BeforeValidator:
    """Changes a value of that type before it is checked."""
    return BeforeValidator(lambda value: change(value) if isinstance(value, kind) else value)


_Seconds = Annotated[float | None, Field(ge=0, le=86_400, description="seconds, from 0 to 86400")]
_Text = Annotated[str | None, Field(description="text")]
_Texts = Annotated[list[str], _where(str, in_pieces), Field(description="text or a list of texts")]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Call(_Strict):
    name: Annotated[str, Field(description="text")]
    arguments: Annotated[str, _where(dict, _as_json), Field(description="a table or text")] = "{}"
    id: _Text = None


class Script(_Strict):
    """One answer: its content and how it is sent; docs/fold-and-serve.md explains each key."""

    text: _Texts = []
    reasoning: _Texts = []
    tool_calls: Annotated[list[_Call], Field(description="a list of tables, each with a name")] = []
    finish_reason: _Text = None
    error: Annotated[
        dict[str, Any] | None,
        BeforeValidator(_error_of),
        Field(description="a table or text"),
    ] = None
    body_file: _Text = None
    recording: _Text = None
    status: Annotated[int | None, Field(ge=200, le=599, description="a status from 200 to 599")] = None
    headers: Annotated[dict[str, str], AfterValidator(_checked_headers), Field(description="a table of texts")] = {}
    framing: Annotated[Framing | None, Field(description="one of chunked, content-length, close, raw")] = None
    ending: Annotated[Ending | None, Field(description="one of end, cut, reset, open")] = None
    encoding: Annotated[Encoding, Field(description="one of identity, gzip, deflate")] = "identity"
    cut_at: Annotated[int | None, Field(ge=0, description="a number of bytes")] = None
    delay: _Seconds = None
    pace: _Seconds = None

    @model_validator(mode="after")
    def _check_sense(self) -> Self:
        """Refuse values that would be silently ignored."""
        said = [key for key in _SAID if key in self.model_fields_set]
        files = [key for key in _FILES if key in self.model_fields_set]
        if len(files) > 1 or (files and said):
            raise ValueError(f"{files[0]}: expected it without {(files[1:] + said)[0]}")
        if self.status is not None and (self.status == 204 or not 200 <= self.status < 300):
            unsaid = [key for key in said if key != "error" or self.status in WITHOUT_BODY]
            if unsaid:
                raise ValueError(f"{unsaid[0]}: expected none with status {self.status}")
        if self.error is not None and self.finish_reason is not None:
            raise ValueError("error: expected it without finish_reason")
        return self


class _ScriptFile(_Strict):
    answers: Annotated[list[Script], Field(min_length=1, description="a list `answers` with one answer or more")]


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """The answer to one request."""

    label: str  # the file, or the position in the script, for people
    recording: Recording | None = None  # what is sent; a plain body is one, too
    speed: float = 1.0  # how many times faster than recorded; 0 for at once
    script: Script = field(default_factory=Script)

    def __post_init__(self) -> None:
        """Raise a `ValueError` if it cannot be sent, because what it is sent with contradicts it."""
        for body in (b"{}", b'{"stream":true}'):
            self.answer_to(ReceivedRequest("POST", "/", {}, body))

    @property
    def delay(self) -> float:
        """The seconds to wait before its first byte."""
        recorded = self.recording.headers_at if self.recording else None
        return pause_of(recorded or 0.0, self.speed) if self.script.delay is None else self.script.delay

    def answer_to(self, request: ReceivedRequest) -> Answer:
        """The answer to a request, in the format of OpenAI's API."""
        if self.recording is not None:
            return self._recorded(self.recording)
        error, status = self.script.error, self.script.status or 200
        if status in WITHOUT_BODY:
            return self._sent([])
        if not 200 <= status < 300:
            kind = "server_error" if status >= 500 else "invalid_request_error"
            told = {"message": f"The script says {status}.", "type": kind, "param": None, "code": None}
            return self._sent_json({"error": error or told})
        options = json_object(request)
        if options is None:
            return no_object_answer()
        if options.get("stream"):
            return self._sent(_paced(self._stream(options).events, self.script.pace))
        if error is not None:
            code = error.get("code")
            return self._sent_json({"error": error}, code if isinstance(code, int) and 400 <= code <= 599 else 500)
        parser = ChatCompletionParser()
        parser.feed(self._stream({**options, "stream_options": {"include_usage": True}}).body)
        return self._sent_json(parser.snapshot.model_dump(mode="json", exclude_none=True))

    def _stream(self, options: Mapping[str, Any]) -> StreamBuilder:
        script, streamed = self.script, options.get("stream_options")
        text = script.text if script.model_fields_set & {*_SAID} - {"finish_reason"} else in_pieces(_OWN_TEXT)
        stream = StreamBuilder(_DIALECT, head_of(options)).reasoning(*script.reasoning).text(*text)
        for call in script.tool_calls:
            stream = stream.tool_call(call.name, *in_pieces(call.arguments), id=call.id)
        if script.error is not None:
            return stream.event({"error": script.error})
        if is_object(streamed) and streamed.get("include_usage"):
            stream = stream.usage(PROMPT_TOKENS, len(stream.events))  # a piece is about a token
        return stream.finish(script.finish_reason).done()

    def _recorded(self, recording: Recording) -> Answer:
        """The recording in its own reads, at its own times unless the script has a pace, with its own ending."""
        answer, pace = recorded_answer(recording, self.speed), self.script.pace
        pieces = answer.pieces if pace is None else _paced([read.data for read in recording.reads], pace)
        return self._sent(pieces, answer.status, answer.headers, ending=answer.ending)

    def _sent_json(self, payload: Mapping[str, Any], status: int = 200) -> Answer:
        answer = json_answer(payload)
        # Only a chunked body can be cut anywhere.
        framing: Framing = "content-length" if self.script.cut_at is None else "chunked"
        return self._sent(answer.pieces, status, answer.headers, framing=framing)

    def _sent(
        self,
        pieces: Sequence[bytes | float | Raw],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        *,
        ending: Ending = "end",
        framing: Framing = "chunked",
    ) -> Answer:
        """The pieces, sent as the script says, else as the arguments say."""
        script = self.script
        ended = script.ending or ("cut" if script.cut_at is not None else ending)
        # During a pause of no length after the headers, the provider notices that a client has not waited for them.
        seen_to_leave = [0.0] if script.delay else []
        return Answer(
            [*seen_to_leave, *pieces, *([BEFORE_RESET] if ended == "reset" else [])],
            script.status or status,
            {**(headers or {}), **script.headers},  # names in lower case, both
            framing=script.framing or framing,
            ending=ended,
            encoding=script.encoding,
            cut_at=script.cut_at,
        )


def script_from(path: str) -> list[ScriptedAnswer]:
    """The answers of a script.

    Raises:
        ValueError: There is something wrong with it; the message names the answer and the key.
        OSError: It cannot be read.
    """
    data, folder = Path(path).read_text("utf-8"), Path(path).parent
    try:
        value: Any = tomllib.loads(data) if path.lower().endswith(".toml") else json.loads(data)
        scripts = _ScriptFile.model_validate(value if is_object(value) else {"answers": value}).answers
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValidationError as error:
        raise ValueError(_sentence(error.errors(include_url=False))) from None
    return [_answer(script, f"answer {number}", path, folder) for number, script in enumerate(scripts, 1)]


def _answer(script: Script, label: str, path: str, folder: Path) -> ScriptedAnswer:
    try:
        return ScriptedAnswer(f"{label} of {path}", _file_of(script, folder), script=script)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None


def _file_of(script: Script, folder: Path) -> Recording | None:
    """The file that is sent; its name is relative to the script's folder. The pieces of a body are its events."""
    key = "recording" if script.body_file is None else "body_file"
    name = getattr(script, key)
    if name is None:
        return None
    try:
        if key == "recording":
            return Recording.load(folder / name)
        pieces = _BLANK_LINE.split((folder / name).read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{key}: {folder / name}: {reason_of(error)}") from None
    return Recording(tuple(RecordedRead(0.0, piece) for piece in pieces if piece))


def _paced(pieces: Sequence[bytes], pace: float | None) -> Sequence[bytes | float]:
    """The pieces with a pause between any two."""
    return [step for piece in pieces for step in (pace, piece)][1:] if pace else pieces


# What is wrong


def _sentence(errors: Sequence[ErrorDetails]) -> str:
    """What pydantic found, for the author of a script: the place, what is expected there, and what is there."""
    error = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    path = list(error["loc"])
    number = f"answer {int(path[1]) + 1}: " if len(path) > 1 else ""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{_shown_key(part)}" for part in path[2:]).lstrip(".")
    place = number + (f"{shown}: " if shown else "")
    if error["type"] == "extra_forbidden":
        known = list((_ScriptFile, Script, _Call)[(len(path) > 1) + ("tool_calls" in path)].model_fields)
        close = get_close_matches(str(path[-1]), known, 1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
        return f"{place or f'{_shown_key(str(path[0]))}: '}not a known key; {hint}"
    if error["type"] == "value_error":
        return f"{place}{error.get('ctx', {})['error']}"
    fields = _ScriptFile.model_fields | Script.model_fields | _Call.model_fields
    expected = (
        "a table" if number and not shown else next(fields[str(key)].description for key in path[::-1] if key in fields)
    )
    received = "nothing" if error["type"] == "missing" or error["input"] is None else short_repr(error["input"])
    return f"{place}expected {expected}, received {received}"


def _shown_key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() else short_repr(key)
