"""The pages of the docs, and their prose."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md")
}
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def text_of(page: str) -> str:
    return PAGES[page].read_text("utf-8")


def prose_of(page: str) -> str:
    """The page without its blocks of code."""
    return FENCED.sub("", text_of(page))
