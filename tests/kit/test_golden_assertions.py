"""Golden assertions: they hold any parser to a body, and fail, with the right event shown, where it is wrong."""

import re
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from broken_parsers import (
    CALLS,
    CUT_OFF,
    HELLO,
    OVERLOADED,
    ignores_the_index,
    marked,
    message_of,
    parse,
    raises_for_any,
    right,
    takes_a_cut_for_whole,
)
from cases import each_case

from chunkfold import ChatCompletion, ChatCompletionParser, ChatCompletionStream
from chunkfold.testing import DONE, Call, Reading, StreamBuilder, assert_folds_to, assert_same_however_cut, delta
from chunkfold.testing.body_events import difference_of

LONG = StreamBuilder().text(*"abcdefghij").finish().done()


def splits_like_python(body: bytes) -> dict[str, Any]:
    return parse(body.decode().splitlines())


# What a body folds to


@pytest.mark.parametrize("stream", [HELLO, CALLS, OVERLOADED, CUT_OFF, StreamBuilder()], ids=repr)
def test_a_right_parser_passes(stream: StreamBuilder) -> None:
    assert_folds_to(stream, fold=right)
    assert_folds_to(stream)


@pytest.mark.parametrize("dialect", ["openai", "minimax"])
def test_arguments_that_are_not_json_are_compared_as_text(dialect: str) -> None:
    deep = "[" * 100_000
    stream = StreamBuilder(dialect).tool_call("f", deep).finish().done()
    assert_folds_to(stream)
    assert "tool calls" in message_of(lambda: assert_folds_to(stream.body, with_calls(Call("f", f"{deep}["))))
    with pytest.raises(AssertionError, match="tool calls"):
        assert_folds_to(StreamBuilder(dialect).tool_call("f", "a").finish().body, with_calls(Call("f", '"a"')))


@pytest.mark.parametrize(("written", "is_same"), [("[1.0]", True), ("[true]", False), ('["1"]', False)])
def test_arguments_are_compared_by_what_they_mean(written: str, is_same: bool) -> None:
    body = StreamBuilder().tool_call("f", "[1]").finish().body
    with nullcontext() if is_same else pytest.raises(AssertionError, match="tool calls"):
        assert_folds_to(body, {"text": "", "tool_calls": [{"name": "f", "arguments": written}]})


@pytest.mark.parametrize("body", [HELLO, HELLO.body, HELLO.events, iter(HELLO.events), tuple(HELLO.body[i : i + 1] for i in range(len(HELLO.body)))])  # fmt: skip
def test_a_body_comes_in_any_form(body: Any) -> None:
    assert_folds_to(body, {"text": "Hello", "tool_calls": []}, fold=right)


def a_choice(content: str | None, finish_reason: str | None = "stop") -> dict[str, Any]:
    return {"message": {"content": content}, "finish_reason": finish_reason}


FORMS: list[Any] = [
    "Hello",
    {"text": "Hello", "tool_calls": [], "finish_reason": "stop"},
    SimpleNamespace(text="Hello", tool_calls=[]),
    Reading(texts=("Hello",), ending="complete"),
    ChatCompletionStream(HELLO).read(),
    ChatCompletionStream(HELLO).read().model_dump(),
    ChatCompletion.model_validate({"choices": ChatCompletionStream(HELLO).read().model_dump()["choices"]}),
    # Of a completion only what it says is compared.
    {"choices": [a_choice("Hello")]},
    {"choices": [{"message": {"content": "Hello"}}], "model": "m", "created": 1_760_000_000.0},
    {"choices": [{"finish_reason": "stop"}]},
    {"choices": [{"message": {"content": "Hello", "tool_calls": None}}], "usage": None},
    ChatCompletion.model_validate({"choices": [{"message": {"content": "Hello"}}]}),
]


@each_case("completion", FORMS, ids=[str(place) for place in range(len(FORMS))])
@each_case("fold", [None, right], ids=["this library", "another"])
def test_what_must_come_is_said_in_any_form(completion: Any, fold: Any) -> None:
    assert_folds_to(HELLO.body, completion, fold=fold)


def test_text_alone_is_that_of_choice_0() -> None:
    assert_folds_to(TWO.body, "Hello")


TWO = StreamBuilder().text("Hello").text("Bye", choice=1).finish().finish(choice=1).done()
USED = HELLO.usage(10, 5)
ONE_CALL = StreamBuilder().tool_call("f", '{"a":', "1}").finish().done()
SEPARATED = StreamBuilder().text("a\u2028b", "c").finish().done()
NEXT_LINE = StreamBuilder().text("a", "b\x85c").finish().done()
FIRST_CALL, SECOND_CALL = CALLS.reading.calls or ()
OPENAIS = {
    "index": 0,
    "message": {"role": "assistant", "content": "Hello", "tool_calls": None},
    "finish_reason": "stop",
}


def with_calls(*calls: Call) -> Reading:
    return replace(CALLS.reading, calls=calls)


def says(result: Any) -> Callable[[bytes], Any]:
    return lambda _: result


class MissingError(KeyError):
    """An adapter's own."""


RIGHT: dict[str, tuple[StreamBuilder, Callable[[bytes], Any]]] = {
    "a completion in OpenAI's form": (HELLO, says({"id": "c", "choices": [OPENAIS], "usage": None})),
    "text alone": (HELLO, says("Hello")),
    "one call, whose index is ignored": (ONE_CALL, ignores_the_index),
    "a whole stream, where a cut would be taken for one": (HELLO, takes_a_cut_for_whole),
    "a cut, without a finish reason": (CUT_OFF, lambda body: {**takes_a_cut_for_whole(body), "finish_reason": ""}),
    "a cut, by its kind": (CUT_OFF, says(Reading(refused="cut", ending="cut"))),
    "an error, beside what came": (OVERLOADED, says({"text": "Hel", "tool_calls": [], "error": "overloaded"})),
    "an error alone": (OVERLOADED, says({"error": "Overloaded"})),
    "an error in OpenAI's form": (OVERLOADED, says({"choices": [], "error": {"message": "Overloaded"}})),
    "an error of an object": (OVERLOADED, says(SimpleNamespace(text=None, tool_calls=None, error="Overloaded"))),
    "an error by the finish reason": (StreamBuilder().text("a").finish("ERROR"), says({"error": "ERROR", "text": "a"})),
    **{
        f"an error by the word {word}{form}": (OVERLOADED, says(result))
        for word in ("error", "network_error", "insufficient_system_resource", "abort")
        for form, result in {
            "": {"text": "Hel", "finish_reason": word},
            ", in OpenAI's form": {"choices": [a_choice("Hel", word)]},
        }.items()
    },
    "a cut in OpenAI's form, without a finish reason": (CUT_OFF, says({"choices": [a_choice("Hello", None)]})),
    "an error of one's own, whatever it inherits from": (OVERLOADED, raises_for_any(MissingError)),
    **{
        f"of two choices the first, as {type(result).__name__}": (TWO, says(result))
        for result in ("Hello", {"text": "Hello"}, Reading(texts=("Hello",)))
    },
    "usage that was not sent": (LONG, says({"text": "abcdefghij", "usage": {"prompt_tokens": 1}})),
    "usage with more in it": (
        USED,
        says({"text": "Hello", "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "x": 1}}),
    ),
}


@each_case("name", RIGHT)
def test_what_is_right(name: str) -> None:
    stream, fold = RIGHT[name]
    assert_folds_to(stream, fold=fold)


TAKEN_FOR_WHOLE = "expected a refusal (cut), an answer came: 'Hello'"
# A parser that is wrong, how the message begins, and the event that it points at.
WRONG: dict[str, tuple[StreamBuilder, Callable[[bytes], Any], str, int]] = {
    "text alone": (HELLO, says("Help"), "text: expected 'Hello'\n      received 'Help'", 3),
    "lines split as by Python": (SEPARATED, splits_like_python, "expected an answer, it crashed: JSONDecodeError", 2),
    "lines split at NEL": (NEXT_LINE, splits_like_python, "expected an answer, it crashed: JSONDecodeError", 3),
    "an index that is ignored": (CALLS, ignores_the_index, "tool calls: expected (Call(name='get_weather'", 3),
    "a cut": (CUT_OFF, takes_a_cut_for_whole, TAKEN_FOR_WHOLE, 3),
    "a cut, as text alone": (CUT_OFF, says("Hello"), TAKEN_FOR_WHOLE, 3),
    "a cut, with a word for an error": (CUT_OFF, says({"choices": [a_choice("Hello", "error")]}), TAKEN_FOR_WHOLE, 3),
    "a cut, with nothing about its end": (
        CUT_OFF,
        says({"choices": [{"message": {"content": "Hello"}}]}),
        TAKEN_FOR_WHOLE,
        3,
    ),
    "a cut taken for an error": (
        CUT_OFF,
        says(Reading(refused="no", ending="error")),
        "expected a refusal (cut), it was taken as error",
        3,
    ),
    "an error without what came": (OVERLOADED, says({"error": "no", "text": "He"}), "text: expected 'Hel'", 2),
    **{
        f"an error with the finish reason {word!r}": (
            OVERLOADED,
            says({"choices": [a_choice("Hel", word)]}),
            "expected a refusal (overloaded), an answer came: 'Hel'",
            3,
        )
        for word in (None, "", "stop")
    },
    "a crash": (OVERLOADED, lambda _: {}["error"], "expected a refusal (overloaded), it crashed: KeyError: 'error'", 3),
    "an error that was none": (HELLO, says({"error": "no", "text": "Hello"}), "expected an answer, it was refused: no", 5),
    "a letter": (LONG, says("abXdefghij"), "text: expected 'abcdefghij'", 4),
    "the first letter": (LONG, says("Xbcdefghij"), "text: ", 2),
    "a letter that is missing": (LONG, says("abcdefghi"), "text: ", 11),
    "a letter too many": (LONG, says("abcdefghijk"), "text: ", 13),
    "the finish reason": (
        LONG,
        says({"text": "abcdefghij", "finish_reason": "length"}),
        "finish reason: expected 'stop'",
        12,
    ),
    "a call too many": (
        LONG,
        says({"text": "abcdefghij", "tool_calls": [{"name": "f", "arguments": ""}]}),
        "tool calls: expected ()",
        13,
    ),
    "reasoning that was not sent": (LONG, says({"text": "abcdefghij", "reasoning": "Hm"}), "reasoning: expected ''", 13),
    "the text of the second choice alone": (TWO, says("Bye"), "text: expected 'Hello'", 2),
    "the text of another choice": (TWO, says(Reading(texts=("Hello", "Byz"))), "text: expected ('Hello', 'Bye')", 4),
    "a choice that is lost": (TWO, says({"choices": [a_choice("Hello")]}), "text: expected", 4),
    "usage": (USED, says({"text": "Hello", "usage": None}), "usage: expected {'prompt_tokens': 10", 5),
    "usage that is lost": (CALLS, says(replace(CALLS.reading, usage={})), "usage: expected", len(CALLS.events) - 1),
    "the id of a call": (CALLS, says(with_calls(FIRST_CALL, replace(SECOND_CALL, id="x"))), "tool calls: expected", 3),
    "the arguments of a call": (
        CALLS,
        says(with_calls(FIRST_CALL, replace(SECOND_CALL, arguments='{"q":"y"}'))),
        "tool calls: expected",
        7,
    ),
    "the name of a call": (CALLS, says(with_calls(FIRST_CALL, replace(SECOND_CALL, name="find_out"))), "tool calls: expected", 5),
    "a call that is lost": (CALLS, says(with_calls(FIRST_CALL)), "tool calls: expected", 3),
}  # fmt: skip


@each_case("name", WRONG)
def test_what_is_wrong_is_told_with_the_event_that_brought_it(name: str) -> None:
    stream, fold, beginning, event = WRONG[name]
    message = message_of(lambda: assert_folds_to(stream, fold=fold))
    assert message.startswith(beginning)
    assert marked(message) == [str(event)]
    offsets = [int(offset) for offset in re.findall(r"at byte (\d+):", message)]
    assert all(stream.body[offset:].startswith(b"data: ") for offset in offsets)
    assert len(offsets) <= 5


def test_the_events_around_are_counted() -> None:
    message = message_of(lambda: assert_folds_to(LONG, fold=lambda _: "abcdXfghij"))
    assert re.findall(r"^ +\.\.\. (\d+) (\w+)$", message, re.MULTILINE) == [("3", "before"), ("5", "after")]
    assert "<-- the first difference" in message


def test_a_body_without_events_is_shown_as_such() -> None:
    assert "(the body has no event)" in message_of(lambda: assert_folds_to(b"", "Hi", fold=lambda _: "Ho"))
    message = message_of(lambda: assert_folds_to(b": ping\n\n", "Hi", fold=lambda body: {b"": "Hi"}[body]))
    assert message.endswith("    (the body has no event)")
    with pytest.raises(AssertionError, match="expected an answer, it was refused") as caught:
        assert_folds_to(b"", "Hi")
    assert caught.value.__cause__ is None  # this library's own frames help nobody
    assert_same_however_cut(b"", fold_reads=len)
    assert_same_however_cut(b"")


def test_long_events_are_shortened_and_control_characters_shown() -> None:
    stream = StreamBuilder().text("\x1b[31m" + "a" * 5000).finish()
    message = message_of(lambda: assert_folds_to(stream, fold=lambda _: "x"))
    assert "\x1b" not in message
    assert max(map(len, message.splitlines())) < 300


@each_case(
    ("stream", "texts"),
    [
        *((HELLO, texts) for texts in ([], ["Hello", ""], ["Hello", "Bye"])),
        *((TWO, texts) for texts in ([], ["Hello"], ["Bye", "Hello"], ["Hello", "Byz"])),
    ],
)
def test_choices_that_are_lost_or_made_up_are_seen(stream: StreamBuilder, texts: list[str]) -> None:
    result = {"choices": [a_choice(text) for text in texts]}
    assert message_of(lambda: assert_folds_to(stream, fold=lambda _: result)).startswith("text: expected")
    for said in (result, *([Reading(texts=tuple(texts))] if len(texts) > 1 else [])):
        assert message_of(lambda said=said: assert_folds_to(stream.body, said)).startswith("text: expected")


@each_case(
    ("stream", "said", "complaint"),
    [
        (HELLO, {"choices": [a_choice("Hello")], "model": "n"}, "model: expected 'n', received 'm'"),
        (HELLO, {"choices": [a_choice("Hello")], "unknown": 1}, "unknown: expected 1, received None"),
        (HELLO, {"choices": [a_choice("Hello")], "unknown": {"a": 1}}, "unknown: expected {'a': 1}, received None"),
        (HELLO, {"choices": [a_choice("Hello")], "unknown": [1]}, "unknown: expected [1], received None"),
        (USED, {"choices": [a_choice("Hello")], "usage": 5}, "usage: expected 5, received {'prompt_tokens': 10"),
        (HELLO, {"choices": [{**a_choice("Hello"), "index": 3}]}, "choices[0].index: expected 3, received 0"),
        (HELLO, {"choices": [{"finish_reason": None}]}, "finish reason: expected '' received 'stop'"),
        (HELLO, {"choices": [{}, {}]}, "choices: expected [{}, {}], received "),
        (HELLO, {"choices": [a_choice("Hello")], "created": None}, "created: expected None, received 1760000000"),
        (CALLS, {"choices": [{}], "usage": {"prompt_tokens": 9}}, "usage: expected {'prompt_tokens': 9}"),
        (CALLS, {"choices": [{"message": {"tool_calls": [{"id": "x", "function": {}}]}}]}, "tool calls: expected"),
    ],
)
def test_everything_that_a_completion_says_is_compared(stream: StreamBuilder, said: Any, complaint: str) -> None:
    message = message_of(lambda: assert_folds_to(stream.body, said))
    assert " ".join(message.split()).startswith(complaint)


def test_the_calls_of_custom_tools_are_compared() -> None:
    call = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    stream = b"".join([delta(tool_calls=[call]), delta("tool_calls"), DONE])
    assert_folds_to(stream, ChatCompletionStream([stream]).read())
    assert_folds_to(stream, {"text": "", "tool_calls": [{"name": "sql", "arguments": "select 1"}]})
    assert "tool calls" in message_of(lambda: assert_folds_to(stream, {"text": "", "tool_calls": [{"name": "sql"}]}))


NAN = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":NaN}]},"finish_reason":"stop"}]}\n\n'  # fmt: skip


def test_a_number_that_is_none_is_the_same_as_itself() -> None:
    assert_same_however_cut(NAN)
    assert_same_however_cut(NAN, fold_reads=lambda reads: ChatCompletionStream(reads).read())
    assert_folds_to(NAN, ChatCompletionStream([NAN]).read())
    assert_folds_to(NAN, ChatCompletionStream([NAN]).read().model_dump())


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (("\ud83d", "\ude00"), "😀"),
        (("a\ud83d", "", "\ude00b"), "a😀b"),
        (("\ud83d", "a"), "\ufffda"),
        (("\ude00",), "\ufffd"),
    ],
)
def test_halves_of_a_character_are_joined(pieces: tuple[str, ...], text: str) -> None:
    said = StreamBuilder("vllm").reasoning(*pieces).text(*pieces)
    stream = said.tool_call("f", '{"a":"', *pieces, '"}').finish().done()
    assert_folds_to(stream)
    assert stream.reading.text == stream.reading.reasoning == text


def test_a_failure_takes_no_longer_than_the_body_is_long() -> None:
    """Not a snapshot for each event: it costs as much as the output is long."""
    stream = StreamBuilder().text(*["word "] * 600).finish().done()
    snapshots = 0
    whole = ChatCompletionParser.snapshot

    def counted(parser: ChatCompletionParser) -> ChatCompletion:
        nonlocal snapshots
        snapshots += 1
        return whole.__get__(parser)  # type: ignore[no-any-return]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChatCompletionParser, "snapshot", property(counted))
        text = stream.reading.text
        message = message_of(lambda: assert_folds_to(stream, fold=lambda _: f"{text[:2000]}X{text[2001:]}"))
        assert snapshots < 20
        snapshots = 0
        difference_of(stream.body, stream.body.replace(b"word", b"wort"))
        assert snapshots == 0
    assert marked(message) == ["402"]


# Where a parser raises


def takes_choices_for_granted(body: bytes) -> dict[str, Any]:
    return right(body.replace(b'"choices":[]', b'"choices":[{}]'))


async def takes_choices_for_granted_async(body: bytes) -> dict[str, Any]:
    await anyio.lowlevel.checkpoint()
    return takes_choices_for_granted(body)


@pytest.mark.parametrize("fold", [takes_choices_for_granted, takes_choices_for_granted_async])
def test_the_event_with_which_it_raises_is_shown_and_what_was_expected_of_it(fold: Any) -> None:
    stream = CALLS.in_dialect("azure")
    with pytest.raises(AssertionError) as caught:
        assert_folds_to(stream, fold=fold)
    message = str(caught.value)
    assert message.startswith("expected an answer, it crashed: KeyError: 'delta'\n")
    assert marked(message) == ["1"]
    assert "<-- it raises once this event has arrived" in message
    assert message.endswith("\nexpected of event 1: nothing that adds to the answer")
    cause = caught.value.__cause__
    assert type(cause) is KeyError
    frames = traceback.extract_tb(cause.__traceback__)  # its own
    assert (frames[0].filename, [frame.name for frame in frames][-2:]) == (__file__, ["right", "parse"])


@each_case(
    ("event", "expected"),
    [
        (delta(content="a\u2028\x85b"), r"text 'a\u2028\x85b'"),
        (b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm"}}]}\n\n', "reasoning 'Hm'"),
        (delta(refusal="No"), "refusal 'No'"),
        (
            delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]),
            "a call of f, arguments '{'",
        ),
        (delta("stop"), "the finish reason 'stop'"),
        (b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n', "usage"),
        (b'data: {"error":{"message":"overloaded"}}\n\n', "an error: overloaded"),
        (delta(role="model"), "nothing that adds to the answer (CF204: the role changes within the stream)"),
        (delta(images=[{"image_url": {"url": "data:"}}]), "ImageReceived"),
    ],
)
def test_what_is_expected_of_an_event_is_said_in_words(event: bytes, expected: str) -> None:
    body = HELLO.body.removesuffix(DONE).removesuffix(HELLO.events[-2]) + event
    trap = body.count(b"\n\n")

    def fold(data: bytes) -> str:
        if data.count(b"\n\n") >= trap:
            raise RuntimeError("trapped")
        return "Hello"

    message = message_of(lambda: assert_folds_to(body, {"text": "Hello"}, fold=fold))
    assert f"expected of event {trap}: {expected}" in message


def test_an_error_that_is_about_no_event_is_shown_at_the_end() -> None:
    message = message_of(lambda: assert_folds_to(HELLO, fold=raises_for_any(LookupError)))
    assert marked(message) == ["5"]
    assert "expected of event" not in message


def test_the_search_for_the_event_takes_few_tries() -> None:
    stream = StreamBuilder().text(*["word "] * 999, "号").finish().done()
    tries = 0

    def fold(body: bytes) -> Any:
        nonlocal tries
        tries += 1
        return {"text": body.decode("ascii")}

    message = message_of(lambda: assert_folds_to(stream, fold=fold))
    assert marked(message) == ["1001"]
    assert tries < 20
