"""The pages on testing are true: their tests pass under pytest, as a reader runs them, and their tables are complete.

`test_docs` runs the blocks of every page. Here the blocks of a page become a module of tests, which pytest runs in a
process of its own, with the plugin as it is installed, and so do the examples, of which the how-to pages are excerpts.
What is written for LangChain and LiteLLM runs with the peers.
"""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from doc_blocks import tables_of

import chunkfold.testing
from chunkfold.testing import DIALECTS, ERROR_SHAPES, Answer, FakeProvider, StreamBuilder
from chunkfold.testing.answers import Ending, as_answer

ROOT = Path(__file__).parents[2]
DEADLINE = 120.0  # seconds, after which a run that hangs fails
NOWHERE = "http://127.0.0.1:9/v1"  # no server listens there
HOW_TO = {"test-an-adapter": "test_an_adapter", "test-a-gateway": "test_a_gateway"}  # page: example
PAGES = ["testing", *HOW_TO, "test-with-respx", "test-with-openai"]
PEERS = {"langchain_openai": "LangChain", "litellm": "LiteLLM"}  # module: heading


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def example(name: str) -> str:
    return (ROOT / "examples" / f"{name}.py").read_text("utf-8")


def code_of(text: str) -> str:
    """The blocks of a page, one after the other."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))


# As pytest runs them


def run_pytest(folder: Path, *arguments: str, upstream: str) -> str:
    """Run modules in a folder, far from this project's configuration; every warning is an error."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTEST_", "COV_"))}
    env |= {"OPENAI_BASE_URL": upstream, "OPENAI_API_KEY": "sk-test", "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-W", "error", "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-c", os.devnull]
    result = subprocess.run(
        [*command, "--continue-on-collection-errors", f"--rootdir={folder}", *arguments],
        env=env,
        cwd=folder,  # hypothesis keeps its examples there
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE,
        check=False,
    )
    return result.stdout


def outcomes_in(output: str, name: str) -> set[tuple[str, str]]:
    return set(re.findall(rf"^([A-Z]+) {name}\.py::(test_\w+)", output, re.MULTILINE))


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages and the examples as modules of tests."""
    folder = tmp_path_factory.mktemp("modules")
    for name in PAGES:
        (folder / f"{module_of(name)}.py").write_text(code_of(page(name)), "utf-8")
    for name in HOW_TO.values():
        (folder / f"{name}.py").write_text(example(name), "utf-8")
    return folder


@pytest.fixture(scope="module")
def output(modules: Path) -> str:
    with FakeProvider() as upstream:
        return run_pytest(modules, "--chunkfold-record=new", upstream=upstream.base_url)


def module_of(name: str) -> str:
    return f"test_page_{name.replace('-', '_')}"


@pytest.mark.slow
def test_the_tests_pass(modules: Path, output: str, subtests: pytest.Subtests) -> None:
    for name in [*map(module_of, PAGES), *HOW_TO.values()]:
        with subtests.test(name):
            if "openai" in name:
                pytest.importorskip("openai", minversion="3")
            names = set(re.findall(r"^def (test_\w+)", (modules / f"{name}.py").read_text("utf-8"), re.MULTILINE))
            assert names
            assert outcomes_in(output, name) == {("PASSED", each) for each in names}, output[-8000:]


@pytest.mark.slow
def test_a_recording_is_made_once(modules: Path, output: str) -> None:
    pytest.importorskip("openai", minversion="3")
    name = module_of("test-with-openai")
    recordings = modules / "recordings"
    assert list(recordings.rglob("*.jsonl")) == [recordings / name / "test_a_greeting" / "1.jsonl"], output[-8000:]
    replayed = run_pytest(modules, f"{name}.py", "-k", "test_a_greeting", upstream=NOWHERE)
    assert outcomes_in(replayed, name) == {("PASSED", "test_a_greeting")}, replayed[-8000:]


@pytest.mark.peers
@pytest.mark.parametrize("module", PEERS)
def test_what_other_libraries_make_of_it(module: str) -> None:
    if importlib.util.find_spec(module) is None:  # importing it would cost seconds, and for LiteLLM the network
        pytest.skip(f"needs {module} (group `peers`)")
    _, section = page("test-with-openai").split(f"\n## {PEERS[module]}\n", 1)
    match = re.search(r"^```py\n(?P<code>.*?)^```\n\n```text\n(?P<output>.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert match is not None
    command = [sys.executable, "-W", "ignore", "-c", match["code"]]
    env = os.environ | {"no_proxy": "127.0.0.1"}
    result = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=DEADLINE, check=False)
    assert (result.stdout, result.returncode) == (match["output"], 0), result.stderr


# A repository of one's own

LAYOUTS = {  # a heading of the page on adapters: what its file needs
    "openai's SDK": "openai",
    "httpx": "httpx",
    "aiohttp": "aiohttp",
    "LangChain's ChatOpenAI": "langchain_openai",
}


def layouts() -> dict[str, str]:
    pattern = r"^### An adapter on ([^\n]+)\n\n```py\n(.*?)^```$"
    return dict(re.findall(pattern, page("test-an-adapter"), re.DOTALL | re.MULTILINE))


def test_there_is_a_layout_for_each_client() -> None:
    assert layouts().keys() == LAYOUTS.keys()


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("client", LAYOUTS)
def test_the_tests_of_a_layout_pass(client: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(LAYOUTS[client]) is None:
        pytest.skip(f"needs {LAYOUTS[client]}")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_streaming.py").write_text(layouts()[client], "utf-8")
    output = run_pytest(tmp_path, "-W", "ignore", "tests", upstream=NOWHERE)
    assert re.search(r"^=+ \d+ passed in ", output, re.MULTILINE), output[-4000:]


def definitions_in(source: str) -> dict[str, str]:
    """Each function, class and constant, by its name."""
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ast.unparse(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found[ast.unparse(target)] = ast.unparse(node)
    return found


@pytest.mark.parametrize(("name", "of"), HOW_TO.items())
def test_a_page_says_all_that_the_example_says(name: str, of: str) -> None:
    assert definitions_in(example(of)).items() <= definitions_in(code_of(page(name))).items()


# Tables


def code_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_dialects() -> None:
    rows = tables_of(page("testing"), "dialect", "what is special")
    assert rows == [[f"`{name}`", dialect.about] for name, dialect in DIALECTS.items()]


def test_the_shapes_of_errors() -> None:
    rows = tables_of(page("testing"), "shape", "what is sent")
    assert [(code_in(name), code_in(event)) for name, event in rows] == [
        (
            [name],
            StreamBuilder()
            .error("Overloaded", code=503, type="server_error", shape=name)
            .body.decode()
            .split("\n")[:-2],
        )
        for name in ERROR_SHAPES
    ]


STREAM = StreamBuilder().text("Hel", "lo").tool_call("f", '{"a":', "1}").usage(10, 5).finish().done()
KNOWN: dict[str, Any] = {**vars(chunkfold.testing), "stream": STREAM, "HELLO": STREAM, "body": STREAM.body}


def answers_in(name: str, *header: str) -> list[Answer]:
    """What the code in the last column of a table comes to."""
    said = [code for *_, cell in tables_of(page(name), *header) for code in code_in(cell) if code != "done()"]
    values = [eval(code, KNOWN) for code in said]  # noqa: S307 - the page's own
    return [as_answer(each) for value in values for each in (value if isinstance(value, list) else [value])]


def test_each_fault_is_an_answer() -> None:
    answers = answers_in("testing", "what happens", "how to write it")
    bodies = [b"".join(piece for piece in answer.pieces if isinstance(piece, bytes)) for answer in answers]
    assert {answer.ending for answer in answers} == set(get_args(Ending))
    assert sum(body != STREAM.body for body in bodies) == 5  # no [DONE], bad UTF-8, keep-alives, a refusal, an error
    assert len(answers_in("test-a-gateway", "what a gateway has to get right", "answer")) == 6


def test_every_step_of_a_builder_is_listed() -> None:
    rows = tables_of(page("testing"), "method", "what it adds")
    steps = [eval(f"StreamBuilder().{code}") for (code,) in (code_in(method) for method, _ in rows)]  # noqa: S307
    assert all(isinstance(step, StreamBuilder) for step in steps)
    told = {code.partition("(")[0] for method, _ in rows for code in code_in(method)}
    public = {name for name, value in vars(StreamBuilder).items() if callable(value) and not name.startswith("_")}
    assert told == public - {"answer"}


def test_every_name_is_mentioned() -> None:
    words = set(re.findall(r"\w+", page("testing")))
    assert set(chunkfold.testing.__all__) - words == set()
    strategies = {
        code.partition("(")[0]
        for row in tables_of(page("testing"), "strategy", "what it generates")
        for code in code_in(row[0])
    }
    assert strategies == {"bodies", "builders", "cut_bodies", "cuts", "dialects", "events"}
