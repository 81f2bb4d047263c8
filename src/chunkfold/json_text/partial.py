"""Parse JSON that is still being written into its value so far.

The text is parsed once, as it arrives, into a tree that grows. A value that is returned is a copy of the containers
that are still open; finished items are shared, because they never change again. The text pays for copying, so that the
cost is linear: if many items are open or long, a value is copied only after some more text.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from itertools import takewhile
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json

from chunkfold.arguments import check_flag, check_instance
from chunkfold.errors import ParseError
from chunkfold.excerpts import excerpt, on_one_line
from chunkfold.json_text.grammar import ESCAPE, NUMBER, OPEN_ESCAPE, PLAIN, SCALAR, SPACE, end_of, is_unfinished
from chunkfold.json_text.parsing import adapter_of, load_json, name_of, validate_json
from chunkfold.json_text.shapes import Shape, shape_of
from chunkfold.json_text.surrogates import REPLACEMENT
from chunkfold.json_text.values import MAX_DEPTH, dotted, existing_path, is_object

_ANYTHING: Final = shape_of(adapter_of(Any))
_FREE_COPIES: Final = 100_000  # items that may be copied before the text pays for them
_COPIES_PER_CHARACTER: Final = 64  # items
_CHARACTERS_PER_COPY: Final = 16  # of an open string
# What is expected next, in the words of the messages.
_VALUE: Final = "a value"
_VALUE_OR_END: Final = "a value or ]"
_KEY: Final = "a key"
_KEY_OR_END: Final = "a key or }"
_COLON: Final = "a colon"
_COMMA: Final = "a comma or the end of the object or list"
_OVER: Final = "nothing more"
_SHORTER: Final = "a number with fewer digits"
_VALUE_WANTED: Final = (_VALUE, _VALUE_OR_END)
_KEY_WANTED: Final = (_KEY, _KEY_OR_END)
_STRING_WANTED: Final = (*_VALUE_WANTED, *_KEY_WANTED)
_END_WANTED: Final = (_VALUE_OR_END, _KEY_OR_END, _COMMA)
_LONGEST_PLACE: Final = 200  # characters of a path
_LONG_NUMBER: Final = 1_000  # characters: a longer one is parsed only when it has ended


@dataclass(slots=True)
class _Open:
    """A container that is still being written."""

    value: Any  # the part of it that is known and fits
    shape: Shape | None  # the type that it has to fit; None if no value is allowed there
    is_held: bool  # it is validated only as a whole, and so not shown before it has ended
    key: str = ""  # the latest


def _insert(container: Any, key: str, value: Any) -> None:
    if is_object(container):
        container[key] = value
    else:
        container.append(value)


class PartialJSON:
    """Parse JSON piece by piece; return the value so far after each piece.

    Strings are shown as they grow. Numbers are shown once they have ended, unless `half_numbers` is set: a 12 may
    become a 120. Half a literal (`tru`) and half a key are never shown. Until there is something to show, the value is
    None.

    Without a type the values are dicts, lists and so on, as in the JSON. With a type, values that do
    not fit are left out: fields, items and values are checked one by one, when they have ended. A growing string is
    shown only if any text is allowed, so not for a date or a literal. Missing keys are not an error. Once the text is
    complete and valid, the value is the result of `parse`: for a pydantic model, the model. For types with keys (a
    model, a TypedDict, a dataclass, a dict) the value is a dict from the start.

    A value that was returned never changes; later values share its finished parts. The cost is linear in the
    text. For that, a value may lack the last characters: while very long lists are open, up to one for
    every 64 of their items, and in a very long string one for every 1,024 of its characters.

    Args:
        type: Anything pydantic can validate; None for plain JSON values.
        half_numbers: Whether to show a number that may still continue.

    Raises:
        TypeError: Pydantic cannot validate the type, or `half_numbers` is not a bool.

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
        check_flag("half_numbers", half_numbers)
        self._type = type
        self._root_shape = _ANYTHING if type is None else shape_of(adapter_of(type))
        self._half_numbers = half_numbers
        self._text = StringIO(newline="")
        self._rest = ""  # the beginning of a number, a word or an escape, which the next piece may complete
        self._number: StringIO | None = None  # an open number that is too long to be parsed after each piece
        self._wants: str = _VALUE
        self._stack: list[_Open] = []
        self._open_items = 0  # how many items the open containers have
        self._string: StringIO | None = None  # an open string, a key's too
        self._root: Any = self._root_shape.begins_as()
        self._credit = _FREE_COPIES
        self._failure: ParseError | None = None
        self.value: Any = self._root

    def feed(self, text: str) -> Any:
        """Take the next piece; return the value, which is also kept as `value`.

        Raises:
            TypeError: It is not a str.
            ParseError: The text is not JSON, and cannot become JSON; or it is nested deeper than 500.
        """
        if self._failure is not None:
            raise self._failure
        check_instance("text", text, str, "a str")
        self._text.write(text)
        self._read(text)
        self._credit += len(text) * _COPIES_PER_CHARACTER
        cost = self._open_items + len(self._stack)
        if self._string is not None:
            cost += self._string.tell() // _CHARACTERS_PER_COPY
        if cost <= self._credit:
            self._credit -= cost
            self.value = self._shown()
        return self.value

    def close(self) -> Any:
        """Mark the end of the text; return the whole value, exactly as `parse` does.

        Raises:
            ParseError: It is not JSON (`cut` says whether it ended too early), or does not fit the type.
        """
        self.value = parse_json(self._text.getvalue(), self._type)
        return self.value

    def _read(self, text: str) -> None:
        if self._number is not None:
            self._number.write(text)
            if SCALAR.fullmatch(text):  # it may continue
                return
            text, self._number = self._number.getvalue(), None
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            string = self._string
            at = self._take_token(text, at) if string is None else self._take_string(string, text, at)

    def _take_string(self, string: StringIO, text: str, at: int) -> int:
        """Continue an open string; return where the part that was taken ends."""
        end = end_of(PLAIN, text, at)
        string.write(text[at:end])
        if end == len(text):
            return end
        if text[end] == '"':
            self._string = None
            if self._wants in _KEY_WANTED:
                self._stack[-1].key, self._wants = string.getvalue(), _COLON
            else:
                self._put(string.getvalue())
            return end + 1
        escape = ESCAPE.match(text, end)
        if OPEN_ESCAPE.fullmatch(text, end):
            self._rest = text[end:]
            return len(text)
        if escape is None:
            raise self._error(text, end, "an escape" if text[end] == "\\" else "no control character in a string")
        string.write(REPLACEMENT if escape["half"] else from_json(f'"{escape[0]}"'))
        return escape.end()

    def _take_token(self, text: str, at: int) -> int:
        """Read one token outside of strings; return where it ends."""
        at = end_of(SPACE, text, at)
        if at == len(text):
            return at
        wants, sign = self._wants, text[at]
        if sign == '"' and wants in _STRING_WANTED:
            self._string = StringIO(newline="")
        elif sign in "{[" and wants in _VALUE_WANTED:
            if len(self._stack) == MAX_DEPTH:
                raise self._error(text, at, f"at most {MAX_DEPTH} levels")
            self._begin({} if sign == "{" else [])
        elif sign in "}]" and wants in _END_WANTED and isinstance(self._stack[-1].value, dict if sign == "}" else list):
            self._end()
        elif sign == ":" and wants == _COLON:
            self._wants = _VALUE
        elif sign == "," and wants == _COMMA:
            self._wants = _KEY if isinstance(self._stack[-1].value, dict) else _VALUE
        elif wants in _VALUE_WANTED:
            return self._take_scalar(text, at)
        else:
            raise self._error(text, at, wants)
        return at + 1

    def _take_scalar(self, text: str, at: int) -> int:
        """Take a number or a word; keep one at the end of the text, because the next piece may continue it."""
        end = end_of(SCALAR, text, at)
        token = text[at:end]
        if end < len(text) or not is_unfinished(token):
            try:
                self._put(from_json(token))
            except ValueError:
                expected = _SHORTER if NUMBER.fullmatch(token) else self._wants
                raise self._error(text, at, expected) from None
        elif len(token) > _LONG_NUMBER:
            self._number = StringIO(newline="")
            self._number.write(token)
        else:
            self._rest = token
        return end

    def _shape_here(self) -> Shape | None:
        """The type at the place where a value starts; None if no value is allowed."""
        if not self._stack:
            return self._root_shape
        frame = self._stack[-1]
        if frame.is_held or frame.shape is None:
            return _ANYTHING
        return frame.shape.child(frame.key if is_object(frame.value) else None)

    def _put(self, value: Any) -> None:
        shape = self._shape_here()
        if shape is not None and shape.fits(value):
            self._attach(value)
        self._end_value()

    def _attach(self, value: Any) -> None:
        if self._stack:
            frame = self._stack[-1]
            before = len(frame.value)
            _insert(frame.value, frame.key, value)
            self._open_items += len(frame.value) - before
        else:
            self._root = value

    def _begin(self, value: dict[str, Any] | list[Any]) -> None:
        """A container begins. It is shown from now on, unless its type can be judged only as a whole."""
        shape = self._shape_here()
        self._stack.append(_Open(value, shape, is_held=shape is None or not shape.may_be(type(value))))
        self._wants = _KEY_OR_END if isinstance(value, dict) else _VALUE_OR_END

    def _end(self) -> None:
        frame = self._stack.pop()
        self._open_items -= len(frame.value)
        if not frame.is_held or (frame.shape is not None and frame.shape.fits(frame.value)):
            self._attach(frame.value)
        self._end_value()

    def _end_value(self) -> None:
        """Once the text is complete and valid, its value is the result of `parse`."""
        self._wants = _COMMA if self._stack else _OVER
        if self._wants == _OVER and self._type is not None:
            with suppress(Exception):  # validators may fail in any way; `close` says how
                self._root = validate_json(self._text.getvalue(), self._type)

    def _shown(self) -> Any:
        """The value so far: copies of the open containers, one inside the other, and the open string or number."""
        frames = list(takewhile(lambda frame: not frame.is_held, self._stack))
        is_shown, value = self._open_leaf() if len(frames) == len(self._stack) else (False, None)
        for frame in reversed(frames):
            inner, value = value, frame.value.copy()
            if is_shown:
                _insert(value, frame.key, inner)
            is_shown = True
        return value if is_shown else self._root

    def _open_leaf(self) -> tuple[bool, Any]:
        """The string or number that the text ends in, and whether to show it."""
        shape = self._shape_here() if self._wants in _VALUE_WANTED else None
        if shape is None:
            return False, None
        if self._string is not None:
            text = self._string.getvalue()
            return shape.fits_growing(text), text
        number = NUMBER.match(self._rest) if self._half_numbers else None
        value = from_json(number[0]) if number is not None else None
        return value is not None and shape.fits(value), value

    def _error(self, text: str, at: int, expected: str) -> ParseError:
        whole = self._text.getvalue()
        position = len(whole) - len(text) + at
        msg = f"expected JSON, received other text: expected {expected} at character {position}: {excerpt(text[at:])}"
        self._failure = ParseError(msg, text=whole, position=position)
        return self._failure


def parse_json(text: str, as_type: Any) -> Any:
    """Parse the whole text as JSON, into `as_type` if one is given; a `ParseError` if that is not possible."""
    if not text or text.isspace():
        raise ParseError("expected JSON, received no text", text=text)
    try:
        value = load_json(text)
    except (ValueError, RecursionError) as error:
        raise _no_json(text, error) from None
    if as_type is None:
        return value
    try:
        return validate_json(text, as_type)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        loc = first["loc"]
        what = f"{dotted(loc)[:_LONGEST_PLACE]}: {on_one_line(first['msg'])} (in {excerpt(text)})"
        # Not `from error`: it quotes every value that does not fit, however many. It stays as the context.
        raise ParseError(
            f"expected {name_of(as_type)[:_LONGEST_PLACE]}, received JSON that does not fit: {what}",
            text=text,
            path=existing_path(loc, value) + (loc[-1:] if first["type"] == "missing" else ()),
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
