"""The message as the next turn wants it: what goes back, and what a provider needs back."""

import json
from copy import deepcopy
from typing import Any

import pytest
from cases import each_case
from made_up_ids import MADE_UP, shown_id
from parsed_bodies import parsed
from sent_back import PARALLEL, RICH, SIGNATURE, TEXT, completion_of, param_of, part
from shared_data import shared_data

from chunkfold import ChatCompletionMessage, ChatCompletionStream, OneChoice


def calls_of(*fragments: dict[str, Any]) -> list[dict[str, Any]]:
    return param_of(*({"tool_calls": [one]} for one in fragments))["tool_calls"]


def call(arguments: str, id_: str = "call_a", name: str = "f", **fields: Any) -> dict[str, Any]:
    return {**fields, "id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


FUNCTION = {"name": "f", "arguments": "{}", "y": 2}
CUSTOM = {"index": 0, "id": "call_a", "type": "custom", "custom": {"name": "sql", "input": "{}"}, "x": 1}
FILE = {"type": "file", "file": {"hash": "h", "name": "a.pdf", "content": [{"type": "text", "text": "A"}]}}
ENCRYPTED = {"type": "reasoning.encrypted", "index": 1, "data": "eHg=", "id": "rs_1"}


@each_case(
    ("deltas", "expected"),
    [
        pytest.param([{"role": "assistant", "content": "Hel"}, {"content": "lo"}], {"content": "Hello"}, id="text"),
        pytest.param([{}], {"content": ""}, id="nothing at all: the API wants a text then"),
        pytest.param([{"content": ""}], {"content": ""}, id="an empty text"),
        pytest.param([{"role": "assistant", "content": ""}, {"tool_calls": [part("{}")]}],
                     {"content": None, "tool_calls": [call("{}")]},
                     id="an empty text before calls, which some providers refuse beside them"),
        pytest.param([{"tool_calls": [part("{}", provider_specific_fields={"thought_signature": "S"})]},
                     {"tool_calls": [part("", name=None,
                     provider_specific_fields={"thought_signature": None, "x": 1})]}], {"content": None,
                     "tool_calls": [call("{}", provider_specific_fields={"thought_signature": "S", "x": 1})]},
                     id="LiteLLM's signature of a call, and more fields later"),
        pytest.param([{"refusal": "I can"}, {"refusal": "not."}], {"content": None, "refusal": "I cannot."},
                     id="a refusal"),
        pytest.param([{"content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}], {"content": "Hi"},
                     id="parts of text"),
        pytest.param([{"content": [{"type": "output_text", "text": "H"}, {"type": "output_text", "text": "i"}]}],
                     {"content": "Hi"}, id="parts of the Responses API's text"),
        pytest.param([{"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}]}],
                     {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}]},
                     id="parts of which some are more than text"),
        pytest.param([{"content": [{"type": "thinking", "thinking": "hm"},
                     {"type": "text", "text": "", "citations": [1]}]}],
                     {"content": [{"type": "thinking", "thinking": "hm"}]}, id="no text beside a part that is more"),
        pytest.param([{"content": [{"type": "thinking", "thinking": "hm"}]}, {"content": "A"},
                     {"content": [{"type": "text", "text": "B", "citations": [1], "index": 1}]}, {"content": "C"}],
                     {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ABC"}]},
                     id="texts beside a part that is more are one, without citations"),
        pytest.param([{"function_call": {"name": "f", "arguments": '{"a"'}}, {"function_call": {"arguments": ":1}"}}],
                     {"content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}},
                     id="the legacy function call"),
        pytest.param([{"audio": {"id": "audio_1", "data": "aGk=", "transcript": "hi"}}, {"audio": {"expires_at": 9}}],
                     {"content": None, "audio": {"id": "audio_1"}}, id="audio by its id"),
        pytest.param([{"audio": {"data": "aGk="}}], {"content": ""}, id="audio without an id cannot be named"),
        pytest.param([{"content": "Hi", "extra_content": SIGNATURE}], {"content": "Hi", "extra_content": SIGNATURE},
                     id="Gemini's signature beside text"),
        pytest.param([{"content": "Hi", "annotations": [{"type": "url_citation"}], "images": [{"type": "image_url"}],
                     "x": 1}], {"content": "Hi"}, id="what a request does not have"),
        pytest.param([{"content": "Hi", "annotations": [{"type": "url_citation"}, {**FILE, "url_citation": 5}]}],
                     {"content": "Hi", "annotations": [FILE]}, id="OpenRouter's parsed documents"),
        pytest.param([{"content": "Let me look."}, {"tool_calls": [part('{"q"'), part('{"z":', 1, "call_b", "g")]},
                     {"tool_calls": [part(":1}", name=None, id_=None), part("2}", 1, None, None)]}],
                     {"content": "Let me look.", "tool_calls": [call('{"q":1}'), call('{"z":2}', "call_b", "g")]},
                     id="calls with their ids"),
        pytest.param([{"tool_calls": [{"index": 0, "id": "a", "x": 1, "function": FUNCTION}]}],
                     {"content": None, "tool_calls": [{"id": "a", "type": "function", "x": 1, "function": FUNCTION}]},
                     id="unknown fields at the level where they came"),
        # The input is free text: an empty one stays empty, and `{}` in it is no placeholder.
        pytest.param([{"tool_calls": [CUSTOM]}, {"tool_calls": [{"index": 0, "custom": {"input": "{} 1"}}]},
                     {"tool_calls": [{**CUSTOM, "index": 1, "id": "call_b", "custom": {"name": "sql", "input": ""}}]}],
                     {"content": None, "tool_calls": [
                     {"id": "call_a", "type": "custom", "custom": {"name": "sql", "input": "{}{} 1"}, "x": 1},
                     {"id": "call_b", "type": "custom", "custom": {"name": "sql", "input": ""}, "x": 1}]},
                     id="custom tools"),
        pytest.param([{"reasoning_details": [{**TEXT, "text": "The user "}]},
                     {"reasoning_details": [{**TEXT, "text": "asks."}]}, {"content": "Hi"},
                     {"reasoning_details": [{**TEXT, "signature": "c2ln"}]}, {"reasoning_details": [ENCRYPTED]}],
                     {"content": "Hi", "reasoning_details": [
                     {**TEXT, "text": "The user asks.", "signature": "c2ln"}, ENCRYPTED]},
                     id="reasoning details with their signatures"),
        pytest.param(PARALLEL, {"content": None, "reasoning_details": [{**TEXT, "text": "hm", "signature": "c2ln"}],
                     "tool_calls": [call('{"city":"Bern"}', extra_content=SIGNATURE), call("{}", "call_b", "now")]},
                     id="calls by turns with all that providers check: arguments, signatures, reasoning"),
        # What cannot go back is left out.
        pytest.param([{"tool_calls": [part("{}")]}, {"function_call": {"name": "f", "arguments": "{}"}}],
                     {"content": None, "tool_calls": [call("{}")]}, id="the legacy call beside tool calls"),
        pytest.param([{"function_call": {"arguments": "{}"}}], {"content": ""}, id="a legacy call without a name"),
        pytest.param([{"content": "Hi", "tool_calls": [part("{}", name=None), part("{}", 1, "call_b", "g")]}],
                     {"content": "Hi", "tool_calls": [call("{}", "call_b", "g")]}, id="a call without a name"),
        pytest.param([{"content": "Hi",
                     "tool_calls": [{"index": -1, "type": "function", "function": {"arguments": "{}"}}]}],
                     {"content": "Hi"}, id="the server's own call, without id and name"),
        pytest.param([{"tool_calls": [{"index": 0, "id": "a", "custom": {"input": "x"}}]}], {"content": ""},
                     id="a custom call without a name"),
    ],
)  # fmt: skip
def test_the_message(deltas: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    assert param_of(*deltas) == {"role": "assistant", **expected}


# Tool calls


def test_an_id_that_was_made_up_goes_back_like_any_other() -> None:
    calls = calls_of(part("{}", id_=None), part("{}", 1, None, "g"))
    assert [{**one, "id": shown_id(one["id"])} for one in calls] == [call("{}", MADE_UP), call("{}", MADE_UP, "g")]


@each_case(
    ("pieces", "sent"),
    [
        pytest.param([""], "{}", id="none"),
        pytest.param([None], "{}", id="null"),
        pytest.param([" \n"], "{}", id="blank"),
        pytest.param(["null"], "{}", id="the text null"),
        pytest.param(["nul"], "nul", id="no null"),
        pytest.param([{}], "{}", id="an empty object"),
        pytest.param(["{}"], "{}", id="an empty object's text"),
        pytest.param(["{}", '{"a":1}'], '{"a":1}', id="a placeholder"),
        pytest.param(["{", "}", '{"a"', ":1}"], '{"a":1}', id="a placeholder in pieces"),
        pytest.param([{"a": 1}], '{"a":1}', id="an object"),
        pytest.param(['{ "a" : 1 }'], '{ "a" : 1 }', id="as written"),
        pytest.param([" ", '{"a":1}\n'], ' {"a":1}\n', id="blanks around"),
        pytest.param(['{"a":"é 號 😀"}'], '{"a":"é 號 😀"}', id="any character"),
        pytest.param([r'"{\"a\"', r':1}"'], '{"a":1}', id="encoded twice"),
        pytest.param(['"{'], '"{', id="a string that is cut"),
        pytest.param(['{"a":'], '{"a":', id="cut: nothing is made up"),
    ],
)
def test_arguments(pieces: list[Any], sent: str) -> None:
    first, *more = pieces
    assert calls_of(part(first), *(part(piece, id_=None, name=None) for piece in more)) == [call(sent)]


def test_the_message_keeps_the_raw_arguments() -> None:
    completion = completion_of({"tool_calls": [part("{}")]}, {"tool_calls": [part('{"a":1}', name=None)]})
    assert completion.message.to_param()["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    assert completion.tool_calls[0].arguments == '{}{"a":1}'


# Reasoning


@each_case(
    ("deltas", "expected"),
    [
        pytest.param([{"reasoning_content": "h"}, {"reasoning_content": "m"}], {"reasoning_content": "hm"}, id="text"),
        pytest.param([{"reasoning": "h"}, {"reasoning": "m"}], {"reasoning_content": "hm"}, id="another spelling"),
        pytest.param([{"reasoning_content": ""}], {"reasoning_content": ""}, id="empty: DeepSeek wants it with calls"),
        pytest.param([], {}, id="none is made up"),
    ],
)
def test_reasoning_text_only_if_asked_for(deltas: list[Any], expected: dict[str, Any]) -> None:
    deltas = [*deltas, {"content": "Hi"}]
    assert param_of(*deltas) == {"role": "assistant", "content": "Hi"}
    assert param_of(*deltas, reasoning_content=True) == {"role": "assistant", "content": "Hi", **expected}


# Reasoning in blocks and parts, which the provider checks


WEB_RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "http://e.x", "title": "T", "encrypted_content": "E"}],
}
RECORDED = {
    "LiteLLM's thinking_blocks":
        ("litellm__anthropic-think", {"content": "Hello, wörld 😀.",
         "thinking_blocks": [{"type": "thinking", "thinking": "Let me think.", "signature": "EqQBSIGNATURE=="}]}),
    "LiteLLM's thought signatures":
        ("litellm__gemini-think",
         {"content": "Hello.", "provider_specific_fields": {"thought_signatures": ["U0lHTg=="]}}),
    "LiteLLM's results of Anthropic's web search":
        ("litellm__anthropic-web", {"content": "Found.",
         "tool_calls": [call('{"query":"x"}', "srvtoolu_1", "web_search")],
         "provider_specific_fields": {"web_search_results": [WEB_RESULT]}}),
    "Portkey's content_blocks":
        ("portkey__anthropic-think", {"content": "Hello, wörld 😀.",
         "content_blocks": [{"type": "thinking", "thinking": "Let me think.", "signature": "EqQBSIGNATURE=="},
         {"type": "text", "text": "Hello, wörld 😀."}]}),
    "musistudio/llms' thinking":
        ("musistudio-llms__ds-ds-think", {"content": "Hello, wörld 😀.",
         "thinking": {"content": "Let me think.", "signature": "1795361461303"}}),
}  # fmt: skip


@pytest.mark.parametrize("is_option", [False, True], ids=["transform", "option"])
@pytest.mark.parametrize(("name", "expected"), RECORDED.values(), ids=RECORDED)
def test_what_a_recorded_provider_needs_back(name: str, expected: dict[str, Any], is_option: bool) -> None:
    body = shared_data(f"recordings-2/{name}.sse").read_bytes()
    message = parsed(body, one_choice=is_option, transforms=[] if is_option else [OneChoice()]).snapshot.message
    assert message.reasoning == (None if name.endswith("-web") else "Let me think.")
    assert_goes_back(message, expected)


def assert_goes_back(message: ChatCompletionMessage, expected: dict[str, Any]) -> None:
    """Also from a message that was stored."""
    for one in (message, ChatCompletionMessage.model_validate_json(message.model_dump_json())):
        assert one.to_param() == {"role": "assistant", **expected}


def databricks(*summary: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", **one} for one in summary]}]}


WRITTEN = {
    "Copilot: no opaque, no text": ([{"reasoning_text": "hm"}, {"content": "Hi"}], {"content": "Hi"}),
    "Copilot: an empty opaque, no text":
        ([{"reasoning_text": "hm", "reasoning_opaque": ""}, {"content": "Hi"}], {"content": "Hi"}),
    "Copilot: the text under its own name":
        ([{"reasoning_text": "hm", "reasoning_content": "hm", "reasoning_opaque": "abc"}],
         {"content": "", "reasoning_text": "hm", "reasoning_opaque": "abc"}),
    "any-llm: a text instead of an object":
        ([{"content": "Hi", "extra_content": {"anthropic": "c2ln"}}],
         {"content": "Hi", "extra_content": {"anthropic": "c2ln"}}),
    "Copilot: the opaque pieces append":
        ([{"reasoning_text": "h"}, {"reasoning_text": "m", "reasoning_opaque": "ab"}, {"reasoning_opaque": "c"}],
         {"content": "", "reasoning_text": "hm", "reasoning_opaque": "abc"}),
    "Copilot in front of Azure: the id of a summary, and the summary with it":
        ([{"cot_summary": "h"}, {"cot_summary": "m"}, {"content": "Hi"}, {"cot_id": "cot_1"}, {"cot_id": "cot_1"}],
         {"content": "Hi", "cot_summary": "hm", "cot_id": "cot_1"}),
    "Copilot in front of Azure: no id, no summary": ([{"cot_summary": "hm"}, {"content": "Hi"}], {"content": "Hi"}),
    "octopus: the pieces of a signature append, and their text goes with them":
        ([{"reasoning_content": "h"}, {"reasoning_content": "m"}, {"reasoning_signature": "ab"},
         {"reasoning_signature": "c"}], {"content": "", "reasoning_content": "hm", "reasoning_signature": "abc"}),
    "a signature of a text under another name":
        ([{"reasoning": "hm"}, {"reasoning_signature": "ab"}], {"content": "", "reasoning": "hm", "reasoning_signature": "ab"}),
    "any-llm: a signature in extra_content, and its text":
        ([{"reasoning": {"content": "hm"}}, {"extra_content": {"anthropic": {"signature": "ab"}}}],
         {"content": "", "reasoning": "hm", "extra_content": {"anthropic": {"signature": "ab"}}}),
    "any-llm: no signature, no text":
        ([{"reasoning": "hm"}, {"extra_content": {"anthropic": {"stop_details": {}}}}],
         {"content": "", "extra_content": {"anthropic": {"stop_details": {}}}}),
    "Bella: a signature under another name":
        ([{"reasoning_content": "hm"}, {"reasoning_content_signature": "ab"}, {"content": "Hi"}],
         {"content": "Hi", "reasoning_content": "hm", "reasoning_content_signature": "ab"}),
    "TokenHub: redacted reasoning":
        ([{"redacted_reasoning_content": "ab"}, {"content": "Hi"}], {"content": "Hi", "redacted_reasoning_content": "ab"}),
    "Doubao: encrypted reasoning, and its text":
        ([{"reasoning_content": "hm"}, {"encrypted_content": "ab"}, {"encrypted_content": "c", "content": "Hi"}],
         {"content": "Hi", "reasoning_content": "hm", "encrypted_content": "abc"}),
    "Kimi: summaries and encrypted blocks without their index, and the text":
        ([{"reasoning_content": "h"}, {"reasoning_content": "m"},
         {"reasoning_details": [{"index": 0, "type": "summary", "summary": "s"}]},
         {"reasoning_details": [{"index": 0, "type": "summary", "summary": "o"}]},
         {"reasoning_details": [{"index": 1, "type": "encrypted", "encrypted": "ab"}]}, {"content": "Hi"}],
         {"content": "Hi", "reasoning_content": "hm", "reasoning_details": [{"type": "summary", "summary": "so"},
         {"type": "encrypted", "encrypted": "ab"}]}),
    "Kimi: the summary if there is no other text":
        ([{"reasoning_details": [{"index": 0, "type": "summary", "summary": "so"}]}, {"content": "Hi"}],
         {"content": "Hi", "reasoning_content": "so", "reasoning_details": [{"type": "summary", "summary": "so"}]}),
    "Kimi: no text":
        ([{"reasoning_details": [{"index": 0, "type": "encrypted", "encrypted": "ab"}]}],
         {"content": "", "reasoning_details": [{"type": "encrypted", "encrypted": "ab"}]}),
    "a signature without a text":
        ([{"reasoning_signature": "ab"}, {"content": "Hi"}], {"content": "Hi", "reasoning_signature": "ab"}),
    "GigaChat: the state of its functions":
        ([{"content": "Hi", "functions_state_id": "a-1"}, {"functions_state_id": None}],
         {"content": "Hi", "functions_state_id": "a-1"}),
    "Venice: encrypted reasoning at the end of the text, and as a block":
        ([{"reasoning_content": "hm"}, {"reasoning_content": "\n\n__ENCRYPTED_REASONING__id=rs_1\ngAAA=",
         "reasoning_encrypted": True, "reasoning_details": [{"type": "reasoning.encrypted", "index": 0, "data": "gAAA="}]},
         {"reasoning_content": ".", "reasoning_encrypted": False}, {"content": "Hi"}],
         {"content": "Hi", "reasoning_content": "hm.\n\n__ENCRYPTED_REASONING__id=rs_1\ngAAA=",
         "reasoning_details": [{"type": "reasoning.encrypted", "index": 0, "data": "gAAA="}]}),
    "Venice: a text that only says so":
        ([{"reasoning_content": "[encrypted]", "reasoning_encrypted": True}, {"content": "Hi"}], {"content": "Hi"}),
    "Venice: the flag alone": ([{"content": "Hi", "reasoning_encrypted": True}], {"content": "Hi"}),
    "Venice: a text about its mark":
        ([{"reasoning_content": "a __ENCRYPTED_REASONING__"}, {"content": "Hi"}], {"content": "Hi"}),
    "Venice: Gemini's signature of a text":
        ([{"content": "Hi"}, {"thought_signature": "ab"}], {"content": "Hi", "thought_signature": "ab"}),
    "Databricks: a signature in a content part":
        ([databricks({"text": "h"}), databricks({"text": "m"}), databricks({"text": "", "signature": "c2ln"}),
         {"content": "Hi"}], {"content": [{"type": "reasoning",
         "summary": [{"type": "summary_text", "text": "hm", "signature": "c2ln"}]}, {"type": "text", "text": "Hi"}]}),
    "Mistral: thinking and a reference":
        ([{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}]},
         {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}], "closed": True}]},
         {"content": [{"type": "text", "text": "H"}]}, {"content": "i"},
         {"content": [{"type": "reference", "reference_ids": [1]}]}, {"content": "."}],
         {"content": [{"type": "thinking", "closed": True, "thinking": [{"type": "text", "text": "hm"}]},
         {"type": "text", "text": "Hi"}, {"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "."}]}),
    "LiteLLM: the signed block repeats the text; redacted blocks stay apart":
        ([{"thinking_blocks": [{"type": "thinking", "thinking": "h", "signature": ""}], "reasoning_content": "h"},
         {"thinking_blocks": [{"type": "thinking", "thinking": "m", "signature": ""}], "reasoning_content": "m"},
         {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}], "reasoning_content": ""},
         {"thinking_blocks": [{"type": "redacted_thinking", "data": "eHg="}]},
         {"thinking_blocks": [{"type": "redacted_thinking", "data": "eXk="}]},
         {"thinking_blocks": [{"type": "thinking", "thinking": "so", "signature": "c2ln"}]}, {"content": "Hi"}],
         {"content": "Hi", "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
         {"type": "redacted_thinking", "data": "eHg="}, {"type": "redacted_thinking", "data": "eXk="},
         {"type": "thinking", "thinking": "so", "signature": "c2ln"}]}),
    "Portkey: redacted blocks; an empty text block is left out":
        ([{"content_blocks": [{"index": 0, "delta": {"thinking": ""}}, {"index": 1, "delta": {"data": "eHg="}}]},
         {"content_blocks": [{"index": 2, "delta": {"text": ""}}, {"index": 3, "delta": {"x": 1}}]}], {"content": "",
         "content_blocks": [{"type": "thinking", "thinking": ""}, {"type": "redacted_thinking", "data": "eHg="}, {"x": 1}]}),
    "Portkey: whole blocks":
        ([{"content_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "Hi"}],
         "content": "Hi"}], {"content": "Hi", "content_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
         {"type": "text", "text": "Hi"}]}),
    "TensorZero: thoughts and summaries in pieces by id; unknown blocks stay apart, also of one id":
        ([{"tensorzero_extra_content": [{"type": "thought", "insert_index": 0, "id": "0", "text": "h", "signature": None}]},
         {"tensorzero_extra_content": [{"type": "thought", "insert_index": 0, "id": "0", "text": "m", "signature": None}]},
         {"tensorzero_extra_content": [{"type": "thought", "insert_index": 0, "id": "0", "text": None, "signature": "c2ln"}]},
         {"tensorzero_extra_content": [{"type": "unknown", "insert_index": 1, "id": "1", "data": {"x": 1}}]},
         {"tensorzero_extra_content": [{"type": "unknown", "insert_index": 1, "id": "1", "data": {"x": 2}}]},
         {"tensorzero_extra_content": [{"type": "thought", "insert_index": 3, "id": "3", "text": "so", "summary_text": "s",
         "signature": None}]},
         {"tensorzero_extra_content": [{"type": "thought", "insert_index": 3, "id": "3", "text": None, "summary_text": "o"}]},
         {"content": "Hi"}], {"content": "Hi",
         "tensorzero_extra_content": [{"type": "thought", "insert_index": 0, "id": "0", "signature": "c2ln", "text": "hm"},
         {"type": "unknown", "insert_index": 1, "id": "1", "data": {"x": 1}},
         {"type": "unknown", "insert_index": 1, "id": "1", "data": {"x": 2}}, {"type": "thought", "insert_index": 3,
         "id": "3", "signature": None, "text": "so", "summary_text": "so"}]}),
    "LiteLLM: thought signatures add up":
        ([{"provider_specific_fields": {"thought_signatures": ["YQ=="], "x": 1}, "content": "H"},
         {"provider_specific_fields": {"thought_signatures": ["Yg=="], "x": None}, "content": "i"},
         {"provider_specific_fields": {"y": 2}}],
         {"content": "Hi", "provider_specific_fields": {"thought_signatures": ["YQ==", "Yg=="]}}),
    "LiteLLM: what Anthropic's own tools returned, and its summaries":
        ([{"provider_specific_fields": {"compaction_blocks": [{"type": "compaction", "content": "a"}]}},
         {"provider_specific_fields": {"compaction_blocks": [{"type": "compaction", "content": "ab"}],
         "compaction_delta": {"content": "b"}}}, {"provider_specific_fields": {"server_tool_calls": [{"id": "srvtoolu_1"}],
         "tool_results": [{"tool_use_id": "srvtoolu_1"}]}}, {"content": "Hi"}], {"content": "Hi",
         "provider_specific_fields": {"tool_results": [{"tool_use_id": "srvtoolu_1"}],
         "server_tool_calls": [{"id": "srvtoolu_1"}], "compaction_blocks": [{"type": "compaction", "content": "ab"}]}}),
    "an extra_content that is none": ([{"content": "Hi", "extra_content": "x"}], {"content": "Hi"}),
}  # fmt: skip


@each_case(("deltas", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_what_a_provider_needs_back(deltas: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    assert_goes_back(completion_of(*deltas).message, expected)


def test_a_text_that_was_changed_goes_back_in_place_of_the_parts() -> None:
    message = completion_of({"content": [{"type": "reference", "reference_ids": [1]}, "Hi"]}).message
    message.content = "Hello"
    assert message.to_param() == {"role": "assistant", "content": "Hello"}


def test_blocks_of_another_kind_in_a_message_are_left_out() -> None:
    message = ChatCompletionMessage.model_validate({"content_blocks": ["x", {"type": "text", "text": "a"}]})
    assert message.to_param()["content_blocks"] == [{"type": "text", "text": "a"}]


# A value of its own


def test_changing_it_does_not_change_the_message() -> None:
    message = completion_of(*RICH).message
    before, first = message.model_copy(deep=True), message.to_param()
    kept = deepcopy(first)
    first["extra_content"]["google"].clear()
    first["reasoning_details"][0].clear()
    first["tool_calls"][0]["extra_content"]["google"].clear()
    first["tool_calls"][0]["function"].clear()
    first["thinking_blocks"][0].clear()
    assert message == before
    assert message.to_param() == kept


def test_it_is_json_and_a_stored_message_gives_the_same() -> None:
    message = completion_of(*RICH).message
    param = message.to_param()
    assert json.loads(json.dumps(param)) == param
    assert_goes_back(message, param)


def test_a_whole_completion_gives_the_same() -> None:
    message = {"role": "assistant", "content": "Hi", "tool_calls": [call("{}", extra_content=SIGNATURE)]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    whole = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
    assert ChatCompletionStream([whole]).read().message.to_param() == message


def test_a_message_that_was_loaded_gives_its_calls_without_their_index() -> None:
    loaded = ChatCompletionMessage.model_validate({"tool_calls": [{"index": 0, "x": 1, **call("{}")}]})
    assert loaded.to_param()["tool_calls"] == [call("{}", x=1)]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content", "reasoning_text"])
def test_a_message_that_was_loaded_gives_its_reasoning(name: str) -> None:
    """In whichever field another client dumped it; what is sent back can be loaded again."""
    loaded = ChatCompletionMessage.model_validate({"content": "Hi", name: "hm"})
    assert (loaded.reasoning, [part.type for part in loaded.parts]) == ("hm", ["reasoning", "text"])
    assert loaded.model_fields_set - loaded.model_extra.keys() <= {"content", name}
    sent = loaded.to_param(reasoning_content=True)
    assert sent == {"role": "assistant", "content": "Hi", "reasoning_content": "hm"}
    assert ChatCompletionMessage.model_validate(sent).to_param(reasoning_content=True) == sent


def test_an_annotation_that_was_set_by_hand_is_no_document() -> None:
    message = ChatCompletionMessage.model_construct(content="Hi", annotations=[FILE])
    assert message.to_param() == {"role": "assistant", "content": "Hi"}
