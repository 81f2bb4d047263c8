"""Recorded bodies of more projects, and of real servers and gateways: in every cut, through every way of reading.

They stand beside those of `test_recordings`. Their manifest counts nothing, so what must come of each body is one row
in a table here, written from the body and from what the manifest says is right.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, Unpack

import pytest
from cases import each_case
from shared_data import shared_data

from chunkfold import (
    RULES,
    ChatCompletionChunk,
    ChatCompletionEvent,
    ChatCompletionMessage,
    ChatCompletionParser,
    ChoiceFinished,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidStreamError,
    Outcome,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
)
from chunkfold.parser.options import ParserOptions
from chunkfold.testing import cut_every

RECORDINGS = shared_data("recordings-2")
MANIFEST = {entry["file"] for entry in json.loads((RECORDINGS / "MANIFEST.json").read_text("utf-8"))}
CUTS = (1, 7, 1460)  # bytes in a read; the last is what a network gives


class Shown(NamedTuple):
    """A choice.

    Attributes:
        finish_reason: As it was sent.
        parts: The types of the message's parts, in their order.
        text: The content, None where it is too long for a table.
        reasoning: The reasoning, likewise.
        calls: The tool calls' ids, names and arguments.
    """

    finish_reason: str | None
    parts: str
    text: str | None = ""
    reasoning: str | None = ""
    calls: tuple[tuple[str, str, str], ...] = ()


class Right(NamedTuple):
    """What must come of a body.

    Attributes:
        end: How the stream ends.
        chunks: How many chunks it has.
        rules: How often each rule is noted, in their order.
        choices: The choices, by their indexes.
        total_tokens: Those of the usage, None where none was sent.
    """

    end: str
    chunks: int
    rules: dict[str, int]
    choices: dict[int, Shown]
    total_tokens: int | None = None


HELLO = "Hello, wörld 😀."
THOUGHT = "Let me think."
COPILOT = "github-copilot__codecompanion.nvim__copilot-tools-streaming-reasoning"
DASHSCOPE_BODY = "dashscope__loongsuite-python-agent__testagentworkflow.test-multi-agent-collaboration"
DASHSCOPE_CHOICES = "dashscope__loongsuite-python-agent__teststreamcompletion.test-streaming-multiple-choices"
DASHSCOPE_NATIVE = "dashscope-native__loongsuite-python-agent__test-agent-run-nonstream"
FORCED_ID = "call__0_get_weather_cmpl-2c0fb31a-11e0-4c05-ac98-79e75f285c8c"
GROQ_ERROR = "groq__pydantic-ai__test-tool-use-failed-error-streaming-with-text"
TGI = "huggingface-tgi__text-generation-inference__test-flash-llama-grammar-tools-sea-creatures-stream-auto"
PERSON = '{"name": "Alex Johnson", "age": 28, "occupation": "Software Engineer"}'
PARIS = '{"city":"Paris","country":"France","unit":"C"}'

RIGHT = {
    "aihubmix__rust-genai__response-000": Right("finished", 5, {}, {0: Shown("stop", "text", "Hello.")}, 18),
    "azure__ogx__3de708c0e47a81dc57473c1d484f9d12ae5d03a816b4ee265da4926a95cd": Right(
        "finished", 5, {"CF203": 4, "CF216": 1, "CF501": 1}, {0: Shown("stop", "text", "yes")}, 519
    ),
    "bedrock-openai__ogx__3dcb9e38f66c96323546ef8d7fee216ad11a4dd6f7fe44c4b602671eea12": Right(
        "finished", 4, {"CF203": 4, "CF216": 1, "CF501": 1}, {0: Shown("stop", "text", None)}
    ),
    "cerebras__req-llm__reasoning-streaming": Right(
        "finished", 69, {"CF501": 1}, {0: Shown("stop", "reasoning text", None, None)}, 179
    ),
    # Events of another API alone, which have another name, too.
    DASHSCOPE_NATIVE: Right("invalid", 0, {"CF106": 2}, {}),
    DASHSCOPE_BODY: Right("finished", 1, {"CF109": 1}, {0: Shown("stop", "text", None)}, 3017),
    DASHSCOPE_CHOICES: Right(
        "finished",
        19,
        {},
        {
            0: Shown("stop", "text", "Hello you today? 😊"),
            1: Shown("stop", "text", "Hello! How can I assist you today"),
        },
        27,
    ),
    # Blank lines are missing in two of codecompanion's; so is the last one of others, behind [DONE].
    "deepseek__codecompanion.nvim__deepseek-streaming-reasoning-disabled": Right(
        "finished", 7, {"CF101": 1, "CF102": 1}, {0: Shown("stop", "text", "Elegant syntax.")}, 14
    ),
    "doubao__ai4j__apiresponse-l472": Right("finished", 5, {}, {0: Shown("stop", "text", "我是豆～")}),
    "gemini-compat__gomodel__chat-completion-stream": Right(
        "finished", 1, {"CF101": 1}, {0: Shown("stop", "text", "Hello World")}
    ),
    COPILOT: Right(
        "finished",
        4,
        {"CF101": 1, "CF102": 1, "CF206": 4, "CF501": 1},
        {
            0: Shown(
                "tool_calls",
                "reasoning text tool_call",
                "I will search for the `quotes.lua` file to locate it within the repository.\n",
                None,
                (("call_MHxoeW9qWnVicVd6R0FkMFZ3UWw", "file_search", '{"query":"**/quotes.lua"}'),),
            )
        },
        6132,
    ),
    "github-copilot__rust-genai__response-000": Right(
        "finished",
        16,
        {},
        {0: Shown("tool_calls", "tool_call", calls=(("call_YC2QMIr5bbEvqMl96iKr7oCN", "get_weather", PARIS),))},
    ),
    "groq__braintrust-sdk-javascript__groq-v1-latest.cassette": Right(
        "finished", 3, {}, {0: Shown("stop", "text", "STREAM")}, 42
    ),
    GROQ_ERROR: Right("failed", 85, {"CF601": 1}, {0: Shown(None, "reasoning text", "maybe", None)}),
    TGI: Right("finished", 20, {"CF203": 20, "CF216": 1, "CF501": 1}, {0: Shown("length", "text", None)}),
    "hunyuan__ai4j__apiresponse-l455": Right(
        "finished",
        3,
        {"CF203": 1},  # the name of the call's second fragment
        {
            0: Shown(
                "tool_calls",
                "tool_call",
                calls=(("call_d4nekv42c3mas4ig9k30", "get_current_weather", '{"format":"celsius","location":"北京"}'),),
            )
        },
    ),
    "litellm__anthropic-think": Right("finished", 8, {}, {0: Shown("stop", "reasoning text", HELLO, THOUGHT)}),
    "litellm__anthropic-web": Right(
        "finished",
        6,
        {},
        {0: Shown("stop", "tool_call text", "Found.", calls=(("srvtoolu_1", "web_search", '{"query":"x"}'),))},
    ),
    "litellm__gemini-think": Right("finished", 5, {}, {0: Shown("stop", "reasoning text", "Hello.", THOUGHT)}),
    "llama-cpp-python__tool_forced": Right(
        "finished",
        11,
        {"CF307": 8},
        {0: Shown("tool_calls", "tool_call", calls=((FORCED_ID, "get_weather", '{"city": "Paris"}'),))},
    ),
    "llama-server__n2": Right(
        "finished",
        24,
        {},
        {
            0: Shown(
                "length", "text", " powsta controversialmis rinse\u16d0\u1dab@sGro\u5e01 \u0442\u0435\u0431\u044f"
            ),
            1: Shown("length", "text", " October交际Selectedelectricacad\u232aいろいろ갸ña百科"),
        },
    ),
    "llamacpp__gptel-test__thinking-stream-llamacpp-glm4.5-01": Right(
        "finished", 58, {"CF101": 1}, {0: Shown("stop", "text", None)}, 71
    ),
    # Without a finish reason; and without `one_choice` as many choices as there are indexes.
    "musistudio-llms__ds-ds-think": Right(
        "done", 8, {"CF101": 1, "CF502": 1}, {0: Shown(None, "reasoning", "", THOUGHT), 1: Shown(None, "text", HELLO)}
    ),
    "musistudio-llms__gem-gemini-text": Right(
        "truncated",
        4,
        {},
        {
            1: Shown(None, "text", "Hel"),
            2: Shown(None, "text", "lo, wör"),
            3: Shown(None, "text", "ld 😀"),
            4: Shown("stop", "text", "."),
        },
        17,
    ),
    "opencode-go__rust-genai__response-000": Right(
        "finished", 37, {}, {0: Shown("stop", "reasoning text", "Hello", None)}, 133
    ),
    "openrouter__braintrust-sdk-javascript__openrouter-v1-latest.cassette": Right(
        "finished", 3, {"CF504": 1}, {0: Shown("stop", "text", "STREAM")}, 13
    ),
    "openrouter__gptel-test__thinking-stream-openrouter-01": Right(
        "finished", 27, {"CF101": 1}, {0: Shown("stop", "text", None)}, 45
    ),
    "portkey__anthropic-errmid": Right(
        "failed", 7, {"CF203": 1, "CF210": 1, "CF606": 1}, {0: Shown("overloaded_error", "text", HELLO)}
    ),
    "portkey__anthropic-think": Right(
        "finished", 11, {"CF506": 1}, {0: Shown("end_turn", "reasoning text", HELLO, THOUGHT)}, 36
    ),
    "portkey__bedrock-errmid": Right("done", 6, {"CF502": 1}, {0: Shown(None, "text", HELLO)}),
    "portkey__cohere-think": Right(
        "done", 8, {"CF210": 1, "CF502": 1}, {0: Shown(None, ""), 1: Shown("stop", "text", "Hello.")}, 17
    ),
    "portkey__cohere-tools": Right(
        "done",
        11,
        {"CF210": 2, "CF301": 6, "CF313": 6, "CF502": 1},
        {
            0: Shown(None, "tool_call", calls=(("get_weather_1", "get_weather", '{"city":"Paris"}'),)),
            1: Shown("tool_calls", "tool_call", calls=(("get_weather_2", "get_weather", '{"city":"Tokyo"}'),)),
        },
        17,
    ),
    "siliconflow__ai4j__apiresponse-l258": Right(
        "finished",
        21,
        {},
        {0: Shown("stop", "reasoning text", "Hello! How can I assist you today? 😊", None)},
        345,
    ),
    "snowflake__pydantic-ai__test-snowflake-model-streaming": Right(
        "done", 3, {"CF203": 6, "CF216": 1, "CF502": 1}, {0: Shown(None, "text", "4")}, 27
    ),
    "transformers__errmid_badjson": Right("failed", 1, {"CF609": 1}, {0: Shown(None, "")}),
    "vllm__token_ids": Right("finished", 11, {}, {0: Shown("stop", "text", "Hello, wörld 😀. This is text.")}),
    "watsonx__ogx__ff55116840a3cc1745623d8d3f8a277e79e2a2c5d88521844f2d260a9745": Right(
        "finished", 4, {"CF203": 4, "CF216": 1, "CF501": 1}, {0: Shown("stop", "text", "hello")}, 45
    ),
    "zai__req-llm__object-streaming": Right(
        "finished",
        75,
        {"CF206": 75, "CF504": 1},
        {
            0: Shown(
                "tool_calls",
                "reasoning text tool_call",
                None,
                None,
                (("call_2025110301303904b20e4a6bc54088_0", "structured_output", PERSON),),
            )
        },
        332,
    ),
}
# The same with the option `one_choice`, which `connect` sets where the request asks for one.
ONE_CHOICE = {
    "musistudio-llms__ds-ds-think": Right(
        "done", 8, {"CF101": 1, "CF221": 4, "CF502": 1}, {0: Shown(None, "reasoning text", HELLO, THOUGHT)}
    ),
    "musistudio-llms__gem-gemini-text": Right(
        "finished", 4, {"CF221": 4, "CF501": 1}, {0: Shown("stop", "text", HELLO)}, 17
    ),
    "portkey__cohere-think": Right("finished", 8, {"CF210": 1, "CF221": 4}, {0: Shown("stop", "text", "Hello.")}, 17),
    "portkey__cohere-tools": Right(
        "finished",
        11,
        {"CF210": 2, "CF221": 5, "CF301": 6, "CF313": 6},
        {
            0: Shown(
                "tool_calls",
                "tool_call tool_call",
                calls=(
                    ("get_weather_1", "get_weather", '{"city":"Paris"}'),
                    ("get_weather_2", "get_weather", '{"city":"Tokyo"}'),
                ),
            )
        },
        17,
    ),
}

recordings = each_case("name", RIGHT)
by_options = each_case(
    ("name", "is_one"),
    [*((name, False) for name in RIGHT), *((name, True) for name in ONE_CHOICE)],
    ids=lambda value: {True: "one-choice", False: "as-sent"}.get(value, value),
)


class Reading(NamedTuple):
    """A body that was read to its end."""

    parser: ChatCompletionParser
    chunks: list[ChatCompletionChunk]
    events: list[ChatCompletionEvent]


def body_of(name: str) -> bytes:
    return (RECORDINGS / f"{name}.sse").read_bytes()


def read(body: bytes, size: int, **options: Unpack[ParserOptions]) -> Reading:
    """The body in reads of that many bytes; events are asked for after each."""
    parser = ChatCompletionParser(**options)
    chunks, events = [], parser.events()
    for data in cut_every(body, size):
        chunks += parser.feed(data)
        events += parser.events()
    chunks += parser.close()
    return Reading(parser, chunks, events + parser.events())


def options_of(*, is_one: bool) -> ParserOptions:
    return {"one_choice": True} if is_one else {}


@cache
def whole(name: str, *, is_one: bool = False) -> Reading:
    body = body_of(name)
    return read(body, len(body), **options_of(is_one=is_one))


def right(name: str, *, is_one: bool) -> Right:
    return ONE_CHOICE[name] if is_one else RIGHT[name]


def told(parser: ChatCompletionParser) -> tuple[Any, ...]:
    """All that a parser says at its end."""
    snapshot = parser.snapshot
    parts = [choice.message.parts for choice in snapshot.choices]
    return parser.end, repr(parser.error), snapshot, snapshot.model_dump(), parts, parser.anomalies


def messages(name: str, *, is_one: bool = False) -> list[ChatCompletionMessage]:
    return [choice.message for choice in whole(name, is_one=is_one).parser.snapshot.choices]


# What holds for every body


def test_the_table_knows_every_recording() -> None:
    assert {f"{name}.sse" for name in RIGHT} == MANIFEST == {path.name for path in RECORDINGS.glob("*.sse")}


@by_options
def test_what_comes_of_it(name: str, is_one: bool) -> None:
    reading, expected = whole(name, is_one=is_one), right(name, is_one=is_one)
    snapshot = reading.parser.snapshot
    assert reading.parser.end == expected.end
    assert len(reading.chunks) == expected.chunks
    assert [choice.index for choice in snapshot.choices] == list(expected.choices)
    for choice in snapshot.choices:
        shown, message = expected.choices[choice.index], choice.message
        assert choice.finish_reason == shown.finish_reason
        assert " ".join(part.type for part in message.parts) == shown.parts
        assert shown.text in (None, message.content or "")
        assert shown.reasoning in (None, message.reasoning or "")
        assert tuple((call.id, call.name, call.arguments) for call in message.tool_calls) == shown.calls
    assert (snapshot.usage and snapshot.usage.total_tokens) == expected.total_tokens
    assert {event.choice for event in reading.events if hasattr(event, "choice")} <= expected.choices.keys()


@by_options
def test_what_is_noted(name: str, is_one: bool) -> None:
    anomalies = whole(name, is_one=is_one).parser.anomalies
    noted = {anomaly.rule.id: anomaly.count for anomaly in anomalies}
    assert noted == right(name, is_one=is_one).rules
    assert set(noted) <= {rule.id for rule in RULES}


@by_options
@pytest.mark.parametrize("size", CUTS)
def test_cuts_do_not_matter(name: str, is_one: bool, size: int) -> None:
    expected = whole(name, is_one=is_one)
    parser, chunks, events = read(body_of(name), size, **options_of(is_one=is_one))
    assert told(parser) == told(expected.parser)
    assert chunks == expected.chunks
    assert events == expected.events


@by_options
@pytest.mark.parametrize("size", [*CUTS, None])
def test_what_is_only_folded_is_the_same(name: str, is_one: bool, size: int | None) -> None:
    body = body_of(name)
    parser = ChatCompletionParser(**options_of(is_one=is_one))
    for data in cut_every(body, size or len(body)):
        parser.fold(data)
    parser.close()
    assert told(parser) == told(whole(name, is_one=is_one).parser)


@recordings
def test_end(name: str) -> None:
    parser = whole(name).parser
    if parser.end and parser.end.complete:
        assert parser.completion() == parser.snapshot
        return
    with pytest.raises(ChunkfoldError) as raised:
        parser.completion()
    assert raised.value is parser.error
    assert not parser.error.retryable  # something had been emitted, or it is the wrong endpoint
    assert isinstance(parser.error, IncompleteStreamError) == (parser.end == StreamEnd.TRUNCATED)


@recordings
def test_strict_takes_what_breaks_no_rule(name: str) -> None:
    parser = read(body_of(name), 1460, strict=True).parser
    if not RIGHT[name].rules:
        assert told(parser) == told(whole(name).parser)
    else:
        assert isinstance(parser.error, InvalidStreamError) or parser.end == StreamEnd.FAILED


@by_options
def test_deltas_add_up(name: str, is_one: bool) -> None:
    """The chunks', the events', the parts', the message's, and those that a plain look at what was sent finds, are the same."""
    reading = whole(name, is_one=is_one)
    sent = list(sent_deltas(body_of(name), is_one=is_one))
    for choice in reading.parser.snapshot.choices:
        message, deltas = choice.message, [delta for index, delta in sent if index == choice.index]
        text, reasoning = message.content or "", message.reasoning or ""
        assert text == "".join(delta.get("content") or "" for delta in deltas)
        assert reasoning == "".join(map(sent_reasoning, deltas))
        if choice.index == 0:
            assert "".join(chunk.reasoning for chunk in reading.chunks) == reasoning
        for kind, whole_text, event in (("text", text, TextDelta), ("reasoning", reasoning, ReasoningDelta)):
            events = [each for each in reading.events if isinstance(each, event) and each.choice == choice.index]
            assert "".join(each.delta for each in events) == whole_text
            assert "".join(part.text for part in message.parts if part.type == kind) == whole_text
        calls = [part.tool_call for part in message.parts if part.type == "tool_call"]
        assert calls == list(message.tool_calls)
        for position, call in enumerate(calls):
            grown = [
                each.delta
                for each in reading.events
                if isinstance(each, ToolCallArgumentsDelta) and (each.choice, each.position) == (choice.index, position)
            ]
            assert "".join(grown) == call.arguments


def sent_deltas(body: bytes, *, is_one: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The choices' indexes and deltas as a plain look at the lines finds them."""
    for line in body.splitlines():
        name, _, payload = line.partition(b":")
        try:
            sent = json.loads(payload if name == b"data" else line)
        except ValueError:
            continue
        for choice in sent.get("choices", ()) if isinstance(sent, dict) else ():
            yield 0 if is_one else choice.get("index", 0), choice["delta"] if "delta" in choice else choice["message"]


def sent_reasoning(delta: dict[str, Any]) -> str:
    """Of a delta; in a signed block the whole is repeated."""
    thinking = delta.get("thinking") or {}
    blocks = "".join(block["delta"].get("thinking", "") for block in delta.get("content_blocks", ()))
    unsigned = "" if "signature" in thinking else thinking.get("content", "")
    return delta.get("reasoning") or delta.get("reasoning_content") or delta.get("reasoning_text") or unsigned or blocks


@recordings
def test_a_call_is_done_as_the_message_has_it(name: str) -> None:
    reading = whole(name)
    if not (reading.parser.end and reading.parser.end.complete):
        return
    finished = [event for event in reading.events if isinstance(event, ChoiceFinished)]
    assert len(finished) == sum(choice.finish_reason is not None for choice in reading.parser.snapshot.choices)
    done = {(event.choice, event.position): event.call for event in reading.events if isinstance(event, ToolCallDone)}
    assert done == {
        (choice.index, position): call
        for choice in reading.parser.snapshot.choices
        for position, call in enumerate(choice.message.tool_calls)
    }


# What the manifest says is right


def test_an_error_as_finish_reason_is_the_providers() -> None:
    parser = whole("portkey__anthropic-errmid").parser
    assert parser.snapshot.choices[0].outcome is Outcome.ERROR
    assert "overloaded_error" in str(parser.error)


def test_an_error_of_broken_json_says_what_was_sent() -> None:
    assert 'can only concatenate str (not "int") to str' in str(whole("transformers__errmid_badjson").parser.error)


def test_events_of_another_api_are_quoted() -> None:
    error = whole(DASHSCOPE_NATIVE).parser.error
    assert '"output"' in str(error)
    assert "OK" in str(error)


def test_what_copilot_keeps_to_itself_goes_back_to_it() -> None:
    (message,) = messages(COPILOT)
    sent = [delta for _, delta in sent_deltas(body_of(COPILOT), is_one=False)]
    assert message.to_param()["reasoning_opaque"] == "".join(delta.get("reasoning_opaque", "") for delta in sent)


@by_options
def test_no_call_without_a_name_goes_back(name: str, is_one: bool) -> None:
    for message in messages(name, is_one=is_one):
        assert all(call["function"]["name"] for call in message.to_param().get("tool_calls", ()))
