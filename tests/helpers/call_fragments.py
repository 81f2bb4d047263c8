"""Fragments of tool calls as they come, `(index, id, name, arguments)`, and the calls that the parser makes of them.

`...` stands for a key that is not sent.
"""

from typing import Any

from made_up_ids import shown_id

from chunkfold import ChatCompletion, ChatCompletionParser
from chunkfold.testing import DONE, delta

W = "get_weather"  # most cases call the same tool three times: nothing but identity tells the calls apart
T = "get_time"
ONE, TWO, THREE = '{"n":1}', '{"n":2}', '{"n":3}'
OPEN = '{"n":'


def on_wire(fragment: tuple[Any, Any, Any, Any] | dict[str, Any]) -> dict[str, Any]:
    """A fragment as JSON; a dict is taken as it is."""
    if isinstance(fragment, dict):
        return fragment
    index, id_, name, arguments = fragment
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not ...}
    keys = {"index": index, "id": id_, "function": function or ...}
    return {key: value for key, value in keys.items() if value is not ...}


def chunks_of(*deltas: Any) -> list[bytes]:
    """A chunk for each delta, which is one fragment, or a list of several."""
    lists = (several if isinstance(several, list) else [several] for several in deltas)
    return [delta(tool_calls=list(map(on_wire, several))) for several in lists]


def feed(*deltas: Any) -> ChatCompletionParser:
    """A parser that still runs."""
    parser = ChatCompletionParser()
    for data in chunks_of(*deltas):
        parser.feed(data)
    return parser


def read(*deltas: Any, finish_reason: str = "tool_calls") -> ChatCompletionParser:
    """A parser whose stream ended well."""
    parser = feed(*deltas)
    parser.feed(delta(finish_reason) + DONE)
    parser.raise_error()
    return parser


def calls(completion: ChatCompletion) -> list[tuple[str | None, str, str]]:
    """Each call's id, name and arguments; an id that was made up is shown as such."""
    return [(shown_id(call.id), call.name, call.arguments) for call in completion.tool_calls]


def noted(parser: ChatCompletionParser) -> set[str]:
    return {anomaly.rule.id for anomaly in parser.anomalies if anomaly.rule.id.startswith("CF3")}


def check(deltas: list[Any], expected: list[tuple[str | None, str, str]], rules: set[str]) -> None:
    parser = read(*deltas)
    assert calls(parser.completion()) == expected
    assert noted(parser) == rules


def custom(**keys: Any) -> dict[str, Any]:
    part = {name: keys.pop(name) for name in ("name", "input") if name in keys}
    return {**keys, "custom": part}
