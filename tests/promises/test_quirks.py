"""What OpenAI-compatible providers really send, quirk by quirk, as far as no table of a layer has its bytes.

A case says all that must come of its body: the end, the text, the rules that are noted and no others, the error, and
whatever else the quirk is about. Every body is read whole and in pieces.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from cases import each_case

from chunkfold import APIError, ChatCompletionParser, ChunkfoldError, IncompleteStreamError, InvalidChunkError
from chunkfold.testing import DONE, HEAD, cut, event
from chunkfold.testing.wire import compact_json


@dataclass(frozen=True)
class Case:
    """A body, and what must come of it.

    Attributes:
        name: What it shows.
        rules: The ids of the rules that are noted, blanks between them.
        has: What the snapshot has, by path; what the error has, by a path that begins with `error.`.
    """

    name: str
    body: bytes
    text: str = "Hi"
    end: str = "finished"
    rules: str = ""
    has: dict[str, Any] = field(default_factory=dict)


ERRORS: dict[str, type[ChunkfoldError]] = {
    "truncated": IncompleteStreamError,
    "empty": IncompleteStreamError,
    "failed": APIError,
    "invalid": InvalidChunkError,
}


# Bodies


def head(**fields: Any) -> dict[str, Any]:
    """A chunk without choices."""
    return {**HEAD, "choices": [], **fields}


def chunk(delta: Any, finish_reason: str | None = None, **choice: Any) -> dict[str, Any]:
    return head(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason, **choice}])


def stream(*payloads: Any) -> bytes:
    """The payloads, a finish reason and `[DONE]`."""
    return b"".join(map(event, [*payloads, STOP_CHUNK])) + DONE


HI_DELTA = {"role": "assistant", "content": "Hi"}
HI_CHUNK = chunk(HI_DELTA)
STOP_CHUNK = chunk({}, "stop")
HI, STOP = event(HI_CHUNK), event(STOP_CHUNK)
IN_LINES = event(json.dumps(HI_CHUNK, indent=1))
CLEAN = HI + STOP + DONE


def deltas(*several: Any) -> bytes:
    """A whole stream of chunks with a delta each."""
    return stream(*map(chunk, several))


def failing(name: str, payload: Any, rules: str = "", **has: Any) -> Case:
    """An error after text."""
    body = HI + (payload if isinstance(payload, bytes) else event(payload))
    return Case(name, body, end="failed", rules=rules, has={f"error.{key}": has[key] for key in has})


DIFFUSED = {"diffusion_content": True, "diffusion_progress": 0}


def diffused(delta: Any, progress: float, finish_reason: str | None = None) -> dict[str, Any]:
    """A chunk of Inception's whose content is a draft of the whole text, or that text."""
    meta = {**DIFFUSED, "diffusion_progress": progress}
    return {**chunk({"tool_calls": [], **delta}, finish_reason), "diffusion_meta": meta}


def summed(delta: Any, summary: Any) -> dict[str, Any]:
    """A chunk of Inception's with a summary of the reasoning."""
    return {**chunk(delta), "reasoning_summary": summary}


def flagged(content: Any, signature: Any, **more: Any) -> bytes:
    """A whole completion of Gemini with a content that is flagged as a thought."""
    message = {
        "role": "assistant",
        "content": content,
        "extra_content": {"google": {"thought": True, **signature}},
        **more,
    }
    return compact_json(
        head(object="chat.completion", choices=[{"index": 0, "message": message, "finish_reason": "stop"}])
    )


SPARK = {"code": 0, "message": "Success", "sid": "s", "id": "s", "created": 1}
SPARK_DELTA = {**HI_DELTA, "tool_calls": {"type": "function", "function": {"name": "f", "arguments": "{}"}}}
DRAFTS = [diffused({"role": "assistant", "content": text}, 0) for text in ("H%", "", "\x1fi", *(["Ho"] * 30))]
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
HAS_USAGE = {"usage.prompt_tokens": 5, "usage.completion_tokens": 2, "usage.total_tokens": 7}
SIGNED = {"thought_signature": "c2ln"}
COMPLETION = {
    **head(object="chat.completion", usage=USAGE),
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
}


QUIRKS: dict[str, list[Case]] = {
    "framing and transport": [
        Case("no blank", HI + b"data::\n\n" + STOP + DONE, rules="CF104"),
        Case("only one byte order mark", b"\xef\xbb\xbf\xef\xbb\xbf" + CLEAN, text="", rules="CF110"),
        Case("no blank line", HI + STOP.rstrip() + b"\n", rules="CF101 CF501"),
        Case("no line end", HI + STOP.rstrip(), rules="CF101 CF501"),
        Case("a cut event behind the finish reason", HI + STOP + b'data: {"usage":{"prom', rules="CF101 CF501"),
        failing("an error is read", b'data: {"error":{"message":"m"}}', "CF101", message="m"),
        Case("whole lines before a cut one", HI.rstrip() + b"\n" + STOP[:-20], end="truncated", rules="CF101"),
        Case("no blank lines, none at the end either", CLEAN.replace(b"\n\n", b"\n"), rules="CF101 CF102"),
        Case("up to what is invalid", HI.rstrip() + b"\ndata: oops\n" + STOP + DONE, end="invalid", rules="CF102"),
        Case("up to an error", HI.rstrip() + b'\ndata: {"error":"m"}\n' + STOP, end="failed", rules="CF102 CF603"),
        Case("no blank line after a comment in data", b"data: : ping\n" + CLEAN, rules="CF102 CF104"),
        Case("nor after a named event that is text", b"event: ping\ndata: ping\n" + CLEAN, rules="CF102 CF106"),
        Case("nor after a null", b"data: null\n" + CLEAN, rules="CF102 CF105"),
        Case("nor after several", b"data:\ndata: : ping\ndata: null\n" + CLEAN, rules="CF102 CF104 CF105"),
        Case("nor after many", b"data: : ping\n" * 20_000 + CLEAN, rules="CF102 CF104"),
        Case("nor before a doubled prefix", b"data: : ping\ndata: " + CLEAN, rules="CF102 CF104 CF111"),
        Case("nor within one", b"data: data: : ping\ndata: " + CLEAN, rules="CF102 CF104 CF111"),
        Case("nor before an event in several lines", b"data: null\n" + IN_LINES + CLEAN, text="HiHi",
            rules="CF102 CF105"),
        Case("what is left of a [DONE], before usage", HI + STOP + b"data: ]\n\n" + event(head(usage=USAGE)) + DONE,
            rules="CF112", has=HAS_USAGE),
        Case("what is left of a [DONE], without an end", HI + b"data: ]\n\n", end="truncated", rules="CF112"),
        Case("no remains of a [DONE]", HI + b"data: ]]\n\n" + STOP + DONE, end="invalid"),
        Case("a comment and blank data", b"data: : ping\ndata:\n\n" + CLEAN, rules="CF104"),
        Case("blank data alone", b"data:\n" + HI.replace(b"data:", b"data: data:") + STOP + DONE, rules="CF111"),
        Case("nor before the end, after a named event", HI + STOP + b"event: a\ndata: b\n" + DONE, rules="CF102 CF106"),
        Case("nor after a comment, at the end", b"data: : ping\n" + HI.rstrip() + b"\n" + STOP[:-1],
            rules="CF101 CF102 CF104 CF501"),
        Case("nor within a doubled prefix that is cut",
            HI + STOP + b"data: data: : ping\ndata: data: " + b'{"choices":[', rules="CF101 CF104 CF111 CF501"),
        Case("nor within a doubled prefix, at the end", CLEAN.replace(b"data:", b"data: data:").replace(b"\n\n", b"\n"),
            rules="CF101 CF102 CF111"),
        failing("a text that is not UTF-8", b"event: error\ndata: m\xff\n\n", "CF107 CF601", message="m\N{REPLACEMENT CHARACTER}"),
        failing("a text that begins like null is read", b"event: error\ndata: nul", "CF101 CF601", message="nul"),
        Case("nothing but keep-alives", b"data: null\ndata: : ping\ndata: null\n\n" + CLEAN, rules="CF102 CF104 CF105"),
        Case("nor between a named event, a doubled prefix and a null",
            b"event: ping\ndata: ping\ndata: " + HI.rstrip() + b"\ndata: null\n\n" + STOP + DONE,
            rules="CF102 CF105 CF106 CF111"),
        Case("nor before a cut event", b"data: : ping\n" + HI.rstrip() + b"\n" + STOP[:-20], end="truncated",
            rules="CF101 CF102 CF104"),
        Case("no blank line before an event named error",
            HI.rstrip() + b'\nevent: error\ndata: {"message":"m","code":429}\n\n', end="failed", rules="CF102 CF601",
            has={"error.message": "m", "error.status_code": 429}),
        Case("nor after a keep-alive before it",
            HI + b'data: : ping\nevent: error\ndata: {"message":"m","code":429}\n\n', end="failed",
            rules="CF102 CF104 CF601", has={"error.message": "m", "error.status_code": 429}),
        Case("nor text", HI.rstrip() + b"\nevent: error\ndata: m\n\n", end="failed", rules="CF102 CF601"),
        Case("nor after [DONE]", HI + STOP + DONE.rstrip() + b"\nevent: error\ndata: m\n\n", rules="CF102 CF601"),
        Case("values on the lines after their fields", CLEAN.replace(b"data: ", b"data:\n "), rules="CF103 CF108 CF109 CF110"),
        Case("a whole completion", compact_json(COMPLETION), rules="CF109", has=HAS_USAGE),
        Case("MiniMax", b'{"base_resp":{"status_code":1002},"choices":null}', "", "failed", "CF607 CF605"),
    ],
    "errors after 200": [
        Case("and so does usage", HI + event(head(usage=USAGE, error={"code": 502, "message": "m"})), end="failed",
            has={"error.message": "m", **HAS_USAGE}),
        Case("also Groq's", HI + event(head(x_groq={"id": "r", "error": "m", "usage": USAGE})), end="failed",
            rules="CF608", has={"error.message": "m", **HAS_USAGE}),
        failing("a list", {"error": ["a", "b"]}, "CF603", message="a; b"),
    ],
    "the shape of a chunk": [
        Case("Azure's first chunk",
            event(head(id="", object="", created=0, model="", prompt_filter_results=[{"prompt_index": 0}])) + CLEAN,
            has={"id": HEAD["id"], "model": HEAD["model"],
            "model_extra": {"prompt_filter_results": [{"prompt_index": 0}]}}),
        Case("drafts", stream(*DRAFTS, diffused({"content": "Hi"}, 1, "stop")), rules="CF222 CF504",
            has={"model_extra.diffusion_meta.diffusion_progress": 1, "choices.0.message.model_extra": {}}),
        Case("a text that is complete before the finish reason", stream(*DRAFTS, diffused({"content": "Hi"}, 1.0)),
            rules="CF222"),
        Case("a text that ends before it is complete",
            b"".join(map(event, [*DRAFTS, diffused({"content": "Hi"}, 0, "length")])) + DONE, rules="CF222"),
        Case("drafts beside the pieces of a call", stream(
            *(diffused({"content": "H%", "tool_calls": [{"index": 0, "function": {}, **piece}]}, 0) for piece in (
                {"id": "a", "function": {"name": "f", "arguments": "{"}}, {"id": None, "function": {"arguments": "}"}},
            )), diffused({"content": "Hi"}, 1, "stop")), rules="CF222 CF504",
            has={"tool_calls.0.function.arguments": "{}", "tool_calls.0.id": "a"}),
        Case("a complete text that comes again", stream(*[diffused({"content": "Hi"}, 1)] * 3), rules="CF222"),
        Case("a last draft without a text after it", stream(*DRAFTS, diffused({"content": "Hi"}, 0)), rules="CF222",
            has={"choices.0.message.model_extra": {}}),
        Case("a whole message after drafts", b"".join(map(event, DRAFTS)) + event(COMPLETION) + DONE,
            rules="CF206 CF207 CF222", has=HAS_USAGE),
        Case("another use of the field of drafts", deltas({"content": "Hi", "diffusion_content": 5}),
            has={"choices.0.message.model_extra": {"diffusion_content": 5}}),
        Case("an empty finish reason beside a draft", stream(
            diffused({"content": "H%"}, 0, ""), diffused({"content": "Hi"}, 1, "stop")), rules="CF203 CF222 CF504"),
        Case("nothing but drafts", b"".join(map(event, DRAFTS)), text="", end="empty", rules="CF222",
            has={"choices.0.message.model_extra": {"diffusion_content": "Ho"}}),
        Case("what is marked as no draft", stream(*(
            {**chunk({"content": text}), "diffusion_meta": meta}
            for text, meta in (("H", None), ("e", {"diffusion_content": False}), ("l", {"diffusion_content": "no"}), ("l", "x"), ("o", [])))),
            text="Hello"),
        *(Case(f"a draft that is no text: {delta}", stream(HI_CHUNK, {**diffused({}, 0), "choices": [{"delta": delta}]}),
            end="invalid") for delta in ({"content": {}}, "x", [1])),
        Case("drafts of several choices", stream(
            head(choices=[{"index": n, "delta": {"content": "H%"}} for n in (0, 1)], diffusion_meta=DIFFUSED),
            head(choices=[{"index": n, "delta": {"content": "Hi"}, "finish_reason": "stop"} for n in (0, 1)],
                diffusion_meta=DIFFUSED)), rules="CF222 CF504", has={"choices.1.message.content": "Hi"}),
        Case("summaries of the reasoning (Inception)", stream(
            summed(HI_DELTA, None), summed({}, {"content": "Hm.", "status": "complete"}),
            summed({}, {"content": None, "status": "unavailable"}), summed({}, {"content": " So.", "status": "complete"})),
            has={"choices.0.message.reasoning": "Hm. So.", "choices.0.message.model_extra": {}}),
        Case("a summary in a whole completion", compact_json({**COMPLETION, "reasoning_summary": {"content": "Hm."}}),
            rules="CF109", has={"choices.0.message.reasoning": "Hm."}),
        *(Case(f"a content in JSON mode: {text} (Workers AI)", compact_json(COMPLETION).replace(b'"Hi"', text.encode()),
            text, rules="CF109 CF223", has=HAS_USAGE) for text in ('{"n":1,"a":["é"]}', "{}", "0.5")),
        Case("pieces of text that are JSON (Workers AI)", deltas(
            *({"content": text} for text in ("[", 1, "]", -0.005, True, None))), text="[1]-0.005true", rules="CF223"),
        Case("numbers in each choice, and in a whole message", stream(
            head(choices=[{"index": at, "delta": {"content": at}, "finish_reason": "stop"} for at in (0, 1)]),
            head(choices=[{"index": 2, "message": {"role": "assistant", "content": 2}, "finish_reason": "stop"}])), "0",
            rules="CF207 CF223 CF504", has={"choices.1.message.content": "1", "choices.2.message.content": "2"}),
        Case("a draft that is a number", stream(diffused({"content": 1}, 0), diffused({"content": "Hi"}, 1, "stop")),
            rules="CF222 CF223 CF504"),
        *(Case(f"a whole completion with a thought (Gemini): {content}", flagged(content, signature, **more), text,
            rules="CF109", has={"choices.0.message.reasoning": reasoning,
                "choices.0.message.model_extra": {"extra_content": {"google": signature}} if signature else {}})
            for content, signature, more, text, reasoning in (
                ("<thought>Hm.</thought>Hi", SIGNED, {}, "Hi", "Hm."), ("<thought>Hm.</thought>Hi", {}, {}, "Hi", "Hm."),
                ("<thought>a</thought>b</thought>", {}, {}, "b</thought>", "a"), ("Hi", SIGNED, {}, "Hi", None),
                ("</thought>Hi", SIGNED, {}, "</thought>Hi", None), ("<thought></thought>Hi", {}, {}, "Hi", None),
                ("<thought>Hm.", SIGNED, {}, "", "Hm."), ("<thought>", SIGNED, {}, "", None), ("Hm.", {}, {}, "", "Hm."),
                *(("<thought>a</thought>Hi", {}, {name: "Hm."}, "Hi", "Hm.") for name in ("reasoning", "reasoning_content")))),
        Case("a whole completion with a signature, but no thought", flagged("<thought>Hi", {"thought": False, **SIGNED}),
            "<thought>Hi", rules="CF109", has={"choices.0.message.reasoning": None}),
        Case("a number beside the signature of a thought", flagged(5, SIGNED), "5", rules="CF109 CF223"),
        *(Case(f"a summary beside {delta}", stream(summed(delta, {"content": "A"}), HI_CHUNK),
            has={"choices.0.message.reasoning": reasoning, "model_extra": {"reasoning_summary": {"content": "A"}}})
            for delta, reasoning in (
                ({"reasoning_content": "Hm"}, "Hm"), ({"reasoning_content": None, "reasoning": ""}, "A"),
                ({"reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}, "Hm"))),
        *(Case(f"another use of the field of summaries: {value}", stream(summed(HI_DELTA, value)),
            has={"choices.0.message.reasoning": None, "model_extra.reasoning_summary": value})
            for value in ("auto", ["Hm"], {"content": ["Hm"]}, {"content": ""}, {"text": "Hm"})),
        Case("a summary beside reasoning of a wrong type", stream(summed({"reasoning": {"x": 1}}, {"content": "A"}), HI_CHUNK),
            rules="CF209", has={"choices.0.message.reasoning": None}),
        Case("a summary without a choice", stream(HI_CHUNK, head(reasoning_summary={"content": "Hm"})),
            has={"choices.0.message.reasoning": None, "model_extra.reasoning_summary.content": "Hm"}),
        Case("a summary without a delta", stream(HI_CHUNK, head(choices=[{"index": 0}], reasoning_summary={"content": "A"})),
            rules="CF202", has={"choices.0.message.reasoning": None}),
    ],
    "folding and tool calls": [
        Case("iFlytek's call, and its end", event({**SPARK, "choices": [{"delta": SPARK_DELTA, "index": 0}]}) + DONE,
            end="done", rules="CF206 CF216 CF301 CF302 CF313 CF502",
            has={"tool_calls.0.function.name": "f", "tool_calls.0.function.arguments": "{}", "sid": "s"}),
    ],
    "time, lifetime, concurrency": [
        Case("a text beside a delta", stream(chunk({"content": "Hi"}, text="Hi")),
            has={"choices.0.model_extra": {"text": "Hi"}}),
    ],
}  # fmt: skip


CASES = [pytest.param(case, id=f"{section}: {case.name}") for section, cases in QUIRKS.items() for case in cases]


def read(case: Case, size: int) -> ChatCompletionParser:
    parser = ChatCompletionParser()
    texts = [one.text for piece in cut(case.body, *range(size, len(case.body), size)) for one in parser.feed(piece)]
    texts += [one.text for one in parser.close()]
    assert "".join(texts) == parser.snapshot.text
    return parser


def look(parser: ChatCompletionParser, path: str) -> Any:
    """What stands at a path."""
    value: Any = parser if path.startswith("error.") else parser.snapshot
    for name in path.split("."):
        if isinstance(value, dict):
            value = value[name]
        elif name.isdigit():
            value = value[int(name)]
        else:
            value = getattr(value, name)
    return value


@each_case("case", CASES)
@each_case("size", [None, 1], ids=["whole", "in pieces"])
def test_quirk(case: Case, size: int | None) -> None:
    if size is None or len(case.body) > 10_000:  # byte by byte, a large body would show no more but take long
        size = 997 if size else len(case.body)
    parser = read(case, size)
    assert (parser.end, type(parser.error)) == (case.end, ERRORS.get(case.end, type(None)))
    assert parser.snapshot.text == case.text
    assert sorted(anomaly.rule.id for anomaly in parser.anomalies) == sorted(case.rules.split())
    assert {path: look(parser, path) for path in case.has} == case.has
