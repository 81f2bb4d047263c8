"""What terminals get to see: nothing that a model, a provider or a client says acts, wherever it is cut."""

import io
import json
import re
from contextlib import redirect_stderr, suppress
from typing import Any

import pytest
from cases import each_case
from marked_texts import acting, event, marked

from chunkfold import ChatCompletionStream, ChunkfoldError
from chunkfold.testing import DONE, delta, fragment, hold, hostile_streams
from chunkfold.testing.hostile.clients import client_of
from chunkfold.testing.hostile.report import plain_text

pytest.importorskip("click")
pytest.importorskip("rich")

from rich.console import Console

from chunkfold.cli.answer_view import LiveView, TextView
from chunkfold.cli.facts import error_line, footer, result_of
from chunkfold.cli.painter import Painter

# What rich writes of itself: its styles, the cursor hidden and shown, up a row, a row erased.
VIEWS_OWN = re.compile(r"\x1b\[(?:0|1|2|36|1;36)m|\x1b\[\?(?:25|7)[lh]|\x1b\[\d{1,3}[AB]|\x1b\[999M|\x1b\[2K|\r")
ATTACKS = {
    "colour": "\x1b[31m",
    "erase": "\x1b[2J",
    "reset": "\x1bc",
    "title": "\x1b]0;root\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "C1": "\x9b31m\x9d0;root\x9c\x85",
    "carriage return": "yes\rno\r\nand",
    "backspaces": "yes\b\b\bno\x7f",
    "bells": "\x07\x00\x0b\x0c\x0e\x0f",
    "override": "\u202egpj.exe\u202c",
    "embedding": "\u202a\u202b\u202dx\u202c",
    "isolate": "\u2067x\u2066y\u2068z\u2069",
    "marks": "\u200e\u200f\u061c",
    "separators": "a\u2028b\u2029c",
    "half a character": "\ud83d",
    "both halves": "\ud83d\ude00",
    "halves the wrong way": "\ude00\ud83d",
    "markup": "[red]x[/red] :smile: [link=http://evil.example]y[/link]",
}


def on_a_console(is_terminal: bool) -> Console:
    return Console(
        file=io.StringIO(), width=80, height=24, force_terminal=is_terminal, highlight=False, _environ={"TERM": "xterm"}
    )


def shown_of(reads: list[bytes], *, is_terminal: bool) -> str:
    """What the command line writes of a stream: as it comes, then what there is to say of it."""
    console = on_a_console(is_terminal)
    assert isinstance(console.file, io.StringIO)
    view = LiveView(console) if is_terminal else TextView(console.file)
    stream = ChatCompletionStream(reads)
    with redirect_stderr(console.file):
        with suppress(ChunkfoldError), view, Painter(view, stream) as painter:
            painter.draw()
        result = result_of(stream)
        view.show_facts(footer(result))
    if result.error is not None:
        console.file.write(error_line(result) + "\n")
    return console.file.getvalue()


def check_screen(written: str, *, is_terminal: bool) -> None:
    """Nothing acts but what rich wrote of itself, and elsewhere than on a terminal nothing at all."""
    rest = VIEWS_OWN.sub("", written) if is_terminal else written
    assert not acting(rest, "\n")
    written.encode()  # which halves of characters would not let


def everywhere(first: str, second: str) -> list[bytes]:
    """Two deltas that bring the two texts in every field that is drawn."""
    return [
        *(delta(reasoning=text) for text in (first, second)),
        *(delta(content=text) for text in (first, second)),
        *(delta(tool_calls=[fragment(0, first, text)]) for text in (first, second)),
        *(delta(tool_calls=[fragment(0, arguments=text)]) for text in (first, second)),
        delta(
            tool_calls=[{"index": 1, "id": "b", "type": "custom", "custom": {"name": second, "input": first + second}}]
        ),
        delta(tool_calls=[fragment(2, "c", first, arguments_of(first + second))]),
    ]


def arguments_of(text: str) -> str:
    return json.dumps({text: [text]})


@pytest.mark.parametrize("is_everywhere", [False, pytest.param(True, marks=pytest.mark.slow)])
@each_case("is_terminal", [True, False], ids=["terminal", "pipe"])
@each_case("attack", ATTACKS)
def test_nothing_a_model_says_acts_wherever_it_is_cut(attack: str, is_terminal: bool, is_everywhere: bool) -> None:
    """The cuts that matter most are near both ends; in a pipe, one cut is enough outside of the slow suite."""
    text = ATTACKS[attack]
    size = len(text)
    few = {*range(min(size, 5)), size - 1, size} if is_terminal else {size // 2}
    for place in range(size + 1) if is_everywhere else sorted(few):
        reads = everywhere(text[:place], text[place:])
        check_screen(shown_of([*reads, delta(text), DONE], is_terminal=is_terminal), is_terminal=is_terminal)


@each_case("attack", ATTACKS)
def test_it_is_visible_instead(attack: str) -> None:
    text = ATTACKS[attack]
    for place in range(len(text) + 1):
        reads = [delta(content=part) for part in (text[:place], text[place:])]
        written = shown_of([*reads, delta("stop"), DONE], is_terminal=False)
        assert written.rpartition("finished: stop")[0] == visible(text)


def visible(text: str) -> str:
    """The text with what acts in it as Python would write it; carriage returns are dropped."""
    text = text.replace("\r", "")
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # halves that belong together, joined
    return "".join(
        letter if letter == "\n" or letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in whole
    )


@each_case("is_terminal", [True, False], ids=["terminal", "pipe"])
@each_case("attack", ATTACKS)
def test_nothing_a_provider_says_of_an_error_acts(attack: str, is_terminal: bool) -> None:
    text = ATTACKS[attack]
    for last in (
        event({"error": {"message": text, "type": text, "code": text}}),
        event(re.sub("[\r\n]", " ", text).encode("utf-8", "replace")),
        delta(content={text: text}),
        b"",
    ):
        check_screen(shown_of([delta(content=text), last], is_terminal=is_terminal), is_terminal=is_terminal)


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_nothing_that_stands_for_a_count_acts(name: str, is_terminal: bool) -> None:
    for attack in ATTACKS.values():
        usage = {"prompt_tokens": 1, "completion_tokens": 1, name: attack}
        reads = [delta(content="Hi"), delta("stop"), event({"choices": [], "usage": usage}), DONE]
        check_screen(shown_of(reads, is_terminal=is_terminal), is_terminal=is_terminal)


@pytest.mark.parametrize(
    "returned",
    [
        {"error": marked("error")},
        {
            "text": marked("text"),
            "tool_calls": [{"id": marked("id"), "name": marked("name"), "arguments": marked("text")}],
        },
        {"text": "", "reasoning": marked("reasoning")},
        {"text": "", "usage": {"prompt_tokens": marked("count")}},
        {"text": "", "finish_reason": marked("reason")},
    ],
    ids=lambda returned: [*returned][-1],
)
def test_nothing_that_a_client_returns_acts_in_the_report_on_it(returned: dict[str, Any]) -> None:
    client = client_of("a client", lambda body: returned)
    report = plain_text([(client, hold(client, hostile_streams()[::5]))])
    assert not acting(report, "\n")
    assert max(map(len, report.splitlines())) < 2_000
