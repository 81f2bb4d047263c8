"""Telemetry: what a stream leaves in the SDK's in-memory exporters, however it is read and whatever is in it.

Whole streams come from a real server, over both fronts and both libraries. Times are exact where the stream has a clock
that only its body moves. What is secret is marked, and the marks are looked for in all that was exported.
"""

import contextlib
import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from fronts import ASKED, PATIENCE, client_of, each_library, generators_of_httpx_are_not_ours, over_both_fronts
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_telemetry import HI, REQUEST, SPENT, Clock, Telemetry, kept_telemetry, undisturbed
from made_streams import CUTS, STOP, STREAMS, Stream
from opentelemetry import baggage, context, trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, StatusCode
from own_process import printed_by

from chunkfold import ChatCompletionParser, ChatCompletionStream, ChunkfoldError, connect
from chunkfold.otel import instrument, names
from chunkfold.testing import DONE, HEAD, Answer, FakeProvider, chunk, delta, event, hostile_streams

pytest_generate_tests = over_both_fronts
library = each_library
pytestmark = generators_of_httpx_are_not_ours
telemetry = kept_telemetry
nothing_failed = undisturbed


async def test_a_stream_leaves_one_client_span(front: Any, library: Any, telemetry: Telemetry) -> None:
    used = chunk(usage={"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
    body = (HI + STOP + used + DONE).replace(b'"model":"m"', b'"model":"m-2026"')
    with FakeProvider(Answer(body)) as provider:
        async with client_of(front, library) as client, client.connect(provider.url) as stream:
            telemetry.instrument(stream, ASKED)
            async for _ in stream:
                assert not trace.get_current_span().is_recording()  # the reader's context is the reader's
    attributes = telemetry.attributes
    assert 0 < attributes.pop("gen_ai.response.time_to_first_chunk") < PATIENCE
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "server.address": "127.0.0.1",
        "server.port": httpx.URL(provider.url).port,
        "gen_ai.response.id": HEAD["id"],
        "gen_ai.response.model": "m-2026",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "chunkfold.stream.end": "finished",
    }
    span = telemetry.span
    assert (span.name, span.kind, span.status.status_code) == ("chat m", SpanKind.CLIENT, StatusCode.UNSET)
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "chunkfold"


def test_times_are_those_of_the_streams_own_clock(telemetry: Telemetry) -> None:
    clock = Clock()
    pieces = clock.body((0.5, HI), (0.02, HI), (3.0, HI + HI), (0.0, STOP), (1.0, DONE))
    with telemetry.instrument(ChatCompletionStream(pieces, clock=clock, started=-2.0)) as stream:
        stream.read()
    assert telemetry.span.end_time - telemetry.span.start_time == 6_520_000_000
    assert telemetry.attributes["gen_ai.response.time_to_first_chunk"] == stream.timing.first_chunk == 2.5
    assert telemetry.point("gen_ai.client.operation.duration").sum == pytest.approx(6.52)
    assert telemetry.point("gen_ai.client.operation.time_to_first_chunk").sum == pytest.approx(2.5)
    # Five chunks: the second of a read came with the first of it.
    gaps = telemetry.point("gen_ai.client.operation.time_per_output_chunk")
    assert (gaps.count, gaps.min, gaps.max, gaps.sum) == (4, 0.0, pytest.approx(3.0), pytest.approx(3.02))


WAYS: dict[str, Callable[[Any], object]] = {
    "for": list,
    "read": lambda stream: stream.read(),
    "text_deltas": lambda stream: list(stream.text_deltas()),
    "events": lambda stream: list(stream.events()),
    "partials": lambda stream: list(stream.partials()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1, 2**20])
def test_however_it_is_read_the_same_is_measured(way: str, size: int, telemetry: Telemetry) -> None:
    pieces = [delta(content="[") * 1, *[delta(content=" " * 90)] * 600, delta(content="]"), STOP, DONE]
    whole = b"".join(pieces)
    reads = pieces if size == 1 else [whole]  # the second is read in slices
    with telemetry.instrument(ChatCompletionStream(reads)) as stream:
        WAYS[way](stream)
    assert telemetry.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert telemetry.attributes["chunkfold.stream.end"] == "finished"
    assert telemetry.point("gen_ai.client.operation.time_to_first_chunk").count == 1
    assert telemetry.point("gen_ai.client.operation.time_per_output_chunk").count == len(pieces) - 2
    assert telemetry.point("gen_ai.client.operation.duration").count == 1


def test_the_parent_is_the_context_of_the_call(telemetry: Telemetry) -> None:
    with telemetry.tracers.get_tracer("t").start_as_current_span("request") as parent:
        stream = telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]))
        assert trace.get_current_span() is parent
    stream.read()
    (span,) = [span for span in telemetry.spans if span.name == "chat"]
    assert span.parent is not None
    assert span.parent.span_id == parent.get_span_context().span_id


def test_an_exemplar_leads_to_the_span(telemetry: Telemetry) -> None:
    telemetry.read()
    span = telemetry.span.context
    metrics = telemetry.metrics  # once: the SDK forgets exemplars when they were collected
    for name in ("duration", "time_to_first_chunk"):
        (point,) = metrics[f"gen_ai.client.operation.{name}"].data.data_points
        (exemplar,) = point.exemplars
        assert (exemplar.trace_id, exemplar.span_id) == (span.trace_id, span.span_id)


def test_a_parser_is_measured_too(telemetry: Telemetry) -> None:
    parser = telemetry.instrument(ChatCompletionParser(), ASKED)
    for data in (HI, STOP, DONE):
        parser.feed(data)
    assert telemetry.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert "server.address" not in telemetry.attributes


@pytest.mark.parametrize("value", [None, [HI, STOP, DONE], httpx.Response(200)], ids=["nothing", "bytes", "a response"])
def test_what_cannot_be_measured_is_refused(value: Any, telemetry: Telemetry) -> None:
    for measure in (telemetry.instrument, instrument):  # with an SDK, and without
        with pytest.raises(TypeError, match=r"^stream: expected a stream, a parser or a connection, received "):
            measure(value)


def test_a_connection_that_opens_no_stream_is_refused(telemetry: Telemetry) -> None:
    response = httpx.Response(200, content=HI + STOP + DONE)
    opening: Any = contextlib.nullcontext(response)  # as `client.stream` does
    with pytest.raises(TypeError, match=r"^stream: expected a stream, as connect or aconnect opens it, received "):
        telemetry.instrument_around(opening).__enter__()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request", b'{"model": "m"}'),
        ("provider", 5),
        ("attributes", [("a", 1)]),
        ("capture_content", "no"),
        ("tracer_provider", TracerProvider().get_tracer("a")),
        ("meter_provider", TracerProvider()),
    ],
)
def test_a_wrong_argument_is_refused_before_a_request_is_sent(name: str, value: Any) -> None:
    connection = connect(httpx.Client(), "POST", "http://chunkfold.invalid", json={})
    for measured in (ChatCompletionStream([HI, STOP, DONE]), connection):
        with pytest.raises(TypeError, match=rf"^{name}: expected a.* or None|^{name}: expected a bool"):
            instrument(measured, **{name: value})


def test_two_streams_share_the_metrics(telemetry: Telemetry) -> None:
    for _ in range(2):
        telemetry.read()
    assert telemetry.point("gen_ai.client.operation.duration").count == 2
    assert len(telemetry.spans) == 2  # and the SDK, which warns of an instrument that is made twice, logged nothing


def test_telemetry_keeps_no_stream(telemetry: Telemetry) -> None:
    gc.disable()
    try:
        stream = telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]), ASKED)
        stream.read()
        stream_ref = weakref.ref(stream)
        del stream
        assert stream_ref() is None
    finally:
        gc.enable()


def test_the_callers_context_is_untouched(telemetry: Telemetry) -> None:
    token = context.attach(baggage.set_baggage("a", "b"))
    try:
        before = context.get_current()
        for _ in telemetry.instrument(ChatCompletionStream([HI, STOP, DONE])):
            assert context.get_current() is before
        assert context.get_current() is before
    finally:
        context.detach(token)


def test_a_hostile_head_is_cut_and_can_be_sent(telemetry: Telemetry) -> None:
    head = {"id": "\ud83d" * 1000, "model": "m" * 10**6, "service_tier": "\ude00", "system_fingerprint": "f" * 10**6}
    reason = {"index": 0, "delta": {"content": "\ud83d"}, "finish_reason": "x" * 10**6}
    wrong = {"prompt_tokens": "many", "completion_tokens": -1, "prompt_tokens_details": [1]}
    body = event({**head, "choices": [reason], "usage": wrong}) + DONE
    asked = {"model": "half \ud83d", "messages": [{"role": "user", "content": "half \ud83d"}]}
    telemetry.read([body], asked, capture_content=True)
    assert telemetry.attributes["gen_ai.request.model"] == "half ?"
    values = [value for value in telemetry.attributes.values() if isinstance(value, str | tuple)]
    texts = [text for value in values for text in ([value] if isinstance(value, str) else value)]
    assert all(len(text.encode()) <= 1024 for text in texts), texts
    assert [name for name in telemetry.attributes if "usage" in name] == []


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_comes_the_span_ends(first: int, telemetry: Telemetry) -> None:
    """Every other hostile stream, and the others in the slow suite."""
    for case in hostile_streams()[first::2]:
        telemetry.exporter.clear()
        stream = telemetry.read([case.body], ASKED, capture_content=True)
        assert telemetry.attributes["chunkfold.stream.end"] == stream.end, case.name
        noted = telemetry.attributes.get("chunkfold.anomalies", ())
        assert noted == tuple(anomaly.rule.id for anomaly in stream.anomalies), case.name


WRONG: list[Any] = [None, True, -1, 1.5, 10**30, "x", [1], {"a": [{}]}]
WRONG_PLACES = [
    *("id", "model", "service_tier", "system_fingerprint", "usage", "usage.cache_creation_input_tokens"),
    *("usage.prompt_tokens", "usage.completion_tokens", "usage.prompt_tokens_details"),
    *("usage.completion_tokens_details", "usage.prompt_tokens_details.cached_tokens"),
    *("usage.prompt_tokens_details.cache_write_tokens", "choices.index", "choices.finish_reason"),
    *("choices.delta.role", "choices.delta.content", "choices.delta.reasoning", "choices.delta.refusal"),
    *("choices.delta.tool_calls", "choices.delta.audio", "choices.delta.images", "choices.delta.function_call"),
]


def with_value(place: str, value: Any) -> bytes:
    """A chunk with that value in its place."""
    for key in reversed(place.split(".")):
        value = [{"index": 0, "delta": {"content": "a"}, **value}] if key == "choices" else value
        value = {key: value}
    return event({**HEAD, "choices": [], **value})


@pytest.mark.parametrize(
    ("place", "opt_in"),
    [
        pytest.param(place, opt_in, marks=pytest.mark.slow if (row + column) % 2 else ())
        for row, place in enumerate(WRONG_PLACES)
        for column, opt_in in enumerate(["", names.OPT_IN_LATEST])
    ],
)
def test_a_value_of_a_wrong_type_breaks_no_telemetry(
    opt_in: str, place: str, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.OPT_IN, opt_in)
    for value in WRONG:
        stream = telemetry.read([with_value(place, value), STOP, DONE], capture_content=True)
        attributes = dict(telemetry.spans[-1].attributes or {})
        assert attributes["chunkfold.stream.end"] == stream.end
        assert all(count >= 0 for name, count in attributes.items() if "usage" in name)
    assert len(telemetry.spans) == len(WRONG)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STREAMS, CUTS, st.booleans(), st.integers(0, 8))
def test_a_measured_stream_gives_what_it_gives_otherwise(
    made: Stream, cuts: list[int], folded: bool, left: int
) -> None:
    def result(stream: ChatCompletionStream) -> tuple[Any, ...]:
        chunks: list[Any] = []
        with suppress(ChunkfoldError), stream:
            if folded:
                stream.read()
            for chunk in () if folded else stream:
                chunks.append(chunk.model_dump())
                if len(chunks) == left:
                    break
        return chunks, stream.end, str(stream.error), stream.snapshot.model_dump(), stream.anomalies

    telemetry, pieces = Telemetry(), made.cut(cuts)
    assert result(telemetry.instrument(ChatCompletionStream(pieces))) == result(ChatCompletionStream(pieces))
    assert len(telemetry.spans) == 1


@pytest.mark.parametrize("why", ["no SDK", "not sampled, and no metrics", "switched off"])
def test_where_nothing_is_recorded_the_stream_is_left_as_it_is(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "switched off":
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    stream = ChatCompletionStream([HI, STOP, DONE])
    before = dict(vars(stream))
    if why == "no SDK":
        assert instrument(stream, ASKED) is stream
    else:
        meters = {} if why == "switched off" else {"meter_provider": NoOpMeterProvider()}
        Telemetry(is_sampled=why == "switched off").instrument(stream, **meters)
    assert vars(stream) == before
    assert type(stream._parser) is ChatCompletionParser
    with httpx.Client(trust_env=False) as client:
        connection = connect(client, "POST", "http://127.0.0.1:9", json=ASKED)
        assert why != "no SDK" or instrument(connection, ASKED) is connection


def test_metrics_do_not_need_a_sampled_span() -> None:
    unsampled = Telemetry(is_sampled=False)
    unsampled.read([HI, STOP, SPENT, DONE])
    assert unsampled.spans == []
    assert unsampled.point("gen_ai.client.operation.duration").count == 1
    assert len(unsampled.points("gen_ai.client.token.usage")) == 2


def test_a_span_does_not_need_metrics(telemetry: Telemetry) -> None:
    telemetry.read(meter_provider=NoOpMeterProvider())
    assert telemetry.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert telemetry.metrics == {}


WITHOUT = """\
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def test_without_opentelemetry_the_import_says_what_to_install() -> None:
    script = "try:\n    from chunkfold.otel import instrument\nexcept ImportError as error:\n    print(error)"
    said = printed_by(WITHOUT + script).strip()
    assert said == 'chunkfold.otel.instrument needs opentelemetry-api: pip install "chunkfold[otel]"'


def test_the_package_has_no_other_names() -> None:
    import chunkfold.otel

    assert chunkfold.otel.__all__ == ["instrument"]
    with pytest.raises(AttributeError, match="Nothing"):
        _ = chunkfold.otel.Nothing


# What the span says of the request, the provider and the server


ASKED_FOR = {
    "gen_ai.request.model": "gpt-5-mini",
    "gen_ai.request.choice.count": 2,
    "gen_ai.request.temperature": 0.0,
    "gen_ai.request.top_p": 0.5,
    "gen_ai.request.top_k": 40.0,
    "gen_ai.request.frequency_penalty": 0.25,
    "gen_ai.request.presence_penalty": -1.0,
    "gen_ai.request.max_tokens": 20,
    "gen_ai.request.seed": 7,
    "gen_ai.request.stop_sequences": ("END",),
    "gen_ai.output.type": "json",
    "openai.request.service_tier": "flex",
}


def test_the_parameters_of_the_request(telemetry: Telemetry) -> None:
    telemetry.read(request=REQUEST, provider="openai")
    attributes = telemetry.attributes
    assert {name: attributes.get(name) for name in ASKED_FOR} == ASKED_FOR
    assert isinstance(attributes["gen_ai.request.top_k"], float)
    assert "gen_ai.request.reasoning.level" not in attributes
    assert telemetry.span.name == "chat gpt-5-mini"


def test_a_request_of_wrong_types_says_nothing(telemetry: Telemetry) -> None:
    wrong: dict[str, Any] = {name: {"a": object()} for name in REQUEST}
    telemetry.read(request={**wrong, "seed": True, "n": -1})
    assert telemetry.attributes.keys() & ASKED_FOR.keys() == set()
    assert telemetry.span.name == "chat"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"response_format": {"type": "json_object"}}, {"gen_ai.output.type": "json"}),
        ({"response_format": {"type": "text"}}, {"gen_ai.output.type": "text"}),
        ({"response_format": {"type": "another"}}, {}),
        ({"modalities": ["text", "audio"]}, {"gen_ai.output.type": "speech"}),
        ({"modalities": ["text"]}, {}),
        ({"seed": 2**63 - 1}, {"gen_ai.request.seed": 2**63 - 1}),
        ({"seed": -(2**63)}, {"gen_ai.request.seed": -(2**63)}),
        ({"seed": -(2**63) - 1, "max_tokens": -1}, {}),
        ({"max_completion_tokens": 0, "max_tokens": 20}, {"gen_ai.request.max_tokens": 0}),
        ({"seed": 2**63, "temperature": 10**400, "top_k": -(10**400)}, {}),  # beyond what exporters can send
        ({"max_completion_tokens": None, "max_tokens": 20}, {"gen_ai.request.max_tokens": 20}),
    ],
)
def test_single_parameters_of_the_request(asked: Any, found: dict[str, Any], telemetry: Telemetry) -> None:
    telemetry.read(request=asked)
    assert {name: telemetry.attributes[name] for name in ASKED_FOR if name in telemetry.attributes} == found


@pytest.mark.parametrize(
    ("asked", "body", "reasons"),
    [
        (1, HI + STOP, ("stop",)),
        (3, HI + STOP + DONE, ("stop", "error", "error")),
        (2, DONE, ("error", "error")),
        (1, delta("stop", 7), ("error", "stop")),
        (10**9, DONE, ("error",) * 128),
    ],
)
def test_each_choice_that_was_asked_for_has_a_finish_reason(
    asked: int, body: bytes, reasons: tuple[str, ...], telemetry: Telemetry
) -> None:
    telemetry.read([body], {"n": asked})
    assert telemetry.attributes["gen_ai.response.finish_reasons"] == reasons


HOSTS = {
    "https://api.openai.com/v1": ("openai", 443),
    "https://my.openai.azure.com/openai": ("azure.ai.openai", 443),
    "https://my.cognitiveservices.azure.com/openai": ("azure.ai.openai", 443),
    "https://us-central1-aiplatform.googleapis.com/v1": ("gcp.vertex_ai", 443),
    "https://aiplatform.eu.rep.googleapis.com/v1": ("gcp.vertex_ai", 443),
    "https://generativelanguage.googleapis.com/v1beta/openai": ("gcp.gemini", 443),
    "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1": ("aws.bedrock", 443),
    "https://bedrock-runtime-fips.us-west-2.amazonaws.com/openai/v1": ("aws.bedrock", 443),
    "https://bedrock-mantle.us-east-1.api.aws/v1": ("aws.bedrock", 443),
    "https://api.deepseek.com": ("deepseek", 443),
    "https://api.groq.com/openai/v1": ("groq", 443),
    "http://api.mistral.ai:8080": ("mistral_ai", 8080),
    "https://api.eu.mistral.ai/v1": ("mistral_ai", 443),
    "https://codestral.mistral.ai/v1": ("mistral_ai", 443),
    "https://us.api.x.ai/v1": ("x_ai", 443),
    "http://vllm.example/v1": ("_OTHER", 80),
    "https://api.deepseek.com.example": ("_OTHER", 443),
}


@pytest.mark.parametrize("url", HOSTS)
def test_the_provider_is_known_by_its_host(url: str, telemetry: Telemetry) -> None:
    provider, port = HOSTS[url]
    body = event({**HEAD, "service_tier": "flex", "choices": []}) + STOP + DONE
    response = httpx.Response(200, content=body, request=httpx.Request("POST", url))
    telemetry.read(response)
    attributes = telemetry.attributes
    assert (attributes["gen_ai.provider.name"], attributes["server.port"]) == (provider, port)
    assert attributes["server.address"] == httpx.URL(url).host
    assert ("openai.response.service_tier" in attributes) == (provider == "openai")


def test_a_provider_and_more_attributes_can_be_given(telemetry: Telemetry) -> None:
    given = {"gen_ai.conversation.id": "conv_1", "gen_ai.request.model": "alias"}
    telemetry.read(request=ASKED, provider="groq", attributes=given)
    assert telemetry.attributes.items() >= given.items()
    assert telemetry.attributes["gen_ai.provider.name"] == "groq"
    assert "openai.api.type" not in telemetry.attributes
    point = telemetry.point("gen_ai.client.operation.duration")
    assert point.attributes["gen_ai.provider.name"] == "groq"
    assert "gen_ai.conversation.id" not in point.attributes


def test_a_response_that_was_made_by_hand_has_no_server(telemetry: Telemetry) -> None:
    telemetry.read(httpx.Response(200, content=HI + STOP))
    assert "server.address" not in telemetry.attributes
