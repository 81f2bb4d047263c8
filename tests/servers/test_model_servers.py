"""Servers that run a model, read by this library: sync, async, and with its commands.

The model's answers are known, so that every server has to give the same ones. Tables list the differences between servers,
as they were found. The results are compared with those of openai's SDK.
"""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from command_line import piped, run
from real_servers import TIMEOUT, asked, command, openai_client, read, texts_of_a_hundred_at_once
from transition_model import ANSWER, ANSWERS, BEFORE_THE_ERROR, CITIES, TEXT, THOUGHT, completion_tokens

from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletion,
    ChatCompletionStream,
    IncompleteStreamError,
    InvalidStreamError,
    StreamEnd,
    ThinkTags,
    aconnect,
    connect,
)
from chunkfold.testing import Answer, FakeProvider

pytestmark = pytest.mark.servers

CONTEXT = 8192  # of the server that is not killed
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": [*CITIES]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
SCHEMA = TOOL["function"]["parameters"]  # type: ignore[index]
# The scenario of a request, and its other fields.
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("text", {}),
    "thinking": ("thinking", {}),
    "calls": ("calls", {"tools": [TOOL]}),
    "calls that are required": ("calls", {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": True}),
    "log probabilities": ("text", {"logprobs": True, "top_logprobs": 2}),
    "progress and timings": ("text", {"return_progress": True, "timings_per_token": True}),
    "two choices": ("text", {"n": 2}),
    "a limit": ("endless", {"max_tokens": 20}),
    "a limit in a call": ("calls", {"tools": [TOOL], "max_tokens": 15}),
}
RULES = {
    "llama.cpp": set(),
    "mlx-lm": {"CF206"},  # `object` is chat.completion in the chunk with the usage
}
# The wrong fields of a request, the status of the error, and a part of its message.
BAD_REQUESTS: dict[str, list[tuple[dict[str, Any], int, str]]] = {
    "llama.cpp": [
        ({"messages": "x"}, 400, "Expected 'messages' to be an array"),
        ({"temperature": "hot"}, 400, "type must be number, but is string"),
        ({"n": 20}, 400, "Field 'n': Value must be between 1 <= value <= 4"),
        ({"messages": [{"role": "user", "content": "?" * CONTEXT}]}, 400, f"available context size ({CONTEXT} tokens)"),
    ],
    "mlx-lm": [
        ({"messages": "x"}, 400, "'str' object has no attribute 'get'"),
        ({"temperature": "hot"}, 400, "temperature must be of type"),
        ({"messages": []}, 404, "empty conversation"),
        ({"model": "nobody/nothing"}, 404, "outgoing traffic has been disabled"),
    ],
}
# What is neither passed nor tolerated. llama.cpp's server ignores the model's name; mlx-lm's ignores `n`, schemas and keys,
# and closes each connection.
DOCTOR = {
    "llama.cpp": {"wrong-model": "fail"},
    "mlx-lm": {"choices": "unsupported", "structured-output": "fail", "reuse": "unsupported", "wrong-key": "fail"},
}
# mlx-lm's server resets connections if more than five wait to be accepted.
CONNECTIONS = {"llama.cpp": 100, "mlx-lm": 5}
# Whether the SDK raises if the server dies. mlx-lm's server sends HTTP/1.0, where only the end of the connection ends a
# body: the SDK takes that for the end of the answer.
SDK_NOTICES_A_CUT = {"llama.cpp": True, "mlx-lm": False}


def bytes_of(server: Any, scenario: str, **more: Any) -> bytes:
    body = asked(server, scenario, stream=True, **more)
    return httpx.post(server.url, json=body, headers=server.headers, timeout=TIMEOUT).content


def calls_of(completion: ChatCompletion) -> list[tuple[str | None, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in completion.tool_calls]


def test_text_and_usage(server: Any) -> None:
    completion, rules = read(server, "text")
    assert (completion.text, completion.choices[0].outcome) == (TEXT, "stop")
    assert completion.usage is not None
    assert completion.usage.completion_tokens == completion_tokens("text")
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion_tokens("text")
    assert rules == RULES[server.name]


def test_thinking(server: Any) -> None:
    completion, _ = read(server, "thinking")
    assert (completion.text.strip(), completion.reasoning.strip()) == (ANSWER, THOUGHT)


def test_thinking_that_the_server_leaves_in_the_text(server: Any) -> None:
    if server.name == "mlx-lm":
        pytest.skip("mlx-lm's server always separates it")
    body = asked(server, "thinking", reasoning_format="none")
    assert read(server, "thinking", reasoning_format="none")[0].text == ANSWERS["thinking"]
    with (
        httpx.Client(timeout=TIMEOUT, headers=server.headers) as client,
        connect(client, "POST", server.url, json=body, transforms=[ThinkTags()]) as stream,
    ):
        completion = stream.read()
    assert (completion.text.strip(), completion.reasoning.strip()) == (ANSWER, THOUGHT)


@pytest.mark.parametrize(
    "more", [{}, {"tool_choice": "required", "parallel_tool_calls": True}], ids=["auto", "required"]
)
def test_parallel_calls(server: Any, more: dict[str, Any]) -> None:
    completion, _ = read(server, "calls", tools=[TOOL], **more)
    assert calls_of(completion) == [("get_weather", {"city": city}) for city in CITIES]
    assert len({call.id for call in completion.tool_calls}) == len(CITIES)
    assert (completion.text.strip(), completion.choices[0].outcome) == ("", "tool_calls")
    assert completion.usage is not None
    assert completion.usage.completion_tokens == completion_tokens("calls")


def test_the_answer_goes_back_with_the_results(server: Any) -> None:
    completion, _ = read(server, "calls", tools=[TOOL])
    question = {"role": "user", "content": "scenario-calls"}
    results = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in completion.tool_calls]
    messages = [question, completion.message.to_param(), *results]
    assert read(server, "", tools=[TOOL], messages=messages)[0].text == TEXT


def test_two_choices(server: Any) -> None:
    if server.name == "mlx-lm":
        pytest.skip("mlx-lm's server ignores `n`")
    completion, _ = read(server, "text", n=2)
    assert [(choice.index, choice.message.content) for choice in completion.choices] == [(0, TEXT), (1, TEXT)]
    assert completion.usage is not None
    assert completion.usage.completion_tokens == completion_tokens("text")  # the server sends a usage for each choice


def test_a_grammar_makes_another_answer_of_it(server: Any) -> None:
    if server.name == "mlx-lm":
        pytest.skip("mlx-lm's server ignores `response_format`")
    schema = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
    completion, _ = read(server, "text", response_format=schema)
    assert json.loads(completion.text)["city"] in CITIES


def test_what_ends_at_a_limit_or_where_the_context_is_full(server: Any) -> None:
    completion, _ = read(server, "endless", max_tokens=20)
    assert completion.choices[0].outcome == "length"
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 20
    if server.name == "mlx-lm":
        return  # to it a context has no end
    question = {"role": "user", "content": f"scenario-endless{'?' * (CONTEXT - 1000)}"}
    full, _ = read(server, "", messages=[question])
    assert full.choices[0].outcome == "length"
    assert full.usage is not None
    assert full.usage.total_tokens == CONTEXT


@pytest.mark.parametrize("request_name", REQUESTS)
def test_strict_mode(server: Any, request_name: str) -> None:
    scenario, more = REQUESTS[request_name]
    if not RULES[server.name]:
        assert read(server, scenario, strict=True, **more)[1] == set()
        return
    with pytest.raises(InvalidStreamError, match="|".join(RULES[server.name])):
        read(server, scenario, strict=True, **more)
    assert read(server, scenario, strict=True, stream_options=None, **more)[1] == set()  # it is the usage alone


def test_errors_before_the_stream(server: Any) -> None:
    for more, status, message in BAD_REQUESTS[server.name]:
        with pytest.raises(APIStatusError) as caught:
            read(server, "text", **more)
        assert (caught.value.status_code, caught.value.retryable) == (status, False)
        assert message in caught.value.message


def test_a_key_that_is_refused(server: Any) -> None:
    if not server.headers:
        pytest.skip("mlx-lm's server knows no keys")
    with httpx.Client() as client, connect(client, "POST", server.url, json=asked(server, "text")) as stream:
        with pytest.raises(APIStatusError, match="Invalid API Key") as caught:
            stream.read()
        assert caught.value.status_code == 401


def test_an_error_in_the_stream(server: Any) -> None:
    """llama.cpp's server sends an error and no [DONE]; mlx-lm's replaces bytes that are not UTF-8."""
    if server.name == "mlx-lm":
        assert read(server, "broken", tools=[TOOL])[0].text.startswith(f"{BEFORE_THE_ERROR}<t\ufffd")
        return
    with pytest.raises(APIError, match="does not match the expected") as caught:
        read(server, "broken", tools=[TOOL])
    assert (caught.value.status_code, caught.value.type, caught.value.retryable) == (500, "server_error", True)
    assert caught.value.snapshot.text == BEFORE_THE_ERROR
    openai = pytest.importorskip("openai")
    with openai_client(server.base_url, server.key) as sdk, pytest.raises(openai.APIError, match="does not match"):
        list(sdk.chat.completions.create(**asked(server, "broken", tools=[TOOL]), stream=True))


async def read_to_the_end(server: Any, body: dict[str, Any], began: threading.Event) -> None:
    async with (
        httpx.AsyncClient(timeout=TIMEOUT, headers=server.headers) as client,
        aconnect(client, "POST", server.url, json=body) as stream,
    ):
        async for chunk in stream:
            if chunk.text:
                began.set()


def test_a_server_that_dies(killable_server: Any) -> None:
    """A sync and an async stream raise; the SDK does so only if the HTTP connection shows the cut."""
    server = killable_server
    body = asked(server, "endless", max_tokens=60_000)
    began = threading.Event()
    with (
        start_blocking_portal() as portal,
        openai_client(server.base_url, server.key) as sdk,
        sdk.chat.completions.create(**body, stream=True) as beside,
        httpx.Client(timeout=TIMEOUT, headers=server.headers) as client,
        connect(client, "POST", server.url, json=body) as stream,
    ):
        task = portal.start_task_soon(read_to_the_end, server, body, began)
        said = next(
            chunk.choices[0].delta.content for chunk in beside if chunk.choices and chunk.choices[0].delta.content
        )
        assert next(chunk.text for chunk in stream if chunk.text) == said
        assert began.wait(TIMEOUT)
        server.process.kill()
        server.process.wait()
        with pytest.raises(IncompleteStreamError) as caught:
            stream.read()
        assert stream.end == (StreamEnd.INTERRUPTED if SDK_NOTICES_A_CUT[server.name] else StreamEnd.TRUNCATED)
        assert caught.value.snapshot.text.startswith(said)
        assert caught.value.snapshot.choices[0].finish_reason is None
        with pytest.raises(IncompleteStreamError):
            task.result(TIMEOUT)

        def rest() -> None:
            assert all(choice.finish_reason is None for chunk in beside for choice in chunk.choices)

        if SDK_NOTICES_A_CUT[server.name]:
            with pytest.raises(Exception, match=r"peer closed connection|connection broken|Connection error"):
                rest()
        else:
            rest()


def predicted(server: Any) -> int:
    """The number of tokens that the server has generated; 0 for mlx-lm's, which does not report it."""
    if server.name == "mlx-lm":
        return 0
    metrics = httpx.get(f"{server.base_url.removesuffix('/v1')}/metrics", headers=server.headers).text
    return next(
        int(line.split()[1]) for line in metrics.splitlines() if line.startswith("llamacpp:tokens_predicted_total")
    )


def test_a_client_that_leaves_can_ask_again(server: Any) -> None:
    before = predicted(server)
    with httpx.Client(timeout=TIMEOUT, headers=server.headers) as client:
        for _ in range(6):  # more than the server answers at once
            with connect(client, "POST", server.url, json=asked(server, "endless", max_tokens=CONTEXT - 100)) as stream:
                assert next(chunk.text for chunk in stream if chunk.text)
            assert stream.end == "closed"
        with connect(client, "POST", server.url, json=asked(server, "text")) as stream:
            assert stream.read().text == TEXT
    assert predicted(server) - before < 6 * (CONTEXT - 100)  # it stopped when it was left


def skip_trio_if_bodies_stay_open(server: Any, backend: str) -> None:
    if (server.name, backend) == ("mlx-lm", "trio"):
        pytest.skip("httpx leaves bodies that have not ended to the garbage collector, and trio warns about each")


async def test_a_task_that_is_cancelled_can_ask_again(server: Any, anyio_backend_name: str) -> None:
    skip_trio_if_bodies_stay_open(server, anyio_backend_name)
    before = predicted(server)
    async with httpx.AsyncClient(timeout=TIMEOUT, headers=server.headers) as client:
        for _ in range(6):
            with anyio.CancelScope() as scope:
                body = asked(server, "endless", max_tokens=CONTEXT - 100)
                async with aconnect(client, "POST", server.url, json=body) as stream:
                    async for chunk in stream:
                        if chunk.text:
                            scope.cancel()
            assert stream.end == "closed"
        async with aconnect(client, "POST", server.url, json=asked(server, "text")) as stream:
            assert (await stream.read()).text == TEXT
    assert predicted(server) - before < 6 * (CONTEXT - 100)


@pytest.mark.parametrize("request_name", ["text", "thinking", "calls", "a limit"])
def test_through_a_gateway(server: Any, portkey_url: str, request_name: str) -> None:
    scenario, more = REQUESTS[request_name]
    headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": server.base_url}
    behind = replace(server, base_url=portkey_url, headers={"authorization": f"Bearer {server.key}"} | headers)
    (ours, _), (through, rules) = read(server, scenario, **more), read(behind, scenario, **more)
    assert rules == RULES[server.name]
    assert (through.text, through.reasoning) == (ours.text, ours.reasoning)
    assert calls_of(through) == calls_of(ours)
    assert through.choices[0].finish_reason == ours.choices[0].finish_reason


async def test_a_hundred_at_once(server: Any, anyio_backend_name: str) -> None:
    skip_trio_if_bodies_stay_open(server, anyio_backend_name)
    assert await texts_of_a_hundred_at_once(server, CONNECTIONS[server.name]) == [TEXT] * 100


@pytest.mark.parametrize("reuse_connection", [True, False])
def test_one_request_after_the_other(server: Any, *, reuse_connection: bool) -> None:
    """llama.cpp's server closes connections that it announced to keep: at most one request of a client fails."""
    failed = 0
    with httpx.Client(timeout=TIMEOUT, headers=server.headers) as client:
        for _ in range(100):
            try:
                with connect(
                    client, "POST", server.url, json=asked(server, "text"), reuse_connection=reuse_connection
                ) as stream:
                    assert stream.read().text == TEXT
            except httpx.TransportError:
                failed += 1
    assert failed <= (1 if reuse_connection and server.name == "llama.cpp" else 0)


@pytest.mark.parametrize("request_name", REQUESTS)
def test_what_the_openai_sdk_makes_of_the_same_bytes(server: Any, request_name: str) -> None:
    scenario, more = REQUESTS[request_name]
    body = bytes_of(server, scenario, **more)
    with ChatCompletionStream([body]) as stream:
        completion = stream.read()
    with FakeProvider(Answer(body)) as provider, openai_client(provider.base_url) as sdk:
        chunks = list(sdk.chat.completions.create(model=server.model, messages=[], stream=True))
    for choice in completion.choices:
        theirs = [each for chunk in chunks for each in chunk.choices if each.index == choice.index]
        assert "".join(each.delta.content or "" for each in theirs) == (choice.message.content or "")
        assert [each.finish_reason for each in theirs if each.finish_reason] == [choice.finish_reason]
        fragments = [call for each in theirs for call in each.delta.tool_calls or ()]
        assert [(call.id, call.function.name) for call in fragments if call.id] == [
            (call.id, call.name) for call in completion.tool_calls
        ]
        assert "".join(call.function.arguments or "" for call in fragments) == "".join(
            call.arguments for call in completion.tool_calls
        )
    usage = [chunk.usage for chunk in chunks if chunk.usage][-1]
    assert completion.usage is not None
    assert completion.usage.total_tokens == usage.total_tokens


def without_a_stream(server: Any, scenario: str, **more: Any) -> tuple[str, str, list[Any], str]:
    body = {**asked(server, scenario, **more), "stream_options": None}
    answer = httpx.post(server.url, json=body, headers=server.headers, timeout=TIMEOUT).raise_for_status().json()
    choice = answer["choices"][0]
    message = choice["message"]
    calls = [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return message["content"] or "", reasoning, calls, choice["finish_reason"]


@pytest.mark.parametrize("request_name", ["text", "thinking", "calls", "two choices", "a limit"])
def test_the_same_as_without_a_stream(server: Any, request_name: str) -> None:
    scenario, more = REQUESTS[request_name]
    ours, _ = read(server, scenario, **more)
    assert without_a_stream(server, scenario, **more) == (
        ours.text,
        ours.reasoning,
        calls_of(ours),
        ours.choices[0].finish_reason,
    )


def test_any_tokens_the_same_as_without_a_stream(server: Any) -> None:
    """Tokens at random: parts of characters, control characters, parts of JSON and of calls."""
    if server.name == "mlx-lm":
        pytest.skip("mlx-lm's server draws other tokens each time")
    for seed in range(30):
        sampling = {"temperature": 40, "top_k": 0, "top_p": 1, "min_p": 0, "seed": seed, "max_tokens": 200}
        ours, rules = read(server, "thinking", strict=True, **sampling)
        text, reasoning, _, reason = without_a_stream(server, "thinking", **sampling)
        assert (ours.reasoning, ours.choices[0].finish_reason, rules) == (reasoning, reason, set())
        # If the limit cuts a character, the server's stream lacks the last few tokens.
        assert text.startswith(ours.text)
        assert len(text) - len(ours.text) < 20


def test_the_command_chat(server: Any) -> None:
    chat = command(server, "chat", "scenario-text", "--param", "max_tokens=100", by=piped)
    assert (chat.stdout.strip(), chat.exit_code) == (TEXT, 0), chat.stderr
    refused = command(server, "chat", "scenario-text", "--param", "temperature=hot")
    assert (refused.stdout, refused.exit_code) == ("", 3)
    assert "HTTP 400" in refused.stderr


def test_the_commands_record_and_replay(server: Any, tmp_path: Path) -> None:
    file = tmp_path / "answer.jsonl"
    record = command(server, "record", "scenario-thinking", "-o", str(file))
    assert record.exit_code == 0, record.stderr
    assert server.key not in file.read_text("utf-8")
    replay = run("replay", str(file))
    assert (replay.stdout.strip(), replay.exit_code) == (ANSWER, 0), replay.stderr
    fold = run("fold", "--json", str(file))
    assert json.loads(fold.stdout)["completion"]["choices"][0]["message"]["content"].strip() == ANSWER


def test_the_command_doctor(server: Any) -> None:
    doctor = command(server, "doctor", "--json")
    results = {check["check"]: check["result"] for check in json.loads(doctor.stdout)["checks"]}
    # Whether a check is passed or tolerated may depend on how fast the server closes its connection.
    found = {check: result for check, result in results.items() if result not in ("pass", "tolerated")}
    assert found == DOCTOR[server.name], doctor.stdout
