"""`chunkfold chat` on terminals of all sizes."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_command import DOCUMENT, rows_of, said
from command_line import COMMAND, PATIENCE, environment, on_a_terminal, wait_until
from rich.cells import cell_len

from chunkfold.testing import Answer, FakeProvider, ReceivedRequest, StreamBuilder


class Tmux:
    """A terminal that is none of ours; it runs commands, and ends with the test."""

    def __init__(self, folder: Path) -> None:
        self._tmux = shutil.which("tmux") or pytest.skip("needs tmux, a terminal that this project did not write")
        self._socket = str(folder / "tmux")

    def run(self, *command: str, width: int, height: int = 24, **variables: str) -> None:
        script = 'trap : INT; "$@"; echo "[$?]"; sleep 60'
        env = [f"{name}={value}" for name, value in environment(**{"TERM": "tmux-256color", **variables}).items()]
        size = ("-x", str(width), "-y", str(height))
        shell = ("env", "-i", *env, "sh", "-c", script, "sh", *command)
        self.do("-f", os.devnull, "new-session", "-d", "-s", "s", *size, *shell)

    def do(self, *arguments: str) -> str:
        command = [self._tmux, "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, check=True, encoding="utf-8", timeout=PATIENCE).stdout

    def screen(self, *options: str) -> list[str]:
        return [row.rstrip() for row in self.do("capture-pane", "-p", "-S", "-", *options, "-t", "s").splitlines()]

    def until(self, text: str) -> list[str]:
        """The rows, up to the one with the text, as soon as there is one."""
        wait_until(lambda: any(text in row for row in self.screen()))
        rows = self.screen()
        return rows[: next(number for number, row in enumerate(rows) if text in row)]

    def close(self) -> None:
        command = [self._tmux, "-S", self._socket, "kill-server"]
        subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    tmux = Tmux(tmp_path)
    yield tmux
    tmux.close()


@pytest.mark.parametrize("width", [20, *(pytest.param(width, marks=pytest.mark.slow) for width in (120, 80, 40))])
def test_what_stands_on_a_terminal_is_what_the_whole_text_gives(tmux: Tmux, width: int) -> None:
    pieces = [DOCUMENT[start : start + 7] for start in range(0, len(DOCUMENT), 7)]
    with FakeProvider(said(*pieces).finish().done().answer(pace=0.0005)) as provider:
        tmux.run(COMMAND, "chat", provider.url, "-m", "m", "Hi", width=width)
        shown = tmux.until("[0]")
    expected = [piece for row in rows_of(DOCUMENT, width) for piece in folded(row.plain, width)]
    assert shown[: len(expected)] == expected
    assert shown[len(expected)] == ""
    assert " ".join(shown[len(expected) + 1 :]).startswith("finished: stop")
    assert max(map(cell_len, shown)) <= width


def folded(row: str, width: int) -> list[str]:
    """What the terminal makes of a row of code that is longer."""
    return [row[start : start + width].rstrip() for start in range(0, len(row), width)] if len(row) > width else [row]


@pytest.mark.slow
def test_a_terminal_that_changes_its_size_shows_every_word_once(tmux: Tmux) -> None:
    words = [f"{number:03}" + ("\n\n" if number % 10 == 9 else " ") for number in range(400)]
    with FakeProvider(said(*words).finish().done().answer(pace=0.004)) as provider:
        tmux.run(COMMAND, "chat", provider.url, "-m", "m", "Hi", width=80)
        for word, width in (("060", "40"), ("120", "100"), ("180", "21"), ("240", "60")):
            wait_until(lambda word=word: any(word in row for row in tmux.screen()))
            tmux.do("resize-window", "-t", "s", "-x", width)
        shown = re.findall(r"\d{3}", " ".join(tmux.until("finished: stop")))
    assert [int(word) for word in shown] == list(range(400))


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_leaves_what_had_come(tmux: Tmux) -> None:
    with FakeProvider(said("Some **bo").answer(ending="open")) as provider:
        tmux.run(COMMAND, "chat", provider.url, "-m", "m", "Hi", width=60)
        wait_until(lambda: any("Some bo" in row for row in tmux.screen()))
        tmux.do("send-keys", "-t", "s", "C-c")
        shown = tmux.until("[130]")
        assert provider.requests[0].answered.wait(PATIENCE)
        assert provider.requests[0].client_left
    assert shown[:2] == ["Some **bo", ""]
    assert shown[2].startswith("closed · ")
    assert tmux.do("display-message", "-p", "-t", "s", "#{cursor_flag}") == "1\n"  # the cursor is back


@pytest.mark.slow
def test_ctrl_z_leaves_the_terminal_as_it_was_and_fg_goes_on(tmux: Tmux) -> None:
    def answer(_: ReceivedRequest) -> Answer:
        return Answer([*said("Some **bo"), *([0.05] * 20), *said("ld** text").finish().done()])

    bash = shutil.which("bash") or pytest.skip("needs a shell with jobs")
    with FakeProvider(answer) as provider:
        tmux.run(bash, "--norc", "-i", width=100)
        tmux.do("send-keys", "-t", "s", f"{COMMAND} chat {provider.url} -m m Hi", "Enter")
        wait_until(lambda: any(row.startswith("Some bo") for row in tmux.screen()))
        tmux.do("send-keys", "-t", "s", "C-z")
        stopped = tmux.until("Stopped")
        assert not any("Some" in row or "tokens" in row for row in stopped)
        assert tmux.do("display-message", "-p", "-t", "s", "#{cursor_flag}") == "1\n"
        tmux.do("send-keys", "-t", "s", "fg", "Enter")
        assert "Some bold text" in tmux.until("finished: stop")
        assert tmux.do("display-message", "-p", "-t", "s", "#{cursor_flag}") == "1\n"


def drawn(answer: StreamBuilder, *arguments: str, **variables: Any) -> tuple[list[str], str, int]:
    """What stands on a terminal, what was written to it, and the exit code."""
    with FakeProvider(answer.finish().done()) as provider:
        return on_a_terminal("chat", provider.url, "-m", "m", *arguments, "Hi", **variables)


def test_raw_is_refused_on_a_terminal() -> None:
    shown, _, exit_code = on_a_terminal("chat", "http://127.0.0.1:9/v1", "-m", "m", "--raw", "Hi", width=200)
    assert "--raw: standard output is a terminal" in "".join(shown)
    assert exit_code == 2


def test_reasoning_is_folded_unless_all_of_it_is_asked_for() -> None:
    answer = StreamBuilder("deepseek").reasoning(*(f"thought {number}\n" for number in range(9))).text("So.")
    shown, written, _ = drawn(answer, "-q")
    assert shown[:6] == ["... 6 more rows of reasoning", *(f"thought {number}" for number in (6, 7, 8)), "", "So."]
    assert "\x1b[2mthought 8" in written
    shown, _, _ = drawn(answer, "-q", "--reasoning")
    assert shown[:11] == [*(f"thought {number}" for number in range(9)), "", "So."]
