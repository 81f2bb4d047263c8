"""The examples that join chunkfold to other packages: the openai SDK, LangChain, other HTTP clients, rich.

Each needs a package or two, and skips without them; LangChain's runs with the group `peers`. The client of a provider's
own, the relay and the page have files of their own, and `test_examples` runs the scripts as they are.
"""

import asyncio
import importlib
import math
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from io import StringIO
from typing import Any

import httpx
import pytest
from example_scripts import BUSY, HI, PATIENCE, ROLE, STOP, THERE, THOUGHT, USAGE, WHOLE, load
from fronts import generators_of_httpx_are_not_ours, has_left

from chunkfold import APIStatusError, ChatCompletionStream, IncompleteStreamError, StreamEnd, StreamInterruptedError
from chunkfold.testing import DONE, Answer, FakeProvider, Raw, chunk, delta, event, fragment, json_answer, usage

pytestmark = generators_of_httpx_are_not_ours


# Other clients


class SeenError(Exception):
    """The first piece of text was there."""


class TestOtherClients:
    @pytest.fixture
    def clients(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        module = load("other_clients")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(module, "SILENCE", PATIENCE)
        return module

    @pytest.fixture(params=["requests", "urllib3", "aiohttp"])
    def ask(self, request: pytest.FixtureRequest, clients: Any) -> Callable[[str], Any]:
        function = getattr(clients, f"with_{request.param}")
        if request.param != "aiohttp":
            return function
        return lambda url: asyncio.run(asyncio.wait_for(function(url), 2 * PATIENCE))

    @pytest.mark.parametrize("encoding", ["identity", "gzip"])
    @pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
    def test_a_stream_is_read_to_its_end(self, ask: Any, capsys: Any, framing: Any, encoding: Any) -> None:
        with FakeProvider(Answer(WHOLE, framing=framing, encoding=encoding)) as provider:
            completion = ask(provider.url)
        assert (completion.text, completion.finish_reason, completion.usage.total_tokens) == ("Hi there", "stop", 1500)
        assert capsys.readouterr().out == "Hi there"
        (request,) = provider.requests
        assert request.json["stream"]
        assert request.headers["accept-encoding"] == "identity"

    @pytest.mark.parametrize("encoding", ["identity", "gzip"])
    @pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
    def test_text_is_there_when_it_comes_and_leaving_stops_the_provider(
        self, ask: Any, clients: Any, monkeypatch: pytest.MonkeyPatch, framing: Any, encoding: Any
    ) -> None:
        def leave(text: str, **_: Any) -> None:
            raise SeenError(text)

        monkeypatch.setattr(clients, "print", leave, raising=False)
        answer = Answer([HI, math.inf, *WHOLE[1:]], framing=framing, encoding=encoding)
        with FakeProvider(answer) as provider:
            with pytest.raises(SeenError, match="Hi "):
                ask(provider.url)
            assert has_left(provider.requests[0])

    @pytest.mark.parametrize("ending", ["cut", "reset"])
    @pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
    def test_what_breaks_off_is_an_error_with_what_came(self, ask: Any, capsys: Any, framing: Any, ending: Any) -> None:
        answer = Answer([HI, 0.1], framing=framing, ending=ending)
        with FakeProvider(answer) as provider, pytest.raises(IncompleteStreamError) as caught:
            ask(provider.url)
        assert caught.value.snapshot is not None
        assert caught.value.snapshot.text == capsys.readouterr().out == "Hi "
        assert caught.value.end in (StreamEnd.INTERRUPTED, StreamEnd.TRUNCATED)

    def test_a_refusal_is_an_error_with_its_status(self, ask: Any) -> None:
        refusal = json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after": "7"})
        with FakeProvider(refusal) as provider, pytest.raises(APIStatusError) as caught:
            ask(provider.url)
        assert (caught.value.status_code, caught.value.retry_after) == (429, 7)

    def test_a_silence_is_an_interruption(self, ask: Any, clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clients, "SILENCE", 0.3)
        with FakeProvider(Answer([HI, math.inf])) as provider:
            with pytest.raises(StreamInterruptedError):
                ask(provider.url)
            assert has_left(provider.requests[0])

    def test_a_chunk_of_an_invalid_size_is_an_interruption(
        self, ask: Any, clients: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clients, "TOTAL", 3)  # only this makes aiohttp stop waiting, long after the text
        with FakeProvider(Answer([HI, 0.2, Raw(b"zz\r\n")], ending="open")) as provider:
            with pytest.raises(StreamInterruptedError) as caught:
                ask(provider.url)
            assert caught.value.snapshot is not None
            assert caught.value.snapshot.text == "Hi "


# The openai SDK


CALLED = [
    delta(tool_calls=[fragment(0, "call_a", "weather", '{"city":')]),
    delta(tool_calls=[fragment(0, arguments='"Oslo"}')]),
    delta("tool_calls"),
    USAGE,
    DONE,
]
WEATHER = {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
REASONED = ("reasoning", "reasoning_content")
ODD = [event({"choices": [{"index": 0, "delta": {"content": "Hi", "mood": "good"}, "finish_reason": "eos"}]}), DONE]


@pytest.fixture(params=["sync", "async"])
def ask_openai(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    module = load("openai_sdk")
    openai = pytest.importorskip("openai", minversion="3", reason="needs openai>=3, group `dev`")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    async def ask_async(options: Any) -> Any:
        async with openai.AsyncOpenAI(**options) as client:
            return await module.ask_async(client)

    def ask(provider: FakeProvider, **more: Any) -> Any:
        options = {"base_url": provider.base_url, "api_key": "sk-test", **more}
        if request.param == "async":
            return asyncio.run(ask_async(options))
        with openai.OpenAI(**options) as client:
            return module.ask(client)

    return ask


class TestOpenaiSdk:
    @pytest.mark.parametrize("body", [[ROLE, *WHOLE], [ROLE, *CALLED]], ids=["text", "call"])
    def test_the_completion_is_theirs_and_says_what_chunkfolds_says(self, ask_openai: Any, body: list[bytes]) -> None:
        chat: Any = importlib.import_module("openai.types.chat")
        with FakeProvider(Answer(body)) as provider:
            ours = ask_openai(provider)
        assert type(ours) is chat.ChatCompletion
        assert type(ours.choices[0].message) is chat.ChatCompletionMessage
        read = ChatCompletionStream(body).read()
        assert (ours.id, ours.model, ours.usage.total_tokens) == (read.id, read.model, 1500)
        assert spoken(ours) == spoken(read)
        assert all(type(call) is chat.ChatCompletionMessageFunctionToolCall for call in calls_of(ours))

    @pytest.mark.parametrize(
        ("body", "sent_back"),
        [
            ([ROLE, *WHOLE], {"role": "assistant", "content": "Hi there"}),
            (
                [ROLE, THOUGHT, *WHOLE[1:]],
                {"role": "assistant", "content": "there", **dict.fromkeys(REASONED, "They greet.")},
            ),
            ([delta(refusal="No."), STOP, DONE], {"role": "assistant", "content": None, "refusal": "No."}),
            ([*CALLED], {"role": "assistant", "content": None, "tool_calls": [WEATHER]}),
        ],
        ids=["text", "reasoning", "refusal", "call"],
    )
    def test_the_message_can_be_sent_back(self, ask_openai: Any, body: list[bytes], sent_back: Any) -> None:
        openai: Any = importlib.import_module("openai")
        with FakeProvider(Answer(body), json_answer({"choices": []})) as provider:
            message = ask_openai(provider).choices[0].message
            with openai.OpenAI(base_url=provider.base_url, api_key="x") as client:
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi?"}, message])
        assert provider.requests[1].json["messages"][1] == sent_back

    def test_what_their_types_do_not_know_is_kept(self, ask_openai: Any) -> None:
        with FakeProvider(Answer(ODD)) as provider:
            ours = ask_openai(provider)
        assert (ours.id, ours.choices[0].finish_reason, ours.choices[0].message.mood) == (None, "eos", "good")

    def test_their_errors_come_before_the_stream_and_ours_inside_it(self, ask_openai: Any) -> None:
        openai: Any = importlib.import_module("openai")
        refusal = json_answer({"error": {"message": "Wrong key."}}, 401)
        with FakeProvider(refusal, Answer([HI], ending="cut")) as provider:
            with pytest.raises(openai.AuthenticationError):
                ask_openai(provider, max_retries=0)
            with pytest.raises(StreamInterruptedError):
                ask_openai(provider, max_retries=0)

    def test_chunks_are_theirs_too(self) -> None:
        module = load("openai_sdk")
        chat: Any = importlib.import_module("openai.types.chat")
        for body in (WHOLE, CALLED, ODD):
            ours = list(ChatCompletionStream(body))
            theirs = [module.chunk_of(chunk) for chunk in ours]
            assert all(type(chunk) is chat.ChatCompletionChunk for chunk in theirs)
            dumps = [chunk.to_dict() for chunk in theirs]
            assert dumps == [chunk.model_dump(exclude_none=True) for chunk in ours]

    def test_chunks_without_choices_or_deltas_are_read_like_any_other(self, ask_openai: Any, capsys: Any) -> None:
        told = b'data: {"id": "1", "usage": {"total_tokens": 2}}\n\n'
        with FakeProvider(Answer([HI, b'data: {"choices": [{"finish_reason": "stop"}]}\n\n', told, DONE])) as provider:
            assert ask_openai(provider).usage.total_tokens == 2
        assert capsys.readouterr().out == "Hi "


def spoken(completion: Any) -> Any:
    (one,) = completion.choices
    calls = [(call.id, call.function.name, call.function.arguments) for call in calls_of(completion)]
    return one.finish_reason, one.message.role, one.message.content, one.message.refusal, calls


def calls_of(completion: Any) -> Any:
    return completion.choices[0].message.tool_calls or []


# LangChain


OFFERED = {"name": "weather", "description": "The weather.", "parameters": {"type": "object", "properties": {}}}
CUT_CALL = [*CALLED[:1], delta("length"), DONE]


@pytest.mark.peers
class TestLangchainModel:
    @pytest.fixture
    def asked(self) -> Callable[..., Any]:
        module = load("langchain_model")

        @asynccontextmanager
        async def asked(*answers: Any) -> AsyncIterator[Any]:
            async with AsyncExitStack() as stack:
                provider = stack.enter_context(FakeProvider(*answers))
                options: Any = {"base_url": provider.base_url, "trust_env": False}
                client = stack.enter_context(httpx.Client(**options))
                async_client = await stack.enter_async_context(httpx.AsyncClient(**options))
                yield provider, module.ChatChunkfold(model="m", client=client, async_client=async_client)

        return asked

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_it_streams(self, asked: Any) -> None:
        async with asked(*[Answer([HI, 0.02, *WHOLE[1:]])] * 2) as (provider, model):
            sync = list(model.stream("Hi?"))
            by_loop = [piece async for piece in model.astream("Hi?")]
        for pieces in (sync, by_loop):
            assert [piece.text for piece in pieces if piece.text] == ["Hi ", "there"]
            whole = sum(pieces[1:], start=pieces[0])
            assert whole.text == "Hi there"
            assert whole.usage_metadata == {"input_tokens": 1000, "output_tokens": 500, "total_tokens": 1500}
            assert whole.response_metadata["finish_reason"] == "stop"
        assert provider.requests[0].json["messages"] == [{"role": "user", "content": "Hi?"}]
        assert provider.requests[0].json["stream_options"] == {"include_usage": True}

    async def test_it_answers_at_once(self, asked: Any) -> None:
        async with asked(*[Answer([THOUGHT, *WHOLE])] * 2) as (_, model):
            for message in (model.invoke([("system", "Be brief."), ("user", "Hi?")]), await model.ainvoke("Hi?")):
                assert message.text == "Hi there"
                assert message.additional_kwargs["reasoning_content"] == "They greet."
                assert message.usage_metadata["total_tokens"] == 1500

    async def test_usage_that_comes_with_every_chunk_is_not_added_up(self, asked: Any) -> None:
        body = [HI, chunk(usage=usage(5, 1)), THERE, chunk(usage=usage(5, 2))]
        async with asked(Answer([*body, STOP, DONE])) as (_, model):
            pieces = list(model.stream("Hi?"))
        assert sum(pieces[1:], start=pieces[0]).usage_metadata["output_tokens"] == 2

    async def test_a_total_that_is_missing_is_added_up(self, asked: Any) -> None:
        told = chunk(usage={"prompt_tokens": 5, "completion_tokens": 2})
        async with asked(Answer([HI, STOP, told, DONE]), Answer([HI, STOP, DONE])) as (_, model):
            assert model.invoke("Hi?").usage_metadata == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
            assert model.invoke("Hi?").usage_metadata is None

    async def test_a_refusal_is_told_and_what_is_not_there_is_not(self, asked: Any) -> None:
        refused = [delta(refusal="I can"), delta(refusal="not."), STOP, DONE]
        async with asked(Answer(refused), Answer(refused), Answer(WHOLE)) as (_, model):
            pieces = list(model.stream("Hi?"))
            for message in (sum(pieces[1:], start=pieces[0]), model.invoke("Hi?")):
                assert message.additional_kwargs == {"refusal": "I cannot."}
            assert model.invoke("Hi?").additional_kwargs == {}

    async def test_it_calls_tools(self, asked: Any) -> None:
        tools: Any = importlib.import_module("langchain_core.messages")
        async with asked(*[Answer(CALLED)] * 2, Answer(WHOLE)) as (provider, model):
            offering = model.bind_tools([OFFERED], stop=["END"])
            pieces = list(offering.stream("How is the weather?"))
            message = offering.invoke("How is the weather?")
            for told in (sum(pieces[1:], start=pieces[0]), message):
                (call,) = told.tool_calls
                assert (call["name"], call["args"], call["id"]) == ("weather", {"city": "Oslo"}, "call_a")
            result = tools.ToolMessage("Snow.", tool_call_id="call_a")
            assert model.invoke([("user", "How?"), message, result]).text == "Hi there"
        asked_first, _, asked_last = (request.json for request in provider.requests)
        assert asked_first["tools"] == [{"type": "function", "function": OFFERED}]
        assert asked_first["stop"] == ["END"]
        assert [one["role"] for one in asked_last["messages"]] == ["user", "assistant", "tool"]
        assert asked_last["messages"][1]["tool_calls"][0]["function"]["name"] == "weather"

    async def test_a_signature_goes_back_with_its_call(self, asked: Any) -> None:
        tools: Any = importlib.import_module("langchain_core.messages")
        signed = {**fragment(0, "call_a", "weather", "{}"), "extra_content": {"google": {"thought_signature": "c2ln"}}}
        async with asked(*[Answer([delta(tool_calls=[signed]), delta("tool_calls"), DONE]), Answer(WHOLE)] * 2) as one:
            provider, model = one
            pieces = list(model.stream("How?"))
            for message in (sum(pieces[1:], start=pieces[0]), None):
                told = message or model.invoke("How?")
                model.invoke([("user", "How?"), told, tools.ToolMessage("Snow.", tool_call_id="call_a")])
        for request in provider.requests[1::2]:
            (call,) = request.json["messages"][1]["tool_calls"]
            assert call["extra_content"] == signed["extra_content"]

    async def test_a_call_that_the_server_ran_is_not_one_to_run(self, asked: Any) -> None:
        searched = delta(tool_calls=[fragment(0, "srvtoolu_1", "web_search", "{}")])
        async with asked(Answer([searched, *WHOLE])) as (_, model):
            message = model.invoke("Hi?")
        assert (message.text, message.tool_calls, message.invalid_tool_calls) == ("Hi there", [], [])

    async def test_half_a_call_is_no_call(self, asked: Any) -> None:
        async with asked(Answer(CUT_CALL)) as (_, model):
            message = model.invoke("How is the weather?")
        assert message.tool_calls == []
        assert [(call["name"], call["args"]) for call in message.invalid_tool_calls] == [("weather", '{"city":')]

    async def test_errors_are_chunkfolds(self, asked: Any) -> None:
        async with asked(BUSY, Answer([HI], ending="cut")) as (_, model):
            with pytest.raises(APIStatusError):
                model.invoke("Hi?")
            with pytest.raises(StreamInterruptedError):
                list(model.stream("Hi?"))


# In the terminal


class TestRichUi:
    def shown(self, source: Any, **options: Any) -> str:
        module = load("rich_ui")
        console: Any = importlib.import_module("rich.console")
        screen = options.pop("file", StringIO())
        module.show(ChatCompletionStream(source), console.Console(file=screen, width=60, **options))
        return str(screen.getvalue())

    def test_the_answer_is_printed_once_and_then_the_facts(self) -> None:
        pieces = ["# Tea\n", "\nBlack or", " green?\n\n", "```py\nx = 1\n\n", "# no heading\n```\n\n", "- one\n- two"]
        lines = self.shown([THOUGHT, *(delta(content=piece) for piece in pieces), STOP, USAGE, DONE]).splitlines()
        told = [
            bare for line in lines if (bare := line.strip(" ┏━┓┃┗┛"))
        ]  # some versions of rich put a heading in a box
        assert told[:6] == ["Tea", "Black or green?", "x = 1", "# no heading", "• one", "• two"]
        assert re.fullmatch(r"finished, first output after \d+\.\d s(, .* tokens/s)?", told[6])
        assert len(told) == 7

    def test_the_reasoning_is_seen_while_it_lasts(self) -> None:
        screen = StringIO()

        def body() -> Iterator[bytes]:
            yield THOUGHT
            for _ in range(int(PATIENCE * 100)):
                if "They greet." in screen.getvalue():
                    break
                threading.Event().wait(0.01)
            yield from (HI, STOP, DONE)

        written = self.shown(body(), file=screen, force_terminal=True)
        assert "They greet." in written
        assert "Hi" in written.partition("They greet.")[2]

    def test_a_failure_is_told_below_what_came(self) -> None:
        failure = event({"error": {"message": "Over\x1b[2Jloaded.", "code": 503}})
        told = self.shown([delta(content="Once upon"), failure])
        assert re.search(r"Once upon.*APIError.*loaded\..*failed, first output", told, re.DOTALL)
        assert "\x1b" not in told

    def test_a_call_is_told_and_nothing_steers_the_terminal(self) -> None:
        call = fragment(0, "call_a", "save\x1b]0;x\x07", '{"to": "\x1b[31m"}')
        told = self.shown([delta(content="\x1b[2J\x9bHi\x08\r"), delta(tool_calls=[call]), delta("tool_calls"), DONE])
        assert "save" in told
        assert '{"to": "' in told
        assert "Hi" in told
        assert not set(told) & {*map(chr, range(9)), "\x1b", "\r", "\x9b"}
