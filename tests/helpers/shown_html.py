"""HTML read back by the standard library's parser, which knows no more of it than a browser does."""

import re
from html.parser import HTMLParser

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_VOID = {"meta", "link", "col"}


class ShownHtml(HTMLParser):
    """Its elements in order, with their attributes, and its text without style and titles."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(markup)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs))
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and not {"style", "title"} & set(self.open):
            self.text += data + "\n"

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    @property
    def attributes(self) -> list[tuple[str, str | None]]:
        return [pair for _, attributes in self.elements for pair in attributes.items()]

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def pictures(self) -> list[str]:
        return [str(each["aria-label"]) for each in self.all("svg") if each.get("role") == "img"]
