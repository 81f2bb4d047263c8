"""The cost is linear in the bytes, and one event costs little more than a plain one with as much in it.

A cost is the processor's time beside that of something similar, or a number of calls where these take the time.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
from counted_calls import calls_of
from linear import assert_linear, no_collector, seconds
from parsed_bodies import parsed

from chunkfold import ChatCompletionParser, LimitExceededError
from chunkfold.json_text.parsing import count_items, is_wide
from chunkfold.json_text.surrogates import well_formed
from chunkfold.testing import DONE, HEAD, choice, chunk, cut_every, delta, event, fragment
from chunkfold.wire import raw_data, reading


class Growth(NamedTuple):
    """A body for a size, how much of it comes with each read, and the smaller of the two sizes."""

    body: Callable[[int], bytes]
    read_size: int = 4096
    small: int = 150


KILOBYTE = "x" * 1024  # in pieces of this size, copying what came before costs more than reading what is new
TOKEN = {"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}
FIRST_CALL = delta(tool_calls=[fragment(0, "call_a", "f", "")])


def calls(*fragments: Any) -> bytes:
    """A chunk with fragments of tool calls, by what `fragment` takes."""
    return delta(tool_calls=[fragment(*one) for one in fragments])


BIG_CALL = calls((0, "big", "f", '{"x":"'))


def tens(n: int) -> list[range]:
    """The numbers from 0 to n, ten to a chunk: so what finding each of them costs is not lost in what a chunk costs."""
    return [range(start, start + 10) for start in range(0, n, 10)]


def interleaved(n: int) -> bytes:
    """As many calls, each in three fragments."""
    texts = ("", '{"x":', "1}")
    return b"".join(
        calls(*((i, f"c{i}" if not at else None, "f" if not at else None, text) for i in ten))
        for at, text in enumerate(texts)
        for ten in tens(n)
    )


def finishing(n: int) -> bytes:
    """As many calls, and then as many finish reasons."""
    return b"".join(calls(*((i, f"c{i}", "f", "{}") for i in ten)) for ten in tens(n)) + delta("tool_calls") * n


def many_fragments(n: int) -> bytes:
    """As many fragments for a thousand calls by turns, a hundred to a chunk."""
    starts = b"".join(calls(*((i, f"c{i}", "f", "") for i in ten)) for ten in tens(1000))
    chunks = [calls(*((i, None, None, "ab") for i in range(start, start + 100))) for start in range(0, 1000, 100)]
    return starts + b"".join(chunks) * (n // 1000)


GROWTH = {
    "text": Growth(lambda n: delta(content=KILOBYTE) * n),
    "text in small reads": Growth(lambda n: delta(content="word ") * n, 16),
    "text after the first half of a pair": Growth(lambda n: delta(content="\ud83d", index=1) + delta(content="a") * n),
    "reasoning": Growth(lambda n: delta(reasoning_content=KILOBYTE) * n),
    "reasoning details": Growth(lambda n: delta(reasoning_details=[{"type": "reasoning.text", "text": KILOBYTE}]) * n),
    "audio": Growth(lambda n: delta(audio={"data": "AAAA" * 256, "transcript": KILOBYTE}) * n),
    "arguments of one tool call": Growth(lambda n: FIRST_CALL + delta(tool_calls=[fragment(0, arguments=KILOBYTE)]) * n),
    "arguments of the legacy function call": Growth(lambda n: delta(function_call={"arguments": KILOBYTE}) * n),
    "a name in pieces": Growth(lambda n: FIRST_CALL + delta(tool_calls=[fragment(0, name=KILOBYTE)]) * n),
    "a name that grows": Growth(lambda n: FIRST_CALL + b"".join(calls((0, None, "f" * size, "")) for size in range(int(10 * n**0.5)))),
    "a name that is repeated": Growth(lambda n: calls((0, "a", "f", "{}")) * n, 2**16, 900),
    "a name that is repeated with new ids": Growth(lambda n: BIG_CALL + b"".join(calls((0, f"c{i}", "f", KILOBYTE)) for i in range(n))),
    "calls that the server ran": Growth(lambda n: b"".join(calls((i, f"srvtoolu_{i}", "f", None)) for i in range(n)), 2**16, 900),
    "objects in one call": Growth(lambda n: FIRST_CALL + calls((0, None, None, "{}")) * n, 2**16, 900),
    "blanks in one call": Growth(lambda n: FIRST_CALL + calls((0, None, None, " " * 100)) * n, 2**16, 900),
    "many tool calls": Growth(
        lambda n: b"".join(delta(tool_calls=[fragment(i, f"c{i}", "f") for i in ten]) for ten in tens(3 * n))
    ),
    "many tool calls without id and index": Growth(
        lambda n: b"".join(delta(tool_calls=[fragment(None, name="f", arguments="{}")] * len(ten)) for ten in tens(3 * n))
    ),
    "many choices": Growth(
        lambda n: b"".join(event({"choices": [{"index": i, "delta": {"content": "a"}} for i in ten]}) for ten in tens(3 * n))
    ),
    "many choices in one chunk": Growth(
        lambda n: event({"choices": [{"index": i, "delta": {"content": "a"}} for i in range(n)]})
    ),
    "values of a wrong type in one chunk": Growth(lambda n: delta(content="a", annotations=[1] * n)),
    "tool calls of a wrong type in one chunk": Growth(lambda n: delta(tool_calls=[{**fragment(i), "type": 5} for i in range(n)])),
    "an id that changes": Growth(lambda n: event({**HEAD, "id": "x" * 100 * n}) + event({**HEAD, "id": "y"}) * n),
    "usage in every chunk": Growth(lambda n: chunk(usage={"prompt_tokens": 1}) * n),
    "one huge event in small reads": Growth(lambda n: delta(content="x" * 400 * n), 16),
    "one event of many lines in small reads": Growth(lambda n: b"data: \n" * 30 * n + delta(content="a"), 16),
    "one huge comment in small reads": Growth(lambda n: b":" + b"x" * 400 * n + b"\n\n", 16),
    "empty lines": Growth(lambda n: delta(content="a") + b"\n" * 100 * n, 512),
    "empty lines before anything else, in small reads": Growth(lambda n: b"\n" * 150 * n + delta(content="a"), 16),
    "comments": Growth(lambda n: delta(content="a") + b": ping\n\n" * 30 * n),
    "comments inside one block": Growth(lambda n: b"data: \n" + b": ping\n" * 50 * n),
    "another kind of body in small reads": Growth(lambda n: b"<p>lorem ipsum</p>\r\n" * 15 * n, 16),
    "events in one block": Growth(lambda n: delta(content="a").replace(b"\n\n", b"\n") * n, 2**16, 900),
    "calls in one chunk": Growth(lambda n: delta(tool_calls=[{"index": i, "id": f"c{i}"} for i in range(n)]), 2**16, 900),
    "calls without an index in one chunk": Growth(lambda n: delta(tool_calls=[{"id": f"c{i}", "function": {"name": "f"}} for i in range(n)]), 2**16, 900),
    "ids of one call": Growth(lambda n: delta(tool_calls=[{"index": 0, "id": f"c{i}"} for i in range(n)]), 2**16, 900),
    "annotations in one chunk": Growth(lambda n: delta(annotations=[{} for _ in range(n)]), 2**16, 900),
    "log probabilities": Growth(lambda n: chunk({**choice(), "logprobs": {"content": [TOKEN] * n}}), 2**16, 3_000),
    "new reasoning details": Growth(lambda n: delta(reasoning_details=[{"index": i} for i in range(n)]), 2**16, 900),
    "chunks with a new reasoning detail each": Growth(lambda n: b"".join(delta(reasoning_details=[{"index": i, "text": "x"}]) for i in range(n)), 2**16, 3_000),
    "content parts": Growth(lambda n: delta(content=[{"type": "text", "text": "x"}] * 10) * (n // 10), 2**16, 3_000),
    "chunks with a new key each": Growth(lambda n: b"".join(chunk(**{f"key{i}": i}) for i in range(n)), 2**16, 3_000),
    "chunks with a new key of usage each": Growth(lambda n: b"".join(chunk(usage={f"key{i}": i}) for i in range(n)), 2**16, 3_000),
    # Of more the footprint is measured, once or twice, and of a tenth it is not.
    "chunks with a new call each": Growth(lambda n: b"".join(calls((i, f"call_{i}", "f", "")) for i in range(n)), 2**16, 900),
    "text and reasoning by turns": Growth(lambda n: (delta(content=KILOBYTE) + delta(reasoning="x")) * n),
    "arguments before the name": Growth(lambda n: calls((0, "a", None, "{")) + calls((0, None, None, KILOBYTE)) * n),
    "interleaved calls": Growth(interleaved),
    "many tool calls without ids": Growth(lambda n: b"".join(calls(*((i, None, "f", "{}") for i in ten)) for ten in tens(n))),
    "new calls and a big old one by turns": Growth(lambda n: BIG_CALL + b"".join(calls((i + 1, f"c{i}", "f", "{}"), (0, None, None, KILOBYTE)) for i in range(n))),
    "new calls and a whole old one by turns": Growth(lambda n: calls((0, "big", "f", f'"{KILOBYTE * n}"')) + b"".join(calls((i + 1, f"c{i}", "f", "{}"), (0, None, None, " ")) for i in range(n))),
    "new calls without a name and a big old one by turns": Growth(lambda n: BIG_CALL + b"".join(calls((i + 1, f"c{i}", None, None), (0, None, None, KILOBYTE)) for i in range(n))),
    "audio cut anywhere": Growth(lambda n: delta(audio={"data": "A" * 1023}) * n),
    "images": Growth(lambda n: delta(images=[{"url": KILOBYTE}]) * n),
    "annotations": Growth(lambda n: delta(annotations=[{"type": KILOBYTE}]) * n),
    "usage that grows": Growth(lambda n: b"".join(chunk(usage={"prompt_tokens": count}) for count in range(n))),
    "anomalies": Growth(lambda n: delta(role="", content="a") * n),
    "many calls and many finish reasons": Growth(finishing),
    "a finish reason with every fragment": Growth(lambda n: BIG_CALL + delta("tool_calls", tool_calls=[fragment(0, None, None, KILOBYTE)]) * n),
    # Else each new index would cost as much as all that came.
    "arguments at new indexes": Growth(lambda n: calls((0, "a", "f", '{"x":"')) + b"".join(calls((i, None, None, KILOBYTE)) for i in range(1, n))),
    # Every delta can say what it adds up to, and none of them holds it.
    "100,000 texts, a hundred to a chunk": Growth(lambda n: chunk(*[choice(content="ab")] * 100) * (n // 100), small=10_000),
    "100,000 fragments of a thousand calls": Growth(many_fragments, small=10_000),
    # Was once wrong: all provider fields of a call that were known were copied for each fragment.
    "provider fields of a call": Growth(lambda n: delta(tool_calls=[{"index": 0, "provider_specific_fields": {f"x{i}": 1}} for i in range(n)]), 2**16, 900),
    # Was once wrong: every chunk's usage has all of it copied, to see whether it changes.
    "usage of many keys": Growth(lambda n: chunk(usage={f"k{i}": i for i in range(n)}) + chunk(usage={"prompt_tokens": 1}) * n),
}  # fmt: skip


def read_whole(body: bytes, read_size: int) -> str:
    parser = parsed(body, read_size)
    assert not isinstance(parser.error, LimitExceededError)
    return parser.snapshot.model_dump_json()


def read_events(body: bytes, read_size: int = 4096, *, late: bool = False) -> str:
    """Read a body with its events, or with one look at them at its end; what the last adds up to."""
    parser = ChatCompletionParser()
    last: list[Any] = [] if late else parser.events()
    for data in cut_every(body, read_size):
        parser.feed(data)
        last = last if late else parser.events() or last
    parser.feed(DONE)
    last = parser.events() or last
    return str([getattr(one, "snapshot", one) for one in last[-1:]])


@pytest.mark.slow
@pytest.mark.parametrize(
    "read", [read_whole, read_events, partial(read_events, late=True)], ids=["whole", "events", "late"]
)
@pytest.mark.parametrize("growth", GROWTH.values(), ids=GROWTH)
def test_ten_times_the_body_costs_ten_times_as_much(growth: Growth, read: Callable[[bytes, int], str]) -> None:
    assert_linear(lambda n: partial(read, growth.body(n), growth.read_size), growth.small)


SIZE = 2**20  # bytes
VALUES = 80_000
ITEM = b'{"a": {"b": 1}}'


def values(body: bytes, value: bytes) -> bytes:
    """A body with a list in place of a text, in which each item is that value."""
    return body.replace(b'"?"', b"[%b]" % b",".join([value] * VALUES))


ERROR = event({"error": {"message": "a"}, "more": "?"})
LISTS = {  # and how many times as many calls as an unknown field they may take
    "errors without a message": (values(event({"errors": "?"}), ITEM), 2),
    "more than an error": (values(ERROR, ITEM), 2),
    "half characters beside an error": (values(ERROR, rb'{"\ud83d": "\ud83d"}'), 5),
}


@pytest.mark.parametrize(("body", "most"), LISTS.values(), ids=LISTS)
def test_an_error_costs_a_few_calls_for_each_of_its_values(body: bytes, most: int) -> None:
    """Was once wrong: each was read as a message by five functions, and searched for half characters twice."""
    unknown = values(chunk(choice(content="a"), more="?"), ITEM)
    assert calls_of(partial(parsed, body)) < most * calls_of(partial(parsed, unknown))


def test_a_chunk_that_an_error_cuts_off_is_not_read_as_one_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error behind it says what it is, and is read faster."""
    sizes: list[int] = []
    read_json = reading.read_json

    def counted(data: bytes, notes: reading.Notes) -> object:
        sizes.append(len(data))
        return read_json(data, notes)

    monkeypatch.setattr(raw_data, "read_json", counted)
    cut = delta(content="a" * SIZE)[:-4]
    assert parsed(cut + b'\ndata: {"error": {"message": "b"}}\n\n').end == "failed"
    assert [size for size in sizes if size > SIZE] == []


def assert_cheaper(work: Callable[[], object], other: Callable[[], object], times: float) -> None:
    """Fail if something costs more than so many times what something else does."""
    ratios: list[float] = []
    with no_collector():
        while len(ratios) < 5 and not (ratios and ratios[-1] < times):
            least = [min(seconds(each) for _ in range(3)) for each in (work, other)]
            ratios.append(least[0] / least[1])
    assert ratios[-1] < times, ratios


def test_audio_that_is_not_base64_costs_little_more_than_text() -> None:
    """Was once wrong: blanks were taken out of it, for which Python looks up each character that is not ASCII."""
    text = b"\xff" * SIZE
    audio, content = (delta(**fields).replace(b"?", text) for fields in ({"audio": {"data": "?"}}, {"content": "?"}))
    assert_cheaper(partial(parsed, audio), partial(parsed, content), 2.5)


def test_looking_for_wide_characters_costs_a_fraction_of_counting_values() -> None:
    data = b'{"a": "%b"}' % (b"a" * 2 * SIZE)
    assert not is_wide(data)
    assert_cheaper(partial(is_wide, data), partial(count_items, data, 1), 0.4)


def test_replacing_half_characters_costs_little_more_than_reading_them() -> None:
    """Was once wrong: a regular expression found and replaced each of them."""
    escaped = b'"%b"' % (rb"\ud83dx" * (SIZE // 7))
    assert_cheaper(partial(well_formed, json.loads(escaped)), partial(json.loads, escaped), 3)
