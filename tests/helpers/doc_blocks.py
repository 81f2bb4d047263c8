"""How a block of the docs is run."""

import ast
import inspect
import types
from typing import Any

import anyio


def run(source: str, filename: str, namespace: dict[str, Any]) -> None:
    """Run a block as the interactive `python -m asyncio` does, where `await` may stand outside of functions."""
    code = compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    block = types.FunctionType(code, namespace)
    if code.co_flags & inspect.CO_COROUTINE:
        anyio.run(block)
    else:
        block()
