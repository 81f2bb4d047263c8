"""The completion side: the final message, or a snapshot of it, in openai-python's shape.

Raw fields stay as they were sent; views such as `outcome` stand beside them. `message.reasoning` alone is
normalised: it has the reasoning text whichever field brought it.
"""

import builtins
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, overload

from pydantic import BaseModel, PrivateAttr

from chunkfold.errors import ParseError, excerpt
from chunkfold.json_values import copied
from chunkfold.models.base import AnyString, Aside, Model
from chunkfold.models.outcome import Outcome, outcome_of
from chunkfold.models.parsing import adapter_of, without_placeholder
from chunkfold.models.shared import Annotation, ChoiceLogprobs, CompletionUsage

if TYPE_CHECKING:
    from chunkfold.models.parts import MessagePart, PartStart

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)

ToolTypes = Mapping[str, Any]
"""What the arguments of each tool are: pydantic models, TypedDicts, dataclasses, by the tools' names."""


class _Registered(Aside):
    """A tool's type. It is pickled where it can be found again: a type may be known here only."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Aside], tuple[Any, ...]]:
        module = sys.modules.get(getattr(self.value, "__module__", ""))
        is_found = getattr(module, getattr(self.value, "__qualname__", ""), None) is self.value
        return (_Registered, (self.value,)) if is_found else (Aside, ())


class FunctionCall(Model):
    """The legacy function call."""

    name: str | None = None
    arguments: str = ""


class Function(Model):
    """The function a model wants called.

    Attributes:
        name: As assembled; None if none ever came.
        arguments: The raw text, assembled and nothing else: "" if none came.
    """

    name: str | None = None
    arguments: str = ""

    _type: Aside = PrivateAttr(default=Aside())

    @overload
    def parse(self, type: builtins.type[T]) -> T: ...
    @overload
    def parse(self, type: None = None) -> Any: ...
    def parse(self, type: Any = None) -> Any:
        """The arguments as `type` (anything pydantic can validate), else as the tool's registered type, else a dict.

        No arguments at all mean an empty object; a placeholder `{}` before the real ones (sent by some bridges)
        is dropped. Types are registered by the parser's option `tools`.

        Raises:
            ParseError: They are no JSON object (`cut` says whether they ended too early), or not of that type.
        """
        from chunkfold.models.partial import parse_json

        return parse_json(without_placeholder(self.arguments), self._type_or(type))

    @overload
    def parse_partial(self, type: builtins.type[ModelT], *, half_numbers: bool = False) -> ModelT | dict[str, Any]: ...
    @overload
    def parse_partial(self, type: Any = None, *, half_numbers: bool = False) -> Any: ...
    def parse_partial(self, type: Any = None, *, half_numbers: bool = False) -> Any:
        """What is known of the arguments so far, see `PartialJSON`; the types are those of `parse`.

        Raises:
            ParseError: They are no JSON, however they may go on.
        """
        from chunkfold.models.partial import PartialJSON

        return PartialJSON(self._type_or(type), half_numbers=half_numbers).feed(without_placeholder(self.arguments))

    def give_type(self, type: Any) -> None:
        """Say what the arguments are, for those who parse them without saying."""
        self._type = _Registered(type)

    def _type_or(self, type: Any) -> Any:
        known = type if type is not None else self._type.value
        return known if known is not None else dict[str, Any]


class Custom(Model):
    """The custom tool a model wants called, with its free-form input."""

    name: str | None = None
    input: str = ""


class ChatCompletionMessageFunctionToolCall(Model):
    """A call of a function tool.

    Attributes:
        id: As sent; made up at the end where none was; None while a stream still runs without one.
    """

    id: str | None = None
    type: Annotated[Literal["function"], AnyString] = "function"
    function: Function

    @property
    def name(self) -> str:
        """The tool's name, "" if none came."""
        return self.function.name or ""

    @property
    def arguments(self) -> str:
        """The raw arguments."""
        return self.function.arguments


class ChatCompletionMessageCustomToolCall(Model):
    """A call of a custom tool.

    Attributes:
        id: As sent; made up at the end where none was; None while a stream still runs without one.
    """

    id: str | None = None
    type: Annotated[Literal["custom"], AnyString] = "custom"
    custom: Custom

    @property
    def name(self) -> str:
        """The tool's name, "" if none came."""
        return self.custom.name or ""

    @property
    def arguments(self) -> str:
        """The raw input."""
        return self.custom.input


ChatCompletionMessageToolCall = ChatCompletionMessageFunctionToolCall | ChatCompletionMessageCustomToolCall


class ChatCompletionAudio(Model):
    """Spoken output; `data` is base64 of the whole, `expires_at` seconds since 1970."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


class ChatCompletionMessage(Model):
    """The assistant's message.

    Attributes:
        content: The text; None if no content came at all.
        reasoning: The reasoning text, whichever field brought it; None if none came.
        reasoning_content: The raw field of that name, beside it.
        reasoning_details: The raw fragments, merged by type and index.
        tool_calls: In the order of their first appearance; empty if there are none.
    """

    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    tool_calls: list[ChatCompletionMessageToolCall] = []
    function_call: FunctionCall | None = None
    audio: ChatCompletionAudio | None = None
    images: list[Any] | None = None
    annotations: list[Annotation] | None = None
    reasoning_content: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None

    _order: Aside = PrivateAttr(default=Aside())

    @property
    def parts(self) -> "list[MessagePart]":
        """Reasoning, text, refusal, tool calls, images and audio in the order in which they came.

        A message that was not read from a stream, or was changed since, has them in the usual order: reasoning, text,
        then the rest.
        """
        from chunkfold.models.parts import parts_of, usual_order

        fields, order = self.__dict__, self._order.value
        return parts_of(fields, order.parts if order is not None and order.is_of(fields) else usual_order(fields))

    def keep_order(self, parts: "Sequence[PartStart]") -> None:
        """Say in which order the parts came: for each, the field and where in it the part begins."""
        from chunkfold.models.parts import Order, sizes_of

        self._order = Aside(Order(tuple(parts), sizes_of(self.__dict__)))

    @overload
    def parse(self, type: builtins.type[T]) -> T: ...
    @overload
    def parse(self, type: None = None) -> Any: ...
    def parse(self, type: Any = None) -> Any:
        """The content as JSON, into `type` where one is given (anything pydantic can validate).

        Raises:
            ParseError: It is no JSON (`cut` says whether it ended too early), not of that type, or a refusal.
        """
        from chunkfold.models.partial import parse_json

        text: str = self.__dict__.get("content") or ""
        if not text and self.__dict__.get("refusal"):
            raise ParseError(f"expected JSON, received a refusal: {excerpt(self.refusal)}")
        return parse_json(text, type)

    @overload
    def parse_partial(self, type: builtins.type[ModelT], *, half_numbers: bool = False) -> ModelT | dict[str, Any]: ...
    @overload
    def parse_partial(self, type: Any = None, *, half_numbers: bool = False) -> Any: ...
    def parse_partial(self, type: Any = None, *, half_numbers: bool = False) -> Any:
        """What is known so far of the JSON in the content, see `PartialJSON`.

        Raises:
            ParseError: It is no JSON, however it may go on.
        """
        from chunkfold.models.partial import PartialJSON

        return PartialJSON(type, half_numbers=half_numbers).feed(self.__dict__.get("content") or "")

    def to_param(self, *, reasoning_content: bool = False) -> dict[str, Any]:
        """This message as the request's next turn wants it (OpenAI API, `messages`).

        It has the content, the refusal, the tool calls with their ids and unknown fields (such as Google's
        `extra_content` with its thought signature), and `reasoning_details` with their signatures, as OpenRouter
        wants them back. Arguments that are empty become `{}`, which every provider takes.

        Args:
            reasoning_content: Whether to send the reasoning text back under that name: Moonshot and DeepSeek want
                it between tool calls, others refuse it.
        """
        # By the dict: a value of a wrong type is kept raw beside the fields, and is nothing to send back.
        fields, unknown = self.__dict__, self.model_extra or {}
        param: dict[str, Any] = {"role": "assistant", "content": fields.get("content")}
        if fields.get("refusal"):
            param["refusal"] = self.refusal
        if self.tool_calls:
            param["tool_calls"] = [_call_param(call) for call in self.tool_calls]
        if fields.get("function_call") is not None:
            param["function_call"] = _function_param(fields["function_call"])
        if fields.get("audio") is not None and fields["audio"].id:
            param["audio"] = {"id": fields["audio"].id}
        if fields.get("reasoning_details"):
            param["reasoning_details"] = copied(self.reasoning_details)
        if reasoning_content and self.reasoning:
            param["reasoning_content"] = self.reasoning
        if "extra_content" in unknown:
            param["extra_content"] = copied(unknown["extra_content"])
        return param


class Choice(Model):
    """One of the completions that were asked for.

    Attributes:
        finish_reason: The provider's word; None while the choice is open.
    """

    index: int = 0
    finish_reason: str | None = None
    message: ChatCompletionMessage
    logprobs: ChoiceLogprobs | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What the finish reason means; None while the choice is open."""
        fields = self.message.__dict__  # a value of a wrong type is kept raw beside them, and is no call
        called = bool(fields.get("tool_calls")) or fields.get("function_call") is not None
        return outcome_of(self.finish_reason, has_tool_calls=called)


class ChatCompletion(Model):
    """What a stream gave: whole once it ended well, a snapshot before."""

    id: str | None = None
    object: str = "chat.completion"
    created: int | None = None
    model: str | None = None
    choices: list[Choice] = []
    usage: CompletionUsage | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None

    @property
    def message(self) -> ChatCompletionMessage:
        """The message of the first choice; an empty one if there is no choice."""
        return self.choices[0].message if self.choices else ChatCompletionMessage()

    @property
    def text(self) -> str:
        """The text of the first choice, "" if none."""
        return self.message.__dict__.get("content") or ""

    @property
    def reasoning(self) -> str:
        """The reasoning text of the first choice, "" if none."""
        return self.message.reasoning or ""

    @property
    def tool_calls(self) -> list[ChatCompletionMessageToolCall]:
        """The tool calls of the first choice."""
        return self.message.tool_calls

    @property
    def finish_reason(self) -> str | None:
        """The finish reason of the first choice, as sent."""
        return self.choices[0].finish_reason if self.choices else None

    def _repr_html_(self) -> str:
        """What a notebook shows: the message, of long texts the beginning; every character of it escaped."""
        from chunkfold.models.html import completion_html

        return completion_html(self)


def checked_types(types: ToolTypes) -> ToolTypes:
    """A copy of a registry.

    Raises:
        TypeError: It is no mapping, or pydantic knows nothing to do with one of the types.
    """
    if not hasattr(types, "items"):
        raise TypeError(f"tools: expected types by the tools' names, received {excerpt(types)}")
    for name, as_type in types.items():
        try:
            adapter_of(as_type)
        except TypeError as error:
            raise TypeError(f"tools[{name!r}]: {error}") from error
    return dict(types)


def give_types(calls: Iterable[ChatCompletionMessageToolCall], types: ToolTypes) -> None:
    """Tell each call what its arguments are."""
    for call in calls:
        if isinstance(call, ChatCompletionMessageFunctionToolCall):
            call.function.give_type(types.get(call.name))


def _call_param(call: ChatCompletionMessageToolCall) -> dict[str, Any]:
    param = call.model_dump()
    if isinstance(call, ChatCompletionMessageFunctionToolCall):
        param["function"] = _function_param(call.function)
    else:
        param["custom"]["name"] = call.name
    return param


def _function_param(function: Function | FunctionCall) -> dict[str, Any]:
    return {**function.model_dump(), "name": function.name or "", "arguments": without_placeholder(function.arguments)}
