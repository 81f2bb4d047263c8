"""Recorded bodies of real streams, from providers, servers and gateways: what comes out, and what was noted on the way.

The bodies are other people's and stand beside the repository (see `shared_data`), in two sets. The manifest of the first
tells of each what a plain look at its raw lines shows; where the parser says something else, a table here says which rule
makes the difference. That of the second counts nothing, so what must come of each body is one row in a table here,
written from the body and from what the manifest says is right.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from cases import each_case
from invariants import check
from invariants.readings import Options, Reading, whole_reading
from parsed_bodies import noted
from pydantic import ValidationError
from shared_data import shared_data

from chunkfold import ChatCompletion, ChatCompletionChunk, ParseError, StreamEnd

FIRST, SECOND = shared_data("recordings"), shared_data("recordings-2")
MANIFEST = {
    entry["file"].removesuffix(".sse"): entry for entry in json.loads((FIRST / "MANIFEST.json").read_text("utf-8"))
}
NAMES = sorted(MANIFEST)
PATHS = {path.stem: path for folder in (FIRST, SECOND) for path in sorted(folder.glob("*.sse"))}

# Recordings that several tables name.
BING = "github-copilot__vscode-copil-stream-from-github-bing-search-skill"
N_1 = "github-copilot__vscode-copil-n-1-intent-detector"
GEMINI = "openrouter__reqllm-google-gemini-2-5-flash-lite-object-streaming"
GROQ_ERROR = "groq__reqllm-meta-llama-llama-4-scout-17b-16e-instruct-object-streaming"
VARIANT_A = "openrouter__llm-test-tools-streaming-variant-a"

# How the bodies of the first set end; all others are finished.
ENDS = {
    BING: StreamEnd.INVALID,  # its 14th payload is broken JSON
    GEMINI: StreamEnd.FAILED,  # an error beside choices
    GROQ_ERROR: StreamEnd.FAILED,  # an event named error
    VARIANT_A: StreamEnd.DONE,  # [DONE], but never a finish reason
}

COMPLETE = [name for name in NAMES if ENDS.get(name, StreamEnd.FINISHED).complete]

# How often each rule is noted in the bodies of the first set, looked at one by one. The others break none.
#
# Of BING nothing behind the broken JSON is read. The chunk ahead, which reports on the prompt, needs no head (Azure).
ANOMALIES: dict[str, dict[str, int]] = {
    "avian__fantasy-avian-kimi-thinking-streaming": {"CF205": 24, "CF504": 1},
    "avian__fantasy-avian-kimi-thinking-streaming-2": {"CF205": 47, "CF504": 1},
    "azure__reqllm-deepseek-r1-0528-streaming": {"CF504": 1},
    "cerebras__reqllm-qwen-3-235b-a22b-instruct-2507-object-streaming": {"CF501": 1},
    "cerebras__reqllm-qwen-3-235b-a22b-thinking-2507-streaming": {"CF501": 1},
    "cerebras__reqllm-qwen-3-coder-480b-object-streaming": {"CF501": 1},
    "deepseek__rig-streaming-logprobs-matrix-streaming-disabled-stop-top-two": {"CF203": 4, "CF216": 1},
    "deepseek__rig-streaming-logprobs-matrix-streaming-low-length-top-absent": {"CF203": 3, "CF216": 1},
    "doubleword__rig-conformance-streaming-tool": {"CF203": 20, "CF504": 1, "CF216": 1},
    "doubleword__rig-finish-reason-matrix-streaming-token-limit": {"CF203": 2, "CF216": 1},
    "doubleword__rig-reasoning-matrix-deepseek-reasoning-streaming": {"CF203": 18, "CF504": 1, "CF216": 1},
    "github-copilot__rig-streaming-tools-raw-stream-emits-required-zero-arg-tool-call": {"CF203": 3, "CF206": 3, "CF216": 1},
    N_1: {"CF101": 1, "CF102": 1, "CF206": 9, "CF216": 1},
    BING: {"CF101": 1, "CF102": 1, "CF206": 13, "CF216": 1},
    "gpustack__rubyllm-streaming-gpustack-qwen3-supports-streaming-responses": {"CF501": 1},
    GROQ_ERROR: {"CF601": 1},
    "llamacpp__rig-model-family-matrix-llama-streaming-tool-call": {"CF203": 14, "CF216": 1},
    "llamacpp__rig-model-family-matrix-mistral-streaming-tool-call": {"CF203": 14, "CF216": 1},
    "llamacpp__rig-response-shape-matrix-two-candidates-streaming": {"CF203": 12, "CF216": 1},
    "mistral__prism-stream-reasoning-model-1-1": {"CF208": 134},
    "mistral__rig-multimodal-content-streaming-agent-sends-audio": {"CF203": 16, "CF216": 1},
    "mistral__rig-tool-truncation-matrix-streaming-ministral-3b-low-agent": {"CF203": 2, "CF216": 1},
    "mistral__rig-tool-truncation-matrix-streaming-ministral-3b-mid-agent": {"CF203": 2, "CF216": 1},
    "mistralrs__rig-streaming-chat-completions-stream-emits-reasoning-and-text-incremental": {"CF203": 208, "CF216": 1},
    "openai__rig-chat-tool-truncation-matrix-streaming-gpt4o-low-model": {"CF203": 10, "CF216": 1},
    "openrouter__fantasy-kimi-simple-streaming": {"CF504": 1},
    "openrouter__fantasy-openai-multi-tool-streaming": {"CF504": 1},
    VARIANT_A: {"CF307": 1, "CF502": 1},
    "openrouter__llm-test-tools-streaming-variant-c": {"CF110": 1},
    "openrouter__prism-stream-text-with-reasoning-1": {"CF101": 1, "CF108": 1},
    GEMINI: {"CF305": 14, "CF505": 14, "CF504": 15},
    "openrouter__reqllm-minimax-minimax-m2-free-reasoning-streaming": {"CF504": 1},
    "openrouter__rig-streaming-tools-raw-followup-uses-tool-result-without-new-tool-calls": {"CF203": 5, "CF504": 1, "CF216": 1},
    "perplexity__prism-stream-basic-text-1": {"CF207": 26, "CF206": 1, "CF501": 1},
    "perplexity__vercel-perplexity-text": {"CF206": 1},
    "together__hfjs-tape-llama-3.3-70b-instruct-turbo": {"CF506": 1},
    "xai__prism-stream-with-tools-responses-1": {"CF101": 1},
}  # fmt: skip


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
GROQ_TEXT = "groq__pydantic-ai__test-tool-use-failed-error-streaming-with-text"
TGI = "huggingface-tgi__text-generation-inference__test-flash-llama-grammar-tools-sea-creatures-stream-auto"
PERSON = '{"name": "Alex Johnson", "age": 28, "occupation": "Software Engineer"}'
COHERE_PARIS = ("get_weather_1", "get_weather", '{"city":"Paris"}')
COHERE_TOKYO = ("get_weather_2", "get_weather", '{"city":"Tokyo"}')
PARIS = '{"city":"Paris","country":"France","unit":"C"}'

RIGHT = {
    "aihubmix__rust-genai__response-000": Right("finished", 5, {}, {0: Shown("stop", "text", "Hello.")}, 18),
    "azure__ogx__3de708c0e47a81dc57473c1d484f9d12ae5d03a816b4ee265da4926a95cd":
        Right("finished", 5, {"CF203": 4, "CF216": 1, "CF501": 1}, {0: Shown("stop", "text", "yes")}, 519),
    "bedrock-openai__ogx__3dcb9e38f66c96323546ef8d7fee216ad11a4dd6f7fe44c4b602671eea12":
        Right("finished", 4, {"CF203": 4, "CF216": 1, "CF501": 1}, {0: Shown("stop", "text", None)}),
    "cerebras__req-llm__reasoning-streaming":
        Right("finished", 69, {"CF501": 1}, {0: Shown("stop", "reasoning text", None, None)}, 179),
    # Events of another API alone, which have another name, too.
    DASHSCOPE_NATIVE: Right("invalid", 0, {"CF106": 2}, {}),
    DASHSCOPE_BODY: Right("finished", 1, {"CF109": 1}, {0: Shown("stop", "text", None)}, 3017),
    DASHSCOPE_CHOICES:
        Right("finished", 19, {}, {0: Shown("stop", "text", "Hello you today? 😊"), 1: Shown("stop", "text",
        "Hello! How can I assist you today")}, 27),
    # Blank lines are missing in two of codecompanion's; so is the last one of others, behind [DONE].
    "deepseek__codecompanion.nvim__deepseek-streaming-reasoning-disabled":
        Right("finished", 7, {"CF101": 1, "CF102": 1}, {0: Shown("stop", "text", "Elegant syntax.")}, 14),
    "doubao__ai4j__apiresponse-l472": Right("finished", 5, {}, {0: Shown("stop", "text", "我是豆～")}),
    "gemini-compat__gomodel__chat-completion-stream":
        Right("finished", 1, {"CF101": 1}, {0: Shown("stop", "text", "Hello World")}),
    COPILOT:
        Right("finished", 4, {"CF101": 1, "CF102": 1, "CF206": 4, "CF501": 1}, {0: Shown("tool_calls",
        "reasoning text tool_call", "I will search for the `quotes.lua` file to locate it within the repository.\n",
        None, (("call_MHxoeW9qWnVicVd6R0FkMFZ3UWw", "file_search", '{"query":"**/quotes.lua"}'),))}, 6132),
    "github-copilot__rust-genai__response-000":
        Right("finished", 16, {}, {0: Shown("tool_calls", "tool_call",
        calls=(("call_YC2QMIr5bbEvqMl96iKr7oCN", "get_weather", PARIS),))}),
    "groq__braintrust-sdk-javascript__groq-v1-latest.cassette":
        Right("finished", 3, {}, {0: Shown("stop", "text", "STREAM")}, 42),
    GROQ_TEXT: Right("failed", 85, {"CF601": 1}, {0: Shown(None, "reasoning text", "maybe", None)}),
    TGI: Right("finished", 20, {"CF203": 20, "CF216": 1, "CF501": 1}, {0: Shown("length", "text", None)}),
    "hunyuan__ai4j__apiresponse-l455":  # CF203 is the name of the call's second fragment
        Right("finished", 3, {"CF203": 1}, {0: Shown("tool_calls", "tool_call",
        calls=(("call_d4nekv42c3mas4ig9k30", "get_current_weather", '{"format":"celsius","location":"北京"}'),))}),
    "litellm__anthropic-think": Right("finished", 8, {}, {0: Shown("stop", "reasoning text", HELLO, THOUGHT)}),
    "litellm__anthropic-web":
        Right("finished", 6, {}, {0: Shown("stop", "tool_call text", "Found.",
        calls=(("srvtoolu_1", "web_search", '{"query":"x"}'),))}),
    "litellm__gemini-think": Right("finished", 5, {}, {0: Shown("stop", "reasoning text", "Hello.", THOUGHT)}),
    "llama-cpp-python__tool_forced":
        Right("finished", 11, {"CF307": 8}, {0: Shown("tool_calls", "tool_call",
        calls=((FORCED_ID, "get_weather", '{"city": "Paris"}'),))}),
    "llama-server__n2":
        Right("finished", 24, {}, {0: Shown("length", "text",
        " powsta controversialmis rinse\u16d0\u1dab@sGro\u5e01 \u0442\u0435\u0431\u044f"), 1: Shown("length", "text",
        " October交际Selectedelectricacad\u232aいろいろ갸ña百科")}),
    "llamacpp__gptel-test__thinking-stream-llamacpp-glm4.5-01":
        Right("finished", 58, {"CF101": 1}, {0: Shown("stop", "text", None)}, 71),
    # Without a finish reason; and without `one_choice` as many choices as there are indexes.
    "musistudio-llms__ds-ds-think":
        Right("done", 8, {"CF101": 1, "CF502": 1}, {0: Shown(None, "reasoning", "", THOUGHT),
        1: Shown(None, "text", HELLO)}),
    "musistudio-llms__gem-gemini-text":
        Right("truncated", 4, {}, {1: Shown(None, "text", "Hel"), 2: Shown(None, "text", "lo, wör"),
        3: Shown(None, "text", "ld 😀"), 4: Shown("stop", "text", ".")}, 17),
    "opencode-go__rust-genai__response-000":
        Right("finished", 37, {}, {0: Shown("stop", "reasoning text", "Hello", None)}, 133),
    "openrouter__braintrust-sdk-javascript__openrouter-v1-latest.cassette":
        Right("finished", 3, {"CF504": 1}, {0: Shown("stop", "text", "STREAM")}, 13),
    "openrouter__gptel-test__thinking-stream-openrouter-01":
        Right("finished", 27, {"CF101": 1}, {0: Shown("stop", "text", None)}, 45),
    "portkey__anthropic-errmid":
        Right("failed", 7, {"CF203": 1, "CF210": 1, "CF606": 1}, {0: Shown("overloaded_error", "text", HELLO)}),
    "portkey__anthropic-think":
        Right("finished", 11, {"CF506": 1}, {0: Shown("end_turn", "reasoning text", HELLO, THOUGHT)}, 36),
    "portkey__bedrock-errmid": Right("done", 6, {"CF502": 1}, {0: Shown(None, "text", HELLO)}),
    "portkey__cohere-think":
        Right("done", 8, {"CF210": 1, "CF502": 1}, {0: Shown(None, ""), 1: Shown("stop", "text", "Hello.")}, 17),
    "portkey__cohere-tools":
        Right("done", 11, {"CF210": 2, "CF301": 6, "CF313": 6, "CF502": 1}, {0: Shown(None, "tool_call",
        calls=(COHERE_PARIS,)), 1: Shown("tool_calls", "tool_call",
        calls=(COHERE_TOKYO,))}, 17),
    "siliconflow__ai4j__apiresponse-l258":
        Right("finished", 21, {}, {0: Shown("stop", "reasoning text", "Hello! How can I assist you today? 😊", None)},
        345),
    "snowflake__pydantic-ai__test-snowflake-model-streaming":
        Right("done", 3, {"CF203": 6, "CF216": 1, "CF502": 1}, {0: Shown(None, "text", "4")}, 27),
    "transformers__errmid_badjson": Right("failed", 1, {"CF609": 1}, {0: Shown(None, "")}),
    "vllm__token_ids": Right("finished", 11, {}, {0: Shown("stop", "text", "Hello, wörld 😀. This is text.")}),
    "watsonx__ogx__ff55116840a3cc1745623d8d3f8a277e79e2a2c5d88521844f2d260a9745":
        Right("finished", 4, {"CF203": 4, "CF216": 1, "CF501": 1}, {0: Shown("stop", "text", "hello")}, 45),
    "zai__req-llm__object-streaming":
        Right("finished", 75, {"CF206": 75, "CF504": 1}, {0: Shown("tool_calls", "reasoning text tool_call", None,
        None, (("call_2025110301303904b20e4a6bc54088_0", "structured_output", PERSON),))}, 332),
}  # fmt: skip
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
        *("finished", 11, {"CF210": 2, "CF221": 5, "CF301": 6, "CF313": 6}),
        {0: Shown("tool_calls", "tool_call tool_call", calls=(COHERE_PARIS, COHERE_TOKYO))},
        17,
    ),
}

by_options = each_case(
    ("name", "is_one"),
    [*((name, False) for name in PATHS), *((name, True) for name in ONE_CHOICE)],
    ids=lambda value: {True: "one-choice", False: "as-sent"}.get(value, value),
)
of_the_first = each_case("name", NAMES)


def body_of(name: str) -> bytes:
    return PATHS[name].read_bytes()


@cache
def whole(name: str, *, is_one: bool = False) -> Reading:
    return whole_reading(body_of(name), Options(one_choice=is_one))


# Where the parser tells of a recording something else than the manifest, and why.
OTHER_FACTS: dict[str, dict[str, tuple[Any, str]]] = {
    BING: {
        "finish_reasons": ([], "CF102: the lines of a block are read up to the first that is invalid"),
        "has_done": (False, "CF102: as above"),
        "chunks": (13, "CF102: as above"),
    },
    GEMINI: {
        "n_tool_calls": (15, "a new id with a name at a taken index is a new call"),
        "cut_arguments": (0, "the same: the manifest joins the arguments of all calls that have one index"),
        "chunks": (18, "an error is terminal"),
        "has_usage": (False, "usage came behind the error"),
    },
}


def refused_by_openai(name: str) -> list[tuple[str, Any]]:
    """The fields of a completion that openai-python does not take, with their values; it has all of what it takes."""
    chat = pytest.importorskip("openai.types.chat")
    completion = whole(name).parser.completion()
    try:
        taken = chat.ChatCompletion.model_validate(completion.model_dump())
    except ValidationError as error:
        return [(".".join(map(str, one["loc"])), one["input"]) for one in error.errors()]
    assert taken.model_dump(exclude_none=True) == completion.model_dump(exclude_none=True)
    return []


# What holds for every body


def test_the_tables_know_every_recording() -> None:
    assert {path.stem for path in FIRST.glob("*.sse")} == set(NAMES)
    assert {*ANOMALIES, *ENDS, *OTHER_FACTS} <= set(NAMES)
    listed = {entry["file"] for entry in json.loads((SECOND / "MANIFEST.json").read_text("utf-8"))}
    assert {f"{name}.sse" for name in RIGHT} == listed == {path.name for path in SECOND.glob("*.sse")}


# Reads as a network gives them, and a cut in the middle of the body.
READS = [1460, 4380]


@pytest.mark.parametrize("few", [8, pytest.param(10**6, marks=pytest.mark.slow)])
@by_options
def test_every_promise_is_kept(name: str, is_one: bool, few: int) -> None:
    """In the middle of a long body, events are alike: the first and last lines are enough outside of the slow suite."""
    lines = body_of(name).splitlines(keepends=True)
    body = b"".join([*lines[:few], *lines[max(few, len(lines) - few) :]])
    check(body, [*READS, len(body) // 2], Options(one_choice=is_one))


@of_the_first
def test_chunks_are_the_json_that_was_sent(name: str) -> None:
    sent = list(sent_chunks(body_of(name)))
    if name == GEMINI:
        sent.pop()  # usage behind the error, which is terminal
    assert [chunk.model_dump(mode="json", exclude_unset=True) for chunk in whole(name).chunks] == sent


def sent_chunks(body: bytes) -> Iterator[Any]:
    """The payloads as a plain look at the lines finds them: each stands on one line, up to one that is broken."""
    for line in body.splitlines():
        name, _, payload = line.partition(b":")
        if payload.strip() == b"[DONE]":
            continue
        try:
            sent = json.loads(payload if name == b"data" else line)
        except ValueError:
            if name == b"data":
                return
            continue
        if isinstance(sent, dict) and "choices" in sent:  # an error alone is raised, and no chunk
            yield sent


@by_options
def test_what_was_sent_adds_up_to_the_message(name: str, is_one: bool) -> None:
    """As a plain look at the body finds it; that chunks, events and parts add up is a promise that any body keeps."""
    snapshot = whole(name, is_one=is_one).parser.snapshot
    sent = list(sent_deltas(body_of(name), is_one=is_one))
    assert {choice.index for choice in snapshot.choices} == {index for index, _ in sent}
    for choice in snapshot.choices:
        deltas = [delta for index, delta in sent if index == choice.index]
        assert (choice.message.content or "") == "".join(map(sent_text, deltas))
        assert (choice.message.reasoning or "") == "".join(map(sent_reasoning, deltas))


def sent_deltas(body: bytes, *, is_one: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The choices' indexes and deltas."""
    for choice in (choice for sent in sent_chunks(body) for choice in sent["choices"]):
        yield 0 if is_one else choice.get("index", 0), choice["delta"] if "delta" in choice else choice["message"]


def sent_text(delta: dict[str, Any]) -> str:
    content = delta.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def sent_reasoning(delta: dict[str, Any]) -> str:
    """Of a delta; in a signed block the whole is repeated."""
    content = delta.get("content")
    thoughts = [part.get("thinking", []) for part in content] if isinstance(content, list) else []
    in_content = "".join(part["text"] for parts in thoughts for part in parts)
    thinking = delta.get("thinking") or {}
    blocks = "".join(block["delta"].get("thinking", "") for block in delta.get("content_blocks", ()))
    unsigned = "" if "signature" in thinking else thinking.get("content", "")
    fields = (delta.get(name) for name in ("reasoning_content", "reasoning", "reasoning_text", "cot_summary"))
    return next(filter(None, (*fields, in_content, unsigned, blocks)), "")


# What the tables say


@by_options
def test_what_comes_of_it(name: str, is_one: bool) -> None:
    reading, right = whole(name, is_one=is_one), (ONE_CHOICE if is_one else RIGHT).get(name)
    parser = reading.parser
    assert parser.end == (right.end if right else ENDS.get(name, StreamEnd.FINISHED))
    assert noted(parser) == (right.rules if right else ANOMALIES.get(name, {}))
    assert parser.error is None or not parser.error.retryable  # output came before it, or it is the wrong endpoint
    if right is not None:
        check_message(parser.snapshot, right)
        assert len(reading.chunks) == right.chunks


def check_message(snapshot: ChatCompletion, right: Right) -> None:
    assert [choice.index for choice in snapshot.choices] == list(right.choices)
    for choice in snapshot.choices:
        shown, message = right.choices[choice.index], choice.message
        assert choice.finish_reason == shown.finish_reason
        assert " ".join(part.type for part in message.parts) == shown.parts
        assert shown.text in (None, message.content or "")
        assert shown.reasoning in (None, message.reasoning or "")
        assert tuple((call.id, call.name, call.arguments) for call in message.tool_calls) == shown.calls
    assert (snapshot.usage and snapshot.usage.total_tokens) == right.total_tokens


COPIED_FACTS = ("finish_reasons", "has_done", "has_error_frame", "n_choices", "n_tool_calls", "chunks")


@of_the_first
def test_facts_agree_with_the_manifest(name: str) -> None:
    entry = MANIFEST[name]
    oddities = dict(oddity.rsplit(" x", 1) for oddity in entry["oddities"])
    listed = {
        **{fact: entry[fact] for fact in COPIED_FACTS},
        "has_usage": entry["usage_location"] != "none",
        "cut_arguments": int(oddities.get("tool_call-arguments-not-valid-json", 0)),
    }
    facts = facts_of(whole(name))
    other = OTHER_FACTS.get(name, {})
    assert facts == listed | {fact: value for fact, (value, _) in other.items()}
    assert not [fact for fact, (value, _) in other.items() if value == listed[fact]], "agrees after all"


def facts_of(reading: Reading) -> dict[str, Any]:
    parser, chunks = reading.parser, reading.chunks
    choices = parser.snapshot.choices
    calls = [call for choice in choices for call in choice.message.tool_calls]
    sent = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    return {
        "finish_reasons": list(dict.fromkeys(sent)),
        "has_done": bool(parser.end and parser.end.complete) and "CF501" not in noted(parser),
        "has_error_frame": parser.end == StreamEnd.FAILED,
        "n_choices": len(choices),
        "n_tool_calls": len(calls),
        "chunks": len(chunks),
        "has_usage": parser.snapshot.usage is not None,
        "cut_arguments": sum(is_cut(call.function) for call in calls),
    }


def is_cut(function: Any) -> bool:
    try:
        function.parse()
    except ParseError as error:
        return error.cut
    return False


# In openai-python's eyes


# What openai-python's model may refuse in a completion: `created` where it is 0 on every chunk (mostly because those who
# recorded the stream put it there; 0 counts as absent), what was never sent, and words that are in none of OpenAI's enums.
REFUSED = {"created", "model", "choices.0.finish_reason"}
WORDS = {("choices.0.finish_reason", "eos"), ("service_tier", "on_demand")}


@each_case("name", COMPLETE)
def test_openai_takes_the_completion(name: str) -> None:
    for field, value in refused_by_openai(name):
        assert (field, value) in WORDS or (value is None and field in REFUSED)
        assert sent_last(whole(name).chunks, field) == value


def sent_last(chunks: list[ChatCompletionChunk], field: str) -> Any:
    if field == "choices.0.finish_reason":
        sent = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    else:
        sent = [getattr(chunk, field) for chunk in chunks]
    return next(filter(None, reversed(sent)), None)
