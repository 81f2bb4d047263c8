"""JSON that is still being written, as a value: what is known of it so far.

The text is read once, as it comes, into a tree that grows. A value that is handed out is a copy of the containers
that are still open; what has ended is shared, for it never changes again. Copying is paid for by the text: where many
things are open or long, a value is copied only after some more text. So the cost is linear in the text, and a value
is at most a few pieces behind.
"""

import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from itertools import takewhile
from typing import Any, Final, TypeVar, overload

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from chunkfold.errors import ParseError, escaped, excerpt
from chunkfold.json_values import is_object
from chunkfold.models.base import Path, dotted, existing_path
from chunkfold.models.parsing import adapter_of
from chunkfold.models.shapes import Shape

T = TypeVar("T")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPE: Final = re.compile(
    r'\\(?:(["\\/bfnrt])|u([dD][89abAB][\da-fA-F]{2})\\u([dD][c-fC-F][\da-fA-F]{2})|u([\da-fA-F]{4}))'
)
_OPEN_ESCAPE: Final = re.compile(
    r"\\(?:u[\da-fA-F]{0,3}|u[dD][89abAB][\da-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][\da-fA-F]?)?)?)?)?)?"
)
_UNESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SCALAR: Final = re.compile(r"[-+.\w]*", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_OPEN_NUMBER: Final = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.|(?:\.\d+)?(?:[eE][+-]?\d*)?))?", re.ASCII)
_WORDS: Final = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}
_ANYTHING: Final = Shape(Any)
_FREE_COPIES: Final = 100_000  # what copying may cost before the text has paid for it
_COPIES_PER_CHARACTER: Final = 64  # items
_CHARACTERS_PER_COPY: Final = 16  # of an open string
_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _COMMA, _OVER = range(7)
_EXPECTED: Final = {
    _VALUE: "a value",
    _VALUE_OR_END: "a value or ]",
    _KEY: "a key",
    _KEY_OR_END: "a key or }",
    _COLON: "a colon",
    _COMMA: "a comma or the end of the object or list",
    _OVER: "nothing more",
}
_VALUE_WANTED: Final = (_VALUE, _VALUE_OR_END)
_STRING_WANTED: Final = (_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END)
_LONGEST_PLACE: Final = 200  # characters
_LONG_NUMBER: Final = 1_000  # characters: a longer one is looked at only when it has ended


@dataclass(slots=True)
class _Open:
    """A container that is still being written.

    Attributes:
        value: What of it is known and fits.
        shape: What it may be; None if there may be nothing where it stands.
        key: The key that came last.
        is_held: Whether it is judged as a whole, and so not shown before it has ended.
    """

    value: Any
    shape: Shape | None
    is_held: bool
    key: str = ""

    def shape_here(self) -> Shape | None:
        """What may stand under the key that came last, or as the next item."""
        if self.is_held or self.shape is None:
            return _ANYTHING
        return self.shape.child(self.key if is_object(self.value) else None)

    def put(self, value: Any) -> None:
        """Add a value: under the key that came last, or as the next item."""
        if is_object(self.value):
            self.value[self.key] = value
        else:
            self.value.append(value)


class PartialJSON:
    """Take the text of a JSON value piece by piece; give what is known of the value after each.

    Strings are shown as they grow. Numbers are shown once they have ended, unless `half_numbers` is set: a 12 may
    become a 120. Half a literal (`tru`) and half a key are never shown. Where nothing is known, the value is None.

    Without a type the values are dicts, lists and so on, as in the JSON. With a type they are that too, less what
    does not fit it: fields, items and values are judged one by one, when they have ended. A string that grows is shown
    only where it may be any text, so not for a date or a literal. Keys that are still to come are no error. Once the
    text is whole and valid the value is what `parse` gives: for a pydantic model, the model. For what has keys in any
    case (a model, a TypedDict, a dataclass, a dict) the value is a dict from the start.

    A value that was handed out never changes; the next one shares with it what has ended. The cost is linear in the
    text. So where very long lists are open, the value may be up to one character behind for every 64 of their items,
    and in a very long string one for every 1,024 of its characters.

    Args:
        type: Anything pydantic can validate; None for plain JSON values.
        half_numbers: Whether to show a number that may still go on.

    Raises:
        TypeError: Pydantic knows nothing to do with the type.

    Example:
        >>> live = PartialJSON()
        >>> live.feed('{"city": "Lis')
        {'city': 'Lis'}
        >>> live.feed('bon", "celsius": 2')
        {'city': 'Lisbon'}
        >>> live.feed("4}")
        {'city': 'Lisbon', 'celsius': 24}
    """

    def __init__(self, type: Any = None, *, half_numbers: bool = False) -> None:
        self._type = type
        if type is not None:
            adapter_of(type)
        self._root_shape = _ANYTHING if type is None else Shape(type)
        self._half_numbers = half_numbers
        self._text = StringIO(newline="")
        self._rest = ""  # the beginning of a number, a word or an escape, which the next piece may complete
        self._wants = _VALUE
        self._stack: list[_Open] = []
        self._open_items = 0  # how many items the open containers have
        self._string: StringIO | None = None  # an open string, a key's too
        self._root: Any = self._root_shape.begins_as()
        self._credit = _FREE_COPIES
        self._failure: ParseError | None = None
        self.value = self._root

    def feed(self, text: str) -> Any:
        """Take the next piece; return the value, which is also kept as `value`.

        Raises:
            ParseError: The text is no JSON, however it may go on.
        """
        if self._failure is not None:
            raise self._failure
        self._text.write(text)
        if len(self._rest) > _LONG_NUMBER and _SCALAR.fullmatch(text):
            self._rest += text
        else:
            self._read(self._rest + text)
        # Copying is paid for by the text, so that the cost stays linear.
        self._credit += len(text) * _COPIES_PER_CHARACTER
        cost = self._open_items + len(self._stack)
        if self._string is not None:
            cost += self._string.tell() // _CHARACTERS_PER_COPY
        if cost <= self._credit:
            self._credit -= cost
            self.value = self._shown()
        return self.value

    def close(self) -> Any:
        """The text is over: return the whole value, exactly as `parse` does.

        Raises:
            ParseError: It is no JSON (`cut` says whether it ended too early), or not of the type.
        """
        self.value = parse_json(self._text.getvalue(), self._type)
        return self.value

    def _read(self, text: str) -> None:
        self._rest = ""
        at = 0
        while at < len(text):
            string = self._string
            at = self._take_token(text, at) if string is None else self._take_string(string, text, at)

    def _take_string(self, string: StringIO, text: str, at: int) -> int:
        """Go on with an open string; return where what was taken ends."""
        end = _end_of(_PLAIN, text, at)
        string.write(text[at:end])
        if end == len(text):
            return end
        if text[end] == '"':
            self._string = None
            self._end_string(string.getvalue())
            return end + 1
        escape = _ESCAPE.match(text, end)
        if _OPEN_ESCAPE.fullmatch(text, end):
            self._rest = text[end:]
            return len(text)
        if escape is None:
            raise self._error(text, end, "an escape" if text[end] == "\\" else "no control character in a string")
        string.write(_unescaped(escape))
        return escape.end()

    def _take_token(self, text: str, at: int) -> int:
        """Take what stands outside of strings; return where it ends."""
        at = _end_of(_SPACE, text, at)
        if at == len(text):
            return at
        wants, sign = self._wants, text[at]
        if sign == '"' and wants in _STRING_WANTED:
            self._string = StringIO(newline="")
        elif sign in "{[" and wants in _VALUE_WANTED:
            self._begin({} if sign == "{" else [])
        elif sign in "}]" and self._may_end(dict if sign == "}" else list):
            self._end()
        elif sign == ":" and wants == _COLON:
            self._wants = _VALUE
        elif sign == "," and wants == _COMMA:
            self._wants = _KEY if isinstance(self._stack[-1].value, dict) else _VALUE
        elif wants in _VALUE_WANTED:
            return self._take_scalar(text, at)
        else:
            raise self._error(text, at, _EXPECTED[wants])
        return at + 1

    def _take_scalar(self, text: str, at: int) -> int:
        """Take a number or a word; one that the text ends with may go on, and waits."""
        end = _end_of(_SCALAR, text, at)
        token = text[at:end]
        if token in _WORDS:
            self._put(_WORDS[token])
        elif end == len(text) and _may_go_on(token):
            self._rest = token
        else:
            try:
                self._put(_number(token))
            except ValueError:
                raise self._error(text, at, _EXPECTED[self._wants]) from None
        return end

    def _end_string(self, text: str) -> None:
        if self._wants in (_KEY, _KEY_OR_END):
            self._stack[-1].key = text
            self._wants = _COLON
        else:
            self._put(text)

    def _shape_here(self) -> Shape | None:
        """What may stand at the place where a value begins; None if nothing may."""
        return self._stack[-1].shape_here() if self._stack else self._root_shape

    def _put(self, value: Any) -> None:
        """A string, a number or a word has ended."""
        shape = self._shape_here()
        if shape is not None and shape.fits(value):
            self._attach(value)
        self._end_value()

    def _attach(self, value: Any) -> None:
        if self._stack:
            frame = self._stack[-1]
            before = len(frame.value)
            frame.put(value)
            self._open_items += len(frame.value) - before
        else:
            self._root = value

    def _begin(self, value: Any) -> None:
        """A container begins. It is shown from now on, unless its type can be judged only as a whole."""
        shape = self._shape_here()
        is_held = shape is None or not shape.may_be(dict if is_object(value) else list)
        if not is_held:
            self._attach(value)
        self._stack.append(_Open(value, shape, is_held))
        self._wants = _KEY_OR_END if isinstance(value, dict) else _VALUE_OR_END

    def _may_end(self, kind: type[Any]) -> bool:
        """Whether a container of this kind may end here."""
        wants = (_KEY_OR_END, _COMMA) if kind is dict else (_VALUE_OR_END, _COMMA)
        return bool(self._stack) and isinstance(self._stack[-1].value, kind) and self._wants in wants

    def _end(self) -> None:
        frame = self._stack.pop()
        self._open_items -= len(frame.value)
        if frame.is_held and frame.shape is not None and frame.shape.fits(frame.value):
            self._attach(frame.value)
        self._end_value()

    def _end_value(self) -> None:
        """Where the whole has ended, and is valid, it is what `parse` gives."""
        self._wants = _COMMA if self._stack else _OVER
        if self._wants == _OVER and self._type is not None:
            with suppress(Exception):  # validators may fail in any way; `close` says how
                self._root = adapter_of(self._type).validate_json(self._text.getvalue())

    def _shown(self) -> Any:
        """The value so far: the open containers copied, with the open string or number in the innermost."""
        frames = list(takewhile(lambda frame: not frame.is_held, self._stack))
        copies = [frame.value.copy() for frame in frames]
        for frame, outer, inner in zip(frames, copies, copies[1:], strict=False):
            outer[frame.key if isinstance(outer, dict) else -1] = inner
        root = copies[0] if copies else self._root
        if len(frames) < len(self._stack):
            return root
        is_shown, leaf = self._open_leaf()
        if not is_shown:
            return root
        if not frames:
            return leaf
        if isinstance(copies[-1], dict):
            copies[-1][frames[-1].key] = leaf
        else:
            copies[-1].append(leaf)
        return root

    def _open_leaf(self) -> tuple[bool, Any]:
        """The string or number that the text ends in, and whether to show it."""
        shape = self._shape_here() if self._wants in _VALUE_WANTED else None
        if shape is None:
            return False, None
        if self._string is not None:
            text = self._string.getvalue()
            return shape.fits_growing(text), text
        number = _NUMBER.match(self._rest) if self._half_numbers and len(self._rest) <= _LONG_NUMBER else None
        value = _number(number[0]) if number is not None else None
        return value is not None and shape.fits(value), value

    def _error(self, text: str, at: int, expected: str) -> ParseError:
        whole = self._text.getvalue()
        position = len(whole) - len(text) + at
        msg = f"expected JSON, received other text: expected {expected} at character {position}: {excerpt(text[at:])}"
        self._failure = ParseError(msg, text=whole, position=position)
        return self._failure


@overload
def parse_json(text: str, as_type: type[T]) -> T: ...
@overload
def parse_json(text: str, as_type: None = None) -> Any: ...
def parse_json(text: str, as_type: Any = None) -> Any:
    """Read the whole text as JSON, into `as_type` where one is given (anything pydantic can validate).

    Raises:
        ParseError: The text is no JSON (`cut` says whether it ended too early), or not of that type.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_json(text, error) from None
    if as_type is None:
        return value
    adapter = adapter_of(as_type)
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = getattr(as_type, "__name__", as_type)
        place = dotted(first["loc"])[:_LONGEST_PLACE] if first["loc"] else "the value"
        what = f"{place}: {escaped(first['msg'])} (in {excerpt(text)})"
        # Not `from error`: it quotes every value that does not fit, however many. It stays as the context.
        raise ParseError(
            f"expected {name}, received JSON that does not fit: {what}", text=text, path=_path(first, value)
        ) from None


def _no_json(text: str, error: Exception) -> ParseError:
    """The error for a text that cannot be read: it is cut if more text could have made it JSON."""
    position = error.pos if isinstance(error, json.JSONDecodeError) else None
    try:
        PartialJSON().feed(text)
    except ParseError as wrong:
        return wrong
    cut = position is not None
    what = "whole JSON, received text that ends too early" if cut else "JSON, received what cannot be read"
    at = "" if position is None else f" at character {position}"
    return ParseError(f"expected {what}{at}: {excerpt(text)}", text=text, position=position, cut=cut)


def _path(detail: ErrorDetails, value: Any) -> Path:
    """Where a value does not fit: pydantic's location without the names of a union's members."""
    path: list[str | int] = []
    for part in detail["loc"]:
        if len(existing_path((part,), value)) == 1:
            path.append(part)
            value = value[part]
    return (*path, detail["loc"][-1]) if detail["type"] == "missing" else tuple(path)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what a pattern takes ends; it takes at least nothing."""
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _may_go_on(token: str) -> bool:
    """Whether a number or a word may begin with these characters."""
    return bool(_OPEN_NUMBER.fullmatch(token)) or any(word.startswith(token) for word in _WORDS)


def _number(token: str) -> int | float:
    if not _NUMBER.fullmatch(token):
        raise ValueError(token)
    return int(token) if token.removeprefix("-").isdigit() else float(token)


def _unescaped(escape: re.Match[str]) -> str:
    simple, high, low, code = escape.groups()
    if simple:
        return _UNESCAPED.get(simple, simple)
    if high:
        return chr(0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00)
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= int(code, 16) <= 0xDFFF else chr(int(code, 16))
