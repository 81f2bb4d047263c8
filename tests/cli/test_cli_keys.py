"""Keys that a provider echoes or a URL holds: no command shows them."""

import json
import os
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from chat_command import KEY, asked, said
from command_line import on_a_terminal, run

from chunkfold import ChatCompletionParser
from chunkfold.cli.answer_view import AnswerView
from chunkfold.cli.painter import Painter
from chunkfold.cli.safe import Secrets, SecretsInPieces
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    ReceivedRequest,
    StreamBuilder,
    bytewise,
    choice,
    chunk,
    delta,
    json_answer,
)

OTHER_KEY = "marked/key+with=signs&more"


def echoed(request: ReceivedRequest) -> str:
    return f"keys: {request.headers['authorization']} {request.headers['x-api-key']} {request.query}"


def whole(builder: StreamBuilder) -> Answer:
    return builder.finish().done().answer()


ECHOES: dict[str, Callable[[ReceivedRequest], Answer]] = {
    "status": lambda request: json_answer({"error": {"message": echoed(request), "code": echoed(request)}}, 401),
    "status, text": lambda request: Answer(echoed(request).encode(), 500, {"content-type": "text/plain"}),
    "request id": lambda request: Answer(b"{}", 400, {"x-request-id": echoed(request)}),
    "error": lambda request: StreamBuilder().error(echoed(request), code=echoed(request)).answer(),
    "the end of an excerpt": lambda request: StreamBuilder().error(f"{'x' * 480} {echoed(request)}").answer(),
    "no event stream": lambda request: Answer(echoed(request).encode(), headers={"content-type": "text/html"}),
    "no chunk": lambda request: said("x").event({"choices": echoed(request)}).answer(),
    "no JSON": lambda request: said("x").event(f"{'x' * 180} {echoed(request)}").answer(),
    "the name of an event": lambda request: whole(said("x").event(echoed(request), echoed(request))),
    "bytes": lambda request: Answer(bytewise(delta(content=f"the key is {echoed(request)}, is it not?"))),
    "text": lambda request: whole(said(echoed(request))),
    "text, split": lambda request: whole(said(*echoed(request))),
    "reasoning": lambda request: whole(StreamBuilder("deepseek").reasoning(*echoed(request))),
    "call": lambda request: whole(StreamBuilder().tool_call(echoed(request), *json.dumps({"a": echoed(request)}))),
    "finish reason": lambda request: said("x").finish(echoed(request)).done().answer(),
    "id": lambda request: Answer(
        chunk(choice("stop"), id=echoed(request), extra={echoed(request): echoed(request)}) + DONE
    ),
}


COMMANDS = [
    *(("chat",), ("chat", "--raw"), ("chat", "--json"), ("inspect",), ("inspect", "--json"), ("inspect", "--rules")),
    *(("record", "-o", "-"), ("record", "--show", "-o", os.devnull)),
]


ALL = [*product(ECHOES, COMMANDS)]
# Echoes in pieces with every command, every echo with one command, and every fifth of all pairs: so all commands take
# turns, as five does not divide their number.
SOME = [*product(("text, split", "reasoning", "call"), COMMANDS), *product(ECHOES, COMMANDS[:1]), *ALL[1::5]]


@pytest.mark.parametrize("pairs", [SOME, pytest.param(ALL, marks=pytest.mark.slow)], ids=["some", "all"])
def test_keys_are_never_shown(pairs: list[tuple[str, tuple[str, ...]]]) -> None:
    header = ("--header", f"X-API-Key: {OTHER_KEY}")
    for echo, command in pairs:
        with FakeProvider(ECHOES[echo]) as provider:
            url = f"{provider.url}?key=secret-in-the-query-77"
            result = run(*command, url, "-m", "m", *header, "Hi", OPENAI_API_KEY=KEY)
        assert provider.requests[0].headers["x-api-key"] == OTHER_KEY
        shown = result.shown.replace("\\u0026", "&")
        assert not re.search("marked|0123456789abcdef|with=signs|secret-in", shown), (echo, command, shown)


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


@pytest.mark.parametrize("command", [("chat", "Hi"), ("chat", "Hi", "--json"), ("record", "Hi", "-o", "-"), ("record", "Hi", "--show", "-o", "FILE"), ("inspect", "Hi"), ("doctor",)])  # fmt: skip
def test_a_key_in_the_path_is_shown_by_no_command(command: tuple[str, ...], tmp_path: Path) -> None:
    key = "x7Gk2PqR9sLw4TzB8nVd"
    name, *arguments = (str(tmp_path / "stored") if argument == "FILE" else argument for argument in command)
    with FakeProvider(lambda _: Answer([delta(content=f"no route {key}"), delta(key), DONE])) as provider:
        result = run(name, f"{provider.url.removesuffix('/v1/chat/completions')}/{key}/v1", *arguments, "-m", "m")
        assert key in provider.requests[0].path
    assert key not in result.shown
    assert "*" * len(key) in result.shown


class KeptView(AnswerView):
    def __init__(self) -> None:
        self.text, self.reasoning = "", ""

    def add(self, text: str, *, is_reasoning: bool = False) -> None:
        if is_reasoning:
            self.reasoning += text
        else:
            self.text += text


def test_what_only_begins_like_a_key_is_shown_where_it_belongs() -> None:
    view, parser, begun = KeptView(), ChatCompletionParser(), KEY[:6]
    parser.feed(delta(reasoning_content=f"a {begun}") + delta(content=f"b {begun}"))
    with Painter(view, parser, Secrets([KEY])) as painter:
        painter.draw()
        assert (view.reasoning, view.text) == (f"a {begun}", "b ")
    assert view.text == f"b {begun}"


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
