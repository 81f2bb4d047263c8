"""Events that differ in a text alone, and a check that many of them at a time give what they give one by one."""

import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from repeating_bodies import each_validated
from short_inputs import short_runs

from chunkfold import ChatCompletionChunk, ChatCompletionParser
from chunkfold.models.base import Model
from chunkfold.parser.template import EventTemplate
from chunkfold.testing import chunk, fragment
from chunkfold.testing.wire import choice

ID = b'"id":"c1","object":"chat.completion.chunk","created":1760000000,"model":"m"'
FIRST = chunk(choice(role="assistant", content=""), id="c1", model="m")


def sent(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def said(text: bytes, choice: int = 0, more: bytes = b"") -> bytes:
    content = b'"delta":{"content":"%b"},"logprobs":null,"finish_reason":null' % text
    return sent(b'{%b,"choices":[{"index":%d,%b}]%b}' % (ID, choice, content, more))


def thought(text: bytes) -> bytes:
    return sent(b'{%b,"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"%b"}}]}' % (ID, text))


def argued(text: bytes, call: bytes = b'"index":0') -> bytes:
    calls = b'[{%b,"function":{"arguments":"%b"}}]' % (call, text)
    return sent(b'{%b,"choices":[{"index":0,"delta":{"tool_calls":%b},"finish_reason":null}]}' % (ID, calls))


def argued_twice(text: bytes) -> bytes:
    calls = b'[{"index":0,"function":{"arguments":"%b"}},{"index":1,"function":{"arguments":"%b."}}]' % (text, text)
    return sent(b'{%b,"choices":[{"index":0,"delta":{"tool_calls":%b},"finish_reason":null}]}' % (ID, calls))


def counted(text: bytes, tokens: int) -> bytes:
    usage = b',"usage":{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":%d}' % (tokens, tokens + 9)
    return said(text, more=usage)


def in_turns(text: bytes) -> bytes:
    return said(text, sum(text) % 4)


def at(seconds: int, event: bytes) -> bytes:
    return event.replace(b'"created":1760000000', b'"created":%d' % seconds)


@pytest.fixture(name="runs_are_short", autouse=True, scope="module")
def all_runs_are_short() -> Iterator[None]:
    with short_runs():
        yield


def result_of(reads: list[bytes], take: Callable[[ChatCompletionParser, bytes], Any], **options: Any) -> Any:
    parser = ChatCompletionParser(clock=lambda: 0.0, **options)
    chunks: list[ChatCompletionChunk] = []
    for read in reads:
        chunks += take(parser, read) or []
    chunks += parser.close()
    error = parser.error and (type(parser.error).__name__, str(parser.error))
    kept = parser.snapshot.model_dump_json(exclude_unset=True)
    result = kept, parser.anomalies, parser.chunks, parser.end, error, parser.snapshot.choices[:1]
    limit = parser._body._output_limit
    return result, [shown(chunk) for chunk in chunks], limit._estimate


class Shown(pickle.Pickler):
    """A chunk with the types of its values, and with what was sent of its fields, in any order."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Model):
            return NotImplemented
        return type(value), (vars(value), value.model_extra, sorted(value.model_fields_set), value.__pydantic_private__)


def shown(chunk: ChatCompletionChunk) -> bytes:
    written = io.BytesIO()
    pickler = Shown(written)
    pickler.fast = True  # a value that is there twice is written twice, whether it is the same object or not
    pickler.dump(chunk)
    return written.getvalue()


def framed_otherwise(events: list[bytes], field: bytes = b"data:") -> list[bytes]:
    """Lines that end with CRLF, and without a space after the field's name."""
    return [one.replace(b"data: ", field).replace(b"\n", b"\r\n") for one in events]


def check(before: list[bytes], run: list[bytes], **options: Any) -> int:
    """A run after other events is the same as these events, each validated; return how much of it was taken at once.

    Framed one way or another; what is returned is the lesser of the two.
    """
    taken = check_as_it_is(framed_otherwise(before), framed_otherwise(run), **options)
    return min(taken, check_as_it_is(before, run, **options))


def check_as_it_is(before: list[bytes], run: list[bytes], **options: Any) -> int:
    taken = 0
    fold_run = EventTemplate.fold_run

    def watched(*args: Any) -> int:
        nonlocal taken
        size = fold_run(*args)
        taken += size
        return size

    with each_validated():
        expected, chunks, _ = result_of([*before, *run], ChatCompletionParser.feed, **options)
    counts: set[int] = set()  # of what is kept besides text, towards its limit
    cut = [piece for one in run for piece in (one[:9], one[9:])]
    for reads in (run, [b"".join(run)], cut):
        result, same_chunks, count = result_of([*before, *reads], ChatCompletionParser.feed, **options)
        assert (result, same_chunks) == (expected, chunks)
        counts.add(count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventTemplate, "fold_run", watched)
        result, _, count = result_of([*before, b"".join(run)], ChatCompletionParser.fold, **options)
    assert result == expected
    assert counts == {count}
    return taken


WORDS = [
    b"Hel",
    b"lo",
    b"",
    b" there",
    "é号 😀".encode(),
    b"\\n\\u00e9\\\\",
    b"\\ud83d\\ude00",
    b'\\"',
    b"]],[[",
    b",0,",
]


def with_usage(text: bytes) -> bytes:
    return counted(text, 7 * sum(text) % 1000)


def opened(kind: Callable[[bytes], bytes]) -> list[bytes]:
    """What comes before a run: what opens choices and a call, and enough to learn from."""
    calls = [fragment(place, f"call_{place}", "f", "") for place in range(2 if kind is argued_twice else 1)]
    call = chunk(choice(tool_calls=calls), id="c1", model="m")
    others = [said(b"", place) for place in range(1, 4)] if kind is in_turns else []
    words = (
        [b"word %c" % (65 + place) for place in range(16)] if kind is in_turns else [*map(b"word %d".__mod__, range(8))]
    )
    return [FIRST, *others, call, *map(kind, words)]
