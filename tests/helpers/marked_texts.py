"""Texts that tell where they stood, and a search for how much of them shows.

Every place of a request and a response holds a marked text of its own: 5 kB of numbered words that name the place,
between characters that command a terminal. Whatever shows itself is then searched: how much of which place it shows,
and whether anything in it is more than visible.
"""

import json
import re
from collections import Counter
from typing import Any

from chunkfold.testing import wire

MESSAGE = 500  # characters of a provider's message that may show in an exception's text
EXCERPT = 200  # and of anything else
BRIEF = 60  # and of anything in a repr
COMMANDS = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\u2066\r\n\x00"


def marked(place: str) -> str:
    """5 kB that tell where they stood."""
    first, *words, last = (f"{place}~{number:04}" for number in range(5000 // (len(place) + 6)))
    return f"{first} {COMMANDS} {' '.join(words)} {COMMANDS} {last}"


def one_line(place: str) -> bytes:
    """The same for where no line may end."""
    return re.sub("[\r\n]", " ", marked(place)).encode()


def places_in(text: str) -> Counter[str]:
    """How many characters of each place show, the blanks between the words among them."""
    words = set(re.findall(r"(\w+)~(\d{4})", text))
    return Counter(place for place, number in words for _ in range(len(place) + 6))


def acting(text: str, *allowed: str) -> set[str]:
    """The characters that are more than visible."""
    return {character for character in text if not character.isprintable()} - {*allowed}


def event(payload: Any, *lines: bytes) -> bytes:
    """An event with more lines than its data; one that no provider should send can be among them."""
    data = b"data: " + payload + b"\n\n" if isinstance(payload, bytes) else wire.event(payload)
    return b"\n".join([*lines, data])


HEADERS = {
    name: re.sub("[\r\n\x00]", "", marked(f"header_{number}")).encode().decode("latin-1")
    for number, name in zip(
        "abcdefghij",
        (
            *("authorization", "set-cookie", "x-request-id", "content-type", "retry-after"),
            *("retry-after-ms", "date", "location", "x-ratelimit-reset", "www-authenticate"),
        ),
        strict=True,
    )
}


DETAILS = {
    "message": marked("message"),
    "type": marked("type"),
    "code": marked("code"),
    "param": marked("param"),
    "failed_generation": marked("failed_generation"),
    "metadata": {"raw": marked("raw"), marked("key"): [marked("item")]},
    marked("name"): marked("value"),
}


def check_text(text: str, *, most: int) -> None:
    assert len(text) < 3_000
    assert not acting(text)
    places = places_in(text)
    assert not places or max(places.values()) <= BRIEF
    assert places.total() <= most
    assert not any(place.startswith("header") for place in places)


# The shapes in which errors come; of each, the one place that may show.
ERRORS: dict[str, tuple[bytes, str]] = {
    "envelope": (event({"error": DETAILS}), "message"),
    "envelope beside choices": (
        event({"error": DETAILS, "choices": [{"delta": {"content": marked("content")}, "finish_reason": "error"}]}),
        "message",
    ),
    "object": (event({"object": "error", **DETAILS}), "message"),
    "type": (event({**DETAILS, "type": "error"}), "message"),
    "field": (b"error: " + json.dumps(DETAILS).encode() + b"\n\n", "message"),
    "event": (event(DETAILS, b"event: error"), "message"),
    "event with text": (event(one_line("text"), b"event: error"), "text"),
    "event with a string": (event(marked("text"), b"event: error"), "text"),
    "string": (event({"error": marked("text"), "error_type": marked("type")}), "text"),
    "list": (event({"error": [{"message": marked("text"), "loc": [marked("item")]}]}), "text"),
    "list of many texts": (event({"error": [marked("text")] * 99}), "text"),
    "in a list": (event([{"error": DETAILS}]), "message"),
    "base_resp": (event({"base_resp": {"status_code": 1002, "status_msg": marked("text")}}), "text"),
    "base_resp with a word": (event({"base_resp": {"status_code": marked("code"), "status_msg": ""}}), "code"),
    "code": (event({"code": 429, marked("name"): marked("value")}), ""),
    "detail": (event({"detail": marked("text")}), "text"),
    "details": (event({"detail": [{"msg": marked("text"), "loc": [marked("item")]}]}), "text"),
    "many details": (event({"detail": [{"msg": marked("text")}] * 99}), "text"),
    "no text": (event({"error": {"message": {marked("name"): marked("value")}}}), ""),
    "nested": (event({"error": {"error": {"message": marked("text")}}}), "text"),
    "finish reason": (event({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}), ""),
    "finish reason of an odd choice": (
        event({"choices": [{"index": [marked("index")] * 9, "finish_reason": "error"}]}),
        "index",
    ),
    "finish reason, told": (event({"choices": [{"finish_reason": "error", "error": DETAILS}]}), "message"),
    "finish reason, told aside": (
        event({"choices": [{"finish_reason": "abort"}], "x_groq": {"error": marked("text")}}),
        "text",
    ),
    "other event": (event({"error": DETAILS}, b"event: " + one_line("event")), "message"),
    "body": (json.dumps({"error": DETAILS}).encode(), "message"),
}
