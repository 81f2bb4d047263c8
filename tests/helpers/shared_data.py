"""Where tests find other people's data: beside the clone, never inside it."""

import json
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parents[3] / "shared"


def shared_data(name: str) -> Path:
    """The path of a file or folder in `../shared`; without it the test, or the module that is being imported, skips."""
    path = _FOLDER / name
    if not path.exists():
        pytest.skip(f"needs ../shared/{name}, which is no part of this repository", allow_module_level=True)
    return path


def event_stream_suites() -> list[dict[str, Any]]:
    """The tests of other projects' decoders."""
    cases: list[dict[str, Any]] = json.loads(shared_data("conformance/sse.json").read_text("utf-8"))
    return cases
