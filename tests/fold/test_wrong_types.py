"""Values of a wrong type, where they do not matter: kept raw, and noted."""

import json
from typing import Any

import pytest
from cases import each_case
from folded_payloads import chunk, fold, said

from chunkfold import ChatCompletion, ServerSentEvent, parse_payload
from chunkfold.testing import HEAD

# A field beside content, tool calls, finish reason and index: where it stands, a value of a wrong type, a right one.
WRONG: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("chunk", {"id": 5}, {"id": HEAD["id"]}),
    ("chunk", {"created": "yesterday"}, {"created": 7}),
    ("chunk", {"model": ["m"]}, {"model": "m"}),
    ("chunk", {"system_fingerprint": 1}, {"system_fingerprint": "f"}),
    ("chunk", {"service_tier": 2}, {"service_tier": "flex"}),
    *(("chunk", {"usage": raw}, {"usage": {"prompt_tokens": 5}}) for raw in ("12", [], 5, True, [{"total_tokens": 1}])),
    ("usage", {"prompt_tokens": "many"}, {}),
    ("choice", {"logprobs": "none"}, {"logprobs": {"content": []}}),
    ("choice", {"message": "none"}, {}),
    ("message", {"role": 5}, {"role": "assistant"}),
    ("message", {"refusal": False}, {"refusal": "no"}),
    ("message", {"reasoning": ["a"]}, {"reasoning_content": "R"}),
    ("message", {"reasoning_content": 1}, {"reasoning_content": "R"}),
    ("message", {"reasoning_details": {"text": 1}}, {"reasoning_details": [{"text": "R"}]}),
    ("message", {"audio": "x"}, {"audio": {"id": "a"}}),
    ("message", {"function_call": "auto"}, {"function_call": {"name": "f", "arguments": ""}}),
    ("message", {"images": "x"}, {"images": [{"url": "y"}]}),
    ("message", {"annotations": {}}, {"annotations": [{"type": "t"}]}),
]


def with_fields(level: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A chunk with these fields at a level."""
    top = {"chunk": fields, "usage": {"usage": fields}}.get(level, {})
    delta = fields if level == "message" else {}
    return chunk({"content": "a", **delta}, choice=fields if level == "choice" else {}, **top, **more)


def stored(completion: ChatCompletion, level: str) -> dict[str, Any]:
    """What a level of a completion dumps, which can be read again."""
    assert ChatCompletion.model_validate(completion.model_dump(warnings="error")) == completion
    assert ChatCompletion.model_validate_json(completion.model_dump_json()) == completion
    whole = json.loads(completion.model_dump_json(exclude_unset=True, warnings="error"))
    return {"chunk": whole, "usage": whole.get("usage"), "choice": whole["choices"][0]}.get(
        level, whole["choices"][0]["message"]
    )


@each_case(("level", "wrong", "right"), WRONG)
def test_a_wrong_type_is_kept_raw_and_noted(level: str, wrong: dict[str, Any], right: dict[str, Any]) -> None:
    payload = with_fields(level, wrong)
    (anomaly,) = [one for one in fold(payload).anomalies if one.rule.id == "CF209"]
    assert anomaly.count == 1
    assert next(iter(wrong)) in anomaly.detail
    # The chunk has it where it was sent ...
    (parsed,) = parse_payload(ServerSentEvent(json.dumps(payload).encode())).chunks
    assert parsed.model_dump(exclude_unset=True, warnings="error") == payload
    # ... the completion has it in `raw_values`, alone and beside a right one in either order ...
    for sent in ([wrong], [wrong, right], [right, wrong]):
        completion = fold(
            *(with_fields(level, fields) for fields in sent), chunk({}, finish_reason="stop")
        ).completion()
        dumped = stored(completion, level)
        assert dumped["raw_values"] == wrong
        if right in sent:
            assert {name: dumped[name] for name in right} == right
        # ... and what stands around it is folded as if nothing were.
        assert completion.text == "a" * len(sent)
        assert completion.message.role == "assistant"


@each_case("raw", [7, 0, 1.5, False, ["a"], {"x": 1}])
@each_case("key", ["text", "summary", "data"])
def test_a_detail_whose_text_is_none_is_kept_raw_and_noted(key: str, raw: Any) -> None:
    detail = {"type": "reasoning.text", "index": 0, key: raw}
    parser = fold(*said({"content": "a", "reasoning_details": [detail]}))
    message = parser.completion().message
    assert message.reasoning_details == [detail]
    assert (message.reasoning, message.content) == (None, "a")
    (anomaly,) = parser.anomalies
    assert (anomaly.rule.id, anomaly.count) == ("CF209", 1)
    assert anomaly.detail == f"reasoning_details: {key}: expected a string, received {type(raw).__name__}"
    # A text wins over it, whenever it comes.
    right = {**detail, key: "b"}
    for details in ([detail, right], [right, detail]):
        assert fold(
            *said(*({"reasoning_details": [one]} for one in details))
        ).completion().message.reasoning_details == [right]


CALLED = {"name": "f", "arguments": "{}"}
RAW_CALL = {"id": 5.5, "type": 6, "function": CALLED}


def test_what_has_a_default_keeps_its_raw_value_beside_it() -> None:
    """Whether one that is right comes before, behind or never."""
    call = {"index": 0, "id": "a", "function": CALLED}
    first = {"role": 5, "tool_calls": [{**call, "type": 5}], "function_call": {"name": [5]}}
    second = {"role": "assistant", "tool_calls": [{"index": 0, "type": "function"}], "function_call": {"name": "g"}}
    for deltas in ([first], [first, second], [second, first]):
        message = fold(*said(*deltas)).completion().message
        assert (message.role, message.raw_values) == ("assistant", {"role": 5})
        assert (message.tool_calls[0].type, message.tool_calls[0].raw_values) == ("function", {"type": 5})
        name = "g" if second in deltas else None
        assert (message.function_call.name, message.function_call.raw_values) == (name, {"name": [5]})
        assert message.to_param()["tool_calls"] == [{"id": "a", "type": "function", "function": CALLED}]


def test_a_raw_value_of_audio_is_beside_one_that_is_right() -> None:
    wrong: dict[str, Any] = {"id": 5, "data": 5, "transcript": [], "expires_at": 1.5}
    right = {"id": "au", "data": "YQ==", "transcript": "a", "expires_at": 1}
    for pieces in ([wrong, right], [right, wrong]):
        audio = fold(*said(*({"audio": piece} for piece in pieces))).completion().message.audio
        assert audio.model_dump() == {**right, "raw_values": wrong}


def test_a_call_in_a_whole_message_keeps_its_raw_values() -> None:
    """It is identified by its place, so a wrong index or id is no error there."""
    parser = fold(
        chunk(choice={"message": {"role": 5, "raw_values": 5, "tool_calls": [RAW_CALL]}}, finish_reason="stop")
    )
    snapshot, completion = parser.snapshot, parser.completion()
    for found in (snapshot, completion):
        assert found.message.raw_values["role"] == 5
        (kept,) = found.message.model_dump(exclude_unset=True)["tool_calls"]
        assert {**kept.pop("raw_values"), "function": CALLED} == RAW_CALL
        assert kept == {"id": kept["id"], "type": "function", "function": CALLED}
        assert ChatCompletion.model_validate_json(found.model_dump_json()) == found


@each_case("name", ["reasoning_details", "thinking_blocks", "content_blocks"])
def test_blocks_that_are_no_objects_are_quoted(name: str) -> None:
    (anomaly,) = fold(*said({"content": "a", name: [{"type": "x"}, "lost", 5]})).anomalies
    assert (anomaly.rule.id, anomaly.detail) == ("CF209", f"{name}: expected objects, received 'lost'")


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ({"type": 5}, {"raw_values": {"type": 5}}),
        ({"url_citation": "u"}, {"raw_values": {"url_citation": "u"}}),
        (
            {"type": "url_citation", "url_citation": {"url": "u", "start_index": "1"}},
            {"type": "url_citation", "url_citation": {"url": "u", "raw_values": {"start_index": "1"}}},
        ),
    ],
    ids=["its type", "its citation", "a value of its citation"],
)
@pytest.mark.parametrize("place", ["delta", "message"])
def test_a_wrong_type_in_an_annotation_is_kept_raw(annotation: Any, expected: Any, place: str) -> None:
    sent = chunk(..., choice={place: {"content": "a", "annotations": [annotation]}}, finish_reason="stop")
    completion = fold(sent).completion()
    (kept,) = completion.message.annotations or ()
    assert kept.model_dump(exclude_unset=True) == expected
    assert ChatCompletion.model_validate_json(completion.model_dump_json()) == completion


@pytest.mark.parametrize(
    "choice",
    [{"logprobs": {"content": [{"token": 5}]}}, {"delta": {"annotations": [{"type": 5}]}}],
    ids=["log probabilities", "annotations"],
)
def test_a_stream_may_have_more_wrong_types_than_an_event(choice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chunkfold.models.base._MOST_WRONG", 10)
    completion = fold(*[chunk(choice=choice)] * 20, *said({"content": "a"})).completion()
    assert completion.text == "a"
    assert ChatCompletion.model_validate_json(completion.model_dump_json()) == completion


@pytest.mark.parametrize(("sent", "kept"), [({}, "{}"), ([], "{}"), (5, "5"), (False, "false"), (None, "")], ids=repr)
def test_arguments_of_a_function_call_that_are_no_text(sent: Any, kept: Any) -> None:
    parser = fold(*said({"function_call": {"name": "f", "arguments": sent}}))
    message = parser.completion().message
    assert message.function_call.arguments == kept
    assert message.to_param()["function_call"]["arguments"] == (kept or "{}")
