"""How a report looks in a browser: at 1280 and 390 pixels, light and dark, with nothing fetched and nothing complained.

The browser is Chromium, its own or playwright's. Contrast is measured as WCAG 2 defines it, on what is painted.
"""

from pathlib import Path
from typing import Any, Self

import pytest
from made_recordings import CUT, EVERY, HOSTILE_RECORDING, PLAIN, REFUSED, WHOLE, long_recording

from chunkfold.recording import Recording, replay
from chunkfold.report import facts_of, page

pytestmark = pytest.mark.browser

WIDTHS = {"desktop": 1280, "phone": 390, "small phone": 320}
SCHEMES = ["light", "dark"]
PAGES: dict[str, list[Recording]] = {
    "one": [WHOLE],
    "several": [WHOLE, CUT, REFUSED, PLAIN, HOSTILE_RECORDING],
    "long": [long_recording(3000, usage_in_each=True)],
    "many of each": [EVERY["many of each"]],
    "hours": [EVERY["hours"]],
}

# The contrast of each piece of text with what is behind it, of those below 4.5 to 1; and of each shape with its
# picture's ground, of those below 3 to 1.
FAINT = """() => {
    const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
    const ground = element => {
        for (; element; element = element.parentElement) {
            const color = parse(getComputedStyle(element).backgroundColor);
            if (color.length === 3 || color[3] === 1) return color;
        }
        return [255, 255, 255];
    };
    const contrast = (a, b) => {
        const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
        return (high + 0.05) / (low + 0.05);
    };
    const faint = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || element.closest("svg")) continue;
        const color = parse(getComputedStyle(element).color);
        if (color[3] === 0) continue;  // left out on purpose
        const ratio = contrast(color, ground(element));
        if (ratio < 4.5) faint.push([walker.currentNode.data, ratio]);
    }
    for (const shape of document.querySelectorAll("svg path:not(.grid):not(.line)")) {
        const style = getComputedStyle(shape);
        const color = parse(style.fill === "none" ? style.stroke : style.fill);
        const ratio = contrast(color, ground(shape));
        if (ratio < 3) faint.push([shape.getAttribute("class"), ratio]);
    }
    return faint;
}"""


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Opened:
    """A page in the browser, and what it did that it should not."""

    def __init__(self, browser: Any, markup: str, folder: Path, width: int, scheme: str) -> None:
        file = folder / "page.html"
        file.write_text(markup, "utf-8")
        self.complaints: list[str] = []
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self._note(request.url, file.as_uri()))
        self.page.goto(file.as_uri())

    def _note(self, url: str, own: str) -> None:
        if url != own and not url.startswith("data:"):
            self.complaints.append(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.context.close()

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)


def made(name: str) -> str:
    return page([facts_of(each, f"{number}.jsonl") for number, each in enumerate(PAGES[name])])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_fetches_nothing(browser: Any, tmp_path: Path, name: str, width: str) -> None:
    with Opened(browser, made(name), tmp_path, WIDTHS[width], "light") as opened:
        assert opened.ask("document.documentElement.scrollWidth") <= WIDTHS[width]
        beyond = "e => e.getBoundingClientRect().right > innerWidth + 1"
        assert opened.ask(f"[...document.querySelectorAll('body *')].filter({beyond}).map(e => e.outerHTML)") == []
        assert opened.complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_contrast_is_enough_in_both_schemes(browser: Any, tmp_path: Path, name: str, scheme: str) -> None:
    with Opened(browser, made(name), tmp_path, 1280, scheme) as opened:
        opened.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert opened.ask(FAINT) == []
        assert opened.complaints == []


def test_the_schemes_differ(browser: Any, tmp_path: Path) -> None:
    grounds = []
    for scheme in SCHEMES:
        with Opened(browser, made("one"), tmp_path, 1280, scheme) as opened:
            grounds.append(opened.ask("getComputedStyle(document.body).backgroundColor"))
    assert len(set(grounds)) == 2


@pytest.mark.parametrize("width", WIDTHS)
def test_pictures_are_seen_and_have_words_for_who_does_not_see_them(browser: Any, tmp_path: Path, width: str) -> None:
    with Opened(browser, made("several"), tmp_path, WIDTHS[width], "light") as opened:
        pictures = opened.ask(
            "[...document.querySelectorAll('svg[role=img]')].map(e => [e.ariaLabel, e.clientWidth, e.clientHeight])"
        )
        assert len(pictures) > 20
        assert all(label and wide >= 100 and high >= 10 for label, wide, high in pictures)
        assert opened.page.get_by_role("img", name="text: 2 events").count() >= 1


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_stay_tables_for_screen_readers_on_a_phone(browser: Any, tmp_path: Path, width: str) -> None:
    with Opened(browser, made("several"), tmp_path, WIDTHS[width], "light") as opened:
        assert opened.page.get_by_role("row", name="reasoning").count() >= 1
        assert opened.page.get_by_role("rowheader", name="0.jsonl").count() == 1
        assert opened.page.get_by_role("columnheader", name="Tokens/s").count() == 1


def test_it_can_be_read_without_scripts(browser: Any, tmp_path: Path) -> None:
    with Opened(browser, made("one"), tmp_path, 1280, "light") as opened:
        assert opened.page.locator("script").count() == 0
        assert opened.page.get_by_text("One moment, please.").is_visible()


def test_in_a_notebook_a_completion_is_readable_and_does_nothing(browser: Any, tmp_path: Path, scheme: str) -> None:
    colours = "#111;color:#ddd" if scheme == "dark" else "#fff;color:#222"
    head = f'<!doctype html><meta charset="utf-8"><body style="background:{colours}">'
    for recorded in (WHOLE, HOSTILE_RECORDING, EVERY["many of each"]):
        markup = head + replay(recorded).snapshot._repr_html_()
        with Opened(browser, markup, tmp_path, 390, scheme) as opened:
            opened.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
            assert opened.ask(FAINT) == []
            assert opened.ask("document.documentElement.scrollWidth") <= 390
            assert opened.complaints == []
