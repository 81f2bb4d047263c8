"""Read streamed chat completions: typed chunks while they arrive, and one message at the end.

A name is loaded with its layer when it is first used, so that `import chunkfold` costs nothing by itself.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chunkfold.anomalies import RULES, Anomaly, Rule
    from chunkfold.archive import fold_record
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
    from chunkfold.event_stream.decoder import EventStreamDecoder
    from chunkfold.event_stream.server_sent_event import ServerSentEvent, encode_event
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
    from chunkfold.fold.accumulator import ChatCompletionAccumulator
    from chunkfold.json_text.partial import PartialJSON
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
    from chunkfold.parser.options import ParserOptions, ReadOptions
    from chunkfold.parser.parser import ChatCompletionParser
    from chunkfold.parser.timing import StreamTiming
    from chunkfold.stream.asynchronous import AsyncChatCompletionStream
    from chunkfold.stream.connection import ConnectOptions, aconnect, connect
    from chunkfold.stream.sync import ChatCompletionStream
    from chunkfold.transforms import CumulativeDeltas, OneChoice, ThinkTags, Transform
    from chunkfold.wire.bodies import error_from_response
    from chunkfold.wire.payload import Payload, parse_payload

    __version__: str

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
    "ReadOptions",
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

# Where the public names come from: the layers from the bottom up, then optional parts.
_MODULES = (
    *("errors", "anomalies", "event_stream.server_sent_event", "event_stream.decoder"),
    *("models.outcome", "models.shared", "models.chunk", "models.tool_calls", "models.message", "models.completion"),
    *("wire.payload", "wire.bodies", "fold.accumulator", "parser.options", "parser.timing", "parser.parser"),
    *("stream.sync", "stream.asynchronous", "stream.connection"),
    *("events.types", "json_text.partial", "models.parts", "transforms", "archive"),
)

if not TYPE_CHECKING:  # a type checker is to know which names there are

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return globals().setdefault(name, _installed_version())
        for module in _MODULES if name in __all__ else ():
            if (value := vars(import_module(f"chunkfold.{module}")).get(name)) is not None:
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def _installed_version() -> str:
    metadata = import_module("importlib.metadata")
    try:
        return str(metadata.version("chunkfold"))
    except metadata.PackageNotFoundError:  # the sources alone: on the path, or in an archive or a program
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
