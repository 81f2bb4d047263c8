"""Run by the Python that chunkfold was installed for: it works with nothing but its dependencies."""

import importlib.metadata
import importlib.util
import pathlib
import sys

import chunkfold
from chunkfold.testing import StreamBuilder

folder = pathlib.Path(chunkfold.__file__).parent
stream = chunkfold.ChatCompletionStream(StreamBuilder("stepfun").text("Hel", "lo").finish().done())
assert stream.read().text == "Hello"
assert (folder / "py.typed").exists()
assert (folder / "report" / "style.css").exists()
assert all(hasattr(chunkfold, name) for name in chunkfold.__all__)
assert importlib.util.find_spec("pytest_chunkfold")
assert not {"click", "rich", "opentelemetry"} & sys.modules.keys()
print(f"chunkfold {importlib.metadata.version('chunkfold')} on Python {sys.version.split()[0]}")
