"""`chunkfold chat`: ask a provider, and watch the answer."""

import json
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import click
import httpx

from chunkfold import (
    Anomaly,
    APIError,
    APIStatusError,
    AudioDelta,
    ChatCompletion,
    ChatCompletionStream,
    ChunkfoldError,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    StreamTiming,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
    connect,
)
from chunkfold.cli.answer import AnswerView, NoAnswerView, ShownCall, TextAnswerView
from chunkfold.cli.exit_codes import EXIT_CODES_HELP, exit_code
from chunkfold.cli.facts import choice_of, footer
from chunkfold.cli.request import ChatRequest, chat_request, request_options
from chunkfold.cli.safe import Secrets, SecretsInPieces, json_line, one_line
from chunkfold.cli.screen import SEPARATOR, Screen
from chunkfold.cli.sources import NO_RESPONSE, no_response
from chunkfold.recording.redaction import Redactor, bare_url

_CONNECT_TIMEOUT: Final = 10.0  # seconds
_LEFT: Final = 130  # as a shell says it of what Ctrl-C ended

_EPILOG: Final = f"""\b
Examples:
  chunkfold chat https://api.openai.com/v1 -m gpt-5-mini "Why is it dark?"
  chunkfold chat $OPENAI_BASE_URL -m gpt-5-mini < question.txt > answer.md
  chunkfold chat http://127.0.0.1:8080/v1 -m qwen3 --tool rain.json "Rain?"
  chunkfold chat $OPENAI_BASE_URL -m gpt-5-mini --param n=2 --json Hi | jq .end

{EXIT_CODES_HELP}"""


@dataclass(slots=True)
class Reply:
    """What became of a request.

    Attributes:
        error: What went wrong, None if nothing did.
        has_left: Whether it was Ctrl-C that ended it.
        end: How the stream ended, None if there was none.
        completion: All that had come, None if there was no stream.
    """

    error: ChunkfoldError | click.ClickException | None = None
    has_left: bool = False
    end: StreamEnd | None = None
    completion: ChatCompletion | None = None
    anomalies: Sequence[Anomaly] = ()
    timing: StreamTiming = field(default_factory=StreamTiming)
    request_id: str | None = None

    def take(self, stream: ChatCompletionStream) -> None:
        """Keep what a stream that has ended, or was left, brought."""
        self.end, self.timing, self.anomalies = stream.end, stream.timing, stream.anomalies
        self.completion, self.request_id = stream.snapshot, stream.request_id


@click.command(epilog=_EPILOG)
@click.argument("url")
@click.argument("prompt", required=False)
@request_options
@click.option("--reasoning", "shows_reasoning", is_flag=True, help="Show all of the reasoning, not only its last rows.")
@click.option("--json", "as_object", is_flag=True, help="Show nothing but one JSON object at the end.")
@click.option("--raw", is_flag=True, help="Leave control characters as they are; not on a terminal.")
@click.option("-q", "--quiet", is_flag=True, help="Show no facts below the answer.")
@click.pass_context
def chat(
    context: click.Context,
    /,
    url: str,
    prompt: str | None,
    *,
    shows_reasoning: bool,
    as_object: bool,
    raw: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Ask a provider, and watch the answer.

    URL is an API's base or its chat completions. The prompt is read from standard input if there is
    none. On a terminal the answer is drawn as Markdown; a pipe gets the text as it was sent, and
    nothing else.
    """
    if raw and sys.stdout.isatty():
        raise click.UsageError("--raw: standard output is a terminal, which would do what a model says; use a pipe")
    request = chat_request(url, prompt, **options)
    screen = Screen()
    view: AnswerView
    if as_object:
        view = NoAnswerView()
    elif sys.stdout.isatty():
        waiting = f"waiting for {one_line(str(request.body.get('model', 'an answer')))}"
        view = screen.markdown_answer(is_folded=not shows_reasoning, waiting=waiting)
    else:
        view = TextAnswerView(_as_sent() if raw else sys.stdout, raw=raw)
    reply = ask(request, view)
    if as_object:
        click.echo(_as_json(reply, request).encode())
    else:
        _tell(reply, screen, Secrets(request.secrets), is_piped=isinstance(view, TextAnswerView), is_quiet=quiet)
    if reply.error is not None:
        click.echo(_error_line(reply, request), err=True)
    context.exit(_LEFT if reply.has_left else exit_code(reply.end))


def ask(request: ChatRequest, view: AnswerView) -> Reply:
    """Send the request and draw the answer. Ctrl-C closes the connection, and so stops the generation."""
    reply, secrets = Reply(), Secrets(request.secrets)
    stream: ChatCompletionStream | None = None
    with ExitStack() as stack:
        stack.enter_context(view)
        try:
            stream = _open(stack, request)
            _watch(stream, _Painter(view, secrets))
        except KeyboardInterrupt:
            reply.has_left = True
        except (ChunkfoldError, click.ClickException) as error:
            reply.error = error
    if stream is not None:
        reply.take(stream)
    return reply


def _open(stack: ExitStack, request: ChatRequest) -> ChatCompletionStream:
    timeout = httpx.Timeout(_CONNECT_TIMEOUT, read=request.read_timeout)
    try:
        client = stack.enter_context(httpx.Client(timeout=timeout))
        return stack.enter_context(
            connect(
                client,
                "POST",
                request.url,
                json=request.body,
                headers=request.headers,
                progress_timeout=request.read_timeout,
            )
        )
    except (*NO_RESPONSE, ImportError) as error:  # the latter from proxies of the environment
        reason = re.sub(r"\[Errno -?\d+\] ", "", no_response(request, error).message).removeprefix("no response: ")
        where = _clean(bare_url(request.url), request)
        raise click.ClickException(f"no response{where and f' from {where}'}: {reason}") from None


class _Painter:
    """Gives a view what comes, without secrets.

    Args:
        view: The view.
        secrets: What is not shown.
    """

    def __init__(self, view: AnswerView, secrets: Secrets) -> None:
        self.view = view
        self._secrets = secrets
        self._pieces = SecretsInPieces(secrets)
        self._is_reasoning = False
        self._calls: dict[int, tuple[ShownCall, SecretsInPieces]] = {}

    def add(self, text: str, *, is_reasoning: bool = False) -> None:
        """The next piece of the text, or of the reasoning."""
        if is_reasoning != self._is_reasoning:
            self.flush()
            self._is_reasoning = is_reasoning
        self._show(self._pieces.hide(text))

    def flush(self) -> None:
        """Show what may have been the beginning of a secret."""
        self._show(self._pieces.rest())

    def begin_call(self, position: int, name: str) -> None:
        """A tool call began."""
        self._calls[position] = ShownCall(self._secrets.hide(name)), SecretsInPieces(self._secrets)
        self._show_calls()

    def add_to_call(self, position: int, arguments: str) -> None:
        """The next piece of a tool call's arguments."""
        call, pieces = self._calls[position]
        call.add(pieces.hide(arguments))
        self._show_calls()

    def end(self, completion: ChatCompletion) -> None:
        """There is no more: show the tool calls whole."""
        self.flush()
        shown = choice_of(completion)
        calls = shown.message.tool_calls if shown else []
        if calls:
            hide = self._secrets.hide
            self.view.show_tool_calls([ShownCall(hide(call.name), hide(call.arguments)) for call in calls])

    def _show(self, text: str) -> None:
        if self._is_reasoning:
            self.view.add_reasoning(text)
        else:
            self.view.add_text(text)

    def _show_calls(self) -> None:
        self.view.show_tool_calls([call for call, _ in self._calls.values()])


def _watch(stream: ChatCompletionStream, painter: _Painter) -> None:
    """Draw choice 0 as it comes; what it costs does not depend on how much has come."""
    try:
        for event in stream.events():
            match event:
                case TextDelta(choice=0, delta=text) | RefusalDelta(choice=0, delta=text):
                    painter.add(text)
                case AudioDelta(choice=0, transcript=text):
                    painter.add(text)
                case ReasoningDelta(choice=0, delta=text):
                    painter.add(text, is_reasoning=True)
                case ToolCallStarted(choice=0, position=position, name=name):
                    painter.begin_call(position, name)
                case ToolCallArgumentsDelta(choice=0, position=position, delta=arguments):
                    painter.add_to_call(position, arguments)
                case _:
                    pass
    finally:
        painter.end(stream.snapshot)


# What is said at the end


def _as_sent() -> Any:
    """Standard output for text whose every character counts."""
    stdout: Any = sys.stdout
    stdout.reconfigure(encoding="utf-8", newline="")
    return stdout


def _tell(reply: Reply, screen: Screen, secrets: Secrets, *, is_piped: bool, is_quiet: bool) -> None:
    """Below the answer, or beside it on standard error: what a pipe does not get, and the facts."""
    completion = reply.completion
    if is_quiet or completion is None or reply.timing.first_chunk is None:
        return
    parts = [secrets.hide(part) for part in footer(completion, reply.end, reply.timing, reply.anomalies)]
    if screen.is_live:
        screen.footer(parts)
        return
    shown = choice_of(completion)
    for call in shown.message.tool_calls if shown and is_piped else ():
        click.echo(f"tool call: {one_line(secrets.hide(f'{call.name} {call.arguments}'))}", err=True)
    click.echo(SEPARATOR.join(parts), err=True)


def _as_json(reply: Reply, request: ChatRequest) -> str:
    timing = reply.timing
    usage = reply.completion.usage if reply.completion else None
    value = {
        "end": reply.end,
        "error": _error_as_json(reply, request),
        "anomalies": [_anomaly_as_json(anomaly) for anomaly in reply.anomalies],
        "completion": json.loads(reply.completion.model_dump_json()) if reply.completion else None,
        "timing": {
            **asdict(timing),
            "gaps": asdict(timing.gaps) if timing.gaps else None,
            "tokens_per_second": timing.tokens_per_second(usage.completion_tokens if usage else None),
        },
        "request_id": reply.request_id,
    }
    return Secrets(request.secrets).hide(json_line(value))


def _anomaly_as_json(anomaly: Anomaly) -> dict[str, Any]:
    rule = anomaly.rule
    return {"rule": rule.id, "sentence": rule.sentence, "count": anomaly.count, "first": anomaly.first}


def _error_as_json(reply: Reply, request: ChatRequest) -> dict[str, Any] | None:
    error = reply.error
    if error is None:
        return None
    value: dict[str, Any] = {"type": type(error).__name__, "message": _message_of(reply, request)}
    if isinstance(error, ChunkfoldError):
        value |= {"retryable": error.retryable, "retry_after": error.retry_after}
    if isinstance(error, APIError):
        value |= {"status_code": error.status_code, "code": error.code, "param": error.param}
    return value


def _message_of(reply: Reply, request: ChatRequest) -> str:
    """What went wrong, in one line."""
    error = reply.error
    if isinstance(error, click.ClickException):
        return error.message  # which is clean already
    message = str(error)
    if isinstance(error, APIError) and not isinstance(error, APIStatusError):
        message = f"the provider reported an error: {message}"
    return _clean(message, request)


def _error_line(reply: Reply, request: ChatRequest) -> str:
    """What went wrong, and what helps to ask about it, in one line."""
    after = reply.error.retry_after if isinstance(reply.error, ChunkfoldError) else None
    asides = [
        f"request id {_clean(reply.request_id, request)}" if reply.request_id else "",
        f"retry after {after:g} s" if after is not None else "",
    ]
    aside = ", ".join(filter(None, asides))
    return f"Error: {_message_of(reply, request)}" + (f" ({aside})" if aside else "")


def _clean(text: str, request: ChatRequest) -> str:
    """One line without secrets."""
    return one_line(Redactor(request.secrets).clean_text(text))
