"""The pages of the docs, how a block of them is run, and how their tables are read."""

import ast
import builtins
import inspect
import re
import types
from pathlib import Path
from typing import Any, NamedTuple

import anyio

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md")
}
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


PYTHON = re.compile(
    r'^```python(?: title="(?:chunkfold|([\w-]+))")?\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?', re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """A block of Python: which other library it is for, its code at its line of the page, and the output below."""

    library: str | None
    code: str
    output: str | None


def text_of(page: str) -> str:
    return PAGES[page].read_text("utf-8")


def blocks_of(page: str) -> list[Block]:
    text = text_of(page)
    return [
        Block(found[1], "\n" * text.count("\n", 0, found.start(2)) + found[2], found[3])
        for found in PYTHON.finditer(text)
    ]


def prose_of(page: str) -> str:
    """The page without its blocks of code."""
    return FENCED.sub("", text_of(page))


def run(source: str, filename: str, namespace: dict[str, Any]) -> None:
    """Run a block as the interactive `python -m asyncio` does, where `await` may stand outside of functions."""
    code = compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    namespace.setdefault("__builtins__", builtins)  # imports of extension modules look it up in the caller's globals
    block = types.FunctionType(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        anyio.run(block)
    else:
        block()


def codes_in(text: str) -> list[str]:
    """What is written as code, such as the keys in a row of a table."""
    return re.findall("`([^`]*)`", text)


def tables_of(text: str, *header: str) -> list[list[str]]:
    """The rows of the tables with this header, as cells."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    _, *tables = text.split("\n".join(lines) + "\n")
    rows = [row for table in tables for row in table.split("\n\n")[0].splitlines()]
    assert rows, header
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def keys_of(text: str, *header: str) -> dict[str, str]:
    """The keys that such tables document, each with its text."""
    return {key: said for cell, said in tables_of(text, *header) for key in codes_in(cell)}
