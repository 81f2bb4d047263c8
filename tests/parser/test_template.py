"""The template: which texts are folded without reading their JSON again, how often, and what is read all the same."""

import string
from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from invariants.holding import plain
from made_streams import STOP
from repeating_bodies import CREATED, FIRST, ID, PLAIN_HEAD, PROBES, A, dumped

import chunkfold.parser.event_folder
import chunkfold.wire.payload
from chunkfold import ChatCompletionChunk, ChatCompletionParser, ServerSentEvent, parse_payload
from chunkfold.event_stream.server_sent_event import MESSAGE
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.parser.limits import OutputLimit
from chunkfold.parser.template import EventTemplate
from chunkfold.testing import DONE, chunk, delta, event, fragment
from chunkfold.wire.payload import chunk_from_json

# The template itself


class Watched(EventTemplate):
    """Counts the events that do not fit."""

    others = 0

    def _compare(self, event: ServerSentEvent) -> ChatCompletionChunk | None:
        self.others += 1
        return super()._compare(event)


class Folded:
    """Events folded as the parser folds them, with a template, and beside it without one."""

    def __init__(self) -> None:
        self.accumulator = StreamFold()
        self.expected = StreamFold()
        self.template = Watched(self.accumulator, OutputLimit(None, self.accumulator))

    def take(self, data: bytes, event: str = MESSAGE) -> bool:
        """Fold an event; return whether its JSON was not read."""
        known = self.template.others
        sent = ServerSentEvent(data, event)
        make_chunk = self.template.fold_event(sent)
        for one in parse_payload(sent).chunks:
            self.expected.add(one)
            if make_chunk is None:
                self.accumulator.add(one)
            else:
                assert plain([make_chunk()]) == plain([one])
        assert dumped(self.accumulator.snapshot) == dumped(self.expected.snapshot)
        assert self.accumulator.chunks == self.expected.chunks
        assert self.accumulator.output_size == self.expected.output_size
        assert self.accumulator.has_output == self.expected.has_output
        assert self.accumulator.log.entries() == self.expected.log.entries()
        return make_chunk is not None and self.template.others == known


BEFORE = b'{%b,"choices":[{"index":0,"delta":{"content":"' % PLAIN_HEAD
BEHIND = b'"},"finish_reason":null}]}'


def said(text: bytes | str, before: bytes = BEFORE, behind: bytes = BEHIND) -> bytes:
    return before + (text if isinstance(text, bytes) else text.encode()) + behind


@pytest.fixture
def folded() -> Folded:
    """One that has learned from texts."""
    folded = Folded()
    folded.take(said("first"))  # opens the choice
    assert any(folded.take(said(text)) for text in ("Hello", "there", "you", "and", "me"))
    return folded


TAKEN = {
    "a word": " word",
    "nothing": "",
    "other letters": "é号 ñ",
    "an emoji": "😀",
    "a long text": "x" * 2**20,
    "a long text of other letters": "号" * 2**16,
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
}


ESCAPED = {
    "two backslashes": (b"a\\\\", "a\\"),
    "an escape": (b"a\\nb", "a\nb"),
    "an escaped quote": (b'a\\"b', 'a"b'),
    "an escaped emoji": (b"\\ud83d\\ude00", "😀"),
    "what stands behind, escaped": (BEHIND.replace(b'"', b'\\"'), BEHIND.decode()),
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_texts_that_are_folded_unread(folded: Folded, text: str) -> None:
    assert folded.take(said(text))
    assert folded.accumulator.snapshot.text.endswith(text)


@pytest.mark.parametrize("name", ESCAPED)
def test_escapes_that_are_folded_unread(folded: Folded, name: str) -> None:
    written, meant = ESCAPED[name]
    assert folded.take(said(written))
    assert folded.accumulator.snapshot.text.endswith(meant)


NOT_TAKEN = {
    "a quote": said(b'a"b'),
    "a quote at the end": said(b'a"'),
    "a quote that opens a finish reason": said(b'a"},"finish_reason":"stop","x":{"y":"'),
    "a quote that opens another content": said(b'a","content":"b'),
    "a quote that opens another choice": said(b'a"}},{"index":1,"delta":{"content":"b'),
    "a backslash": said(b"a\\"),
    "half a pair": said(b"\\ud83d"),
    "NUL": said(b"a\0b"),
    "a tab": said(b"a\tb"),
    "a line feed": said(b"a\nb"),
    "a control character": said(b"a\x1fb"),
    "no UTF-8": said(b"a\xffb"),
    "an overlong encoding": said(b"a\xc0\xafb"),
    "a surrogate as bytes": said(b"\xed\xa0\xbd"),
    "a character that is cut": said("号".encode()[:2]),
    "another beginning": said("a", before=BEFORE.replace(ID, b"c2")),
    "a later time": said("a", before=BEFORE.replace(CREATED, b"1760000001")),
    "another end": said("a", behind=BEHIND.replace(b"null", b'"stop"')),
    "an end that is as long": said("a", behind=BEHIND.replace(b"null", b'"ab"')),
    "more behind": said("a") + b" ",
    "the quotes in one": said("")[: len(BEFORE)] + BEHIND[1:],
    "what stands before, alone": BEFORE,
    "what stands behind, alone": BEHIND,
    "nothing": b"",
}


@pytest.mark.parametrize("data", NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_near_misses_are_read(folded: Folded, data: bytes) -> None:
    assert not folded.take(data)
    for _ in range(3):
        folded.take(said("a"))


@pytest.mark.parametrize("name", ["error", "chat.completion.chunk", "other"])
def test_events_of_another_name_are_read(folded: Folded, name: str) -> None:
    assert not folded.take(said("a"), name)
    assert folded.take(said("a"))


def test_nothing_is_taken_for_a_choice_that_is_finished(folded: Folded) -> None:
    folded.take(said("", behind=BEHIND.replace(b"null", b'"stop"')))
    assert not folded.take(said("a"))
    assert [anomaly.rule.id for anomaly in folded.accumulator.log.entries()] == ["CF505"]


def numbered(count: int, data: Callable[[int], bytes]) -> bytes:
    return FIRST + b"".join(b"data: " + data(number) + b"\n\n" for number in range(count)) + STOP + DONE


def test_no_value_that_is_kept_is_taken_for_a_choice_that_is_finished(folded: Folded) -> None:
    def numbered(number: int) -> bytes:
        return said(f"word {number}", behind=BEHIND[:-1] + b',"x":%d}' % number)

    taken = [folded.take(numbered(number)) for number in range(60)]
    assert taken[-1]
    folded.take(said("", behind=BEHIND.replace(b"null", b'"stop"')))
    assert not folded.take(numbered(99))


def test_nothing_is_taken_under_a_head_that_is_not_the_last(folded: Folded) -> None:
    tier = BEFORE.replace(b'"m"', b'"m","service_tier":"flex"')
    assert any(folded.take(said(text, before=tier)) for text in string.ascii_letters)
    assert folded.accumulator.snapshot.service_tier == "flex"
    other = tier.replace(b"flex", b"default")
    folded.take(said("a", before=other))
    # What was learned under the first tier must bring that tier back.
    assert not folded.take(said("a", before=tier))
    assert folded.accumulator.snapshot.service_tier == "flex"


LOOKALIKES = {
    "an unknown field": b'{%b,"choices":[{"index":0,"delta":{"x":{"content":"$"},"content":"a"}}]}',
    "an unknown field with the same text": b'{%b,"choices":[{"index":0,"delta":{"x":{"content":"$"},"content":"$"}}]}',
    "an earlier content": b'{%b,"choices":[{"index":0,"delta":{"content":"$","content":"a"}}]}',
    "an earlier delta": b'{%b,"choices":[{"index":0,"delta":{"content":"$"},"delta":{"content":"a"}}]}',
    "earlier choices": b'{%b,"choices":[{"index":0,"delta":{"content":"$"}}],"choices":[{"index":0,"delta":{"content":"a"}}]}',
    "a key that ends like it": b'{%b,"choices":[{"index":0,"delta":{"x\\"content":"$","content":"a"}}]}',
    "a text beside it": b'{%b,"choices":[{"index":0,"delta":{"content":"a","reasoning":"$"}}]}',
}


@each_case("template", LOOKALIKES.values(), ids=LOOKALIKES)
@each_case("learned", ["a", "b", "longer", *PROBES])
def test_what_looks_like_the_content_and_is_not(template: bytes, learned: str) -> None:
    """Was once wrong: with the text that is tried as content, an unknown field's text was taken for it."""
    for content in ("a", *PROBES):
        folded = Folded()
        folded.take(said("first"))
        kind = template.replace(b'"a"', b'"%b"' % content.encode()) % PLAIN_HEAD
        for text in [learned] * 5 + ["x", *PROBES, "z"]:
            folded.take(kind.replace(b"$", text.encode()))


@pytest.mark.parametrize(
    "kind",
    [
        b'{%b,"choices":[{"index":0,"delta":{"content":"value 0"}}],"x":"$"}',
        b'{%b,"choices":[{"index":0,"delta":{"content":"a","reasoning_details":[{"x":["b"],"text":"$"}]}}]}',
        b'{%b,"choices":[{"index":0,"delta":{"content":"a","reasoning_details":["$"]}}]}',
    ],
)
def test_what_cannot_be_told_apart_is_read(kind: bytes) -> None:
    folded = Folded()
    folded.take(said("first"))
    assert not any(folded.take(kind.replace(b"%b", PLAIN_HEAD).replace(b"$", b"%d" % place)) for place in range(50))


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
    expected.feed(body)
    expected.close()
    assert (parser.end, dumped(parser.snapshot)) == (expected.end, dumped(expected.snapshot))
    return count


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
