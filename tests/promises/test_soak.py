"""The soak (`soak.py`) finds nothing, and would find what it looks for: each kind of fault is planted once.

The 20,000 streams that it is made for are run by hand; here are fewer.
"""

import asyncio
import gc
import mmap
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
import soak
from measured_memory import only_garbage_of_these_tests

from chunkfold import AsyncChatCompletionStream, ChatCompletionParser

collecting_is_quick = only_garbage_of_these_tests
pytestmark = [pytest.mark.skipif(not soak.PROC.exists(), reason="needs Linux's /proc"), pytest.mark.slow]

FEW = 12  # streams with a fault each, none of which takes long


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with soak.provider_for(1000) as url:
        yield url


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something stays for good, waiting for it is of no use."""
    monkeypatch.setattr(soak, "SETTLING", 0.02)


def run_few(url: str, **options: Any) -> soak.Report:
    return soak.Soak(url, **{"streams": FEW, "concurrency": 4, "seed": 5, **options}).run()


def test_a_thousand_streams() -> None:
    command = [sys.executable, soak.__file__, "--streams", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert "OK: every stream ended as it should" in done.stdout
    assert "at most 8 MB more" in done.stdout
    for fault in soak.FAULTS:
        assert re.search(rf"^{fault} +[1-9]", done.stdout, re.MULTILINE)


# What is planted: something that a stream does when its last chunk was handed out


Plant = Callable[[Callable[[AsyncChatCompletionStream], None]], None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    finish = AsyncChatCompletionStream._finish

    def plant(fault: Callable[[AsyncChatCompletionStream], None]) -> None:
        async def finish_and_more(self: AsyncChatCompletionStream) -> None:
            fault(self)
            await finish(self)

        monkeypatch.setattr(AsyncChatCompletionStream, "_finish", finish_and_more)

    return plant


def assert_found(report: soak.Report, words: str) -> None:
    assert any(re.search(words, what) for what in report.wrong), report.wrong
    assert "WRONG: " in str(report)
    assert "OK" not in str(report)


def test_memory_that_grows(url: str, plant: Plant) -> None:
    kept: list[mmap.mmap] = []

    def keep(_: object) -> None:
        kept.append(mmap.mmap(-1, 4 * soak.MEGABYTE))  # pages of its own, whatever was freed before
        kept[-1].write(b"x" * len(kept[-1]))

    plant(keep)
    report = run_few(url)
    for pages in kept:
        pages.close()
    assert [what for what in report.wrong if not what.startswith("the memory grew from ")] == []
    assert_found(report, "the memory grew from ")


def fail_in_a_callback() -> None:
    def fail() -> None:
        raise ValueError("planted")

    asyncio.get_running_loop().call_soon(fail)


class Failing:
    def __del__(self) -> None:
        raise ValueError("planted")


# What is planted, given the stream and a list that keeps objects, and what is said of it.
PLANTED: dict[str, tuple[Callable[[AsyncChatCompletionStream, list[object]], object], str]] = {
    "streams that are kept": (
        lambda stream, kept: kept.append(stream),
        r"after \d+ streams there are still: .*'AsyncChatCompletionStream': ",
    ),
    "objects of others that grow": (lambda _, kept: kept.extend([] for _ in range(1000)), "the objects grew from "),
    "a task that runs on": (
        lambda _, kept: kept.append(asyncio.create_task(asyncio.sleep(1000))),
        r"after \d+ streams: \d+ tasks run",
    ),
    "a warning": (
        lambda *_: warnings.warn("planted", ResourceWarning, stacklevel=1),
        r"\d+ times: ResourceWarning: planted",
    ),
    "an exception in a callback": (lambda *_: fail_in_a_callback(), r"times: the event loop's handler: .*planted"),
    "an exception that nobody can catch": (
        lambda *_: Failing() and None,
        r"times: unraisable: ValueError\('planted'\)",
    ),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("fault", "words"), PLANTED.values(), ids=PLANTED)
def test_it_is_found(
    url: str, plant: Plant, fault: Callable[[AsyncChatCompletionStream, list[object]], object], words: str
) -> None:
    kept: list[object] = []
    plant(lambda stream: fault(stream, kept) and None)
    assert_found(run_few(url), words)
    gc.collect()


@pytest.mark.usefixtures("soon")
def test_a_file_that_stays_open(url: str, plant: Plant) -> None:
    files: list[int] = []
    plant(lambda _: files.append(os.dup(0)))
    try:
        report = run_few(url)
    finally:
        for file in files:
            os.close(file)
    assert_found(report, r"after \d+ streams: \d+ files are open beside the idle connections")
    assert_found(report, r"at the end: \d+ files are open that were not at the start")


@pytest.mark.usefixtures("soon")
def test_a_connection_that_is_not_given_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def aclose(self: httpx.Response) -> None:
        pass

    monkeypatch.setattr(httpx.Response, "aclose", aclose)
    report = run_few(url)
    assert_found(report, r"after \d+ streams: \d+ connections are in use")
    assert_found(report, r"its response is open \(--seed 5 --only \d+\)")


def test_another_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chunkfold.stream.driver.end_of_body", lambda parser, exc, **options: parser.close())
    report = run_few(url)
    assert_found(report, r"cut in chunks: expected the end interrupted, received truncated \(--seed 5 --only 5\)")
    assert_found(report, r"cut in chunks: expected StreamInterruptedError, raised IncompleteStreamError")


def test_an_error_that_is_not_raised(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def finish(self: AsyncChatCompletionStream) -> None:
        self._consumed = True

    monkeypatch.setattr(AsyncChatCompletionStream, "_finish", finish)
    assert_found(run_few(url), r"expected \w+, raised None")


def test_a_cancellation_that_does_not_pass(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = AsyncChatCompletionStream._read

    async def read_anyway(self: AsyncChatCompletionStream, **options: Any) -> Any:
        try:
            return await read(self, **options)
        except asyncio.CancelledError as exc:
            return self._parser.interrupt(exc)

    monkeypatch.setattr(AsyncChatCompletionStream, "_read", read_anyway)
    assert_found(run_few(url), "cancelled at an item: expected CancelledError, raised StreamInterruptedError")


def test_another_text(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take = ChatCompletionParser._feed_or_fold

    def take_more(self: ChatCompletionParser, data: bytes, *given: Any, **options: Any) -> Any:
        return take(self, data.replace(b'"content":"', b'"content":"~'), *given, **options)

    monkeypatch.setattr(ChatCompletionParser, "_feed_or_fold", take_more)
    monkeypatch.setattr("chunkfold.stream.driver.feed_or_fold", take_more)
    assert_found(run_few(url), r"expected the text '.*, received '~")


def test_a_stream_that_hangs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def finish(self: AsyncChatCompletionStream) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(AsyncChatCompletionStream, "_finish", finish)
    monkeypatch.setattr(soak, "PATIENCE", 0.2)
    assert_found(run_few(url, streams=3), "it hangs")


Command = Callable[..., int]


@pytest.fixture
def run_main(url: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command in this process, with the provider that is there."""

    def run_main(*arguments: str) -> int:
        monkeypatch.setattr(soak, "provider_for", lambda streams: nullcontext(url))
        monkeypatch.setattr(sys, "argv", ["soak.py", *arguments])
        return soak.main()

    return run_main


def test_the_command_fails_where_something_is_wrong(
    run_main: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main("--seed", "5", "--only", "5") == 0
    said = capsys.readouterr().out
    assert said.startswith("cut in chunks\n")
    assert "WRONG" not in said
    monkeypatch.setattr("chunkfold.stream.driver.end_of_body", lambda parser, exc, **options: parser.close())
    assert run_main("--streams", str(FEW), "--seed", "5") == 1
    assert "WRONG: cut in chunks: " in capsys.readouterr().out
    assert run_main("--seed", "5", "--only", "5") == 1
    said = capsys.readouterr().out
    assert said.startswith("cut in chunks\n")
    assert "WRONG: expected the end interrupted, received truncated" in said
