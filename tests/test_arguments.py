"""Wrong arguments of public calls: a `TypeError` or `ValueError` that names the argument, before anything is done."""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case

from chunkfold import (
    ChatCompletionMessage,
    ChatCompletionParser,
    ChatCompletionStream,
    CumulativeDeltas,
    EventStreamDecoder,
    OneChoice,
    PartialJSON,
    ThinkTags,
    Transform,
    encode_event,
    error_from_response,
    is_retryable,
    parse_payload,
)
from chunkfold.archive import fold_record

CALLS: dict[str, Callable[[Any], object]] = {
    "max_event_size": EventStreamDecoder,
    "data": encode_event,
    "event": lambda value: encode_event(b"a", event=value),
    "id": lambda value: encode_event(b"a", id=value),
    "retry": lambda value: encode_event(b"a", retry=value),
    "status_code": lambda value: error_from_response(value, {}, b""),
    "headers": lambda value: error_from_response(500, value, b""),
    "body": lambda value: error_from_response(500, {}, value),
    "exc": lambda value: ChatCompletionParser().interrupt(value),
    "max_size": lambda value: fold_record(b"", max_size=value),
    "opening": ThinkTags,
    "closing": lambda value: ThinkTags("<a>", value),
    "inside": lambda value: ThinkTags(inside=value),
    "text": lambda value: PartialJSON().feed(value),
    "half_numbers": lambda value: ChatCompletionStream([]).partials(half_numbers=value),
    "reasoning_content": lambda value: ChatCompletionMessage().to_param(reasoning_content=value),
    "after_output": lambda value: is_retryable(OSError(), after_output=value),
    "on_chunks": lambda value: ChatCompletionParser().observe(on_chunks=value),
    "on_end": lambda value: ChatCompletionStream([]).observe(on_end=value),
}


class Bytes(bytes):
    """A class of its own."""


@each_case("kind", [bytes, bytearray, memoryview, Bytes])
def test_bytes_of_any_kind_are_bytes(kind: Callable[[bytes], Any]) -> None:
    assert error_from_response(500, {}, kind(b'\xef\xbb\xbf{"message":"boom"}')).error.message == "boom"
    assert EventStreamDecoder().feed(kind(b"data: a\n\n"))[0].data == b"a"
    parser = ChatCompletionParser()
    parser.feed(kind(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'))
    parser.fold(kind(b'data: {"choices":[{"delta":{"content":"b"}}]}\n\n'))
    assert parser.snapshot.text == "ab"


@each_case("value", [1.5, [1], object()], ids=["a fraction", "a list", "an object"])
@each_case("name", CALLS)
def test_an_argument_of_a_wrong_type_is_a_type_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{name}: expected .*, received "):
        CALLS[name](value)


@pytest.mark.parametrize("transform", [ThinkTags, CumulativeDeltas, OneChoice])
def test_only_a_chunk_is_transformed(transform: Callable[[], Transform]) -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match=r"^chunk: expected a chunkfold.ChatCompletionChunk, received 5"):
        transform().feed(wrong)


@pytest.mark.parametrize("value", [b"{}", "{}", {}, None])
def test_only_an_event_is_parsed(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^event: expected a ServerSentEvent, received "):
        parse_payload(value)


def test_a_status_is_no_bool() -> None:
    with pytest.raises(TypeError, match=r"^status_code: expected an int or None, received True"):
        error_from_response(True, {}, b"")


def test_a_size_below_zero_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"^max_event_size: expected 0 or more, received -1$"):
        EventStreamDecoder(-1)


@each_case("read", [ChatCompletionParser.feed, ChatCompletionParser.fold])
def test_a_time_is_a_reading_of_the_clock(read: Callable[..., object]) -> None:
    parser = ChatCompletionParser(clock=lambda: 0.0)
    for wrong, error in (("1", TypeError), (True, TypeError), (float("nan"), ValueError), (10**400, ValueError)):
        with pytest.raises(error, match=r"^arrived: expected a reading of the clock.*, received "):
            read(parser, b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', arrived=wrong)
    read(parser, b'data: {"choices":[{"delta":{"content":"b"}}]}\n\n', arrived=1)
    assert (parser.snapshot.text, parser.timing.first_byte) == ("b", 1)
