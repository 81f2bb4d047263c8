"""The pytest plugin: fixtures from `chunkfold.testing`, and failures that show the events where two bodies differ.

It is outside the package because pytest imports it in every run: no module of chunkfold is loaded before a test
requests a fixture or a comparison of bodies fails.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from chunkfold import AsyncChatCompletionStream, ChatCompletionStream
    from chunkfold.testing import FakeProvider, RecordedProvider, StreamBuilder

_DIALECT = "chunkfold_dialect"
_FOLDER = "recordings"  # beside the test's module
_LONGEST = 100  # characters of a file name
_PAYLOAD = re.compile(rb"^(data|error): ?[\[{]", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--chunkfold-record`."""
    parser.getgroup("chunkfold").addoption(
        "--chunkfold-record",
        choices=["none", "new"],
        default="none",
        help="where chunkfold_recording has no recording: none fails, new asks the real provider and makes one",
    )


@pytest.fixture
def chunkfold_provider() -> Iterator[FakeProvider]:
    """A running `FakeProvider` on a loopback port; `add` appends an answer to its script."""
    from chunkfold.testing import FakeProvider

    with FakeProvider() as provider:
        yield provider


@pytest.fixture
def chunkfold_stream() -> Iterator[Callable[..., ChatCompletionStream]]:
    """A function that takes a `StreamBuilder`, an `Answer` or a body and returns a stream that reads it.

    The stream is closed when the test ends.

    Its options are those of `FakeResponse` (`clock`, `read_timeout`) and of the stream.
    """
    from chunkfold import ChatCompletionStream
    from chunkfold.testing import FakeResponse

    with ExitStack() as opened:

        def stream(answer: Any, *, read_timeout: float | None = None, **options: Any) -> ChatCompletionStream:
            clock = options.get("clock")
            response = FakeResponse(answer, clock=clock, read_timeout=read_timeout)
            return opened.enter_context(ChatCompletionStream(response, **options))

        yield stream


@pytest.fixture
def chunkfold_async_stream() -> Iterator[Callable[..., AsyncChatCompletionStream]]:
    """The same with an `AsyncChatCompletionStream`, for any event loop; the test has to close it.

    An unclosed stream holds no resources, since it does no I/O.
    """
    from chunkfold import AsyncChatCompletionStream
    from chunkfold.testing import FakeResponse

    opened: list[AsyncChatCompletionStream] = []

    def stream(answer: Any, *, read_timeout: float | None = None, **options: Any) -> AsyncChatCompletionStream:
        response = FakeResponse(answer, clock=options.get("clock"), read_timeout=read_timeout)
        opened.append(AsyncChatCompletionStream(response, **options))
        return opened[-1]

    yield stream
    for each in opened:
        each.response.close()  # else the stream would warn that it was left open


@pytest.fixture
def chunkfold_recording(request: pytest.FixtureRequest) -> Iterator[Callable[..., RecordedProvider]]:
    """A function that takes a real provider's base URL and returns a provider that replays its recorded answers.

    It runs until the test ends, or until the end of a `with` block. The recordings are in `recordings/MODULE/TEST`
    beside the test, or `recordings/MODULE/CLASS/TEST`; see `--chunkfold-record`. Its options are `name`, which replaces
    the test's name, and `speed`.
    """
    from chunkfold.testing import RecordedProvider

    record: Any = request.config.getoption("--chunkfold-record")
    folders: set[Path] = set()
    with ExitStack() as running:

        def recording(upstream: str, *, name: str | None = None, speed: float = 0.0) -> RecordedProvider:
            folder = _folder_of(request, name)
            if folder in folders:
                raise ValueError(f"name: expected another one for each recording of a test, received {folder.name!r}")
            folders.add(folder)
            return running.enter_context(RecordedProvider(upstream, folder, record=record, speed=speed))

        yield recording


@pytest.fixture
def chunkfold_dialect(request: pytest.FixtureRequest) -> str:
    """The name of a dialect: the test runs once for each of `chunkfold.testing.DIALECTS`."""
    dialect: str = request.param  # see pytest_generate_tests
    return dialect


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that requests `chunkfold_dialect` once for each dialect, by its name."""
    if _DIALECT not in metafunc.fixturenames or _is_parametrized(metafunc, _DIALECT) or _is_replaced(metafunc):
        return
    from chunkfold.testing import DIALECTS

    metafunc.parametrize(_DIALECT, list(DIALECTS))


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """If two bodies of streams are not equal, show the events around the first difference."""
    if op != "==" or not (_is_body(left) and _is_body(right)):
        return None
    one, other = _bytes_of(left), _bytes_of(right)
    if one == other:  # a builder and bytes, or builders that say the same in other words
        return None
    from chunkfold.testing.body_events import difference_of

    return difference_of(one, other)


def _is_parametrized(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether the test chooses the dialects itself."""
    marks = metafunc.definition.iter_markers("parametrize")
    names = (mark.args[0] if mark.args else mark.kwargs["argnames"] for mark in marks)
    return any(name in (each.replace(" ", "").split(",") if isinstance(each, str) else each) for each in names)


def _is_replaced(metafunc: pytest.Metafunc) -> bool:
    """Whether the fixture is another one, of the same name."""
    found: Mapping[str, Sequence[Any]] = getattr(metafunc, "_arg2fixturedefs", {})  # there is no public way
    return any(each.func.__module__ != __name__ for each in found.get(_DIALECT, ())[-1:])


def _folder_of(request: pytest.FixtureRequest, name: str | None) -> Path:
    """The folder with the recordings of the test, or with those of that name; no two tests share a folder."""
    path: Path = request.path
    nodeid: str = request.node.nodeid
    _, *parts = nodeid.split("::")
    # No name in Python has a "-", so that it can stand for the brackets of parameters.
    names = [name] if name is not None else [re.sub(r"\[(.*)\]$", r"-\1", part) for part in parts]
    return path.parent.joinpath(_FOLDER, path.stem, *map(_file_name, names))


def _file_name(name: str) -> str:
    """The name if it is valid for a folder; else its valid characters and a hash of the whole name."""
    kept = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:_LONGEST]
    return kept if kept == name else f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _is_body(value: object) -> bool:
    """Whether it is the body of an event stream, or a builder of one."""
    return _is_builder(value) or (isinstance(value, bytes) and _PAYLOAD.search(value) is not None)


def _is_builder(value: object) -> bool:
    return type(value).__name__ == "StreamBuilder"


def _bytes_of(value: Any) -> bytes:
    builder: StreamBuilder = value
    return value if isinstance(value, bytes) else builder.body
