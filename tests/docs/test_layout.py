"""Code on the pages fits beside the sidebars: 80 columns. `ruff format` wraps what it can, by `docs/ruff.toml`.

Output, in blocks of `text`, is wrapped by the site's style sheet, so it may be as wide as it is.
"""

import re
from pathlib import Path

from cases import each_case

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = 80
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)

# Lines that cannot be shorter, by the page: how each begins.
WIDE = {
    "command-line.md": ["Error: no response from"],  # one line of output
    "recordings.md": ['{"chunkfold_recording"', '{"at":0.75', '{"at":1.5'],  # one line is one record
}


def wide_lines(page: Path) -> list[str]:
    blocks = [block for block in BLOCK.finditer(page.read_text("utf-8")) if block["language"] != "text"]
    return [line for block in blocks for line in block["code"].splitlines() if len(line) > COLUMNS]


@each_case("page", PAGES, ids=lambda page: page.stem)
def test_code_fits_the_page(page: Path) -> None:
    begins = tuple(WIDE.get(page.name, ()))
    assert [line for line in wide_lines(page) if not (begins and line.startswith(begins))] == []


def test_every_exception_is_needed() -> None:
    found = {page.name: wide_lines(page) for page in PAGES}
    needless = [
        (name, start)
        for name, starts in WIDE.items()
        for start in starts
        if not any(line.startswith(start) for line in found[name])
    ]
    assert needless == []
