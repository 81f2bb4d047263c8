"""Messages and errors are content: captured where that is asked for, and exported nowhere else."""

import json
from typing import Any

import pytest
from kept_telemetry import Telemetry, kept_telemetry, undisturbed
from made_streams import STOP

from chunkfold.testing import DONE, HEAD, delta, event

telemetry = kept_telemetry
nothing_failed = undisturbed

SECRET = "Rosebud"
TALK = {
    "model": "m",
    "user": SECRET,
    "messages": [
        {"role": "system", "content": f"Be {SECRET}."},
        {"role": "user", "content": [{"type": "text", "text": SECRET}, {"type": "image_url", "image_url": "data:x"}]},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": f'{{"a":"{SECRET}"}}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": SECRET},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": SECRET}}],
}
TOLD = [
    delta(reasoning_content=SECRET),
    delta(content=SECRET),
    delta(refusal=SECRET),
    delta(tool_calls=[{"index": 0, "id": "b", "function": {"name": "f", "arguments": f'{{"a":"{SECRET}"}}'}}]),
]
SPOKEN: dict[str, list[bytes]] = {
    "an answer": [*TOLD, delta("tool_calls"), DONE],
    "a cut answer": TOLD,
    "an error": [*TOLD, event({"error": {"message": SECRET, "type": SECRET, "code": SECRET, "param": SECRET}})],
    "no chunk": [*TOLD, event(f'"{SECRET}"'.encode())],
    "no event stream": [SECRET.encode()],
    "a reply of an unknown kind": [event({**HEAD, SECRET: SECRET, "choices": [{"delta": {SECRET: SECRET}}]})],
}


@pytest.mark.parametrize("case", SPOKEN)
def test_no_content_is_exported_unless_asked(case: str, telemetry: Telemetry) -> None:
    telemetry.read(SPOKEN[case], TALK)
    assert telemetry.spans
    assert SECRET not in telemetry.exported


def test_content_is_captured_when_asked(telemetry: Telemetry) -> None:
    telemetry.read(SPOKEN["an answer"], TALK, capture_content=True)
    call = {"type": "tool_call", "id": "a", "name": "f", "arguments": {"a": SECRET}}
    assert json.loads(telemetry.attributes["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": f"Be {SECRET}."}]},
        {"role": "user", "parts": [{"type": "text", "content": SECRET}, {"type": "image_url"}]},
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "a", "response": SECRET}]},
    ]
    assert json.loads(telemetry.attributes["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": SECRET},
                {"type": "text", "content": SECRET},
                {"type": "refusal", "content": SECRET},
                {**call, "id": "b"},
            ],
            "finish_reason": "tool_calls",
        }
    ]
    assert SECRET not in str(telemetry.reader.get_metrics_data())


PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{SECRET}"}}
SOUND = {"type": "input_audio", "input_audio": {"data": SECRET, "format": "wav"}}
TOOL_RESULTS: dict[str, tuple[Any, Any]] = {
    "a text": ("22 °C", "22 °C"),
    "nothing": (None, None),
    "texts": ([{"type": "text", "text": "22"}, "°C"], [{"type": "text", "content": text} for text in ("22", "°C")]),
    "an image": (
        [{"type": "text", "text": "Look:"}, PICTURE],
        [{"type": "text", "content": "Look:"}, {"type": "image_url"}],
    ),
    "audio and a number": ([SOUND, 5], [{"type": "input_audio"}, {"type": "int"}]),
    "an image that stands alone": (PICTURE, {"type": "image_url"}),
}
TURNS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a refusal": ({"refusal": "No."}, [{"type": "refusal", "content": "No."}]),
    "a refusal among the content": (
        {"content": [{"type": "refusal", "refusal": "No."}]},
        [{"type": "refusal", "content": "No."}],
    ),
    "reasoning_content": ({"reasoning_content": "So."}, [{"type": "reasoning", "content": "So."}]),
    "reasoning": ({"reasoning": "So."}, [{"type": "reasoning", "content": "So."}]),
    "reasoning_details": (
        {"reasoning_details": [{"type": "reasoning.text", "text": "So."}]},
        [{"type": "reasoning", "content": "So."}],
    ),
    "reasoning among the content": (
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "So."}]}, {"type": "text", "text": "Hi"}]},
        [{"type": "reasoning", "content": "So."}, {"type": "text", "content": "Hi"}],
    ),
    "an old function call": (
        {"function_call": {"name": "f", "arguments": '{"a": 1}'}},
        [{"type": "tool_call", "id": None, "name": "f", "arguments": {"a": 1}}],
    ),
    "audio": ({"audio": {"id": "audio_1"}}, [{"type": "audio"}]),
    "content and calls of other kinds": (
        {
            "content": ["Hi", 5, {"type": "file"}],
            "tool_calls": [
                {"id": "a", "type": "custom", "custom": {"name": "f", "input": "no JSON"}}, {"id": "b", "type": "x"}, "no call",
            ],
        },
        [
            {"type": "text", "content": "Hi"},
            {"type": "int"},
            {"type": "file"},
            {"type": "tool_call", "id": "a", "name": "f", "arguments": "no JSON"},
            {"type": "tool_call", "id": "b", "name": ""},
        ],
    ),
    "several": (
        {"reasoning_content": "So.", "content": "Hi", "refusal": "No.", "function_call": {"name": "f"}},
        [
            {"type": "reasoning", "content": "So."},
            {"type": "text", "content": "Hi"},
            {"type": "refusal", "content": "No."},
            {"type": "tool_call", "id": None, "name": "f", "arguments": None},
        ],
    ),
    "values of wrong types": (
        {"refusal": 5, "reasoning": [1], "reasoning_details": 5, "function_call": "f", "audio": 5, "tool_calls": 5},
        [],
    ),
}  # fmt: skip
MESSAGES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    **{
        f"a tool's result: {name}": (
            {"role": "tool", "tool_call_id": "a", "content": content},
            [{"type": "tool_call_response", "id": "a", "response": response}],
        )
        for name, (content, response) in TOOL_RESULTS.items()
    },
    **{name: ({"role": "assistant", "content": None, **fields}, parts) for name, (fields, parts) in TURNS.items()},
}


@pytest.mark.parametrize("case", MESSAGES)
def test_of_a_message_of_the_request_texts_and_calls_are_captured(case: str, telemetry: Telemetry) -> None:
    message, parts = MESSAGES[case]
    telemetry.read(request={"messages": [message, "no message"]}, capture_content=True)
    (told,) = json.loads(telemetry.attributes["gen_ai.input.messages"])
    assert told == {"role": message["role"], "parts": parts}
    assert SECRET not in telemetry.exported


def test_the_message_of_an_error_counts_as_content(telemetry: Telemetry) -> None:
    telemetry.read(SPOKEN["an error"], capture_content=True)
    assert SECRET in (telemetry.span.status.description or "")


NO_JSON = ["[" * 100_000, '{"x":', '{"x":NaN}', "-Infinity", '{"x":1e400}']
# What comes before the end of an answer, and the parts of its message.
ANSWERS: dict[str, tuple[list[bytes], list[dict[str, Any]]]] = {
    "an old function call": (
        [delta(function_call={"name": "f", "arguments": '{"a":1}'})],
        [{"type": "tool_call", "id": None, "name": "f", "arguments": {"a": 1}}],
    ),
    "a call in both forms, once": (
        [
            delta(
                tool_calls=[{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}],
                function_call={"name": "f", "arguments": "{}"},
            )
        ],
        [{"type": "tool_call", "id": "b", "name": "f", "arguments": {}}],
    ),
    "what is no text": (
        [
            delta(audio={"id": "x", "data": "AAAA", "transcript": "Hi"}),
            delta(images=[{"type": "image_url", "image_url": {"url": "data:,x"}}]),
        ],
        [{"type": "audio"}, {"type": "image"}],
    ),
    **{
        f"arguments that are no JSON: {text[:9]}": (
            [delta(tool_calls=[{"index": 0, "id": "b", "function": {"name": "f", "arguments": text}}])],
            [{"type": "tool_call", "id": "b", "name": "f", "arguments": text}],
        )
        for text in NO_JSON
    },
}


@pytest.mark.parametrize("case", ANSWERS)
def test_of_an_answer_what_is_no_text_is_captured_too(case: str, telemetry: Telemetry) -> None:
    pieces, parts = ANSWERS[case]
    telemetry.read([*pieces, STOP, DONE], capture_content=True)
    (message,) = json.loads(telemetry.attributes["gen_ai.output.messages"])
    assert message["parts"] == parts
