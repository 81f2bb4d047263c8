"""The decoder follows the standard to the letter, limits included, in any cut; and what is encoded is decoded."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from reference_decoder import decode_whole

from chunkfold import EventStreamDecoder, ServerSentEvent, encode_event
from chunkfold.testing import bytewise, cut
from invariants.holding import FEW_BYTES, hold, same

MANY_DIGITS = 10**600  # from here on a reconnection time is only a very long time


class Decoded(NamedTuple):
    """What a decoder tells of a body that it has read to the end."""

    events: list[ServerSentEvent]
    discarded: list[ServerSentEvent]
    opening: bytes
    last_event_id: str
    reconnection_time: int | None
    limit_exceeded: bool
    unfinished: Any
    preamble: bytes | None
    opening_limit: int | None = None


def decoded(pieces: Iterable[bytes], limit: int | None = None) -> Decoded:
    """Read a body to its end."""
    decoder = EventStreamDecoder(limit)
    events: list[ServerSentEvent] = []
    discarded: list[ServerSentEvent] = []
    opening, opening_limit = b"", None
    for piece in pieces:
        events += decoder.feed(piece)
        discarded += decoder.discarded
        opening += decoder.opening
        opening_limit = opening_limit or decoder.opening_limit
    decoder.close()
    discarded += decoder.discarded
    opening += decoder.opening
    opening_limit = opening_limit or decoder.opening_limit
    ended = _state(decoder)
    same("nothing comes after the end", decoder.feed(b"\n\nid: late\nretry: 1\ndata: late\n\n"), [])
    decoder.close()
    same("nothing changes after the end", _state(decoder), ended)
    return Decoded(events, discarded, opening, *ended, opening_limit)


def _state(decoder: EventStreamDecoder) -> tuple[Any, ...]:
    # A body that is too large was given up within a line that nobody judged.
    preamble = None if decoder.limit_exceeded else decoder.preamble
    heads = decoder.last_event_id, decoder.reconnection_time
    return *heads, decoder.limit_exceeded, decoder.unfinished, preamble


def check_decoder(body: bytes, places: list[int], limit: int | None) -> None:
    """The standard to the letter, limits included, in any cut; and what is encoded is decoded."""
    reference = decode_whole(body, limit)
    whole = decoded([body], limit)
    events = [(event.event, event.data, event.text, event.id, event.offset) for event in whole.events]
    same("events are the standard's", events, [tuple(event) for event in reference.events])
    same("the last event ID is the standard's", whole.last_event_id, reference.last_event_id)
    same("the limit holds for data and lines", whole.limit_exceeded, reference.limit_exceeded)
    times = whole.reconnection_time, reference.reconnection_time
    is_long = None not in times and all(time > MANY_DIGITS for time in times if time is not None)
    hold("the reconnection time is the standard's", times[0] == times[1] or is_long, times)
    for pieces in cuttings(body, places):
        same("what is decoded does not depend on the cuts", decoded(pieces, limit), whole)
    for event in whole.events:
        if "\0" not in event.event:
            same("what was encoded is decoded", decoded([encode_event(event)]).events, [event._replace(offset=0)])


def cuttings(body: bytes, places: list[int]) -> Iterator[list[bytes]]:
    yield cut(body, *places)
    if b"\r" in body:
        yield re.split(rb"(?<=\r)", body)  # each CRLF over two reads
    if len(body) <= FEW_BYTES:
        yield bytewise(body)
