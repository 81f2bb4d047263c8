"""Read streamed chat completions: typed chunks while they arrive, and one message at the end."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from chunkfold.anomalies import RULES, Anomaly, Rule
from chunkfold.errors import (
    APIError,
    APIStatusError,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
    InvalidStreamError,
    LimitExceededError,
    NotAnEventStreamError,
    ParseError,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    StreamStalledError,
    is_retryable,
)
from chunkfold.event_stream import EventStreamDecoder, ServerSentEvent, encode_event
from chunkfold.fold.accumulator import ChatCompletionAccumulator
from chunkfold.models import (
    Annotation,
    AnnotationURLCitation,
    ChatCompletion,
    ChatCompletionAudio,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageToolCall,
    ChatCompletionTokenLogprob,
    Choice,
    ChoiceDelta,
    ChoiceDeltaAudio,
    ChoiceDeltaFunctionCall,
    ChoiceDeltaToolCall,
    ChoiceDeltaToolCallCustom,
    ChoiceDeltaToolCallFunction,
    ChoiceLogprobs,
    ChunkChoice,
    CompletionTokensDetails,
    CompletionUsage,
    Custom,
    ErrorObject,
    Function,
    FunctionCall,
    Outcome,
    PromptTokensDetails,
    TopLogprob,
)
from chunkfold.parser.options import ParserOptions
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.parser.timing import StreamTiming
from chunkfold.stream.asynchronous import AsyncChatCompletionStream
from chunkfold.stream.connection import aconnect, connect
from chunkfold.stream.sync import ChatCompletionStream
from chunkfold.stream.transport import ConnectOptions
from chunkfold.wire.payload import Payload, error_from_response, parse_payload

if TYPE_CHECKING:
    from chunkfold.archive import fold_record
    from chunkfold.events.types import (
        AnnotationReceived,
        AnomalyNoted,
        AudioDelta,
        ChatCompletionEvent,
        ChoiceFinished,
        ImageReceived,
        ReasoningDelta,
        RefusalDelta,
        TextDelta,
        ToolCallArgumentsDelta,
        ToolCallDone,
        ToolCallStarted,
        UsageReceived,
    )
    from chunkfold.json_text.partial import PartialJSON
    from chunkfold.models.parts import (
        AudioPart,
        ContentPart,
        ImagePart,
        MessagePart,
        ReasoningPart,
        RefusalPart,
        TextPart,
        ToolCallPart,
    )
    from chunkfold.transforms import CumulativeDeltas, OneChoice, ThinkTags, Transform

__all__ = [
    "RULES",
    "APIError",
    "APIStatusError",
    "Annotation",
    "AnnotationReceived",
    "AnnotationURLCitation",
    "Anomaly",
    "AnomalyNoted",
    "AsyncChatCompletionStream",
    "AudioDelta",
    "AudioPart",
    "ChatCompletion",
    "ChatCompletionAccumulator",
    "ChatCompletionAudio",
    "ChatCompletionChunk",
    "ChatCompletionEvent",
    "ChatCompletionMessage",
    "ChatCompletionMessageCustomToolCall",
    "ChatCompletionMessageFunctionToolCall",
    "ChatCompletionMessageToolCall",
    "ChatCompletionParser",
    "ChatCompletionStream",
    "ChatCompletionTokenLogprob",
    "Choice",
    "ChoiceDelta",
    "ChoiceDeltaAudio",
    "ChoiceDeltaFunctionCall",
    "ChoiceDeltaToolCall",
    "ChoiceDeltaToolCallCustom",
    "ChoiceDeltaToolCallFunction",
    "ChoiceFinished",
    "ChoiceLogprobs",
    "ChunkChoice",
    "ChunkfoldError",
    "CompletionTokensDetails",
    "CompletionUsage",
    "ConnectOptions",
    "ContentPart",
    "CumulativeDeltas",
    "Custom",
    "ErrorObject",
    "EventStreamDecoder",
    "Function",
    "FunctionCall",
    "ImagePart",
    "ImageReceived",
    "IncompleteStreamError",
    "InvalidChunkError",
    "InvalidStreamError",
    "LimitExceededError",
    "MessagePart",
    "NotAnEventStreamError",
    "OneChoice",
    "Outcome",
    "ParseError",
    "ParserOptions",
    "PartialJSON",
    "Payload",
    "PromptTokensDetails",
    "ReasoningDelta",
    "ReasoningPart",
    "RefusalDelta",
    "RefusalPart",
    "Rule",
    "ServerSentEvent",
    "StreamConsumedError",
    "StreamEnd",
    "StreamInterruptedError",
    "StreamStalledError",
    "StreamTiming",
    "TextDelta",
    "TextPart",
    "ThinkTags",
    "ToolCallArgumentsDelta",
    "ToolCallDone",
    "ToolCallPart",
    "ToolCallStarted",
    "TopLogprob",
    "Transform",
    "UsageReceived",
    "aconnect",
    "connect",
    "encode_event",
    "error_from_response",
    "fold_record",
    "is_retryable",
    "parse_payload",
]

# What not everybody uses is loaded when it is asked for.
_LATER = {
    "archive": ("fold_record",),
    "events.types": (
        "AnnotationReceived",
        "AnomalyNoted",
        "AudioDelta",
        "ChatCompletionEvent",
        "ChoiceFinished",
        "ImageReceived",
        "ReasoningDelta",
        "RefusalDelta",
        "TextDelta",
        "ToolCallArgumentsDelta",
        "ToolCallDone",
        "ToolCallStarted",
        "UsageReceived",
    ),
    "json_text.partial": ("PartialJSON",),
    "models.parts": (
        "AudioPart",
        "ContentPart",
        "ImagePart",
        "MessagePart",
        "ReasoningPart",
        "RefusalPart",
        "TextPart",
        "ToolCallPart",
    ),
    "transforms": ("CumulativeDeltas", "OneChoice", "ThinkTags", "Transform"),
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"chunkfold.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
