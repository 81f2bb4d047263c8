"""Messages and errors are content: captured where that is asked for, and exported nowhere else."""

import json
from typing import Any

import pytest
from kept_telemetry import HI, Telemetry, consume, kept_telemetry, no_complaint, no_names_chosen
from made_streams import STOP

from chunkfold import ChatCompletionStream
from chunkfold.testing import DONE, HEAD, delta, event

telemetry = kept_telemetry
no_opt_in = no_names_chosen
nothing_failed = no_complaint

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
    with telemetry.instrument(ChatCompletionStream(SPOKEN[case]), TALK) as stream:
        consume(stream)
    assert telemetry.spans
    assert SECRET not in telemetry.exported


def test_content_is_captured_when_asked(telemetry: Telemetry) -> None:
    telemetry.instrument(ChatCompletionStream(SPOKEN["an answer"]), TALK, capture_content=True).read()
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


def test_a_legacy_function_call_of_the_answer_is_captured(telemetry: Telemetry) -> None:
    call = delta("function_call", function_call={"name": "f", "arguments": '{"a":1}'})
    telemetry.instrument(ChatCompletionStream([call, DONE]), capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "tool_call", "id": None, "name": "f", "arguments": {"a": 1}}]


def test_a_call_of_the_answer_in_both_forms_is_captured_once(telemetry: Telemetry) -> None:
    function = {"name": "f", "arguments": '{"a":1}'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    answer = delta("tool_calls", tool_calls=[call], function_call=function)
    telemetry.instrument(ChatCompletionStream([answer, DONE]), capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "tool_call", "id": "call_1", "name": "f", "arguments": {"a": 1}}]


def test_messages_of_other_kinds_are_captured_as_far_as_they_are_known(telemetry: Telemetry) -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "f", "input": "no JSON"}}
    calls = [custom, {"id": "b", "type": "x"}, "no call"]
    messages = [{"role": "assistant", "content": ["Hi", 5, {"type": "file"}], "tool_calls": calls}, "no message"]
    stream = ChatCompletionStream([HI, STOP, DONE])
    telemetry.instrument(stream, {"messages": messages}, capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.input.messages"])
    assert message["parts"] == [
        {"type": "text", "content": "Hi"},
        {"type": "int"},
        {"type": "file"},
        {"type": "tool_call", "id": "a", "name": "f", "arguments": "no JSON"},
        {"type": "tool_call", "id": "b", "name": ""},
    ]


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
    stream = ChatCompletionStream([HI, STOP, DONE])
    telemetry.instrument(stream, {"messages": [message]}, capture_content=True).read()
    (told,) = json.loads(telemetry.attributes["gen_ai.input.messages"])
    assert told == {"role": message["role"], "parts": parts}
    assert SECRET not in telemetry.exported


def test_the_message_of_an_error_counts_as_content(telemetry: Telemetry) -> None:
    telemetry.instrument(stream := ChatCompletionStream(SPOKEN["an error"]), capture_content=True)
    consume(stream)
    assert SECRET in (telemetry.span.status.description or "")


def test_what_is_no_text_shows_as_its_kind(telemetry: Telemetry) -> None:
    audio = delta(audio={"id": "x", "data": "AAAA", "transcript": "Hi"})
    image = delta(images=[{"type": "image_url", "image_url": {"url": "data:,x"}}])
    telemetry.instrument(ChatCompletionStream([audio, image, STOP]), capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.output.messages"])
    assert {part["type"] for part in message["parts"]} == {"audio", "image"}
    assert all(part.keys() == {"type"} for part in message["parts"])


@pytest.mark.parametrize(
    "arguments", ["[" * 100_000, '{"x":', '{"x":NaN}', "-Infinity", '{"x":1e400}'], ids=lambda text: text[:9]
)
def test_arguments_that_are_no_json_are_captured_as_written(arguments: str, telemetry: Telemetry) -> None:
    call = delta(tool_calls=[{"index": 0, "id": "b", "function": {"name": "f", "arguments": arguments}}])
    telemetry.instrument(ChatCompletionStream([call, STOP, DONE]), capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.output.messages"])
    assert message["parts"][0]["arguments"] == arguments
