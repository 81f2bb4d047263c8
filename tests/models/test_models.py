"""The models: nothing is required, nothing is lost, nothing that is sent can shadow what they offer; and their views."""

import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from cases import each_case
from pydantic import BaseModel

from chunkfold import (
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    Choice,
    CompletionUsage,
    ErrorObject,
    Function,
    Outcome,
    ServerSentEvent,
    models,
    parse_payload,
)
from chunkfold.models import base
from chunkfold.models.base import copier_of, validate_leniently

USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "total_tokens": 7,
    "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 1},
    "completion_tokens_details": {
        "accepted_prediction_tokens": 0,
        "audio_tokens": 0,
        "reasoning_tokens": 2,
        "rejected_prediction_tokens": 0,
    },
}
TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "a", "logprob": -0.5, "bytes": None}]}
LOGPROBS = {"content": [TOKEN], "refusal": None}
ANNOTATION = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 1, "title": "t", "url": "https://example.com"},
}
# Every field of a chunk, with the values that the API reference describes and the fields that providers add to it.
CHUNK: dict[str, Any] = {
    "id": "c",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "delta": {
                "role": "assistant",
                "content": "a",
                "refusal": "b",
                "reasoning": "r",
                "reasoning_content": "r",
                "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "r"}],
                "tool_calls": [
                    {"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"index": 1, "id": "u", "type": "custom", "custom": {"name": "g", "input": "i"}},
                ],
                "function_call": {"name": "f", "arguments": "{}"},
                "audio": {"id": "x", "data": "YQ==", "transcript": "t", "expires_at": 2},
                "images": [{"type": "image_url", "image_url": {"url": "u"}}],
                "annotations": [ANNOTATION],
            },
            "finish_reason": "stop",
            "logprobs": LOGPROBS,
        },
    ],
    "usage": USAGE,
    "service_tier": "default",
    "system_fingerprint": "f",
}
DELTA = CHUNK["choices"][0]["delta"]
COMPLETION: dict[str, Any] = {
    **CHUNK,
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                **{name: DELTA[name] for name in ("role", "content", "refusal", "reasoning", "annotations", "audio")},
                "tool_calls": [
                    {name: value for name, value in call.items() if name != "index"} for call in DELTA["tool_calls"]
                ],
            },
            "logprobs": LOGPROBS,
        }
    ],
}

Path = tuple[str | int, ...]


def objects(value: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every object inside a JSON value, and where it stands."""
    if isinstance(value, dict):
        yield path, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(item, (*path, key))


def changed(payload: dict[str, Any], path: Path, key: str, value: Any) -> dict[str, Any]:
    """A copy with one key set, or removed where the value is `...`."""
    payload = copy.deepcopy(payload)
    holder: Any = payload
    for part in path:
        holder = holder[part]
    if value is ...:
        del holder[key]
    else:
        holder[key] = value
    return payload


def parsed(payload: dict[str, Any], event: str = "message") -> ChatCompletionChunk:
    """The chunk of one event, which is given another name where the slow path is to read it."""
    result = parse_payload(ServerSentEvent(json.dumps(payload).encode(), event))
    assert result.error is None
    (chunk,) = result.chunks
    return chunk


def copies(model: Any) -> list[Any]:
    """The model copied in each way that the language and pydantic have."""
    pickled = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own bytes
    return [copy.copy(model), copy.deepcopy(model), model.model_copy(), model.model_copy(deep=True), pickled]


def dotted(path: Path) -> str:
    return ".".join(map(str, path)) or "top"


# What is sent is what comes out


def test_a_completion_can_be_stored_and_read_again() -> None:
    completion = ChatCompletion.model_validate(COMPLETION)
    assert ChatCompletion.model_validate_json(completion.model_dump_json()) == completion
    for other in copies(completion):
        assert other == completion


FIELDS = [pytest.param(path, key, id=dotted((*path, key))) for path, each in objects(CHUNK) for key in each]


@each_case(("path", "key"), FIELDS)
@each_case("value", [..., None], ids=["absent", "null"])
def test_no_field_of_a_chunk_is_required(path: Path, key: str, value: Any) -> None:
    chunk = parsed(changed(CHUNK, path, key, value))
    # What is left is still there, and can be folded.
    assert chunk.id == "c" or (path, key) == ((), "id")
    accumulator = ChatCompletionAccumulator()
    accumulator.add(chunk)
    accumulator.snapshot.model_dump_json(warnings="error")


def test_nothing_at_all_is_a_chunk_too() -> None:
    chunk = ChatCompletionChunk.model_validate({})
    assert (chunk.id, chunk.choices, chunk.usage, chunk.text, chunk.reasoning) == (None, [], None, "", "")
    assert (ChatCompletion().choices, ChatCompletion().text, ErrorObject().code) == ([], "", None)


OBJECTS = [pytest.param(path, id=dotted(path)) for path, _ in objects(CHUNK)]
OBJECTS_OF_COMPLETION = [pytest.param(path, id=dotted(path)) for path, _ in objects(COMPLETION)]


@each_case("event", ["message", "chat.completion.chunk"], ids=["fast", "slow"])
@each_case("path", OBJECTS)
def test_unknown_fields_of_a_chunk_are_kept_at_every_level(path: Path, event: str) -> None:
    payload = changed(CHUNK, path, "x_new", {"a": [1, None]})
    chunk = parsed(payload, event)
    assert chunk.model_dump(exclude_unset=True, warnings="error") == payload
    assert json.loads(chunk.model_dump_json(exclude_unset=True, warnings="error")) == payload


@each_case("path", OBJECTS_OF_COMPLETION)
def test_unknown_fields_of_a_completion_are_kept_at_every_level(path: Path) -> None:
    payload = changed(COMPLETION, path, "x_new", {"a": [1, None]})
    assert ChatCompletion.model_validate(payload).model_dump(exclude_unset=True, warnings="error") == payload


# Names that a JSON object may have, and a Python object too


TAKEN = [
    *("copy", "json", "dict", "construct", "schema", "validate", "self", "_fields_set", "values"),
    *("model_fields", "model_dump", "model_dump_json", "model_copy", "model_extra", "model_config", "model_validate"),
    *("text", "reasoning", "message", "outcome", "parse", "cached_tokens"),
    *("__class__", "__dict__", "__init__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_validator__"),
    # Views of other levels: unknown keys of a chunk, a choice, a message.
    *("finish_reason", "tool_calls", "name", "arguments"),
]


@each_case("event", ["message", "chat.completion.chunk"], ids=["fast", "slow"])
@each_case("key", TAKEN)
def test_no_key_can_shadow_anything(key: str, event: str) -> None:
    """At every level at once, on both sides; what was sent is in `model_extra` and in the dump, and only there."""
    payload = copy.deepcopy(CHUNK)
    for _, each in list(objects(payload)):
        each.setdefault(key, "shadow")
    accumulator = ChatCompletionAccumulator()
    accumulator.add(parsed(payload, event))
    chunk, completion = parsed(payload, event), accumulator.snapshot
    assert type(chunk) is ChatCompletionChunk
    assert chunk.model_dump(exclude_unset=True) == payload
    for other in copies(chunk):
        assert other == chunk
    assert (chunk.text, chunk.reasoning) == ("a", "r")
    # The same of what was folded from it.
    assert type(completion) is ChatCompletion
    assert json.loads(completion.model_dump_json())["id"] == "c"
    assert (completion.text, completion.reasoning, completion.finish_reason) == ("a", "r", "stop")
    (choice,) = completion.choices
    assert choice.outcome is Outcome.TOOL_CALLS
    assert choice.message is completion.message
    assert choice.message.tool_calls is completion.tool_calls
    first, second = choice.message.tool_calls
    assert (first.name, first.arguments, second.name, second.arguments) == ("f", "{}", "g", "i")
    assert first.function.parse() == {}
    assert completion.usage is not None
    assert completion.usage.reasoning_tokens == 2
    for model in (chunk, completion, choice, first, completion.usage):
        if key not in type(model).model_fields:
            assert model.model_extra is not None
            assert model.model_extra[key] == "shadow"


# Views of chunks


THOUGHT = {"extra_content": {"google": {"thought": True}}}
CHUNK_VIEWS = [
    pytest.param([], "", "", id="no choice"),
    pytest.param([(0, {})], "", "", id="an empty delta"),
    pytest.param([(0, {"content": None, "reasoning": None})], "", "", id="nulls"),
    pytest.param([(0, {"content": "a", "reasoning": "r"})], "a", "r", id="text"),
    pytest.param([(1, {"content": "b", "reasoning": "s"})], "", "", id="of choice 0 only"),
    pytest.param([(1, {"content": "b"}), (0, {"content": "a"})], "a", "", id="which is known by its index"),
    pytest.param([(0, {"content": "a"}), (0, {"content": "b", "reasoning": "r"})], "ab", "r", id="in two parts"),
    pytest.param([(0, {"reasoning_content": "r", "reasoning": "r"})], "", "r", id="reasoning that is sent twice"),
    pytest.param([(0, {"reasoning_details": [{"summary": "s"}]})], "", "s", id="a summary"),
    pytest.param(
        [(0, {"content": [{"type": "thinking", "thinking": "r"}, {"type": "text", "text": "a"}]})], "a", "r", id="parts"
    ),
    pytest.param([(None, {"content": "a"})], "a", "", id="without an index: choice 0"),
    pytest.param([(0, {"refusal": "no", "tool_calls": []})], "", "", id="a refusal is no text"),
    pytest.param([(0, {"thinking_blocks": [{"thinking": "r"}]})], "", "r", id="a block"),
    pytest.param([(0, {"thinking_blocks": [{"thinking": "r", "signature": "s"}]})], "", "", id="a signed one repeats"),
    pytest.param([(0, {"reasoning_details": [{"text": "r", "signature": "s"}]})], "", "r", id="but not OpenRouter's"),
    pytest.param([(0, {"content": "r", **THOUGHT})], "", "r", id="a thought"),
    pytest.param([(0, {"content": [{"type": "text", "text": "a"}], **THOUGHT})], "a", "", id="parts are no thought"),
    pytest.param([(0, {"role": "tool", "content": "a", "reasoning": "r"})], "", "", id="a tool's message"),
]


@each_case(("deltas", "text", "reasoning"), CHUNK_VIEWS)
def test_text_and_reasoning_of_a_chunk(deltas: list[tuple[int | None, Any]], text: str, reasoning: str) -> None:
    indexed = [({} if index is None else {"index": index}, delta) for index, delta in deltas]
    chunk = parsed({"choices": [{**index, "delta": delta} for index, delta in indexed]})
    assert (chunk.text, chunk.reasoning) == (text, reasoning)


# Views of completions


def test_views_where_nothing_came() -> None:
    for completion in (ChatCompletion(), ChatCompletion(choices=[Choice(message=ChatCompletionMessage())])):
        assert (completion.text, completion.reasoning, completion.tool_calls) == ("", "", [])
        assert completion.finish_reason is None
        assert completion.message == ChatCompletionMessage()


OUTCOMES: dict[Outcome | None, list[str | None]] = {
    None: [None, "", " ", "null", "None", "NONE", "thinking_end"],
    Outcome.STOP: ["stop", "eos_token", "end_turn", "stop_sequence", "STOP", "eos", "normal", " stop "],
    Outcome.LENGTH: ["length", "max_tokens", "MAX_TOKENS", "model_length", "ERROR_LIMIT", "time_limit"],
    Outcome.TOOL_CALLS: ["tool_calls", "function_call", "tool_use", "tool-calls"],
    Outcome.CONTENT_FILTER:
        ["content_filter", "sensitive", "SAFETY", "RECITATION", "refusal", "content_filter: RECITATION",
         "content-filter", "Content Filter", "MODEL_ARMOR"],
    # With these the stream counts as failed.
    Outcome.ERROR:
        [*("error", "failed", "network_error", "insufficient_system_resource", "abort", "aborted", "overloaded_error",
         "API_ERROR", "x_error"), *("rate_limit_error", "server_error", "timeout", "cancelled", "upstream_error",
         "engine_overloaded"), *("MALFORMED_FUNCTION_CALL", "function_call_filter: MALFORMED_FUNCTION_CALL",
         "network-error", "network error"), *("malformed_tool_use", "malformed_model_output")],
    Outcome.OTHER: ["repetition", "?", "stopped?", "no", "errors", ": stop", "error_", "no error"],
}  # fmt: skip


@each_case(("word", "outcome"), [(word, outcome) for outcome, words in OUTCOMES.items() for word in words])
def test_outcome(word: str | None, outcome: Outcome | None) -> None:
    choice = Choice(finish_reason=word, message=ChatCompletionMessage())
    assert choice.outcome is outcome
    assert choice.finish_reason == word  # as sent


def test_outcomes_are_strings() -> None:
    words = ["stop", "length", "tool_calls", "content_filter", "error", "other"]
    assert [str(outcome) for outcome in Outcome] == words


def test_a_path_names_a_key_that_does_not_fit() -> None:
    """Pydantic gives the place of a key as `[key]` behind it."""
    assert base.dotted(("x", "a", "[key]")) == "x.a (the key)"
    assert base.dotted(("choices", 0, "delta", "a b")) == "choices[0].delta['a b']"
    assert base.dotted(()) == "the value"


CALLED = [
    ChatCompletionMessage(tool_calls=[ChatCompletionMessageFunctionToolCall(function=Function(name="f"))]),
    ChatCompletionMessage.model_validate({"function_call": {"name": "f"}}),
]


@each_case("message", CALLED, ids=["tool_calls", "function_call"])
@each_case(
    ("word", "outcome"),
    [
        *(("stop", Outcome.TOOL_CALLS), ("end_turn", Outcome.TOOL_CALLS), ("?", Outcome.OTHER), (None, None)),
        *((word, Outcome(word)) for word in ("length", "content_filter", "error")),
    ],
)
def test_stop_beside_calls_means_tool_calls(message: ChatCompletionMessage, word: str | None, outcome: Any) -> None:
    """Every other word means what it says, whatever was called."""
    assert Choice(finish_reason=word, message=message).outcome is outcome


COUNTS = [
    # The usage as sent, the count of cached tokens, and that of reasoning tokens.
    pytest.param({}, None, None, id="not sent"),
    pytest.param({"prompt_tokens_details": {"cached_tokens": 5}}, 5, None, id="in the details (OpenAI, OpenToken)"),
    pytest.param({"prompt_tokens_details": {"cached_tokens": 0}}, 0, None, id="0 is a count"),
    pytest.param({"cached_tokens": 5}, 5, None, id="at the top (StepFun)"),
    pytest.param({"cached_tokens": 0}, 0, None, id="0 at the top"),
    pytest.param({"prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 7}, 5, None, id="cache hits (DeepSeek)"),
    pytest.param({"prompt_tokens": 9, "precached_prompt_tokens": 5}, 5, None, id="GigaChat"),
    pytest.param({"prompt_tokens": 9, "cached_input_tokens": 5}, 5, None, id="Inception"),
    pytest.param(
        {"prompt_token_details": {"cached_tokens": 5}}, 5, None, id="details of another name (Writer, Mistral)"
    ),
    pytest.param({"cached_tokens": 5, "prompt_tokens_details": None}, 5, None, id="beside null details"),
    pytest.param({"cached_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}, 5, None, id="beside a 0"),
    pytest.param({"cached_tokens": 5, "prompt_tokens_details": {"audio_tokens": 1}}, 5, None, id="beside details"),
    pytest.param({"cached_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}}, 5, None, id="beside a null"),
    pytest.param({"completion_tokens_details": {"reasoning_tokens": 5}}, None, 5, id="reasoning in the details"),
    pytest.param({"completion_tokens_details": {"reasoning_tokens": 0}}, None, 0, id="0 of them"),
    pytest.param({"completion_token_details": {"reasoning_tokens": 5}}, None, 5, id="another name of details (Writer)"),
    pytest.param({"reasoning_tokens": 5}, None, 5, id="reasoning at the top"),
    pytest.param({"reasoning_tokens": 5, "completion_tokens_details": None}, None, 5, id="before null details"),
    pytest.param(
        {"reasoning_tokens": 5, "completion_tokens_details": {"image_tokens": 1}}, None, 5, id="before others"
    ),
    pytest.param({"cached_tokens": "5", "reasoning_tokens": [5]}, None, None, id="no numbers"),
    pytest.param({"cached_tokens": 2**63, "reasoning_tokens": 2**63}, None, None, id="too large for counts"),
]


@each_case(("sent", "cached", "reasoning"), COUNTS)
def test_cached_and_reasoning_tokens(sent: dict[str, Any], cached: int | None, reasoning: int | None) -> None:
    usage = CompletionUsage.model_validate(sent)
    assert (usage.cached_tokens, usage.reasoning_tokens) == (cached, reasoning)


@pytest.mark.parametrize(
    ("details", "view"),
    [
        ({"prompt_tokens_details": {"cached_tokens": "5"}}, "cached_tokens"),
        ({"prompt_tokens_details": "none"}, "cached_tokens"),
        ({"completion_tokens_details": {"reasoning_tokens": {}}}, "reasoning_tokens"),
        ({"completion_tokens_details": []}, "reasoning_tokens"),
    ],
    ids=["a text", "details that are a text", "an object", "details that are a list"],
)
def test_counts_of_a_wrong_type_are_no_counts(details: dict[str, Any], view: str) -> None:
    usage = parsed({"choices": [], "usage": {**details, view: 7}}).usage
    assert usage is not None
    assert getattr(usage, view) == (5 if details == {"prompt_tokens_details": {"cached_tokens": "5"}} else 7)


# openai-python's types


def test_openais_types_take_the_dump_of_a_completion() -> None:
    chat = pytest.importorskip("openai.types.chat")
    accumulator = ChatCompletionAccumulator()
    accumulator.add(parsed(CHUNK))
    for completion in (ChatCompletion.model_validate(COMPLETION), accumulator.snapshot):
        dumped = completion.model_dump()
        theirs = chat.ChatCompletion.model_validate(dumped)
        assert theirs.choices[0].message.content == "a"
        assert theirs.choices[0].message.tool_calls[0].function.name == "f"
        assert theirs.usage.prompt_tokens_details.cached_tokens == 1
        assert chat.ChatCompletion.model_validate_json(completion.model_dump_json()) == theirs


@pytest.mark.parametrize("answer", [{"content": "a"}, {"content": None, "refusal": "No."}], ids=["text", "a refusal"])
def test_a_dump_of_openais_types_is_a_completion(answer: dict[str, Any]) -> None:
    """Theirs has a null for every field without a value, the list of tool calls among them."""
    chat = pytest.importorskip("openai.types.chat")
    choice = {"index": 0, "message": {"role": "assistant", **answer}, "finish_reason": "stop"}
    theirs = chat.ChatCompletion.model_validate(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    for completion in (
        ChatCompletion.model_validate(theirs.model_dump()),
        ChatCompletion.model_validate_json(theirs.model_dump_json()),
    ):
        assert completion.tool_calls == []
        assert completion.message.to_param() == {"role": "assistant", "content": None, **answer}


def test_nulls_that_openais_client_passes_on_are_defaults() -> None:
    """It constructs its types without validation, so a null of the provider is dumped as null."""
    calls = [
        {"id": "a", "type": None, "function": {"name": "f", "arguments": None}},
        {"id": "b", "type": None, "custom": {"name": "g", "input": None}},
    ]
    answer = {"role": None, "content": "x", "tool_calls": calls}
    message = ChatCompletion.model_validate({"choices": [{"index": 0, "message": answer}]}).message
    assert (message.role, [call.type for call in message.tool_calls]) == ("assistant", ["function", "custom"])
    assert [call.arguments for call in message.tool_calls] == ["", ""]


def test_openais_types_take_the_dump_of_a_chunk() -> None:
    chat = pytest.importorskip("openai.types.chat")
    # Theirs has no custom tools in deltas.
    payload = changed(CHUNK, ("choices", 0, "delta"), "tool_calls", CHUNK["choices"][0]["delta"]["tool_calls"][:1])
    theirs = chat.ChatCompletionChunk.model_validate(parsed(payload).model_dump())
    assert theirs.choices[0].delta.content == "a"
    assert theirs.choices[0].delta.tool_calls[0].function.arguments == "{}"


# Values of a wrong type


def test_an_outer_field_of_a_wrong_type_takes_what_is_inside_with_it() -> None:
    value = {"choices": [{"logprobs": {"content": [{"logprob": "x"}, 7]}}]}
    model, wrong = validate_leniently(ChatCompletionChunk, value)
    assert model.model_dump(exclude_unset=True)["choices"][0]["logprobs"] == {"content": [{"logprob": "x"}, 7]}
    assert len(wrong) == 2


def test_a_value_of_a_wrong_type_stands_in_the_place_of_its_field() -> None:
    chunk, _ = validate_leniently(ChatCompletionChunk, {"created": [5], "choices": [{"finish_reason": 5}]})
    assert (chunk.created, chunk.choices[0].finish_reason) == ([5], 5)
    dump = chunk.model_dump_json()
    assert (dump.count('"created":'), dump.count('"finish_reason":')) == (1, 1)


def test_values_of_a_wrong_type_stand_beside_each_other() -> None:
    completion, _ = validate_leniently(ChatCompletion, {"id": 5, "model": [], "raw_values": {"usage": "x"}})
    assert completion.raw_values == {"usage": "x", "id": 5, "model": []}


def test_what_is_no_object_of_fields_cannot_be_kept_raw() -> None:
    with pytest.raises(TypeError):
        validate_leniently(ChatCompletionChunk, {"\ud83d": 1})


# Copies


def test_no_default_is_copied_deeply() -> None:
    """Pydantic would do so for each object without that field: most of what validating an empty one costs."""
    for model in vars(models).values():
        for name, field in getattr(model, "model_fields", {}).items():
            assert not isinstance(field.default, list | dict), (model, name)
    assert ChatCompletion().choices is not ChatCompletion().choices


def test_a_copy_shares_nothing_that_can_change() -> None:
    body = {
        "choices": [
            {
                "index": 0,
                "delta": {"content": [{"type": "text", "text": "a"}], "annotations": [{"url": {"a": [1]}}, 2]},
            },
            {"index": 1, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{"}, "x": {"y": 1}}]}},
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 2}},
        "x": {"y": [1]},
    }
    chunk, _ = validate_leniently(ChatCompletionChunk, copy.deepcopy(body))
    copied = copier_of(chunk)()
    assert (copied, copied.model_fields_set) == (chunk, chunk.model_fields_set)
    assert all(one.__private_attributes__ == {} for one in containers(chunk) if isinstance(one, BaseModel))
    assert copied.model_dump_json(exclude_unset=True) == chunk.model_dump_json(exclude_unset=True)
    own, its = list(containers(chunk)), list(containers(copied))
    assert {*map(id, own)}.isdisjoint(map(id, its))
    copied.model = "m"
    assert "model" not in chunk.model_fields_set


def containers(value: Any) -> Iterator[Any]:
    """Everything in a value that can be changed."""
    if isinstance(value, BaseModel):
        yield value
        yield value.model_fields_set
        yield from containers([vars(value), value.model_extra])
    elif isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def test_a_copy_has_the_values_of_the_moment() -> None:
    chunk = ChatCompletionChunk.model_validate({"choices": [{"index": 0, "delta": {"content": "a"}}]})
    copied = copier_of(chunk)
    vars(chunk.choices[0].delta)["content"] = "b"
    assert copied().text == "b"


# What a `repr` shows


def test_a_repr_shows_a_few_unknown_fields() -> None:
    few, many = ({f"x{place}": place for place in range(size)} for size in (8, 9))
    assert repr(ChatCompletionChunk.model_validate(few)).endswith(", x6=6, x7=7)")
    assert repr(ChatCompletionChunk.model_validate(many)).endswith(", x6=6, x7=7, ...)")


def test_a_repr_leaves_out_what_is_none() -> None:
    sent = {
        "id": "c1",
        "choices": [{"delta": {"content": "Hi", "refusal": None}, "finish_reason": None}],
        "usage": None,
    }
    chunk = ChatCompletionChunk.model_validate(sent)
    shown = "id='c1'{0}choices=[ChunkChoice(index=0, delta=ChoiceDelta(content='Hi'))]"
    assert (repr(chunk), str(chunk)) == (f"ChatCompletionChunk({shown.format(', ')})", shown.format(" "))
