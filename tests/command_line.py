"""Run the command line as a person would: in a pipe, and on a terminal of any size."""

import math
import os
import re
import shutil
import struct
import subprocess
import sysconfig
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chunkfold.testing import Answer

PATIENCE = 120.0  # seconds, after which a command that hangs fails
COMMAND = shutil.which("chunkfold", path=sysconfig.get_path("scripts")) or "chunkfold"

_OURS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM")
_CREDENTIALS = ("OPENAI_API_KEY", "OPENAI_BASE_URL")


def environment(**variables: str) -> dict[str, str]:
    """The test's own, without what changes how a command prints or whom it asks."""
    inherited = {name: value for name, value in os.environ.items() if name not in (*_OURS, *_CREDENTIALS)}
    return inherited | {"TERM": "xterm-256color", "PYTHONUTF8": "1"} | variables


def piped(*arguments: str, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[str]:
    """The command's output, exit code and errors, in a pipe."""
    result = subprocess.run(
        [COMMAND, *arguments],
        env=environment(**variables),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return subprocess.CompletedProcess(
        result.args, result.returncode, result.stdout.decode("utf-8"), result.stderr.decode("utf-8")
    )


def on_a_terminal(*arguments: str, width: int = 80, height: int = 200, **variables: str) -> tuple[list[str], str, int]:
    """What stands on a terminal when the command has ended, what was written to it, and the exit code."""
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    with subprocess.Popen(
        [COMMAND, *arguments], stdin=its, stdout=its, stderr=its, env=environment(**variables)
    ) as process:
        os.close(its)
        written = b"".join(iter(lambda: _read(ours), b"")).decode()
        os.close(ours)
    return rows(written, width), written, process.returncode


class _Pieces(list[Any]):
    """Pieces that tell when all of them were taken."""

    taken = False

    def __iter__(self) -> Iterator[Any]:
        yield from list.__iter__(self)
        self.taken = True
        yield math.inf


class OpenAnswer:
    """An answer that stays open behind its pieces; it tells when a command has read them. Needs Linux's /proc."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = _Pieces(pieces)
        self.answer = Answer(self._pieces)
        self._pieces.taken = False  # until now they were only looked at

    def is_read_by(self, process: subprocess.Popen[Any]) -> bool:
        """Whether it waits again, though all pieces were sent."""
        if not Path("/proc/self/stat").exists():
            pytest.skip("needs /proc, to see what a command waits for")
        state = Path(f"/proc/{process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        return self._pieces.taken and state == "S"


def wait_until(condition: Callable[[], object]) -> None:
    """Wait, however long it takes on a busy machine; fails for what hangs."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other side is closed
        return b""


def rows(written: str, width: int) -> list[str]:
    """The rows that stand on a terminal in the end; fails for a row that is too wide, and for what rich never writes."""
    grid, row, column = [[" "] * width], 0, 0
    for sequence, character in re.findall(r"\x1b\[([?\d;]*[A-Za-z])|([^\x1b]|\x1b)", written):
        if sequence == "2K":
            grid[row] = [" "] * width
        elif sequence.endswith("A"):
            row -= int(sequence[:-1])
            assert row >= 0
        elif character == "\r":
            column = 0
        elif character == "\n":
            row, column = row + 1, 0
            grid += [[" "] * width] * (row == len(grid))
        elif character:
            assert character.isprintable(), repr(character)
            assert column < width, "a row is wider than the terminal"
            cells = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            grid[row][column : column + cells] = [character, ""][:cells]
            column += cells
        else:
            assert sequence in {"?25l", "?25h"} or sequence.endswith("m"), sequence
    return ["".join(each).rstrip() for each in grid]
