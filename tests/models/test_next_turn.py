"""The next turn: openai-python's types take back the messages, and the results of their calls."""

from types import ModuleType
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from sent_back import PARALLEL, RICH, completion_of, part


@pytest.fixture
def chat() -> ModuleType:
    return pytest.importorskip("openai.types.chat")


def validated(chat: ModuleType, message: dict[str, Any]) -> dict[str, Any]:
    """A message as openai-python's types have it; what they give as an iterator is looked at to its end."""
    names = {"assistant": "Assistant", "tool": "Tool"}
    type_ = getattr(chat, f"ChatCompletion{names[message['role']]}MessageParam")
    whole: dict[str, Any] = TypeAdapter(type_).validate_python(message)
    return {name: value if isinstance(value, str | dict | None) else list(value) for name, value in whole.items()}


CUSTOM = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql", "input": "1"}}


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([{"content": "Hi"}], id="text"),
        pytest.param([{"refusal": "No."}], id="a refusal"),
        pytest.param([{"tool_calls": [part(""), part("{}", 1, None, "g")]}], id="calls"),
        pytest.param([{"tool_calls": [CUSTOM]}], id="a custom tool"),
        pytest.param([{"audio": {"id": "audio_1", "data": "aGk="}}], id="audio"),
        pytest.param([{"function_call": {"name": "f", "arguments": ""}}], id="the legacy function call"),
        pytest.param(RICH, id="all of it"),
        pytest.param(PARALLEL, id="calls by turns"),
    ],
)
def test_openais_types_take_it(chat: ModuleType, deltas: list[dict[str, Any]]) -> None:
    message = completion_of(*deltas).message
    param = message.to_param()
    theirs = validated(chat, param)
    unknown = {"reasoning_details", "extra_content", "thinking_blocks"}  # which they drop
    assert theirs.keys() == param.keys() - unknown
    assert theirs["content"] == param["content"]
    ids = [one["id"] for one in param.get("tool_calls", [])]
    assert [one["id"] for one in theirs.get("tool_calls", [])] == ids == [one.id for one in message.tool_calls]
    for id_ in ids:
        validated(chat, {"role": "tool", "tool_call_id": id_, "content": "21"})


def test_openais_types_are_looked_at_to_their_end(chat: ModuleType) -> None:
    with pytest.raises(ValidationError):
        validated(chat, {"role": "assistant", "tool_calls": [{"id": "a", "type": "function"}]})
