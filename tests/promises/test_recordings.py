"""Recorded bodies of real streams, from providers, servers and gateways: what comes out, and what was noted on the way."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from cases import each_case
from recorded_answers import (
    ANOMALIES,
    COMPLETE,
    COPILOT,
    DASHSCOPE_NATIVE,
    ENDS,
    ERRORS,
    FIRST,
    GEMINI,
    MANIFEST,
    NAMES,
    OTHER_FACTS,
    RIGHT,
    SECOND,
    Reading,
    body_of,
    by_name,
    by_options,
    of_the_first,
    options_of,
    read,
    refused_by_openai,
    right,
    sizes_of,
    told,
    whole,
)

from chunkfold import (
    RULES,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChoiceFinished,
    ChunkfoldError,
    IncompleteStreamError,
    Outcome,
    ParseError,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
)
from chunkfold.testing import cut_every

# What holds for every body


def test_the_tables_know_every_recording() -> None:
    assert {path.stem for path in FIRST.glob("*.sse")} == set(NAMES)
    assert {*ANOMALIES, *ENDS, *OTHER_FACTS} <= set(NAMES)
    listed = {entry["file"] for entry in json.loads((SECOND / "MANIFEST.json").read_text("utf-8"))}
    assert {f"{name}.sse" for name in RIGHT} == listed == {path.name for path in SECOND.glob("*.sse")}


@by_name
def test_text_deltas_are_the_text(name: str) -> None:
    stream = ChatCompletionStream([body_of(name)])
    texts: list[str] = []
    with suppress(ChunkfoldError):
        texts.extend(stream.text_deltas())
    assert "".join(texts) == "".join(one.message.content or "" for one in stream.snapshot.choices if one.index == 0)
    assert all(texts)


@by_options
def test_cuts_do_not_matter(name: str, is_one: bool) -> None:
    body, expected = body_of(name), whole(name, is_one=is_one)
    for size in sizes_of(body):
        parser, chunks, events = read(body, size, **options_of(is_one=is_one))
        assert told(parser) == told(expected.parser)
        assert chunks == expected.chunks
        assert events == expected.events


@by_options
def test_what_is_only_folded_is_the_same(name: str, is_one: bool) -> None:
    body = body_of(name)
    for size in (*sizes_of(body), len(body)):
        parser = ChatCompletionParser(**options_of(is_one=is_one))
        for data in cut_every(body, size):
            parser.fold(data)
        parser.close()
        assert told(parser) == told(whole(name, is_one=is_one).parser)


@by_name
def test_end(name: str) -> None:
    parser = whole(name).parser
    assert parser.end == (RIGHT[name].end if name in RIGHT else ENDS.get(name, StreamEnd.FINISHED))
    if parser.end and parser.end.complete:
        assert parser.completion() == parser.snapshot
        return
    with pytest.raises(ChunkfoldError) as raised:
        parser.completion()
    assert raised.value is parser.error
    assert not parser.error.retryable  # something had been emitted, or it is the wrong endpoint
    assert isinstance(parser.error, IncompleteStreamError) == (parser.end == StreamEnd.TRUNCATED)


@of_the_first
def test_chunks_are_the_json_that_was_sent(name: str) -> None:
    sent = list(sent_chunks(body_of(name)))
    if name == GEMINI:
        sent.pop()  # usage behind the error, which is terminal
    assert [chunk.model_dump(mode="json", exclude_unset=True) for chunk in whole(name).chunks] == sent


def sent_chunks(body: bytes) -> Iterator[Any]:
    """The payloads as a plain look at the lines finds them: each stands on one line, up to one that is broken."""
    for line in body.splitlines():
        name, _, payload = line.partition(b":")
        if payload.strip() == b"[DONE]":
            continue
        try:
            sent = json.loads(payload if name == b"data" else line)
        except ValueError:
            if name == b"data":
                return
            continue
        if isinstance(sent, dict) and "choices" in sent:  # an error alone is raised, and no chunk
            yield sent


@by_name
def test_every_snapshot_can_be_stored_and_read_again(name: str) -> None:
    parser = ChatCompletionParser()
    for data in cut_every(body_of(name), 1460):
        parser.feed(data)
        snapshot = parser.snapshot
        text = snapshot.model_dump_json()
        assert json.loads(text) == snapshot.model_dump(mode="json")
        assert ChatCompletion.model_validate_json(text) == snapshot
        assert ChatCompletion.model_validate(snapshot.model_dump()) == snapshot


@by_options
def test_deltas_add_up(name: str, is_one: bool) -> None:
    """The chunks', the events', the parts', the message's, and those that a plain look at what was sent finds, are the same."""
    reading = whole(name, is_one=is_one)
    sent = list(sent_deltas(body_of(name), is_one=is_one))
    assert {choice.index for choice in reading.parser.snapshot.choices} == {index for index, _ in sent}
    for choice in reading.parser.snapshot.choices:
        message, deltas = choice.message, [delta for index, delta in sent if index == choice.index]
        text, reasoning = message.content or "", message.reasoning or ""
        assert text == "".join(map(sent_text, deltas))
        assert reasoning == "".join(map(sent_reasoning, deltas))
        alone = [only(chunk, choice.index) for chunk in reading.chunks]
        assert "".join(chunk.text for chunk in alone) == text
        assert "".join(chunk.reasoning for chunk in alone) == reasoning
        for kind, whole_text, event in (("text", text, TextDelta), ("reasoning", reasoning, ReasoningDelta)):
            events = [each for each in reading.events if isinstance(each, event) and each.choice == choice.index]
            assert "".join(each.delta for each in events) == whole_text
            assert "".join(part.text for part in message.parts if part.type == kind) == whole_text
        calls = [part.tool_call for part in message.parts if part.type == "tool_call"]
        assert calls == list(message.tool_calls)
        for position, call in enumerate(calls):
            grown = [
                each.delta
                for each in reading.events
                if isinstance(each, ToolCallArgumentsDelta) and (each.choice, each.position) == (choice.index, position)
            ]
            assert "".join(grown) == call.arguments


def only(chunk: ChatCompletionChunk, index: int) -> ChatCompletionChunk:
    """The chunk with one of its choices, as choice 0: the one whose text and reasoning a chunk shows."""
    choices = [choice.model_copy(update={"index": 0}) for choice in chunk.choices if (choice.index or 0) == index]
    return chunk.model_copy(update={"choices": choices})


def sent_deltas(body: bytes, *, is_one: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The choices' indexes and deltas."""
    for choice in (choice for sent in sent_chunks(body) for choice in sent["choices"]):
        yield 0 if is_one else choice.get("index", 0), choice["delta"] if "delta" in choice else choice["message"]


def sent_text(delta: dict[str, Any]) -> str:
    content = delta.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def sent_reasoning(delta: dict[str, Any]) -> str:
    """Of a delta; in a signed block the whole is repeated."""
    content = delta.get("content")
    thoughts = [part.get("thinking", []) for part in content] if isinstance(content, list) else []
    in_content = "".join(part["text"] for parts in thoughts for part in parts)
    thinking = delta.get("thinking") or {}
    blocks = "".join(block["delta"].get("thinking", "") for block in delta.get("content_blocks", ()))
    unsigned = "" if "signature" in thinking else thinking.get("content", "")
    fields = (delta.get(name) for name in ("reasoning_content", "reasoning", "reasoning_text", "cot_summary"))
    return next(filter(None, (*fields, in_content, unsigned, blocks)), "")


@by_name
def test_a_call_is_done_as_the_message_has_it(name: str) -> None:
    reading = whole(name)
    if not (reading.parser.end and reading.parser.end.complete):
        return
    finished = [event for event in reading.events if isinstance(event, ChoiceFinished)]
    assert len(finished) == sum(choice.finish_reason is not None for choice in reading.parser.snapshot.choices)
    done = {(event.choice, event.position): event.call for event in reading.events if isinstance(event, ToolCallDone)}
    assert done == {
        (choice.index, position): call
        for choice in reading.parser.snapshot.choices
        for position, call in enumerate(choice.message.tool_calls)
    }


@by_options
def test_what_is_noted(name: str, is_one: bool) -> None:
    noted = whole(name, is_one=is_one).noted
    assert noted == (right(name, is_one=is_one).rules if name in RIGHT else ANOMALIES.get(name, {}))
    assert set(noted) <= {rule.id for rule in RULES}


@by_name
def test_strict_takes_what_breaks_no_rule(name: str) -> None:
    parser, expected = read(body_of(name), 1460, strict=True).parser, whole(name).parser
    if not expected.anomalies:
        assert told(parser) == told(expected)
    elif name in ERRORS:
        assert repr(parser.error) == repr(expected.error)
    else:
        assert parser.end == StreamEnd.INVALID
        assert parser.error.rule is expected.anomalies[0].rule


# What the tables say


@by_options
def test_what_comes_of_it(name: str, is_one: bool) -> None:
    if name not in RIGHT:
        return
    reading, expected = whole(name, is_one=is_one), right(name, is_one=is_one)
    snapshot = reading.parser.snapshot
    assert reading.parser.end == expected.end
    assert len(reading.chunks) == expected.chunks
    assert [choice.index for choice in snapshot.choices] == list(expected.choices)
    for choice in snapshot.choices:
        shown, message = expected.choices[choice.index], choice.message
        assert choice.finish_reason == shown.finish_reason
        assert " ".join(part.type for part in message.parts) == shown.parts
        assert shown.text in (None, message.content or "")
        assert shown.reasoning in (None, message.reasoning or "")
        assert tuple((call.id, call.name, call.arguments) for call in message.tool_calls) == shown.calls
    assert (snapshot.usage and snapshot.usage.total_tokens) == expected.total_tokens
    assert {event.choice for event in reading.events if hasattr(event, "choice")} <= expected.choices.keys()


COPIED_FACTS = ("finish_reasons", "has_done", "has_error_frame", "n_choices", "n_tool_calls", "chunks")


@of_the_first
def test_facts_agree_with_the_manifest(name: str) -> None:
    entry = MANIFEST[name]
    oddities = dict(oddity.rsplit(" x", 1) for oddity in entry["oddities"])
    listed = {
        **{fact: entry[fact] for fact in COPIED_FACTS},
        "has_usage": entry["usage_location"] != "none",
        "cut_arguments": int(oddities.get("tool_call-arguments-not-valid-json", 0)),
    }
    facts = facts_of(whole(name))
    other = OTHER_FACTS.get(name, {})
    assert facts == listed | {fact: value for fact, (value, _) in other.items()}
    assert not [fact for fact, (value, _) in other.items() if value == listed[fact]], "agrees after all"


def facts_of(reading: Reading) -> dict[str, Any]:
    parser, chunks, _ = reading
    choices = parser.snapshot.choices
    calls = [call for choice in choices for call in choice.message.tool_calls]
    sent = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    return {
        "finish_reasons": list(dict.fromkeys(sent)),
        "has_done": bool(parser.end and parser.end.complete) and "CF501" not in reading.noted,
        "has_error_frame": parser.end == StreamEnd.FAILED,
        "n_choices": len(choices),
        "n_tool_calls": len(calls),
        "chunks": len(chunks),
        "has_usage": parser.snapshot.usage is not None,
        "cut_arguments": sum(is_cut(call.function) for call in calls),
    }


def is_cut(function: Any) -> bool:
    try:
        function.parse()
    except ParseError as error:
        return error.cut
    return False


@of_the_first
def test_the_last_finish_reason_holds(name: str) -> None:
    reading = whole(name)
    last = facts_of(reading)["finish_reasons"][-1:] or [None]
    assert {choice.finish_reason for choice in reading.parser.snapshot.choices} <= set(last)


# What the manifest says is right


def test_an_error_as_finish_reason_is_the_providers() -> None:
    parser = whole("portkey__anthropic-errmid").parser
    assert parser.snapshot.choices[0].outcome is Outcome.ERROR
    assert "overloaded_error" in str(parser.error)


def test_an_error_of_broken_json_says_what_was_sent() -> None:
    assert 'can only concatenate str (not "int") to str' in str(whole("transformers__errmid_badjson").parser.error)


def test_events_of_another_api_are_quoted() -> None:
    error = whole(DASHSCOPE_NATIVE).parser.error
    assert '"output"' in str(error)
    assert "OK" in str(error)


def test_what_copilot_keeps_to_itself_goes_back_to_it() -> None:
    (choice,) = whole(COPILOT).parser.snapshot.choices
    sent = [delta for _, delta in sent_deltas(body_of(COPILOT), is_one=False)]
    assert choice.message.to_param()["reasoning_opaque"] == "".join(delta.get("reasoning_opaque", "") for delta in sent)


@by_options
def test_no_call_without_a_name_goes_back(name: str, is_one: bool) -> None:
    for choice in whole(name, is_one=is_one).parser.snapshot.choices:
        assert all(call["function"]["name"] for call in choice.message.to_param().get("tool_calls", ()))


# In openai-python's eyes


# What openai-python's model may refuse in a completion: `created` where it is 0 on every chunk (mostly because those who
# recorded the stream put it there; 0 counts as absent), what was never sent, and words that are in none of OpenAI's enums.
REFUSED = {"created", "model", "choices.0.finish_reason"}
WORDS = {("choices.0.finish_reason", "eos"), ("service_tier", "on_demand")}


@each_case("name", COMPLETE)
def test_openai_takes_the_completion(name: str) -> None:
    for field, value in refused_by_openai(name):
        assert (field, value) in WORDS or (value is None and field in REFUSED)
        assert sent_last(whole(name).chunks, field) == value


def sent_last(chunks: list[ChatCompletionChunk], field: str) -> Any:
    if field == "choices.0.finish_reason":
        sent = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    else:
        sent = [getattr(chunk, field) for chunk in chunks]
    return next(filter(None, reversed(sent)), None)
