"""The README's figures are those of the pages that measure them."""

import re
from pathlib import Path

import pytest

from chunkfold.testing import DIALECTS, hostile_streams

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
CLIENTS = ["chunkfold", "openai", "langchain-openai", "litellm"]


def row_of(start: str) -> list[str]:
    """The figures of a row of the README's table."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


def test_how_many_streams_each_gets_right() -> None:
    page = (ROOT / "docs" / "hostile-streams.md").read_text("utf-8")
    right = dict(re.findall(r"^\| ([\w-]+) \| [\d.]+ \| (\d+) of \d+ \|$", page, re.MULTILINE))
    assert row_of("[hostile streams]") == [right[client] for client in CLIENTS]
    assert f"of {len(hostile_streams())} |" in README


@pytest.mark.parametrize(("start", "stream"), [("[time]", "text"), ("the same", "tool arguments")])
def test_how_long_each_takes(start: str, stream: str) -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    times = dict(re.findall(rf"^\| ([\w-]+) [\d.]+ \| {stream} \| [\d,]+ \| ([\d.]+) \|$", page, re.MULTILINE))
    assert row_of(start) == ["1", *(times[client] for client in CLIENTS[1:])]


def test_how_many_dialects_there_are() -> None:
    assert f"any of {len(DIALECTS)} providers" in README
