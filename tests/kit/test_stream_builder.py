"""Streams said in words: what is written is what the dialect's provider is known to send, and comes to what was said.

Each dialect says the same answers. What this library makes of them is held against values that stand here, and so is
the builder's own idea of the reading.
"""

import json
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from textwrap import dedent
from typing import Any

import pytest
from built_streams import Traits, calling, calling_in_turns, counting, cut_off, failing, hello, read, thinking
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from linear import assert_linear
from parsed_bodies import decoded

from chunkfold import APIError, ChatCompletionStream
from chunkfold.testing import (
    DIALECTS,
    DONE,
    ERROR_SHAPES,
    Answer,
    Reading,
    StreamBuilder,
    assert_folds_to,
    builder,
    event,
    paced,
    sse,
)
from chunkfold.testing.error_shapes import ErrorShape

SILENT = {"openai", "azure", "azure-async", "cloudflare", "perplexity", "tgi"}  # their reasoning does not come
UNFINISHED = {"evolink"}  # no finish reason comes


# What is said is what comes


def calling_twice(dialect: str) -> StreamBuilder:
    stream = StreamBuilder(dialect).tool_call("find", '{"a":', "1}").tool_call("find", '{"a":', "2}")
    return stream.tool_call("now").finish().done()


WEATHER, TRAINS = ("get_weather", '{"city":"Oslo"}'), ("find_trains", '{"to":"Rome"}')
# The text, the reasoning and the calls that come, and how it ends.
SAID_SO: dict[Callable[[str], StreamBuilder], tuple[str, str, list[tuple[str, str]], str]] = {
    hello: ("Hello 号\u2028😀", "", [], "complete"),
    thinking: ("Hi!", "Hmm.", [], "complete"),
    calling: ("", "", [WEATHER], "complete"),
    calling_in_turns: ("Let me see.", "", [WEATHER, TRAINS], "complete"),
    calling_twice: ("", "", [("find", '{"a":1}'), ("find", '{"a":2}'), ("now", "")], "complete"),
    counting: ("Hi!", "", [], "complete"),
    failing: ("Hi!", "", [], "error"),
    cut_off: ("Hi!", "", [], "cut"),
}


@each_case("dialect", DIALECTS)
@each_case("say", SAID_SO, ids=lambda say: say.__name__)
def test_what_is_said_is_what_comes(say: Callable[[str], StreamBuilder], dialect: str) -> None:
    stream, (text, reasoning, calls, ending) = say(dialect), SAID_SO[say]
    parser, reading = read(stream), stream.reading
    reasoning = "" if dialect in SILENT else reasoning
    for one, its_calls in ((parser.snapshot, parser.snapshot.tool_calls), (reading, reading.calls or ())):
        assert (one.text, one.reasoning or "") == (text, reasoning)
        assert [(call.name, call.arguments) for call in its_calls] == calls
    assert [call.id for call in reading.calls or ()] == [
        None if dialect == "tgi" else call.id for call in parser.snapshot.tool_calls
    ]
    assert say is not calling or parser.snapshot.tool_calls[0].id == "call_1" or dialect == "tgi"
    whole = "done" if dialect in UNFINISHED else "finished"
    assert (reading.ending, parser.end) == (ending, {"complete": whole, "error": "failed", "cut": "truncated"}[ending])
    if ending != "error":
        stop = "eos_token" if dialect == "tgi" else "stop"
        reason = (
            "" if ending == "cut" or dialect in UNFINISHED else "tool_calls" if calls and dialect != "gemini" else stop
        )
        assert (parser.snapshot.finish_reason or "") == reading.finish_reason == reason
        assert reading.refused is None
    else:
        assert isinstance(parser.error, APIError)
        assert parser.error.message == reading.refused == "overloaded"
        assert parser.error.status_code == (None if dialect == "tgi" else 503)  # its errors are text alone
    usage, counts = parser.snapshot.usage, {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    if say is counting:
        assert usage.model_dump(include={*counts}) == reading.usage == counts
        assert (usage.cached_tokens, usage.reasoning_tokens) == (3, 2)
    elif ending == "complete":
        assert (usage, reading.usage) == (None, {})


@each_case("dialect", DIALECTS)
def test_several_choices(dialect: str) -> None:
    stream = StreamBuilder(dialect).text("a").text("x", choice=1).text("b").refusal("no", choice=1).usage(1, 2)
    stream = stream.finish().finish("length", choice=1).done()
    parser = read(stream)
    first, second = parser.completion().choices
    assert (first.message.content, second.message.content) == stream.reading.texts == ("ab", "x")
    assert second.message.refusal == "no"
    assert second.finish_reason == (None if dialect in UNFINISHED else "length")
    assert parser.snapshot.usage.completion_tokens == 2


RECOGNISED: dict[ErrorShape, tuple[Any, str | None]] = {  # the code that has room, the type that has room
    **dict.fromkeys(ERROR_SHAPES, (503, "server_error")),
    **dict.fromkeys(("event_text", "message", "detail"), (None, None)),
    **dict.fromkeys(("base_resp", "code", "errors"), (503, None)),
    "text": (None, "server_error"),
}


@each_case("before", [StreamBuilder(), StreamBuilder().text("Hi"), StreamBuilder().text("Hi").finish()])
@each_case("shape", ERROR_SHAPES)
def test_an_error_of_each_shape_is_the_providers(shape: ErrorShape, before: StreamBuilder) -> None:
    code, kind = RECOGNISED[shape]
    stream = before.error("号 overloaded", code=503, type="server_error", shape=shape)
    parser = read(stream)
    assert parser.end == "failed"
    assert isinstance(parser.error, APIError)
    assert (parser.error.message, parser.error.code, parser.error.type) == ("号 overloaded", code, kind)
    if code is not None:
        assert parser.error.status_code == 503
    assert (stream.reading.refused, stream.reading.ending) == ("号 overloaded", "error")
    assert parser.snapshot.text == stream.reading.text
    for other in (None, "rate_limit_exceeded", 429):
        error = read(before.error("slow down", code=other, shape=shape)).error
        assert isinstance(error, APIError)
        assert error.message == "slow down"
        assert error.status_code == 429 or other != 429 or code is None


# The reading


@each_case(
    ("stream", "reading"),
    [
        (StreamBuilder(), Reading(texts=("",), ending="cut")),
        (StreamBuilder().done(), Reading(texts=("",), ending="cut")),
        (StreamBuilder().text("").done(), Reading(texts=("",), ending="cut")),
        (StreamBuilder().text("a").done(), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().text("a").finish(), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().finish(), Reading(texts=("",), ending="complete")),
        (StreamBuilder().reasoning("a").done(), Reading(texts=("",), ending="cut")),
        (StreamBuilder("vllm").reasoning("a").done(), Reading(texts=("",), ending="complete")),
        (StreamBuilder().text("a").text(choice=1).finish(), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().text("a").text("b", choice=1).finish(), Reading(texts=("a", "b"), ending="cut")),
        (StreamBuilder().text("a").text("b", choice=1).finish().done(), Reading(texts=("a", "b"), ending="complete")),
        (StreamBuilder().text("a").finish().done().text("b"), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().text("a").finish().done().error("late"), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().text("a").error("no").text("b"), Reading(texts=("a",), ending="error", refused="no")),
        (StreamBuilder().error("no").error("later"), Reading(texts=("",), ending="error", refused="no")),
        (StreamBuilder().text("a").finish("abort").done(), Reading(texts=("a",), ending="error", refused="abort")),
        (StreamBuilder().text("a").finish("stop").finish("length"), Reading(texts=("a",), ending="complete")),
        (StreamBuilder().tool_calls().done(), Reading(texts=("",), ending="cut")),
    ],
    ids=repr,
)
def test_the_outcome_is_what_the_parser_makes_of_it(stream: StreamBuilder, reading: Reading) -> None:
    said = stream.reading
    assert (said.texts, said.ending, said.refused) == (reading.texts, reading.ending, reading.refused)
    parser = read(stream)
    ending = "complete" if parser.end.complete else "error" if parser.end == "failed" else "cut"
    assert (parser.snapshot.text, ending) == (said.text, said.ending)


SECOND = StreamBuilder().reasoning("Hm", choice=1).text("a", choice=1).tool_call("f", "{}", choice=1)


@each_case(
    ("stream", "texts"),
    [
        *((SECOND.in_dialect(dialect).finish(choice=1).done(), ("a",)) for dialect in ("openai", "vllm", "evolink")),
        (StreamBuilder("evolink").text("a").finish().finish(choice=1).done(), ("a",)),
        (StreamBuilder().text("a").finish().finish(choice=1).done(), ("a", "")),
    ],
)
def test_the_reading_has_the_choices_that_are_sent(stream: StreamBuilder, texts: tuple[str, ...]) -> None:
    assert stream.reading.texts == texts
    assert len(stream.reading.calls or ()) == stream.body.count(b'"name"')
    assert_folds_to(stream.body, stream.reading)


def test_usage_that_comes_behind_an_error_is_not_in_the_reading() -> None:
    assert StreamBuilder().text("a").usage(1, 2).error("no").finish().reading.usage == {}
    assert StreamBuilder().text("a").usage(1, 2).finish().error("no").reading.usage != {}
    assert StreamBuilder("stepfun").text("a").usage(1, 2).reading.usage is None  # what is there so far


# A value


def test_each_method_gives_a_new_one() -> None:
    empty = StreamBuilder("stepfun")
    ways: list[StreamBuilder] = [
        empty.text("a"),
        empty.reasoning("a"),
        empty.refusal("a"),
        empty.tool_call("f", "{}"),
        empty.tool_calls(("f", "{}")),
        empty.usage(1, 2),
        empty.finish(),
        empty.error("no"),
        empty.comment(),
        empty.event("x"),
        empty.raw(b"x"),
        empty.done(),
        empty.in_dialect("openai"),
    ]
    assert empty == StreamBuilder("stepfun")
    assert (empty.body, empty.steps) == (b"", ())
    assert all(way != empty for way in ways)
    assert ways[0].body == ways[0].body == empty.text("a").body
    with pytest.raises(FrozenInstanceError):
        empty.steps = ()  # type: ignore[misc]


def test_its_pieces_are_the_body_and_a_stream_reads_it_as_it_is() -> None:
    stream = hello("openrouter")
    assert b"".join(stream) == b"".join(stream.events) == stream.body
    assert all(piece.endswith(b"\n\n") for piece in stream.events)
    assert ChatCompletionStream(stream).read().text == "Hello 号\u2028😀"
    assert repr(stream) == f"<StreamBuilder of {len(stream.body)} bytes in {len(stream.events)} events>"


def test_ids_that_are_made_up_are_free() -> None:
    stream = StreamBuilder("stepfun").tool_call("f", "{}", id="call_2").tool_call("g", "{}").tool_calls(("h",), ("i",))
    stream = stream.tool_call("f", "{}", choice=1).finish().finish(choice=1).done()
    calls = read(stream).snapshot.tool_calls
    assert [call.name for call in calls] == [call.name for call in stream.reading.calls or ()] == ["f", "g", "h", "i"]
    assert (calls[0].id, len({call.id for call in calls})) == ("call_2", 4)


@pytest.mark.parametrize(
    ("dialect", "head"),
    [
        ("openai", {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "acme"}),
        ("nagaai", {"object": "chat.completion.chunk"}),
        ("tgi", {"id": "", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "acme"}),
        ("sansa", {"id": "chatcmpl-1", "model": "acme"}),
        ("perplexity", {"id": "chatcmpl-1", "object": "chat.completion.done", "created": 1_760_000_000, "model": "acme"}),
    ],
)  # fmt: skip
def test_an_error_that_is_a_chunk_has_its_head(dialect: str, head: dict[str, Any]) -> None:
    stream = StreamBuilder(dialect, head={"model": "acme"}).error("x", shape="finish_reason")
    (chunk,) = Traits(stream.body).chunks
    assert {name: value for name, value in chunk.items() if name != "choices"} == head


def test_the_head_of_the_chunks_may_be_said() -> None:
    stream = StreamBuilder(head={"id": "mine", "model": "big", "provider": "x"}).text("a").finish().done()
    completion = read(stream).completion()
    assert (completion.id, completion.model) == ("mine", "big")
    assert completion.model_extra == {"provider": "x"}
    assert (read(stream.in_dialect("nameless")).completion().model, b"provider" in stream.body) == (None, True)


def test_what_else_stands_where_it_was_said() -> None:
    stream = StreamBuilder().text("a").comment("ping").event({"x": 1}, "meta").raw(b"id: 1\n\n").event("[DONE]")
    *_, comment, meta, raw, done = stream.events
    assert (comment, meta, raw, done) == (b": ping\n\n", b'event: meta\ndata: {"x":1}\n\n', b"id: 1\n\n", DONE)
    assert StreamBuilder().comment().body == b": keep-alive\n\n"


def test_its_answer_is_paced() -> None:
    stream = StreamBuilder().text("a")
    assert stream.answer() == Answer(stream.events)
    role, text = stream.events
    assert stream.answer(first=2.0, pace=0.5, status=201, ending="cut") == Answer(
        [2.0, role, 0.5, text], 201, ending="cut"
    )
    jittered = {"pace": 1.0, "jitter": 0.5, "seed": 3}
    assert stream.answer(**jittered) == Answer(paced(stream.events, **jittered))


# What is refused


TWO_LINES = ["a\nb", "a\rb", "a\r\nb"]


@each_case(
    ("wrong", "error", "words"),
    [
        (lambda: StreamBuilder("nobody"), ValueError, r"dialect: expected one of openai, azure, .*, received 'nobody'"),
        (lambda: StreamBuilder().in_dialect("nobody"), ValueError, "dialect: expected one of"),
        (lambda: StreamBuilder(7), ValueError, "dialect: .*, received 7"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().error("no", shape="odd"), ValueError, "shape: expected one of object, .*, received 'odd'"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().text(["a"]), TypeError, "pieces: expected text, received list"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().reasoning(7), TypeError, "pieces: expected text, received int"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().refusal(b"a"), TypeError, "pieces: expected text, received bytes"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().tool_call("f", {"a": 1}, "}"), TypeError, "arguments: expected pieces of text or one dict, received 2"),
        (lambda: StreamBuilder().tool_call("f", 7), TypeError, "pieces: expected text, received int"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().tool_calls("f", "{}"), TypeError, "calls: expected a name and pieces for each, received 'f'"),
        (lambda: StreamBuilder().tool_calls(("f",), ()), ValueError, r"calls: expected a name and pieces for each, received \(\)"),
        (lambda: StreamBuilder().tool_calls([]), ValueError, r"calls: expected a name and pieces for each, received \[\]"),
        (lambda: StreamBuilder().raw("abc"), TypeError, "data: expected bytes, received str"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().raw([b"abc"]), TypeError, "data: expected bytes, received list"),  # type: ignore[arg-type]
        (lambda: StreamBuilder().event({1, 2}), TypeError, "not JSON serializable"),
        (lambda: StreamBuilder().answer(encoding="br"), ValueError, "encoding: expected one of"),
        (lambda: StreamBuilder().answer(jitter=2), ValueError, "jitter: expected a share"),
        *((lambda text=text: StreamBuilder().comment(text), ValueError, "text: expected one line") for text in TWO_LINES),
        *((lambda text=text: StreamBuilder().event("x", text), ValueError, "event: expected one line") for text in TWO_LINES),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_at_once(wrong: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        wrong()


def test_the_example_of_its_module_runs() -> None:
    names: dict[str, Any] = {"StreamBuilder": StreamBuilder}
    assert builder.__doc__ is not None
    exec(dedent("\n".join(re.findall(r"^ {4}.*", builder.__doc__, re.MULTILINE))), names)  # noqa: S102 - the module's own
    assert names["stream"].reading.text == "Hello"


def test_payloads_become_events() -> None:
    """That what is encoded comes back is for `test_encode_event`."""
    assert sse({"a": "é"}, "b\r\nc", b"d") == [
        'data: {"a":"é"}\n\n'.encode(),
        b"data: b\ndata: c\n\n",
        b"data: d\n\n",
        DONE,
    ]
    assert sse([None, True], done=False) == [b"data: [null,true]\n\n"]  # type: ignore[list-item]


@given(st.text(st.characters(), max_size=8))
def test_half_a_surrogate_pair_is_escaped(text: str) -> None:
    (first, *_) = decoded(event({"text": text}))
    assert json.loads(first.data) == {"text": text}


@each_case("dialect", ["minimax", "perplexity"])
def test_a_whole_message_beside_the_deltas_has_all_text_so_far(dialect: str) -> None:
    built = StreamBuilder(dialect).text("Good ", "morning", choice=1).text("Hi").finish(choice=1)
    sent = [
        choice for one in decoded(built.body) if one.data != b"[DONE]" for choice in json.loads(one.data)["choices"]
    ]
    said = [choice["message"]["content"] for choice in sent if choice["index"] == 1 and "message" in choice]
    assert said[-1] == "Good morning"


def test_ten_times_the_pieces_cost_ten_times_as_much() -> None:
    assert_linear(lambda n: lambda: StreamBuilder().text(*["word " * 800] * n).events, small=200)
