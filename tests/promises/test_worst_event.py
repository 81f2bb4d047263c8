"""One event costs little more than a plain one with as much in it, whatever it holds.

A cost is a number of calls where these take the time, else the processor's time beside that of something similar.
"""

import json
from collections.abc import Callable
from functools import partial

import pytest
from counted_calls import calls_of
from linear import no_collector, seconds
from parsed_bodies import parsed

from chunkfold.json_text.parsing import count_items, is_wide
from chunkfold.json_text.surrogates import well_formed
from chunkfold.testing import choice, chunk, delta, event
from chunkfold.wire import raw_data, reading

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
