"""Rows of Markdown: what is given out must not depend on how the text was cut."""

import re

import pytest
from cases import each_case
from chat_command import DOCUMENT, live, plain, rows_of, styles_at, styles_of
from command_line import screen_of, terminal, written_to
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from chunkfold.cli.markdown import MarkdownRows

CASES: list[tuple[str, list[str]]] = [
    ("", []),
    ("\n\ntext\n\n\n", ["text"]),
    ("a  \nb\\\nc\nd", ["a", "b", "c", "d"]),
    ("# One #\n###### Six\n####### no\n#no\n#", ["One", "", "Six", "", "####### no", "#no"]),
    ("a\n===\nb\n---\n***\n- - -\n_ _", ["a", "", "b", "", "─" * 30, "", "─" * 30, "", "_ _"]),
    ("- a\n- b\n\n- c\n* d", [" • a", " • b", " • c", "", " • d"]),
    ("- a\n  - b\n    - c\n      - d", [" • a", "    • b", "       • c", "          • d"]),
    ("1. a\n1. b\n7. c\n2) d", ["  1 a", "  2 b", "  3 c", "", "  2 d"]),
    ("99. a\n100. b", ["  99 a", " 100 b"]),
    ("- a\n\n  b\n\nc", [" • a", "   b", "", "c"]),
    ("- a\nlazy\n\nnot", [" • a", "   lazy", "", "not"]),
    ("-\n-\n- x\n\n1.", [" • x"]),
    ("text\n1986. no list\n- a list", ["text", "1986. no list", "", " • a list"]),
    ("> a\nlazy\n>\n> b\n\nc", ["▌ a", "▌ lazy", "▌ b", "", "c"]),
    ("> - a\n>   b\n> > c", ["▌  • a", "▌    b", "▌ ▌ c"]),
    ("```\n# no\n\n  - no\n~~~\n```\n# yes", ["```", "# no", "", "  - no", "~~~", "```", "", "yes"]),
    ("- x\n  ```py\n  a\n    b\n  ```\n- y", [" • x", "   a", "     b", " • y"]),
    ("````\n```\n````", ["````", "```", "````"]),
    ("```a`b```", ["a`b"]),
    ("    code\n      more\n\ntext", ["code", "  more", "", "text"]),
    ("text\n    no code", ["text", "no code"]),
    ("|a|b|\n|-|-|\n|1|2|\ntext", [" a     b", " ───────", " 1     2", " text"]),
    ("a | b\n--|--:\n`x` | 2 | 3\n|\n# t", [" a  b", " ────", " x  2", "", "t"]),
    ("a | b\nno table", ["a | b", "no table"]),
    ("p\n| a |\n|---|\n| b \\| c |", ["p", "", " a", " ─────", " b | c"]),
    ("**b** *i* ~~s~~ `c` \\* &amp; <b>", ["b i s c * & <b>"]),
    ("2 * 3 * 4, **open, _open, [open](, a_b_c", ["2 * 3 * 4, **open, _open,", "[open](, a_b_c"]),
    ("[a](http://b) <http://c> ![d](http://e)", ["a (http://b) http://c [image:", "d] (http://e)"]),
    ("[http://good](http://evil)", ["http://good (http://evil)"]),
    ("\\( a_1 \\) and \\[ b \\]", ["\\( a_1 \\) and \\[ b \\]"]),
    ("日本語のテキストはスペースなしで書かれます。そう、", ["日本語のテキストはスペースなし", "で書かれます。そう、"]),
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa。", ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "。"]),
    ("- [ ] a\n- [x] b\n  - [ ] c", [" • ☐ a", " • ☑ b", "    • ☐ c"]),
    ("x" * 70, ["x" * 30, "x" * 30, "x" * 10]),
    ("\ta\n-\tb", ["a", "", " • b"]),
]


@each_case(("source", "expected"), CASES)
@each_case("size", [None, 1])
def test_markdown_becomes_rows(source: str, expected: list[str], size: int | None) -> None:
    assert plain(rows_of(source, 30, size)) == expected


def test_lines_that_were_wrapped_are_wrapped_anew_and_short_ones_are_kept() -> None:
    long = "word " * 11 + "words"  # 60 characters
    assert plain(rows_of(f"{long}\nand\nso on", 80, 3)) == [f"{long} and", "so on"]
    assert plain(rows_of(f"{long}  \nand\\\nso on", 80, 3)) == [long, "and", "so on"]
    assert plain(rows_of(f"{long[1:]}\nand", 80, 3)) == [long[1:], "and"]
    assert plain(rows_of(f"{long * 4}\\\nand", 500, 3)) == [long * 4, "and"]
    assert plain(rows_of(f"> {long}\n> and", 80, 3)) == [f"▌ {long} and"]


def test_markdown_has_styles() -> None:
    text = rows_of("# t\n**b** *i* ***bi*** ~~s~~ `c` [l](u)\n```python\ndef f():\n    '''a\n    b'''", 80, 2)
    assert styles_of(text[0], "t") == {"bold underline"}
    looks = {
        "b": {"bold"},
        "i": {"italic"},
        "bi": {"bold italic"},
        "s": {"strike"},
        "c": {"bold cyan"},
        "l": {"bright_blue"},
        "u": {"underline blue"},
    }
    for word, expected in looks.items():
        assert styles_of(text[2], word) == expected
    assert "blue" in str(styles_of(text[5], "def"))
    assert styles_of(text[6], "a") == styles_of(text[7], "b")  # a string over two lines


@each_case(
    ("source", "expected", "bold"),
    [
        ("**重要：**これは", "重要：これは", "重要："),
        ("これは**「重要」**です。", "これは「重要」です。", "「重要」"),
        ("문서는 **마크다운(md)**을", "문서는 마크다운(md)을", "마크다운(md)"),
        ("日本語 ** 重要：** これ", "日本語 ** 重要：** これ", ""),
        ("a**“b.”**c", "a**“b.”**c", ""),  # as in CommonMark
    ],
)
def test_emphasis_next_to_east_asian_punctuation(source: str, expected: str, bold: str) -> None:
    (row,) = rows_of(source, 80, 1)
    assert row.plain == expected
    assert "".join(row.plain[span.start : span.end] for span in row.spans if "bold" in str(span.style)) == bold


@each_case(
    ("colours", "expected"), [(None, "bright_blue"), ("15;0", "bright_blue"), ("0;15", "blue"), ("0;default;7", "blue")]
)
def test_code_has_no_bright_colours_on_a_white_terminal(
    colours: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLORFGBG", raising=False)
    if colours is not None:
        monkeypatch.setenv("COLORFGBG", colours)
    assert styles_of(rows_of("```python\ndef f(): ...", 80)[1], "def") == {expected}
    assert styles_of(rows_of("> ```python\n> def f(): ...", 80)[0], "def") == {f"{expected} on default"}


PIECES = [
    *("- ", "* ", "12. ", "1) ", "> ", "# ", "```", "```python", "~~~", "|", "| a | b |", "|---|---|", "---", "==="),
    *("**", "*", "_", "`", "``", "~~", "[", "](http://x)", "]", "(", ")", "!", "\\", "<b>", "&#x1b;", "&amp;", "\t"),
    *("\n", "\n", "\n\n", "\n    ", " ", "  ", "word", "snake_case", "x*y", "日本語", "。", "：", "“q”", "é", "👩‍👩‍👧"),
    *("x" * 50, "日" * 30, "\x1b[2J", "\u202e", "\x9b", "- - -", "word " * 60, "| a " * 60),
]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
SIZES, WIDTHS = st.sampled_from([1, 2, 7, 40, 211]), st.sampled_from([1, 7, 20, 80])


@pytest.mark.parametrize("often", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_rows_do_not_depend_on_how_the_text_was_cut(often: int) -> None:
    settings(max_examples=often)(given(MARKDOWN, SIZES, WIDTHS)(check_rows))()


def check_rows(text: str, size: int, width: int) -> None:
    whole, cut = rows_of(text, width), rows_of(text, width, size)
    assert plain(whole) == plain(cut)
    for one, other in zip(whole, cut, strict=True):
        assert [styles_at(one, place) for place in range(len(one))] == [
            styles_at(other, place) for place in range(len(other))
        ]
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e]", "".join(plain(whole)))


@given(st.lists(st.sampled_from(["word ", "**bold** ", "- item ", "\n", "# ", "> ", "`a b` "]), max_size=30), st.data())
def test_everything_that_came_is_shown_at_every_moment(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    end = data.draw(st.integers(0, len(text)))
    rows = MarkdownRows(terminal(25))
    rows.add(text[:end])
    shown = "".join(plain([*rows.settled(), *rows.open_rows()]))
    assert re.sub(r"[^a-z]", "", shown) == re.sub(r"[^a-z]", "", text[:end])


@pytest.mark.parametrize("width", [120, 80, 40, 20])
def test_rows_fit_the_screen(width: int) -> None:
    prose = re.sub("```.*```", "", DOCUMENT, flags=re.DOTALL)
    wide = [row for row in plain(rows_of(prose, width, 67)) if cell_len(row) > width]
    assert wide == []


def test_words_stay_apart_where_a_row_is_full() -> None:
    for size in (1, 5, 14):
        assert plain(rows_of("word " * 18, 14, size)) == ["word word word"] * 6


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]8;;http://evil\x1b\\text",
        "&#x1b;[2J &#27;[2J &#x9b;2J &#x202e;",
        "<http://a/%1b[2J> [x](http://a/%1b[2J) [x](<http://a/\x1b[2J>)",
        "![\x1b[2J](http://\x1b[2J)",
        "```\x1b[2J\n\x1b[2J\n```",
        "| \x1b[2J |\n|---|\n| \x1b[2J |",
        "# \x1b[2J\n- \x1b[2J\n> \x1b[2J",
        "`\x1b[2J` **\x1b[2J** \\\x1b[2J",
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_nothing_in_markdown_acts_on_the_terminal(text: str, size: int) -> None:
    console, view = live()
    with view:
        for start in range(0, len(text), size):
            view.add(text[start : start + size])
    written = written_to(console)
    assert not re.search("[\x00-\x09\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e]", written)
    assert "\x1b]" not in written
    screen_of(written, 40)  # which fails for a sequence that is not the view's own
