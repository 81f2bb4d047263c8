"""The pydantic models of chunks (as sent) and of completions (as assembled).

In: validated JSON. Out: typed chunks, and the message that they fold into. Read `chunk` first, then `completion` and
`message`. Two modules hold what providers' words mean: `content`, every spelling of text and reasoning, and `outcome`,
every finish word; `wire/envelopes` turns the words for errors into errors.
"""

from chunkfold.models.base import Model, WrongType
from chunkfold.models.chunk import (
    ChatCompletionChunk,
    ChoiceDelta,
    ChoiceDeltaAudio,
    ChoiceDeltaFunctionCall,
    ChoiceDeltaToolCall,
    ChoiceDeltaToolCallCustom,
    ChoiceDeltaToolCallFunction,
    ChunkChoice,
)
from chunkfold.models.completion import ChatCompletion, Choice
from chunkfold.models.message import ChatCompletionMessage
from chunkfold.models.outcome import Outcome
from chunkfold.models.shared import (
    Annotation,
    AnnotationURLCitation,
    ChatCompletionAudio,
    ChatCompletionTokenLogprob,
    ChoiceLogprobs,
    CompletionTokensDetails,
    CompletionUsage,
    ErrorObject,
    PromptTokensDetails,
    TopLogprob,
)
from chunkfold.models.tool_calls import (
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageToolCall,
    Custom,
    Function,
    FunctionCall,
)

__all__ = [
    "Annotation",
    "AnnotationURLCitation",
    "ChatCompletion",
    "ChatCompletionAudio",
    "ChatCompletionChunk",
    "ChatCompletionMessage",
    "ChatCompletionMessageCustomToolCall",
    "ChatCompletionMessageFunctionToolCall",
    "ChatCompletionMessageToolCall",
    "ChatCompletionTokenLogprob",
    "Choice",
    "ChoiceDelta",
    "ChoiceDeltaAudio",
    "ChoiceDeltaFunctionCall",
    "ChoiceDeltaToolCall",
    "ChoiceDeltaToolCallCustom",
    "ChoiceDeltaToolCallFunction",
    "ChoiceLogprobs",
    "ChunkChoice",
    "CompletionTokensDetails",
    "CompletionUsage",
    "Custom",
    "ErrorObject",
    "Function",
    "FunctionCall",
    "Model",
    "Outcome",
    "PromptTokensDetails",
    "TopLogprob",
    "WrongType",
]
