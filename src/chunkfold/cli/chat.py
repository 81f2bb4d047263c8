"""`chunkfold chat`: ask a provider, and watch the answer."""

import sys
from contextlib import ExitStack
from typing import Any, Final

import click
import httpx

from chunkfold import ChatCompletionStream, ChunkfoldError, StreamEnd, connect
from chunkfold.cli.exit_codes import EXIT_CODES_HELP, LEFT, exit_code
from chunkfold.cli.facts import Reply, error_line, footer, reply_json
from chunkfold.cli.painter import Painter, watch
from chunkfold.cli.request import ChatRequest, chat_request, request_options
from chunkfold.cli.safe import Secrets, one_line
from chunkfold.cli.sources import NO_RESPONSE, NoResponseError, client_for, no_response, waited
from chunkfold.cli.view import AnswerView, answer_view, say
from chunkfold.recording.redaction import Redactor

_EPILOG: Final = f"""\b
Examples:
  chunkfold chat https://api.openai.com/v1 -m gpt-5-mini "Why is it dark?"
  cat article | chunkfold chat $OPENAI_BASE_URL -m gpt-5-mini "Summarize"
  chunkfold chat http://127.0.0.1:8080/v1 -m qwen3 --tool rain.json "Rain?"
  chunkfold chat "Why is it dark?"       with OPENAI_BASE_URL, CHUNKFOLD_MODEL
  chunkfold chat $OPENAI_BASE_URL -m gpt-5-mini --param n=2 --json Hi | jq .end

{EXIT_CODES_HELP}"""


@click.command(epilog=_EPILOG)
@click.argument("url", required=False)
@click.argument("prompt", required=False)
@request_options
@click.option("--reasoning", "shows_reasoning", is_flag=True, help="Show all of the reasoning, not only its last rows.")
@click.option("--json", "as_object", is_flag=True, help="Print only one JSON object, at the end.")
@click.option("--raw", is_flag=True, help="Leave control characters as they are; not on a terminal.")
@click.option("-q", "--quiet", is_flag=True, help="Show no facts below the answer.")
@click.pass_context
def chat(
    context: click.Context,
    /,
    url: str | None,
    prompt: str | None,
    *,
    shows_reasoning: bool,
    as_object: bool,
    raw: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Ask a provider, and watch the answer.

    URL is an API's base URL or its chat completions; OPENAI_BASE_URL by default. Piped input is appended
    to the prompt. On a terminal the answer is rendered as Markdown; a pipe gets the text as it was sent,
    and nothing else.
    """
    if raw and sys.stdout.isatty():
        raise click.UsageError("--raw: standard output is a terminal, which would do what a model says; use a pipe")
    request = chat_request(url, prompt, **options)
    waiting = str(request.body.get("model", "an answer"))
    view = AnswerView() if as_object else answer_view(waiting, is_folded=not shows_reasoning, raw=raw)
    reply, has_left = ask(request, view)
    secrets = Secrets(request.secrets)
    if as_object:
        click.echo(reply_json(reply, secrets.hide))
    elif reply.timing.first_chunk is not None and not quiet:
        view.settle([secrets.hide(part) for part in footer(reply)])
    elif has_left:
        say("Nothing had come.")
    if reply.error is not None:
        redactor = Redactor(request.secrets)

        def clean(text: str) -> str:
            return one_line(redactor.clean_text(text))

        say(error_line(reply, clean, waited(reply.error, request)))
    context.exit(LEFT if has_left else exit_code(reply.end))


def ask(request: ChatRequest, view: AnswerView) -> tuple[Reply, bool]:
    """Send the request and draw the answer. Ctrl-C closes the connection, which stops the generation.

    Returns:
        Its result, and whether it was stopped by Ctrl-C.
    """
    reply, has_left = Reply(), False
    stream: ChatCompletionStream | None = None
    with ExitStack() as stack:
        try:
            client = stack.enter_context(client_for(request))
            stack.enter_context(view)
            stream = _open(stack, client, request)
            watch(stream, Painter(view, Secrets(request.secrets)))
        except KeyboardInterrupt:
            has_left = True
        except (ChunkfoldError, NoResponseError) as error:
            reply.error = error
    if stream is not None:
        reply.take(stream)
        has_left &= stream.end in (None, StreamEnd.CLOSED)
    return reply, has_left


def _open(stack: ExitStack, client: httpx.Client, request: ChatRequest) -> ChatCompletionStream:
    try:
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
    except NO_RESPONSE as error:
        raise no_response(request, error) from None
