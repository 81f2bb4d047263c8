"""How an answer is drawn while it grows: which rows are written again, and what that costs."""

import errno
import io
import re
import threading
import time
from collections.abc import Callable
from itertools import count, islice

import pytest
from chat_command import DOCUMENT, live, plain, styles_of
from command_line import PATIENCE, screen_of, terminal, wait_until, written_to
from counted_calls import calls_of
from pygments.lexer import Lexer
from rich.console import Console
from rich.text import Text

from chunkfold import ChatCompletionParser
from chunkfold.cli.answer_view import LiveView
from chunkfold.cli.markdown import MarkdownRows
from chunkfold.cli.painter import Painter
from chunkfold.cli.rows import ZeroWidthLimit
from chunkfold.cli.tail import Call, Tail
from chunkfold.testing import delta, fragment

# Drawing


TITLE, BOLD, LISTED = ["A title", ""], ["bold and code", ""], [" • x", "", "```py", "1 + 2", "", "3"]
MOMENTS: dict[str, list[tuple[str, list[str]]]] = {
    "blocks": [
        ("## A ti", ["A ti"]),
        ("tle\n\n**bo", [*TITLE, "bo"]),
        ("ld** and `co", [*TITLE, "bold and co"]),
        ("de`\n\n- ", [*TITLE, "bold and code"]),
        ("x\n```py\n1 +", [*TITLE, *BOLD, *LISTED[:3], "1 +"]),
        (" 2\n\n3\n``", [*TITLE, *BOLD, *LISTED, "``"]),
        ("`\n| a | b |\n|--|--|\n| 1", [*TITLE, *BOLD, *LISTED, "```", "", " a  b", " ────", " 1"]),
    ],
    "the target of a link": [("[a](", ["[a]("]), ("http://b", ["a (http://b)"]), ("/c) d", ["a (http://b/c) d"])],
}


@pytest.mark.parametrize("moments", MOMENTS.values(), ids=MOMENTS)
def test_what_is_open_is_drawn_as_it_will_be(moments: list[tuple[str, list[str]]]) -> None:
    console, view = live()
    with view:
        for piece, expected in moments:
            view.add(piece)
            assert screen_of(written_to(console), 40) == expected


def test_only_rows_that_changed_are_written_again() -> None:
    console, view = live()
    with view:
        view.add("| a | b |\n|---|---|\n" + "| cell | other |\n" * 10)
        before = len(written_to(console))
        view.add("| next")
        assert len(written_to(console)) - before < 60


def test_a_narrower_terminal_draws_what_is_open_anew() -> None:
    console, view = live()
    with view:
        view.add("one two three four five")
        console.width = 10
        view.add(" six")
    assert screen_of(written_to(console), 40) == ["one two", "three four", "five six", ""]


def test_of_another_size_only_the_terminal_knows_where_the_rows_are() -> None:
    console, view = live()
    with view:
        view.add("one")
        console.width = 30
        before = len(written_to(console))
        view.show_tool_calls([Call("f", "")])
        # So all of them are drawn again, from where the cursor rests.
        assert written_to(console)[before:].startswith("\r\x1b[999M\x1b[?7lone\n")


def test_a_long_line_of_code_is_seen_while_it_grows() -> None:
    console, view = live()
    with view:
        view.add("```\n" + "x" * 50)
        assert screen_of(written_to(console), 40) == ["```", "x" * 40, "x" * 10]
        view.add("y")
        assert screen_of(written_to(console), 40) == ["```", "x" * 40, "x" * 10 + "y"]
        view.add("\n```")
    assert "x" * 50 + "y" in written_to(console)  # the terminal breaks it, so it can be copied


def test_more_than_a_screen_is_open_and_its_end_is_shown() -> None:
    console, view = live()  # of 20 rows
    with view:
        view.show_tool_calls([Call(f"f{number}", "{}") for number in range(50)])
        assert screen_of(written_to(console), 40) == [f"tool call: f{number} {{}}" for number in range(31, 50)]
    assert len(screen_of(written_to(console), 40)) == 51


def test_blanks_at_the_end_of_an_open_row_are_not_drawn() -> None:
    console, _ = live()
    assert Tail(console).fitted([Text("text  ")]) == ["text"]


ZERO_WIDTH = ["\u200b", "\u0301", "\U0001f468\u200d", "\U0001f3fd", "\ufe0f\u200b"]


@pytest.mark.parametrize("piece", ZERO_WIDTH, ids=ascii)
def test_of_characters_without_width_so_many_are_shown_as_make_one(piece: str) -> None:
    for whole in (piece * 1000, piece * 1000 + "end"):
        places = re.split(r"(?<!\u200d)(?=[\U0001f468e])", ZeroWidthLimit().cut(whole))
        assert max(map(len, places)) <= 18
        assert ZeroWidthLimit().cut(whole).count("\U0001f468") == whole.count("\U0001f468")


@pytest.mark.parametrize("text", ["e\u0301", "\U0001f469\U0001f3fb\u200d\u2764\ufe0f\u200d\U0001f48b\u200d\U0001f468\U0001f3ff", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "हिन्दी", "ที่", "日本\n\u200bx"])  # fmt: skip
def test_characters_that_people_write_are_shown_whole(text: str) -> None:
    limit = ZeroWidthLimit()
    assert "".join(limit.cut(character) for character in text * 20) == ZeroWidthLimit().cut(text * 20) == text * 20


def test_what_came_since_the_last_frame_is_drawn_though_nothing_follows() -> None:
    console = terminal(40)
    with LiveView(console, frame=0.01) as view:
        view.add("one")
        view.add(" two")
        wait_until(lambda: screen_of(written_to(console), 40) == ["one two"])
        view.show_tool_call(0, Call("f", "{}"))
        wait_until(lambda: screen_of(written_to(console), 40)[1:] == ["", "tool call: f {}"])


def test_nothing_is_drawn_between_two_frames() -> None:
    console = terminal(40)
    with LiveView(console, frame=PATIENCE) as view:
        for number in range(100):
            view.add(f"{number}\n\n")
        assert written_to(console) == "\x1b[?25l"
    assert [row for row in screen_of(written_to(console), 40) if row] == list(map(str, range(100)))


def test_an_interrupt_as_something_is_added_does_not_keep_the_view_from_ending() -> None:
    """Wherever it comes, also right behind the entry of the lock, which then stays locked."""
    console = terminal(40)
    view = LiveView(console, frame=0.01)

    def interrupted() -> None:
        with view:
            view.add("one", is_reasoning=True)
            change = view._change()
            change.__enter__()
            view.add("two")
            time.sleep(0.1)  # until the next frame waits for the lock

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert [row for row in screen_of(written_to(console), 40) if row] == ["one", "two"]
    view._drawing.join(PATIENCE)  # it got the lock as `change` was deleted, and draws no more
    assert written_to(console).endswith("\x1b[?25h")


class Gone(io.StringIO):
    """A terminal that is gone once the cursor is hidden."""

    attempts = 0

    def write(self, text: str) -> int:
        if self.tell():
            self.attempts += 1
            raise OSError(errno.EIO, "gone")
        return super().write(text)


def test_a_terminal_that_is_gone_is_noticed_at_the_end() -> None:
    file = Gone()
    console = Console(file=file, force_terminal=True, _environ={"TERM": "xterm"})
    view = LiveView(console, frame=0.01)
    with pytest.raises(OSError, match="gone"), view:
        wait_until(lambda: file.attempts or view.add("text"))


def test_lines_of_code_have_their_colours_as_soon_as_they_are_whole() -> None:
    lines = ["def f():", "    '''a", "    b", "", "    c'''", *(f"    x{number} = 'y'" for number in range(20))]
    rows = MarkdownRows(terminal(40))
    rows.add("```python\n")
    given = rows.settled()[1:]
    for number, line in enumerate(lines, 1):
        rows.add(f"{line}\n")
        given += rows.settled()
        assert len(given) == (1 if 1 < number < 5 else number)  # a string is coloured as a whole
        assert plain([*given, *rows.open_rows()]) == lines[:number]
    assert styles_of(given[1], "a") == styles_of(given[4], "c") != styles_of(given[5], "x0")
    assert styles_of(given[24], "x19") == styles_of(given[5], "x0")


@pytest.mark.parametrize(
    ("language", "code", "most"),
    [
        *((language, "'''\n" + "a line\n" * 100 + "'''\n" + "x = 1\n" * 100, 2.1) for language in ("python", "html")),
        ("nothing", "x = 1\n" * 100, 0),
        ("python", "def f(x):  # comment\n    return 'text'\n" * 100, 1),  # no string goes over several lines
    ],
)
def test_a_line_of_code_is_coloured_at_most_twice(
    language: str, code: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    get_tokens = Lexer.get_tokens
    monkeypatch.setattr(Lexer, "get_tokens", lambda lexer, text: sizes.append(len(text)) or get_tokens(lexer, text))
    rows = MarkdownRows(terminal(40))
    rows.add(f"```{language}\n")
    for line in code.splitlines(keepends=True):
        rows.add(line)
        rows.settled()
        rows.open_rows()
    rows.end()
    assert sum(sizes) <= most * len(code)


def test_a_live_view_needs_no_more_than_a_string_to_draw_on() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=2, height=1, _environ={"TERM": "xterm"})
    with LiveView(console) as view:
        view.add(DOCUMENT)
    assert "\x1b[?25h" in written_to(console)


# What it costs


CODE, TABLE = "```python\n", "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 25
ENDLESS: dict[str, Callable[[int], str]] = {
    "lines": lambda number: f"line {number}\n",
    "one paragraph": lambda number: f"word{number} ",
    "one word": lambda number: f"{number:07}",
    "no spaces": lambda number: "日本語の文",
    "a mark that is not closed": lambda number: "text " if number else "**",
    "marks": lambda number: "*a `b [c ",
    "a list": lambda number: f"- item {number}\n",
    "nested lists": lambda number: f"{'  ' * (number % 12)}- item {number}\n",
    "a quote": lambda number: f"> > text {number}\n",
    "code": lambda number: ["x =", " ", str(number), "\n"][number % 4] if number else CODE,
    "one line of code": lambda number: f"x={number};" if number else CODE,
    "a table": lambda number: ["| ", str(number), " | b", " |\n"][number % 4] if number else TABLE + "|",
    "one line of a table": lambda number: f" {number} |" if number else TABLE + "|",
    "empty lines": lambda number: "\n",
    "spaces": lambda number: "     ",
    "short lines of code": lambda number: "x\n" if number else CODE,
    **{ascii(piece): lambda number, piece=piece: piece for piece in ZERO_WIDTH},
}
MANY = 20
QUICK = {"one word", "code", "spaces"}  # the others take longer


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in ENDLESS]
)
def test_what_a_long_answer_costs_is_linear(kind: str) -> None:
    """Looked at as often for each piece, four times as many pieces cost about four times as much."""

    def cost(pieces: int) -> int:
        rows = MarkdownRows(terminal(80))

        def draw() -> None:
            for number in range(pieces):
                rows.add(ENDLESS[kind](number))
                if number % 100 == 0:
                    rows.settled()
                    rows.open_rows()
            rows.end()

        return calls_of(draw)

    cost(100)  # what is loaded is loaded
    few = 8000 if kind in map(ascii, ZERO_WIDTH) else 1000  # an open block is drawn up to a length
    assert cost(4 * few) < 5.5 * cost(few)


def test_a_call_that_grows_draws_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[str] = []
    fitted = Tail.fitted
    monkeypatch.setattr(Tail, "fitted", lambda tail, given: rows.extend(map(str, given)) or fitted(tail, given))
    _, view = live()  # of 20 rows
    with view:
        for position in range(50):
            view.show_tool_call(position, Call(f"f{position}"))
        rows.clear()
        view.show_tool_call(0, Call("f0", "{"))  # which is not to be seen
        assert rows == []
        view.show_tool_call(49, Call("f49", "{"))
        assert rows == ["tool call: f49 {"]


def test_many_tool_calls_cost_no_more_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fills in is drawn again, and no other one; at the end each is drawn once."""
    _, view = live()
    parser = ChatCompletionParser()
    painter = Painter(view, parser)
    numbers = count()

    def call_many() -> None:
        for index in islice(numbers, MANY):
            parser.feed(delta(tool_calls=[fragment(index, f"call_{index}", "f", '{"x": 1}')]))
            painter.draw()

    with view:
        call_many()
        early = calls_of(call_many)
        for _ in range(8):
            call_many()
        assert calls_of(call_many) < early * 1.2


def test_finished_blocks_are_printed_once() -> None:
    console, view = live(60)
    with view:
        for number in range(80):
            view.add(f"{number:04}\n\n")
    # A block is drawn while it is open, and once for good.
    assert max(written_to(console).count(f"{number:04}") for number in range(80)) <= 3
