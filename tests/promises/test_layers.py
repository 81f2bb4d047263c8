"""An import goes down the layers, never up, and files and functions are short.

The library loads pydantic and the standard library only, and a name of it no more than its layer.
"""

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from cases import each_case
from own_modules import BESIDE, CORE, MODULES
from own_process import loaded_by

# From top to bottom: an import goes down this list, one for types alone too.
LAYERS = (
    "chunkfold",
    *("stream", "parser", "transforms", "events", "fold", "wire", "models", "json_text", "event_stream"),
    *("errors", "anomaly_log", "anomalies", "rule_examples", "arguments", "excerpts"),
)


KNOWS_IO = "stream"  # the package that reads responses
IO = {"anyio", "asyncio", "concurrent", "httpx", "httpx2", "multiprocessing", "selectors", "socket", "ssl", "threading"}


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


def imported(path: Path) -> set[str]:
    """The modules that a module imports, also inside functions, and for type checkers only."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not followed here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name.removeprefix("chunkfold.") in MODULES else str(node.module) for name in names}
    return found


def own_imports(name: str) -> set[str]:
    """Those of chunkfold, without the package's name."""
    ours = {found for found in imported(CORE[name]) if found.partition(".")[0] == "chunkfold"}
    return {found.removeprefix("chunkfold.") for found in ours}


def place(name: str) -> int:
    """Where a module stands among the layers."""
    return LAYERS.index(name.partition(".")[0])


@each_case("name", CORE)
def test_imports_go_down_the_layers(name: str) -> None:
    assert not {found for found in own_imports(name) - BESIDE if place(found) < place(name)}


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: own_imports(name) - {"chunkfold"} for name in CORE}
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, which shows the circle


@each_case("name", sorted(CORE))
def test_only_the_stream_knows_of_io(name: str) -> None:
    if name.partition(".")[0] != KNOWS_IO:
        assert not {found.partition(".")[0] for found in imported(CORE[name])} & IO


def test_importing_chunkfold_alone_loads_nothing_else() -> None:
    assert {name for name in loaded_by("import chunkfold") if name.startswith("chunkfold")} == {"chunkfold"}
    assert "pydantic" not in loaded_by("import chunkfold; chunkfold.ChunkfoldError")


def test_using_chunkfold_loads_pydantic_and_the_standard_library_only() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("from chunkfold import *")}
    assert "chunkfold" in loaded
    assert loaded.isdisjoint({"httpx", "httpx2", "httpcore", "click", "rich", "anyio", "asyncio", "opentelemetry"})
    pydantic = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
    foreign = {name for name in loaded - sys.stdlib_module_names if not name.startswith("_sysconfigdata")}
    assert foreign <= {"chunkfold", *pydantic}


FILE_LINES = 400
FUNCTION_LINES = 40  # the signature and the docstring are not counted


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return statements[-1].end_lineno - statements[0].lineno + 1 if statements else 0


@each_case("name", MODULES)
def test_a_file_and_its_functions_are_short(name: str) -> None:
    path = MODULES[name]
    assert len(path.read_text("utf-8").splitlines()) <= FILE_LINES
    functions = [node for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert {
        f"{function.name}, line {function.lineno}" for function in functions if body_lines(function) > FUNCTION_LINES
    } == set()
