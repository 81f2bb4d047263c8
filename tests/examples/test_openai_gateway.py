"""The gateway that writes new chunks: the openai SDK reads them, whichever provider answered, and so does strict mode."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from doc_blocks import text_of
from example_scripts import BAD_BODIES, BUSY, HI, STOP, check_refusal, load, served
from fronts import has_left

from chunkfold import ChatCompletion, ChatCompletionStream, ChunkfoldError, connect, encode_event
from chunkfold.testing import (
    DIALECTS,
    DONE,
    Answer,
    FakeProvider,
    StreamBuilder,
    choice,
    chunk,
    delta,
    fragment,
    hostile_streams,
    json_answer,
    usage,
)

QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Hi?"}]}
CALLED = [("weather", {"city": "Rome"}), ("now", {"zone": "CET"})]


def answer_in(dialect: str) -> StreamBuilder:
    said = (
        StreamBuilder(dialect)
        .text("Hel", "lo")
        .tool_calls(("weather", '{"city":', '"Rome"}'), ("now", '{"zone":"CET"}'))
    )
    return said.usage(10, 5).finish().done()


def rewritten(stream: ChatCompletionStream, *, wants_usage: bool = True) -> list[bytes]:
    """What the gateway sends of a stream."""
    writer = load("_openai_chunks").Writer("m")
    sent = [data for event in stream.events() for data in writer.chunks_of(event)]
    return [*sent, *writer.end_of(stream.completion(), wants_usage=wants_usage)]


def read_by_openai(sent: list[bytes]) -> Any:
    """What the SDK's helper makes of a body: text, calls, finish reason and tokens; None if it raises or crashes."""
    openai = pytest.importorskip("openai", "3", reason="needs openai>=3 (group `dev`)")
    with (
        FakeProvider(Answer(sent)) as provider,
        openai.OpenAI(base_url=provider.base_url, api_key="x") as client,
        suppress(Exception),  # whatever it is, the SDK has not read the answer
    ):
        with client.chat.completions.stream(**QUESTION) as stream:
            completion = stream.get_final_completion()
        (answer,) = completion.choices
        called = [(one.function.name, json.loads(one.function.arguments)) for one in answer.message.tool_calls]
        return answer.message.content, called, answer.finish_reason, completion.usage.total_tokens
    return None


EXPECTED = ("Hello", CALLED, "tool_calls", 15)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_openai_reads_the_chunks_of_every_dialect(dialect: str) -> None:
    assert read_by_openai(rewritten(ChatCompletionStream(answer_in(dialect)))) == EXPECTED


def test_if_chunks_are_passed_on_openai_cannot_read_a_third_of_the_dialects() -> None:
    def passed_on(dialect: str) -> list[bytes]:
        with ChatCompletionStream(answer_in(dialect)) as stream:
            return [*(encode_event(one.model_dump_json(exclude_unset=True)) for one in stream), DONE]

    read = [dialect for dialect in DIALECTS if read_by_openai(passed_on(dialect)) == EXPECTED]
    assert len(read) <= len(DIALECTS) * 2 / 3
    page = " ".join(text_of("docs/gateways.md").split())
    assert f"the openai SDK cannot read a third of the {len(DIALECTS)} [dialects]" in page


def content_of(completion: ChatCompletion) -> list[Any]:
    return [
        (
            one.index,
            *(one.message.content or "", one.message.reasoning or "", one.message.refusal or ""),
            sorted((call.id, call.name, call.arguments) for call in one.message.tool_calls if not call.is_server_side),
        )
        for one in completion.choices
    ]


def test_nothing_is_lost_of_the_hostile_streams_and_no_deviation_is_passed_on() -> None:
    # Calls and arguments that the model wrote like that.
    about_the_model = ("CF306", "CF310", "CF311", "CF312", "CF315")
    read = 0
    for hostile in hostile_streams(abuse=False):
        stream = ChatCompletionStream([hostile.body])
        try:
            sent = rewritten(stream)
        except ChunkfoldError:
            continue
        read += 1
        again = ChatCompletionStream(sent, strict=True, tolerate=about_the_model).read()
        assert content_of(again) == content_of(stream.completion()), hostile.name
    assert read > 150


def test_a_call_waits_for_its_id() -> None:
    call = fragment(0, name="f", arguments='{"a":')
    late = [
        delta(tool_calls=[call]),
        delta(tool_calls=[fragment(0, "call_9", arguments="1}")]),
        delta("tool_calls"),
        DONE,
    ]
    read = ChatCompletionStream(rewritten(ChatCompletionStream(late)), strict=True).read()
    assert [(one.id, one.name, one.arguments) for one in read.tool_calls] == [("call_9", "f", '{"a":1}')]


def test_a_custom_tool_s_call_stays_one() -> None:
    custom = {"index": 0, "id": "call_c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    stream = ChatCompletionStream([delta(tool_calls=[custom]), delta("tool_calls"), DONE])
    (call,) = ChatCompletionStream(rewritten(stream), strict=True).read().tool_calls
    assert (call.type, call.name, call.arguments) == ("custom", "shell", "ls")


def test_calls_of_the_server_leave_no_gap() -> None:
    calls = [fragment(0, "srvtoolu_1", "web_search", "{}"), fragment(1, "call_1", "f", "{}")]
    stream = ChatCompletionStream([delta(tool_calls=calls), delta("tool_calls"), DONE])
    sent = [json.loads(data[6:]) for data in rewritten(stream)[:-1]]
    indexes = [one["index"] for each in sent for one in each["choices"][0]["delta"].get("tool_calls", ())]
    assert set(indexes) == {0}


def test_calls_that_are_left_out_are_no_reason_to_finish() -> None:
    by_the_server = {"tool_calls": [fragment(0, "srvtoolu_1", "web_search", "{}")]}
    for left_out in (by_the_server, {"function_call": {"name": "f", "arguments": "{}"}}):
        for end in ([delta("tool_calls")], []):
            sent = rewritten(ChatCompletionStream([delta(content="Hi", **left_out), *end, DONE]))
            assert ChatCompletionStream(sent).read().finish_reason == "stop"


@pytest.mark.parametrize(("sent", "written"), [("eos_token", "stop"), ("repetition", "stop"), ("MAX_TOKENS", "length")])
def test_finish_reasons_are_those_of_openai(sent: str, written: str) -> None:
    read = ChatCompletionStream(rewritten(ChatCompletionStream([HI, delta(sent), DONE]))).read()
    assert read.finish_reason == written


def test_usage_is_sent_to_those_who_want_it() -> None:
    counted = [HI, STOP, chunk(usage=usage(10, 5)), DONE]
    assert ChatCompletionStream(rewritten(ChatCompletionStream(counted), wants_usage=False)).read().usage is None
    both = [chunk(choice("stop", content="a"), choice("stop", content="b") | {"index": 1}), *counted[2:]]
    read = ChatCompletionStream(rewritten(ChatCompletionStream(both)), strict=True).read()
    assert read.usage is not None
    assert (read.usage.total_tokens, [one.message.content for one in read.choices]) == (15, ["a", "b"])


@pytest.fixture(scope="module")
def gateway() -> Iterator[tuple[str, FakeProvider]]:
    with FakeProvider() as provider, served("openai_gateway", provider) as url:
        yield f"{url}/v1/chat/completions", provider


class TestOverHTTP:
    @pytest.fixture
    def client(self) -> Iterator[httpx.Client]:
        with httpx.Client(trust_env=False) as client:
            yield client

    def test_an_answer(self, gateway: tuple[str, FakeProvider], client: httpx.Client) -> None:
        url, provider = gateway
        provider.add(answer_in("stepfun"))
        with connect(client, "POST", url, json=QUESTION, strict=True) as stream:
            completion = stream.read()
        assert (completion.text, completion.usage) == ("Hello", None)
        assert provider.requests[-1].json["stream_options"] == {"include_usage": True}

    @pytest.mark.parametrize(
        ("answer", "status"),
        [
            (BUSY, 429),
            (json_answer({"error": {"message": "No such key: sk-secret"}}, 401), 502),
            (StreamBuilder().error("sk-secret is busy", code=503).answer(), 503),
            (StreamBuilder().answer(ending="cut"), 502),
        ],
        ids=["busy", "refused", "failed", "cut"],
    )
    def test_a_failure_before_output_has_a_status(
        self, gateway: tuple[str, FakeProvider], client: httpx.Client, answer: Answer, status: int
    ) -> None:
        url, provider = gateway
        provider.add(answer)
        response = client.post(url, json=QUESTION)
        assert (response.status_code, "sk-" in response.text) == (status, False)
        assert response.json()["error"]["message"] == "The provider failed."

    def test_a_request_that_cannot_be_read_is_refused(
        self, gateway: tuple[str, FakeProvider], client: httpx.Client
    ) -> None:
        url, provider = gateway
        asked = len(provider.requests)
        for body in (*BAD_BODIES, b'{"stream_options": 3}'):
            check_refusal(client.post(url, content=body))
        assert len(provider.requests) == asked

    def test_a_refusal_says_when_to_try_again(self, gateway: tuple[str, FakeProvider], client: httpx.Client) -> None:
        url, provider = gateway
        provider.add(json_answer({"error": {"message": "m"}}, 429, {"retry-after-ms": "6500"}))
        assert client.post(url, json=QUESTION).headers["retry-after"] == "7"

    def test_a_failure_after_output_is_the_last_event(
        self, gateway: tuple[str, FakeProvider], client: httpx.Client
    ) -> None:
        url, provider = gateway
        provider.add(Answer([HI], ending="cut"))
        with connect(client, "POST", url, json=QUESTION) as stream, pytest.raises(ChunkfoldError) as caught:
            stream.read()
        assert (caught.value.snapshot.text, stream.end) == ("Hi ", "failed")

    def test_a_client_that_leaves_stops_the_provider(
        self, gateway: tuple[str, FakeProvider], client: httpx.Client
    ) -> None:
        url, provider = gateway
        provider.add(Answer([HI, math.inf]))
        with connect(client, "POST", url, json=QUESTION) as stream:
            assert next(stream.text_deltas()) == "Hi "
        assert has_left(provider.requests[-1])
