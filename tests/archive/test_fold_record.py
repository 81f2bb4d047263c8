"""`fold_record`: one record, one row. What it says is compared with what `chunkfold fold --json` prints of the same file."""

import gzip
import json
import math
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from cases import each_case
from doc_blocks import tables_of, text_of
from hypothesis import given
from hypothesis import strategies as st
from made_recordings import CUT, EVERY, WHOLE, recording
from made_streams import ERROR, STOP
from measured_memory import traced
from own_process import loaded_by
from shared_data import shared_data

from chunkfold import StreamEnd
from chunkfold.archive import FoldedRecord, arrow_schema, fold_record
from chunkfold.recording import Recording, replay
from chunkfold.testing import DONE, chunk, delta, event

CALLS = [{"choice": int, "id": str, "type": str, "name": str, "arguments": str}]
COLUMNS: dict[str, Any] = {
    "size": int,
    "url": str,
    "ending": str,
    "complete": bool,
    "error_type": str,
    "error": str,
    "error_status": int,
    "error_code": str,
    "error_retryable": bool,
    "anomalies": [{"rule": str, "count": int}],
    "id": str,
    "model": str,
    "created": int,
    "choices": [int],
    "finish_reasons": [str],
    "outcomes": [str],
    "texts": [str],
    "reasonings": [str],
    "refusals": [str],
    "tool_calls": CALLS,
    **dict.fromkeys(["prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "reasoning_tokens"], int),
    **dict.fromkeys(["seconds", "headers_seconds", "first_byte_seconds", "first_chunk_seconds"], float),
    **dict.fromkeys(["first_output_seconds", "last_chunk_seconds", "last_byte_seconds"], float),
    "gaps": int,
    **dict.fromkeys(["gap_p50_seconds", "gap_p95_seconds", "gap_longest_seconds", "tokens_per_second"], float),
}
NEVER_NONE = {"size", "complete"}  # nor is a list, nor what is counted of an anomaly


def function(index: int, **fields: Any) -> dict[str, Any]:
    return {"index": index, "id": f"call_{index}", "type": "function", "function": fields}


CUSTOM = {"index": 1, "id": "call_c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
HI = delta(role="assistant", content="Hi")
RECORDS: dict[str, bytes] = {
    **{name: one.dumps() for name, one in EVERY.items()},
    "a plain body": HI + STOP + chunk(usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}) + DONE,
    "a plain body that was cut": HI,
    "nothing": b"",
    "done": HI + DONE,
    "an error behind a text": HI + ERROR,
    "another body": b"<html>busy</html>",
    "an event that is no chunk": HI + b"data: nonsense\n\n",
    "interrupted": CUT.dumps(),
    "left": recording((0.2, HI), end="left").dumps(),
    "left when it had finished": recording((0.2, HI + STOP), end="left").dumps(),
    "refused": recording((0.2, b'{"error": {"message": "no", "code": "bad_key"}}'), status_code=401).dumps(),
    "two choices and a gap": delta("stop", content="a") + delta("length", 2, content="b", refusal="no") + DONE,
    "tool calls": delta(tool_calls=[function(0, name="add", arguments='{"a":1}'), CUSTOM]) + delta("tool_calls"),
    "a call without a name": delta(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]) + delta("tool_calls"),
    "usage with details": HI
    + STOP
    + chunk(usage={"prompt_tokens_details": {"cached_tokens": 7}, "completion_tokens_details": {"reasoning_tokens": 5}}),
    "values of a wrong type": event(
        {"id": 5, "model": ["m"], "created": "now", "choices": [{"delta": {"content": "a", "refusal": 5}}], "usage": [1]}
    ),
    "counts of a wrong type": HI + STOP + chunk(usage={"prompt_tokens": "many", "total_tokens": [1], "prompt_tokens_details": [1]}),
    "a recording that is damaged": CUT.dumps().replace(b'"end"', b'"and'),
    "a recording of a newer version": b'{"chunkfold_recording":9}\n',
    "a recording of a wrong status": b'{"chunkfold_recording":1,"status":"200"}\n',
    "zeros": bytes(1000),
    "not UTF-8": b"data: \xff\xfe\n\n",
}  # fmt: skip


def called(choice: int, id_: str | None, kind: str, name: str, arguments: str) -> dict[str, Any]:
    return {"choice": choice, "id": id_, "type": kind, "name": name, "arguments": arguments}


def rows_of_the_command(folder: Path) -> dict[str, dict[str, Any]]:
    """What `chunkfold fold --json` prints of a folder, by the names of the files."""
    command = [sys.executable, "-c", "import chunkfold.cli; chunkfold.cli.main()", "fold", "--json", str(folder)]
    run = subprocess.run(command, capture_output=True, check=False, timeout=60)
    lines = map(json.loads, run.stdout.decode().splitlines())
    return {Path(line["file"]).name: line for line in lines}


@pytest.fixture(scope="module")
def of_the_command(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    pytest.importorskip("click")
    pytest.importorskip("rich")
    folder = tmp_path_factory.mktemp("records")
    for name, data in RECORDS.items():
        (folder / name).write_bytes(data)
    return rows_of_the_command(folder)


def as_columns(line: dict[str, Any]) -> dict[str, Any]:
    """Those columns that the command's JSON has, too."""
    error = line["error"] or dict.fromkeys(("type", "message", "status_code", "code"))
    whole = line["completion"] or line["snapshot"] or {}
    choices = whole.get("choices", [])
    messages = [one["message"] for one in choices]
    sent = whole.get("usage") if isinstance(whole.get("usage"), dict) else {}
    return {
        "ending": line["end"],
        "complete": line["completion"] is not None,
        "error_type": error["type"],
        "error": error["message"],
        "error_status": error["status_code"],
        "error_code": error["code"] and str(error["code"]),
        "anomalies": [{"rule": rule, "count": count} for rule, count in line["anomalies"].items()],
        **{name: known(whole.get(name), kind) for name, kind in (("id", str), ("model", str), ("created", int))},
        "choices": [one["index"] for one in choices],
        "finish_reasons": [one["finish_reason"] for one in choices],
        "texts": [known(message["content"], str) for message in messages],
        "reasonings": [known(message["reasoning"], str) for message in messages],
        "refusals": [known(message["refusal"], str) for message in messages],
        "tool_calls": [call for one in choices for call in calls_of(one)],
        **{f"{name}_tokens": known(sent.get(f"{name}_tokens"), int) for name in ("prompt", "completion", "total")},
    }


def known(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def calls_of(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for call in one["message"]["tool_calls"]:
        told = call[call["type"]]
        arguments = told["input" if call["type"] == "custom" else "arguments"]
        yield called(one["index"], call["id"], call["type"], told["name"], arguments)
    if legacy := one["message"]["function_call"]:
        yield called(one["index"], None, "function_call", **legacy)


def subset(row: FoldedRecord, columns: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in columns}


def assert_has_the_columns(row: Any) -> None:
    assert type(row) is dict
    assert list(row) == list(COLUMNS)
    for name, value in row.items():
        assert value is not None or (name not in NEVER_NONE and type(COLUMNS[name]) is not list), name
        assert_is_of(value, COLUMNS[name], name)


def assert_is_of(value: Any, kind: Any, name: str) -> None:
    """Exactly of the type: engines that infer one look at no classes above it."""
    if isinstance(kind, list):
        assert type(value) is list, name
        for item in value:
            assert_is_of(item, kind[0], name)
    elif isinstance(kind, dict):
        assert list(value) == list(kind), name
        for key, inner in value.items():
            assert_is_of(inner, kind[key], f"{name}.{key}")
    elif value is not None:
        assert type(value) is kind, name
    if type(value) is str:
        value.encode()  # half a character would stop an engine
    if type(value) is int:
        assert -(2**63) <= value < 2**63, name
    if type(value) is float:
        assert math.isfinite(value), name


# Equal to the command


@each_case("name", RECORDS)
def test_a_row_says_what_the_command_says(name: str, of_the_command: dict[str, dict[str, Any]]) -> None:
    expected = as_columns(of_the_command[name])
    assert subset(fold_record(RECORDS[name]), expected) == expected


@pytest.mark.slow
def test_recorded_streams_of_providers_are_a_row_each_as_the_command_says() -> None:
    pytest.importorskip("click")
    pytest.importorskip("rich")
    folder = shared_data("recordings")
    of_the_command = rows_of_the_command(folder)
    paths = sorted(folder.glob("*.sse"))
    assert paths
    for path in paths:
        row = fold_record(path.read_bytes())
        assert_has_the_columns(row)
        assert row["ending"] is not None
        expected = as_columns(of_the_command[path.name])
        assert subset(row, expected) == expected, path.name


def test_every_ending_that_a_recording_can_have_is_among_the_cases() -> None:
    endings = {fold_record(data)["ending"] for data in RECORDS.values()}
    assert endings == {None, *StreamEnd}


# The columns


@each_case("name", RECORDS)
def test_the_columns_and_their_types_are_the_same_for_every_record(name: str) -> None:
    assert_has_the_columns(fold_record(RECORDS[name]))


@given(st.data())
def test_whatever_stands_in_a_record_it_is_a_row(data: st.DataObject) -> None:
    record = bytearray(data.draw(st.sampled_from(sorted(RECORDS.values()))))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(record)))
        end = data.draw(st.integers(start, min(start + 20, len(record))))
        record[start:end] = data.draw(st.binary(max_size=8) | st.sampled_from([b"null", b"\\ud800", b"9" * 25, b"[]"]))
    assert_has_the_columns(fold_record(bytes(record)))


def test_the_types_of_a_row_are_those_of_its_columns() -> None:
    assert {name: kind_of(hint) for name, hint in get_type_hints(FoldedRecord).items()} == COLUMNS


def kind_of(hint: Any) -> Any:
    if get_origin(hint) is list:
        return [kind_of(*get_args(hint))]
    if is_typeddict(hint):
        return {name: kind_of(inner) for name, inner in get_type_hints(hint).items()}
    return (get_args(hint) or (hint,))[0]


def test_the_page_lists_the_columns_in_their_order() -> None:
    rows = tables_of(text_of("docs/scale.md"), "column", "type", "content")
    told = {column.strip("`"): kind for column, kind, _ in rows}
    assert list(told) == list(COLUMNS) == list(FoldedRecord.__annotations__)
    words = {str: ("text",), int: ("integer",), float: ("seconds", "number"), bool: ("yes or no",)}
    for name, kind in COLUMNS.items():
        assert told[name].startswith("list of" if isinstance(kind, list) else words[kind])


STANDS: dict[str, dict[str, Any]] = {  # the record, and what stands in columns that the command's JSON does not have
    "whole": {"outcomes": ["tool_calls"], "url": "https://api.example.com/v1/chat/completions", "size": len(WHOLE.dumps())},
    "two choices and a gap": {"outcomes": ["stop", "length"], "error_retryable": None},
    "a plain body that was cut": {"texts": ["Hi"], "error_retryable": True},  # nothing was shown that would come twice
    "nothing": {"texts": [], "error_retryable": True},
    "refused": {"error_status": 401, "error_retryable": False},
    "left": {"ending": "closed", "error_retryable": None},
    "a recording that is damaged": {"ending": None, "error_retryable": None},
    "usage with details": {"cached_tokens": 7, "reasoning_tokens": 5},
    "values of a wrong type": {"outcomes": [None]},
    "hostile": {"outcomes": ["other", None]},
}  # fmt: skip


@each_case("name", STANDS)
def test_what_came_stands_in_its_column(name: str) -> None:
    assert subset(fold_record(RECORDS[name]), STANDS[name]) == STANDS[name]


def test_times_are_those_of_a_replay() -> None:
    data = WHOLE.dumps()
    row, timing = fold_record(data), replay(Recording.loads(data)).timing
    assert row["seconds"] == 2.0
    for name in ("headers", "first_byte", "first_chunk", "first_output", "last_chunk", "last_byte"):
        assert row[f"{name}_seconds"] == getattr(timing, name) is not None
    assert timing.gaps is not None
    gaps = (timing.gaps.count, timing.gaps.p50, timing.gaps.p95, timing.gaps.longest)
    assert (row["gaps"], row["gap_p50_seconds"], row["gap_p95_seconds"], row["gap_longest_seconds"]) == gaps
    assert row["tokens_per_second"] == timing.tokens_per_second(28) is not None


def test_a_plain_body_has_no_times() -> None:
    row: dict[str, Any] = dict(fold_record(WHOLE.body))
    assert {
        name: row[name] for name in row if "seconds" in name or name in ("gaps", "tokens_per_second")
    } == dict.fromkeys(list(COLUMNS)[-12:])
    assert row["texts"] == ["One moment, please."]
    assert row["tokens_per_second"] is row["url"] is None


# Values that no column can hold


def test_a_number_beyond_64_bits_is_not_known() -> None:
    spent = chunk(usage={"prompt_tokens": 2**63, "completion_tokens": 2**63 - 1, "total_tokens": -(2**63)})
    row = fold_record(HI + STOP + spent + DONE)
    assert (row["prompt_tokens"], row["completion_tokens"], row["total_tokens"]) == (None, 2**63 - 1, -(2**63))
    row = fold_record(chunk({"index": 2**63, "delta": {"content": "Hi"}}, created=2**63) + STOP + DONE)
    assert (row["created"], row["choices"], row["texts"]) == (None, [0, None], [None, "Hi"])


def test_half_a_character_becomes_the_replacement_character() -> None:
    url = WHOLE.dumps().replace(b"https://api", b"https://\\ud800")
    assert fold_record(url)["url"] == "https://\N{REPLACEMENT CHARACTER}.example.com/v1/chat/completions"


# Bad records


@each_case("name", [name for name in RECORDS if name.startswith("a recording ")])
def test_a_record_that_cannot_be_read_is_a_row_of_its_error_alone(name: str) -> None:
    row = fold_record(RECORDS[name])
    told = {key: value for key, value in row.items() if value not in (None, [], False)}
    assert (list(told), row["size"]) == (["size", "error_type", "error"], len(RECORDS[name]))


def test_a_record_that_is_too_large_is_a_row() -> None:
    data = WHOLE.dumps()
    row = fold_record(data, max_size=len(data) - 1)
    assert (row["ending"], row["error_type"], row["size"]) == (None, "LimitExceededError", len(data))
    assert f"at most {len(data) - 1} bytes" in (row["error"] or "")
    assert_has_the_columns(row)
    assert fold_record(data, max_size=len(data)) == fold_record(data, max_size=None) == fold_record(data)


def test_what_is_not_read_by_default_is_larger_than_64_MiB() -> None:  # noqa: N802 - the unit's name
    assert "(max_size)" not in (fold_record(bytes(2**26))["error"] or "")
    assert "at most 67108864 bytes, received more (max_size)" in (fold_record(bytes(2**26 + 1))["error"] or "")


def test_a_record_may_be_gzipped() -> None:
    for data in (WHOLE.dumps(), WHOLE.body):
        packed = gzip.compress(data)
        assert fold_record(packed) == {**fold_record(data), "size": len(packed)}
        assert fold_record(packed, max_size=len(data)) == fold_record(packed, max_size=None) == fold_record(packed)
        assert "(max_size)" in (fold_record(packed, max_size=len(data) - 1)["error"] or "")
    assert fold_record(gzip.compress(HI)[:-10])["error"] == "gzip: the data ends too early"


def test_what_a_gzipped_record_expands_to_is_not_kept_beyond_the_limit() -> None:
    packed = gzip.compress(bytes(2**25))
    with traced() as memory:
        assert "(max_size)" in (fold_record(packed, max_size=2**20)["error"] or "")
    assert memory.peak < 2**22


@each_case(
    ("limit", "least", "most", "text"),
    [("max_event_size", 1000, 1500, "Hi"), ("max_output_size", 250, 1002, "Hi" + "x" * 1000)],
)
def test_what_is_larger_than_a_limit_ends_the_stream(limit: str, least: int, most: int, text: str) -> None:
    body = HI + delta(content="x" * 1000) + STOP + DONE
    options: dict[str, Any] = {limit: least}
    row = fold_record(body, **options)
    assert (row["ending"], row["error_type"], row["texts"]) == ("invalid", "LimitExceededError", [text])
    for enough in (most, None):
        assert fold_record(body, **{limit: enough})["ending"] == "finished"


def many_choices(count: int) -> bytes:
    """As many choices, an event each: what is kept of them is many times as large."""
    return b"".join(b'data:{"choices":[{"index":%d}]}\n\n' % index for index in range(count))


def objects(count: int) -> bytes:
    return b'data:{"choices":[' + b"{}," * count + b"{}]}\n\n"


@pytest.mark.slow
def test_many_small_parts_take_no_more_memory_than_the_output_may() -> None:
    body = many_choices(30_000)
    with traced() as memory:
        row = fold_record(body, max_output_size=2**16)
    assert row["error_type"] == "LimitExceededError"
    assert memory.peak < 30 * len(body)  # 65 without the limit
    assert len(row["choices"]) > 1000


@pytest.mark.slow
def test_one_event_takes_500_times_its_size_at_worst() -> None:
    """The factor that the page reckons with, for what was found to be the worst."""
    for body, factor in ((objects(9_000), 500), (many_choices(4_000), 80)):  # 76 on Python 3.15
        with traced() as memory:
            fold_record(body)
        assert factor / 3 < memory.peak / len(body) < factor


@pytest.mark.parametrize(
    ("error", "said"),
    [(MemoryError(), "out of memory"), (RecursionError("too deep"), "too deep"), (KeyError("x"), "'x'")],
    ids=["memory", "depth", "a bug"],
)
def test_what_should_never_happen_is_a_row_too(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("chunkfold.archive.folding.replay", fail)
    row = fold_record(WHOLE.dumps())
    assert (row["error_type"], row["error"]) == (type(error).__name__, said)
    assert_has_the_columns(row)


@pytest.mark.parametrize("wrong", ["a text", None, 5, [b"a"], Path("file")], ids=repr)
def test_an_argument_that_is_no_bytes_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^data: expected bytes, received {type(wrong).__name__}$"):
        fold_record(wrong)


# In an engine


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_kinds_of_bytes(kind: Callable[[bytes], Any]) -> None:
    given = kind(WHOLE.dumps())
    assert fold_record(given) == fold_record(WHOLE.dumps())
    assert bytes(given) == WHOLE.dumps()


def test_nothing_is_left_of_a_call() -> None:
    data = WHOLE.dumps()
    first = fold_record(data)
    copy = deepcopy(first)
    for value in first.values():
        if isinstance(value, list):
            value.clear()
    assert fold_record(data) == copy


def test_it_is_pickled_by_its_name_and_runs_in_another_process() -> None:
    assert pickle.loads(pickle.dumps(fold_record)) is fold_record  # noqa: S301 - our own
    records = [RECORDS[name] for name in ("a plain body", "interrupted", "a recording that is damaged")]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(fold_record, records)) == list(map(fold_record, records))


def test_it_loads_what_it_needs_and_nothing_else() -> None:
    loaded = loaded_by("from chunkfold.archive import fold_record; fold_record(b'')")
    packages = {name.partition(".")[0] for name in loaded}
    assert "pydantic" in packages
    assert packages.isdisjoint({"click", "rich", "httpx", "httpx2", "pyarrow", "asyncio"})


# Arrow


def test_without_arrow_there_is_no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"^chunkfold\.archive\.arrow_schema needs pyarrow: pip install pyarrow$"):
        arrow_schema()


def test_arrow_holds_every_row_by_one_schema() -> None:
    arrow = pytest.importorskip("pyarrow")
    schema = arrow_schema()
    rows = [fold_record(data) for data in RECORDS.values()]
    assert schema.names == list(COLUMNS)
    assert arrow.Table.from_pylist(rows, schema=schema).to_pylist() == rows
    types = {"url": "string", "size": "int64", "complete": "bool", "seconds": "double", "texts": "list<item: string>"}
    assert {name: str(schema.field(name).type).replace("element", "item") for name in types} == types
