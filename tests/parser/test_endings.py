"""How a stream ended (see `test_ends`): what strict mode refuses, objects that nobody can explain, another API."""

from typing import Any

import pytest
from cases import each_case
from parsed_bodies import fed
from played import BROKEN_LINE, HI, STOP, play
from shared_data import shared_data

from chunkfold import (
    RULES,
    ChatCompletionParser,
    IncompleteStreamError,
    InvalidChunkError,
    InvalidStreamError,
    StreamEnd,
)
from chunkfold.testing import DONE, choice, chunk, delta, event

UNEXPLAINED = event({"status": "worker restarted"})
NO_HEAD = event({"object": "chat.completion.chunk", "choices": [choice(content="Hi")]})


def refusal(parser: ChatCompletionParser) -> str | None:
    """The id of the rule that strict mode refused, None if it refused none."""
    if type(parser.error) is not InvalidStreamError or parser.error.rule is None:
        return None
    assert parser.end is StreamEnd.INVALID
    return parser.error.rule.id


NULLS = HI + b"data: null\n\n" + STOP


@each_case(
    ("options", "refused"),
    [
        ({}, None),
        ({"strict": False}, None),
        ({"strict": ()}, None),
        ({"strict": True}, "CF105"),
        ({"strict": ("CF105",)}, "CF105"),
        ({"strict": {"CF105", "CF501"}}, "CF105"),
        ({"strict": ["CF501"]}, "CF501"),
        ({"strict": ("CF502", "CF204")}, None),
        ({"strict": True, "tolerate": ("CF105",)}, "CF501"),
        ({"strict": True, "tolerate": frozenset({"CF105", "CF501"})}, None),
        ({"strict": ("CF105", "CF501"), "tolerate": ("CF105",)}, "CF501"),
        ({"tolerate": ("CF105",)}, None),
    ],
)
def test_strict_refuses_the_rules_it_is_given(options: dict[str, Any], refused: str | None) -> None:
    parser = play(NULLS, **options)
    assert refusal(parser) == refused
    assert (parser.end is StreamEnd.FINISHED) is (refused is None)
    assert "CF105" in {anomaly.rule.id for anomaly in parser.anomalies}


def test_a_missing_finish_reason_can_be_refused_alone() -> None:
    """Gateways turn an error in the middle of a stream into a bare [DONE]."""
    swallowed = shared_data("recordings-2/portkey__bedrock-errmid.sse").read_bytes()
    for body in (HI + b"data: null\n\n" + DONE, swallowed):
        assert play(body).end is StreamEnd.DONE
        assert refusal(play(body, strict=("CF502",))) == "CF502"


@each_case("option", ["strict", "tolerate"])
@each_case(
    ("ids", "kind", "message"),
    [
        ("CF501", TypeError, r"expected .* rule ids such as \('CF501',\), received 'CF501'"),
        (b"CF501", TypeError, "received b'CF501'"),
        (501, TypeError, "received 501"),
        (None, TypeError, "received None"),
        (iter(["CF501"]), TypeError, "expected .* collection of rule ids"),
        (("CF501", "CF999"), ValueError, r"expected ids of chunkfold.RULES, received 'CF999'"),
        (("CF503",), ValueError, "received 'CF503'"),
        (([],), ValueError, r"received \[\]"),
    ],
)
def test_what_is_no_collection_of_rule_ids(option: str, ids: Any, kind: type[Exception], message: str) -> None:
    options: dict[str, Any] = {option: ids}
    with pytest.raises(kind, match=f"{option}: .*{message}"):
        ChatCompletionParser(**options)


def test_every_rule_can_be_named() -> None:
    ids = [rule.id for rule in RULES]
    assert ChatCompletionParser(strict=ids, tolerate=ids).end is None
    assert play(chunk(choice("stop", content="Hi")) + DONE, strict=ids).end is StreamEnd.FINISHED


@each_case(
    ("body", "way_out", "end", "rule"),
    [
        # A body that ends by itself, well or badly: what is noted at its end is the provider's.
        pytest.param(NO_HEAD, "close", "invalid", "CF216", id="truncated, and something was noted at the end"),
        pytest.param(event({"choices": []}), "close", "invalid", "CF206", id="noted at an event"),
        pytest.param(HI, "close", "truncated", None, id="truncated, and nothing was noted"),
        pytest.param(b"", "close", "empty", None, id="empty, and nothing was noted"),
        pytest.param(HI + STOP, "close", "invalid", "CF501", id="finished without [DONE]"),
        pytest.param(HI + DONE, "close", "invalid", "CF502", id="done"),
        # Whatever else stopped it: what is noted only then is not the provider's.
        pytest.param(NO_HEAD, "interrupt", "interrupted", None, id="interrupted"),
        pytest.param(NO_HEAD, "stall", "stalled", None, id="stalled"),
        pytest.param(NO_HEAD, "leave", "closed", None, id="left"),
        pytest.param(HI + STOP, "interrupt", "finished", None, id="interrupted after the finish reason"),
        pytest.param(HI + STOP, "stall", "finished", None, id="stalled after the finish reason"),
        pytest.param(HI + STOP, "leave", "finished", None, id="left after the finish reason"),
        # What was noted before has ended the stream by then.
        pytest.param(HI + b"data: null\n\n", "interrupt", "invalid", "CF105", id="noted before the transport failed"),
    ],
)
def test_strict_at_the_end(body: bytes, way_out: str, end: str, rule: str | None) -> None:
    parser = play(body, way_out, strict=True)
    assert (parser.end, refusal(parser)) == (end, rule)


@pytest.mark.parametrize("way_out", ["interrupt", "stall"])
def test_a_late_fault_is_refused_where_it_is_named(way_out: str) -> None:
    parser = play(HI + STOP, way_out, strict=("CF507",))
    assert refusal(parser) == "CF507"
    assert (parser.error is not None and parser.error.__cause__) is (BROKEN_LINE if way_out == "interrupt" else None)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise LookupError


@each_case(
    "fault",
    [ConnectionResetError(), OSError(10**5000), UnprintableError()],
    ids=["none", "more digits than are printed", "it raises"],
)
def test_a_transport_that_fails_without_a_message(fault: Exception) -> None:
    parser = fed(HI)
    parser.interrupt(fault)
    assert (parser.end, parser.error and parser.error.__cause__) == ("interrupted", fault)
    assert str(parser.error).endswith(f": '{type(fault).__name__}'")


@pytest.mark.parametrize(
    ("body", "end"),
    [
        (HI + UNEXPLAINED + DONE, "truncated"),
        (UNEXPLAINED + HI + DONE, "truncated"),
        (HI + UNEXPLAINED, "truncated"),
        (delta(role="assistant") + UNEXPLAINED + DONE, "empty"),
        (HI + UNEXPLAINED + STOP + DONE, "finished"),
        (HI + STOP + UNEXPLAINED + DONE, "finished"),
    ],
)
def test_an_unexplained_object_is_noted_and_quoted_where_the_stream_is_incomplete(body: bytes, end: str) -> None:
    parser = play(body)
    assert parser.end == end
    if end != "finished":
        assert type(parser.error) is IncompleteStreamError
        assert '{"status":"worker restarted"}' in str(parser.error)
    assert [(one.rule.id, one.detail) for one in parser.anomalies] == [("CF219", '\'{"status":"worker restarted"}\'')]
    assert parser.snapshot.model_extra == {"status": "worker restarted"}


@each_case(
    ("body", "usage"),
    [
        pytest.param(HI + STOP + event({"response": "", "usage": {"total_tokens": 3}}), 3, id="after chunks"),
        pytest.param(event({"response": "", "usage": {"total_tokens": 3}}) + HI + STOP, None, id="before chunks"),
        pytest.param(HI + STOP + event({"response": "", "usage": "x"}), None, id="not an object"),
    ],
)
def test_usage_of_an_unexplained_object(body: bytes, usage: int | None) -> None:
    parser = play(body + DONE)
    assert parser.end == "finished"
    assert (parser.snapshot.usage and parser.snapshot.usage.total_tokens) == usage
    assert [one.rule.id for one in parser.anomalies if one.rule.id == "CF219"] == ["CF219"]


@each_case(
    "payload",
    [
        {"id": "c", "object": "chat.completion.chunk", "model": "m"},
        {"object": "chat.completion.chunk"},
        {"id": "c", "created": 1},
        {"id": "c", "model": "m"},
        {"choices": None},
        {"choices": None, "created": 1, "model": "m"},
        {"choices": {}, "status": "ok"},
        {"usage": None},
        {"usage": {"total_tokens": 3}, "provider": "p"},
        {"prompt_filter_results": [{"prompt_index": 0}]},
        {"x_groq": {"id": "r"}},
        {"obfuscation": "abc"},
        {"timings": {"predicted_n": 3}},
        {"base_resp": {"status_code": 0}},
        {"error": None},
        {"type": "ping"},
        {},
    ],
)
def test_what_a_chunk_without_choices_may_be_is_no_unexplained_object(payload: dict[str, Any]) -> None:
    parser = play(HI + event(payload) + DONE)
    assert parser.end is StreamEnd.DONE
    assert "CF219" not in {one.rule.id for one in parser.anomalies}


def test_null_choices_alone_are_no_other_api() -> None:
    """Was once wrong: they counted as events of another API."""
    for choices, rules in ((None, {"CF201"}), ({}, {"CF201"}), ([], set[str]())):
        parser = play(event({"choices": choices, "model": "m"}) + DONE)
        assert (parser.end, {one.rule.id for one in parser.anomalies} & {"CF201", "CF219"}) == (StreamEnd.EMPTY, rules)


GEMINI = event({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "usageMetadata": {}})
ELSEWHERE = {
    "Gemini's own": GEMINI,
    "Cohere's": event({"type": "content-delta", "delta": {"message": {"content": {"text": "Hi"}}}}, "content-delta"),
    "Workers AI's": event({"response": "Hi"}) + event({"response": "", "usage": {"total_tokens": 3}}),
    "text-generation-inference's": event({"index": 1, "token": {"id": 1, "text": "Hi"}, "generated_text": None}),
    "Dify's": event({"event": "message", "id": "1", "answer": "Hi"}),
    "the Assistants'": event({"id": "r", "object": "thread.run"}, "thread.run.created"),
    "a UI message stream": event({"type": "start"}) + event({"type": "text-delta", "id": "1", "delta": "Hi"}),
    "DashScope's own": event({"output": {"text": "Hi"}, "usage": {"total_tokens": 3}}, "result"),
    "DashScope's own, without a name": event({"output": {"text": "Hi"}, "usage": {"total_tokens": 3}}),
    "Baidu's own": event({"id": "a", "object": "chat.completion", "result": "Hi", "usage": {"total_tokens": 3}}),
    "Ollama's own": event({"model": "m", "message": {"role": "assistant", "content": "Hi"}, "done": False}),
    "text of another name": event("Hi", "token"),
}


@each_case("last", [b"", DONE], ids=["no [DONE]", "[DONE]"])
@each_case("name", ELSEWHERE)
def test_events_of_another_api_are_invalid(name: str, last: bytes) -> None:
    body = ELSEWHERE[name]
    parser = play(b": ping\n\n" + body + last)
    assert parser.end is StreamEnd.INVALID
    assert type(parser.error) is InvalidChunkError
    assert parser.error.position == len(b": ping\n\n")
    assert body.partition(b"data: ")[2].splitlines()[0].decode()[:50] in str(parser.error)
    assert not parser.error.retryable


@each_case(
    ("body", "way_out", "end"),
    [
        (GEMINI, "interrupt", "interrupted"),
        (GEMINI, "stall", "stalled"),
        (GEMINI, "leave", "closed"),
        (GEMINI + delta(role="assistant"), "close", "empty"),
        (GEMINI + event({"usage": {"total_tokens": 3}}), "close", "empty"),
        (event({"choices": []}) + GEMINI, "close", "empty"),
        (GEMINI + event({"error": {"message": "x"}}), "close", "failed"),
        (event({}, "keepalive") + event("x", "ping") + event({"a": 1}, "heartbeat") + DONE, "close", "empty"),
        (b"data: \n\ndata: null\n\n" + event({"type": "ping"}) + event({}) + DONE, "close", "empty"),
        (event({"usage": {"total_tokens": 3}}) + DONE, "close", "empty"),
        (event({"step": 1}, "progress") + HI + DONE, "close", "done"),
    ],
)
def test_what_is_not_another_api(body: bytes, way_out: str, end: str) -> None:
    assert play(body, way_out).end == end
