"""How a block of the docs is run, and how their tables are read."""

import ast
import builtins
import inspect
import types
from typing import Any

import anyio


def run(source: str, filename: str, namespace: dict[str, Any]) -> None:
    """Run a block as the interactive `python -m asyncio` does, where `await` may stand outside of functions."""
    code = compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    namespace.setdefault("__builtins__", builtins)  # imports of extension modules look it up in the caller's globals
    block = types.FunctionType(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        anyio.run(block)
    else:
        block()


def tables_of(text: str, *header: str) -> list[list[str]]:
    """The rows of the tables with this header, as cells."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    _, *tables = text.split("\n".join(lines) + "\n")
    rows = [row for table in tables for row in table.split("\n\n")[0].splitlines()]
    assert rows, header
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
