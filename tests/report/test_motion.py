"""The picture that moves: it shows what came, when it came, and how it ended."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from cases import each_case

from chunkfold.recording import RecordedRead, Recording
from chunkfold.report import motion
from chunkfold.testing import DONE, StreamBuilder, delta, sse

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
STAY = 3.0  # seconds for which an end is seen


def recording(stream: StreamBuilder, *, pace: float = 1.0, end: str = "body") -> Recording:
    reads = tuple(RecordedRead(pace * (number + 1), data) for number, data in enumerate(stream.events))
    return Recording(reads, end=end)  # type: ignore[arg-type]


def drawn(picture: str) -> list[ET.Element]:
    return list(ET.fromstring(picture).iter(f"{SVG}text"))  # noqa: S314 - it was made here


def texts(picture: str, kind: str) -> list[str]:
    return [text.text or "" for text in drawn(picture) if text.get("class", "").split()[0] == kind]


def seen_from(picture: str, text: str) -> float:
    """The second of the whole from which a text is seen."""
    found = next(each for each in drawn(picture) if each.text == text)
    name = found.get("class", "").split()[1]
    share = re.search(rf"@keyframes {name}{{0%{{opacity:0}}([\d.]+)%{{opacity:1}}", picture)
    total = re.search(rf"animation:{name} ([\d.]+)s", picture)
    assert share
    assert total
    return float(share[1]) / 100 * float(total[1])


HELLO = StreamBuilder().reasoning("not sent here").text("Hel", "lo").finish().done()


def test_the_frames_stand_above_and_the_message_below() -> None:
    picture = motion([recording(HELLO)])
    frames = texts(picture, "frame")
    assert len(frames) == len(HELLO.events)
    assert frames[-1] == "data: [DONE]"
    assert '"content":"Hel"' in frames[1]
    assert texts(picture, "text") == ["Hel", "lo"]
    assert texts(picture, "good") == ["end: finished", "finish reason stop: completion() returns"]


def test_each_read_is_seen_when_it_came() -> None:
    picture = motion([recording(HELLO)])
    assert seen_from(picture, "Hel") == pytest.approx(2, abs=0.01)
    assert seen_from(picture, "lo") == pytest.approx(3, abs=0.01)
    assert seen_from(picture, "end: finished") == pytest.approx(5, abs=0.01)
    faster = motion([recording(HELLO)], speed=10)
    assert seen_from(faster, "lo") == pytest.approx(0.3, abs=0.01)
    assert seen_from(faster, "end: finished") == pytest.approx(0.5, abs=0.01)


def test_the_second_stream_follows_the_first() -> None:
    cut = recording(StreamBuilder().text("cut"), end="error")
    picture = motion([recording(HELLO), cut])
    assert seen_from(picture, "cut") == pytest.approx(5 + STAY + 2, abs=0.02)
    assert texts(picture, "bad") == [
        "end: interrupted",
        "completion() raises StreamInterruptedError; the text so far is kept",
    ]


def test_a_stream_ends_as_it_was_recorded() -> None:
    left = motion([recording(StreamBuilder().text("left"), end="left")])
    assert texts(left, "bad") == ["end: closed", "completion() raises IncompleteStreamError; the text so far is kept"]
    stalled = replace(recording(StreamBuilder().text("late").comment(), end="left"), progress_timeout=0.5)
    assert texts(motion([stalled]), "bad")[0] == "end: stalled"
    assert texts(motion([Recording((RecordedRead(1.0, DONE),))]), "bad")[0] == "end: empty"


def test_calls_that_come_in_turns_have_a_row_each() -> None:
    stream = StreamBuilder().tool_calls(["weather", '{"a":', "1}"], ["time", '{"b":', "2}"]).finish().done()
    assert rows_of(stream, "call") == ['weather {"a":1}', 'time {"b":2}']


def test_choices_that_come_in_turns_have_a_row_each() -> None:
    stream = StreamBuilder().text("Hel").text("Hal", choice=1).text("lo").text("lo", choice=1)
    assert rows_of(stream.finish().finish(choice=1).done(), "text") == ["Hello", "Hallo"]


def test_a_refusal_and_the_transcript_of_spoken_output_are_shown() -> None:
    assert rows_of(StreamBuilder().refusal("I can", "not.").finish().done(), "text") == ["I cannot."]
    pieces = ({"id": "audio_1", "transcript": "Good "}, {"data": "aGk="}, {"transcript": "morning."})
    spoken = StreamBuilder().raw(b"".join(delta(audio=piece) for piece in pieces))
    assert rows_of(spoken.finish().done(), "text") == ["Good morning."]


def rows_of(stream: StreamBuilder, kind: str) -> list[str]:
    rows: dict[str, str] = {}
    for text in drawn(motion([recording(stream)])):
        if text.get("class", "").startswith(kind):
            rows[text.get("y", "")] = rows.get(text.get("y", ""), "") + (text.text or "")
    return list(rows.values())


def test_frames_move_up_when_there_are_many() -> None:
    picture = motion([recording(StreamBuilder().text(*"abcdefghijklmnopqrstuvwxyz").finish().done())])
    ups = re.findall(r"translateY\(-(\d+)px\)", picture)
    assert int(ups[0]) == 20
    assert int(ups[-1]) == (29 - 7) * 20


def test_long_text_goes_on_in_the_next_row_and_what_does_not_fit_is_left_out() -> None:
    words = [f"word{number:03} " for number in range(400)]
    picture = motion([recording(StreamBuilder().text(*words).finish())])
    found = [text for text in drawn(picture) if text.get("class", "").startswith("text")]
    heights = {float(text.get("y", "")) for text in found}
    assert len(heights) == 7
    assert max(heights) < 424 - 40
    assert all(float(text.get("x", "")) + float(text.get("textLength", "")) <= 600 for text in found)


def test_what_a_model_writes_is_escaped() -> None:
    picture = motion([recording(StreamBuilder().text('<script>alert("x")</script>', "&amp;").finish())])
    assert "<script" not in picture
    assert texts(picture, "text") == ['<script>alert("x")</script>', "&amp;"]


def test_control_characters_are_shown_as_escapes() -> None:
    """Was once wrong: XML has no control characters, so the picture could not be read."""
    stream = StreamBuilder().text("a\x1b[31mb\t\ufffe\u202e").tool_call("f\0", '{"x": "\x07"}').finish().done()
    picture = motion([recording(stream)])
    assert "".join(texts(picture, "text")) == "a\\x1b[31mb\t\\ufffe\\u202e"
    assert "".join(texts(picture, "call")) == r'f\x00 {"x": "\x07"}'


VERDICTS = {  # by the finish reason and the usage that are sent
    ("stop", None): "finish reason stop: completion() returns",
    ("stop", 5): "finish reason stop, 5 tokens: completion() returns",
    ("stop", "no count"): "finish reason stop: completion() returns",
    ("a\x1b[31m\x00b", None): r"finish reason a\x1b[31m\x00b: completion() returns",
    ("x" * 500, None): "finish reason " + "x" * 49 + "...",
}


@each_case("sent", VERDICTS)
def test_the_finish_reason_and_the_usage_are_shown(sent: tuple[str, int | str | None]) -> None:
    reason, tokens = sent
    usage = {"prompt_tokens": 3} if tokens == "no count" else {"completion_tokens": tokens} if tokens else None
    body = b"".join(sse({"choices": [{"delta": {"content": "Hi"}, "finish_reason": reason}], "usage": usage}))
    assert texts(motion([Recording((RecordedRead(0.5, body),))]), "good")[1] == VERDICTS[sent]


def test_a_body_without_times_is_there_at_once() -> None:
    picture = motion([Recording((RecordedRead(0.0, HELLO.body),))])
    assert "".join(texts(picture, "text")) == "Hello"
    assert seen_from(picture, "lo") == 0


@pytest.mark.parametrize(
    ("recordings", "speed"),
    [([], 1.0), ([Recording(())], 0.0), ([Recording(())], float("nan"))],
    ids=["no recording", "a speed of 0", "no speed"],
)
def test_there_must_be_something_to_show(recordings: list[Recording], speed: float) -> None:
    with pytest.raises(ValueError, match="expected one or more recordings and a speed above 0"):
        motion(recordings, speed=speed)


def test_the_picture_of_the_docs_is_up_to_date() -> None:
    recordings = [Recording.load(DOCS / "replay" / name) for name in ("whole.jsonl", "cut.jsonl")]
    assert (DOCS / "replay.svg").read_text("utf-8") == motion(recordings), (
        "chunkfold report docs/replay/whole.jsonl docs/replay/cut.jsonl --motion docs/replay.svg"
    )
