"""The site has every page in its place, the reference every public name, and `llms.txt` every page."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chunkfold
import chunkfold.archive
import chunkfold.recording
import chunkfold.report
import chunkfold.testing

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.relative_to(DOCS).as_posix() for path in [*DOCS.glob("*.md"), *DOCS.glob("reference/*.md")]}


def title_of(page: str) -> str:
    first = (DOCS / page).read_text("utf-8").splitlines()[0]
    return first.removeprefix("# ") if first.startswith("# ") else "Changelog"


def pages_in(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav if isinstance(nav, list) else nav.values():
            yield from pages_in(each)


def test_the_navigation_leads_to_every_page_once() -> None:
    project = tomllib.loads((DOCS / "zensical.toml").read_text("utf-8"))["project"]
    assert sorted(pages_in(project["nav"])) == sorted(PAGES)


def test_the_reference_has_every_public_name() -> None:
    text = "".join(path.read_text("utf-8") for path in (DOCS / "reference").glob("*.md"))
    described = set(re.findall(r"^::: chunkfold\.([\w.]+)$", text, re.MULTILINE))
    public = {*chunkfold.__all__} - {"fold_record"}
    for module in (chunkfold.testing, chunkfold.recording, chunkfold.archive, chunkfold.report):
        public |= {f"{module.__name__.removeprefix('chunkfold.')}.{name}" for name in module.__all__}
    assert public - described == set()


def test_llms_txt_lists_every_page_with_its_title() -> None:
    listed = re.findall(r"^- \[(.+?)\]\((.+?)\)", (DOCS / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted((title_of(page), f"{page.removesuffix('.md')}.html") for page in PAGES)
