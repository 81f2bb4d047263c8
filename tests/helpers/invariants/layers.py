"""Each layer by hand: payloads, and chunks that are folded again, come to what the parser comes to."""

from chunkfold import (
    RULES,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChunkfoldError,
    StreamEnd,
    error_from_response,
    parse_payload,
)
from invariants.decoding import decoded
from invariants.holding import hold, plain, same, shown
from invariants.readings import Reading, has_output, is_json
from invariants.values import check_error


def check_payloads(body: bytes) -> None:
    """Nothing raises for what an event, or the body of a refusal, may be."""
    for event in decoded([body]).events:
        before = plain(event)
        payload = parse_payload(event)
        again = parse_payload(event)
        same("a payload is read the same each time", shown(payload.chunks), shown(again.chunks))
        same("an event is not changed", plain(event), before)
        hold("after an error, or [DONE], nothing is both", not (payload.done and payload.error))
        if payload.error is not None:
            check_error(payload.error)
        for rule, detail in payload.notes:
            hold("a note is a rule and a text", rule in RULES and isinstance(detail, str), rule, detail)
    for headers in ({}, {"Retry-After": body[:30].decode("latin-1"), "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}):
        error = error_from_response(500, headers, body)
        hold("a refusal is known by its status", error.status_code is not None)
        check_error(error)


def check_refolded(reading: Reading) -> None:
    """The chunks, folded again, are the snapshot; and folding does not change them."""
    if reading.options.is_left:
        return
    accumulator = ChatCompletionAccumulator()
    before = shown(reading.chunks)
    for chunk in reading.chunks:
        accumulator.add(chunk)
    accumulator.finish()
    same("a chunk is not changed", shown(reading.chunks), before)
    same("the chunks, folded again, are the snapshot", plain(accumulator.snapshot), plain(reading.parser.snapshot))
    same("and as much output", accumulator.has_output, has_output(reading.parser))


def check_layers(body: bytes, whole: Reading) -> None:
    """The layers, put together by hand, come to what the parser comes to, where it adds nothing of its own."""
    wire = decoded([body])
    accumulator = ChatCompletionAccumulator()
    chunks: list[ChatCompletionChunk] = []
    error: ChunkfoldError | None = None
    is_done = False
    unexplained = ""
    for event in wire.events:
        payload = parse_payload(event)
        chunks += map(accumulator.add, payload.chunks)
        error, is_done = payload.error, payload.done
        unexplained = unexplained or payload.foreign
        if error is not None or is_done:
            break
    # Halves of characters, what the standard throws away, and other bodies are the parser's.
    is_nearly = any(anomaly.rule.id in ("CF109", "CF110") for anomaly in whole.parser.anomalies)
    is_more = is_nearly or (wire.unfinished is not None and error is None and not is_done)
    is_more = is_more or any(one.event in ("", "error") for one in wire.discarded)
    if is_more or is_json(body) or wire.opening or wire.preamble is not None or b"\\u" in body:
        return
    last = accumulator.finish()
    chunks += [last] if last is not None else []
    same("by hand, the chunks are the same", shown(chunks), shown(whole.chunks))
    same("by hand, the message is the same", plain(accumulator.snapshot), plain(whole.parser.snapshot))
    if error is not None:
        same("by hand, the error is the same", plain(error), plain(whole.parser.error))
    elif accumulator.all_finished:
        same("by hand, it is finished", whole.parser.end, StreamEnd.FINISHED)
    elif is_done and accumulator.has_output and not unexplained:
        same("by hand, it is done", whole.parser.end, StreamEnd.DONE)
