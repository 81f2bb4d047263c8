"""The next turn: openai-python's types take a message back, and so does a provider that looks at what it was sent."""

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from made_up_ids import MADE_UP, shown_id
from pydantic import TypeAdapter, ValidationError
from sent_back import RICH, SIGNATURE, TEXT, completion_of, param_of, part

from chunkfold import ChatCompletion

# openai-python's types


@pytest.fixture
def chat() -> ModuleType:
    return pytest.importorskip("openai.types.chat")


def validated(chat: ModuleType, message: dict[str, Any]) -> dict[str, Any]:
    """A message as openai-python's types have it; what they give as an iterator is looked at to its end."""
    names = {"assistant": "Assistant", "tool": "Tool", "user": "User", "system": "System"}
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
    ],
)
def test_openais_types_take_it(chat: ModuleType, deltas: list[dict[str, Any]]) -> None:
    param = param_of(*deltas)
    theirs = validated(chat, param)
    unknown = {"reasoning_details", "extra_content", "thinking_blocks"}  # which they drop
    assert theirs.keys() == param.keys() - unknown
    assert theirs["content"] == param["content"]
    assert [one["id"] for one in theirs.get("tool_calls", [])] == [one["id"] for one in param.get("tool_calls", [])]


def test_openais_types_are_looked_at_to_their_end(chat: ModuleType) -> None:
    with pytest.raises(ValidationError):
        validated(chat, {"role": "assistant", "tool_calls": [{"id": "a", "type": "function"}]})


# The next turn, as a provider sees it


class RefusedError(Exception):
    """What a provider answers with a status 400."""


def check_order(messages: list[dict[str, Any]]) -> None:
    """OpenAI's rule: each call is answered by a tool message with its id, before anything else comes."""
    open_ids: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                raise RefusedError(f"messages[{place}]: no call has the id {message['tool_call_id']}")
            open_ids.remove(message["tool_call_id"])
        elif open_ids:
            raise RefusedError(f"messages[{place}]: no result for {', '.join(open_ids)}")
        open_ids += [one["id"] for one in message.get("tool_calls", ())]
    if open_ids:
        raise RefusedError(f"no result for {', '.join(open_ids)}")


def check_arguments(messages: list[dict[str, Any]]) -> None:
    """Bridges to other APIs parse the arguments."""
    for message in messages:
        for one in message.get("tool_calls", ()):
            if one["type"] == "function" and not isinstance(json.loads(one["function"]["arguments"]), dict):
                raise RefusedError("arguments: expected an object")


def check_signatures(messages: list[dict[str, Any]]) -> None:
    """Gemini: the first call of a turn has its thought signature."""
    for message in messages:
        if message.get("tool_calls") and message["tool_calls"][0].get("extra_content") != SIGNATURE:
            raise RefusedError("Function call is missing a thought_signature")


def check_reasoning(messages: list[dict[str, Any]]) -> None:
    """Moonshot and DeepSeek: thinking is enabled, so calls come with the reasoning that led to them."""
    for message in messages:
        if message.get("tool_calls") and not message.get("reasoning_content"):
            raise RefusedError("reasoning_content is missing in assistant tool call message")


def check_details(messages: list[dict[str, Any]]) -> None:
    """OpenRouter: Claude's reasoning has its signature."""
    for message in messages:
        if message.get("tool_calls") and message.get("reasoning_details") != [
            {**TEXT, "text": "hm", "signature": "c2ln"}
        ]:
            raise RefusedError("messages.1.content.0.thinking.signature: Field required")


Check = Callable[[list[dict[str, Any]]], None]


def check_conversation(chat: ModuleType, messages: list[dict[str, Any]], *checks: Check) -> None:
    """What any provider looks at, and what some do."""
    for message in messages:
        validated(chat, message)
    for check in (check_order, check_arguments, *checks):
        check(messages)


PARALLEL = [
    {"role": "assistant", "content": None, "reasoning_content": "hm"},
    {"reasoning_details": [{**TEXT, "text": "hm"}]},
    {"tool_calls": [part('{"city":', extra_content=SIGNATURE), part("", 1, None, "now")]},
    {"tool_calls": [part('"Bern"}', name=None, id_=None)]},
    {"reasoning_details": [{**TEXT, "signature": "c2ln"}]},
]
USER = {"role": "user", "content": "How is the weather?"}


def results_of(completion: ChatCompletion) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": one.id, "content": "21"} for one in completion.tool_calls]


@pytest.mark.parametrize(
    ("checks", "options"),
    [
        pytest.param([], {}, id="OpenAI"),
        pytest.param([check_signatures], {}, id="Gemini"),
        pytest.param([check_details], {}, id="OpenRouter"),
        pytest.param([check_reasoning], {"reasoning_content": True}, id="Moonshot"),
    ],
)
def test_the_provider_takes_it_back(chat: ModuleType, checks: list[Check], options: dict[str, Any]) -> None:
    first = completion_of(*PARALLEL, finish_reason="tool_calls")
    param = first.message.to_param(**options)
    check_conversation(chat, [USER, param, *results_of(first)], *checks)
    assert [shown_id(one["id"]) for one in param["tool_calls"]] == ["call_a", MADE_UP]
    assert [one["function"]["arguments"] for one in param["tool_calls"]] == ['{"city":"Bern"}', "{}"]


@pytest.mark.parametrize(
    ("checks", "messages", "told"),
    [
        pytest.param([], lambda first: [first.message.to_param()], "no result for call_a, call_1_[0-9a-f]{24}",
                     id="no results"),
        pytest.param([], lambda first: [first.message.to_param(), USER], "no result for call_a, call_1_[0-9a-f]{24}",
                     id="something between"),
        pytest.param([], results_of, "no call has the id call_a", id="results without the calls"),
        pytest.param([check_reasoning], lambda first: [first.message.to_param(), *results_of(first)],
                     "reasoning_content is missing", id="reasoning that was not asked for"),
        pytest.param([], lambda first: [first.message.model_dump(), *results_of(first)], "Expecting value",
                     id="a dump in its place: empty arguments are no JSON"),
    ],
)  # fmt: skip
def test_what_a_provider_refuses(chat: ModuleType, checks: list[Check], messages: Any, told: str) -> None:
    """The checks above look: without this, it would prove nothing that they let a message pass."""
    first = completion_of(*PARALLEL, finish_reason="tool_calls")
    with pytest.raises((RefusedError, ValueError), match=told):
        check_conversation(chat, [USER, *messages(first)], *checks)


def test_a_custom_tool_takes_its_turn(chat: ModuleType) -> None:
    first = completion_of({"tool_calls": [CUSTOM]}, finish_reason="tool_calls")
    check_conversation(chat, [USER, first.message.to_param(), *results_of(first)])
