"""What reading JSON costs as it grows: in proportion to the text, whatever it is read as."""

import functools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from json_types import Term, Trip
from linear import assert_linear

from chunkfold import PartialJSON

LIMIT = 25


class Growth(NamedTuple):
    """A text about so long, what it is to be, and how many characters come at once."""

    text: Callable[[int], str]
    as_type: Any = None
    size: int = 20
    half_numbers: bool = False


def records(n: int) -> str:
    return json.dumps({"stops": [{"city": "x" * 40 + '\n"', "nights": i} for i in range(n // 72)]})


def one_string(n: int) -> str:
    return json.dumps({"title": 'so "on"\n' * (n // 12)})


def numbers(n: int) -> str:
    return json.dumps([1_000 + i for i in range(n // 6)])


def names(n: int) -> str:
    return json.dumps({str(i): 1_000 + i for i in range(n // 15)})


def misfits(n: int) -> str:
    return json.dumps({"stops": [{"city": "x" * 200, "nights": "one"} for _ in range(n // 232)]})


GROWTH = {
    "records": Growth(records),
    "records with a type": Growth(records, Trip),
    "one string": Growth(one_string),
    "one string in small pieces": Growth(one_string, size=4),
    "one string with a type": Growth(one_string, Trip),
    "numbers": Growth(numbers),
    "numbers with a type": Growth(numbers, list[int]),
    "names": Growth(names),
    "what does not fit": Growth(misfits, Trip),
    "lists in one another": Growth(lambda n: "[" + ("[" * 400 + "]" * 400 + ",") * (n // 1_600)),
    "one number": Growth(lambda n: "[0." + "1" * n),
    "one number that is shown": Growth(lambda n: "[0." + "1" * (n // 2), half_numbers=True),
    "one number in single characters": Growth(lambda n: "[0." + "1" * n + "]", size=1),
    "one number that is shown in single characters": Growth(lambda n: "[0." + "1" * n + "]", size=1, half_numbers=True),
}


def fed_whole(text: str, growth: Growth) -> PartialJSON:
    live = PartialJSON(growth.as_type, half_numbers=growth.half_numbers)
    for place in range(0, len(text), growth.size):
        live.feed(text[place : place + growth.size])
    return live


@pytest.mark.slow
@pytest.mark.parametrize("growth", GROWTH.values(), ids=GROWTH)
def test_ten_times_the_text_costs_ten_times_as_much(growth: Growth) -> None:
    """A value after each of 5,000 pieces.

    A little more than 10 is no wonder: up to some length every piece has its copy, and caches hold less than it takes.
    """
    assert_linear(lambda n: functools.partial(fed_whole, growth.text(n), growth), 10_000, LIMIT)


def test_types_that_contain_themselves_cost_no_more_at_each_level() -> None:
    def take(levels: int) -> Callable[[], object]:
        inner = '{"kind": "whole", "value": 1}'
        for _ in range(levels):
            inner = f'{{"kind": "sum", "left": {inner}, "right": {{"kind": "whole", "value": 1}}}}'
        return lambda: PartialJSON(list[Term]).feed(f"[{inner}")  # a list, because of a class the parts are kept

    assert_linear(take, 1, LIMIT)
