"""Settings of all tests."""

import gc
import os
import shutil
import sys
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import HealthCheck, Phase, settings

# A container often sets it. Then each of the many interpreters that the tests start compiles whatever it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The tests talk to this machine alone: no client needs certificates, which take longer to load than most tests.
os.environ["SSL_CERT_FILE"] = ""
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# A failed assertion of a helper shows its values, as one of a test does.
pytest.register_assert_rewrite(*(path.stem for path in (Path(__file__).parent / "helpers").glob("*.py")))

# No deadline for a single example, nor for drawing it: the machine may be busy, with the other half of these tests to
# begin with. What has to be looked for longer says so, most of it in the slow suite.
settings.register_profile("no deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
# For `mutants.py`, which only asks whether a test fails: the example is not made smaller.
settings.register_profile(
    "mutants", settings.get_profile("no deadline"), phases=set(Phase) - {Phase.shrink, Phase.explain}
)
settings.load_profile("no deadline")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are CPUs, since many tests wait for a socket."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """While the tests are loaded, hardly anything is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What is loaded by now stays until the end: the garbage collector need not traverse it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _learn_at_once() -> None:
    """Streams as short as those of most tests take the short path, too."""
    import chunkfold.parser.template

    chunkfold.parser.template._FIRST_WAIT = 0


@pytest.fixture(scope="session", autouse=True)
def _one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For clients that ignore the environment."""
    first, end, _ = Path(certifi.where()).read_text("utf-8").partition("-----END CERTIFICATE-----\n")
    file = tmp_path_factory.mktemp("certificates") / "one.pem"
    file.write_text(first + end, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifi, "where", lambda: str(file))
        yield


@pytest.fixture(autouse=True)
def _clean_up_after_peers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Other libraries leave event loops and sockets open, which would be found in a later test, and fail it."""
    yield
    if request.node.get_closest_marker("peers") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright (group `browser`)")
    with sync_api.sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        except sync_api.Error as error:
            pytest.skip(f"needs Chromium: {str(error).splitlines()[0]}")
        yield started
        started.close()
