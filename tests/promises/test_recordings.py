"""Recorded bodies of real streams, from 26 providers and servers: what comes out, and what was noted on the way.

The bodies are other people's and stand beside the repository (see `shared_data`), with a manifest that tells of each
what a plain look at its raw lines shows. Where the parser says something else than the manifest, a table here says
which rule makes the difference.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cases import each_case
from pydantic import ValidationError
from shared_data import shared_data

from chunkfold import (
    RULES,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    InvalidStreamError,
    ParseError,
    StreamEnd,
)
from chunkfold.testing import cut_every

RECORDINGS = shared_data("recordings")
MORE_RECORDINGS = sorted(shared_data("recordings-2").glob("*.sse"))
MANIFEST = {
    entry["file"].removesuffix(".sse"): entry
    for entry in json.loads(shared_data("recordings/MANIFEST.json").read_text("utf-8"))
}
NAMES = sorted(MANIFEST)
FEW = 20_000  # bytes

recordings = each_case("name", NAMES)


class Reading(NamedTuple):
    """A body that was read to its end."""

    parser: ChatCompletionParser
    chunks: list[ChatCompletionChunk]

    @property
    def noted(self) -> dict[str, int]:
        """How often each rule was noted, by its id."""
        return {anomaly.rule.id: anomaly.count for anomaly in self.parser.anomalies}


def body_of(name: str) -> bytes:
    return (RECORDINGS / f"{name}.sse").read_bytes()


def read(body: bytes, size: int, *, strict: bool = False) -> Reading:
    parser = ChatCompletionParser(strict=strict)
    chunks = [chunk for data in cut_every(body, size) for chunk in parser.feed(data)]
    return Reading(parser, chunks + parser.close())


@cache
def whole(name: str) -> Reading:
    body = body_of(name)
    return read(body, len(body))


# Recordings that several tables name.
BING = "github-copilot__vscode-copil-stream-from-github-bing-search-skill"
N_1 = "github-copilot__vscode-copil-n-1-intent-detector"
GEMINI = "openrouter__reqllm-google-gemini-2-5-flash-lite-object-streaming"
GROQ_ERROR = "groq__reqllm-meta-llama-llama-4-scout-17b-16e-instruct-object-streaming"
VARIANT_A = "openrouter__llm-test-tools-streaming-variant-a"

# All others are finished.
ENDS = {
    BING: StreamEnd.INVALID,  # its 14th payload is broken JSON
    GEMINI: StreamEnd.FAILED,  # an error beside choices
    GROQ_ERROR: StreamEnd.FAILED,  # an event named error
    VARIANT_A: StreamEnd.DONE,  # [DONE], but never a finish reason
}
COMPLETE = [name for name in NAMES if ENDS.get(name, StreamEnd.FINISHED).complete]


# What holds for every body


def test_the_tables_know_every_recording() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.sse")} == set(NAMES)
    assert {*ANOMALIES, *ENDS, *OTHER_FACTS, *OTHER_COUNTS, *REFUSED} <= set(NAMES)


@each_case("path", [*RECORDINGS.glob("*.sse"), *MORE_RECORDINGS])
def test_text_deltas_are_the_text(path: Path) -> None:
    stream = ChatCompletionStream([path.read_bytes()])
    texts: list[str] = []
    with suppress(ChunkfoldError):
        texts.extend(stream.text_deltas())
    assert "".join(texts) == "".join(one.message.content or "" for one in stream.snapshot.choices if one.index == 0)
    assert all(texts)


@recordings
def test_cuts_do_not_matter(name: str) -> None:
    """In reads as a network has them, and in tiny ones: of a byte where the body is no longer than most."""
    body = body_of(name)
    expected_parser, expected_chunks = whole(name)
    for size in (1460, 1 if len(body) <= FEW else 7):
        parser, chunks = read(body, size)
        assert chunks == expected_chunks
        assert parser.end == expected_parser.end
        assert parser.snapshot == expected_parser.snapshot
        assert parser.anomalies == expected_parser.anomalies
        assert repr(parser.error) == repr(expected_parser.error)


@recordings
def test_end(name: str) -> None:
    parser, _ = whole(name)
    assert parser.end == ENDS.get(name, StreamEnd.FINISHED)
    if name in COMPLETE:
        assert parser.completion() == parser.snapshot
    else:
        with pytest.raises(ChunkfoldError) as raised:
            parser.completion()
        assert raised.value is parser.error


@recordings
def test_chunks_are_the_json_that_was_sent(name: str) -> None:
    sent = list(sent_chunks(body_of(name)))
    if name == GEMINI:
        sent.pop()  # usage behind the error, which is terminal
    assert [chunk.model_dump(mode="json", exclude_unset=True) for chunk in whole(name).chunks] == sent


def sent_chunks(body: bytes) -> Iterator[Any]:
    """The payloads as a plain look at the lines finds them: each stands on one line, up to one that is broken."""
    for line in body.splitlines():
        name, _, payload = line.partition(b":")
        if name != b"data" or payload.strip() == b"[DONE]":
            continue
        try:
            sent = json.loads(payload)
        except ValueError:
            return
        if "choices" in sent:  # an error alone is raised, and no chunk
            yield sent


@each_case("path", [*sorted(RECORDINGS.glob("*.sse")), *MORE_RECORDINGS], ids=lambda path: path.stem)
def test_every_snapshot_can_be_stored_and_read_again(path: Path) -> None:
    parser = ChatCompletionParser()
    for data in cut_every(path.read_bytes(), 1460):
        parser.feed(data)
        snapshot = parser.snapshot
        text = snapshot.model_dump_json()
        assert json.loads(text) == snapshot.model_dump(mode="json")
        assert ChatCompletion.model_validate_json(text) == snapshot
        assert ChatCompletion.model_validate(snapshot.model_dump()) == snapshot


@recordings
def test_deltas_add_up(name: str) -> None:
    """The chunks' texts, the message's, and those that a plain look at what was sent finds, are the same."""
    parser, chunks = whole(name)
    sent = [choice for chunk in sent_chunks(body_of(name)) for choice in chunk["choices"]]
    assert {choice.index for choice in parser.snapshot.choices} == {choice["index"] for choice in sent}
    for choice in parser.snapshot.choices:
        alone = [only(chunk, choice.index) for chunk in chunks]
        deltas = [one["delta"] for one in sent if one["index"] == choice.index]
        text, reasoning = choice.message.content or "", choice.message.reasoning or ""
        assert "".join(chunk.text for chunk in alone) == text == "".join(map(sent_text, deltas))
        assert "".join(chunk.reasoning for chunk in alone) == reasoning == "".join(map(sent_reasoning, deltas))


def only(chunk: ChatCompletionChunk, index: int) -> ChatCompletionChunk:
    """The chunk with one of its choices, as choice 0: the one whose text and reasoning a chunk shows."""
    choices = [choice.model_copy(update={"index": 0}) for choice in chunk.choices if choice.index == index]
    return chunk.model_copy(update={"choices": choices})


def sent_text(delta: dict[str, Any]) -> str:
    content = delta.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def sent_reasoning(delta: dict[str, Any]) -> str:
    content = delta.get("content")
    thoughts = [part.get("thinking", []) for part in content] if isinstance(content, list) else []
    in_content = "".join(part["text"] for parts in thoughts for part in parts)
    return delta.get("reasoning_content") or delta.get("reasoning") or in_content


# What the manifest says


COPIED_FACTS = ("finish_reasons", "has_done", "has_error_frame", "n_choices", "n_tool_calls", "chunks")

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


@recordings
def test_facts_agree_with_the_manifest(name: str) -> None:
    entry = MANIFEST[name]
    listed = {
        **{fact: entry[fact] for fact in COPIED_FACTS},
        "has_usage": entry["usage_location"] != "none",
        "cut_arguments": oddities_of(name).get("tool_call-arguments-not-valid-json", 0),
    }
    facts = facts_of(whole(name))
    other = OTHER_FACTS.get(name, {})
    assert facts == listed | {fact: value for fact, (value, _) in other.items()}
    assert not [fact for fact, (value, _) in other.items() if value == listed[fact]], "agrees after all"


def facts_of(reading: Reading) -> dict[str, Any]:
    parser, chunks = reading
    choices = parser.snapshot.choices
    calls = [call for choice in choices for call in choice.message.tool_calls]
    sent = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    return {
        "finish_reasons": list(dict.fromkeys(sent)),
        "has_done": bool(parser.end and parser.end.complete) and "CF501" not in reading.noted,
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


@recordings
def test_the_last_finish_reason_holds(name: str) -> None:
    reading = whole(name)
    last = facts_of(reading)["finish_reasons"][-1:] or [None]
    assert {choice.finish_reason for choice in reading.parser.snapshot.choices} <= set(last)


def oddities_of(name: str) -> dict[str, int]:
    """The manifest's words for what is odd, each with how often it is there."""
    counted = (oddity.rpartition(" x") for oddity in MANIFEST[name]["oddities"])
    return {oddity: int(count) for oddity, _, count in counted}


# Rule -> the oddities it stands for. It is noted as often as the manifest counts them all together.
NOTED = {
    "CF101": ["last-event-not-ended-by-blank-line"],
    "CF102": ["event-with-several-payload-lines(client must split by line)"],
    "CF110": ["unknown-sse-field:  data"],
    "CF203": ["chunk-id-empty-string", "chunk-model-empty-string", "created-is-0"],
    "CF206": ["chunk-missing-object", "chunk-object-empty-string", "object: chat.completion.done"],
    "CF207": ["choice.message-besides-delta"],
    "CF208": ["content-is-list"],
    "CF305": ["tool_call-same-index-different-id"],
    "CF307": ["tool_call-name-repeated-in-continuation"],
    "CF501": ["missing-[DONE]"],
    "CF502": ["no-finish_reason-at-all"],
    "CF504": ["duplicate-finish-chunk", "duplicate-finish-chunk(different reason)"],
    "CF505": ["content-after-finish", "tool_calls-after-finish"],
    "CF506": ["finish_reason-nonstandard: eos"],
    "CF601": ["error-frame (event: error)"],
}
# The same, but the manifest counts otherwise: an id by its changes and not by the chunks that have another than the
# first.
NOTED_AT_ALL = {
    "CF205": ["id-changes-mid-stream"],
}

_BROKEN = "its 14th payload is broken JSON, and what comes behind it is not read (CF102)"
_AHEAD = "the chunk ahead, which reports on the prompt, has no head, and need not have one"
_FAILED = "a provider's error comes before all else that may be wrong with the end"
# How often a rule is noted where the manifest's count is another, and why.
OTHER_COUNTS: dict[str, dict[str, tuple[int, str]]] = {
    BING: dict.fromkeys(("CF205", "CF504", "CF505"), (0, _BROKEN)) | {"CF206": (13, _BROKEN)},
    GEMINI: {
        "CF307": (0, "each name comes with a new id: a call of its own"),
        "CF501": (0, _FAILED),
    },
    **{
        name: {"CF203": (0, _AHEAD), "CF206": (0, _AHEAD)}
        for name in (
            "azure__fantasy-azure-gpt-5-mini-thinking-streaming",
            "azure__reqllm-deepseek-r1-0528-streaming",
            "azure__reqllm-deepseek-r1-reasoning-streaming",
            "azure__reqllm-gpt-4-1-object-streaming",
        )
    },
    "github-copilot__rig-streaming-tools-raw-stream-emits-required-zero-arg-tool-call": {
        "CF203": (3, _AHEAD),
        "CF206": (3, _AHEAD),
    },
    "github-copilot__vscode-copil-n-1-intent-detector": {"CF203": (0, _AHEAD), "CF206": (9, _AHEAD)},
    GROQ_ERROR: {"CF501": (0, _FAILED), "CF502": (0, _FAILED)},
}


@recordings
def test_oddities_are_noted(name: str) -> None:
    oddities, noted = oddities_of(name), whole(name).noted
    listed = {rule: sum(oddities.get(oddity, 0) for oddity in odd) for rule, odd in NOTED.items()}
    listed |= {rule: sum(min(oddities.get(oddity, 0), 1) for oddity in odd) for rule, odd in NOTED_AT_ALL.items()}
    counted = {rule: noted.get(rule, 0) for rule in NOTED}
    counted |= {rule: min(noted.get(rule, 0), 1) for rule in NOTED_AT_ALL}
    other = OTHER_COUNTS.get(name, {})
    assert counted == listed | {rule: count for rule, (count, _) in other.items()}
    assert not [rule for rule, (count, _) in other.items() if count == listed[rule]], "agrees after all"


# The oddities that are no anomaly, by the reason why; besides unknown fields (`extra-...-key`), which never are one.
NOT_NOTED = {
    "the event stream standard allows it: never an anomaly": [
        "comment: OPENROUTER PROCESSING",
        "extra-blank-line",
        "event-line: error",
    ],
    "reasoning fields: never an anomaly": [
        "reasoning-and-content-in-one-delta",
        "reasoning-empty-string",
        "reasoning-null",
        "reasoning_content-empty-string",
        "reasoning_content-null",
        "reasoning_details-empty-list",
        "several-reasoning-fields-in-one-delta: reasoning+reasoning_details",
        "several-reasoning-fields-in-one-delta: reasoning_content+reasoning_details",
    ],
    "where usage stands: never an anomaly": [
        "choices-empty-without-usage",
        "empty-choice-chunk-after-finish",
        "usage-in-several-chunks",
        "usage-values-differ-between-chunks",
    ],
    "a null is an absent value, as in OpenAI's own chunks": [
        "content-null",
        "function_call-null",
        "role-null",
        "tool_call-continuation-id-null",
        "tool_call-continuation-name-null",
        "tool_calls-null",
        "usage.completion_tokens_details-null",
        "usage.prompt_tokens_details-null",
    ],
    "nobody promises in which pieces things come": [
        "all-arguments-in-one-later-chunk",
        "finish_reason-with-content-in-same-chunk",
        "finish_reason-with-reasoning-in-same-chunk",
        "finish_reason-with-tool_calls-in-same-chunk",
        "tool_call-first-fragment-arguments-absent",
        "whole-tool_call-in-one-chunk",
    ],
    "every field may be missing on a chunk; only what no chunk has is noted (CF216)": [
        "chunk-missing-model",
        "role-never-sent",
        "tool_call-first-fragment-type-absent",
    ],
    "a tool call's id and type are set once, and the id is what tells the calls apart": [
        "tool_call-id-repeated-in-continuation",
        "tool_call-type-repeated-in-continuation",
    ],
    "the model's answer is its own: content and arguments stay as they came": [
        "<think>-tag-in-content",
        "tool_call-arguments-empty-overall",
        "tool_call-arguments-not-valid-json",
    ],
    "the same role again says nothing new": ["role-repeated-in-later-chunks"],
    "a part of OpenAI's API, if an old one": ["legacy-function_call"],
    "OpenAI's own API does so where the request names the tool": ["tool_calls-but-finish_reason-stop"],
    "noted once for the whole block, as CF102": ["data-lines-not-separated-by-blank"],
    "an error, not an anomaly": ["error-frame (with choices)", "payload-not-json"],
}


def test_every_oddity_is_accounted_for() -> None:
    known = {oddity for table in (NOTED, NOTED_AT_ALL, NOT_NOTED) for odd in table.values() for oddity in odd}
    listed = {oddity for name in NAMES for oddity in oddities_of(name)}
    assert {oddity for oddity in listed if not re.match("extra-[a-z_]+-key: ", oddity)} == known


# What was noted


# The ids of the rules that these recordings break, looked at one by one. The others break none.
ANOMALIES = {
    "avian__fantasy-avian-kimi-thinking-streaming-2": "CF205 CF504",
    "avian__fantasy-avian-kimi-thinking-streaming": "CF205 CF504",
    "azure__reqllm-deepseek-r1-0528-streaming": "CF504",
    "cerebras__reqllm-qwen-3-235b-a22b-instruct-2507-object-streaming": "CF501",
    "cerebras__reqllm-qwen-3-235b-a22b-thinking-2507-streaming": "CF501",
    "cerebras__reqllm-qwen-3-coder-480b-object-streaming": "CF501",
    "deepseek__rig-streaming-logprobs-matrix-streaming-disabled-stop-top-two": "CF203 CF216",
    "deepseek__rig-streaming-logprobs-matrix-streaming-low-length-top-absent": "CF203 CF216",
    "doubleword__rig-conformance-streaming-tool": "CF203 CF216 CF504",
    "doubleword__rig-finish-reason-matrix-streaming-token-limit": "CF203 CF216",
    "doubleword__rig-reasoning-matrix-deepseek-reasoning-streaming": "CF203 CF216 CF504",
    "github-copilot__rig-streaming-tools-raw-stream-emits-required-zero-arg-tool-call": "CF203 CF206 CF216",
    "github-copilot__vscode-copil-n-1-intent-detector": "CF101 CF102 CF206 CF216",
    "github-copilot__vscode-copil-stream-from-github-bing-search-skill": "CF101 CF102 CF206 CF216",
    "gpustack__rubyllm-streaming-gpustack-qwen3-supports-streaming-responses": "CF501",
    "groq__reqllm-meta-llama-llama-4-scout-17b-16e-instruct-object-streaming": "CF601",
    "llamacpp__rig-model-family-matrix-llama-streaming-tool-call": "CF203 CF216",
    "llamacpp__rig-model-family-matrix-mistral-streaming-tool-call": "CF203 CF216",
    "llamacpp__rig-response-shape-matrix-two-candidates-streaming": "CF203 CF216",
    "mistral__prism-stream-reasoning-model-1-1": "CF208",
    "mistral__rig-multimodal-content-streaming-agent-sends-audio": "CF203 CF216",
    "mistral__rig-tool-truncation-matrix-streaming-ministral-3b-low-agent": "CF203 CF216",
    "mistral__rig-tool-truncation-matrix-streaming-ministral-3b-mid-agent": "CF203 CF216",
    "mistralrs__rig-streaming-chat-completions-stream-emits-reasoning-and-text-incremental": "CF203 CF216",
    "openai__rig-chat-tool-truncation-matrix-streaming-gpt4o-low-model": "CF203 CF216",
    "openrouter__fantasy-kimi-simple-streaming": "CF504",
    "openrouter__fantasy-openai-multi-tool-streaming": "CF504",
    "openrouter__llm-test-tools-streaming-variant-a": "CF307 CF502",
    "openrouter__llm-test-tools-streaming-variant-c": "CF110",
    "openrouter__prism-stream-text-with-reasoning-1": "CF101 CF108",
    "openrouter__reqllm-google-gemini-2-5-flash-lite-object-streaming": "CF305 CF504 CF505",
    "openrouter__reqllm-minimax-minimax-m2-free-reasoning-streaming": "CF504",
    "openrouter__rig-streaming-tools-raw-followup-uses-tool-result-without-new-tool-calls": "CF203 CF216 CF504",
    "perplexity__prism-stream-basic-text-1": "CF206 CF207 CF501",
    "perplexity__vercel-perplexity-text": "CF206",
    "together__hfjs-tape-llama-3.3-70b-instruct-turbo": "CF506",
    "xai__prism-stream-with-tools-responses-1": "CF101",
}


@recordings
def test_anomalies(name: str) -> None:
    assert set(whole(name).noted) == set(ANOMALIES.get(name, "").split())


def test_the_table_names_rules_of_the_catalogue() -> None:
    assert {rule for rules in ANOMALIES.values() for rule in rules.split()} <= {rule.id for rule in RULES}


@recordings
def test_strict_takes_what_breaks_no_rule(name: str) -> None:
    parser, _ = read(body_of(name), 1460, strict=True)
    if name not in ANOMALIES:
        assert parser.snapshot == whole(name).parser.snapshot
        assert parser.end == StreamEnd.FINISHED
    elif name in (BING, GROQ_ERROR):  # what is an error in itself comes before the rules that its event breaks
        assert repr(parser.error) == repr(whole(name).parser.error)
    else:
        assert isinstance(parser.error, InvalidStreamError)
        assert parser.error.rule is whole(name).parser.anomalies[0].rule


# In openai-python's eyes


class Refused(NamedTuple):
    """A field that openai-python's model does not take, and the value it has in the completion."""

    field: str
    value: str | None


# `created` is 0 on every chunk there, mostly because those who recorded the stream put it there; 0 counts as absent.
NO_CREATED = Refused("created", None)
NO_MODEL = Refused("model", None)
NO_FINISH_REASON = Refused("choices.0.finish_reason", None)
# Words that are in none of OpenAI's enums.
EOS = Refused("choices.0.finish_reason", "eos")
ON_DEMAND = Refused("service_tier", "on_demand")

# Why `openai.types.chat.ChatCompletion` does not take these completions. It takes all others.
REFUSED = {
    N_1: NO_MODEL,
    VARIANT_A: NO_FINISH_REASON,
    "deepseek__rig-streaming-logprobs-matrix-streaming-disabled-stop-top-two": NO_CREATED,
    "deepseek__rig-streaming-logprobs-matrix-streaming-low-length-top-absent": NO_CREATED,
    "doubleword__rig-conformance-streaming-tool": NO_CREATED,
    "doubleword__rig-finish-reason-matrix-streaming-token-limit": NO_CREATED,
    "doubleword__rig-reasoning-matrix-deepseek-reasoning-streaming": NO_CREATED,
    "github-copilot__rig-streaming-tools-raw-stream-emits-required-zero-arg-tool-call": NO_CREATED,
    "groq__reqllm-llama-3-1-8b-instant-object-streaming": ON_DEMAND,
    "groq__reqllm-qwen-qwen3-32b-reasoning-streaming": ON_DEMAND,
    "huggingface-router__fantasy-huggingface-kimi-k2-multi-tool-streaming": ON_DEMAND,
    "huggingface-router__fantasy-huggingface-kimi-k2-tool-streaming": ON_DEMAND,
    "llamacpp__rig-model-family-matrix-llama-streaming-tool-call": NO_CREATED,
    "llamacpp__rig-model-family-matrix-mistral-streaming-tool-call": NO_CREATED,
    "llamacpp__rig-response-shape-matrix-two-candidates-streaming": NO_CREATED,
    "mistral__rig-multimodal-content-streaming-agent-sends-audio": NO_CREATED,
    "mistral__rig-tool-truncation-matrix-streaming-ministral-3b-low-agent": NO_CREATED,
    "mistral__rig-tool-truncation-matrix-streaming-ministral-3b-mid-agent": NO_CREATED,
    "mistralrs__rig-streaming-chat-completions-stream-emits-reasoning-and-text-incremental": NO_CREATED,
    "openai__rig-chat-tool-truncation-matrix-streaming-gpt4o-low-model": NO_CREATED,
    "openrouter__rig-streaming-tools-raw-followup-uses-tool-result-without-new-tool-calls": NO_CREATED,
    "together__hfjs-tape-llama-3.3-70b-instruct-turbo": EOS,
}


@each_case("name", COMPLETE)
def test_openai_takes_the_completion(name: str) -> None:
    chat = pytest.importorskip("openai.types.chat")
    fields = whole(name).parser.completion().model_dump()
    try:
        taken = chat.ChatCompletion.model_validate(fields)
    except ValidationError as error:
        refused = [Refused(".".join(map(str, one["loc"])), one["input"]) for one in error.errors()]
        assert refused == [REFUSED.get(name)]
    else:
        assert name not in REFUSED
        assert taken.model_dump(exclude_none=True) == whole(name).parser.completion().model_dump(exclude_none=True)


@each_case("name", REFUSED)
def test_openai_refuses_what_was_sent(name: str) -> None:
    field, value = REFUSED[name]
    chunks = whole(name).chunks
    if field == "choices.0.finish_reason":
        sent = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    else:
        sent = [getattr(chunk, field) for chunk in chunks]
    assert [word for word in sent if word][-1:] == ([value] if value else [])
