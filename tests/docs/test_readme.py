"""The README's figures are those of the pages that measure them, and its links work on a package index."""

import re
from collections import Counter
from pathlib import Path

import naive_client
import pytest
from readme_links import absolute

from chunkfold.testing import DIALECTS, hold, hostile_streams

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
WORDS = " ".join(README.split())
CLIENTS = ["chunkfold", "openai", "langchain-openai", "litellm"]
STREAMS = Counter(stream.ending == "complete" for stream in hostile_streams())


def row_of(client: str) -> list[str]:
    """The figures of a row of the README's table."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| {client} |")]
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


def figures(right: Counter[bool], crashed: int) -> list[str]:
    """As the README has them: complete streams, those that must be refused, and where it crashed instead."""
    return [*(f"{right[complete]} of {STREAMS[complete]}" for complete in (True, False)), str(crashed)]


@pytest.mark.parametrize("client", CLIENTS)
def test_how_many_streams_each_gets_right(client: str) -> None:
    page = (ROOT / "docs" / "hostile-streams.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| {client} \| [\d.]+ \| (.+ of .+) \|$", page, re.MULTILINE)
    assert row_of(client) == row.split(" | ")


def test_how_many_streams_the_naive_loop_gets_right() -> None:
    verdicts = hold(naive_client.fold, hostile_streams())
    right = Counter(verdict.stream.ending == "complete" for verdict in verdicts if verdict.right)
    assert row_of("a loop of 25 lines") == figures(right, sum(verdict.has_crashed for verdict in verdicts))
    source = (ROOT / "tests" / "helpers" / "naive_client.py").read_text("utf-8")
    assert len(source.partition("def fold")[2].splitlines()) == 25


def test_the_bullets_have_the_figures_of_the_table() -> None:
    complete, *_ = row_of("chunkfold")
    assert f"Of {complete.partition(' of ')[2]} complete streams" in WORDS
    assert f"it reads all {complete.partition(' ')[0]}," in WORDS
    assert f"25 lines reads {row_of('a loop of 25 lines')[0].partition(' ')[0]}," in WORDS
    assert f"the openai SDK {row_of('openai')[0].partition(' ')[0]}." in WORDS
    assert (
        f"LiteLLM returns {STREAMS[False] - int(row_of('litellm')[1].partition(' ')[0])} of {STREAMS[False]} such"
        in WORDS
    )


def test_how_long_each_takes() -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    times = dict(re.findall(r"^\| ([\w-]+) [\d.]+ \| text \| [\d,]+ \| ([\d.]+) \|$", page, re.MULTILINE))
    assert f"the openai SDK takes [{times['openai']} times]" in WORDS
    assert f"LangChain {times['langchain-openai']} times and LiteLLM {times['litellm']} times" in WORDS


def test_the_figures_of_the_standard_and_the_recordings() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text("utf-8")
    ((suites, cases, right),) = re.findall(r"the test suites of (\d+) projects \| (\d+) cases \| (\d+) \|", page)
    ((providers, complete),) = re.findall(r"\| (\d+) providers and servers \| \d+ bodies \| (\d+) are complete", page)
    assert cases == right
    assert f"all {cases} event stream cases from the test suites of {suites} other projects" in WORDS
    assert f"all {complete} complete [recorded streams][conformance] of {providers} providers and servers" in WORDS


def test_how_many_dialects_there_are() -> None:
    assert f"{len(DIALECTS)} dialects of providers" in README


def test_a_release_makes_every_link_absolute() -> None:
    text = absolute(README, "https://example.org/a/b", "v1")
    links = [*re.findall(r"^\[.+\]: (\S+)$", text, re.MULTILINE), *re.findall(r"\]\(([^)]+)\)", text)]
    assert [link for link in links if not link.startswith(("https://example.org/a/b/", "#"))] == []
    assert "https://example.org/a/b/raw/v1/docs/replay.svg" in links
    assert "https://example.org/a/b/blob/v1/docs/tutorial.md" in links
