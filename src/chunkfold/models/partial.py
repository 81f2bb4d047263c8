"""JSON that is still being written, as a value: what is known of it so far.

The text is read from the start each time, by pydantic's parser, which is fast. What keeps a long one linear is that
it is not read at each piece: short texts are, and longer ones whenever they have grown by a hundredth. So a value is
at most a hundredth of the text behind, and reading costs no more than a hundred times the text in all.
"""

import inspect
import re
from dataclasses import is_dataclass
from io import StringIO
from typing import Any, Final, is_typeddict

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from chunkfold.errors import ParseError, excerpt
from chunkfold.json_values import is_list, is_object
from chunkfold.models.base import Path, existing_path
from chunkfold.models.parsing import adapter_of, parse_json

_ALWAYS_FRESH: Final = 4096  # characters: up to here every piece is read
_LAG: Final = 100  # beyond, the text is read when it has grown by one part in so many
_QUOTES: Final = re.compile(r'\\.|"', re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d[\d.eE+-]*", re.ASCII)
_OPEN_ESCAPE: Final = re.compile(
    r"(?<!\\)((?:\\\\)*)"  # what looks like an escape is one after an even number of backslashes
    r"(?:\\u[dD][89abAB][\da-fA-F]{2})?(?:\\(?:u[\da-fA-F]{0,3})?)?$"
)
_CLOSING: Final = {"{": "}", "[": "]", '"': '"'}
_ANY_MORE: Final = "\uffff"  # a probe: stands for what an open string may go on with


class PartialJSON:
    """Take the text of a JSON value piece by piece; give what is known of the value after each.

    Strings are shown as they grow. Numbers are shown once they have ended, unless `half_numbers` is set: a 12 may
    become a 120. Half a literal (`tru`) and half a key are never shown. Where nothing is known, the value is None.

    Without a type the values are dicts, lists and so on, as in the JSON. With a type they are that too, less what
    does not fit it, or does not fit it yet: a string that grows is shown only where the type takes any text. Keys that
    are still to come are no error. Once the text is whole and valid the value is what `parse` gives: for a pydantic
    model, the model. For a model, a TypedDict or a dataclass the value is a dict from the start.

    Up to 4,096 characters the value is always that of the whole text so far; of a longer text it may be up to one
    hundredth behind. Values are new each time, or the same as before; they are never changed.

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
        self._adapter: TypeAdapter[Any] | None = None if type is None else adapter_of(type)
        self._half_numbers = half_numbers
        self._text = StringIO(newline="")
        self._read = 0  # characters that the value is made of
        self._backslash = ""  # the first half of an escape, which the next piece completes
        self._in_string = False
        self.value: Any = {} if _is_record(type) else None

    def feed(self, text: str) -> Any:
        """Take the next piece; return the value, which is also kept as `value`.

        Raises:
            ParseError: The text is no JSON, however it may go on.
        """
        self._text.write(text)
        self._follow_strings(text)
        size = self._text.tell()
        if size <= _ALWAYS_FRESH or (size - self._read) * _LAG >= size:
            self._read = size
            self._update(self._text.getvalue())
        return self.value

    def close(self) -> Any:
        """The text is over: return the whole value, exactly as `parse` does.

        Raises:
            ParseError: It is no JSON (`cut` says whether it ended too early), or not of the type.
        """
        self.value = parse_json(self._text.getvalue(), self._type)
        return self.value

    def _follow_strings(self, piece: str) -> None:
        """Keep track of whether the text ends inside a string."""
        piece = self._backslash + piece
        self._backslash = ""
        if "\\" not in piece:
            quotes = piece.count('"')
        else:
            quotes = _QUOTES.findall(piece).count('"')
            slashes = len(piece) - len(piece.rstrip("\\"))
            self._backslash = "\\" * (slashes % 2)
        self._in_string ^= quotes % 2 == 1

    def _update(self, text: str) -> None:
        if not text.strip() or (not self._in_string and _may_be_whole(text) and self._take_whole(text)):
            return
        if not self._in_string and not self._half_numbers:
            text = _without_number(text)
        self.value = _known(text) if self._adapter is None else self._fitting(self._adapter, text)

    def _take_whole(self, text: str) -> bool:
        """Take a text that is whole and valid for what it is."""
        try:
            if self._adapter is None:
                self.value = from_json(text.encode("utf-8", "replace"))
            else:
                self.value = self._adapter.validate_json(text.encode("utf-8", "replace"))
        except ValueError:  # pydantic's ValidationError is one too
            return False
        return True

    def _fitting(self, adapter: TypeAdapter[Any], text: str) -> Any:
        """What of the value fits the type: the places that do not are left out."""
        if self._in_string:
            text = _without_escape(text) + _ANY_MORE
        value = _known(text)
        misfits: list[Path] = []
        try:
            adapter.validate_json(to_json(value, inf_nan_mode="constants"))
        except ValidationError as error:
            misfits = _misfits(error, value)
        value = _without_probe(value)
        for path in misfits:
            value = _without(value, path)
        return {} if value is None and _is_record(self._type) else value


def _is_record(type: Any) -> bool:
    """Whether values of a type have named fields, so that what is known of one so far is a dict."""
    return is_typeddict(type) or is_dataclass(type) or (inspect.isclass(type) and issubclass(type, BaseModel | dict))


def _may_be_whole(text: str) -> bool:
    """Whether a text that ends outside of a string ends like a whole value, as far as its two ends show."""
    text = text.strip()
    return _CLOSING.get(text[0]) == text[-1]


def _without_number(text: str) -> str:
    """The text without a number at its end, which may go on."""
    rest = text.rstrip("0123456789.eE+-")
    return rest if _NUMBER.fullmatch(text, len(rest)) else text


def _without_escape(text: str) -> str:
    """A text that ends inside a string without an escape at its end that is not whole."""
    return _OPEN_ESCAPE.sub(r"\1", text) if "\\" in text[-len(r"\ud83d\u0000") :] else text


def _known(text: str) -> Any:
    """What is known of a value that is still being written; None for nothing."""
    try:
        return from_json(text.encode("utf-8", "replace"), allow_partial="trailing-strings")
    except ValueError as error:
        if str(error).startswith("EOF while parsing"):
            return None
        raise ParseError(f"expected JSON, received other text: {error}: {excerpt(text)}", text=text) from None


def _misfits(error: ValidationError, value: Any) -> list[Path]:
    """The places that do not fit, from the last to the first; what only lacks something may still get it."""
    misfits: set[Path] = set()
    lacking: set[Path] = set()
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        path = existing_path(detail["loc"], value)
        (lacking if detail["type"] == "missing" else misfits).add(path)
    # A place in both: of several types that it may have, one would do.
    return sorted(misfits - lacking, key=_sort_key, reverse=True)


def _sort_key(path: Path) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (-1, part) for part in path]


def _without(value: Any, path: Path) -> Any:
    """The value without what stands at a place; changed in place, None if that is all of it."""
    if not path:
        return None
    holder = value
    for part in path[:-1]:
        holder = holder[part]
    del holder[path[-1]]
    return value


def _without_probe(value: Any) -> Any:
    """The value with its last string as it was sent."""
    if isinstance(value, str):
        return value.removesuffix(_ANY_MORE)
    if is_object(value) and value:
        last = next(reversed(value))
        value[last] = _without_probe(value[last])
    elif is_list(value) and value:
        value[-1] = _without_probe(value[-1])
    return value
