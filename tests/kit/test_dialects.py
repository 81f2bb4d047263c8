"""The dialects of the stream builder: their quirks, and the traits of the providers' recorded bodies.

The anomalies of a dialect are those that its quirks are. Where a golden body or a recording shows a provider, traits of
its chunks are taken from both, by code that knows only JSON, and compared.
"""

import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from built_streams import Traits, calling, calling_in_turns, counting, cut_off, failing, hello, read, thinking
from cases import each_case
from golden_bodies import golden
from parsed_bodies import decoded
from shared_data import shared_data

from chunkfold import ChatCompletionStream
from chunkfold.testing import DIALECTS, ERROR_SHAPES, Dialect, StreamBuilder, assert_folds_to
from chunkfold.testing.error_shapes import ErrorShape

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


SAID = {
    "text": StreamBuilder().text("a", "b", "c").finish().done(),
    "reasoning": StreamBuilder().reasoning("a", "b").text("c").finish().done(),
    "tool_call": StreamBuilder().tool_calls(("find", '{"a"', ":1}"), ("look", '{"a"', ":1}")).finish().done(),
    "thinking_call": StreamBuilder().reasoning("a", "b").tool_call("find", '{"a":1}').finish().done(),
    "usage": StreamBuilder().text("a", "b", "c").usage(9, 3).finish().done(),
    "error": StreamBuilder().text("a", "b", "c").error("no", code="c", type="t").done(),
}
ALL = ("open_finish_reason", "usage", "reasoning", "fragments", "finish_lacks", "finish_object", "messages", "is_done")


def assert_same_traits(body: bytes, dialect: str, kind: str, traits: tuple[str, ...]) -> None:
    stream = SAID[kind].in_dialect(dialect)
    real, ours = Traits(body), Traits((stream.usage(9, 3) if b'"usage"' in body else stream).body)
    assert {name: getattr(ours, name) for name in traits} == {name: getattr(real, name) for name in traits}


GOLDEN = {
    ("role", *ALL): "opentoken/text opentoken/usage opentoken/tool_call sansa/usage sansa/tool_call sansa/reasoning"
    " nameless/text nameless/tool_call nameless/usage_on_finish",
    ("role", "finish_delta", *ALL): "stepfun/text stepfun/usage stepfun/tool_call stepfun/reasoning",
    ("role", "open_finish_reason", "error", "is_done"): "opentoken/error",
    ("role", "open_finish_reason", "usage", "is_done"): "nagaai/text nagaai/usage",
    ("open_finish_reason", "fragments", "is_done"): "nagaai/tool_call",
    ("role", "reasoning", "is_done"): "nagaai/reasoning",
    ("error", "is_done"): "sansa/error",
}


@each_case(("case", "traits"), [(case, traits) for traits, cases in GOLDEN.items() for case in cases.split()])
def test_a_dialect_has_the_traits_of_its_golden_bodies(case: str, traits: tuple[str, ...]) -> None:
    provider, _, kind = case.partition("/")
    assert_same_traits(golden(case), provider, kind.removesuffix("_on_finish"), traits)


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


def recorded(name: str) -> bytes:
    return (shared_data("recordings") / f"{name}.sse").read_bytes()


@each_case(("name", "kind", "traits"), RECORDED, ids=[name for name, _, _ in RECORDED])
def test_a_dialect_has_the_traits_of_recordings(name: str, kind: str, traits: tuple[str, ...]) -> None:
    assert_same_traits(recorded(name), name.partition("__")[0], kind, traits)


def test_groq_names_its_request_first_and_says_usage_twice() -> None:
    bodies = recorded("groq__vercel-groq-tool-call"), calling("groq").usage(9, 3).body
    real, ours = (Traits(each).chunks for each in bodies)
    assert ["x_groq" in chunk for chunk in real] == ["x_groq" in chunk for chunk in ours] == [True, False, True]
    for first, *_, last in (real, ours):
        assert last["x_groq"] == {"id": first["x_groq"]["id"], "usage": last["usage"]}


def test_the_cached_tokens_of_deepseek_stand_where_they_are_recorded() -> None:
    stream = StreamBuilder("deepseek").text("a").usage(339, 83, cached=320, reasoning=39).finish()
    bodies = recorded("deepseek__vercel-deepseek-tool-call"), stream.body
    real, ours = (Traits(each).chunks[-1]["usage"] for each in bodies)
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
    bodies = recorded("openrouter__fantasy-openai-multi-tool-streaming"), hello("openrouter").body
    real, ours = ({*re.findall(rb"^:.*", body, re.MULTILINE)} for body in bodies)
    assert real == ours


def test_the_first_chunk_of_azure() -> None:
    bodies = recorded("azure__reqllm-gpt-4-1-object-streaming"), hello("azure").body
    real, ours = (Traits(body).chunks[0] for body in bodies)
    assert real.keys() == ours.keys()
    assert [real[key] == ours[key] for key in ("id", "object", "created", "model", "choices")] == [True] * 5
