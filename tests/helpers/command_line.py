"""Run the command line: within this process, where nothing depends on one; else as a person would, in a pipe, on a
terminal of any size, left by Ctrl-C. Tests that import this are skipped where the extra `cli` is missing.
"""

import io
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import time
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

import click.testing
from rich.console import Console

from chunkfold.cli.app import chunkfold
from chunkfold.cli.consoles import THEME
from chunkfold.testing import Answer

PATIENCE = 120.0  # seconds, after which a command that hangs fails
COMMAND = shutil.which("chunkfold", path=sysconfig.get_path("scripts")) or "chunkfold"
NEEDS_SIGNALS = pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent otherwise there")

_LOOPBACK = {"NO_PROXY": "127.0.0.1"}  # all that is asked is on this machine
_OURS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM")
_CREDENTIALS = ("OPENAI_API_KEY", "OPENAI_BASE_URL")

# A shell that runs the tests in the background lets everything in it ignore Ctrl-C.
_HEEDS_CTRL_C = """
import signal
from chunkfold.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # both may be ignored where the tests run in the background
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
main()
"""


class Ran(NamedTuple):
    """What a command said, and its exit code."""

    stdout: str
    stderr: str
    exit_code: int

    @property
    def shown(self) -> str:
        return self.stdout + self.stderr


class Drawn(NamedTuple):
    """What stands on a terminal when a command has ended, what was written to it, and the exit code."""

    rows: list[str]
    written: str
    exit_code: int


def run(*arguments: str, stdin: str | bytes = b"", encoding: str = "utf-8", **variables: str | None) -> Ran:
    """The command within this process; nothing but an exit may leave it."""
    runner = click.testing.CliRunner(
        encoding, {**dict.fromkeys(_CREDENTIALS), **_LOOPBACK, "COLUMNS": "80", **variables}
    )
    result = runner.invoke(chunkfold, arguments, stdin, prog_name="chunkfold")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    stdout, stderr = (said.decode().replace("\r\n", "\n") for said in (result.stdout_bytes, result.stderr_bytes))
    return Ran(stdout, stderr, result.exit_code)


def environment(**variables: str) -> dict[str, str]:
    """The test's own, without what changes how a command prints or whom it asks."""
    inherited = {name: value for name, value in os.environ.items() if name not in (*_OURS, *_CREDENTIALS)}
    return inherited | _LOOPBACK | {"TERM": "xterm-256color", "PYTHONUTF8": "1"} | variables


def piped(*arguments: str | bytes, stdin: bytes = b"", command: str = COMMAND, **variables: str) -> Ran:
    """The command, or another one, as a process of its own in a pipe."""
    done = subprocess.run(
        [command, *arguments],
        env=environment(**variables),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ran(done.stdout.decode("utf-8"), done.stderr.decode("utf-8"), done.returncode)


@contextmanager
def started(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a pipe, still running; it is killed if the test has not ended it."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HEEDS_CTRL_C, *arguments],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        process_group=None if os.name == "nt" else 0,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def press_ctrl_c(process: subprocess.Popen[str]) -> Ran:
    """What the command still says, and its exit code; as a terminal does, all of its processes are told.

    Python does not notice a signal right before a system call that waits: then it is pressed again, as a user does.
    """
    os.killpg(process.pid, signal.SIGINT)
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE / 4)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    return Ran(stdout, stderr, process.returncode)


def read_a_line_and_close(process: subprocess.Popen[str]) -> str:
    """Close standard output behind its first line, as `head` does; gives what the command says of it."""
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    process.wait(PATIENCE)
    return said


def on_a_terminal(
    *arguments: str, command: str = "", width: int = 80, height: int = 200, stdout: Any = None, **variables: str
) -> Drawn:
    """The command within this process, or another one, on a terminal of that size, but for an output that is given.

    It may start nothing that outlives it, as `fold --jobs 2` does in this process: a terminal ends when nobody has it.
    """
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(lambda: b"".join(iter(lambda: _read(ours), b"")).decode())
        with _standard_streams(its, stdout.fileno() if stdout else its, its, environment(**variables)):
            code = subprocess.call([command, *arguments]) if command else _code_of(arguments)
    written = reading.result()
    os.close(ours)
    return Drawn(screen_of(written, width), written, code)


def _code_of(arguments: tuple[str, ...]) -> Any:
    with pytest.raises(SystemExit) as ended:
        chunkfold(arguments, prog_name="chunkfold")
    return ended.value.code or 0


@contextmanager
def _standard_streams(stdin: int, stdout: int, stderr: int, variables: dict[str, str]) -> Iterator[None]:
    """Give this process, and those that it starts, other standard streams and variables; then close what was the input."""
    with ExitStack() as stack, mock.patch.dict(os.environ, variables, clear=True):
        stack.callback(os.close, stdin)
        for number, (name, given) in enumerate({"stdin": stdin, "stdout": stdout, "stderr": stderr}.items()):
            stack.callback(os.close, kept := os.dup(number))
            stack.callback(os.dup2, kept, number)
            os.dup2(given, number)
            file = stack.enter_context(open(number, "w" if number else "r", encoding="utf-8", closefd=False))
            stack.enter_context(mock.patch.object(sys, name, file))
        yield


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other side is closed
        return b""


def screen_of(written: str, width: int) -> list[str]:
    """The rows on a terminal in the end; fails for a row that is too wide, and for what rich never writes."""
    grid, row, column = [[" "] * width], 0, 0
    for sequence, character in re.findall(r"\x1b\[([?\d;]*[A-Za-z])|([^\x1b]|\x1b)", written):
        if sequence == "2K":
            grid[row] = [" "] * width
        elif sequence == "999M":
            assert column == 0
            grid[row:] = [[" "] * width]
        elif sequence.endswith("A"):
            row -= int(sequence[:-1])
            assert row >= 0
        elif sequence.endswith("B"):
            row += int(sequence[:-1])
            assert row < len(grid)
        elif character == "\r":
            column = 0
        elif character == "\n":
            row, column = row + 1, 0
            grid += [[" "] * width for _ in range(row == len(grid))]
        elif character:
            assert character.isprintable(), repr(character)
            assert column < width, "a row is wider than the terminal"
            cells = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            grid[row][column : column + cells] = [character, ""][:cells]
            column += cells
        else:
            assert sequence in {"?25l", "?25h", "?7l", "?7h"} or sequence.endswith("m"), sequence
    return ["".join(each).rstrip() for each in grid]


def styles(written: str) -> set[str]:
    """The styles that were written to a terminal."""
    return set(re.findall(r"\x1b\[([\d;]*)m", written))


# Consoles that draw on a string


def terminal(width: int) -> Console:
    return Console(
        file=io.StringIO(), width=width, height=20, force_terminal=True, theme=THEME, _environ={"TERM": "xterm"}
    )


def written_to(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


# Waiting


class _Watched(Answer):
    """An answer that stays open behind its pieces, and tells when all of them were taken."""

    @property
    def pieces(self) -> Any:
        yield from self.body
        self.__dict__["taken"] = True
        yield math.inf


class OpenAnswer:
    """An answer that stays open behind its pieces; it tells when a command has read them. Needs Linux's /proc."""

    def __init__(self, *pieces: bytes) -> None:
        self.answer = _Watched(pieces)
        self.answer.__dict__["taken"] = False  # until now they were only looked at

    def is_read_by(self, process: subprocess.Popen[Any]) -> bool:
        """Whether it waits again, though all pieces were sent."""
        return self.answer.__dict__["taken"] and is_waiting(process)


def is_waiting(process: subprocess.Popen[Any]) -> bool:
    """Whether a command sleeps, or waits for something to read. Needs Linux's /proc."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc, to see what a command waits for")
    return Path(f"/proc/{process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "S"


def wait_until(condition: Callable[[], object]) -> None:
    """Wait, however long it takes on a busy machine; fails for what hangs."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {PATIENCE} s: something hangs"
        time.sleep(0.005)
