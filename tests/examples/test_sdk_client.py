"""The example of a provider's own client: its events, errors and attempts, sync and async."""

import importlib
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from time import sleep
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from example_scripts import BUSY, HI, ROLE, THERE, WHOLE, load
from fronts import SyncView, generators_of_httpx_are_not_ours, has_left, run_over

from chunkfold import ChoiceFinished, StreamInterruptedError, TextDelta
from chunkfold.testing import DONE, Answer, FakeProvider, delta, event, json_answer


@pytest.fixture
def slow_attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """stamina retries as it does for users, by a clock that goes on by 100 seconds whenever it is looked at."""
    stamina: Any = pytest.importorskip("stamina")
    tenacity: Any = importlib.import_module("tenacity")
    monkeypatch.setattr(tenacity, "time", SimpleNamespace(monotonic=partial(next, count(0, 100)), sleep=sleep))
    with stamina.set_testing(False):
        yield


@asynccontextmanager
async def sync_chat(sdk: Any, url: str) -> AsyncIterator[Any]:
    with sdk.Acme(base_url=url, trust_env=False) as acme, acme.chat(model="m", messages=[]) as events:
        yield SyncView(iter(events))


@asynccontextmanager
async def async_chat(sdk: Any, url: str) -> AsyncIterator[Any]:
    async with sdk.AsyncAcme(base_url=url, trust_env=False) as acme, acme.chat(model="m", messages=[]) as events:
        yield events


FRONTS = {"sync": (sync_chat, "asyncio"), "asyncio": (async_chat, "asyncio"), "trio": (async_chat, "trio")}


pytestmark = generators_of_httpx_are_not_ours


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_over(metafunc, FRONTS)


BUSY_FOR_A_MOMENT = json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after-ms": "1"})


class TestSdkClient:
    @pytest.fixture(autouse=True)
    def _without_waits(self) -> Iterator[None]:
        """stamina waits for nothing, and tells nobody."""
        stamina: Any = importlib.import_module("stamina")
        stamina.instrumentation.set_on_retry_hooks([])
        with stamina.set_testing(True, attempts=3, cap=True):
            yield
        stamina.instrumentation.set_on_retry_hooks(None)

    @pytest.fixture
    def sdk(self) -> Any:
        return load("sdk_client")

    async def test_asks_again_until_there_is_output_and_tells_all_of_it(self, sdk: Any, front: Any) -> None:
        broken = Answer([ROLE, 0.01], ending="cut")
        with FakeProvider(BUSY, broken, Answer(WHOLE)) as provider:
            async with front(sdk, provider.base_url) as events:
                told = [one async for one in events]
        assert "".join(one.delta for one in told if isinstance(one, TextDelta)) == "Hi there"
        assert [one.finish_reason for one in told if isinstance(one, ChoiceFinished)] == ["stop"]
        assert len(provider.requests) == 3

    async def test_asks_nothing_twice_once_output_was_handed_out(self, sdk: Any, front: Any) -> None:
        told: list[Any] = []
        with FakeProvider(Answer([HI, 0.01, THERE], ending="cut")) as provider:
            with pytest.raises(sdk.AcmeError) as caught:
                await self.tell(front(sdk, provider.base_url), told)
            assert len(provider.requests) == 1
        assert "".join(one.delta for one in told) == "Hi there"
        assert isinstance(caught.value.__cause__, StreamInterruptedError)
        assert caught.value.__cause__.snapshot is not None
        assert caught.value.__cause__.snapshot.text == "Hi there"

    async def tell(self, chat: Any, told: list[Any]) -> None:
        async with chat as events:
            async for one in events:  # one by one: what came before an error counts
                told.append(one)  # noqa: PERF401

    @pytest.mark.parametrize(
        ("answer", "kind", "attempts"),
        [
            (json_answer({"error": {"message": "Wrong key."}}, 401), "AcmeKeyError", 1),
            (BUSY, "AcmeBusyError", 3),
            (json_answer({"error": {"message": "Later."}}, 429, {"retry-after": "3600"}), "AcmeBusyError", 1),
            (json_answer({"error": {"message": "What?"}}, 400), "AcmeError", 1),
            (Answer(event({"error": {"message": "Overloaded.", "code": 503}})), "AcmeBusyError", 3),
            (Answer(b"<html>", headers={"content-type": "text/html"}), "AcmeError", 1),
        ],
        ids=["key", "busy", "for-an-hour", "request", "inside-the-stream", "no-stream"],
    )
    async def test_errors_have_types(self, sdk: Any, front: Any, answer: Answer, kind: str, attempts: int) -> None:
        with FakeProvider(*[answer] * 3) as provider:
            with pytest.raises(sdk.AcmeError) as caught:
                await self.tell(front(sdk, provider.base_url), [])
            assert len(provider.requests) == attempts
        assert type(caught.value) is getattr(sdk, kind)

    @pytest.mark.usefixtures("slow_attempts")
    async def test_each_attempt_may_take_its_time(self, sdk: Any, front: Any) -> None:
        with FakeProvider(BUSY_FOR_A_MOMENT, BUSY_FOR_A_MOMENT, Answer(WHOLE)) as provider:
            async with front(sdk, provider.base_url) as events:
                assert [one async for one in events]
            assert len(provider.requests) == 3

    async def test_who_is_not_there_is_asked_again_too(self, sdk: Any, front: Any) -> None:
        with FakeProvider() as provider:
            url = provider.base_url
        with pytest.raises(sdk.AcmeError) as caught:
            await self.tell(front(sdk, url), [])
        assert isinstance(caught.value.__cause__, httpx.ConnectError)

    async def test_an_answer_may_be_empty(self, sdk: Any, front: Any) -> None:
        with FakeProvider(Answer([ROLE, delta("content_filter"), DONE])) as provider:
            async with front(sdk, provider.base_url) as events:
                assert [one.finish_reason async for one in events] == ["content_filter"]

    async def test_leaving_stops_the_provider(self, sdk: Any, front: Any) -> None:
        with FakeProvider(Answer([HI, math.inf])) as provider:
            async with front(sdk, provider.base_url) as events:
                async for one in events:
                    assert one.delta == "Hi "
                    break
            assert has_left(provider.requests[0])


@pytest.mark.usefixtures("slow_attempts")
def test_falling_back_lets_each_attempt_take_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    load("sdk_client")
    module = importlib.import_module("retry_and_fall_back")
    with FakeProvider(*[BUSY_FOR_A_MOMENT] * 4, Answer(WHOLE)) as provider, httpx.Client(trust_env=False) as client:
        assert module.ask(client, provider.url, []) == "Hi there"
    assert capsys.readouterr().out == "Hi there"
