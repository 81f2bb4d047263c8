"""What is an anomaly, where it is noted, and what strict mode makes of it."""

from cases import each_case
from parsed_bodies import fed, parsed
from played import HI, PING, STOP

from chunkfold.testing import DONE, choice, chunk, delta, hostile_streams

# What the standard allows, what nobody knows, and what comes in more than one right way: streams of the hostile set.
CLEAN = [
    *("comments", "blocks-without-data", "id-and-name-on-each-event", "unknown-fields", "bom", "crlf", "cr"),
    *("no-space", "mixed-line-ends", "data-over-lines", "text-after-done", "role-and-finish-in-one", "keys-twice"),
    *("reasoning-content", "reasoning-twice", "reasoning-details", "two-choices", "filter-first", "code-of-zero"),
    *("one-tool-thrice", "late-id", "sparse-indexes", "arguments-null", "call-of-the-server", "error-null"),
    *("usage-trailer", "usage-at-finish", "usage-in-choice", "usage-on-each", "usage-zero-before", "usage-null-later"),
]
NO_ANOMALIES = {
    **{stream.name: stream.body for stream in hostile_streams() if stream.name in CLEAN},
    "an empty line more": b"\n" + HI + b"\n\n" + STOP + DONE,
    "keys nobody knows": chunk(choice(content="Hi", mood=1), x=[1], obfuscation="abc") + STOP + DONE,
}


@each_case("body", NO_ANOMALIES)
def test_what_is_never_an_anomaly(body: str) -> None:
    assert {*CLEAN} < {*NO_ANOMALIES}
    parser = parsed(NO_ANOMALIES[body], strict=True)
    assert (parser.error, parser.end, parser.anomalies) == (None, "finished", ())


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
