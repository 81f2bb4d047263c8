"""What is an anomaly, where it is noted, and what strict mode makes of it."""

from cases import each_case
from parsed_bodies import fed, parsed
from played import HI, OVER_TWO_LINES, PING, ROLE, STOP, USAGE, cuts

from chunkfold import StreamEnd
from chunkfold.testing import DONE, choice, chunk, delta

NO_ANOMALIES: dict[str, bytes] = {
    "as OpenAI sends it": ROLE + HI + STOP + USAGE + DONE,
    "a BOM": b"\xef\xbb\xbf" + HI + STOP + DONE,
    "CRLF": (HI + STOP + DONE).replace(b"\n", b"\r\n"),
    "CR": (HI + STOP + DONE).replace(b"\n", b"\r"),
    "no space behind the colon": (HI + STOP + DONE).replace(b"data: ", b"data:"),
    "comments": PING + HI + b": x\n" + STOP + PING + DONE,
    "ids, names and retries alone": b"retry: 10\n\nid: 1\n" + HI + b"id: 2\n\nevent: x\n\n" + STOP + DONE,
    "an event's default name": HI + b"event: message\n" + STOP + DONE,
    "a field nobody knows": b"mood: good\n" + HI + STOP + DONE,
    "data over two lines": HI + b"data: " + OVER_TWO_LINES + b"\n\n" + DONE,
    "an empty line more": b"\n" + HI + b"\n\n" + STOP + DONE,
    "keys nobody knows": chunk(choice(content="Hi", mood=1), x=[1], obfuscation="abc") + STOP + DONE,
    "reasoning": delta(reasoning_content="Hm") + delta(reasoning="Hm") + STOP + DONE,
    "usage beside the finish reason": HI + chunk(choice("stop"), usage={"total_tokens": 3}) + DONE,
    "usage null until the end": chunk(choice(content="Hi"), usage=None) + STOP + USAGE + DONE,
    "usage in the choice": HI + chunk({**choice("stop"), "usage": {"total_tokens": 3}}) + DONE,
}


@cuts
@each_case("body", NO_ANOMALIES)
def test_what_is_never_an_anomaly(body: str, size: int | None) -> None:
    parser = parsed(NO_ANOMALIES[body], size, strict=True)
    assert parser.error is None
    assert parser.end is StreamEnd.FINISHED
    assert parser.anomalies == ()


@each_case("word", ["null", "None", "NONE", " ", "thinking_end"])
def test_a_word_for_nothing_is_no_finish_reason(word: str) -> None:
    parser = parsed(delta(word, content="H") + delta(word, content="i") + STOP + DONE)
    (choice,) = parser.completion().choices
    assert (parser.end, choice.finish_reason, choice.message.content) == ("finished", "stop", "Hi")
    assert [(one.rule.id, one.count, one.detail) for one in parser.anomalies] == [("CF203", 2, "finish_reason")]


def test_an_anomaly_says_what_how_often_and_where_first() -> None:
    parser = parsed(HI + PING + b"data: null\n\n" * 1000 + b"data: \n\n" + STOP + DONE)
    null, blank = parser.anomalies
    assert (null.rule.id, null.count, null.offset) == ("CF105", 1000, len(HI + PING))
    assert (blank.rule.id, blank.count, blank.offset) == ("CF103", 1, len(HI + PING) + 12_000)
    assert str(null) == f"CF105: an event whose data is null (1000 times, first at byte {len(HI + PING)})"
    assert str(blank) == f"CF103: an event with blank data (at byte {len(HI + PING) + 12_000})"


def test_anomalies_can_be_read_while_it_runs() -> None:
    parser = fed(HI)
    assert parser.anomalies == ()
    parser.feed(b"data: null\n\n")
    early = parser.anomalies
    parser.feed(b"data: null\n\n")
    assert [anomaly.count for anomaly in (*early, *parser.anomalies)] == [1, 2]
