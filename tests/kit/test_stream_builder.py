"""Streams said in words: what is written is what the dialect's provider is known to send, and comes to what was said.

Each dialect says the same answers. What this library makes of them is held against values that stand here, and so is
the builder's own idea of the reading; the anomalies of a dialect are those that its quirks are. Where a golden body or
a recording shows a provider, traits of its chunks are taken from both, by code that knows only JSON, and compared.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, replace
from itertools import groupby
from textwrap import dedent
from typing import Any

import pytest
from cases import each_case
from golden_bodies import golden
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed_bodies import decoded, parsed
from shared_data import shared_data

from chunkfold import APIError, ChatCompletionParser, ChatCompletionStream
from chunkfold.testing import (
    DIALECTS,
    DONE,
    ERROR_SHAPES,
    Answer,
    Dialect,
    Reading,
    StreamBuilder,
    assert_folds_to,
    builder,
    event,
    sse,
)
from chunkfold.testing.error_shapes import ErrorShape

SILENT = {"openai", "azure", "azure-async", "cloudflare", "perplexity", "tgi"}  # their reasoning does not come
UNFINISHED = {"evolink"}  # no finish reason comes
often = settings(max_examples=80, deadline=None)  # no deadline: the machine may be busy


def read(stream: StreamBuilder) -> ChatCompletionParser:
    return parsed(stream.body, status_code=200)


# What is said is what comes


def hello(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).text("Hel", "lo", " 号\u2028😀").finish().done()


def thinking(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).reasoning("Hm", "m.").text("Hi", "!").finish().done()


def calling(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).tool_call("get_weather", '{"city":', '"Oslo"}').finish().done()


def calling_in_turns(dialect: str) -> StreamBuilder:
    calls = ("get_weather", '{"city":', '"Oslo"', "}"), ("find_trains", '{"to":"Rome"}')
    return StreamBuilder(dialect).text("Let me see.").tool_calls(*calls).finish().done()


def calling_twice(dialect: str) -> StreamBuilder:
    stream = StreamBuilder(dialect).tool_call("find", '{"a":', "1}").tool_call("find", '{"a":', "2}")
    return stream.tool_call("now").finish().done()


def counting(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).text("Hi", "!").usage(10, 5, cached=3, reasoning=2).finish().done()


def failing(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).text("Hi", "!").error("overloaded", code=503)


def cut_off(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).text("Hi", "!").usage(10, 5)


WEATHER, TRAINS = ("get_weather", '{"city":"Oslo"}'), ("find_trains", '{"to":"Rome"}')
# The text, the reasoning and the calls that come, and how it ends.
SAID_SO: dict[Callable[[str], StreamBuilder], tuple[str, str, list[tuple[str, str]], str]] = {
    hello: ("Hello 号\u2028😀", "", [], "complete"),
    thinking: ("Hi!", "Hmm.", [], "complete"),
    calling: ("", "", [WEATHER], "complete"),
    calling_in_turns: ("Let me see.", "", [WEATHER, TRAINS], "complete"),
    calling_twice: ("", "", [("find", '{"a":1}'), ("find", '{"a":2}'), ("now", "")], "complete"),
    counting: ("Hi!", "", [], "complete"),
    failing: ("Hi!", "", [], "error"),
    cut_off: ("Hi!", "", [], "cut"),
}


@each_case("dialect", DIALECTS)
@each_case("say", SAID_SO, ids=lambda say: say.__name__)
def test_what_is_said_is_what_comes(say: Callable[[str], StreamBuilder], dialect: str) -> None:
    stream, (text, reasoning, calls, ending) = say(dialect), SAID_SO[say]
    parser, reading = read(stream), stream.reading
    reasoning = "" if dialect in SILENT else reasoning
    for one, its_calls in ((parser.snapshot, parser.snapshot.tool_calls), (reading, reading.calls or ())):
        assert (one.text, one.reasoning or "") == (text, reasoning)
        assert [(call.name, call.arguments) for call in its_calls] == calls
    assert [call.id for call in reading.calls or ()] == [
        None if dialect == "tgi" else call.id for call in parser.snapshot.tool_calls
    ]
    assert say is not calling or parser.snapshot.tool_calls[0].id == "call_1" or dialect == "tgi"
    whole = "done" if dialect in UNFINISHED else "finished"
    assert (reading.ending, parser.end) == (ending, {"complete": whole, "error": "failed", "cut": "truncated"}[ending])
    if ending != "error":
        stop = "eos_token" if dialect == "tgi" else "stop"
        reason = (
            "" if ending == "cut" or dialect in UNFINISHED else "tool_calls" if calls and dialect != "gemini" else stop
        )
        assert (parser.snapshot.finish_reason or "") == reading.finish_reason == reason
        assert reading.refused is None
    usage, counts = parser.snapshot.usage, {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    if say is counting:
        assert usage.model_dump(include={*counts}) == reading.usage == counts
        assert (usage.cached_tokens, usage.reasoning_tokens) == (3, 2)
    elif ending == "complete":
        assert (usage, reading.usage) == (None, {})


@each_case("dialect", DIALECTS)
def test_an_error(dialect: str) -> None:
    for stream, message in (
        (failing(dialect), "overloaded"),
        (StreamBuilder(dialect).text("Hi").finish().error("late"), "late"),
    ):
        error = read(stream).error
        assert isinstance(error, APIError)
        assert error.message == stream.reading.refused == message
    assert read(failing(dialect)).error.status_code == (None if dialect == "tgi" else 503)  # its errors are text alone


@each_case("dialect", DIALECTS)
def test_several_choices(dialect: str) -> None:
    stream = StreamBuilder(dialect).text("a").text("x", choice=1).text("b").refusal("no", choice=1).usage(1, 2)
    stream = stream.finish().finish("length", choice=1).done()
    parser = read(stream)
    first, second = parser.completion().choices
    assert (first.message.content, second.message.content) == stream.reading.texts == ("ab", "x")
    assert second.message.refusal == "no"
    assert second.finish_reason == (None if dialect in UNFINISHED else "length")
    assert parser.snapshot.usage.completion_tokens == 2


@each_case("dialect", sorted(DIALECTS.keys() - UNFINISHED))
def test_a_cut_between_any_two_events_is_never_complete_before_the_finish_reason(dialect: str) -> None:
    pieces = calling_in_turns(dialect).usage(9, 9).events
    finish = next(place for place, piece in enumerate(pieces) if re.search(rb'"finish_reason":"\w', piece))
    for size in range(len(pieces)):
        assert parsed(b"".join(pieces[:size])).end.complete is (size > finish)


# Its quirks

ALWAYS = {
    "copilot": {"CF206"},  # no object
    "minimax-search": {"CF220"},  # a tool's result
    "nagaai": {"CF216"},  # no id, created or model
    "nameless": {"CF216"},
    "perplexity": {"CF207"},  # the message so far
    "stepfun": {"CF203"},  # "" for the role and the finish reason
    "tgi": {"CF203", "CF216"},  # "" for the id, in each chunk
}
WITH_FINISH = {
    "azure-async": {"CF202"},  # a choice without delta
    "evolink": {"CF502"},
    "minimax": {"CF206", "CF207"},  # chat.completion, with the whole message
    "minimax-search": {"CF206", "CF207"},
    "perplexity": {"CF206"},  # chat.completion.done
    "sansa": {"CF206"},  # no object
}
MORE: dict[Callable[[str], StreamBuilder], dict[str, set[str]]] = {
    hello: {"tgi": {"CF506"}},  # eos_token
    thinking: {"databricks": {"CF208"}, "tgi": {"CF506"}, "mistral": {"CF208"}},  # a list of parts
    calling_in_turns: {
        "gemini": {"CF301"},  # no index
        "kimi": {"CF304"},
        "lmstudio": {"CF304"},
        "minimax": {"CF307", "CF310"},  # the second call comes in one piece, as an object
        "minimax-search": {"CF307", "CF310"},
        "nagaai": {"CF301"},
        "nameless": {"CF308"},
        "ollama": {"CF305"},
        "qwen": {"CF203"},
        "stepfun": {"CF301"},
        "tgi": {"CF302"},
    },
    counting: {"nagaai": {"CF206"}, "tgi": {"CF506"}},  # a trailer that has nothing else
    failing: {
        "cloudflare": {"CF604"},
        "gemini": {"CF214"},
        "groq": {"CF601"},
        "llamacpp": {"CF602"},
        "lmstudio": {"CF601"},
        "minimax": {"CF605"},
        "minimax-search": {"CF605"},
        "mistral": {"CF604"},
        "openrouter": {"CF202", "CF206", "CF210"},  # choices of a finish reason alone
        "sansa": {"CF202", "CF206", "CF210"},
        "tgi": {"CF603"},
        "vllm": {"CF604"},
        "vllm-speculative": {"CF604"},
    },
    cut_off: {},
}


@each_case("dialect", DIALECTS)
@each_case("say", MORE, ids=lambda say: say.__name__)
def test_the_anomalies_are_the_quirks_of_the_dialect(say: Callable[[str], StreamBuilder], dialect: str) -> None:
    finishes = say not in (failing, cut_off)
    wanted = ALWAYS.get(dialect, set()) | (WITH_FINISH.get(dialect, set()) if finishes else set())
    assert {anomaly.rule.id for anomaly in read(say(dialect)).anomalies} == wanted | MORE[say].get(dialect, set())


def test_arguments_may_be_a_dict() -> None:
    said = StreamBuilder().tool_call("f", {"city": "Ås", "n": [1]}).tool_calls(("g", {}), ("h", '{"a"', ":1}"))
    assert [call.arguments for call in said.reading.calls or ()] == ['{"city": "Ås", "n": [1]}', "{}", '{"a":1}']
    assert_folds_to(said.finish().done())


def test_what_the_second_look_found_is_said_as_it_was_seen() -> None:
    """Each of these is read right only by who knows of it; that this library does is tested above."""
    deltas = [choice["delta"] for choice in Traits(thinking("copilot").body).choices]
    assert [delta.get("reasoning_text") or "reasoning_opaque" in delta for delta in deltas[:3]] == ["Hm", "m.", True]
    contents = [choice["delta"].get("content") for choice in Traits(thinking("gemini").body).choices]
    assert contents[1:5] == ["<thought>Hm", "m.", "</thought>Hi", "!"]
    blocks = [choice["delta"].get("thinking_blocks") for choice in Traits(thinking("litellm").body).choices]
    assert [block[0].get("signature", "") for block in blocks if block] == ["", "", "c2lnbmVk"]
    parts = Traits(calling("vllm-speculative").body).choices[1]["delta"]["tool_calls"]
    assert [part["index"] for part in parts] == [0, 0, 0]
    assert parts[0]["function"]["name"] == "get_weather"
    assert [choice.get("delta") for choice in Traits(hello("azure-async").body).choices].count(None) == 1
    assert not any(choice["finish_reason"] for choice in Traits(hello("evolink").body).choices)
    assert Traits(hello("minimax-search").body).choices[0]["delta"]["role"] == "tool"


@pytest.mark.parametrize(
    "built",
    [
        StreamBuilder("minimax-search").text("Hi", choice=2).finish(choice=2),
        StreamBuilder("minimax-search").text().text("Hi", choice=2).finish(choice=2),
        StreamBuilder("minimax-search").text("Hi", choice=2).finish(choice=2).done().text("not sent"),
    ],
)
def test_the_chunks_ahead_are_of_the_first_choice_that_there_is(built: StreamBuilder) -> None:
    stream = ChatCompletionStream(built)
    assert [choice.message.content for choice in stream.read().choices] == list(built.reading.texts)
    assert stream.end == "finished"


def test_thoughts_in_content_open_and_close_their_tag_again() -> None:
    said = (
        StreamBuilder("gemini").reasoning("a").text("b").reasoning("c").tool_call("f", "{}").text("d").finish().done()
    )
    assert (said.reading.text, said.reading.reasoning) == ("bd", "ac")
    assert said.body.count(b'"<thought>') == said.body.count(b'"</thought>') == 2
    assert_folds_to(said)


def test_the_reference_has_none_and_is_taken_in_strict_mode() -> None:
    for say in MORE:
        assert not parsed(say("openai").body, strict=True).anomalies


@each_case("dialect", DIALECTS)
def test_each_dialect_says_what_is_special(dialect: str) -> None:
    assert re.fullmatch(r"[a-zA-Z][^.]+", DIALECTS[dialect].about)


def test_a_dialect_of_ones_own() -> None:
    mine = Dialect(about="mine", has_space=False, done=b"", usage="choice")
    stream = StreamBuilder(mine).text("Hi").usage(1, 2).finish().done()
    assert stream.body.startswith(b'data:{"id"')
    assert b"[DONE]" not in stream.body
    parser = read(stream)
    assert {anomaly.rule.id for anomaly in parser.anomalies} == {"CF501"}
    assert (parser.completion().text, stream.reading.ending) == ("Hi", "complete")
    with pytest.raises(FrozenInstanceError):
        mine.about = "other"  # type: ignore[misc]


# Traits of a provider


class Traits:
    """What a body shows of its provider, taken from JSON alone."""

    def __init__(self, body: bytes) -> None:
        blocks = [block for block in re.split(rb"\r?\n\r?\n", body) if b"data:" in block]
        data = [block[block.index(b"data:") + 5 :].strip() for block in blocks]
        self.names = {block.split(b"\n")[0] for block in blocks if block.startswith(b"event:")}
        self.is_done = b"[DONE]" in data
        self.chunks: list[Any] = [json.loads(each) for each in data if each != b"[DONE]"]
        self.choices = [choice for chunk in self.chunks for choice in chunk.get("choices") or ()]
        self.open = [choice for choice in self.choices if not choice.get("finish_reason")]
        self.last = [chunk for chunk in self.chunks if any(c.get("finish_reason") for c in chunk.get("choices") or ())]

    @property
    def role(self) -> str:
        roles = [choice["delta"].get("role") for choice in self.choices if "delta" in choice]
        if len(set(roles)) == 1:
            return repr(roles[0])
        return "first" if [bool(role) for role in roles] == [True, *[False] * (len(roles) - 1)] else "some"

    @property
    def open_finish_reason(self) -> set[str]:
        return {repr(choice.get("finish_reason", "absent")) for choice in self.open}

    @property
    def usage(self) -> list[str]:
        return [place for place, _ in groupby(place for chunk in self.chunks for place in self._usage(chunk))]

    def _usage(self, chunk: Any) -> Iterator[str]:
        choices = chunk.get("choices") or []
        where = "finish" if any(choice.get("finish_reason") for choice in choices) else "open" if choices else "trailer"
        if "usage" in chunk:
            yield f"{where} {'null' if chunk['usage'] is None else 'counts'}"
        yield from (f"{where} x_groq" for _ in [0] if "usage" in (chunk.get("x_groq") or {}))
        yield from (f"{where} choice" for choice in choices if "usage" in choice)

    @property
    def reasoning(self) -> set[str]:
        deltas = [choice.get("delta") or {} for choice in self.choices]
        lists = {"thinking" for delta in deltas if isinstance(delta.get("content"), list)}
        return lists | {key for delta in deltas for key, value in delta.items() if "reasoning" in key and value}

    @property
    def fragments(self) -> set[tuple[str, str, str]]:
        """Of each fragment of a tool call: whether it has an index, an id and a name."""
        calls = [call for choice in self.choices for call in (choice.get("delta") or {}).get("tool_calls") or ()]
        return {(state(call, "index"), state(call, "id"), state(call.get("function") or {}, "name")) for call in calls}

    @property
    def finish_delta(self) -> set[str]:
        return {
            key for chunk in self.last for choice in chunk["choices"] for key, value in choice["delta"].items() if value
        }

    @property
    def finish_object(self) -> set[str | None]:
        return {chunk.get("object") for chunk in self.last}

    @property
    def finish_lacks(self) -> set[str]:
        return {key for chunk in self.last for key in ("id", "object", "created", "model") if key not in chunk}

    @property
    def messages(self) -> bool:
        return any("message" in choice for choice in self.choices)

    @property
    def error(self) -> tuple[set[bytes], list[tuple[str, ...]]]:
        return self.names, [tuple(sorted(chunk)) for chunk in self.chunks if "error" in chunk]


def state(value: Any, key: str) -> str:
    return "absent" if key not in value else "empty" if value[key] in ("", None) else "there"


def same(body: bytes, stream: StreamBuilder, *traits: str) -> None:
    real, ours = Traits(body), Traits(stream.body)
    assert {name: getattr(ours, name) for name in traits} == {name: getattr(real, name) for name in traits}


SAID = {
    "text": StreamBuilder().text("a", "b", "c").finish().done(),
    "reasoning": StreamBuilder().reasoning("a", "b").text("c").finish().done(),
    "tool_call": StreamBuilder().tool_calls(("find", '{"a"', ":1}"), ("look", '{"a"', ":1}")).finish().done(),
    "thinking_call": StreamBuilder().reasoning("a", "b").tool_call("find", '{"a":1}').finish().done(),
    "usage": StreamBuilder().text("a", "b", "c").usage(9, 3).finish().done(),
    "error": StreamBuilder().text("a", "b", "c").error("no", code="c", type="t").done(),
}
ALL = ("open_finish_reason", "usage", "reasoning", "fragments", "finish_lacks", "finish_object", "messages", "is_done")


@each_case(
    ("case", "traits"),
    [
        ("opentoken/text", ("role", *ALL)),
        ("opentoken/usage", ("role", *ALL)),
        ("opentoken/tool_call", ("role", *ALL)),
        ("opentoken/error", ("role", "open_finish_reason", "error", "is_done")),
        ("sansa/usage", ("role", *ALL)),
        ("sansa/tool_call", ("role", *ALL)),
        ("sansa/reasoning", ("role", *ALL)),
        ("sansa/error", ("error", "is_done")),
        ("stepfun/text", ("role", "finish_delta", *ALL)),
        ("stepfun/usage", ("role", "finish_delta", *ALL)),
        ("stepfun/tool_call", ("role", "finish_delta", *ALL)),
        ("stepfun/reasoning", ("role", "finish_delta", *ALL)),
        ("nagaai/text", ("role", "open_finish_reason", "usage", "is_done")),
        ("nagaai/usage", ("role", "open_finish_reason", "usage", "is_done")),
        ("nagaai/tool_call", ("open_finish_reason", "fragments", "is_done")),
        ("nagaai/reasoning", ("role", "reasoning", "is_done")),
        ("nameless/text", ("role", *ALL)),
        ("nameless/tool_call", ("role", *ALL)),
        ("nameless/usage_on_finish", ("role", *ALL)),
    ],
)
def test_a_dialect_has_the_traits_of_its_golden_bodies(case: str, traits: tuple[str, ...]) -> None:
    body = golden(case)
    provider, _, kind = case.partition("/")
    stream = SAID[kind.removesuffix("_on_finish")].in_dialect(provider)
    same(body, stream.usage(9, 3) if b'"usage"' in body else stream, *traits)


RECORDED = [
    ("openai__fantasy-openai-gpt-5-simple-streaming", "usage", ("role", "finish_delta", *ALL)),
    ("openai__pydai-test-complex-agent-run-in-workflow", "tool_call", ("role", "finish_delta", *ALL)),
    ("azure__reqllm-gpt-4-1-object-streaming", "tool_call", ("open_finish_reason", "usage", "fragments", "finish_delta", "finish_object", "is_done")),
    ("deepseek__vercel-deepseek-tool-call", "tool_call", ("role", "open_finish_reason", "usage", "fragments", "finish_delta", "finish_object", "is_done")),
    ("deepseek__rig-streaming-logprobs-matrix-streaming-disabled-stop-top-two", "usage", ("role", "finish_delta", *ALL)),
    ("groq__vercel-groq-tool-call", "tool_call", ("role", "finish_delta", *ALL)),
    ("groq__reqllm-meta-llama-llama-4-scout-17b-16e-instruct-object-streaming", "error", ("error",)),
    ("llamacpp__rig-model-family-matrix-llama-streaming-tool-call", "tool_call", ("role", "finish_delta", *ALL)),
    ("mistral__prism-stream-reasoning-model-1-1", "reasoning", ("role", "finish_delta", *ALL)),
    ("mistral__cagent-testexec-mistral-toolcall", "tool_call", ("open_finish_reason", "usage", "fragments", "is_done")),
    ("ollama__rubyllm-streaming-ollama-qwen3-supports-streaming-responses", "reasoning", ("role", "finish_delta", *ALL)),
    ("openrouter__reqllm-openai-gpt-oss-120b-reasoning-streaming", "reasoning", ("role", "finish_delta", *ALL)),
    ("openrouter__llm-test-tools-streaming-variant-c-2", "usage", ("role", "finish_delta", *ALL)),
    ("perplexity__prism-stream-basic-text-1", "usage", ("role", "finish_delta", *ALL[:-1])),
    ("perplexity__vercel-perplexity-text", "usage", ("role", "finish_delta", "usage", "finish_object", "is_done")),
    ("vllm__otl-test-trace-propagation-stream-with-events-with-content-chatopenai", "text", ("role", *ALL)),
    ("xai__fantasy-xai-grok-4-fast-multi-tool-streaming", "tool_call", ("role", "finish_delta", *ALL)),
    ("xai__fantasy-xai-grok-code-fast-tool-streaming", "thinking_call", ("role", "finish_delta", *ALL)),
    ("xai__reqllm-grok-3-fast-streaming", "usage", ("role", "finish_delta", *ALL)),
    ("xai__reqllm-grok-4-fast-non-reasoning-object-streaming", "usage", ("role", "finish_delta", *ALL)),
    ("xai__prism-stream-with-tools-responses-1", "thinking_call", ("role", "finish_delta", *ALL)),
]  # fmt: skip


@each_case(("name", "kind", "traits"), RECORDED, ids=[name for name, _, _ in RECORDED])
def test_a_dialect_has_the_traits_of_recordings(name: str, kind: str, traits: tuple[str, ...]) -> None:
    body = (shared_data("recordings") / f"{name}.sse").read_bytes()
    stream = SAID[kind].in_dialect(name.partition("__")[0])
    same(body, stream.usage(9, 3) if b'"usage"' in body else stream, *traits)


def test_groq_names_its_request_first_and_says_usage_twice() -> None:
    body = (shared_data("recordings") / "groq__vercel-groq-tool-call.sse").read_bytes()
    real, ours = (Traits(each).chunks for each in (body, calling("groq").usage(9, 3).body))
    assert ["x_groq" in chunk for chunk in real] == ["x_groq" in chunk for chunk in ours] == [True, False, True]
    for first, *_, last in (real, ours):
        assert last["x_groq"] == {"id": first["x_groq"]["id"], "usage": last["usage"]}


def test_the_cached_tokens_of_deepseek_stand_where_they_are_recorded() -> None:
    body = (shared_data("recordings") / "deepseek__vercel-deepseek-tool-call.sse").read_bytes()
    real, ours = (
        Traits(each).chunks[-1]["usage"]
        for each in (body, StreamBuilder("deepseek").text("a").usage(339, 83, cached=320, reasoning=39).finish().body)
    )
    assert real == ours


def test_the_trailer_of_nagaai_has_usage_with_more_in_it_and_nothing_else() -> None:
    body = golden("nagaai/usage")
    stream = StreamBuilder("nagaai").text("a").usage(31, 19, cached=16).finish()
    real, ours = (Traits(each).chunks[-1] for each in (body, stream.body))
    assert sorted(real) == sorted(ours) == ["choices", "usage"]
    assert real["usage"] == ours["usage"]
    said = Traits(stream.usage(31, 19, reasoning=4).body).chunks[-1]["usage"]
    assert said["completion_tokens_details"] == {"reasoning_tokens": 4, "image_tokens": 0}


def test_usage_in_each_chunk_is_whole_after_the_finish_reason() -> None:
    stream = StreamBuilder("stepfun").text("a").usage(9, 3).finish().text("b").done()
    assert [chunk["usage"]["completion_tokens"] for chunk in Traits(stream.body).chunks] == [1, 3, 3]


def test_the_usage_of_minimax_is_0_until_the_finish_reason() -> None:
    stream = StreamBuilder("minimax").text("a", "b").usage(9, 3).finish().done()
    usages = [chunk["usage"] for chunk in Traits(stream.body).chunks]
    zeros = {"total_tokens": 0, "total_characters": 0}
    counts = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "total_characters": 0}
    assert usages == [zeros, zeros, counts]
    assert stream.reading.usage == {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    assert StreamBuilder("minimax").text("a").usage(9, 3).reading.usage is None
    assert b"usage" not in hello("minimax").body


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (['{"a":', "1}"], ['{"a":', "1}"]),
        (['{"a": 1}'], [{"a": 1}]),
        (["{}"], [{}]),
        (["[1]"], ["[1]"]),
        (['{"a":'], ['{"a":']),
        ([], [""]),
    ],
)
def test_what_minimax_sends_in_one_piece_is_an_object_if_it_is_one(arguments: list[str], sent: list[Any]) -> None:
    stream = StreamBuilder("minimax").tool_call("f", *arguments).finish().done()
    deltas = [choice["delta"] for choice in Traits(stream.body).open]
    assert [call["function"]["arguments"] for delta in deltas for call in delta["tool_calls"]] == sent
    assert_folds_to(stream)


def test_gemini_signs_the_first_of_the_calls_that_are_said_together() -> None:
    stream = StreamBuilder("gemini").tool_calls(("f", "{}"), ("g", "{}")).tool_call("h", "{}").finish().done()
    calls = read(stream).completion().tool_calls
    assert ["extra_content" in (call.model_extra or {}) for call in calls] == [True, False, True]
    (first, *_) = calls
    assert (first.model_extra or {})["extra_content"] == {"google": {"thought_signature": "c2lnbmVk"}}


def test_sansa_signs_behind_the_reasoning() -> None:
    body = golden("sansa/reasoning")
    ours = thinking("sansa").body
    for each in (body, ours):
        details = [detail for c in Traits(each).open for detail in c["delta"].get("reasoning_details", ())]
        assert ["signature" in detail for detail in details] == [False] * (len(details) - 1) + [True]
        assert "text" not in details[-1]
    (detail,) = read(thinking("sansa")).completion().message.reasoning_details or [{}]
    assert (detail["text"], detail["signature"]) == ("Hmm.", "c2lnbmVk")
    assert b"signature" not in hello("sansa").body
    assert b"signature" not in StreamBuilder("sansa").reasoning("").body


def test_the_id_of_tgi_is_empty() -> None:
    stream = replace(hello("tgi"), head={"id": "mine"})
    assert {chunk["id"] for chunk in Traits(stream.body).chunks} == {""}
    assert read(stream).completion().id is None


@each_case("shape", ERROR_SHAPES)
def test_kimi_has_no_space_after_a_colon(shape: ErrorShape) -> None:
    said = StreamBuilder("kimi").text("a: b").event("one\n two", "meta").error("c: d", shape=shape).done()
    fields = [line for line in said.body.splitlines() if line]
    assert [line for line in fields if re.match(rb"\w+: ", line)] == [b"data:  two"]  # the space of the data itself
    assert fields[-1] == b"data:[DONE]"
    spaced = replace(DIALECTS["kimi"], has_space=True)
    ours, others = (
        [(one.event, one.data) for one in decoded(body)] for body in (said.body, said.in_dialect(spaced).body)
    )
    assert ours == others
    assert (said.reading.text, said.reading.refused) == ("a: b", "c: d")
    assert StreamBuilder("kimi").comment("a: b").raw(b"data: x\n\n").body == b": a: b\n\ndata: x\n\n"  # as they are


@pytest.mark.parametrize("provider", ["deepseek", "openrouter"])
def test_comments_come_ahead(provider: str) -> None:
    body = hello(provider).body
    assert re.match(rb"(: [^\n]+\n\n)+data: ", body)


def test_the_keep_alives_of_openrouter() -> None:
    name = "openrouter__fantasy-openai-multi-tool-streaming.sse"
    body = (shared_data("recordings") / name).read_bytes()
    assert set(re.findall(rb"^:.*", body, re.MULTILINE)) == set(
        re.findall(rb"^:.*", hello("openrouter").body, re.MULTILINE)
    )


def test_the_first_chunk_of_azure() -> None:
    body = (shared_data("recordings") / "azure__reqllm-gpt-4-1-object-streaming.sse").read_bytes()
    real, ours = Traits(body).chunks[0], Traits(hello("azure").body).chunks[0]
    assert real.keys() == ours.keys()
    assert [real[key] == ours[key] for key in ("id", "object", "created", "model", "choices")] == [True] * 5


# Errors

RECOGNISED: dict[ErrorShape, tuple[Any, str | None]] = {  # the code that has room, the type that has room
    "object": (503, "server_error"),
    "choices": (503, "server_error"),
    "text": (None, "server_error"),
    "event": (503, "server_error"),
    "event_object": (503, "server_error"),
    "event_text": (None, None),
    "field": (503, "server_error"),
    "bare": (503, "server_error"),
    "type": (503, "server_error"),
    "base_resp": (503, None),
    "finish_reason": (503, "server_error"),
    "code": (503, None),
    "message": (None, None),
    "detail": (None, None),
    "list": (503, "server_error"),
    "errors": (503, None),
}


@each_case("before", [StreamBuilder(), StreamBuilder().text("Hi")], ids=["first", "behind text"])
@each_case("shape", ERROR_SHAPES)
def test_an_error_of_each_shape_is_the_providers(shape: ErrorShape, before: StreamBuilder) -> None:
    code, kind = RECOGNISED[shape]
    stream = before.error("号 overloaded", code=503, type="server_error", shape=shape)
    parser = read(stream)
    assert parser.end == "failed"
    assert isinstance(parser.error, APIError)
    assert (parser.error.message, parser.error.code, parser.error.type) == ("号 overloaded", code, kind)
    if code is not None:
        assert parser.error.status_code == 503
    assert (stream.reading.refused, stream.reading.ending) == ("号 overloaded", "error")
    assert parser.snapshot.text == stream.reading.text
    for other in (None, "rate_limit_exceeded", 429):
        error = read(before.error("slow down", code=other, shape=shape)).error
        assert isinstance(error, APIError)
        assert error.message == "slow down"
        assert error.status_code == 429 or other != 429 or code is None


# The reading


@each_case(
    ("stream", "reading"),
    [
        (StreamBuilder(), Reading(texts=("",), ending="cut")),
        (StreamBuilder().done(), Reading(texts=("",), ending="cut")),
        (StreamBuilder().text("").done(), Reading(texts=("",), ending="cut")),
        (StreamBuilder().text("a").done(), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().text("a").finish(), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().finish(), Reading(texts=("",), ending="complete")),
        (StreamBuilder().reasoning("a").done(), Reading(texts=("",), ending="cut")),
        (StreamBuilder("vllm").reasoning("a").done(), Reading(texts=("",), ending="complete")),
        (StreamBuilder().text("a").text(choice=1).finish(), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().text("a").text("b", choice=1).finish(), Reading(texts=("a", "b"), ending="cut")),
        (StreamBuilder().text("a").text("b", choice=1).finish().done(), Reading(texts=("a", "b"), ending="complete")),
        (StreamBuilder().text("a").finish().done().text("b"), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().text("a").finish().done().error("late"), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().text("a").error("no").text("b"), Reading(texts=("a",), ending="error", refused="no")),
        (StreamBuilder().error("no").error("later"), Reading(texts=("",), ending="error", refused="no")),
        (StreamBuilder().text("a").finish("abort").done(), Reading(texts=("a",), ending="error", refused="abort")),
        (StreamBuilder().text("a").finish("stop").finish("length"), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().tool_calls().done(), Reading(texts=("",), ending="cut")),
    ],
    ids=repr,
)
def test_the_outcome_is_what_the_parser_makes_of_it(stream: StreamBuilder, reading: Reading) -> None:
    said = stream.reading
    assert (said.texts, said.ending, said.refused) == (reading.texts, reading.ending, reading.refused)
    parser = read(stream)
    ending = "complete" if parser.end.complete else "error" if parser.end == "failed" else "cut"
    assert (parser.snapshot.text, ending) == (said.text, said.ending)


SECOND = StreamBuilder().reasoning("Hm", choice=1).text("a", choice=1).tool_call("f", "{}", choice=1)


@each_case(
    ("stream", "texts"),
    [
        *((SECOND.in_dialect(dialect).finish(choice=1).done(), ("a",)) for dialect in ("openai", "vllm", "evolink")),
        (StreamBuilder("evolink").text("a").finish().finish(choice=1).done(), ("a",)),
        (StreamBuilder().text("a").finish().finish(choice=1).done(), ("a", "")),
    ],
)
def test_the_reading_has_the_choices_that_are_sent(stream: StreamBuilder, texts: tuple[str, ...]) -> None:
    assert stream.reading.texts == texts
    assert len(stream.reading.calls or ()) == stream.body.count(b'"name"')
    assert_folds_to(stream.body, stream.reading)


def test_usage_that_comes_behind_an_error_is_not_in_the_reading() -> None:
    assert StreamBuilder().text("a").usage(1, 2).error("no").finish().reading.usage == {}
    assert StreamBuilder().text("a").usage(1, 2).finish().error("no").reading.usage != {}
    assert StreamBuilder("stepfun").text("a").usage(1, 2).reading.usage is None  # what is there so far


# A value


def test_each_method_gives_a_new_one() -> None:
    empty = StreamBuilder("stepfun")
    ways: list[StreamBuilder] = [
        empty.text("a"),
        empty.reasoning("a"),
        empty.refusal("a"),
        empty.tool_call("f", "{}"),
        empty.tool_calls(("f", "{}")),
        empty.usage(1, 2),
        empty.finish(),
        empty.error("no"),
        empty.comment(),
        empty.event("x"),
        empty.raw(b"x"),
        empty.done(),
        empty.in_dialect("openai"),
    ]
    assert empty == StreamBuilder("stepfun")
    assert (empty.body, empty.steps) == (b"", ())
    assert all(way != empty for way in ways)
    assert ways[0].body == ways[0].body == empty.text("a").body
    with pytest.raises(FrozenInstanceError):
        empty.steps = ()  # type: ignore[misc]


def test_its_pieces_are_the_body_and_a_stream_reads_it_as_it_is() -> None:
    stream = hello("openrouter")
    assert b"".join(stream) == b"".join(stream.events) == stream.body
    assert all(piece.endswith(b"\n\n") for piece in stream.events)
    assert ChatCompletionStream(stream).read().text == "Hello 号\u2028😀"
    assert repr(stream) == f"<StreamBuilder of {len(stream.body)} bytes in {len(stream.events)} events>"


def test_ids_that_are_made_up_are_free() -> None:
    stream = StreamBuilder("stepfun").tool_call("f", "{}", id="call_2").tool_call("g", "{}").tool_calls(("h",), ("i",))
    calls = read(stream.tool_call("f", "{}", choice=1).finish().finish(choice=1).done()).snapshot.tool_calls
    assert [call.name for call in calls] == ["f", "g", "h", "i"]
    assert len({call.id for call in calls}) == 4


@pytest.mark.parametrize(
    ("dialect", "head"),
    [
        ("openai", {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "acme"}),
        ("nagaai", {"object": "chat.completion.chunk"}),
        ("tgi", {"id": "", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "acme"}),
        ("sansa", {"id": "chatcmpl-1", "model": "acme"}),
        ("perplexity", {"id": "chatcmpl-1", "object": "chat.completion.done", "created": 1_760_000_000, "model": "acme"}),
    ],
)  # fmt: skip
def test_an_error_that_is_a_chunk_has_its_head(dialect: str, head: dict[str, Any]) -> None:
    stream = StreamBuilder(dialect, head={"model": "acme"}).error("x", shape="finish_reason")
    (chunk,) = Traits(stream.body).chunks
    assert {name: value for name, value in chunk.items() if name != "choices"} == head


def test_the_head_of_the_chunks_may_be_said() -> None:
    stream = StreamBuilder(head={"id": "mine", "model": "big", "provider": "x"}).text("a").finish().done()
    completion = read(stream).completion()
    assert (completion.id, completion.model) == ("mine", "big")
    assert completion.model_extra == {"provider": "x"}
    assert (read(stream.in_dialect("nameless")).completion().model, b"provider" in stream.body) == (None, True)


def test_what_else_stands_where_it_was_said() -> None:
    stream = StreamBuilder().text("a").comment("ping").event({"x": 1}, "meta").raw(b"id: 1\n\n").event("[DONE]")
    *_, comment, meta, raw, done = stream.events
    assert (comment, meta, raw, done) == (b": ping\n\n", b'event: meta\ndata: {"x":1}\n\n', b"id: 1\n\n", DONE)
    assert StreamBuilder().comment().body == b": keep-alive\n\n"


def test_its_answer_is_paced() -> None:
    stream = StreamBuilder().text("a")
    assert stream.answer() == Answer(stream.events)
    role, text = stream.events
    assert stream.answer(first=2.0, pace=0.5, status=201, ending="cut") == Answer(
        [2.0, role, 0.5, text], 201, ending="cut"
    )
    same_seed = {"pace": 1.0, "jitter": 0.5, "seed": 3}
    assert hello("qwen").answer(**same_seed) == hello("qwen").answer(**same_seed)


# What is refused

TWO_LINES = ["a\nb", "a\rb", "a\r\nb"]


@each_case(
    ("wrong", "error", "words"),
    [
        (lambda: StreamBuilder("nobody"), ValueError, r"dialect: expected one of openai, azure, .*, received 'nobody'"),
        (lambda: StreamBuilder().in_dialect("nobody"), ValueError, "dialect: expected one of"),
        (lambda: StreamBuilder(7), ValueError, "dialect: .*, received 7"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().error("no", shape="odd"), ValueError, "shape: expected one of object, .*, received 'odd'"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().text(["a"]), TypeError, "pieces: expected text, received list"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().reasoning(7), TypeError, "pieces: expected text, received int"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().refusal(b"a"), TypeError, "pieces: expected text, received bytes"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().tool_call("f", {"a": 1}, "}"), TypeError, "arguments: expected pieces of text or one dict, received 2"),
        (lambda: StreamBuilder().tool_call("f", 7), TypeError, "pieces: expected text, received int"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().tool_calls("f", "{}"), TypeError, "calls: expected a name and pieces for each, received 'f'"),
        (lambda: StreamBuilder().tool_calls(("f",), ()), ValueError, r"calls: expected a name and pieces for each, received \(\)"),
        (lambda: StreamBuilder().tool_calls([]), ValueError, r"calls: expected a name and pieces for each, received \[\]"),
        (lambda: StreamBuilder().raw("abc"), TypeError, "data: expected bytes, received str"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().raw([b"abc"]), TypeError, "data: expected bytes, received list"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().event({1, 2}), TypeError, "not JSON serializable"),
        (lambda: StreamBuilder().answer(encoding="br"), ValueError, "encoding: expected one of"),
        (lambda: StreamBuilder().answer(jitter=2), ValueError, "jitter: expected a share"),
        *((lambda text=text: StreamBuilder().comment(text), ValueError, "text: expected one line") for text in TWO_LINES),
        *((lambda text=text: StreamBuilder().event("x", text), ValueError, "event: expected one line") for text in TWO_LINES),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_at_once(wrong: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        wrong()


def test_the_example_of_its_module_runs() -> None:
    names: dict[str, Any] = {"StreamBuilder": StreamBuilder}
    assert builder.__doc__ is not None
    exec(dedent("\n".join(re.findall(r"^ {4}.*", builder.__doc__, re.MULTILINE))), names)  # noqa: S102 - the module's own
    assert names["stream"].reading.text == "Hello"


# Events

ONE_LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@often
@given(JSON.filter(lambda payload: not isinstance(payload, str)), ONE_LINE)
def test_an_event_comes_back(payload: Any, name: str) -> None:
    (one,) = decoded(event(payload, name))
    assert (json.loads(one.data), one.event) == (payload, name)


@often
@given(st.lists(st.text(max_size=10) | st.binary(max_size=10) | JSON, max_size=5), st.booleans())
def test_a_body_comes_back(payloads: list[Any], done: bool) -> None:
    pieces = sse(*payloads, done=done)
    events = decoded(b"".join(pieces))
    assert len(events) == len(pieces) == len(payloads) + done
    for payload, one in zip(payloads, events, strict=False):
        if isinstance(payload, str | bytes):
            sent = payload.encode() if isinstance(payload, str) else payload
            assert one.data == re.sub(rb"\r\n|\r", b"\n", sent)
        else:
            assert json.loads(one.data) == payload
    if done:
        assert events[-1].data == b"[DONE]"


@often
@given(st.text(st.characters(), max_size=8))
def test_half_a_surrogate_pair_is_escaped(text: str) -> None:
    stream = StreamBuilder().text(text, "\ud83d", "\ude00")
    assert read(stream.finish()).snapshot.text.endswith("😀")
    (first, *_) = decoded(event({"text": text}))
    assert json.loads(first.data) == {"text": text}
