"""The events of audio, images, annotations and usage."""

import base64
from typing import Any

import pytest
from cases import each_case
from event_rows import briefly, events_of, only, short_repr
from hypothesis import example, given
from hypothesis import strategies as st
from made_streams import CUTS, STOP, Stream, encoded

from chunkfold import AnnotationReceived, AudioDelta, ChatCompletionParser, TextDelta, UsageReceived
from chunkfold.testing import DONE, choice, chunk, delta


def audio_events(pieces: list[str]) -> tuple[bytes, bytes]:
    """The bytes of the events, joined, and those of the final message."""
    parser, events = Stream([*(delta(audio={"data": piece}) for piece in pieces), STOP, DONE]).read()
    audio = parser.completion().message.audio
    received = [one.data for one in only(AudioDelta, events)]
    assert all(received)
    return b"".join(received), base64.b64decode((audio and audio.data) or "")


@given(st.lists(st.binary(max_size=7), max_size=6))
def test_audio_whose_pieces_are_encoded_one_by_one(pieces: list[bytes]) -> None:
    joined = b"".join(pieces)
    assert audio_events([encoded(piece) for piece in pieces]) == (joined, joined)


@given(st.binary(max_size=30), CUTS)
@example(b"abcd", [1, 2, 3, 4, 5, 6, 7])
@example(b"abcdef", [5])
def test_audio_that_is_one_encoded_text_cut_anywhere(data: bytes, cuts: list[int]) -> None:
    pieces = Stream([encoded(data).encode()]).cut(cuts).pieces
    assert audio_events([piece.decode() for piece in pieces]) == (data, data)


def test_audio_comes_as_soon_as_it_can() -> None:
    told = briefly(events_of(*(delta(audio={"data": piece}) for piece in ("QUJ", "DREVG", "R0", "g="))))
    assert told == [("audio", b"ABCDEF", ""), ("audio", b"GH", "")]


@pytest.mark.parametrize(
    "pieces",
    [["QU*D"], ["QU", "*D"], ["QU**JD"], ["\xe9" * 4]],
    ids=["at once", "cut", "but for some characters", "beyond ASCII"],
)
def test_what_is_no_base64_gives_no_bytes(pieces: list[str]) -> None:
    told = briefly(events_of(*(delta(audio={"data": piece, "transcript": "a"}) for piece in pieces)))
    assert told == [("audio", b"", "a")] * len(pieces)


@each_case(
    ("pieces", "data"),
    [
        # Was once wrong: the line end is kept as the rest of a cut text, so all that follows is out of step and gives
        # nothing. And in the message, what follows the padding of a piece that ends in a line end was not read.
        *(([base64.encodebytes(data).decode()] * 2, data * 2) for data in (b"ABC", b"AB", b"A")),
        (["QU", "JD", "REVG\n"], b"ABCDEF"),  # cut anywhere: the texts are joined, as they are without it
    ],
)
def test_audio_whose_pieces_end_in_line_ends(pieces: list[str], data: bytes) -> None:
    """As Python's `base64.encodebytes` has them."""
    assert audio_events(pieces) == (data, data)


def test_audio_that_is_sent_as_the_content() -> None:
    """vLLM-Omni does so. Many chunks in a row are alike, so a short path could take them."""
    texts, sounds = [f"word {n} " for n in range(20)], [b"sound %d" % n for n in range(20)]
    written = [chunk(choice(content=text), modality="text") for text in texts]
    spoken = [chunk(choice(content=encoded(sound)), modality="audio") for sound in sounds]
    parser, events = Stream([*written, *spoken, *written, chunk(choice("stop", content=""), modality="audio")]).read()
    message = parser.completion().message
    assert message.content == "".join(one.delta for one in only(TextDelta, events)) == "".join(texts * 2)
    assert [one.data for one in only(AudioDelta, events)] == sounds
    assert message.audio is not None
    assert message.audio.data == encoded(b"".join(sounds))
    assert [one.text + one.reasoning for one in ChatCompletionParser().feed(spoken[0])] == [""]


def test_audio_beside_its_content_stays_where_it_is() -> None:
    spoken = chunk(choice(content="a word", audio={"data": encoded(b"a")}), modality="audio")
    (one,) = ChatCompletionParser().feed(spoken)
    sent = one.choices[0].delta
    assert sent.audio is not None
    assert (sent.content, sent.audio.data) == ("a word", encoded(b"a"))


def test_audio_of_choices_is_kept_apart() -> None:
    pieces = [delta(index=index, audio={"data": piece}) for piece in ("QU", "JD") for index in (0, 1)]
    assert [(one.choice, *short_repr(one)) for one in only(AudioDelta, events_of(*pieces))] == [
        (0, "audio", b"ABC", ""),
        (1, "audio", b"ABC", ""),
    ]


@each_case("citation", ["https://a.org", {"url": 5, "title": "a"}])
def test_an_annotation_with_a_wrong_type_is_the_messages_too(citation: Any) -> None:
    """Was once wrong: the event had the raw value as its field."""
    parser, events = Stream(
        [delta(annotations=[{"type": "url_citation", "url_citation": citation}]), STOP, DONE]
    ).read()
    (received,) = [one.annotation for one in only(AnnotationReceived, events)]
    assert [received] == parser.completion().message.annotations
    assert received.url_citation is None or received.url_citation.url is None


USAGES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "the same in every chunk": ([{"prompt_tokens": 1}] * 3, [{"prompt_tokens": 1}]),
    "growing":
        ([{"completion_tokens": 1}, {"completion_tokens": 2}], [{"completion_tokens": 1}, {"completion_tokens": 2}]),
    "in parts":
        ([{"prompt_tokens": 1}, {"completion_tokens": 2}],
         [{"prompt_tokens": 1}, {"prompt_tokens": 1, "completion_tokens": 2}]),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "told"), USAGES.values(), ids=USAGES)
def test_usage_is_told_when_it_changes(sent: list[dict[str, Any]], told: list[dict[str, Any]]) -> None:
    parser, events = Stream([*(chunk(usage=one) for one in sent), STOP, DONE]).read()
    usages = [one.usage for one in only(UsageReceived, events)]
    assert [one.model_dump(exclude_unset=True) for one in usages] == told
    assert usages[-1] == parser.completion().usage


@pytest.mark.parametrize("late", [0, 9], ids=["at once", "late"])
def test_usage_that_says_nothing_is_told_too(late: int) -> None:
    parser, events = Stream([chunk(usage={}), chunk(usage={}), STOP, DONE]).read(late)
    assert [one.usage for one in only(UsageReceived, events)] == [parser.completion().usage]
