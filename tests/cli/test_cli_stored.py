"""Stored recordings and bodies: every command that reads one unpacks gzip, and says in a line what is wrong with it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run

from chunkfold.cli.serve import answers_of
from chunkfold.recording import RecordedRead, Recording
from chunkfold.stream import responses
from chunkfold.testing import Answer, FakeProvider, ReceivedRequest, StreamBuilder

BODY = StreamBuilder().text("Hel", "lo").finish().done().body
RECORDED = Recording((RecordedRead(0.5, BODY),), headers_at=0.25, ended_at=0.75).dumps()
COMMANDS = {
    "inspect": ("inspect", "--json"),
    "replay": ("replay", "--json"),
    "report": ("report", "-o", "-"),
    "fold": ("fold", "--json"),
}


@pytest.mark.parametrize("content", [BODY, RECORDED], ids=["a body", "a recording"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_compressed_file_is_read_as_if_it_were_not(command: str, content: bytes, tmp_path: Path) -> None:
    plain = run(*COMMANDS[command], "-", stdin=content)
    assert "Hello" in plain.stdout
    packed = tmp_path / "packed"  # recognised by its content
    packed.write_bytes(gzip.compress(content))
    from_stdin = run(*COMMANDS[command], "-", stdin=packed.read_bytes())
    from_file = run(*COMMANDS[command], str(packed))
    assert from_stdin.stdout == plain.stdout
    assert (
        from_file.stdout.replace(json.dumps(str(packed)), '"-"').replace(str(packed), "standard input") == plain.stdout
    )
    assert from_stdin.exit_code == from_file.exit_code == plain.exit_code == 0


def test_the_provider_sends_what_is_in_a_compressed_file(tmp_path: Path) -> None:
    packed = gzip.compress(RECORDED)
    (tmp_path / "packed").write_bytes(packed)
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"recording": "packed"}, {"body_file": "packed"}]))
    answers = [*answers_of(str(tmp_path / "packed")), *answers_of(str(script))]
    sent = [answer.answer_to(ReceivedRequest("POST", "/", {}, b"")).pieces for answer in answers]
    bodies = [b"".join(piece for piece in pieces if isinstance(piece, bytes)) for pieces in sent]
    assert bodies == [BODY, BODY, packed]  # a `body_file` is sent as it is


def test_a_url_of_a_compressed_file() -> None:
    with FakeProvider(*[Answer(gzip.compress(content)) for content in (BODY, RECORDED)]) as provider:
        for is_timed in (False, True):
            *_, last = run("inspect", "--json", provider.url).stdout.splitlines()
            verdict: Any = json.loads(last)["verdict"]
            told = verdict["end"], verdict["bytes"], verdict["timing"] is not None
            assert told == ("finished", len(BODY), is_timed)


def test_what_is_damaged_or_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "_EXPANSION_ALLOWED", 2**20)  # bytes
    packed = gzip.compress(BODY)
    wrong: dict[str, tuple[bytes | None, str]] = {
        "missing": (None, "No such file or directory"),
        "a line": (b'{"chunkfold_recording":1}\n{"text":1}\n', "recording: line 2: text: expected str, received int"),
        "newer": (
            b'{"chunkfold_recording":2}\n',
            "recording: line 1: version 2 is newer than this chunkfold, which knows 1",
        ),
        "cut": (packed[:-10], "gzip: the data ends too early"),
        "damaged": (packed[:-8] + bytes(8), "gzip: Error -3 while decompressing data: incorrect data check"),
        "followed": (packed + b"more", "gzip: Error -3 while decompressing data: incorrect header check"),
        "bomb": (
            gzip.compress(bytes(2**21)),
            "gzip: expected at most 100 times the size of the compressed body, after decoding, received more (max_expansion)",
        ),
    }
    for name, (content, message) in wrong.items():
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content)
        for command in ("inspect", "replay", "report"):
            ran = run(*COMMANDS[command], str(file))
            assert (ran.exit_code, ran.stderr) == (1, f"Error: {file}: {message}\n"), (name, command)
        folded = run("fold", "--json", str(file))
        assert folded.exit_code == 1
        assert json.loads(folded.stdout)["error"]["message"] == message
