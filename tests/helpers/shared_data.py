"""Where tests find other people's data: beside the clone, never inside it."""

from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[3] / "shared"


def shared_data(name: str) -> Path:
    """The path of a file or folder in `../shared`; without it the test, or the module that is being imported, skips."""
    path = _FOLDER / name
    if not path.exists():
        pytest.skip(f"needs ../shared/{name}, which is no part of this repository", allow_module_level=True)
    return path
