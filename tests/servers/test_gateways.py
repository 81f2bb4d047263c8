"""Real gateways in front of upstreams that speak Anthropic's and Gemini's own protocols, read by this library.

Each row of a table says what a gateway makes of an upstream's answer, as it was found: where it changes what the
upstream said, the comment says so. What openai's SDK makes of the same answers stands beside it.
"""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import run
from real_servers import asked, command, openai_client, read, texts_of_a_hundred_at_once
from upstreams import CITIES, COMPLETION_TOKENS, OVERLOADED, PROMPT_TOKENS, SIGNATURE, TEXT, THOUGHT

from chunkfold import APIError, APIStatusError, ChunkfoldError, connect

pytestmark = pytest.mark.servers

SAID = "".join(TEXT)
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
# The rules that a gateway's plain answers break.
RULES = {
    ("litellm", "anthropic"): set(),
    ("litellm", "gemini"): set(),
    ("portkey", "anthropic"): {"CF506"},  # Anthropic's and Gemini's finish reasons are left as they are
    ("portkey", "gemini"): {"CF501", "CF506"},  # it ends without [DONE]
}


def test_text_and_usage(gateway: Any) -> None:
    completion, rules = read(gateway, "text")
    assert (completion.text, completion.choices[0].outcome, completion.tool_calls) == (SAID, "stop", [])
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (PROMPT_TOKENS, COMPLETION_TOKENS)
    assert rules == RULES[gateway.name, gateway.protocol]


def test_thinking_goes_back_with_its_signature(gateway: Any) -> None:
    completion, _ = read(gateway, "thinking")
    assert completion.text == SAID
    if (gateway.name, gateway.protocol) == ("portkey", "gemini"):
        pytest.skip("Portkey drops the thoughts of Gemini unless it is asked for them in Gemini's own words")
    assert completion.reasoning == "".join(THOUGHT)
    assert SIGNATURE in json.dumps(completion.message.to_param())


def test_parallel_calls(gateway: Any) -> None:
    completion, _ = read(gateway, "calls", tools=[TOOL])
    assert [(call.name, json.loads(call.arguments)) for call in completion.tool_calls] == [
        ("get_weather", {"city": city}) for city in CITIES
    ]
    assert len({call.id for call in completion.tool_calls}) == len(CITIES)
    assert completion.text == SAID


def test_an_error_before_the_stream(gateway: Any) -> None:
    with pytest.raises(APIStatusError, match=OVERLOADED) as caught:
        read(gateway, "refused")
    assert caught.value.status_code >= 500
    assert caught.value.retryable


def test_an_error_in_the_stream_is_none_of_an_answer(gateway: Any) -> None:
    with pytest.raises(ChunkfoldError) as caught:
        read(gateway, "failing")
    assert SAID.startswith(caught.value.snapshot.text)  # what came is kept, and nothing else
    assert not caught.value.emitted_output  # nothing was yielded
    if (gateway.name, gateway.protocol) != ("portkey", "gemini"):  # which drops the error and ends: a cut
        assert isinstance(caught.value, APIError)


def test_a_cut_is_none_of_an_answer(gateway: Any) -> None:
    with pytest.raises(ChunkfoldError) as caught:
        read(gateway, "cut")
    assert SAID.startswith(caught.value.snapshot.text)
    assert caught.value.snapshot.text != SAID


def test_a_client_that_leaves_can_ask_again(gateway: Any) -> None:
    with httpx.Client(timeout=60) as client:
        body = asked(gateway, "slow")
        with connect(client, "POST", gateway.url, json=body, headers=gateway.headers) as stream:
            assert next(chunk.text for chunk in stream if chunk.text) == TEXT[0]
            started = time.monotonic()
        assert time.monotonic() - started < 5
        assert stream.end == "closed"
    assert read(gateway, "text")[0].text == SAID


async def test_a_hundred_at_once(gateway: Any, anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("once is enough")
    assert await texts_of_a_hundred_at_once(gateway) == [SAID] * 100


def test_chat_record_and_replay(gateway: Any, tmp_path: Path) -> None:
    file = tmp_path / "answer.jsonl"
    limited = ["scenario-text", "--param", "max_tokens=1000"]
    chat = command(gateway, "chat", *limited)
    assert SAID in chat.stdout, chat.stderr
    record = command(gateway, "record", *limited, "-o", str(file))
    assert record.exit_code == 0, record.stderr
    assert gateway.key not in file.read_text("utf-8")
    replay = run("replay", str(file))
    assert SAID in replay.stdout, replay.stderr


def test_the_doctor_finds_nothing_that_fails(gateway: Any) -> None:
    wanted = [part for name in ("text", "tools", "parallel-tools", "usage") for part in ("--only", name)]
    doctor = command(gateway, "doctor", *wanted, "--json")
    results = {check["check"]: check["result"] for check in json.loads(doctor.stdout)["checks"]}
    assert results.keys() == {"text", "tools", "parallel-tools", "usage"}
    assert set(results.values()) <= {"pass", "tolerated"}, doctor.stdout


def test_what_the_openai_sdk_makes_of_it(gateway: Any) -> None:
    """The same text and calls; but a stream that fails or is cut may pass for an answer there."""
    headers = {name: value for name, value in gateway.headers.items() if name != "authorization"}
    with openai_client(gateway.base_url, gateway.key, default_headers=headers) as client:

        def ask(scenario: str, **more: Any) -> tuple[str, list[Any]]:
            chunks = list(client.chat.completions.create(**asked(gateway, scenario, **more), stream=True))
            deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
            calls = [call for delta in deltas for call in delta.tool_calls or ()]
            return "".join(delta.content or "" for delta in deltas), calls

        assert ask("text")[0] == SAID
        said, calls = ask("calls", tools=[TOOL])
        assert said == SAID
        assert [call.function.name for call in calls if call.function.name] == ["get_weather"] * 2
