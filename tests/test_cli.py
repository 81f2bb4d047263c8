"""The command line, as a user sees it: in a pipe, on a terminal, and without its extra."""

import importlib.metadata
import re
import sys
from collections.abc import Sequence

import pytest

import chunkfold
from chunkfold.testing import Answer

pytest.importorskip("click")
pytest.importorskip("rich")

from command_line import (
    Ran,
    on_a_terminal,
    pipe,
    piped,
    read_a_line_and_close,
    run,
    screen_of,
    started,
    styles,
    terminal,
    written_to,
)

from chunkfold.cli.answer import LiveAnswerView, PlainAnswerView
from chunkfold.cli.demo_answers import scripted_answers
from chunkfold.cli.facts import completion_facts, error_facts, stream_facts
from chunkfold.cli.safe import harmless, one_line
from chunkfold.cli.screen import Screen

DEMO = ("demo", "--speed", "1000")

REASONING = [
    "Two things are asked for: a train from Lisbon that arrives before 19:00, and a room for two nights.",
    "Neither depends on the other, so I can look for both at once.",
]
ANSWER = [
    "I'll look for a train to Porto and for a room near the station, both at the same time.",
    'tool call: search_trains {"origin": "Lisboa", "destination": "Porto", "date": "2026-03-06", "arrive_before": "19:00"}',
    'tool call: find_rooms {"city": "Porto", "near": "São Bento", "nights": 2, "max_price": 120.0}',
]
FACTS = [
    ("parsed call", "search_trains(origin='Lisboa', destination='Porto', date='2026-03-06', arrive_before='19:00')"),
    ("parsed call", "find_rooms(city='Porto', near='São Bento', nights=2, max_price=120.0)"),
    ("finish reason", "tool_calls (outcome: tool_calls)"),
    ("usage", "412 prompt tokens (384 cached), 131 completion tokens (48 reasoning)"),
    ("ended", "finished"),
    ("first token", "after #"),
    ("speed", "#"),
]
CUT = (
    "Your seat is booked: car 21, seat 46, in the train that leaves Oriente at 15:09 and is in Porto at 18:02. "
    "The hotel is in the Rua das Flores, five minutes on foot from"
)
PEER_CLOSED = "peer closed connection without sending complete message body (incomplete chunked read)"
ERROR_FACTS = [
    ("partial text", repr(CUT)),
    ("error", "StreamInterruptedError"),
    ("message", f"the transport failed before the stream was complete: {PEER_CLOSED!r}"),
    ("retryable", "no, for output was shown already (yes with after_output=True)"),
    ("ended", "interrupted"),
]


def without_numbers(line: str) -> str:
    """Times are not the same twice, and where everything comes in one read there is no speed."""
    return re.sub(r"^(first token: after|speed:) .*", r"\1 #", line)


# The demo


@pytest.fixture(scope="module")
def demo() -> list[str]:
    """What the demo says in a pipe."""
    return lines_of(piped(*DEMO))


def lines_of(ran: Ran) -> list[str]:
    assert (ran.stderr, ran.exit_code) == ("", 0)
    assert all(character.isprintable() or character == "\n" for character in ran.stdout)
    return [without_numbers(line) for line in ran.stdout.splitlines()]


def test_demo_in_a_pipe_is_plain_lines(demo: list[str]) -> None:
    assert demo == [
        "",
        "1. Reasoning, text, and two tool calls at once",
        "you: I have to be in Porto on Friday by seven, and need a room for two nights.",
        "",
        *(f"reasoning: {line}" for line in REASONING),
        *ANSWER,
        "",
        *(f"{label}: {value}" for label, value in FACTS),
        "",
        "2. The connection breaks",
        "you: Book the train. And where is the hotel?",
        "",
        CUT,
        "",
        *(f"{label}: {value}" for label, value in ERROR_FACTS),
    ]


@pytest.mark.parametrize(
    ("width", "variables", "colours"), [(50, {}, {"36", "1;36"}), (200, {"NO_COLOR": "1"}, set())], ids=["50", "200"]
)
def test_demo_on_a_terminal_has_the_same_facts(width: int, variables: dict[str, str], colours: set[str]) -> None:
    drawn, written, exit_code = on_a_terminal(*DEMO, width=width, **variables)
    assert exit_code == 0
    shown = " ".join(" ".join(drawn).split())
    for line in [*REASONING, *ANSWER, *(value for _, value in (*FACTS, *ERROR_FACTS) if "#" not in value)]:
        assert line in shown
    for label, value in (*FACTS, *ERROR_FACTS):
        beginning = re.escape(value.split()[0])
        assert "#" in value or any(re.match(f"{label}  +{beginning}", row) for row in drawn)
    # Once each: nothing of what was drawn in between is left.
    assert shown.count("Neither depends") == shown.count("tool call: find_rooms") == shown.count("search_trains {") == 1
    assert "\x1b[2mNeither" in written  # dimmed
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 2  # the cursor is back
    assert styles(written) == {"0", "1", "2"} | colours


def test_a_dumb_terminal_gets_plain_lines(demo: list[str]) -> None:
    written = on_a_terminal(*DEMO, width=300, TERM="dumb").written
    assert [without_numbers(line) for line in written.splitlines()] == demo


def test_a_forced_colour_does_not_make_a_terminal_of_a_pipe(demo: list[str]) -> None:
    assert lines_of(run(*DEMO, FORCE_COLOR="1", CLICOLOR_FORCE="1", TTY_COMPATIBLE="1")) == demo


def test_a_proxy_of_the_environment_is_not_asked(demo: list[str]) -> None:
    assert lines_of(run(*DEMO, http_proxy="http://127.0.0.1:9", all_proxy="http://127.0.0.1:9", NO_PROXY=None)) == demo


def test_an_encoding_that_cannot_write_everything() -> None:
    result = piped(*DEMO, PYTHONUTF8="0", PYTHONIOENCODING="ascii", PYTHONCOERCECLOCALE="0", LC_ALL="C")
    assert (result.stderr, result.exit_code) == ("", 0)
    assert r"near='S\xe3o Bento'" in result.stdout


def test_a_pipe_that_closes_early_leaves_no_traceback() -> None:
    with started(*DEMO) as process:
        assert read_a_line_and_close(process) == ""


def test_the_demo_takes_some_seconds() -> None:
    assert 3 < sum(map(pauses, scripted_answers())) < 6
    assert sum(map(pauses, scripted_answers(speed=1000))) < 0.01


def pauses(answer: Answer) -> float:
    return sum(piece for piece in answer.body if isinstance(piece, float))


# The command itself


def test_help_has_an_example() -> None:
    result = run("--help")
    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.startswith("Usage: chunkfold ")
    assert "\n    chunkfold demo  " in result.stdout
    assert run("demo", "--help").exit_code == 0


def test_version() -> None:
    assert run("--version").stdout == f"chunkfold, version {importlib.metadata.version('chunkfold')}\n"


BLOCK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
from chunkfold.cli import main
sys.argv = ["chunkfold", "demo"]
main()
"""


@pytest.mark.parametrize("name", ["click", "rich"])
def test_without_the_extra_one_line_says_what_to_install(name: str) -> None:
    told = f'chunkfold: the command line needs {name}: pip install "chunkfold[cli]"\n'
    assert piped("-c", BLOCK.format(name=name), command=sys.executable) == ("", told, 1)


def test_without_something_else_the_error_stays_what_it_is() -> None:
    result = piped("-c", BLOCK.format(name="httpx"), command=sys.executable)
    assert result.exit_code == 1
    assert result.stderr.endswith("ModuleNotFoundError: No module named 'httpx'\n")


# Drawing

EVIL = "a\x1b[2Jb\x07\x9b1m\u202e\ud800\r"
EVIL_SHOWN = r"a\x1b[2Jb\x07\x9b1m\u202e\ud800"


def test_control_characters_are_made_visible() -> None:
    assert harmless(f"{EVIL}\n\té") == f"{EVIL_SHOWN}\n\té"
    assert one_line(f"{EVIL}\n\té") == rf"{EVIL_SHOWN}\n\té"
    everything = "".join(map(chr, range(0x3000)))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", harmless(everything))
    assert one_line(everything).isascii() is False
    assert "\n" not in one_line(everything)


def calls(*pairs: tuple[str, str]) -> Sequence[chunkfold.ChatCompletionMessageToolCall]:
    return [
        chunkfold.ChatCompletionMessageFunctionToolCall(function=chunkfold.Function(name=name, arguments=arguments))
        for name, arguments in pairs
    ]


@pytest.mark.parametrize("view", [PlainAnswerView, LiveAnswerView])
def test_nothing_a_model_says_reaches_the_terminal_as_a_command(view: type) -> None:
    console = pipe() if view is PlainAnswerView else terminal(80)
    with view(console) as answer:
        answer.add_reasoning(EVIL)
        answer.add_text(EVIL)
        answer.show_tool_calls(calls((EVIL, f"{EVIL}\n")))
    written = written_to(console)
    assert screen_of(written, 80)  # which fails for a sequence that is not rich's own
    assert written.count(EVIL_SHOWN) >= 4
    assert not re.search("[\x07\x9b\u202e\ud800]|2J(?!b)|\x1b\\[2J", written)


TEXT = "One row, another row,\n\nand a wordthatislongerthanalltherows , spaces     at   an end          .\n日本語のテキスト end"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 200])
def test_the_live_view_shows_at_every_moment_what_has_come(size: int) -> None:
    console = terminal(20)
    with LiveAnswerView(console) as answer:
        for end in range(size, len(TEXT) + size, size):
            answer.add_text(TEXT[end - size : end])
            shown = screen_of(written_to(console), 20)
            assert "".join("".join(shown).split()) == "".join(TEXT[:end].split())
    assert screen_of(written_to(console), 20) == [
        "One row, another",
        "row,",
        "",
        "and a",
        "wordthatislongerthan",
        "alltherows , spaces",
        "at   an end",
        ".",
        "日本語のテキスト end",
        "",
    ]


def test_finished_rows_are_not_drawn_again() -> None:
    console = terminal(20)
    with LiveAnswerView(console) as answer:
        for number in range(1000):
            answer.add_text(f"{number:04} ")
    written = written_to(console)
    # A row of four words is drawn with each of them, and when it is full once more and for good.
    assert {written.count(f"{number:04}") for number in range(0, 1000, 4)} <= {5, 6}


def test_open_calls_fill_in_below_the_text() -> None:
    console = terminal(40)
    with LiveAnswerView(console) as answer:
        answer.add_text("Both at on")
        answer.show_tool_calls(calls(("f", '{"a": ')))
        assert screen_of(written_to(console), 40) == ["Both at on", "", 'tool call: f {"a":']
        answer.show_tool_calls(calls(("f", '{"a": '), ("g", '{"long": "' + "x" * 30)))
        answer.add_text("ce.")
        assert screen_of(written_to(console), 40) == [
            "Both at once.",
            "",
            'tool call: f {"a":',
            'tool call: g {"long":',
            '"' + "x" * 30,
        ]
        answer.show_tool_calls(calls(("f", '{"a": 1}'), ("g", "x" * 1000)))
        assert "..." + "x" * 37 in screen_of(written_to(console), 40)
    drawn = screen_of(written_to(console), 40)
    assert drawn[:4] == ["Both at once.", "", 'tool call: f {"a": 1}', "tool call: g"]
    assert "".join(drawn[4:]) == "x" * 1000


def test_plain_lines_are_written_as_they_come_and_whole() -> None:
    console = pipe()
    with PlainAnswerView(console) as answer:
        answer.add_reasoning("Let ")
        assert written_to(console) == "reasoning: Let "
        answer.add_reasoning("me see.\n\nWell")
        answer.add_text("")
        answer.add_text("A\tlong " + "line " * 100)
        answer.add_reasoning("Hm.\n")
        answer.add_text("[bold]End[/bold] :smile:")
        answer.show_tool_calls(calls(("f", "{}"), ("", "")))
    assert written_to(console).split("\n") == [
        "reasoning: Let me see.",
        "",
        "reasoning: Well",
        "A\tlong " + "line " * 100,
        "reasoning: Hm.",
        "[bold]End[/bold] :smile:",
        "tool call: f {}",
        "tool call:  ",
        "",
    ]


# Facts


def test_facts_of_an_answer_that_says_little() -> None:
    completion = chunkfold.ChatCompletion()
    assert completion_facts(completion) == [("finish reason", "none (outcome: open)"), ("usage", "not reported")]
    usage = chunkfold.CompletionUsage(completion_tokens=3)
    assert ("usage", "? prompt tokens, 3 completion tokens") in completion_facts(chunkfold.ChatCompletion(usage=usage))
    timing = chunkfold.StreamTiming(first_output=0.5, last_chunk=2.5)
    assert stream_facts(chunkfold.StreamEnd.DONE, timing, usage) == [
        ("ended", "done"),
        ("first token", "after 0.50 s"),
        ("speed", "1.5 tokens per second"),
    ]
    assert stream_facts(None, chunkfold.StreamTiming(), None) == [
        ("ended", "not yet"),
        ("first token", "none"),
        ("speed", "unknown"),
    ]


def test_calls_whose_arguments_cannot_be_read() -> None:
    custom = chunkfold.ChatCompletionMessageCustomToolCall(custom=chunkfold.Custom(name="sql", input="select\n1"))
    message = chunkfold.ChatCompletionMessage(tool_calls=[*calls(("f", '{"a": "b'), ("f", "\x1b")), custom])
    completion = chunkfold.ChatCompletion(choices=[chunkfold.Choice(message=message)])
    (_, cut), (_, wrong), (_, called), *_ = completion_facts(completion)
    assert cut.startswith("f: expected whole JSON")
    assert wrong == r"f: expected JSON, received other text: expected a value at character 0: '\x1b'"
    assert called == r"sql('select\n1')"


def test_facts_of_errors() -> None:
    error = chunkfold.APIError("Over\x1b[1mloaded", status_code=503)
    assert error_facts(error, chunkfold.StreamEnd.FAILED) == [
        ("partial text", "''"),
        ("error", "APIError"),
        ("message", r"Over\x1b[1mloaded"),
        ("retryable", "yes"),
        ("ended", "failed"),
    ]
    assert ("retryable", "no") in error_facts(chunkfold.ParseError("no JSON"), None)


def test_facts_keep_their_values_as_they_are() -> None:
    console = pipe()
    Screen(console).facts([("a [b]", "c  [red]d " * 20)])
    assert written_to(console) == "\na [b]: " + "c  [red]d " * 20 + "\n"
    console = terminal(20)
    Screen(console).facts([("a", "[red] " * 5), ("label", "x" * 30)])
    assert screen_of(written_to(console), 20)[:5] == [
        "",
        "a      [red] [red]",
        "       [red] [red]",
        "       [red]",
        "label  " + "x" * 13,
    ]
