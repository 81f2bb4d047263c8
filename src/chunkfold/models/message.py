"""The assembled message of the assistant, and its form for the next request."""

import builtins
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, overload

from pydantic import PrivateAttr, model_validator

from chunkfold.arguments import check_flag
from chunkfold.errors import ParseError
from chunkfold.excerpts import excerpt
from chunkfold.json_text.parsing import ModelT, T
from chunkfold.json_text.values import copied
from chunkfold.models.base import RAW_VALUES, Model, Uncompared, null_as
from chunkfold.models.content import fields_of, read_part, reasoning_text, returned_fields, text_of
from chunkfold.models.shared import Annotation, ChatCompletionAudio
from chunkfold.models.tool_calls import (
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageToolCall,
    Function,
    FunctionCall,
    arguments_json,
)

if TYPE_CHECKING:
    from chunkfold.models.parts import MessagePart, PartStart

# With one of these the API takes a message without content.
_WITHOUT_CONTENT: Final = ("refusal", "tool_calls", "function_call", "audio")
_PARSED_DOCUMENT: Final = "file"  # the type of OpenRouter's annotations with a parsed document, which it charges for


class ChatCompletionMessage(Model):
    """The assistant's message.

    Attributes:
        content: The text; None if no content was sent.
        content_parts: All parts of the content in their order, text included, if it was sent as a list that has more
            than text (Mistral, Databricks); else None.
        reasoning: The reasoning text, whichever field it was sent in; None if there is none.
        reasoning_content: The raw field of that name.
        reasoning_details: The raw fragments, merged by type and index.
        tool_calls: In the order of their first appearance; empty if there are none.
    """

    role: Annotated[str, null_as("assistant")] = "assistant"
    content: str | None = None
    content_parts: list[dict[str, Any]] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    tool_calls: Annotated[list[ChatCompletionMessageToolCall], null_as([])] = []
    function_call: FunctionCall | None = None
    audio: ChatCompletionAudio | None = None
    images: list[Any] | None = None
    annotations: list[Annotation] | None = None
    reasoning_content: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None

    _order: Uncompared = PrivateAttr(default_factory=Uncompared)

    @model_validator(mode="after")
    def _read_reasoning(self) -> Self:
        """Read the reasoning from a text in another field if it was not folded here: openai-python dumps only these."""
        if self.reasoning is None and (self.reasoning_content or self.__pydantic_extra__):
            vars(self)["reasoning"] = reasoning_text(fields_of(self)) or None  # it does not count as sent
        return self

    @property
    def parts(self) -> "list[MessagePart]":
        """Reasoning, text, refusal, tool calls, images and audio in the order in which they arrived.

        If the message was not read from a stream, or was changed since, they are in the usual order: reasoning, text,
        then the rest.
        """
        from chunkfold.models.parts import parts_of, sizes_of, usual_order

        fields = self.__dict__
        order, sizes = self._order.value or ((), ())
        return parts_of(fields, order if sizes == sizes_of(fields) else usual_order(fields))

    @overload
    def parse(self, type: builtins.type[T]) -> T: ...
    @overload
    def parse(self, type: Any = None) -> Any: ...
    def parse(self, type: Any = None) -> Any:
        """Parse the content as JSON, into `type` if one is given (anything pydantic can validate).

        Raises:
            ParseError: It is not JSON (`cut` says whether it ended too early), does not fit the type, or is a refusal.
        """
        from chunkfold.json_text.partial import parse_json

        text = self.content or ""
        if not text and self.refusal:
            raise ParseError(f"expected JSON, received a refusal: {excerpt(self.refusal)}")
        return parse_json(text, type)

    @overload
    def parse_partial(self, type: builtins.type[ModelT], *, half_numbers: bool = False) -> ModelT | dict[str, Any]: ...
    @overload
    def parse_partial(self, type: Any = None, *, half_numbers: bool = False) -> Any: ...
    def parse_partial(self, type: Any = None, *, half_numbers: bool = False) -> Any:
        """Parse the JSON that has arrived so far, see `PartialJSON`.

        Raises:
            ParseError: The text is not the beginning of JSON.
        """
        from chunkfold.json_text.partial import PartialJSON

        return PartialJSON(type, half_numbers=half_numbers).feed(self.content or "")

    def to_param(self, *, reasoning_content: bool = False) -> dict[str, Any]:
        """Return this message in the form of a request's `messages` (OpenAI API), for the next turn.

        It has the content, the refusal, the tool calls with their ids and unknown fields, and the fields that providers
        read or verify on the next turn, as sent: blocks of reasoning with their signatures, opaque reasoning, content
        parts, thought signatures, parsed documents. Empty arguments become `{}`, which every provider accepts. A call
        without a name is left out, because no provider accepts one. A message without output has an empty text.

        Args:
            reasoning_content: Whether to include the reasoning text under that name: Moonshot, DeepSeek and Xiaomi MiMo
                require it between tool calls, even if it was sent empty; others refuse it.

        Raises:
            TypeError: `reasoning_content` is not a bool.
        """
        check_flag("reasoning_content", reasoning_content)
        param: dict[str, Any] = {"role": "assistant", "content": self._content_param()}
        if self.refusal:
            param["refusal"] = self.refusal
        calls = [_call_param(call) for call in self.tool_calls if call.name]
        if calls:
            param["tool_calls"] = calls
        elif self.function_call is not None and self.function_call.name:
            param["function_call"] = _function_param(self.function_call)
        if self.audio is not None and self.audio.id:
            param["audio"] = {"id": self.audio.id}
        if reasoning_content and (self.reasoning or self.reasoning_content is not None):
            param["reasoning_content"] = self.reasoning or ""
        if documents := _parsed_documents(self.annotations or []):
            param["annotations"] = documents
        param |= returned_fields({**self.__dict__, **(self.model_extra or {})})
        if param["content"] is None and param.keys().isdisjoint(_WITHOUT_CONTENT):
            param["content"] = ""
        return param

    def _content_param(self) -> str | list[Any] | None:
        """The parts of the content, if some are more than text and they still are what its text is; else the text.

        Citations and other values beside a text are not sent: most providers refuse them in a request.
        """
        kept = [(part, *read_part(part)) for part in self.content_parts or ()]
        if all(kind == "text" for _, kind, _ in kept) or text_of(self.content_parts) != (self.content or ""):
            return self.content or None
        parts: list[Any] = []
        for is_text, group in groupby(kept, lambda one: one[1] == "text"):
            if not is_text:
                parts += [copied(part) for part, _, _ in group]
            elif text := "".join(text for _, _, text in group):
                parts.append({"type": "text", "text": text})
        return parts


def keep_order(message: ChatCompletionMessage, parts: "list[PartStart]") -> None:
    """Record the order of a message's parts: for each, the field and where in it the part begins."""
    from chunkfold.models.parts import sizes_of

    # With other sizes of its fields, the message was changed since.
    message._order = Uncompared((tuple(parts), sizes_of(message.__dict__)))  # pyright: ignore[reportPrivateUsage] - of this module


def _call_param(call: ChatCompletionMessageToolCall) -> dict[str, Any]:
    # Some servers list whole calls with their index (Mistral), which others refuse in a request.
    param = call.model_dump(exclude={RAW_VALUES, "index"})
    if isinstance(call, ChatCompletionMessageFunctionToolCall):
        param["function"] = _function_param(call.function)
    return param


def _parsed_documents(annotations: list[Any]) -> list[dict[str, Any]]:
    documents = (one for one in annotations if isinstance(one, Annotation) and one.type == _PARSED_DOCUMENT)
    return [one.model_dump(exclude={RAW_VALUES}, exclude_unset=True) for one in documents]


def _function_param(function: Function | FunctionCall) -> dict[str, Any]:
    return {**function.model_dump(exclude={RAW_VALUES}), "arguments": arguments_json(function.arguments)}
