"""What OpenAI-compatible providers really send, quirk by quirk: each has a body here, or names its tests.

A case says all that must come of its body: the end, the text, the rules that are noted and no others, the error, and
whatever else the quirk is about. Every body is read whole and in pieces.
"""

import ast
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cases import each_case

from chunkfold import (
    APIError,
    ChatCompletionParser,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
)
from chunkfold.testing import DONE, HEAD, cut, event
from chunkfold.testing.wire import compact_json

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """A body, and what must come of it.

    Attributes:
        name: What it shows.
        rules: The ids of the rules that are noted, blanks between them.
        has: What the snapshot has, by path; what the error has, by a path that begins with `error.`.
    """

    name: str
    body: bytes
    text: str = "Hi"
    end: str = "finished"
    rules: str = ""
    has: dict[str, Any] = field(default_factory=dict)


ERRORS: dict[str, type[ChunkfoldError]] = {
    "truncated": IncompleteStreamError,
    "failed": APIError,
    "invalid": InvalidChunkError,
}


# Bodies


def head(**fields: Any) -> dict[str, Any]:
    """A chunk without choices."""
    return {**HEAD, "choices": [], **fields}


def chunk(delta: Any, finish_reason: str | None = None, **choice: Any) -> dict[str, Any]:
    return head(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason, **choice}])


def stream(*payloads: Any) -> bytes:
    """The payloads, a finish reason and `[DONE]`."""
    return b"".join(map(event, [*payloads, STOP_CHUNK])) + DONE


HI_DELTA = {"role": "assistant", "content": "Hi"}
HI_CHUNK = chunk(HI_DELTA)
STOP_CHUNK = chunk({}, "stop")
HI, STOP = event(HI_CHUNK), event(STOP_CHUNK)
IN_LINES = event(json.dumps(HI_CHUNK, indent=1))
CLEAN = HI + STOP + DONE


def deltas(*several: Any) -> bytes:
    """A whole stream of chunks with a delta each."""
    return stream(*map(chunk, several))


def failing(name: str, payload: Any, rules: str = "", **has: Any) -> Case:
    """An error after text."""
    body = HI + (payload if isinstance(payload, bytes) else event(payload))
    return Case(name, body, end="failed", rules=rules, has={f"error.{key}": has[key] for key in has})


USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
HAS_USAGE = {"usage.prompt_tokens": 5, "usage.completion_tokens": 2, "usage.total_tokens": 7}
COMPLETION = {
    **head(object="chat.completion", usage=USAGE),
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
}


QUIRKS: dict[str, list[Case | str]] = {
    "framing and transport": [
        "tests/parser/test_parser.py::test_what_is_never_an_anomaly",
        "tests/wire/test_payload.py::test_what_is_skipped_and_noted",
        "tests/wire/test_payload.py::test_json_that_is_no_object_is_refused",
        "tests/wire/test_payload.py::test_an_event_of_any_name_may_be_a_chunk",
        "tests/wire/test_payload.py::test_an_event_of_any_name_may_be_an_error",
        Case("no blank", HI + b"data::\n\n" + STOP + DONE, rules="CF104"),
        Case("only one byte order mark", b"\xef\xbb\xbf\xef\xbb\xbf" + CLEAN, text="", rules="CF110"),
        "tests/parser/test_parser.py::test_an_event_stream_is_known_by_its_body",
        "tests/wire/test_payload.py::test_repairs",
        "tests/wire/test_payload.py::test_strict_mode_names_the_repair",
        Case("no blank line", HI + STOP.rstrip() + b"\n", rules="CF101 CF501"),
        Case("no line end", HI + STOP.rstrip(), rules="CF101 CF501"),
        Case("a cut event behind the finish reason", HI + STOP + b'data: {"usage":{"prom', rules="CF101 CF501"),
        failing("an error is read", b'data: {"error":{"message":"m"}}', "CF101", message="m"),
        Case("whole lines before a cut one", HI.rstrip() + b"\n" + STOP[:-20], end="truncated", rules="CF101"),
        "tests/parser/test_parser.py::test_an_unfinished_last_block",
        Case("no blank lines", CLEAN.replace(b"\n\n", b"\n") + b"\n", rules="CF102"),
        Case("and none at the end", CLEAN.replace(b"\n\n", b"\n"), rules="CF101 CF102"),
        Case("up to what is invalid", HI.rstrip() + b"\ndata: oops\n" + STOP + DONE, end="invalid", rules="CF102"),
        Case("up to an error", HI.rstrip() + b'\ndata: {"error":"m"}\n' + STOP, end="failed", rules="CF102 CF603"),
        Case("no blank line after a comment in data", b"data: : ping\n" + CLEAN, rules="CF102 CF104"),
        Case("nor after a named event that is text", b"event: ping\ndata: ping\n" + CLEAN, rules="CF102 CF106"),
        Case("nor after a null", b"data: null\n" + CLEAN, rules="CF102 CF105"),
        Case("nor after several", b"data:\ndata: : ping\ndata: null\n" + CLEAN, rules="CF102 CF104 CF105"),
        Case("nor after many", b"data: : ping\n" * 20_000 + CLEAN, rules="CF102 CF104"),
        Case("nor before a doubled prefix", b"data: : ping\ndata: " + CLEAN, rules="CF102 CF104 CF111"),
        Case("nor within one", b"data: data: : ping\ndata: " + CLEAN, rules="CF102 CF104 CF111"),
        Case(
            "nor before an event in several lines", b"data: null\n" + IN_LINES + CLEAN, text="HiHi", rules="CF102 CF105"
        ),
        Case("a comment and blank data", b"data: : ping\ndata:\n\n" + CLEAN, rules="CF104"),
        Case("blank data alone", b"data:\n" + HI.replace(b"data:", b"data: data:") + STOP + DONE, rules="CF111"),
        Case("nor before the end, after a named event", HI + STOP + b"event: a\ndata: b\n" + DONE, rules="CF102 CF106"),
        Case(
            "nor after a comment, at the end",
            b"data: : ping\n" + HI.rstrip() + b"\n" + STOP[:-1],
            rules="CF101 CF102 CF104 CF501",
        ),
        Case(
            "nor within a doubled prefix that is cut",
            HI + STOP + b"data: data: : ping\ndata: data: " + b'{"choices":[',
            rules="CF101 CF104 CF111 CF501",
        ),
        failing("a text that begins like null is read", b"event: error\ndata: nul", "CF101 CF601", message="nul"),
        Case("nothing but keep-alives", b"data: null\ndata: : ping\ndata: null\n\n" + CLEAN, rules="CF102 CF104 CF105"),
        Case(
            "nor between a named event, a doubled prefix and a null",
            b"event: ping\ndata: ping\ndata: " + HI.rstrip() + b"\ndata: null\n\n" + STOP + DONE,
            rules="CF102 CF105 CF106 CF111",
        ),
        Case(
            "nor before a cut event",
            b"data: : ping\n" + HI.rstrip() + b"\n" + STOP[:-20],
            end="truncated",
            rules="CF101 CF102 CF104",
        ),
        Case(
            "no blank line before an event named error",
            HI.rstrip() + b'\nevent: error\ndata: {"message":"m","code":429}\n\n',
            end="failed",
            rules="CF102 CF601",
            has={"error.message": "m", "error.status_code": 429},
        ),
        Case(
            "nor after a keep-alive before it",
            HI + b'data: : ping\nevent: error\ndata: {"message":"m","code":429}\n\n',
            end="failed",
            rules="CF102 CF104 CF601",
            has={"error.message": "m", "error.status_code": 429},
        ),
        Case("nor text", HI.rstrip() + b"\nevent: error\ndata: m\n\n", end="failed", rules="CF102 CF601"),
        Case("nor after [DONE]", HI + STOP + DONE.rstrip() + b"\nevent: error\ndata: m\n\n", rules="CF102 CF601"),
        "tests/wire/test_payload.py::test_several_payloads_in_one_block",
        "tests/parser/test_parser.py::test_max_event_size_counts_an_events_data",
        "tests/promises/test_promises.py::test_ten_times_the_body_costs_ten_times_as_much",
        Case("a whole completion", compact_json(COMPLETION), rules="CF109", has=HAS_USAGE),
        Case("MiniMax", b'{"base_resp":{"status_code":1002},"choices":null}', "", "failed", "CF607 CF605"),
        "tests/parser/test_parser.py::test_bodies_that_are_no_event_stream",
        "tests/parser/test_parser.py::test_the_error_quotes_the_beginning_of_a_foreign_body",
        "tests/parser/test_parser.py::test_ends",
        "tests/parser/test_parser.py::test_a_late_fault_is_an_anomaly",
        "tests/parser/test_parser.py::test_done",
        "tests/stream/test_connect.py::test_a_body_that_stays_open_after_done_holds_nobody",
        "tests/stream/test_connect.py::test_streams_one_after_the_other_use_one_connection",
        "tests/stream/test_connect.py::test_keep_alives_after_done_hold_nobody",
        "tests/stream/test_stream.py::test_only_http_1_1_is_drained",
        "tests/stream/test_transport_faults.py::test_a_fault_while_the_answer_comes",
        "tests/parser/test_parser.py::test_a_status_that_is_not_2xx",
        "tests/stream/test_stream.py::test_a_status_that_is_not_2xx",
        "tests/stream/test_stream.py::test_a_large_body_of_a_refusal_is_not_read_to_its_end",
    ],
    "errors after 200": [
        "tests/wire/test_envelopes.py::test_recognised_wherever_it_comes",
        "tests/wire/test_envelopes.py::test_each_shape_is_noted",
        "tests/wire/test_envelopes.py::test_text_beside_an_error_counts",
        Case(
            "and so does usage",
            HI + event(head(usage=USAGE, error={"code": 502, "message": "m"})),
            end="failed",
            has={"error.message": "m", **HAS_USAGE},
        ),
        Case(
            "also Groq's",
            HI + event(head(x_groq={"id": "r", "error": "m", "usage": USAGE})),
            end="failed",
            rules="CF608",
            has={"error.message": "m", **HAS_USAGE},
        ),
        failing("a list", {"error": ["a", "b"]}, "CF603", message="a; b"),
        "tests/wire/test_envelopes.py::test_status",
        "tests/wire/test_envelopes.py::test_no_error",
        "tests/wire/test_envelopes.py::test_an_empty_error",
    ],
    "the shape of a chunk": [
        Case(
            "Azure's first chunk",
            event(head(id="", object="", created=0, model="", prompt_filter_results=[{"prompt_index": 0}])) + CLEAN,
            has={
                "id": HEAD["id"],
                "model": HEAD["model"],
                "model_extra": {"prompt_filter_results": [{"prompt_index": 0}]},
            },
        ),
        "tests/fold/test_accumulator.py::test_no_delta_is_an_empty_one",
        "tests/fold/test_accumulator.py::test_no_choices_are_an_empty_list",
        "tests/fold/test_accumulator.py::test_first_that_is_not_empty",
        "tests/fold/test_accumulator.py::test_role",
        "tests/fold/test_accumulator.py::test_finish_reason_is_the_last_that_is_not_empty",
        "tests/fold/test_accumulator.py::test_object_decides_nothing",
        "tests/fold/test_accumulator.py::test_a_message_is_the_content_only_where_no_delta_was",
        "tests/fold/test_accumulator.py::test_a_message_fills_gaps",
        "tests/fold/test_accumulator.py::test_reasoning_is_taken_once_from_the_first_spelling",
        "tests/fold/test_accumulator.py::test_the_raw_fields_stay_beside_it",
        "tests/fold/test_accumulator.py::test_reasoning_details",
        "tests/fold/test_tool_calls.py::test_a_thought_signature_stays_on_its_call",
        "tests/fold/test_accumulator.py::test_where_usage_stands_is_no_anomaly",
        "tests/fold/test_accumulator.py::test_usage",
        "tests/models/test_models.py::test_outcome",
        "tests/fold/test_accumulator.py::test_each_choice_has_a_message_of_its_own",
        "tests/test_transforms.py::test_one_message_of_several_choices",
        "tests/fold/test_accumulator.py::test_lists_extend",
        "tests/fold/test_accumulator.py::test_unknown_keys_are_kept_where_they_came_the_last_not_null",
        "tests/fold/test_accumulator.py::test_obfuscation_stays_on_the_chunk",
        "tests/fold/test_accumulator.py::test_appended",
        "tests/wire/test_payload.py::test_halves_are_joined",
        Case("cumulative deltas, off by default", deltas(*({"content": text} for text in ("a", "ab"))), text="aab"),
        "tests/test_transforms.py::test_real_deltas_come_of_cumulative_ones",
        Case("think tags, off by default", deltas({"content": "<think>hm</think>Hi"}), text="<think>hm</think>Hi"),
        "tests/test_transforms.py::test_what_think_tags_make_of_a_text_does_not_depend_on_the_cuts",
        "tests/wire/test_payload.py::test_no_numbers_are_values",
        "tests/wire/test_payload.py::test_a_deeper_one_is_dropped_and_nothing_else",
        "tests/wire/test_payload.py::test_an_event_may_be_500_deep",
        "tests/wire/test_payload.py::test_numbers_that_no_interpreter_reads",
    ],
    "folding and tool calls": [
        "tests/fold/test_tool_calls.py::test_rules",
        "tests/fold/test_tool_calls.py::test_several_fragments_in_one_delta_follow_the_same_rules",
        "tests/fold/test_tool_calls.py::test_an_index_is_a_key_and_never_a_position",
        "tests/fold/test_tool_calls.py::test_empty_counts_as_absent",
        "tests/fold/test_tool_calls.py::test_an_empty_id_is_none_to_be_known_by",
        "tests/fold/test_tool_calls.py::test_numbers_are_read_as_text",
        "tests/fold/test_tool_calls.py::test_names",
        "tests/fold/test_tool_calls.py::test_arguments",
        "tests/fold/test_tool_calls.py::test_several_objects_in_one_call_are_noted",
        "tests/fold/test_tool_calls.py::test_stop_beside_calls_that_the_server_ran_means_stop",
        "tests/parser/test_parser.py::test_nothing_is_invented",
        "tests/fold/test_accumulator.py::test_choices_are_told_apart_by_their_index_and_come_out_by_it",
        "tests/fold/test_accumulator.py::test_audio",
        "tests/fold/test_accumulator.py::test_function_call",
    ],
    "time, lifetime, concurrency": [
        "tests/stream/test_stream.py::test_a_read_timeout_is_an_interruption",
        "tests/parser/test_time.py::test_deadlines",
        "tests/stream/test_stream.py::test_a_stall_hidden_by_keep_alives",
        "tests/test_errors.py::test_nothing_is_retryable_after_output_unless_the_caller_says_so",
        "tests/stream/test_stream.py::test_every_way_out_closes",
        "tests/stream/test_consumers.py::test_leaving_after_some_items",
        "tests/stream/test_consumers.py::test_closing_from_another_task_ends_the_loop",
        "tests/stream/test_stream.py::test_closing_from_another_task_while_a_generator_runs",
        "tests/stream/test_consumers.py::test_cancelled_anywhere",
        "tests/stream/test_consumers.py::test_a_failure_beside_the_stream_cancels_it",
        "tests/stream/test_stream.py::test_any_response_with_these_methods",
        "tests/test_errors.py::test_transport_errors",
        "tests/test_errors.py::test_no_client_is_loaded_for_it",
        "tests/wire/test_payload.py::test_another_api_is_named",
        Case(
            "a text beside a delta",
            stream(chunk({"content": "Hi"}, text="Hi")),
            has={"choices.0.model_extra": {"text": "Hi"}},
        ),
    ],
}


CASES = [
    pytest.param(case, id=f"{section}: {case.name}")
    for section, cases in QUIRKS.items()
    for case in cases
    if isinstance(case, Case)
]


def read(case: Case, size: int) -> ChatCompletionParser:
    parser = ChatCompletionParser()
    texts = [one.text for piece in cut(case.body, *range(size, len(case.body), size)) for one in parser.feed(piece)]
    texts += [one.text for one in parser.close()]
    assert "".join(texts) == parser.snapshot.text
    return parser


def look(parser: ChatCompletionParser, path: str) -> Any:
    """What stands at a path."""
    value: Any = parser if path.startswith("error.") else parser.snapshot
    for name in path.split("."):
        if isinstance(value, dict):
            value = value[name]
        elif name.isdigit():
            value = value[int(name)]
        else:
            value = getattr(value, name)
    return value


@each_case("case", CASES)
@each_case("size", [None, 1], ids=["whole", "in pieces"])
def test_quirk(case: Case, size: int | None) -> None:
    if size is None or len(case.body) > 10_000:  # byte by byte, a large body would show no more but take long
        size = 997 if size else len(case.body)
    parser = read(case, size)
    assert (parser.end, type(parser.error)) == (case.end, ERRORS.get(case.end, type(None)))
    assert parser.snapshot.text == case.text
    assert sorted(anomaly.rule.id for anomaly in parser.anomalies) == sorted(case.rules.split())
    assert {path: look(parser, path) for path in case.has} == case.has


# Tests that are named exist


@cache
def functions_of(path: str) -> frozenset[str]:
    """The test functions of a module."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


NAMED = sorted({case for cases in QUIRKS.values() for case in cases if isinstance(case, str)})


@each_case("name", NAMED)
def test_a_test_that_is_named_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert function.startswith("test_")
    assert function in functions_of(path)
