"""The assembled tool calls of a message, and the types of their arguments."""

import builtins
import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, overload

from pydantic import PrivateAttr

from chunkfold.arguments import check_instance, wrong_type
from chunkfold.json_text.parsing import OBJECT, ModelT, T, adapter_of, first_of_equal
from chunkfold.json_text.surrogates import well_formed
from chunkfold.models.base import AnyString, Model, Uncompared, null_as

ToolTypes = Mapping[str, Any]
"""What the arguments of each tool are: pydantic models, TypedDicts, dataclasses, by the tools' names."""

NEXT_OBJECT: Final = re.compile(r"\}[ \t\n\r]*+\{")
"""Where another object may follow an object in arguments, if it is not in a string."""
_NAMED_TYPES: Final = "types by the tools' names"
_SERVER_SIDE_IDS: Final = "srvtoolu_"  # Anthropic's own tools, as LiteLLM and Portkey pass them on
_SERVER_SIDE_TYPE: Final = "web_search"  # the search of StepFun and MiniMax


def is_server_side(id_: str | None, type_: str | None, *, has_name: bool) -> bool:
    """Whether a tool call leaves the client nothing to run: the server ran it or it has no name (Portkey)."""
    return not has_name or type_ == _SERVER_SIDE_TYPE or (id_ is not None and id_.startswith(_SERVER_SIDE_IDS))


def arguments_json(arguments: str) -> str:
    """A call's arguments as one object without a placeholder, also if it is repeated, or encoded twice (CF310)."""
    raw = object_in_string(arguments) or arguments
    text = without_placeholder(raw)
    text = first_of_equal(text) if NEXT_OBJECT.search(text) else text
    return raw if text == raw.lstrip() else text  # blanks stay where nothing was dropped


def object_in_string(arguments: str) -> str | None:
    """The text of an object, if a call's arguments are a JSON string with that text; else None."""
    if not arguments.lstrip().startswith('"'):
        return None
    try:
        text = json.loads(arguments)
    except ValueError:
        return None
    return well_formed(text) if text.lstrip().startswith("{") else None


def without_placeholder(arguments: str) -> str:
    """A call's arguments as JSON: no text and `null` mean an empty object; a `{}` before another object is dropped.

    Relays in front of Gemini send `null` if the model gave no arguments (CF203).
    """
    text = arguments.lstrip() or "{}"
    if text.rstrip() == "null":
        return "{}"
    rest = text[2:].lstrip() if text.startswith("{}") else ""
    return rest if rest.startswith("{") else text


class _Registered(Uncompared):
    """A tool's type. It is pickled only if it can be imported again, unlike one that is local to a function."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Uncompared], tuple[Any, ...]]:
        module = sys.modules.get(getattr(self.value, "__module__", ""))
        is_found = getattr(module, getattr(self.value, "__qualname__", ""), None) is self.value
        return (_Registered, (self.value,)) if is_found else (Uncompared, ())


class FunctionCall(Model):
    """The legacy function call."""

    name: str | None = None
    arguments: Annotated[str, null_as("")] = ""


class Function(Model):
    """The function that a model calls, with its arguments.

    Attributes:
        name: As assembled; None if none was sent.
        arguments: The raw text, assembled; "" if none was sent.
    """

    name: str | None = None
    arguments: Annotated[str, null_as("")] = ""

    _type: Uncompared = PrivateAttr(default_factory=Uncompared)

    @overload
    def parse(self, type: builtins.type[T]) -> T: ...
    @overload
    def parse(self, type: Any = None) -> Any: ...
    def parse(self, type: Any = None) -> Any:
        """Parse the arguments as `type` (anything pydantic can validate), else as the registered type, else as a dict.

        Empty arguments are an empty object, and so is the word `null`. A placeholder `{}` before the real ones (sent by
        some bridges) is dropped, and so is a repetition of the same object. An object in a JSON string is read. Types
        are registered by the parser's option `tools`.

        Raises:
            ParseError: The arguments are not a JSON object (`cut` says whether they ended too early), or do not fit the
                type.
        """
        from chunkfold.json_text.partial import parse_json

        return parse_json(arguments_json(self.arguments), self._type_or(type))

    @overload
    def parse_partial(self, type: builtins.type[ModelT], *, half_numbers: bool = False) -> ModelT | dict[str, Any]: ...
    @overload
    def parse_partial(self, type: Any = None, *, half_numbers: bool = False) -> Any: ...
    def parse_partial(self, type: Any = None, *, half_numbers: bool = False) -> Any:
        """Parse the arguments that have arrived so far, see `PartialJSON`; the types are those of `parse`.

        Raises:
            ParseError: They are not the beginning of JSON.
        """
        from chunkfold.json_text.partial import PartialJSON

        return PartialJSON(self._type_or(type), half_numbers=half_numbers).feed(arguments_json(self.arguments))

    def _type_or(self, type: Any) -> Any:
        known = type if type is not None else self._type.value
        return known if known is not None else OBJECT


class Custom(Model):
    """The custom tool that a model calls, with its free-form input."""

    name: str | None = None
    input: Annotated[str, null_as("")] = ""


class ChatCompletionMessageFunctionToolCall(Model):
    """A call of a function tool.

    Attributes:
        id: As sent; if none was sent, None while the stream runs, and made up at its end.
    """

    id: str | None = None
    type: Annotated[Literal["function"], AnyString, null_as("function")] = "function"
    function: Function

    @property
    def name(self) -> str:
        """The tool's name, "" if none was sent."""
        return self.function.name or ""

    @property
    def is_server_side(self) -> bool:
        """Whether you must not run it: the server ran it itself (by its id or its type), or it has no name."""
        return is_server_side(self.id, self.type, has_name=bool(self.name))

    @property
    def arguments(self) -> str:
        """The raw arguments."""
        return self.function.arguments


class ChatCompletionMessageCustomToolCall(Model):
    """A call of a custom tool.

    Attributes:
        id: As sent; if none was sent, None while the stream runs, and made up at its end.
    """

    id: str | None = None
    type: Annotated[Literal["custom"], AnyString, null_as("custom")] = "custom"
    custom: Custom

    @property
    def name(self) -> str:
        """The tool's name, "" if none was sent."""
        return self.custom.name or ""

    @property
    def is_server_side(self) -> bool:
        """Whether you must not run it: the server ran it itself (by its id or its type), or it has no name."""
        return is_server_side(self.id, self.type, has_name=bool(self.name))

    @property
    def arguments(self) -> str:
        """The raw input."""
        return self.custom.input


ChatCompletionMessageToolCall = ChatCompletionMessageFunctionToolCall | ChatCompletionMessageCustomToolCall


def checked_types(types: ToolTypes) -> ToolTypes:
    """A copy of a registry; a `TypeError` if it is not one, or pydantic cannot validate one of the types."""
    if not hasattr(types, "items"):
        raise wrong_type("tools", _NAMED_TYPES, types)
    for name, as_type in types.items():
        check_instance("tools", name, str, _NAMED_TYPES)
        try:
            adapter_of(as_type)
        except TypeError as error:
            raise TypeError(f"tools[{name!r}]: {error}") from None
    return dict(types)


def give_types(calls: Iterable[ChatCompletionMessageToolCall], types: ToolTypes) -> None:
    """Give each call the type of its arguments."""
    for call in calls:
        if isinstance(call, ChatCompletionMessageFunctionToolCall):
            call.function._type = _Registered(types.get(call.name))  # pyright: ignore[reportPrivateUsage] - of this module
