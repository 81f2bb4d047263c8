"""`chunkfold chat` against a provider, a document of Markdown, and the rows that come of it."""

import re
from typing import Any

from command_line import Ran, run, terminal
from rich.console import Console
from rich.text import Text

from chunkfold.cli.answer_view import LiveView
from chunkfold.cli.markdown import MarkdownRows
from chunkfold.testing import StreamBuilder

KEY = "sk-marked-0123456789abcdef"


def said(*pieces: str) -> StreamBuilder:
    return StreamBuilder().text(*pieces)


def asked(url: str, *arguments: str, **options: Any) -> Ran:
    return run("chat", url, "-m", "m", *(arguments or ("Hi",)), **options)


DOCUMENT = """\
# A *plan* for Porto

Here is some **bold text**, `code` and a [link](https://example.org/a?b=c) that goes on, and on, until it is wrapped.
A second line, 2 * 3, snake_case_name, <b>no HTML</b>, averyveryverylongwordthatdoesnotfitintotwentycolumnsatall.

1. First item, with enough text to go on in another row, indented as it should be
2. Second
   - nested, with `code`

> A quote that is long enough to be wrapped at every width but the widest of them all, which is 120 columns.

| Name | Price | Where it goes to, and when | Anything else |
|------|------:|:--------------------------:|---|
| Train | 12.50 | Porto, 15:09 | from Oriente, second class, with a seat at the window |
| 日本 | 7 | slow \\| cheap | no |

```python
def f(x):
    return [y for y in x if y > 3]
```

日本語のテキストはスペースなしで書かれます。**重要：**これは重要な点です。「括弧」も、句読点も、折り返しの先頭には来ません。

- [ ] 🚆 todo
- done ✅
"""


def rows_of(text: str, width: int, size: int | None = None) -> list[Text]:
    """What a text becomes; every row that is open on the way is asked for."""
    rows = MarkdownRows(terminal(width))
    given: list[Text] = []
    for start in range(0, len(text), size or len(text) or 1):
        rows.add(text[start : start + (size or len(text))])
        if size:
            given += rows.settled()
            rows.open_rows()
    return given + rows.end()


def plain(rows: list[Text]) -> list[str]:
    return [row.plain for row in rows]


def live(width: int = 40) -> tuple[Console, LiveView]:
    console = terminal(width)
    return console, LiveView(console, frame=0)


def styles_at(row: Text, place: int) -> set[str]:
    return {str(span.style) for span in row.spans if span.start <= place < span.end} - {""}


def styles_of(row: Text, word: str) -> set[str]:
    place = re.search(rf"(?<!\w){re.escape(word)}", row.plain)
    assert place
    return styles_at(row, place.start())
