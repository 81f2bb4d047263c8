"""`chunkfold chat`, as a user sees it: in a pipe, on terminals of all sizes, as JSON, and when something goes wrong.

The provider is a real server on loopback. Rows of Markdown are also tested alone: what is given out must not depend on
how the text was cut, and what a piece costs not on how much came before it.
"""

import errno
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from command_line import (
    COMMAND,
    PATIENCE,
    OpenAnswer,
    Ran,
    environment,
    on_a_terminal,
    press_ctrl_c,
    run,
    screen_of,
    started,
    styles,
    terminal,
    wait_until,
    written_to,
)
from counted_calls import calls_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.lexer import Lexer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from chunkfold import ToolCallArgumentsDelta, ToolCallStarted
from chunkfold.cli.answer_view import LiveView
from chunkfold.cli.markdown import MarkdownRows
from chunkfold.cli.painter import Painter
from chunkfold.cli.rows import ZeroWidthLimit
from chunkfold.cli.safe import Secrets, SecretsInPieces, json_line
from chunkfold.cli.tail import Call, Tail
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    ReceivedRequest,
    StreamBuilder,
    choice,
    chunk,
    delta,
    json_answer,
)

KEY = "sk-marked-0123456789abcdef"
OTHER_KEY = "marked/key+with=signs&more"
ESCAPES = "a\x1b[31mb\x9b1mc\u202ed"
SHOWN_ESCAPES = r"a\x1b[31mb\x9b1mc\u202ed"


def said(*pieces: str) -> StreamBuilder:
    return StreamBuilder().text(*pieces)


HELLO = said("Hel", "lo!").usage(12, 3).finish().done()
WITHOUT_INDEX = {"delta": {"content": "lo"}, "finish_reason": None}  # which is tolerated


def chat(answer: Any, *arguments: str, **options: Any) -> Ran:
    """Run the command against a provider that gives this answer."""
    with FakeProvider(answer) as provider:
        return asked(provider.base_url, *arguments, **options)


def asked(url: str, *arguments: str, **options: Any) -> Ran:
    return run("chat", url, "-m", "m", *(arguments or ("Hi",)), **options)


# The request


def received(*arguments: str, **options: Any) -> ReceivedRequest:
    with FakeProvider(HELLO) as provider:
        result = asked(provider.base_url, *arguments, **options)
        assert result.exit_code == 0, result.shown
        return provider.requests[0]


def test_what_is_sent(tmp_path: Path) -> None:
    one, more = tmp_path / "one.json", tmp_path / "more.json"
    one.write_text('{"name": "f"}')
    more.write_text('[{"type": "function", "function": {"name": "g"}}]')
    request = received(
        *("--system", "Be brief.", "--tool", str(one), "--tool", str(more)),
        *("--param", "temperature=0.5", "--param", "user=me", "--param", "stop=[1]", "--param", "stream_options=null"),
        *("--header", "X-One: 1", "Why?"),
        OPENAI_API_KEY=f"{KEY}\n",
    )
    assert request.path == "/v1/chat/completions"
    assert request.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
        "tools": [{"type": "function", "function": {"name": name}} for name in "fg"],
        "temperature": 0.5,
        "user": "me",
        "stop": [1],
        "stream": True,
    }
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-one"] == "1"
    assert request.headers["accept"] == "text/event-stream"


def test_usage_is_asked_for_and_no_key_is_sent_without_one() -> None:
    request = received("Hi")
    assert request.json["stream_options"] == {"include_usage": True}
    assert "authorization" not in request.headers
    assert received("--key-env", "MINE", "Hi", MINE=KEY).headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("command", [("chat",), ("record", "-o", "-")], ids=["chat", "record"])
def test_a_header_replaces_one_of_that_name_in_any_case(command: tuple[str, ...]) -> None:
    """Was once wrong: both were sent, the key among them."""
    given = {"authorization": "Token t", "ACCEPT": "*/*", "accept-encoding": "gzip"}
    headers = [argument for pair in given.items() for argument in ("--header", ": ".join(pair))]
    with FakeProvider() as provider:
        run(*command, provider.base_url, "-m", "m", "Hi", *headers, OPENAI_API_KEY=KEY)
        sent = provider.requests[0].headers
    assert {name: sent[name.lower()] for name in given} == given


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--system", "s"), "expected a prompt"),
        (("--param", "x", "Hi"), "expected NAME=VALUE"),
        (("--param", "x=1e999", "Hi"), "numbers that JSON allows"),
        (("--param", 'x="\\ud800"', "Hi"), "UTF-8 text"),
        (("--header", KEY, "Hi"), "expected NAME:VALUE"),
        (("--header", f"a b: {KEY}", "Hi"), "expected NAME:VALUE"),
        (("--header", f"X-Key: {KEY}\x07", "Hi"), "--header X-Key: expected only visible ASCII"),
        (("--tool", __file__, "Hi"), "expected JSON"),
        (("--tool", "unnamed.json", "Hi"), "expected a tool with a name"),
        (("--tool", "deep.json", "Hi"), "expected JSON: "),
        *((("--timeout", seconds, "Hi"), "--timeout") for seconds in ("inf", "nan", "1e10", "0", "-1")),
    ],
)
def test_wrong_use_is_told_before_anything_is_sent(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unnamed.json").write_text('{"description": "no name"}')
    Path("deep.json").write_text("[" * 200_000)
    with FakeProvider() as provider:
        result = asked(provider.base_url, *arguments)
        assert (result.stdout, result.exit_code) == ("", 2)
        assert says in result.stderr
        assert KEY not in result.shown
        assert not provider.requests


def test_a_key_that_no_header_can_carry_is_not_shown() -> None:
    result = asked("http://127.0.0.1:9/v1", OPENAI_API_KEY=f"{KEY}\u20ac")
    assert (result.exit_code, KEY in result.shown) == (2, False)
    assert "OPENAI_API_KEY: expected only visible ASCII" in result.stderr


# In a pipe


def test_a_pipe_gets_the_text_as_it_was_sent_and_nothing_else() -> None:
    text = "# A *title*\n\n| a | b |\n\tTab, [link](http://x), 日本語 👩‍👩‍👧, no end"
    answer = StreamBuilder("deepseek").reasoning("Hm.").text(*text).tool_call("f", '{"a": 1}').usage(1200, 1)
    result = chat(answer.finish().done())
    assert result.stdout == text
    call_line, footer = result.stderr.splitlines()
    assert call_line == 'tool call: f {"a": 1}'
    assert re.fullmatch(
        r"finished: tool_calls · first token \d.\d\d s( · [\d.]+ tokens/s)?"
        r" · \d.\d\d s in all · 1,200 prompt tokens, 1 completion token",
        footer,
    )
    assert result.exit_code == 0


def test_quiet_leaves_the_text_alone() -> None:
    result = chat(HELLO, "--quiet", "Hi")
    assert (result.stdout, result.stderr) == ("Hello!", "")


@pytest.mark.parametrize("pieces", [[ESCAPES], list(ESCAPES)], ids=["whole", "split"])
def test_escape_sequences_are_visible_unless_they_are_asked_for(pieces: list[str]) -> None:
    answer = said(*pieces).finish().done()
    assert chat(answer).stdout == SHOWN_ESCAPES
    assert chat(answer, "--raw", "Hi").stdout == ESCAPES


def test_an_answer_whose_parts_say_what_is_not_drawn() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    annotation = {"type": "url_citation", "url_citation": {"url": "http://x", "title": "t"}}
    result = chat(
        delta(refusal="I can't.")
        + delta(images=[image, image])
        + delta(index=1, content="other")
        + delta("stop", annotations=[annotation])
        + delta("stop", index=1)
        + DONE,
        *("--param", "n=2", "Hi"),
    )
    assert result.stdout == "I can't."
    assert "no usage · " in result.stderr
    assert "choice 0 of 2 is shown · 2 images · 1 citation" in result.stderr


def test_what_was_tolerated_is_named() -> None:
    assert "tolerated CF210" in chat(chunk({**WITHOUT_INDEX, "finish_reason": "stop"}) + DONE).stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "asked_for"),
    [
        (("Summarize",), "An article.", "Summarize\n\nAn article."),
        (("Hi",), "", "Hi"),
        (("-",), "Why\nnot?\n", "Why\nnot?\n"),
        (("--param", "user=me"), "Piped.", "Piped."),  # without a prompt
        (("-",), b"\xff\xfeok", "\ufffd\ufffdok"),  # what is no text does not stop it
    ],
)
def test_what_is_piped_in_is_sent_behind_the_prompt(
    arguments: tuple[str, ...], stdin: str | bytes, asked_for: str
) -> None:
    assert received(*arguments, stdin=stdin).json["messages"] == [{"role": "user", "content": asked_for}]


def test_the_environment_says_whom_to_ask() -> None:
    with FakeProvider(HELLO, HELLO) as provider:
        variables = {"OPENAI_BASE_URL": provider.base_url, "CHUNKFOLD_MODEL": "mine"}
        assert run("chat", "Hi", **variables).stdout == "Hello!"
        assert run("chat", stdin="Piped.", **variables).stdout == "Hello!"
        asked_for = [(request.json["model"], request.json["messages"][0]["content"]) for request in provider.requests]
        assert provider.requests[0].headers["user-agent"].startswith("chunkfold/")
    assert asked_for == [("mine", "Hi"), ("mine", "Piped.")]


def test_an_empty_variable_counts_as_not_set() -> None:
    variables = {"CHUNKFOLD_MODEL": "m", "OPENAI_BASE_URL": ""}
    assert "expected a URL, as an argument or in OPENAI_BASE_URL" in run("chat", stdin="Hi", **variables).stderr
    assert "URL: expected http://HOST" in run("chat", "Hi", **variables).stderr


def test_the_facts_begin_a_line_where_both_outputs_are_one_pipe() -> None:
    with FakeProvider(HELLO) as provider:
        command = [COMMAND, "chat", provider.base_url, "-m", "m", "Hi"]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(
            command, env=environment(), stdin=subprocess.DEVNULL, timeout=PATIENCE, check=True, **both
        )
    text, facts = done.stdout.decode("utf-8").splitlines()
    assert text == "Hello!"
    assert "stop" in facts


def test_a_url_without_a_scheme_is_completed_in_the_error() -> None:
    assert "did you mean http://localhost:8080/v1?" in asked("localhost:8080/v1").stderr
    assert "did you mean" not in asked("user:secret@localhost:8080").stderr


def test_a_provider_that_hangs_is_told_with_how_long_was_waited() -> None:
    with FakeProvider(Answer([*said("Hel"), 5.0])) as provider:
        result = asked(provider.base_url, "--timeout", "0.2", "Hi")
    assert (result.stdout, result.exit_code) == ("Hel", 5)
    assert "nothing arrived for 0.2 s" in result.stderr


# As JSON


def test_json_is_one_object() -> None:
    answer = said("Grüße ", ESCAPES).usage(12, 3).finish().done()
    result = chat(answer.answer(headers={"x-request-id": "req_1"}), "--json", "Hi")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    assert "Grüße" in result.stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.stdout)
    value = json.loads(result.stdout)
    assert list(value) == ["end", "error", "anomalies", "completion", "timing", "request_id"]
    assert (value["end"], value["error"], value["anomalies"], value["request_id"]) == ("finished", None, [], "req_1")
    assert value["completion"]["choices"][0]["message"]["content"] == f"Grüße {ESCAPES}"
    assert value["completion"]["usage"]["total_tokens"] == 15
    assert value["timing"]["first_output"] <= value["timing"]["last_byte"]


def test_json_of_a_failure_has_what_had_come() -> None:
    answer = said("Hel").raw(chunk(WITHOUT_INDEX)).error("overloaded", code="busy")
    result = chat(answer, "--json", "Hi")
    value = json.loads(result.stdout)
    assert result.exit_code == 3
    assert result.stderr == "Error: the provider reported an error: overloaded\n"
    assert value["end"] == "failed"
    assert value["error"]["type"] == "APIError"
    assert value["error"]["message"] == "overloaded"
    assert value["error"]["code"] == "busy"
    assert value["completion"]["choices"][0]["message"]["content"] == "Hello"
    assert [anomaly["rule"] for anomaly in value["anomalies"]] == ["CF210"]


def test_json_where_there_was_no_response() -> None:
    result = asked("http://127.0.0.1:9/v1", "--json", "Hi")
    value = json.loads(result.stdout)
    assert (result.exit_code, value["end"], value["completion"]) == (1, None, None)
    assert value["error"]["type"] == "ConnectError"
    assert "refused" in value["error"]["message"]


# What goes wrong


def test_a_status_is_one_line_with_the_request_id() -> None:
    body = {"error": {"message": "Slow\ndown\x1b[2J.", "type": "rate_limit", "code": None}}
    result = chat(json_answer(body, 429, {"x-request-id": "req_7", "retry-after": "20"}))
    assert result.stdout == ""
    assert result.stderr == "Error: HTTP 429: Slow down\\x1b[2J. (request id req_7, retry after 20 s)\n"
    assert result.exit_code == 3


@pytest.mark.parametrize("url", ["localhost:1/v1", "http://[::1", "http://a b/", "ftp://x/", "http://exa\x1bmple/"])
def test_a_url_that_is_none_is_one_line(url: str) -> None:
    result = asked(url)
    assert result.stdout == ""
    assert result.exit_code in (1, 2)
    assert sum(line.startswith("Error: ") for line in result.stderr.splitlines()) == 1
    assert "\x1b" not in result.stderr


def test_a_base_with_a_query_is_one_too() -> None:
    with FakeProvider() as provider:
        assert asked(f"{provider.base_url}/?api-version=1").exit_code == 0
    (request,) = provider.requests
    assert (request.path, request.query) == ("/v1/chat/completions", "api-version=1")


# Keys


def echoed(request: ReceivedRequest) -> str:
    return f"keys: {request.headers['authorization']} {request.headers['x-api-key']} {request.query}"


def whole(builder: StreamBuilder) -> Answer:
    return builder.finish().done().answer()


ECHOES: dict[str, Callable[[ReceivedRequest], Answer]] = {
    "status": lambda request: json_answer({"error": {"message": echoed(request), "code": echoed(request)}}, 401),
    "status, text": lambda request: Answer(echoed(request).encode(), 500, {"content-type": "text/plain"}),
    "request id": lambda request: Answer(b"{}", 400, {"x-request-id": echoed(request)}),
    "error": lambda request: StreamBuilder().error(echoed(request), code=echoed(request)).answer(),
    "no event stream": lambda request: Answer(echoed(request).encode(), headers={"content-type": "text/html"}),
    "no chunk": lambda request: said("x").event({"choices": echoed(request)}).answer(),
    "text": lambda request: whole(said(echoed(request))),
    "text, split": lambda request: whole(said(*echoed(request))),
    "reasoning": lambda request: whole(StreamBuilder("deepseek").reasoning(*echoed(request))),
    "call": lambda request: whole(StreamBuilder().tool_call(echoed(request), *json.dumps({"a": echoed(request)}))),
    "finish reason": lambda request: said("x").finish(echoed(request)).done().answer(),
    "id": lambda request: Answer(
        chunk(choice("stop"), id=echoed(request), extra={echoed(request): echoed(request)}) + DONE
    ),
}


@each_case("echo", ECHOES)
@each_case("arguments", [("Hi",), ("--raw", "Hi"), ("--json", "Hi")], ids=["text", "raw", "json"])
def test_keys_are_never_shown(echo: str, arguments: tuple[str, ...]) -> None:
    with FakeProvider(ECHOES[echo]) as provider:
        url = f"{provider.url}?key=secret-in-the-query-77"
        result = asked(url, "--header", f"X-API-Key: {OTHER_KEY}", *arguments, OPENAI_API_KEY=KEY)
    assert provider.requests[0].headers["x-api-key"] == OTHER_KEY
    shown = result.shown.replace("\\u0026", "&")
    assert not re.search("marked|0123456789abcdef|with=signs|secret-in", shown), shown


@pytest.mark.parametrize(
    "echo", ["text, split", *(pytest.param(echo, marks=pytest.mark.slow) for echo in ("reasoning", "call"))]
)
def test_keys_are_never_drawn_not_even_for_a_moment(echo: str) -> None:
    with FakeProvider(ECHOES[echo]) as provider:
        header = ("--header", f"X-API-Key: {OTHER_KEY}")
        written = on_a_terminal("chat", provider.url, "-m", "m", *header, "Hi", OPENAI_API_KEY=KEY).written
    assert "*" * len(KEY) in written
    assert not re.search("sk-|arked", written)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (f"http://user:{KEY}@127.0.0.1:9/v1", 1),
        (f"http://127.0.0.1:9/v1?key={KEY}", 1),
        (f"http://127.0.0.1:9/{KEY}/v1", 1),
        (f"http://[{KEY}/v1", 2),
        *((f"http://user:{KEY}{sign}{KEY}@127.0.0.1:9/v1", 2) for sign in "/?#"),  # which is not escaped
    ],
)
def test_keys_in_the_url_are_not_shown(url: str, code: int) -> None:
    result = asked(url, OPENAI_API_KEY=KEY)
    assert (result.stdout, result.exit_code) == ("", code)
    assert KEY not in result.shown


@pytest.mark.parametrize("command", [("chat", "Hi"), ("chat", "Hi", "--json"), ("record", "Hi", "-o", "-"), ("inspect", "Hi"), ("doctor",)])  # fmt: skip
def test_a_key_in_the_path_is_shown_by_no_command(command: tuple[str, ...]) -> None:
    key = "x7Gk2PqR9sLw4TzB8nVd"
    name, *arguments = command
    with FakeProvider(lambda _: Answer([delta(content=f"no route {key}"), delta(key), DONE])) as provider:
        result = run(name, f"{provider.url.removesuffix('/v1/chat/completions')}/{key}/v1", *arguments, "-m", "m")
        assert key in provider.requests[0].path
    assert key not in result.shown
    assert "*" * len(key) in result.shown


def test_secrets_in_pieces_are_found_at_every_cut() -> None:
    secrets = Secrets(["abcabd", 'quo"te'])
    text = 'x abcabcabd y abcab quo"te quo\\"te ab'
    expected = "x abc****** y abcab ****** ******* ab"
    assert secrets.hide(text) == expected
    for size in range(1, len(text)):
        pieces = SecretsInPieces(secrets)
        shown = "".join(pieces.hide(text[start : start + size]) for start in range(0, len(text), size))
        assert shown + pieces.rest() == expected
    nothing = SecretsInPieces(Secrets())
    assert nothing.hide("abc") + nothing.rest() == "abc"


def test_json_line_is_json_that_does_nothing_to_a_terminal() -> None:
    everything = "".join(map(chr, range(0x3000)))
    line = json_line({"a": everything})
    assert json.loads(line) == {"a": everything}
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", line)


# Leaving


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--quiet",), ("--json",)], ids=["text", "quiet", "json"])
def test_ctrl_c_closes_the_request_and_shows_what_had_come(arguments: tuple[str, ...]) -> None:
    hello = OpenAnswer(*said("Hello"))
    with FakeProvider(hello.answer) as provider:
        with started("chat", provider.url, "-m", "m", *arguments, "Hi") as process:
            wait_until(lambda: hello.is_read_by(process))
            stdout, stderr, exit_code = press_ctrl_c(process)
        assert exit_code == 130
        assert provider.requests[0].answered.wait(PATIENCE)
        assert provider.requests[0].client_left
    if arguments == ("--json",):
        value = json.loads(stdout)
        assert (value["end"], value["error"]) == ("closed", None)
        assert value["completion"]["choices"][0]["message"]["content"] == "Hello"
    else:
        assert stdout.rstrip("\n") == "Hello"
        assert stderr.startswith("closed · ") if not arguments else not stderr


# On a terminal

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


class Tmux:
    """A terminal that is none of ours; it runs commands, and ends with the test."""

    def __init__(self, folder: Path) -> None:
        self._tmux = shutil.which("tmux") or pytest.skip("needs tmux, a terminal that this project did not write")
        self._socket = str(folder / "tmux")

    def run(self, *command: str, width: int, height: int = 24, **variables: str) -> None:
        script = 'trap : INT; "$@"; echo "[$?]"; sleep 60'
        env = [f"{name}={value}" for name, value in environment(**{"TERM": "tmux-256color", **variables}).items()]
        size = ("-x", str(width), "-y", str(height))
        shell = ("env", "-i", *env, "sh", "-c", script, "sh", *command)
        self.do("-f", os.devnull, "new-session", "-d", "-s", "s", *size, *shell)

    def do(self, *arguments: str) -> str:
        command = [self._tmux, "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, check=True, encoding="utf-8", timeout=PATIENCE).stdout

    def screen(self, *options: str) -> list[str]:
        return [row.rstrip() for row in self.do("capture-pane", "-p", "-S", "-", *options, "-t", "s").splitlines()]

    def until(self, text: str) -> list[str]:
        """The rows, up to the one with the text, as soon as there is one."""
        wait_until(lambda: any(text in row for row in self.screen()))
        rows = self.screen()
        return rows[: next(number for number, row in enumerate(rows) if text in row)]

    def close(self) -> None:
        command = [self._tmux, "-S", self._socket, "kill-server"]
        subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    tmux = Tmux(tmp_path)
    yield tmux
    tmux.close()


@pytest.mark.parametrize("width", [20, *(pytest.param(width, marks=pytest.mark.slow) for width in (120, 80, 40))])
def test_what_stands_on_a_terminal_is_what_the_whole_text_gives(tmux: Tmux, width: int) -> None:
    pieces = [DOCUMENT[start : start + 7] for start in range(0, len(DOCUMENT), 7)]
    with FakeProvider(said(*pieces).finish().done().answer(pace=0.0005)) as provider:
        tmux.run(COMMAND, "chat", provider.url, "-m", "m", "Hi", width=width)
        shown = tmux.until("[0]")
    expected = [piece for row in rows_of(DOCUMENT, width) for piece in folded(row.plain, width)]
    assert shown[: len(expected)] == expected
    assert shown[len(expected)] == ""
    assert " ".join(shown[len(expected) + 1 :]).startswith("finished: stop")
    assert max(map(cell_len, shown)) <= width


def folded(row: str, width: int) -> list[str]:
    """What the terminal makes of a row of code that is longer."""
    return [row[start : start + width].rstrip() for start in range(0, len(row), width)] if len(row) > width else [row]


@pytest.mark.slow
def test_a_terminal_that_changes_its_size_shows_every_word_once(tmux: Tmux) -> None:
    words = [f"{number:03}" + ("\n\n" if number % 10 == 9 else " ") for number in range(400)]
    with FakeProvider(said(*words).finish().done().answer(pace=0.004)) as provider:
        tmux.run(COMMAND, "chat", provider.url, "-m", "m", "Hi", width=80)
        for word, width in (("060", "40"), ("120", "100"), ("180", "21"), ("240", "60")):
            wait_until(lambda word=word: any(word in row for row in tmux.screen()))
            tmux.do("resize-window", "-t", "s", "-x", width)
        shown = re.findall(r"\d{3}", " ".join(tmux.until("finished: stop")))
    assert [int(word) for word in shown] == list(range(400))


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_leaves_what_had_come(tmux: Tmux) -> None:
    with FakeProvider(said("Some **bo").answer(ending="open")) as provider:
        tmux.run(COMMAND, "chat", provider.url, "-m", "m", "Hi", width=60)
        wait_until(lambda: any("Some bo" in row for row in tmux.screen()))
        tmux.do("send-keys", "-t", "s", "C-c")
        shown = tmux.until("[130]")
        assert provider.requests[0].answered.wait(PATIENCE)
        assert provider.requests[0].client_left
    assert shown[:2] == ["Some **bo", ""]
    assert shown[2].startswith("closed · ")
    assert tmux.do("display-message", "-p", "-t", "s", "#{cursor_flag}") == "1\n"  # the cursor is back


@pytest.mark.slow
def test_ctrl_z_leaves_the_terminal_as_it_was_and_fg_goes_on(tmux: Tmux) -> None:
    def answer(_: ReceivedRequest) -> Answer:
        return Answer([*said("Some **bo"), *([0.05] * 20), *said("ld** text").finish().done()])

    bash = shutil.which("bash") or pytest.skip("needs a shell with jobs")
    with FakeProvider(answer) as provider:
        tmux.run(bash, "--norc", "-i", width=100)
        tmux.do("send-keys", "-t", "s", f"{COMMAND} chat {provider.url} -m m Hi", "Enter")
        wait_until(lambda: any(row.startswith("Some bo") for row in tmux.screen()))
        tmux.do("send-keys", "-t", "s", "C-z")
        stopped = tmux.until("Stopped")
        assert not any("Some" in row or "tokens" in row for row in stopped)
        assert tmux.do("display-message", "-p", "-t", "s", "#{cursor_flag}") == "1\n"
        tmux.do("send-keys", "-t", "s", "fg", "Enter")
        assert "Some bold text" in tmux.until("finished: stop")
        assert tmux.do("display-message", "-p", "-t", "s", "#{cursor_flag}") == "1\n"


def drawn(answer: StreamBuilder, *arguments: str, **variables: Any) -> tuple[list[str], str, int]:
    """What stands on a terminal, what was written to it, and the exit code."""
    with FakeProvider(answer.finish().done()) as provider:
        return on_a_terminal("chat", provider.url, "-m", "m", *arguments, "Hi", **variables)


@pytest.mark.slow
def test_no_color() -> None:
    _, written, _ = drawn(said("# A\n`b` **c**\n- d"), NO_COLOR="1")
    assert styles(written) == {"0", "1", "2", "1;4"}


def test_raw_is_refused_on_a_terminal() -> None:
    shown, _, exit_code = on_a_terminal("chat", "http://127.0.0.1:9/v1", "-m", "m", "--raw", "Hi", width=200)
    assert "--raw: standard output is a terminal" in "".join(shown)
    assert exit_code == 2


@pytest.mark.slow
def test_reasoning_is_folded_unless_all_of_it_is_asked_for() -> None:
    answer = StreamBuilder("deepseek").reasoning(*(f"thought {number}\n" for number in range(9))).text("So.")
    shown, written, _ = drawn(answer, "-q")
    assert shown[:6] == ["... 6 more rows of reasoning", *(f"thought {number}" for number in (6, 7, 8)), "", "So."]
    assert "\x1b[2mthought 8" in written
    shown, _, _ = drawn(answer, "-q", "--reasoning")
    assert shown[:11] == [*(f"thought {number}" for number in range(9)), "", "So."]


# Drawing


def live(width: int = 40) -> tuple[Console, LiveView]:
    console = terminal(width)
    return console, LiveView(console, frame=0)


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
            view.add_text(piece)
            assert screen_of(written_to(console), 40) == expected


def test_only_rows_that_changed_are_written_again() -> None:
    console, view = live()
    with view:
        view.add_text("| a | b |\n|---|---|\n" + "| cell | other |\n" * 10)
        before = len(written_to(console))
        view.add_text("| next")
        assert len(written_to(console)) - before < 60
        view.show_tool_calls([Call("f", '{"a": 1')])
        before = len(written_to(console))
        view.show_tool_calls([Call("f", '{"a": 12')])
        assert len(written_to(console)) - before < 80
    assert screen_of(written_to(console), 40)[-2:] == ['tool call: f {"a": 12', ""]


def test_a_narrower_terminal_draws_what_is_open_anew() -> None:
    console, view = live()
    with view:
        view.add_text("one two three four five")
        console.width = 10
        view.add_text(" six")
    assert screen_of(written_to(console), 40) == ["one two", "three four", "five six", ""]


def test_of_another_size_only_the_terminal_knows_where_the_rows_are() -> None:
    console, view = live()
    with view:
        view.add_text("one")
        console.width = 30
        before = len(written_to(console))
        view.show_tool_calls([Call("f", "")])
        # So all of them are drawn again, from where the cursor rests.
        assert written_to(console)[before:].startswith("\r\x1b[999M\x1b[?7lone\n")


def test_a_long_line_of_code_is_seen_while_it_grows() -> None:
    console, view = live()
    with view:
        view.add_text("```\n" + "x" * 50)
        assert screen_of(written_to(console), 40) == ["```", "x" * 40, "x" * 10]
        view.add_text("y")
        assert screen_of(written_to(console), 40) == ["```", "x" * 40, "x" * 10 + "y"]
        view.add_text("\n```")
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
        view.add_text("one")
        view.add_text(" two")
        wait_until(lambda: screen_of(written_to(console), 40) == ["one two"])
        view.show_tool_call(0, Call("f", "{}"))
        wait_until(lambda: screen_of(written_to(console), 40)[1:] == ["", "tool call: f {}"])


def test_nothing_is_drawn_between_two_frames() -> None:
    console = terminal(40)
    with LiveView(console, frame=PATIENCE) as view:
        for number in range(100):
            view.add_text(f"{number}\n\n")
        assert written_to(console) == "\x1b[?25l"
    assert [row for row in screen_of(written_to(console), 40) if row] == list(map(str, range(100)))


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
        wait_until(lambda: file.attempts or view.add_text("text"))


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
        *((language, "'''\n" + "a line\n" * 300 + "'''\n" + "x = 1\n" * 300, 2.1) for language in ("python", "html")),
        ("nothing", "x = 1\n" * 300, 0),
        ("python", "def f(x):  # comment\n    return 'text'\n" * 300, 1),  # no string goes over several lines
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
MANY = 40


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
    painter = Painter(view)
    numbers = count()

    def call_many() -> None:
        for position in islice(numbers, MANY):
            painter.draw(ToolCallStarted(0, position, f"call_{position}", "f"))
            painter.draw(ToolCallArgumentsDelta(0, position, '{"x": 1}'))

    with view:
        call_many()
        early = calls_of(call_many)
        for _ in range(8):
            call_many()
        assert calls_of(call_many) < early * 1.2


def test_finished_blocks_are_printed_once() -> None:
    console, view = live(60)
    with view:
        for number in range(300):
            view.add_text(f"{number:04}\n\n")
    # A block is drawn while it is open, and once for good.
    assert max(written_to(console).count(f"{number:04}") for number in range(300)) <= 3


# Rows of Markdown

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
@each_case("size", [None, 1, 3])
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


def styles_of(row: Text, word: str) -> set[str]:
    place = re.search(rf"(?<!\w){re.escape(word)}", row.plain)
    assert place
    return {str(span.style) for span in row.spans if span.start <= place.start() < span.end} - {""}


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
    settings(deadline=None, max_examples=often)(given(MARKDOWN, SIZES, WIDTHS)(check_rows))()


def check_rows(text: str, size: int, width: int) -> None:
    whole, cut = rows_of(text, width), rows_of(text, width, size)
    assert plain(whole) == plain(cut)
    for one, other in zip(whole, cut, strict=True):
        assert [styles_at(one, place) for place in range(len(one))] == [
            styles_at(other, place) for place in range(len(other))
        ]
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e]", "".join(plain(whole)))


def styles_at(row: Text, place: int) -> set[str]:
    return {str(span.style) for span in row.spans if span.start <= place < span.end} - {""}


@settings(deadline=None)
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
    wide = [row for row in plain(rows_of(prose, width, 17)) if cell_len(row) > width]
    assert wide == []


def test_words_stay_apart_where_a_row_is_full() -> None:
    for size in (1, 5, 14):
        assert plain(rows_of("word " * 60, 14, size)) == ["word word word"] * 20


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
            view.add_text(text[start : start + size])
    written = written_to(console)
    assert not re.search("[\x00-\x09\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e]", written)
    assert "\x1b]" not in written
    screen_of(written, 40)  # which fails for a sequence that is not the view's own


def test_a_live_view_needs_no_more_than_a_string_to_draw_on() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=2, height=1, _environ={"TERM": "xterm"})
    with LiveView(console) as view:
        view.add_text(DOCUMENT)
    assert "\x1b[?25h" in written_to(console)
