"""What counts as output, when it is emitted, and what of it a limit counts."""

from collections.abc import Callable
from typing import Any

from cases import each_case
from limited import assert_named
from parsed_bodies import folded, parsed
from played import ERROR, HI, PING, ROLE, STOP, USAGE

from chunkfold import (
    ChatCompletionAccumulator,
    ChatCompletionParser,
    IncompleteStreamError,
    StreamEnd,
    StreamStalledError,
    ThinkTags,
)
from chunkfold.testing import DONE, delta, event

CALL = {"index": 0, "id": "t1", "type": "function"}
OUTPUT: dict[str, dict[str, Any]] = {
    "text": {"content": "Hi"},
    "a list of parts": {"content": [{"type": "text", "text": "Hi"}]},
    "reasoning": {"reasoning": "Hm"},
    "reasoning_content": {"reasoning_content": "Hm"},
    "reasoning details": {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm"}]},
    "reasoning details of no type": {"reasoning_details": [{"text": "Hm"}]},
    "encrypted reasoning": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "zzz"}]},
    "reasoning encrypted by Kimi": {"reasoning_details": [{"type": "encrypted", "encrypted": "zzz"}]},
    "reasoning encrypted by Venice": {"reasoning_content": "__ENCRYPTED_REASONING__x", "reasoning_encrypted": True},
    "opaque reasoning": {"reasoning_opaque": "x"},
    "a signature of reasoning": {"reasoning_signature": "x"},
    "a signature under another name": {"reasoning_content_signature": "x"},
    "redacted reasoning": {"redacted_reasoning_content": "x"},
    "reasoning encrypted by Doubao": {"encrypted_content": "x"},
    "a refusal": {"refusal": "No"},
    "a tool call's name": {"tool_calls": [{**CALL, "function": {"name": "f"}}]},
    "a tool call's arguments": {"tool_calls": [{**CALL, "function": {"arguments": "{"}}]},
    "a custom tool's input": {"tool_calls": [{**CALL, "type": "custom", "custom": {"input": "x"}}]},
    "arguments of a legacy call": {"function_call": {"name": "f", "arguments": "{}"}},
    "audio": {"audio": {"data": "AAAA"}},
    "an audio transcript": {"audio": {"transcript": "Hi"}},
    "an image in a list of parts": {"content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
    "a refusal in a list of parts": {"content": [{"type": "refusal", "refusal": "No"}]},
    "an image": {"images": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
}
NO_OUTPUT: dict[str, dict[str, Any]] = {
    "a role": {"role": "assistant"},
    "empty texts": {"content": "", "reasoning": "", "refusal": ""},
    "a tool call's id": {"tool_calls": [CALL]},
    "an audio's id": {"audio": {"id": "a1"}},
    "an audio's expiry": {"audio": {"expires_at": 1}},
    "a part of another kind": {"content": [{"type": "reference", "reference_ids": [1]}]},
    "an annotation": {"annotations": [{"type": "t"}]},
    "an unknown key": {"mood": "good"},
}


@each_case("kind", OUTPUT | NO_OUTPUT)
def test_what_counts_as_output(kind: str) -> None:
    is_output = kind in OUTPUT
    body = delta(**(OUTPUT | NO_OUTPUT)[kind])
    assert parsed(body + DONE).end is (StreamEnd.DONE if is_output else StreamEnd.EMPTY)
    assert parsed(body).end is (StreamEnd.TRUNCATED if is_output else StreamEnd.EMPTY)
    failed = parsed(body + ERROR)
    assert failed.error.emitted_output is is_output
    accumulator = ChatCompletionAccumulator()
    for one in ChatCompletionParser().feed(body + USAGE):
        accumulator.add(one)
    assert accumulator.has_output is is_output
    if is_output:
        assert_named(parsed(body * 3 + STOP + DONE, max_output_size=0), "max_output_size", 0)


def test_max_output_size_counts_nothing_else() -> None:
    nothing = b"".join(delta(**NO_OUTPUT[kind]) for kind in ("a role", "empty texts", "an unknown key"))
    assert parsed(nothing + USAGE + PING + STOP + DONE, max_output_size=0).end is StreamEnd.FINISHED


TAIL = HI.removesuffix(b"\n")  # its chunk comes at the end of the body
HANDLERS: dict[str, tuple[Callable[[ChatCompletionParser], object], bool]] = {
    "nothing returned": (lambda parser: parser.fold(HI), False),
    "a chunk": (lambda parser: parser.feed(HI), True),
    "a chunk of a large read": (lambda parser: parser.feed(HI + b": \n" * 2**19), True),
    "a chunk without output": (lambda parser: (parser.feed(ROLE), parser.fold(HI)), False),
    "a chunk at the end": (lambda parser: parser.fold(TAIL), True),
    "events": (lambda parser: (parser.fold(HI), parser.events()), True),
    "events that wait": (lambda parser: (parser.events(), parser.fold(HI)), False),
}


@each_case("name", HANDLERS)
def test_output_is_emitted_where_a_chunk_or_an_event_is_returned(name: str) -> None:
    parser = ChatCompletionParser()
    take, is_emitted = HANDLERS[name]
    take(parser)
    parser.close()
    assert isinstance(parser.error, IncompleteStreamError)
    assert (parser.emitted_output, parser.error.emitted_output, parser.error.retryable) == (
        *(is_emitted, is_emitted),
        not is_emitted,
    )


def test_events_of_an_error_are_emitted_with_it() -> None:
    parser = folded(HI + event({"error": {"message": "x", "code": 503}}))
    assert parser.error.retryable
    assert parser.events()
    assert (parser.emitted_output, parser.error.emitted_output, parser.error.retryable) == (True, True, False)


@each_case("way", [ChatCompletionParser.feed, ChatCompletionParser.fold])
def test_what_a_late_read_ends_with_is_emitted(way: Callable[[ChatCompletionParser, bytes], Any]) -> None:
    """A stall ends the stream after a large read, and returns the text that a transform held back."""
    readings = iter([0.0, 9.0])
    parser = ChatCompletionParser(transforms=[ThinkTags()], total_timeout=5, clock=lambda: next(readings))
    chunks = way(parser, delta(content="<thi") + b": " + b"x" * 2**20 + b"\n")
    assert isinstance(parser.error, StreamStalledError)
    assert parser.error.snapshot.text == "<thi"
    assert parser.error.emitted_output is bool(chunks) is (way is ChatCompletionParser.feed)


def test_what_a_callback_gets_is_emitted() -> None:
    parser = folded(HI, on_server_sent_event=lambda event, chunks: None)
    assert parser.emitted_output


def test_a_whole_message_is_bounded_like_its_deltas() -> None:
    """What shows at the end is noted once, also where the end is itself an error."""
    body = event({"choices": [{"index": 0, "message": {"content": "too long"}, "finish_reason": "stop"}]})
    parser = parsed(body, max_output_size=5)
    assert_named(parser, "max_output_size", 5)
    assert parser.snapshot.text == "too long"
    assert {one.rule.id: one.count for one in parser.anomalies}["CF216"] == 1
