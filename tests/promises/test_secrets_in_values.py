"""What logs get to see of values: excerpts of chunks, completions, events, parts and payloads in `repr`, and nothing that acts."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import pytest
from cases import each_case
from marked_texts import (
    BRIEF,
    DETAILS,
    ERRORS,
    EXCERPT,
    HEADERS,
    MESSAGE,
    acting,
    check_text,
    event,
    marked,
    one_line,
    places_in,
)

from chunkfold import (
    Anomaly,
    AnomalyNoted,
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionEvent,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    ErrorObject,
    EventStreamDecoder,
    MessagePart,
    PartialJSON,
    ServerSentEvent,
    StreamTiming,
    parse_payload,
)
from chunkfold.models.base import Model
from chunkfold.testing import DONE, delta


def check_shown(value: Any, *, most: int = 3_000) -> None:
    for show in (repr, str):
        check_text(show(value), most=most)


def arguments(place: str) -> str:
    return json.dumps({"text": marked(place)})


LOGPROB = {"token": marked("token"), "bytes": [*range(256)], "logprob": -0.5}
CITATION = {"type": "url_citation", "url_citation": {"url": marked("url"), "title": marked("title")}}
FULL_DELTA = {
    "role": "assistant",
    "content": marked("content"),
    "refusal": marked("refusal"),
    "reasoning": marked("reasoning"),
    "reasoning_details": [{"type": "reasoning.text", "text": marked("detail"), "signature": marked("signature")}],
    "tool_calls": [
        {"index": 0, "id": marked("id"), "type": "function",
         "function": {"name": marked("tool"), "arguments": arguments("arguments")}},
        {"index": 1, "id": marked("id"), "type": "custom", "custom": {"name": marked("tool"), "input": marked("input")}},
    ],
    "function_call": {"name": marked("tool"), "arguments": marked("arguments")},
    "images": [{"type": "image_url", "image_url": {"url": marked("image")}}],
    "audio": {"id": marked("id"), "data": "QUJD" * 2000, "transcript": marked("transcript"), "expires_at": 1},
    "annotations": [CITATION],
    "unknown": {marked("key"): [marked("unknown")]},
}  # fmt: skip
FULL_USAGE = {
    "prompt_tokens": 1,
    "completion_tokens": 1,
    "total_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 0, "unknown": marked("unknown")},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
FULL = [
    event({
        "id": marked("id"), "object": "chat.completion.chunk", "created": 1, "model": marked("model"),
        "system_fingerprint": marked("fingerprint"), "service_tier": marked("tier"), "unknown": marked("unknown"),
        "choices": [{
            "index": 0,
            "delta": FULL_DELTA,
            "finish_reason": None,
            "logprobs": {"content": [{**LOGPROB, "top_logprobs": [LOGPROB]}] * 9, "refusal": [LOGPROB] * 9},
        }],
    }, b"id: " + one_line("event_id")),
    delta(content=[{"type": "reference", "title": marked("title")}]),
    event(one_line("data"), b"event: " + one_line("event_name")),
    delta(marked("reason")),
    event({"choices": [], "usage": FULL_USAGE}),
    DONE,
]  # fmt: skip


def models_in(value: Any) -> Iterator[Model]:
    """A model, and the models in it."""
    if isinstance(value, Model):
        yield value
        for part in (*vars(value).values(), *(value.model_extra or {}).values()):
            yield from models_in(part)
    elif isinstance(value, list):
        for item in value:
            yield from models_in(item)


def full() -> tuple[ChatCompletionParser, list[ChatCompletionChunk], list[ServerSentEvent]]:
    sent: list[ServerSentEvent] = []
    parser = ChatCompletionParser(on_server_sent_event=lambda event, _: sent.append(event), headers=HEADERS)
    chunks = [chunk for data in FULL for chunk in parser.feed(data)]
    parser.close()
    assert parser.error is None
    return parser, chunks, sent


@cache
def every_model() -> dict[str, Model]:
    parser, chunks, _ = full()
    models = [
        *models_in(chunks),
        *models_in(parser.completion()),
        ErrorObject.model_validate(dict(DETAILS_WITHOUT_NAMES)),
    ]
    return {type(model).__name__: model for model in models}


DETAILS_WITHOUT_NAMES = {name: value for name, value in DETAILS.items() if name.isidentifier()}


def all_models(model: type[Model] = Model) -> Iterator[type[Model]]:
    for each in model.__subclasses__():
        if each.__module__.startswith("chunkfold."):
            yield each
            yield from all_models(each)


MODELS = sorted(model.__name__ for model in all_models())


def test_every_model_is_among_them() -> None:
    assert sorted(every_model()) == MODELS


@each_case("name", MODELS)
def test_a_model_shows_excerpts(name: str) -> None:
    check_shown(every_model()[name])


@each_case("name", MODELS)
def test_a_model_shows_excerpts_to_rich_too(name: str) -> None:
    pretty_repr = pytest.importorskip("rich.pretty").pretty_repr
    text = pretty_repr(every_model()[name])
    check_text(re.sub(r"\n *", " ", text), most=3_000)


def test_what_is_many_or_long_shows_as_excerpts() -> None:
    function = {"name": marked("tool"), "arguments": marked("arguments")}
    calls = [{"id": marked("id"), "type": "function", "function": function}] * 30
    message = {"content": marked("content"), "reasoning": marked("reasoning"), "tool_calls": calls}
    choices = [{"index": 0, "finish_reason": marked("reason"), "message": message}] * 30
    check_shown(ChatCompletion.model_validate({"id": marked("id"), "choices": choices}))
    check_shown(ChatCompletionChunk.model_validate({f"key_{number}": marked("value") for number in range(1000)}))
    check_shown(ChatCompletionChunk.model_validate_json(b'{"unknown": ' + b"9" * 4000 + b"}"))
    for model in all_models():
        check_shown(model.model_construct(**{marked("key"): 1}))


def test_every_event_shows_excerpts() -> None:
    parser = ChatCompletionParser()
    parser.events()
    shown: list[ChatCompletionEvent] = []
    for data in FULL:
        parser.feed(data)
        shown += parser.events()
    parser.close()
    shown += parser.events()
    assert {type(event) for event in shown} == set(get_args(ChatCompletionEvent))
    for each in shown:
        if isinstance(each, AnomalyNoted):
            check_anomaly(each)
        else:
            check_shown(each)


def test_every_part_of_a_message_shows_excerpts() -> None:
    parts = full()[0].completion().message.parts
    assert {type(part) for part in parts} == set(get_args(MessagePart))
    for part in parts:
        check_shown(part)


def test_what_reads_shows_nothing() -> None:
    parser, _, sent = full()
    accumulator = ChatCompletionAccumulator()
    accumulator.add(ChatCompletionChunk.model_validate_json(FULL[0].partition(b"data: ")[2]))
    decoder = EventStreamDecoder()
    decoder.feed(FULL[0][:-1])
    partial = PartialJSON()
    partial.feed(json.dumps({"text": marked("text")})[:-1])
    stream = ChatCompletionStream(FULL, headers=HEADERS)
    stream.read()
    broken = ChatCompletionStream([FULL[0]], headers=HEADERS)
    with pytest.raises(ChunkfoldError):
        broken.read()
    for value in (parser, accumulator, decoder, partial, stream, broken, parser.timing, StreamTiming(), stream.timing):
        check_shown(value, most=0)
    assert len(sent) == len(FULL)
    for one in sent:
        check_shown(one)
        check_shown(parse_payload(one))
    for anomaly in (*parser.anomalies, *broken.anomalies):
        check_anomaly(anomaly)


def check_anomaly(anomaly: Anomaly | AnomalyNoted) -> None:
    """Its detail is an excerpt already, as it is in a message."""
    assert len(repr(anomaly)) < 2_000
    assert not acting(repr(anomaly))
    assert places_in(repr(anomaly)).total() <= EXCERPT


@each_case("shape", ERRORS)
def test_a_payload_with_an_error_shows_excerpts(shape: str) -> None:
    for sent in EventStreamDecoder().feed(ERRORS[shape][0]):
        payload = parse_payload(sent)
        text = repr(payload)
        assert len(text) < 3_000
        assert not acting(text)
        places = places_in(text)
        assert places.total() <= MESSAGE + 8 * BRIEF
        assert {place for place, size in places.items() if size > BRIEF} <= {ERRORS[shape][1]}
