"""The fold, field by field: its table of rules, row by row, over the wire and through the parser.

Each table also says which rules of the catalogue are to be noted, and no other may be: what is tolerated is never
silent, and what every provider may do (unknown fields, reasoning fields, where usage stands) is no anomaly. Usage,
audio, reasoning, lists, tool calls and whole messages have files of their own.
"""

from typing import Any

import pytest
from cases import each_case
from folded_payloads import chunk, fold, noted, said, sent_at_the_top
from transformed import read

from chunkfold import ChatCompletionChunk
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.testing import HEAD

# Append


APPENDED = {
    "content": (lambda text: {"content": text}, lambda message: message.content),
    "refusal": (lambda text: {"refusal": text}, lambda message: message.refusal),
    "reasoning": (lambda text: {"reasoning": text}, lambda message: message.reasoning),
    "reasoning_content": (lambda text: {"reasoning_content": text}, lambda message: message.reasoning),
    "the raw field": (lambda text: {"reasoning_content": text}, lambda message: message.reasoning_content),
    "function.arguments":
        (lambda text: {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": text}}]},
         lambda message: message.tool_calls[0].function.arguments),
    "custom.input":
        (lambda text: {"tool_calls": [{"index": 0, "id": "a", "custom": {"input": text}}]},
         lambda message: message.tool_calls[0].custom.input),
    "function_call.arguments":
        (lambda text: {"function_call": {"arguments": text}}, lambda message: message.function_call.arguments),
    "audio.transcript": (lambda text: {"audio": {"transcript": text}}, lambda message: message.audio.transcript),
}  # fmt: skip


@each_case(("delta", "text"), APPENDED.values(), ids=APPENDED)
def test_appended(delta: Any, text: Any) -> None:
    """Repeated and growing pieces are pieces: "ha" twice is laughter, not a repeat."""
    pieces = ["ha", "ha", "", None, "haha", "\r\n", "é", "\U0001f600"]
    parser = fold(*said(*map(delta, pieces)))
    assert text(parser.completion().message) == "hahahaha\r\né\U0001f600"
    assert noted(parser) <= {"CF316"}  # the tool calls here have no name


@pytest.mark.parametrize(
    ("deltas", "content"),
    [
        pytest.param([{}], None, id="never sent"),
        pytest.param([{"content": None}], None, id="null"),
        pytest.param([{"content": ""}], "", id="only empty"),
        pytest.param([{"role": "assistant"}, {"content": ""}, {}], "", id="empty between others"),
        pytest.param([{"content": None}, {"content": "a"}, {"content": None}], "a", id="null around it"),
    ],
)
def test_no_content_is_none_and_empty_content_is_empty(deltas: list[Any], content: str | None) -> None:
    assert fold(*said(*deltas)).completion().message.content == content


# First, and last, value that is not empty


AT_THE_TOP = [
    # The values that are sent, chunk by chunk, and what the completion has.
    pytest.param("id", ["a", "a"], "a", set(), id="id"),
    pytest.param("id", ["", None, "b", "b"], "b", {"CF203"}, id="id: empty is absent (Azure)"),
    pytest.param("id", ["a", "b", ...], "a", {"CF205"}, id="id: changed"),
    pytest.param("id", [..., None, ...], None, {"CF216"}, id="id: never sent"),
    pytest.param("id", ["", ""], None, {"CF203", "CF216"}, id="id: always empty"),
    pytest.param("created", [0, 5, 6], 5, {"CF203"}, id="created: 0 is absent"),
    pytest.param("created", [..., None, 6], 6, set(), id="created: late"),
    pytest.param("created", [..., ...], None, {"CF216"}, id="created: never sent"),
    pytest.param("model", ["", "m-1", "m-2"], "m-1", {"CF203", "CF205"}, id="model"),
    pytest.param("system_fingerprint", [None, "f1", "f2"], "f1", set(), id="system_fingerprint"),
    pytest.param("system_fingerprint", ["", "f2"], "f2", set(), id="system_fingerprint: empty"),
    pytest.param("service_tier", ["auto", "default"], "default", set(), id="service_tier: the last"),
    pytest.param("service_tier", ["flex", "", None, ...], "flex", set(), id="service_tier: empty after it"),
    pytest.param("service_tier", [...], None, set(), id="service_tier: never sent"),
    pytest.param("object", ["chat.completion.chunk"] * 2, "chat.completion", set(), id="object"),
    pytest.param("object", ["", "chat.completion.chunk"], "chat.completion", {"CF206"}, id="object: empty"),
    pytest.param("object", [..., "chat.reasoning"], "chat.completion", {"CF206"}, id="object: another"),
    pytest.param("object", ["chat.completion", None], "chat.completion", {"CF206"}, id="object: that of a completion"),
]


@each_case(("name", "values", "expected", "rules"), AT_THE_TOP)
def test_fields_of_the_chunk(name: str, values: list[Any], expected: Any, rules: set[str]) -> None:
    parser = fold(*sent_at_the_top(name, values))
    assert getattr(parser.completion(), name) == expected
    assert noted(parser) == rules


ROLES = {
    "once": ([{"role": "assistant"}, {}], "assistant", set()),
    "never: assistant": ([{}, {}], "assistant", set()),
    "empty: assistant": ([{"role": None}, {"role": ""}], "assistant", {"CF203"}),
    "empty, then another": ([{"role": ""}, {"role": "model"}], "model", {"CF203"}),
    "on every chunk (StepFun)": ([{"role": "assistant"}] * 3, "assistant", set()),
    "changed": ([{"role": "assistant"}, {"role": "model"}], "assistant", {"CF204"}),
    "neither is assistant": ([{"role": "model"}, {"role": "bot"}], "model", {"CF204"}),
    "a passing one before assistant":
        ([{"role": "model"}, {"role": "assistant"}, {"role": "user"}], "assistant", {"CF204"}),
}  # fmt: skip


@each_case(("deltas", "role", "rules"), ROLES.values(), ids=ROLES)
def test_role(deltas: list[Any], role: str, rules: set[str]) -> None:
    parser = fold(*said(*deltas))
    assert parser.completion().message.role == role
    assert noted(parser) == rules


FINISH_REASONS = [
    pytest.param([None, "stop"], "stop", set(), id="once"),
    pytest.param(["", "", "stop"], "stop", {"CF203"}, id="empty until the end (StepFun)"),
    pytest.param(["stop", "stop"], "stop", {"CF504"}, id="twice (SGLang)"),
    pytest.param(["stop", "length"], "length", {"CF504"}, id="the last"),
    pytest.param(["length", "", None, ...], "length", {"CF203"}, id="empty after it"),
    pytest.param([None, "eos_token"], "eos_token", {"CF506"}, id="another word, as sent"),
]


@pytest.mark.parametrize(("reasons", "expected", "rules"), FINISH_REASONS)
def test_finish_reason_is_the_last_that_is_not_empty(reasons: list[Any], expected: str, rules: set[str]) -> None:
    parser = fold(*(chunk({}, finish_reason=reason) for reason in reasons))
    assert parser.completion().finish_reason == expected
    assert noted(parser) == rules


def test_an_anomaly_tells_which_finish_reason_came_after_which() -> None:
    (twice,) = fold(chunk({}, finish_reason="stop"), chunk({}, finish_reason="length")).anomalies
    assert twice.detail == "choice 0: 'length' after 'stop'"


def test_the_head_beside_azures_filter_may_be_empty_and_is_kept_where_it_is_not() -> None:
    """It was once dropped as a whole. GitHub Copilot sends the model there."""
    report = {"prompt_filter_results": [{"prompt_index": 0}]}
    filtered = {**HEAD, "id": "", "object": "", "created": 0, "choices": [], **report}
    parser = fold(filtered, {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]})
    assert (parser.snapshot.id, parser.snapshot.model, parser.snapshot.created) == (None, HEAD["model"], None)
    parser = fold(filtered, *said({"content": "Hi"}))
    assert (parser.snapshot.id, parser.snapshot.model) == (HEAD["id"], HEAD["model"])
    assert noted(parser) == set()
    parser = fold({**filtered, "model": "other"}, *said({"content": "Hi"}))
    assert (parser.snapshot.model, noted(parser)) == ("other", {"CF205"})


def test_the_head_of_a_keep_alive_is_not_that_of_the_completion() -> None:
    """Gateways send such chunks until the model answers (oMLX, OmniRoute)."""
    waiting = chunk({"content": ""}, id="chatcmpl-keepalive", model="keepalive", created=0)
    parser = fold(waiting, waiting, *said({"content": "Hi"}))
    completion = parser.completion()
    assert (completion.id, completion.model, completion.created) == (HEAD["id"], HEAD["model"], HEAD["created"])
    assert noted(parser) == {"CF203"}
    own = chunk({}, id="omniroute-keepalive", model="omniroute", created=0)
    parser = fold(own, *said({"content": "Hi"}))
    assert (parser.snapshot.id, parser.snapshot.model) == (HEAD["id"], HEAD["model"])
    assert noted(parser) == {"CF203"}
    assert fold(chunk({}, model="omniroute", created=0), *said({})).snapshot.model == "omniroute"
    assert fold(chunk({}, id="c", model="keepalive", created=0), *said({})).snapshot.model == HEAD["model"]
    assert fold(chunk({"content": "a"}, prompt_filter_results=[])).snapshot.model == HEAD["model"]
    ping = {"id": "acme-keepalive", "model": "tiny-keepalive"}
    assert fold(*(chunk({"content": "Hi"}, **ping) for _ in range(2))).snapshot.model == "tiny-keepalive"
    odd = ChatCompletionChunk.model_construct(id=5, model=["m"], created=1, object="chat.completion.chunk", choices=[])
    StreamFold().add(odd)  # what nobody validated


# function_call


FUNCTION_CALLS = {
    "name first, arguments append":
        ([{"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}],
         {"name": "f", "arguments": '{"a":1}'}),
    "the first name": ([{"name": "f"}, {"name": "g"}, {"name": ""}], {"name": "f", "arguments": ""}),
    "a name that is repeated": ([{"name": "f", "arguments": "1"}] * 3, {"name": "f", "arguments": "111"}),
    "a late name": ([{"arguments": "1"}, {"name": "f"}], {"name": "f", "arguments": "1"}),
    "no name": ([{"arguments": "1"}], {"name": None, "arguments": "1"}),
    "unknown keys": ([{"name": "f", "x": 1}, {"x": 2}, {"x": None}], {"name": "f", "arguments": "", "x": 2}),
}  # fmt: skip


@pytest.mark.parametrize(("fragments", "expected"), FUNCTION_CALLS.values(), ids=FUNCTION_CALLS)
def test_function_call(fragments: list[Any], expected: dict[str, Any]) -> None:
    parser = fold(*said(*({"function_call": one} for one in fragments), finish_reason="function_call"))
    call = parser.completion().message.function_call
    assert call.model_dump() == expected
    assert parser._fold.output_size == len((call.name or "") + call.arguments)
    assert parser.completion().choices[0].outcome == "tool_calls"
    assert noted(parser) == set()


# Unknown keys, and obfuscation


LEVELS = [
    # What is sent with an unknown key at one level; where it is to be found in the completion.
    pytest.param(lambda extra: chunk({}, **extra), lambda completion: completion, id="chunk"),
    pytest.param(lambda extra: chunk({}, choice=extra), lambda completion: completion.choices[0], id="choice"),
    pytest.param(chunk, lambda completion: completion.message, id="delta"),
    pytest.param(lambda extra: chunk({}, choice={"logprobs": extra}),
         lambda completion: completion.choices[0].logprobs, id="logprobs"),
    pytest.param(lambda extra: chunk({"audio": extra}), lambda completion: completion.message.audio, id="audio"),
    pytest.param(lambda extra: chunk({"function_call": extra}), lambda completion: completion.message.function_call,
         id="function_call"),
    pytest.param(lambda extra: chunk({"tool_calls": [{"index": 0, **extra}]}),
         lambda completion: completion.tool_calls[0], id="tool call"),
    pytest.param(lambda extra: chunk({"tool_calls": [{"index": 0, "function": extra}]}),
         lambda completion: completion.tool_calls[0].function, id="function"),
    pytest.param(lambda extra: chunk({"tool_calls": [{"index": 0, "custom": extra}]}),
         lambda completion: completion.tool_calls[0].custom, id="custom"),
    pytest.param(lambda extra: chunk({}, usage=extra), lambda completion: completion.usage, id="usage"),
]  # fmt: skip


@each_case(("sent", "found"), LEVELS)
def test_unknown_keys_are_kept_where_they_came_the_last_not_null(sent: Any, found: Any) -> None:
    values = [{"x": [1], "y": {"a": 1}, "z": None}, {"x": "2", "y": None}, {"x": [3], "w": 0}]
    parser = fold(*map(sent, values), *said({}))
    level = found(parser.completion())
    kept = {key: value for key, value in level.model_extra.items() if value is not None}
    assert kept == {"x": [3], "y": {"a": 1}, "w": 0}
    assert level.model_dump()["x"] == level.x == [3]
    assert noted(parser) <= {"CF302", "CF316"}  # the tool calls here have no id and no name


def test_unknown_keys_of_a_delta_stay_in_the_order_in_which_they_were_sent() -> None:
    """Whether a rule for their name folded them or not."""
    sent = {"x": 1, "citations": ["u"], "y": 2, "extra_content": {"z": 3}, "w": 4}
    message = fold(chunk(sent), *said({})).completion().message
    assert [*message.model_dump(exclude_unset=True)][-len(sent) :] == [*sent]


@each_case(("sent", "found"), LEVELS[:-1])  # usage has a rule of its own, key by key
def test_obfuscation_stays_on_the_chunk(sent: Any, found: Any) -> None:
    parser, chunks = read([sent({"obfuscation": "Xx", "kept": 1}), *said({})])
    assert "obfuscation" in chunks[0].model_dump_json()
    completion = parser.completion()
    assert found(completion).kept == 1
    assert "obfuscation" not in completion.model_dump_json()
