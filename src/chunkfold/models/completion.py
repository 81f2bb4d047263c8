"""The models of completions: the final message, or a snapshot of it, in openai-python's shape.

Raw fields stay as sent; properties such as `outcome` are added. Only `message.reasoning` is normalised: it has the
reasoning text from whichever field has it.
"""

from chunkfold.models.base import Model
from chunkfold.models.message import ChatCompletionMessage
from chunkfold.models.outcome import Outcome, outcome_of
from chunkfold.models.shared import ChoiceLogprobs, CompletionUsage
from chunkfold.models.tool_calls import ChatCompletionMessageToolCall


class Choice(Model):
    """One of the requested completions.

    Attributes:
        finish_reason: The finish reason, as sent; None while the choice is open.
    """

    index: int = 0
    finish_reason: str | None = None
    message: ChatCompletionMessage
    logprobs: ChoiceLogprobs | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What the finish reason means; None while the choice is open, and if the stream ended without one.

        `stop` beside tool calls is `tool_calls`, unless the server ran all of them (`is_server_side`).
        """
        message = self.message
        called = message.function_call is not None or not all(call.is_server_side for call in message.tool_calls)
        return outcome_of(self.finish_reason, has_tool_calls=called)


class ChatCompletion(Model):
    """The result of a stream: complete once the stream has ended well, a snapshot before.

    Each field has a value of its type or its default, also in nested models. A value of another type is in
    `raw_values` of the model.
    """

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
        return self.message.content or ""

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
        from chunkfold.models.html import completion_html

        return completion_html(self)
