"""Chunks and the message that other libraries' test suites want of them: the fold agrees, or a rule of ours says why not.

The cases are other people's and stand beside the repository (see `shared_data`). A case has what its suite asserts and,
where it asserts nothing, what joining strings gives. What a suite raises for its own reasons (a refusal, arguments of
two types) is no error here.
"""

import json
from copy import deepcopy
from typing import Any

from cases import each_case
from made_up_ids import MADE_UP, shown_id
from shared_data import shared_data

from chunkfold import ChatCompletion, ChatCompletionParser, StreamEnd
from chunkfold.testing import DONE, event

CASES = {case["name"]: case for case in json.loads(shared_data("conformance/fold.json").read_text("utf-8"))}

_MADE_UP = "tool calls, rule 5: a call that never got an id has one made up at the end"
_ONE_MADE_UP = {"tool_calls.0.id": (MADE_UP, _MADE_UP)}
_TWO_MADE_UP = {**_ONE_MADE_UP, "tool_calls.1.id": (MADE_UP, _MADE_UP)}
_USAGE = "usage: key by key, the last non-null value; a 0 never replaces a positive number; never summed"

# Where the fold gives something else: case -> place -> what it gives, and the rule of the fold that makes it so.
DIFFERENCES: dict[str, dict[str, tuple[Any, str]]] = {
    "test_stream_text": {"usage": ({"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}, _USAGE)},
    "test_stream_structured": _ONE_MADE_UP,
    "test_stream_structured_finish_reason": _ONE_MADE_UP,
    "test_stream_tool_call_with_empty_text": _ONE_MADE_UP,
    "test_stream_text_empty_think_tag_and_text_before_tool_call": _ONE_MADE_UP,
    "test_handle_tool_call_deltas":
        {"tool_calls": ([{"id": "call", "name": "tool", "arguments": '{"arg1":'},
         {"id": MADE_UP, "name": "1", "arguments": '"value1"}'}],
         "tool calls, rule 4: the call at that index has a name and arguments already, another name is a new call")},
    "test_handle_tool_call_deltas_without_args": _ONE_MADE_UP,
    "test_handle_tool_call_deltas_without_vendor_id/1": _ONE_MADE_UP,
    "test_handle_tool_call_deltas_without_vendor_id/2 repeated name": _TWO_MADE_UP,
    "test_apply_tool_delta_variants/str+str": _ONE_MADE_UP,
    "test_apply_tool_delta_variants/str+object": _ONE_MADE_UP,
    "test_apply_tool_delta_variants/object+str": _ONE_MADE_UP,
    "test_apply_tool_delta_variants/object+object":
        {**_ONE_MADE_UP, "tool_calls.0.arguments": ('{"a":1}{"b":2}',
         "`arguments` stays the raw text; an object is taken as its JSON text")},
    "test_get_model_from_chunks_azure_model_router":
        {"model": ("azure-model-router", "model: first value that is not empty")},
    "test_cache_read_input_tokens_retained":
        {"usage.prompt_tokens": (11779, _USAGE), "usage.total_tokens": (11993,
         "usage: a total that falls below prompt + completion by a merge becomes their sum")},
    "test_get_combined_tool_content_joins_many_dict_shaped_argument_fragments_in_order":
        {"tool_calls.2.arguments": ("", "`arguments` stays the raw text, and none came")},
    "test_stream_chunk_builder_survives_all_empty_choices":
        {"finish_reason": (None, "how a stream ends: never invent a finish_reason")},
    "test_sort_chunks / accepts_dict_snapshot_chunks":
        {"content": ("worldHello ", "content: append, in the order of arrival")},
    "merge_lists: text with same index joined, other index appended": _TWO_MADE_UP,
}  # fmt: skip


@each_case("name", CASES)
def test_fold(name: str) -> None:
    case = CASES[name]
    expected = deepcopy(case["expected"])
    for place, value in case.get("expected_extra", {}).items():  # more that the suite asserts
        put(expected, place, value)
    for place, (value, _) in DIFFERENCES.get(name, {}).items():
        assert put(expected, place, value) != value, f"{place} agrees after all"

    told = told_of(folded(case["chunks"]))
    assert {field: told[field] for field in expected} == expected


def test_the_table_names_cases() -> None:
    assert set(DIFFERENCES) <= set(CASES)


def folded(chunks: list[dict[str, Any]]) -> ChatCompletion:
    parser = ChatCompletionParser()
    for chunk in chunks:
        assert parser.feed(event(chunk))
    parser.feed(DONE)  # ids are made up at the end
    assert parser.end in (StreamEnd.FINISHED, StreamEnd.DONE, StreamEnd.EMPTY)
    return parser.snapshot


def told_of(completion: ChatCompletion) -> dict[str, Any]:
    """The completion in the words of the cases."""
    message = completion.message
    legacy_call = message.function_call
    return {
        "id": completion.id,
        "model": completion.model,
        "role": message.role,
        "content": message.content,
        "reasoning": message.reasoning,
        "refusal": message.refusal,
        "tool_calls": [
            {"id": shown_id(call.id), "name": call.name or None, "arguments": call.arguments}
            for call in message.tool_calls
        ],
        "function_call": legacy_call and legacy_call.model_dump(exclude_none=True),
        "finish_reason": completion.finish_reason,
        "usage": completion.usage and completion.usage.model_dump(exclude_unset=True),
    }


def put(fields: Any, place: str, value: Any) -> Any:
    """Set what stands at a place such as `tool_calls.0.id`; return what stood there, None if nothing did."""
    *path, last = (int(part) if part.isdigit() else part for part in place.split("."))
    for part in path:
        fields = fields[part]
    before = fields.get(last) if isinstance(fields, dict) else fields[last]
    fields[last] = value
    return before
