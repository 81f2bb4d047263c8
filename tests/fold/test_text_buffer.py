"""The buffer of texts that grow."""

import copy
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType

import pytest
from own_process import printed_by

from chunkfold.fold import text_buffer
from chunkfold.fold.text_buffer import TextBuffer

WORDS = ["a", "bc", "", "d€", "\N{GRINNING FACE}", "\ud83d", "\r\n"]


@pytest.mark.parametrize("large", [3, 2**16])
def test_it_is_the_joined_text_whenever_it_is_compacted(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_buffer, "_LARGE", large)
    buffer, text, values = TextBuffer(), "", []
    for number in range(2_000):
        word = WORDS[number % len(WORDS)] * (number % 5)
        text += word
        assert buffer.write(word) == len(word)
        if number % 3 == 0:
            buffer.compact()
        if number % 7 == 0:
            values.append((buffer.getvalue(), text))
        assert buffer.tell() == len(text)
    assert buffer.getvalue() == text
    assert all(value == expected for value, expected in values)  # appending in place leaves what was handed out


def interrupt(_: TextBuffer) -> None:
    """What a signal handler may do."""
    raise KeyboardInterrupt


class Acting:
    """Inside `with`, acts once where a signal handler or a thread could: as a function begins, or behind a call."""

    def __init__(self, act: Callable[[], object], place: int) -> None:
        self.act, self.place, self.places = act, place, 0

    def __enter__(self) -> None:
        sys.setprofile(self)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if frame.f_code.co_filename == text_buffer.__file__ and event in ("call", "c_return"):
            self.places += 1
            if self.places == self.place:
                self.act()


@pytest.mark.parametrize("act", [interrupt, TextBuffer.getvalue], ids=["interrupted", "read by another thread"])
def test_it_is_the_same_whatever_happens_meanwhile(act: Callable[[TextBuffer], object]) -> None:
    for place in range(1, 50):
        buffer = TextBuffer("ab" * 50)
        for word in ("c", "", "de"):
            buffer.write(word)
            buffer.compact()
        buffer.write("f")
        acting = Acting(partial(act, buffer), place)
        with suppress(KeyboardInterrupt), acting:
            buffer.getvalue()
        assert (buffer.tell(), buffer.getvalue()) == (104, "ab" * 50 + "cdef")
        if acting.places < place:
            assert place > 5
            return
    pytest.fail("it never ran through")


def test_a_large_piece_is_written_or_not_wherever_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_buffer, "_LARGE", 3)
    values: list[str] = []
    for place in range(1, 50):
        buffer = TextBuffer("ab" * 50)
        buffer.write("c")
        acting = Acting(partial(interrupt, buffer), place)
        with suppress(KeyboardInterrupt), acting:
            buffer.write("def")
        values.append(buffer.getvalue()[100:])
        assert buffer.tell() == len(buffer.getvalue())
        if acting.places < place:
            assert place > 5
            assert {*values} == {"c", "cdef"}
            return
    pytest.fail("it never ran through")


@pytest.mark.parametrize("kind", [copy.copy, copy.deepcopy])
def test_a_copy_grows_on_its_own(kind: object) -> None:
    assert callable(kind)
    buffer = TextBuffer()
    buffer.write("a")
    buffer.compact()
    other = kind(buffer)
    other.write("b")
    buffer.write("c")
    assert (buffer.getvalue(), other.getvalue()) == ("ac", "ab")


def test_the_size_counts_four_bytes_where_any_character_is_not_ascii() -> None:
    buffer = TextBuffer()
    for number in range(100):
        buffer.write("abc")
        buffer.compact()
        assert buffer.size == 3 * (number + 1)
    buffer.write("é")
    assert buffer.size == 4 * 301


@pytest.fixture
def _untraced() -> Iterator[None]:
    """A tracer, such as coverage's, keeps CPython from appending in place."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


@pytest.mark.usefixtures("_untraced")
@pytest.mark.parametrize(("word", "width"), [("word ", 1), ("wörd€ ", 2)])
def test_it_is_not_copied_as_a_whole_at_the_end(word: str, width: int) -> None:
    """On CPython, which appends in place."""
    count = 30_000
    for _ in range(2):  # the interpreter first has to see that the two are texts
        buffer = TextBuffer()
        tracemalloc.start()
        for number in range(count):
            buffer.write(word)
            if number % 1_000 == 0:
                buffer.compact()
        size = len(buffer.getvalue()) * width
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert size == count * len(word) * width
    assert peak <= 1.2 * size + 30_000


class NoMoreMemory(str):
    """A text to which nothing can be appended."""

    __slots__ = ()

    def __add__(self, other: str) -> str:
        raise MemoryError


def test_a_text_that_was_lost_is_never_given_in_part() -> None:
    buffer = TextBuffer(NoMoreMemory("a" * 100))
    buffer.write("b")
    for _ in range(2):
        with pytest.raises(MemoryError):
            buffer.getvalue()


WITHOUT_MEMORY = """
import resource
from chunkfold.fold.text_buffer import TextBuffer

buffer = TextBuffer("a" * 2**26)
buffer.write("b" * 2**20)
buffer.compact()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for limit in (used + 2**18, -1):
    resource.setrlimit(resource.RLIMIT_AS, (limit, -1))
    try:
        print(len(buffer.getvalue()))
    except MemoryError:
        print("MemoryError")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the memory of a process is not limited in this way")
def test_nor_one_that_a_process_without_memory_lost() -> None:
    assert printed_by(WITHOUT_MEMORY).split() in (["MemoryError"] * 2, ["MemoryError", str(2**26 + 2**20)])
