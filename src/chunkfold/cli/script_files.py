"""The files that `serve` takes: scripts in TOML or JSON, recordings, and plain bodies.

A script is a list `answers` of tables. `KEYS` has every key that may stand there with the function that reads its
value; what is wrong is said with the file, the number of the answer and the key.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args

from chunkfold.cli.scripted import (
    BytesAnswer,
    ErrorAnswer,
    RecordedAnswer,
    Said,
    SaidAnswer,
    SaidCall,
    Scripted,
    Sending,
    in_pieces,
)
from chunkfold.excerpts import brief
from chunkfold.json_text.values import is_list, is_object
from chunkfold.recording import Recording
from chunkfold.testing.answers import Encoding, Ending, Framing
from chunkfold.testing.recorded import is_header

SCRIPTS: Final = (".toml", ".json")
_SAID: Final = ("text", "reasoning", "tool_calls", "finish_reason")
_FILES: Final = ("body_file", "recording")
_OWN_TEXT: Final = "Hello from the fake provider."
_LONGEST: Final = 86_400.0  # seconds


def script_from(path: str) -> list[Scripted]:
    """The answers of a script.

    Raises:
        ValueError: There is something wrong with it; the message names the answer and the key.
        OSError: It cannot be read.
    """
    return [_answer(value, path, number) for number, value in enumerate(_answers_in(Path(path)), 1)]


def answer_from(name: str, recording: Recording) -> Scripted:
    """The answer that a recording or a plain body is.

    Raises:
        ValueError: It cannot be sent.
    """
    answer = RecordedAnswer(name, Sending(), recording)
    answer.check()
    return answer


def _answers_in(path: Path) -> Sequence[Any]:
    data = path.read_text("utf-8")
    try:
        value: Any = tomllib.loads(data) if path.suffix.lower() == ".toml" else json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if is_object(value):
        _check_keys(value, ("answers",))
        value = value.get("answers")
    if not is_list(value) or not value:
        raise ValueError("expected a list `answers` with one answer or more")
    return value


def _answer(value: Any, path: str, number: int) -> Scripted:
    label = f"answer {number}"
    try:
        table = _table(value)
        _check_keys(table, KEYS)
        settings = {key: _read(KEYS[key], key, given) for key, given in table.items()}
        answer = _made(f"{label} of {path}", settings, Path(path).parent)
        answer.check()
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None
    return answer


def _made(label: str, settings: dict[str, Any], folder: Path) -> Scripted:
    sending = Sending(**{key: settings[key] for key in _SENDING if key in settings})
    _check_sense(settings, sending)
    if "body_file" in settings:
        return BytesAnswer(label, sending, _read_from(folder, "body_file", settings, Path.read_bytes))
    if "recording" in settings:
        return RecordedAnswer(label, sending, _read_from(folder, "recording", settings, Recording.load))
    if sending.status is not None and not 200 <= sending.status < 300:
        return ErrorAnswer(label, sending, settings.get("error"))
    if sending.status == 204:
        return ErrorAnswer(label, sending, None)
    said = {key: settings[key] for key in (*_SAID, "error") if key in settings}
    if not said.keys() - {"finish_reason"}:
        said["text"] = in_pieces(_OWN_TEXT)
    return SaidAnswer(label, sending, Said(**said))


def _check_sense(settings: dict[str, Any], sending: Sending) -> None:
    """Refuse what would be silently left out."""
    said = [key for key in (*_SAID, "error") if key in settings]
    files = [key for key in _FILES if key in settings]
    if len(files) > 1 or (files and said):
        raise ValueError(f"{files[0]}: expected it without {(files[1:] + said)[0]}")
    if sending.status is not None and (sending.status == 204 or not 200 <= sending.status < 300):
        said = [key for key in said if key != "error" or sending.status in {204, 304}]
        if said:
            raise ValueError(f"{said[0]}: expected none with status {sending.status}")
    if "error" in settings and "finish_reason" in settings:
        raise ValueError("error: expected it without finish_reason")


def _read_from(folder: Path, key: str, settings: dict[str, Any], read: Callable[[Path], Any]) -> Any:
    """What is in a file; its name counts from the script's folder on."""
    path = folder / settings[key]
    try:
        return read(path)
    except OSError as error:
        raise ValueError(f"{key}: {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{key}: {path}: {error}") from None


def _check_keys(given: Mapping[str, Any], known: Sequence[str] | Mapping[str, Any]) -> None:
    for key in given:
        if key not in known:
            close = get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
            raise ValueError(f"{_shown_key(key)}: not a known key; {hint}")


def _read(function: Callable[[Any], Any], key: str, value: Any) -> Any:
    try:
        return function(value)
    except _NestedError as error:
        raise ValueError(f"{key}{error}") from None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


class _NestedError(ValueError):
    """What is wrong inside of a value; it begins with where."""


# The values


def _table(value: Any) -> dict[str, Any]:
    if not is_object(value):
        raise _expected("a table of settings", value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _expected("text", value)
    return value


def _texts(value: Any) -> Sequence[str]:
    """A text, which is cut as models do, or the pieces themselves."""
    if isinstance(value, str):
        return in_pieces(value)
    if not is_list(value) or not all(isinstance(piece, str) for piece in value):
        raise _expected("text or a list of texts", value)
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _expected("a number of seconds", value)
    if not 0 <= value <= _LONGEST:
        raise ValueError(f"expected seconds, from 0 to {_LONGEST:g}, received {brief(value)}")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _expected("a number of bytes", value)
    if value < 0:
        raise ValueError(f"expected 0 bytes or more, received {brief(value)}")
    return value


def _status(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _expected("a status code", value)
    if not 200 <= value <= 599:
        raise ValueError(f"expected a status from 200 to 599, received {brief(value)}")
    return value


def _headers(value: Any) -> dict[str, str]:
    if not is_object(value):
        raise _expected("a table of headers", value)
    for name, text in value.items():
        if not isinstance(text, str):
            raise _NestedError(f".{_shown_key(name)}: {_expected('text', text)}")
        if not is_header(name, text):
            raise _NestedError(f".{_shown_key(name)}: expected a name and a value that a header can have")
    return {name.lower(): text for name, text in value.items()}


def _error(value: Any) -> dict[str, Any]:
    """An error object, or the message of one."""
    if isinstance(value, str):
        return {"message": value, "type": "server_error", "param": None, "code": None}
    if not is_object(value):
        raise _expected("a table or text", value)
    try:
        json.dumps(value)
    except TypeError as error:  # TOML knows dates
        raise ValueError(f"expected what JSON can say: {error}") from None
    return value


def _calls(value: Any) -> list[SaidCall]:
    if not is_list(value):
        raise _expected("a list of tool calls", value)
    return [_call(call, index) for index, call in enumerate(value)]


def _call(value: Any, index: int) -> SaidCall:
    if not is_object(value):
        raise _NestedError(f"[{index}]: {_expected('a table', value)}")
    try:
        _check_keys(value, ("name", "arguments", "id"))
        return SaidCall(
            name=_read(_text, "name", value.get("name")),
            arguments=_read(_arguments, "arguments", value.get("arguments", {})),
            id=_read(_text, "id", value.get("id", f"call_{index + 1}")),
        )
    except ValueError as error:
        raise _NestedError(f"[{index}].{error}") from None


def _arguments(value: Any) -> str:
    """Text as it is, whether or not it is JSON; a table as JSON."""
    if isinstance(value, str):
        return value
    if not is_object(value):
        raise _expected("a table or text", value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError as error:
        raise ValueError(f"expected what JSON can say: {error}") from None


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"expected one of {', '.join(words)}, received {brief(value)}")
        return value

    return read


def _expected(what: str, value: Any) -> ValueError:
    return ValueError(f"expected {what}, received {_kind(value)}")


def _kind(value: Any) -> str:
    """What it is, as who writes a script would call it."""
    if value is None:
        return "nothing"
    kinds = ((bool, "a boolean"), (int | float, "a number"), (str, "text"), (list, "a list"), (dict, "a table"))
    return next((name for kind, name in kinds if isinstance(value, kind)), f"a {type(value).__name__}")


def _shown_key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() else brief(key)


_SENDING: Final[dict[str, Callable[[Any], Any]]] = {
    "status": _status,
    "headers": _headers,
    "framing": _one_of(*get_args(Framing)),
    "ending": _one_of(*get_args(Ending)),
    "encoding": _one_of(*get_args(Encoding)),
    "cut_at": _count,
    "delay": _seconds,
    "pace": _seconds,
}
KEYS: Final[dict[str, Callable[[Any], Any]]] = {
    "text": _texts,
    "reasoning": _texts,
    "tool_calls": _calls,
    "finish_reason": _text,
    "error": _error,
    "body_file": _text,
    "recording": _text,
    **_SENDING,
}
