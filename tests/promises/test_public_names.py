"""The public names are these and no others; their types can be resolved, and their values do not change."""

import ast
import importlib
import importlib.metadata
import pickle
import tomllib
from dataclasses import FrozenInstanceError, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from cases import each_case
from own_modules import CORE
from pydantic import TypeAdapter

import chunkfold
import chunkfold.errors
from chunkfold import ChunkfoldError
from chunkfold.models.base import Model

PUBLIC = [
    "APIError", "APIStatusError", "Annotation", "AnnotationReceived", "AnnotationURLCitation", "Anomaly",
    "AnomalyNoted", "AsyncChatCompletionStream", "AudioDelta", "AudioPart", "ChatCompletion",
    "ChatCompletionAccumulator", "ChatCompletionAudio", "ChatCompletionChunk", "ChatCompletionEvent",
    "ChatCompletionMessage", "ChatCompletionMessageCustomToolCall", "ChatCompletionMessageFunctionToolCall",
    "ChatCompletionMessageToolCall", "ChatCompletionParser", "ChatCompletionStream", "ChatCompletionTokenLogprob",
    "Choice", "ChoiceDelta", "ChoiceDeltaAudio", "ChoiceDeltaFunctionCall", "ChoiceDeltaToolCall",
    "ChoiceDeltaToolCallCustom", "ChoiceDeltaToolCallFunction", "ChoiceFinished", "ChoiceLogprobs", "ChunkChoice",
    "ChunkfoldError", "CompletionTokensDetails", "CompletionUsage", "ConnectOptions", "ContentPart",
    "CumulativeDeltas", "Custom", "ErrorObject", "EventStreamDecoder", "Function", "FunctionCall", "ImagePart",
    "ImageReceived", "IncompleteStreamError", "InvalidChunkError", "InvalidStreamError", "LimitExceededError",
    "MessagePart", "NotAnEventStreamError", "OneChoice", "Outcome", "ParseError", "ParserOptions", "PartialJSON",
    "Payload", "PromptTokensDetails", "RULES", "ReadOptions", "ReasoningDelta", "ReasoningPart", "RefusalDelta",
    "RefusalPart", "Rule", "ServerSentEvent", "StreamConsumedError", "StreamEnd", "StreamInterruptedError",
    "StreamStalledError", "StreamTiming", "TextDelta", "TextPart", "ThinkTags", "ToolCallArgumentsDelta",
    "ToolCallDone", "ToolCallPart", "ToolCallStarted", "TopLogprob", "Transform", "UsageReceived", "aconnect",
    "connect", "encode_event", "error_from_response", "fold_record", "is_retryable", "parse_payload",
]  # fmt: skip


def test_what_is_loaded_later_is_a_public_name_too() -> None:
    assert set(PUBLIC) <= set(dir(chunkfold))
    with pytest.raises(AttributeError, match="module 'chunkfold' has no attribute 'Nothing'"):
        _ = chunkfold.Nothing


def test_the_version_is_the_package_s() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert chunkfold.__version__ == project["version"]


def test_without_the_package_s_metadata_the_version_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    monkeypatch.setitem(vars(chunkfold), "__version__", "")
    del vars(chunkfold)["__version__"]
    assert chunkfold.__version__ == "0+unknown"


def test_the_public_names_are_these() -> None:
    assert sorted(chunkfold.__all__) == PUBLIC
    assert all(hasattr(chunkfold, name) for name in PUBLIC)


def test_a_public_name_is_what_the_imports_for_type_checkers_say() -> None:
    homes = {
        alias.name: node.module
        for node in ast.walk(ast.parse(CORE["chunkfold"].read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("chunkfold")
        for alias in node.names
    }
    assert sorted(homes) == PUBLIC
    for name, home in homes.items():
        assert getattr(chunkfold, name) is getattr(importlib.import_module(str(home)), name)


def test_public_names_can_be_pickled_by_their_place() -> None:
    for value in (chunkfold.StreamEnd.FINISHED, chunkfold.ChatCompletion(), chunkfold.TextDelta):
        assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301


def test_the_fields_of_public_types_have_types_that_can_be_resolved() -> None:
    """As libraries that validate, convert and document need them."""
    kinds = [value for name in PUBLIC if isinstance(value := getattr(chunkfold, name), type)]
    assert all(get_type_hints(kind).keys() >= getattr(kind, "__annotations__", {}).keys() for kind in kinds)
    part = chunkfold.AudioPart(chunkfold.ChatCompletionAudio(transcript="Hi"))
    parts: TypeAdapter[Any] = TypeAdapter(chunkfold.MessagePart)
    assert parts.validate_json(parts.dump_json(part)) == part


def test_all_errors_and_models_are_public() -> None:
    errors = {
        name
        for name, value in vars(chunkfold.errors).items()
        if isinstance(value, type) and issubclass(value, ChunkfoldError)
    }
    models = {kind.__name__ for kind in Model.__subclasses__() if kind.__module__.startswith("chunkfold.")}
    assert errors | models <= set(chunkfold.__all__)


GROWING = {"Payload", "StreamTiming"}  # while they are made
VALUES = {
    name: value
    for name in chunkfold.__all__
    if name not in GROWING and isinstance(value := getattr(chunkfold, name), type) and is_dataclass(value)
}


@each_case("name", VALUES)
def test_values_cannot_be_changed(name: str) -> None:
    value = object.__new__(VALUES[name])
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, "changed")
    assert not hasattr(value, "__dict__")
