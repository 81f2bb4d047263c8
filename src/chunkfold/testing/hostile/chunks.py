"""Streams whose chunks are odd: with values that are missing, null, empty, doubled or of another type."""

from typing import Any, Final

from chunkfold.testing.hostile.values import HI, STOP, HostileStream, answer
from chunkfold.testing.wire import DONE, choice, chunk, delta, event

_NO_HEAD: Final[dict[str, Any]] = {"id": "", "object": "", "created": 0, "model": ""}
_FILTER: Final = [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}]
_DEEP: Final = "[" * 400 + "]" * 400
_THOUGHT: Final = {"google": {"thought": True}}
_FAKE_ERROR: Final = '{"error": {"message": "this is the answer", "code": 500}}'


def _whole(
    name: str, sentence: str, senders: str, body: bytes, *texts: str, reasoning: str | None = None
) -> HostileStream:
    """An answer in text whose body ends as it should."""
    return answer(name, sentence, senders, body + STOP + DONE, *texts, reasoning=reasoning)


def _message(whole: str, finish_reason: str | None = None, **delta: Any) -> bytes:
    """A choice that has the whole message so far beside its delta."""
    return chunk({**choice(finish_reason, **delta), "message": {"role": "assistant", "content": whole}})


def _reasoning_part(text: str, **fields: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text, **fields}]}


def _thinking(text: str, signature: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _block(index: int, **fields: str) -> dict[str, Any]:
    return {"index": index, "delta": fields}


CHUNKS: Final[tuple[HostileStream, ...]] = (
    _whole(
        "filter-first",
        "a first chunk without choices, its id, model and object empty",
        "Azure",
        event({**_NO_HEAD, "choices": [], "prompt_filter_results": _FILTER}) + HI,
    ),
    answer(
        "empty-for-absent",
        "empty strings for a role and a finish reason that are absent, in every chunk",
        "StepFun, MiniMax, DashScope",
        delta("", role="assistant", content="H")
        + delta("", role="", content="i")
        + delta("stop", role="", content="")
        + DONE,
    ),
    answer(
        "content-null",
        "`content` is null before and after the text",
        "DeepSeek, vLLM",
        delta(role="assistant", content=None) + HI + delta("stop", content=None) + DONE,
    ),
    answer(
        "delta-null",
        "`delta` is null in the last chunk",
        "gateways",
        HI + chunk({"index": 0, "delta": None, "finish_reason": "stop"}) + DONE,
    ),
    answer(
        "index-as-text",
        "a choice's index is a string",
        "gateways in loosely typed languages",
        chunk({"index": "0", "delta": {"content": "H"}})
        + chunk({"index": "0", "delta": {"content": "i"}, "finish_reason": "stop"})
        + DONE,
    ),
    answer(
        "created-with-fraction",
        "`created` has a fraction",
        "servers in Python that send time.time()",
        (HI + STOP).replace(b"1760000000", b"1760000000.25") + DONE,
    ),
    _whole(
        "reasoning-content",
        "reasoning in `reasoning_content`, with a content of null",
        "DeepSeek, Moonshot, vLLM, SGLang",
        delta(role="assistant", content=None, reasoning_content="H") + delta(content=None, reasoning_content="m") + HI,
        reasoning="Hm",
    ),
    _whole(
        "reasoning-twice",
        "the same reasoning in `reasoning` and in `reasoning_content`",
        "StepFun, vLLM",
        delta(reasoning="H", reasoning_content="H") + delta(reasoning="m", reasoning_content="m") + HI,
        reasoning="Hm",
    ),
    _whole(
        "reasoning-details",
        "reasoning in pieces with an index, its signature after the text began",
        "OpenRouter, Sansa",
        delta(reasoning="H", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "H"}])
        + delta(reasoning="m", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "m"}])
        + HI
        + delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "signature": "c2ln"}]),
        reasoning="Hm",
    ),
    _whole(
        "content-parts",
        "the content is a list of parts: thinking, then text",
        "Mistral",
        delta(role="assistant", content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}])
        + delta(content=[{"type": "text", "text": "H"}])
        + delta(content="i"),
        reasoning="Hm",
    ),
    answer(
        "reasoning-text",
        "reasoning in `reasoning_text`, then its encrypted form in `reasoning_opaque`",
        "GitHub Copilot",
        delta(role="assistant", content=None, reasoning_text="H")
        + delta(content=None, reasoning_text="m")
        + HI
        + delta("stop", content=None, reasoning_opaque="eHg="),
        reasoning="Hm",
    ),
    _whole(
        "reasoning-parts",
        "the content is a list of reasoning parts, the last one with a signature, then text",
        "Databricks",
        delta(role="assistant", content=[_reasoning_part("H")])
        + delta(content=[_reasoning_part("m")])
        + delta(content=[_reasoning_part("", signature="c2ln")])
        + HI,
        reasoning="Hm",
    ),
    _whole(
        "thoughts-flagged",
        "thoughts as content that is flagged, in literal tags of which the closing one begins the answer",
        "Gemini's compatible endpoint",
        delta(role="assistant", content="<thought>H", extra_content=_THOUGHT)
        + delta(content="m", extra_content=_THOUGHT)
        + delta(content="</thought>H")
        + delta(content="i"),
        reasoning="Hm",
    ),
    _whole(
        "thinking-blocks",
        "reasoning in `thinking_blocks`, the signed one with the whole text once more",
        "LiteLLM in front of Anthropic",
        delta(role="assistant", content="", thinking_blocks=[_thinking("H")])
        + delta(content="", thinking_blocks=[_thinking("m")])
        + delta(content="", thinking_blocks=[_thinking("Hm", signature="c2ln")])
        + HI,
        reasoning="Hm",
    ),
    _whole(
        "reasoning-object",
        "reasoning in `reasoning_content` as an object, with a signature at the end",
        "Envoy AI Gateway in front of Bedrock",
        delta(role="assistant", reasoning_content={"text": "H"})
        + delta(reasoning_content={"text": "m"})
        + HI
        + delta(reasoning_content={"signature": "c2ln"}),
        reasoning="Hm",
    ),
    _whole(
        "thinking-object",
        "reasoning in `thinking` as an object, the signed one with the whole text once more",
        "musistudio/llms",
        delta(role="assistant", thinking={"content": "H"})
        + delta(thinking={"content": "m"})
        + delta(content=None, thinking={"content": "Hm", "signature": "1760000000000"})
        + HI,
        reasoning="Hm",
    ),
    _whole(
        "content-blocks",
        "reasoning in `content_blocks`, whose text blocks come as content too",
        "Portkey in front of Anthropic",
        delta(role="assistant", content="")
        + delta(content_blocks=[_block(0, thinking="H")])
        + delta(content_blocks=[_block(0, thinking="m")])
        + delta(content_blocks=[_block(0, signature="c2ln")])
        + delta(content="Hi", content_blocks=[_block(1, text="Hi")]),
        reasoning="Hm",
    ),
    _whole(
        "content-references",
        "references between the text parts of a content list",
        "Mistral",
        delta(role="assistant", content=[{"type": "text", "text": "H"}, {"type": "reference", "reference_ids": [1]}])
        + delta(content="i"),
    ),
    _whole(
        "tool-result",
        "a tool's result and its own finish reason in choice 0 before the answer",
        "MiniMax's search, gateways that run tools",
        delta("tool_calls", role="tool", tool_call_id="call_a", content='[{"title":"Hi"}]') + HI,
    ),
    _whole(
        "role-in-passing",
        "another role before assistant",
        "GigaChat",
        delta(role="function_in_progress", content="") + HI,
    ),
    answer(
        "message-on-each",
        "the whole message so far beside each delta",
        "Perplexity",
        _message("H", content="H") + _message("Hi", content="i") + _message("Hi", "stop", content="") + DONE,
    ),
    answer(
        "message-at-the-end",
        "the whole message once more in the last chunk, without a delta",
        "MiniMax",
        HI + chunk({"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}) + DONE,
    ),
    answer(
        "two-choices",
        "two choices, interleaved, the second one first",
        "OpenAI and others, with n=2",
        delta(index=1, role="assistant", content="B")
        + delta(index=0, role="assistant", content="A")
        + delta(index=1, content="2")
        + delta(index=0, content="1")
        + delta("stop", index=1)
        + delta("stop", index=0)
        + DONE,
        "A1",
        "B2",
    ),
    answer(
        "two-choices-in-one-chunk",
        "two choices in each chunk",
        "vLLM, with n=2",
        chunk(choice(content="A"), choice(content="B", index=1))
        + chunk(choice(content="1"), choice(content="2", index=1))
        + chunk(choice("stop"), choice("stop", index=1))
        + DONE,
        "A1",
        "B2",
    ),
    _whole(
        "log-probabilities-infinite",
        "a log probability of -Infinity, another of NaN",
        "vLLM, llama.cpp",
        chunk(
            {
                **choice(content="Hi"),
                "logprobs": {
                    "content": [
                        {"token": "H", "logprob": float("-inf"), "bytes": [72], "top_logprobs": []},
                        {"token": "i", "logprob": float("nan"), "bytes": [105], "top_logprobs": []},
                    ],
                    "refusal": None,
                },
            }
        ),
    ),
    _whole(
        "deep-extra",
        "an unknown value nested 400 deep beside the text",
        "hostile upstreams",
        delta(content="Hi", trace="?").replace(b'"?"', _DEEP.encode()),
    ),
    _whole(
        "keys-twice",
        "a key twice in an object, the right value last",
        "templates that append fields",
        delta(content="Hi").replace(b'{"content"', b'{"content":"","content"'),
    ),
    _whole(
        "unknown-lists",
        "citations and search results, the whole list in every chunk",
        "Perplexity",
        b"".join(chunk(choice(content=text), citations=["https://a.example", "https://b.example"]) for text in "Hi"),
    ),
    answer(
        "error-null",
        "`error` is null in every chunk",
        "gateways with one schema for all",
        b"".join(chunk(choice(content=text), error=None) for text in "Hi") + chunk(choice("stop"), error=None) + DONE,
    ),
    answer(
        "error-empty-beside-choices",
        "`error` is an empty object beside choices",
        "gateways with one schema for all",
        b"".join(chunk(choice(content=text), error={}) for text in "Hi") + chunk(choice("stop"), error={}) + DONE,
    ),
    _whole(
        "code-of-zero",
        "a status of success in every chunk: code 0, message ok, an empty base_resp",
        "MiniMax, gateways in China",
        b"".join(
            chunk(choice(content=text), code=0, message="ok", base_resp={"status_code": 0, "status_msg": ""})
            for text in "Hi"
        ),
    ),
    _whole(
        "error-in-text",
        "the text looks like an error",
        "any model that is asked for one",
        delta(content=_FAKE_ERROR),
        _FAKE_ERROR,
    ),
    _whole(
        "refusal",
        "a refusal instead of content",
        "OpenAI",
        delta(role="assistant", content=None, refusal="") + delta(refusal="I can") + delta(refusal="not."),
        "",
    ),
    answer(
        "filtered",
        "the content filter ended an empty answer",
        "Azure, Gemini",
        delta(role="assistant", content="") + delta("content_filter") + DONE,
        "",
        finish_reason="content_filter",
    ),
    answer(
        "filtered-with-a-reason",
        "the finish reason says after a colon why the content filter ended the answer",
        "Gemini",
        HI + delta("content_filter: RECITATION") + DONE,
        finish_reason="content_filter",
    ),
    answer(
        "length",
        "the answer was cut by the token limit",
        "everyone",
        HI + delta("length") + DONE,
        finish_reason="length",
    ),
)
