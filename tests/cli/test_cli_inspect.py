"""`chunkfold inspect`: every frame is told once, with what the parser made of it, and the verdict is the parser's.

What is shown is held to a parser of its own that read the same bytes.
"""

import json
import re
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from command_line import COMMAND, PATIENCE, environment, on_a_terminal, run
from doc_blocks import codes_in, keys_of, tables_of, text_of
from inspect_command import BODY, HI, ROLE, STOP, inspect, recording
from measured_memory import traced
from parsed_bodies import parsed
from recorded_streams import recorded_reads
from shared_data import shared_data

from chunkfold import RULES, StreamEnd
from chunkfold.cli.facts import EXIT_CODES
from chunkfold.cli.frames import Frame, Inspection, Kind
from chunkfold.testing import DONE, HostileStream, StreamBuilder, choice, chunk, delta, event, fragment, hostile_streams


def objects(*arguments: str, body: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The frames and the verdict, as a program reads them."""
    *frames, last = map(json.loads, inspect("-", "--json", *arguments, body=body).stdout.splitlines())
    return frames, last["verdict"]


# What is shown of a stream


def test_calls_and_usage_are_told_of_their_frames_and_in_the_verdict() -> None:
    """How the lines are laid out, with pings and a role that changes, is the page's example."""
    lines = inspect("-", body=BODY).stdout.splitlines()
    assert [line.split("chunk", 1)[1].strip() for line in lines[6:9]] == [
        "call named get_weather (id call_a)",
        'call 0 started get_weather (id call_a); call 0 arguments \'{"city":"Paris"}\'',
        "call 0 done; finish reason tool_calls",
    ]
    assert lines[9].endswith("  usage     usage (prompt 5, completion 7, total 12)")
    assert "output: text of 5 characters, 1 tool call (get_weather)" in lines
    assert "usage: prompt 5, completion 7, total 12" in lines
    frames, _ = objects(body=BODY)
    assert all(BODY[frame["offset"] :].startswith((b"data:", b"event:")) for frame in frames)


def test_a_stream_by_the_book_says_so() -> None:
    result = inspect("-", body=ROLE + delta(content="x") + STOP + DONE)
    assert "\noutput: text of 1 character\n" in result.stdout
    assert "\ndeviations: none\n" in result.stdout
    assert result.exit_code == 0


def test_rules_are_explained() -> None:
    plain, explained = (inspect("-", *options, body=BODY).stdout for options in ((), ("--rules",)))
    rules = {rule.id: rule for rule in RULES}
    for name in ("CF204", "CF103", "CF106"):
        rule = rules[name]
        assert f"\n{rule} (once)\n" in plain
        assert f"\n  sent by: {rule.senders}\n  chunkfold: {rule.handling}\n" in explained
    assert "sent by" not in plain
    verdict = objects("--rules", body=BODY)[1]
    assert [rule["senders"] for rule in verdict["anomalies"]] == [
        rules[name].senders for name in ("CF204", "CF103", "CF106")
    ]


def test_only_anomalies_leaves_the_rest_out_and_the_verdict_as_it_is() -> None:
    frames, verdict = objects(body=BODY)
    odd, same = objects("--only", "anomalies", body=BODY)
    assert odd == [frame for frame in frames if frame["anomalies"]]
    assert len(odd) == 3
    assert same == verdict
    shown = inspect("-", "--only", "anomalies", body=StreamBuilder().text("Hi").error("overloaded").body).stdout
    assert "APIError: overloaded" in shown
    assert "text 'Hi'" not in shown


KINDS = [
    (Kind.CHUNK, HI, "text 'Hi'"),
    (Kind.CHUNK, delta(reasoning_content="Hm"), "reasoning 'Hm'"),
    (Kind.CHUNK, delta(refusal="No"), "refusal 'No'"),
    (Kind.CHUNK, delta("stop", 1, content="Hi"), "choice 1: text 'Hi'; choice 1: finish reason stop"),
    (Kind.CHUNK, delta("eos", content="Hi"), "text 'Hi'; finish reason eos (outcome stop)"),
    (Kind.CHUNK, delta(), "nothing"),
    (Kind.CHUNK, delta(audio={"data": "aGk=", "transcript": "hi"}), "audio 'hi' (2 bytes)"),
    (Kind.CHUNK, delta(images=[{"type": "image_url"}]), "image"),
    (Kind.CHUNK, delta(content="Hi", role="assistant"), "role assistant; text 'Hi'"),
    (Kind.CHUNK, delta(content="x" * 200), f"text '{'x' * 120}'... (200 characters)"),
    (Kind.CHUNK, delta(content="\x1b[2J\u202e\n'"), r"""text "\x1b[2J\u202e\n'" """.rstrip()),
    (
        Kind.CHUNK,
        delta(tool_calls=[fragment(0, None, "f", "{}")]),
        "call 0 started f (without an id); call 0 arguments '{}'",
    ),
    (Kind.USAGE, chunk(usage={"prompt_tokens": 1}), "usage (prompt 1, completion not sent, total not sent)"),
    (Kind.USAGE, chunk(usage={"prompt_tokens": 1}) * 2, "usage (nothing new)"),
    (
        Kind.CHUNK,
        delta(tool_calls=[fragment(0, "a", "f", "{")]) + delta("tool_calls"),
        "call 0 done (its arguments do not parse); finish reason tool_calls",
    ),
    (Kind.PING, event("null"), "'null'"),
    (Kind.PING, event(": ping"), "': ping'"),
    (Kind.FOREIGN, HI + event("1", "a b"), "event 'a b'; '1'"),
    (Kind.DONE, HI + STOP + DONE, "nothing"),
    (Kind.ERROR, StreamBuilder().error("m", code=503).body, "APIError: m (status 503, code 503)"),
    (
        Kind.ERROR,
        b'data: {"error":{"code":503}}\n\n',
        "APIError: the provider sent an error without a message: code 503 (status 503)",
    ),
    (Kind.ERROR, HI + b'error: {"message":"m"}\n\n', "APIError: m"),
    (Kind.NOT_JSON, event("oops"), "InvalidChunkError: expected a JSON object, received text that is not JSON"),
    (Kind.NO_CHUNK, event("[1,2]"), "InvalidChunkError: expected a JSON object, received list: '[1,2]'"),
    (Kind.BODY, b'{"error":{"message":"m"}}', "APIError: m"),
    (Kind.BODY, b"<html>", "NotAnEventStreamError: expected an event stream, received another body"),
    (Kind.END, HI, "the body ends"),
]


@each_case(("kind", "body", "adds"), KINDS, ids=[f"{kind}-{adds[:20]}" for kind, _, adds in KINDS])
def test_what_a_frame_is_and_adds(kind: Kind, body: bytes, adds: str) -> None:
    lines = inspect("-", body=body).stdout.partition("\n\n")[0].splitlines()[1:]
    if kind is not Kind.END and "  the body ends" in lines[-1]:
        lines.pop()
    told = lines[-1].split("  ! ")[0].strip().split("  ", 1)[1]
    assert told.startswith(kind)
    assert told.removeprefix(kind).strip().startswith(adds)
    assert len(adds) < 100 or told.endswith(adds)


@each_case(
    ("body", "told"),
    [
        (StreamBuilder().error("m", code=503).body, "yes"),
        (
            StreamBuilder().text("Hi").error("m", code=503).body,
            "no, since output had arrived (a retry would repeat it)",
        ),
        (StreamBuilder().error("m", code=400).body, "no"),
    ],
)
def test_whether_to_retry_is_told(body: bytes, told: str) -> None:
    assert f"\nretryable: {told}\n" in inspect("-", body=body).stdout


def test_a_limit_that_is_passed_is_told() -> None:
    frames: list[Frame] = []
    inspection = Inspection(frames.append, max_event_size=100)
    inspection.feed(b"data: " + b"x" * 200)
    assert [(frame.kind, type(frame.error).__name__) for frame in frames] == [(Kind.LIMIT, "LimitExceededError")]
    inspection.feed(b"more")
    inspection.close()
    assert len(frames) == 1
    assert inspection.unread == 4


def test_a_chunk_late_in_a_large_read_is_no_stall() -> None:
    inspection = Inspection(lambda _: None, started=0.0, progress_timeout=30.0)
    inspection.feed(b": " + b"x" * 100_000 + b"\n\n" + delta("stop", content="b"), 40.0)
    inspection.close(41.0)
    assert inspection.parser.end is StreamEnd.FINISHED


def test_a_deadline_that_is_missed_is_told() -> None:
    frames: list[Frame] = []
    inspection = Inspection(frames.append, started=0.0, clock=lambda: 0.0, progress_timeout=1)
    inspection.feed(HI, 0.5)
    inspection.feed(b": ping\n\n", 2.0)
    assert [(frame.kind, frame.at, bool(frame.note)) for frame in frames] == [("chunk", 0.5, False), ("end", 2.0, True)]
    assert inspection.parser.end is StreamEnd.STALLED


def test_unknown_fields_are_listed_as_what_else_was_sent() -> None:
    odd = chunk({**choice(content="Hi", **{"a\x1b": 1}), "native": "s"}, x_groq={})
    verdict = objects(body=odd * 2)[1]
    assert verdict["unknown_fields"] == {"x_groq": 2, "choices[].native": 2, r"choices[].delta.'a\x1b'": 2}
    assert (
        r"also sent: x_groq (2), choices[].native (2), choices[].delta.'a\x1b' (2)" in inspect("-", body=odd * 2).stdout
    )
    many = chunk(**{f"field_{number}": 1 for number in range(1000)})
    assert len(objects(body=many)[1]["unknown_fields"]) == 100


def test_what_came_of_a_body_without_events_stands_at_its_beginning() -> None:
    for body in (b"<html>", b'\n\n{"error":{"message":"m"}}', b'{"choices":[{"message":{"content":"Hi"}}]}'):
        (frame,), _ = objects(body=body)
        assert (frame["kind"], frame["event"], frame["offset"]) == ("body", None, 0)
    frames, _ = objects(body=HI + b": ping\n\n" + b'error: {"message":"m"}\n\n')
    assert frames[-1]["offset"] == len(HI) + 8


def test_audio_without_a_transcript_has_no_length_of_a_text() -> None:
    (frame, _), _ = objects(body=delta(audio={"data": "aGk="}))
    assert frame["adds"] == [{"what": "audio", "choice": 0, "note": "2 bytes"}]


def test_what_one_event_brings_is_told_in_bounds() -> None:
    many = chunk(*(choice(index=index, content="x" * 1000) for index in range(1000)))
    odd = chunk(usage={"prompt_tokens": {"\x1b": "y" * 10_000}}) + event("1", "z" * 10_000)
    shown = inspect("-", body=many + odd)
    assert "; and 950 more\n" in shown.stdout
    assert "usage (prompt not sent, completion not sent" in shown.stdout
    assert len(shown.stdout) < 10_000
    frames = inspect("-", "--json", body=many + odd).stdout.rpartition('{"verdict"')[0]
    assert frames.count("\n") == 4
    assert len(frames) < len(many) / 4
    assert {len(addition["value"]) for addition in json.loads(frames.splitlines()[0])["adds"][:-1]} == {400}
    few = chunk(*(choice(index=index, content="x") for index in range(51)))
    assert "; and 1 more\n" in inspect("-", body=few).stdout


# Held to the parser


STREAMS = hostile_streams(abuse=False)  # of a frame with hundreds of additions not all are shown


@each_case("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_hostile_streams_show_the_rules_of_the_parser(stream: HostileStream) -> None:
    check_against_the_parser(stream.body)


@pytest.mark.parametrize("largest", [16, pytest.param(1, marks=pytest.mark.slow)])
@each_case("stream", STREAMS, ids=[stream.name for stream in STREAMS])
def test_frames_do_not_depend_on_how_the_bytes_were_cut(stream: HostileStream, largest: int) -> None:
    length = len(stream.body)
    # Short bodies in reads of any size up to the largest, as their lengths differ.
    size = 1 + length % largest if length < 10_000 else length // 100
    reads = [stream.body[start : start + size] for start in range(0, length, size)]
    assert frames_of([stream.body]) == frames_of(reads)


def frames_of(reads: list[bytes]) -> list[tuple[Any, ...]]:
    frames: list[Frame] = []
    inspection = Inspection(frames.append)
    for data in reads:
        inspection.feed(data)
    inspection.close()
    return [(one.kind, one.event, one.offset, one.adds, one.anomalies, one.data, str(one.error)) for one in frames]


@pytest.mark.parametrize("events", [15, pytest.param(10**6, marks=pytest.mark.slow)])
def test_recorded_streams_show_the_rules_of_the_parser(events: int) -> None:
    """At the beginning and at the end; in between long ones repeat themselves."""
    for path in sorted(shared_data("recordings").glob("*.sse")):
        blocks = path.read_bytes().split(b"\n\n")
        check_against_the_parser(b"\n\n".join(blocks[:events] + blocks[events:][-events:]))


def check_against_the_parser(body: bytes) -> None:
    """Hold what a program reads to the parser."""
    parser = parsed(body, status_code=200)
    frames, verdict = objects(body=body)
    rules = [(anomaly.rule.id, anomaly.count, anomaly.offset, anomaly.detail) for anomaly in parser.anomalies]
    assert [(rule["rule"], rule["count"], rule["offset"], rule["detail"]) for rule in verdict["anomalies"]] == rules
    counted: Counter[str] = Counter()
    for frame in frames:
        counted.update({noted["rule"]: noted["count"] for noted in frame["anomalies"]})
    assert counted == {rule: count for rule, count, _, _ in rules}
    assert (verdict["end"], verdict["exit_code"]) == (parser.end, EXIT_CODES[parser.end or StreamEnd.EMPTY])
    assert (verdict["error"] or {}).get("message") == (None if parser.error is None else str(parser.error))
    for choice_ in parser.snapshot.choices:
        assert added(frames, "text", choice_.index) == len(choice_.message.content or "")
        assert added(frames, "reasoning", choice_.index) == len(choice_.message.reasoning or "")


def added(frames: list[dict[str, Any]], what: str, index: int) -> int:
    return sum(
        addition["length"]
        for frame in frames
        for addition in frame["adds"]
        if (addition["what"], addition["choice"]) == (what, index)
    )


def test_no_frame_is_kept() -> None:
    piece = delta(content="x", padding="y" * 2000)
    body = piece * 1_000
    Inspection(lambda _: None).feed(piece * 100)  # what is loaded is loaded
    inspection = Inspection(lambda _: None)
    with traced() as memory:
        inspection.feed(body)
    assert inspection.frames == 1_000
    assert memory.kept < len(body) / 40
    assert memory.peak < len(body) / 2


# How it ended


def test_a_recording_tells_when_each_frame_came(tmp_path: Path) -> None:
    path = recording(tmp_path, (0.5, ROLE + HI[:20]), (0.75, HI[20:]), (1.25, STOP + DONE), ended_at=1.5)
    result = inspect(path)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["offset", "seconds", "what", "adds"]
    assert [line.split()[1] for line in lines[1:5]] == ["0.500", "0.750", "1.250", "1.250"]
    assert "time: headers after 0.25 s, first output after 0.75 s, last byte after 1.25 s" in lines
    assert "request id: req_1" in lines
    assert result.exit_code == 0


def test_a_recording_that_was_left(tmp_path: Path) -> None:
    left = inspect(recording(tmp_path, (0.5, HI), end="left"))
    assert "reading stops early" in left.stdout
    assert left.exit_code == 130


@pytest.mark.parametrize(
    ("before", "end"),
    [
        *((b"\xef\xbb\xbf", b""), (b"\n \n", b"")),
        *(
            pytest.param(before, end, marks=pytest.mark.slow)
            for before, end in ((b"", b""), (b"", b"\n"), (b"\xef\xbb\xbf\n", b""), (b"\xef\xbb\xbf\n", b"\n"))
        ),
    ],
)
def test_a_recording_is_recognised_behind_blanks(before: bytes, end: bytes, tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    line = recorded_reads((0.5, ROLE + HI + STOP + DONE), headers_at=0.1).dumps()
    file.write_bytes((before + line).rstrip(b"\n") + end)
    assert "seconds" in inspect(str(file)).stdout
    assert run("replay", str(file)).stdout == "Hi"


# Wrong use


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    missing = inspect(str(tmp_path / "missing\x1b.sse"))
    assert missing.exit_code == 1
    assert missing.stderr.count("\n") == 1
    assert r"missing\x1b.sse: No such file or directory" in missing.stderr
    for scheme in ("http", "https"):
        long = inspect(f"{scheme}://127.0.0.1:9/{'a' * 5000}")
        assert long.exit_code == 1
        assert "onnection refused" in long.stderr


def test_a_prompt_and_a_model_are_for_urls() -> None:
    for part in (["Hello?"], ["--system", "Be brief."], ["--param", "n=2"]):
        unused = inspect("body.sse", *part)
        assert (unused.exit_code, unused.stderr.endswith("are only used with a URL and --model\n")) == (2, True)
    with_model = inspect("body.sse", "-m", "m")
    assert with_model.exit_code == 2
    assert "--model: expected a URL" in with_model.stderr
    assert inspect("http://127.0.0.1:9/v1", "Hello?").exit_code == 2
    assert "  -m, --model TEXT     The model's name.\n" in inspect("--help").stdout  # not required


def test_the_page_shows_what_it_prints() -> None:
    page = text_of("docs/inspect.md")
    body, shown, *_ = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert inspect("-", body=body.encode()).stdout == shown
    assert ", ".join(what for what, _ in tables_of(page, "what", "what the event is")).split(", ") == list(Kind)


def test_the_pages_list_the_keys_of_the_json() -> None:
    frames, verdict = objects("--rules", body=BODY)
    page = text_of("docs/inspect.md")
    of_a_frame = keys_of(page, "key of a frame", "what it says")
    assert [list(frame) for frame in frames] == [list(of_a_frame)] * len(frames)
    broken = [anomaly for frame in frames for anomaly in frame["anomalies"]]
    assert [list(anomaly) for anomaly in broken] == [codes_in(of_a_frame["anomalies"])] * len(broken) != []
    of_an_addition = keys_of(page, "key of what it adds", "what it says")
    assert {key for frame in frames for addition in frame["adds"] for key in addition} == of_an_addition.keys()
    of_all = text_of("docs/command-line.md").partition("### As JSON")[2].partition("###")[0]
    of_an_answer = keys_of(of_all, "key", "what it is")
    more = codes_in(page.partition('`{"verdict": ...}`')[2].partition("\n###")[0])
    of_the_verdict, of_an_anomaly = more[1 : more.index("--rules")], more[more.index("anomalies") + 1 :]
    assert list(verdict) == [*of_an_answer, *of_the_verdict]
    assert list(verdict["anomalies"][0]) == [*codes_in(of_an_answer["anomalies"]), *of_an_anomaly]


# Pipes and terminals


@pytest.mark.slow
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_frames_of_a_body_in_a_pipe_are_shown_as_they_come(end: bytes) -> None:
    """As from `curl -N`. Was once wrong: nothing was shown before the end."""
    options: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment()}
    with subprocess.Popen([COMMAND, "inspect", "-"], **options) as process:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            process.stdin.write((ROLE + HI).replace(b"\n", end))
            process.stdin.flush()
            shown = [process.stdout.readline() for _ in range(3)]
            assert b"text 'Hi'" in shown[2]
            rest, _ = process.communicate(DONE.replace(b"\n", end))
        finally:
            timer.cancel()
            process.kill()
    assert b"\nended: done: " in rest


EVIL = b"".join(
    (
        delta(role="assistant", content="日本語のテキスト 👍 \x1b[2J\x1b]0;title\x07 " + "word " * 12),
        b'event: a\x1b[31m\ndata: {"x":"\x9b1m\xe2\x80\xae"}\n\n',
        delta(role="a\x1bb", tool_calls=[fragment(0, "id\x1b", "na\nme", "{\x07")]),
        delta(role="assistant", content=""),
        chunk(usage={"prompt_tokens": "\x1b"}),
        StreamBuilder().error("over\x1b[2Jloaded " + "y" * 200, type="\x1b").body,
    )
)


@pytest.mark.parametrize("width", [20, pytest.param(80, marks=pytest.mark.slow)])
def test_on_a_terminal_nothing_is_too_wide_and_nothing_acts(width: int, tmp_path: Path) -> None:
    (tmp_path / "evil.sse").write_bytes(EVIL)
    rows, written, code = on_a_terminal("inspect", str(tmp_path / "evil.sse"), "--rules", width=width)
    assert code == 3  # that rows could be made of it says that nothing of the stream reached the terminal as a command
    shown = "".join("".join(rows).split())
    for told in (
        r"日本語のテキスト👍\x1b[2J\x1b]0;title\x07",
        r"'na\nme'",
        "CF204:therolechangeswithinthestream",
        "sentby:relays",
    ):
        assert told in shown
    assert "\x1b[33m" in written  # rules are yellow


def test_on_a_terminal_columns_are_kept_and_narrow_ones_go_below(tmp_path: Path) -> None:
    (tmp_path / "body.sse").write_bytes(BODY)
    wide, _, _ = on_a_terminal("inspect", str(tmp_path / "body.sse"), width=80)
    assert wide[:2] == ["offset  what      adds", "     0  chunk     role assistant"]
    assert wide[3] == "                  CF204: the role changes within the stream ('model')"
    narrow, _, _ = on_a_terminal("inspect", str(tmp_path / "body.sse"), width=40)
    assert narrow[1:3] == ["     0  chunk", "  role assistant"]
    assert narrow[5:7] == ["  CF204: the role changes within the", "  stream ('model')"]


def test_without_colour_and_on_a_dumb_terminal(tmp_path: Path) -> None:
    (tmp_path / "body.sse").write_bytes(BODY)
    path = str(tmp_path / "body.sse")
    assert "\x1b[3" not in on_a_terminal("inspect", path, NO_COLOR="1")[1]
    dumb, written, _ = on_a_terminal("inspect", path, width=300, TERM="dumb")
    assert "\x1b" not in written
    assert dumb[:-1] == inspect(path).stdout.splitlines()
