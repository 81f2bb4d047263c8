"""The template: which texts are folded without reading their JSON again, how often, and what is read all the same."""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from made_streams import STOP
from repeating_bodies import CREATED, FIRST, ID, PLAIN_HEAD, PROBES, A, dumped, each_validated

import chunkfold.parser.event_folder
import chunkfold.wire.payload
from chunkfold import ChatCompletionParser
from chunkfold.testing import DONE, chunk, delta, event, fragment
from chunkfold.wire.payload import chunk_from_json

BEFORE = b'{%b,"choices":[{"index":0,"delta":{"content":"' % PLAIN_HEAD
BEHIND = b'"},"finish_reason":null}]}'


def said(text: bytes | str, before: bytes = BEFORE, behind: bytes = BEHIND) -> bytes:
    return before + (text if isinstance(text, bytes) else text.encode()) + behind


TAKEN = {
    "a word": " word",
    "nothing": "",
    "other letters": "é号 ñ",
    "an emoji": "😀",
    "a long text": "x" * 2**12,
    "a long text of other letters": "号" * 2**12,
    "the text that is tried": PROBES[0],
    "the other text that is tried": PROBES[1],
    "half of what stands before": BEFORE.replace(b'"', b"").decode(),
    "brackets": "}]}{[",
    "a key without quotes": "content:",
    "what printf would read": "%s%b%",
    "DEL": "a\x7fb",
    "NEL": "a\x85b",
    "U+2028": "a\u2028b",
    "a BOM": "\ufeffa",
    "two backslashes": b"a\\\\",
    "an escape": b"a\\nb",
    "an escaped quote": b'a\\"b',
    "an escaped emoji": b"\\ud83d\\ude00",
    "what stands behind, escaped": BEHIND.replace(b'"', b'\\"'),
}


def numbered(count: int, data: Callable[[int], bytes]) -> bytes:
    return FIRST + b"".join(b"data: " + data(number) + b"\n\n" for number in range(count)) + STOP + DONE


# How often it takes what, and what it costs where it does not


def validations(monkeypatch: pytest.MonkeyPatch, body: bytes) -> int:
    """How many events' JSON is read to fold a body."""
    count = 0

    def counted(data: bytes) -> Any:
        nonlocal count
        count += 1
        return chunk_from_json(data)

    with monkeypatch.context() as patch:
        for module in (chunkfold.parser.event_folder, chunkfold.wire.payload):
            patch.setattr(module, "chunk_from_json", counted)
        parser = ChatCompletionParser()
        parser.fold(body)
        parser.close()
    expected = ChatCompletionParser()
    with each_validated():
        expected.feed(body)
    expected.close()
    assert (parser.end, dumped(parser.snapshot)) == (expected.end, dumped(expected.snapshot))
    return count


@each_case("text", TAKEN.values(), ids=TAKEN)
def test_texts_that_are_folded_unread(text: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = b"".join(map(event, map(said, ("first", "Hello", "there", "you", "and", "me"))))
    body = learned + event(said(text))
    assert validations(monkeypatch, body) == validations(monkeypatch, learned)


def spaced(value: bytes) -> bytes:
    return value.replace(b'":', b'": ').replace(b',"', b', "')


STEADY: dict[str, Callable[[int], bytes]] = {
    "as OpenAI writes": lambda n: said(f" word{n}"),
    "with blanks": lambda n: said(f" word{n}", spaced(BEFORE), spaced(BEHIND)),
    "the content first": lambda n: b'{"choices":[{"delta":{"content":"%d"},"index":0}],%b}' % (n, PLAIN_HEAD),
    "null beside it": lambda n: said(str(n), behind=b'"},"logprobs":null,"finish_reason":null}],"usage":null}'),
    "other letters": lambda n: said("号😀" * (n % 5)),
}


@pytest.mark.parametrize("kind", STEADY)
def test_plain_text_is_hardly_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first chunk, one to learn from, and that with a text of our own; finish reason and [DONE].
    assert 4 <= validations(monkeypatch, numbered(2000, STEADY[kind])) <= 10


AFTER: dict[str, bytes] = {
    "an escape": b"data: " + said(b"\\n") + b"\n\n",
    "a keep-alive": b": ping\n\n",
    "blank data": event(""),
    "reasoning": delta(reasoning_content="hm"),
    "a tool call": delta(tool_calls=[fragment(0, "call_a", "f", "{}")]),
    "usage": chunk(usage={"prompt_tokens": 1}),
    "usage beside a text": chunk(A, usage={"prompt_tokens": 1}),
    "another head for one event": chunk(A, service_tier="flex"),
    "an empty choice list": chunk(),
}


@pytest.mark.parametrize("name", AFTER)
def test_plain_text_is_hardly_read_behind_something_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Was once wrong, with another head: what was learned is not used any more, and nothing else is learned."""
    text = b"".join(b"data: " + said(f" word{number}") + b"\n\n" for number in range(500))
    assert validations(monkeypatch, FIRST + text + AFTER[name] + text + STOP + DONE) <= 20


def test_a_change_now_and_then_is_learned_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprints = [b'"m","system_fingerprint":"fp%d"' % number for number in range(20)]
    befores = [BEFORE.replace(b'"m"', fingerprint) for fingerprint in fingerprints]
    body = numbered(20 * 100, lambda number: said(f" word{number}", befores[number // 100]))
    assert validations(monkeypatch, body) <= 20 * 8


@pytest.mark.parametrize("length", [100, 200])
def test_reasoning_and_text_by_turns_are_hardly_read(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Was once wrong: the key, which is another one there, was taken for a value that changes."""
    befores = (BEFORE.replace(b"content", b"reasoning"), BEFORE)
    body = numbered(20 * length, lambda number: said(f" word{number}", befores[number // length % 2]))
    assert validations(monkeypatch, body) <= 20 * 8


CHANGING: dict[str, Callable[[int], bytes]] = {
    "obfuscation": lambda n: b'{%b,"choices":[{"index":0,"delta":{"content":"a"}}],"obfuscation":"%d"}' % (PLAIN_HEAD, n),
    "a delta's id": lambda n: said("a", behind=b'","id":"%d"}}]}' % n),
    "usage": lambda n: said("a", behind=b'"}}],"usage":{"completion_tokens":%d}}' % (n + 1)),
    "reasoning": lambda n: b'{%b,"choices":[{"index":0,"delta":{"reasoning":"%d"}}]}' % (PLAIN_HEAD, n),
    "two spellings of reasoning": lambda n: said(str(n), THOUGHT, b'","reasoning_details":[{"type":"reasoning.text","text":"%d"}]}}]}' % n),
    "arguments": lambda n: b'{%b,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%d"}}]}}]}' % (PLAIN_HEAD, n),
    "several": lambda n: said(str(n), BEFORE.replace(b'"index":0', b'"index":%d' % (n % 3)), b'"}}],"usage":{"total_tokens":%d},"x":"%d"}' % (n, n)),
    "the time": lambda n: said(str(n), BEFORE.replace(CREATED, b"%d" % (n + 1))),
}  # fmt: skip
THOUGHT = BEFORE.replace(b"content", b"reasoning")


@pytest.mark.parametrize("kind", CHANGING)
def test_values_that_change_are_hardly_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 4 <= validations(monkeypatch, numbered(2000, CHANGING[kind])) <= 25


UNSTEADY: dict[str, Callable[[int], bytes]] = {
    "the id": lambda n: said("a", BEFORE.replace(ID, b"c%d" % n)),
    "a number with a point": lambda n: said("a", behind=b'"}}],"x":%d.5}' % n),
    "a key": lambda n: said("a", behind=b'"}}],"x%d":1}' % n),
    "nothing but a list": lambda n: b'{%b,"choices":[{"index":0,"delta":{"content":["%d"]}}]}' % (PLAIN_HEAD, n),
    "an object of somebody's": lambda n: said("a", behind=b'"}}],"timings":{"n":%d}}' % n),
    "many values": lambda n: said("a", behind=b'"}}],"usage":{%b}}' % b",".join(b'"%c":%d' % (65 + m, n) for m in range(9))),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNSTEADY)
def test_learning_backs_off_where_it_does_not_help(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = (300, 1200)
    few, many = (validations(monkeypatch, numbered(count, UNSTEADY[kind])) - count for count in counts)
    assert 0 < few <= 30
    assert many - few <= 10


def test_learning_backs_off_also_behind_much_that_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    changing = UNSTEADY["the id"]
    body = numbered(1200, lambda number: said(f" word{number}") if number < 100 else changing(number))
    assert 1100 < validations(monkeypatch, body) <= 1100 + 50


TURNS: dict[str, Callable[[int], bytes]] = {
    "two choices": lambda n: said(str(n), BEFORE.replace(b'"index":0', b'"index":%d' % (n % 2))),
    "three choices": lambda n: said(str(n), BEFORE.replace(b'"index":0', b'"index":%d' % (n % 3))),
    "fifty choices": lambda n: said(str(n), BEFORE.replace(b'"index":0', b'"index":%d' % (n % 50))),
    "texts and escapes": lambda n: said(["a", "\\n"][n % 2]),
    "obfuscation every other time": lambda n: said(str(n), behind=BEHIND if n % 2 else b'"}}],"x":"%d"}' % n),
    "a tool call every other time": lambda n: (
        said(str(n))
        if n % 2
        else b'{%b,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}]}'
        % PLAIN_HEAD
    ),
}


@pytest.mark.parametrize("kind", TURNS)
def test_taking_turns_costs_no_more_than_reading_each(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other event may be learned from in vain: one reading more for it, at most."""
    assert 0 < validations(monkeypatch, numbered(1000, TURNS[kind])) <= 1.5 * 1000 + 10
