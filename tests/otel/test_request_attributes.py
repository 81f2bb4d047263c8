"""What the span says of the request, the provider and the server."""

from typing import Any

import httpx
import pytest
from fronts import ASKED
from kept_telemetry import HI, REQUEST, Telemetry, consume, kept_telemetry, no_complaint, no_names_chosen
from made_streams import STOP

from chunkfold import ChatCompletionStream
from chunkfold.testing import DONE, HEAD, delta, event

telemetry = kept_telemetry
no_opt_in = no_names_chosen
nothing_failed = no_complaint

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
    telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]), REQUEST, provider="openai").read()
    attributes = telemetry.attributes
    assert {name: attributes.get(name) for name in ASKED_FOR} == ASKED_FOR
    assert isinstance(attributes["gen_ai.request.top_k"], float)
    assert "gen_ai.request.reasoning.level" not in attributes
    assert telemetry.span.name == "chat gpt-5-mini"


def test_a_request_of_wrong_types_says_nothing(telemetry: Telemetry) -> None:
    wrong: dict[str, Any] = {name: {"a": object()} for name in REQUEST}
    telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]), {**wrong, "seed": True, "n": -1}).read()
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
    telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]), asked).read()
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
    stream = telemetry.instrument(ChatCompletionStream([body]), {"n": asked})
    consume(stream)
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
    telemetry.instrument(ChatCompletionStream(response)).read()
    attributes = telemetry.attributes
    assert (attributes["gen_ai.provider.name"], attributes["server.port"]) == (provider, port)
    assert attributes["server.address"] == httpx.URL(url).host
    assert ("openai.response.service_tier" in attributes) == (provider == "openai")


def test_a_provider_and_more_attributes_can_be_given(telemetry: Telemetry) -> None:
    given = {"gen_ai.conversation.id": "conv_1", "gen_ai.request.model": "alias"}
    stream = ChatCompletionStream([HI, STOP, DONE])
    telemetry.instrument(stream, ASKED, provider="groq", attributes=given).read()
    assert telemetry.attributes.items() >= given.items()
    assert telemetry.attributes["gen_ai.provider.name"] == "groq"
    assert "openai.api.type" not in telemetry.attributes
    point = telemetry.point("gen_ai.client.operation.duration")
    assert point.attributes["gen_ai.provider.name"] == "groq"
    assert "gen_ai.conversation.id" not in point.attributes


def test_a_response_that_was_made_by_hand_has_no_server(telemetry: Telemetry) -> None:
    telemetry.instrument(ChatCompletionStream(httpx.Response(200, content=HI + STOP))).read()
    assert "server.address" not in telemetry.attributes
