"""What the tests would not notice: change the code of the core in one place at a time, and see whether a test fails.

    uv run python tests/mutants.py                       # 150 of them, the same each time, half an hour
    uv run python tests/mutants.py --sample 10 --seed 2  # others
    uv run python tests/mutants.py --only fold/head.py   # those of one file

A mutant is a copy of the project in which one comparison, one condition, one constant or one statement is another. The
tests in the folder of the changed file's name run first, then the rest of the fast suite as far as it is about the
core. A mutant that they do not kill is printed with its line: it needs a test, or a reason in `EQUIVALENT`.
"""

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src" / "chunkfold"
PACKAGES = ("event_stream", "wire", "models", "json_text", "fold", "events", "parser", "stream")
QUICK = ("wire", "event_stream", "json_text", "models", "events", "transforms", "test_errors.py", "test_arguments.py")
TESTS = (*QUICK, "test_catalogue.py", "kit/test_hostile.py", "parser", "fold", "promises", "stream")
SURVIVED, KILLED, TIMED_OUT, HARMLESS = "survived", "killed", "timed out", "equivalent"
TIME_LIMIT = 600  # seconds, of each of the two runs
_SHOWN = 120  # characters of the changed statement; of a longer one the part that is changed

# Changes that no user can notice, as they are printed but without the line's number, and why. They are not run.
EQUIVALENT = {
    "json_text/surrogates.py: _slices: while start < len(text):  ->  while start <= len(text):": "an empty slice more",
    "parser/template.py: _WORTH_LEARNING: Final = 64  ->  _WORTH_LEARNING: Final = 65": "a number that was tuned",
    "parser/template.py: _MOST_MISSES: Final = 8  ->  _MOST_MISSES: Final = 9": "a number that was tuned",
    "wire/payload.py: ChatCompletionChunk.model_rebuild()  ->  pass": "pydantic builds the model on its first use, too",
}

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv}


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        path: The file, in the package.
        place: The number of the changed node, as they are walked.
        value: What a condition is always.
    """

    path: str
    place: int
    value: bool | None = None

    def made(self) -> tuple[str, str]:
        """The whole file with the change, and the change as a line."""
        tree = ast.parse((CORE / self.path).read_text("utf-8"))
        node: Any = next(node for number, node in enumerate(ast.walk(tree)) if number == self.place)
        around = [one for one in ast.walk(tree) if isinstance(one, ast.stmt | ast.expr) and node in ast.walk(one)]
        innermost = max(place for place, one in enumerate(around) if isinstance(one, ast.stmt))
        shown = next((one for one in around[innermost:] if len(_shown(one)) <= _SHOWN), node)
        functions = [one.name for one in around if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        place = ": ".join([f"{self.path}:{node.lineno}", *functions[-1:]])
        before = _shown(shown)
        _change(node, value=self.value)
        return ast.unparse(tree), f"{place}: {before}  ->  {_shown(shown)}"


def _shown(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All changes of a file, in order."""
    nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
    never_run = {inner for node in nodes if _is_overload(node) for inner in ast.walk(node)}
    for place, node in enumerate(nodes):
        for value in _values(node) if node not in never_run else ():
            yield Mutant(str(path.relative_to(CORE)), place, value)


def _is_overload(node: ast.AST) -> bool:
    """Whether this is a signature for type checkers alone."""
    return isinstance(node, ast.FunctionDef) and "overload" in map(ast.unparse, node.decorator_list)


def _values(node: ast.AST) -> tuple[bool | None, ...]:
    """The ways there are to change a node: what its condition is always, or None if that is not what is changed."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return ()
        case ast.If():
            return (False, True)
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            return (None,)
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            return (None,)
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            return (None,)
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.IfExp() | ast.Constant(value=bool() | int()):
            return (None,)
        case ast.Continue() | ast.Break() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            return (None,)
        case _:
            return ()


def _change(node: Any, *, value: bool | None) -> None:
    match node:
        case ast.If():
            node.test = ast.Constant(value)
        case ast.Compare():
            node.ops = [_COMPARISONS[type(node.ops[0])]()]
        case ast.BinOp():
            node.op = _OPERATORS[type(node.op)]()
        case ast.Return():
            node.value = ast.Constant(None)
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp():
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.IfExp():
            node.body, node.orelse = node.orelse, node.body
        case ast.Constant(value=bool() as known):
            node.value = not known
        case ast.Constant(value=int() as known):
            node.value = known + 1
        case _:
            node.__class__ = ast.Pass


def sample(size: int, seed: int, only: str | None) -> list[Mutant]:
    files = sorted(path for package in PACKAGES for path in (CORE / package).glob("*.py"))
    every = [mutant for path in files if only is None or path.match(only) for mutant in mutants_of(path)]
    print(f"{len(every)} mutants, seed {seed}", flush=True)
    return every if only is not None else random.Random(seed).sample(every, min(size, len(every)))


class Copies:
    """Copies of the project, each of which one mutant at a time lives in."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            root = folder / str(number) / "project"
            shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__"))
            shared = ROOT.parent / "shared"
            if shared.exists():
                (root.parent / "shared").symlink_to(shared)
            self._free.put(root)

    def verdict(self, mutant: Mutant) -> str:
        source, change = mutant.made()
        path, _, rest = change.partition(":")
        if f"{path}: {rest.partition(': ')[2]}" in EQUIVALENT:
            return HARMLESS
        root = self._free.get()
        mutated = root / "src" / "chunkfold" / path
        mutated.write_text(source, "utf-8")
        try:
            verdict = self._run(root, path)
        finally:
            shutil.copy(CORE / path, mutated)
            shutil.rmtree(mutated.parent / "__pycache__", ignore_errors=True)  # may look fresh: two mutants in a second
            self._free.put(root)
        if verdict == SURVIVED:
            print(change, flush=True)
        return verdict

    def verdict_of_none(self) -> str:
        """That of the code as it is: where a test fails without a change, no verdict means anything."""
        root = self._free.get()
        try:
            return self._run(root, TESTS[0])
        finally:
            self._free.put(root)

    def _run(self, root: Path, path: str) -> str:
        own = path.partition("/")[0]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        command += ["--hypothesis-profile", "mutants"]
        environment = {**os.environ, "PYTHONPATH": str(root / "src")}
        for names in ([own], [name for name in TESTS if name != own]):  # most end here, without collecting the rest
            tests = [f"tests/{name}" for name in names]
            try:
                ran = subprocess.run(
                    [*command, *tests], cwd=root, env=environment, capture_output=True, timeout=TIME_LIMIT, check=False
                )
            except subprocess.TimeoutExpired:
                return TIMED_OUT
            if ran.returncode != 0:
                return KILLED
        return SURVIVED


def main() -> int:
    options = _options()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored in the background of a shell, and so by the tests
    mutants = sample(options.sample, options.seed, options.only)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies = Copies(Path(folder), options.jobs)
        if copies.verdict_of_none() != SURVIVED:
            sys.exit("without any change the tests fail, or take too long")
        verdicts = Counter(pool.map(copies.verdict, mutants))
    print(", ".join(f"{verdicts[verdict]} {verdict}" for verdict in (KILLED, TIMED_OUT, HARMLESS, SURVIVED)))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=150, help="how many of them (150)")
    parser.add_argument("--seed", type=int, default=1, help="which of them (1)")
    parser.add_argument("--only", metavar="PATH", help="all mutants of the files that match")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (one for each core)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
