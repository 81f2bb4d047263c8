"""The docs are true: every example runs and prints the output below it, links lead somewhere, tables are complete."""

import ast
import inspect
import re
from pathlib import Path

import pytest
from cases import each_case
from doc_blocks import FENCED, PAGES, Block, blocks_of, prose_of, run, tables_of, text_of

from chunkfold import ChatCompletionParser
from chunkfold.models.outcome import _OUTCOMES, Outcome
from chunkfold.testing import FakeProvider
from chunkfold.wire.headers import _REQUEST_IDS


def own_blocks_of(page: str) -> list[Block]:
    """But those of other libraries, which `test_migration_docs` runs."""
    return [block for block in blocks_of(page) if block.library is None]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_examples_run_and_print_the_output_below(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a page run in order, in one namespace; `OPENAI_BASE_URL` is an embedded provider's."""
    with FakeProvider() as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        namespace = {"__name__": "__main__"}
        for block in own_blocks_of(page):
            run(block.code, str(PAGES[page]), namespace)
            printed = capsys.readouterr().out
            if block.output is not None:
                assert printed == block.output


BESIDE_PROVIDERS = re.compile(r"docs/(fold-and-serve|test.*)\.md")  # these ask none that could think for long


@each_case("page", [page for page in PAGES if not BESIDE_PROVIDERS.fullmatch(page)])
def test_every_client_has_a_timeout_that_lets_a_model_think(page: str) -> None:
    """Without one it is httpx's, five seconds of silence."""
    assert [line for block in own_blocks_of(page) for line in clients_without_timeout(block.code)] == []


def clients_without_timeout(code: str) -> list[str]:
    tree = compile(code, "block", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    clients = [call for call in calls if re.fullmatch(r"httpx2?\.(Async)?Client", ast.unparse(call.func))]
    return [ast.unparse(call) for call in clients if "timeout" not in {keyword.arg for keyword in call.keywords}]


def test_every_page_has_an_example() -> None:
    assert [page for page in PAGES if not own_blocks_of(page)] == ["docs/changelog.md"]  # which is CHANGELOG.md


# Lines that are too wide to stand beside the sidebars and cannot be shorter, by the page: how each begins. `ruff format`
# wraps code, by `docs/ruff.toml`; output, in blocks of `text`, is wrapped by the site's style sheet.
COLUMNS = 80
WIDE = {
    "docs/command-line.md": ("Error: no response from",),  # one line of output
    "docs/recordings.md": ('{"chunkfold_recording"', '{"at":0.75', '{"at":1.5'),  # one line is one record
}


@each_case("page", [page for page in PAGES if page.startswith("docs/")])
def test_code_fits_the_page_but_for_the_lines_that_are_listed(page: str) -> None:
    blocks = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)
    lines = [line for language, code in blocks if language != "text" for line in code.splitlines()]
    wide, begins = [line for line in lines if len(line) > COLUMNS], WIDE.get(page, ())
    assert [line for line in wide if not line.startswith(begins)] == []
    assert [start for start in begins if not any(line.startswith(start) for line in wide)] == []


# Links


def anchors_of(path: Path) -> set[str]:
    """What a heading is called in a link: lower case, hyphens for blanks, no punctuation."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links_of(page: str) -> list[str]:
    prose = prose_of(page)
    return [*re.findall(r"\]\(([^)\s]+)\)", prose), *re.findall(r"^\[[^\]]+\]: (\S+)$", prose, re.MULTILINE)]


@each_case("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    for link in links_of(page):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = PAGES[page].parent / name if name else PAGES[page]
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_the_index_leads_to_every_page() -> None:
    assert {f"docs/{link}" for link in links_of("docs/index.md")} >= PAGES.keys() - {"docs/index.md", "README.md"}


# Tables


def test_every_finish_reason_that_means_an_error_is_listed() -> None:
    (row,) = re.findall(r"^\| `finish-error` .*$", text_of("docs/errors.md"), re.MULTILINE)
    listed = {word.lower() for word in re.findall(r"`(\w+)`", row)}
    words = {word for word, outcome in _OUTCOMES.items() if outcome is Outcome.ERROR}
    assert {word for word in words - listed if not word.endswith("_error")} == {"error_finish"}  # which has its own row


def test_every_header_with_the_id_of_a_request_is_listed_in_order() -> None:
    (listed,) = re.findall(r"`request_id` is\s+the first of these headers[^:]*:([^;]*);", text_of("docs/payload.md"))
    assert tuple(re.findall(r"`([\w-]+)`", listed)) == _REQUEST_IDS


def test_every_option_of_the_parser_has_a_row() -> None:
    rows = tables_of(prose_of("docs/parser.md"), "option", "what it does", "explained in")
    listed = [name for options, *_ in rows for name in re.findall(r"`(\w+)`", options)]
    assert sorted(listed) == sorted(inspect.signature(ChatCompletionParser).parameters)
