"""The template: which texts are folded without reading their JSON again, how often, and what is read all the same."""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from made_streams import STOP
from parsed_bodies import folded
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
        parser = folded(body)
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


THOUGHT = BEFORE.replace(b"content", b"reasoning")
STEADY: dict[str, Callable[[int], bytes]] = {
    "as OpenAI writes": lambda n: said(f" word{n}"),
    "with blanks": lambda n: said(f" word{n}", spaced(BEFORE), spaced(BEHIND)),
    "the content first": lambda n: b'{"choices":[{"delta":{"content":"%d"},"index":0}],%b}' % (n, PLAIN_HEAD),
    "null beside it": lambda n: said(str(n), behind=b'"},"logprobs":null,"finish_reason":null}],"usage":null}'),
    "other letters": lambda n: said("号😀" * (n % 5)),
}


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


UNSTEADY: dict[str, Callable[[int], bytes]] = {
    "the id": lambda n: said("a", BEFORE.replace(ID, b"c%d" % n)),
    "a number with a point": lambda n: said("a", behind=b'"}}],"x":%d.5}' % n),
    "a key": lambda n: said("a", behind=b'"}}],"x%d":1}' % n),
    "nothing but a list": lambda n: b'{%b,"choices":[{"index":0,"delta":{"content":["%d"]}}]}' % (PLAIN_HEAD, n),
    "an object of somebody's": lambda n: said("a", behind=b'"}}],"timings":{"n":%d}}' % n),
    "many values": lambda n: said("a", behind=b'"}}],"usage":{%b}}' % b",".join(b'"%c":%d' % (65 + m, n) for m in range(9))),
}  # fmt: skip


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


def in_turns(befores: list[bytes], each: int, count: int) -> bytes:
    """Stretches of so many texts, with what stands before them by turns."""
    return numbered(count, lambda n: said(f" word{n}", befores[n // each % len(befores)]))


TEXT = b"".join(event(said(f" word{number}")) for number in range(500))
FINGERPRINTS = [BEFORE.replace(b'"m"', b'"m","system_fingerprint":"fp%d"' % number) for number in range(20)]
# A body, and how many of its events are read: at least the first, one to learn from, and that with a text of our own;
# finish reason and [DONE].
READ: dict[str, tuple[bytes, int, int]] = {
    **{name: (numbered(2000, data), 4, 10) for name, data in STEADY.items()},
    **{f"changing: {name}": (numbered(2000, data), 4, 25) for name, data in CHANGING.items()},
    # Was once wrong, with another head: what was learned was not used any more, and nothing else was learned.
    **{f"behind {name}": (FIRST + TEXT + data + TEXT + STOP + DONE, 4, 20) for name, data in AFTER.items()},
    "a change now and then": (in_turns(FINGERPRINTS, 100, 2000), 4, 20 * 8),
    # Was once wrong: the key, which is another one there, was taken for a value that changes.
    "reasoning and text by turns of 100": (in_turns([THOUGHT, BEFORE], 100, 2000), 4, 20 * 8),
    "reasoning and text by turns of 200": (in_turns([THOUGHT, BEFORE], 200, 4000), 4, 20 * 8),
    # To learn costs as much as to read some ten events, so what fits a few only is learned rarely, and they are read.
    **{f"reasoning and text by turns of {n}": (in_turns([BEFORE, THOUGHT], n, 3000), 1350, 1650) for n in (2, 5, 13, 30)},
    "a number with and without a point by turns": (
        numbered(3000, lambda n: said("a", behind=b'"}}],"x":%d%b}' % (n, [b".5", b""][n % 2]))), 2800, 2950,
    ),
    # Every other event may be learned from in vain: one reading more for it, at most.
    **{f"by turns: {name}": (numbered(1000, data), 4, 1510) for name, data in TURNS.items()},
    "the id, behind much that was taken": (
        numbered(1200, lambda n: said(f" word{n}") if n < 100 else UNSTEADY["the id"](n)), 1101, 1150,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_how_many_events_are_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, least, most = READ[name]
    assert least <= validations(monkeypatch, body) <= most


@pytest.mark.parametrize("kind", UNSTEADY)
def test_learning_backs_off_where_it_does_not_help(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = (300, 1200)
    few, many = (validations(monkeypatch, numbered(count, UNSTEADY[kind])) - count for count in counts)
    assert 0 < few <= 30
    assert many - few <= 10
