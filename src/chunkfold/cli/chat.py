"""`chunkfold chat`: ask a provider, and watch the answer."""

import sys
from contextlib import ExitStack
from typing import Any

import click

from chunkfold import ChatCompletionStream, ChunkfoldError, ConnectOptions, StreamEnd, connect
from chunkfold.cli.answer_view import AnswerView, answer_view
from chunkfold.cli.consoles import say
from chunkfold.cli.facts import Problem, StreamResult, error_line, exit_code, footer, result_json, result_of
from chunkfold.cli.painter import Painter
from chunkfold.cli.request import ChatRequest, chat_request
from chunkfold.cli.safe import one_line
from chunkfold.cli.sending import NoResponseError, client_for, explained, waited
from chunkfold.cli.signals import LEFT


def chat(
    url: str | None,
    prompt: str | None,
    *,
    shows_reasoning: bool,
    as_json: bool,
    raw: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Send the request, show the answer and the facts about it; return the exit code."""
    if raw and sys.stdout.isatty():
        raise click.UsageError("--raw: standard output is a terminal, which the model's text could control; use a pipe")
    request = chat_request(url, prompt, **options)
    view = AnswerView() if as_json else answer_view(request.model, is_folded=not shows_reasoning, raw=raw)
    result, has_left = ask(request, view)
    hide = request.secrets.hide
    if as_json:
        click.echo(result_json(result, hide))
    elif result.timing.first_chunk is None:
        if has_left:
            say("Nothing had arrived.")
    elif not quiet:
        view.show_facts([hide(part) for part in footer(result)])
    if result.error is not None:
        clean_text = request.redactor.clean_text
        say(error_line(result, lambda text: one_line(clean_text(text)), waited(result.error, request)))
    return LEFT if has_left else exit_code(result.end)


def ask(request: ChatRequest, view: AnswerView) -> tuple[StreamResult, bool]:
    """Send the request and draw the answer. Ctrl-C closes the connection, which stops the generation.

    Returns:
        Its result, and whether it was stopped by Ctrl-C.
    """
    error: ChunkfoldError | Problem | None = None
    stream: ChatCompletionStream | None = None
    has_left = False
    with ExitStack() as stack:
        try:
            client = stack.enter_context(client_for(request))
            stack.enter_context(view)
            options: ConnectOptions = {"headers": request.headers, "progress_timeout": request.read_timeout}
            with explained(request):
                stream = stack.enter_context(connect(client, "POST", request.url, json=request.body, **options))
            with Painter(view, stream, request.secrets) as painter:
                painter.draw()
        except KeyboardInterrupt:
            has_left = True
        except NoResponseError as lost:
            error = lost.problem
        except ChunkfoldError as failure:
            error = failure
    if stream is None:
        return StreamResult(error), has_left
    result = result_of(stream)._replace(error=error)  # None if the user left
    return result, has_left and stream.end in (None, StreamEnd.CLOSED)
