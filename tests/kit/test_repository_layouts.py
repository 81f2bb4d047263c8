"""The files for a repository of one's own, as the page on adapters has them, run as a reader runs them: by pytest, with
the real packages, in a folder laid out as the page says."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "test-an-adapter.md"
PACKAGES = {  # heading: what it needs
    "openai's SDK": "openai",
    "httpx": "httpx",
    "aiohttp": "aiohttp",
    "LangChain's ChatOpenAI": "langchain_openai",
}


def files_on_the_page() -> dict[str, str]:
    found = re.findall(
        r"^### An adapter on ([^\n]+)\n\n```py\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return dict(found)


def test_there_is_one_for_each_client() -> None:
    assert files_on_the_page().keys() == PACKAGES.keys()


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("client", PACKAGES)
def test_it_passes_in_a_repository(client: str, tmp_path: Path) -> None:
    package = PACKAGES[client]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_streaming.py").write_text(files_on_the_page()[client], "utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTEST_", "COV_"))}
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            f"--rootdir={tmp_path}",
            "tests",
        ],
        cwd=tmp_path,
        env=env | {"no_proxy": "127.0.0.1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert re.search(r"^\d+ passed", ran.stdout, re.MULTILINE), ran.stdout[-4000:]
    assert ran.returncode == 0
