"""`chunkfold inspect`: a stream frame by frame, and what a client must tolerate to read it."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click

from chunkfold.cli.exit_codes import EXIT_CODES_HELP, LEFT, exit_code
from chunkfold.cli.files import has_times, recording_from
from chunkfold.cli.frame_view import FrameView, JsonFrameView, TextFrameView
from chunkfold.cli.frames import Inspection, inspect_recording
from chunkfold.cli.request import ChatRequest, chat_request, checked_url, headers_of, request_options
from chunkfold.cli.safe import one_line
from chunkfold.cli.view import standard_output
from chunkfold.recording import Recorder, Recording
from chunkfold.recording.replaying import options_of

_PROMPT: Final = "Say hello."
_View = Callable[..., FrameView]  # with what is still to be said of the stream

_EXAMPLES: Final = """\b
Examples:
  chunkfold inspect answer.jsonl                   a recording
  curl -N ... | chunkfold inspect -                a body, from a pipe
  chunkfold inspect body.sse --only anomalies --rules
  chunkfold inspect body.sse --json | jq .kind
  chunkfold inspect $OPENAI_BASE_URL -m gpt-5-mini "Say hello."
"""


@click.command(epilog=f"{_EXAMPLES}\n{EXIT_CODES_HELP}")
@click.argument("source", metavar="FILE|URL|-")
@click.argument("prompt", required=False)
@click.option("--rules", "explained", is_flag=True, help="Explain each rule: who breaks it, and what chunkfold does.")
@click.option("--only", type=click.Choice(["anomalies"]), help="Only frames that break a rule, and errors.")
@click.option("--json", "as_json", is_flag=True, help="JSON Lines: an object for each frame, the verdict last.")
@request_options
@click.pass_context
def inspect(
    context: click.Context,
    /,
    source: str,
    prompt: str | None,
    *,
    explained: bool,
    only: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show a stream frame by frame, and what a client must tolerate to read it.

    FILE is a recording or a body as curl saves it, "-" is standard input. With --model a URL is
    asked for an answer to the PROMPT ("Say hello."), and without it for a body that is stored there.
    """
    if options["model"] is None and prompt is not None:
        raise click.UsageError("a prompt is for a URL, with --model")
    kind = JsonFrameView if as_json else TextFrameView
    view = partial(kind, standard_output(), explained=explained, only_odd=only is not None)
    try:
        code = _show(source, prompt, view, options)
    except KeyboardInterrupt:  # before anything was there to be shown
        code = LEFT
    context.exit(code)


# A body that is stored at a URL comes without a model.
_model = next(option for option in inspect.params if option.name == "model")
_model.required, _model.envvar = False, None


def _show(source: str, prompt: str | None, make_view: _View, options: dict[str, Any]) -> int:
    if _is_url(source):
        if options["model"] is None:
            return _show_recording(_stored_at(source, **options), make_view)
        return _show_answer(chat_request(source, prompt or _PROMPT, **options), make_view)
    if options["model"] is not None:
        raise click.UsageError(f"--model is for a URL, and {one_line(source)} is none")
    return _show_recording(recording_from(source), make_view)


def _is_url(source: str) -> bool:
    if not source.startswith("http"):
        return False  # and a file need not load a client
    from chunkfold.cli.sources import is_url

    return is_url(source)


def _show_recording(recording: Recording, make_view: _View) -> int:
    timed = has_times(recording)
    view = make_view(timed=timed, offset_width=len(str(len(recording.body))))
    inspection = Inspection(view.frame, **options_of(recording))
    return _watch(view, inspection, lambda: inspect_recording(recording, inspection))


def _show_answer(request: ChatRequest, make_view: _View) -> int:
    from chunkfold.cli.live import LiveAnswer, answer_to
    from chunkfold.cli.sources import client_for

    view = make_view()
    with client_for(request) as client:
        started = time.monotonic()
        with answer_to(client, request) as response:
            answer = LiveAnswer(response, started, view.frame, request.read_timeout)
            return _watch(view, answer.inspection, answer.read)


def _watch(view: FrameView, inspection: Inspection, read: Callable[[], object]) -> int:
    """Show what is read, up to Ctrl-C, and the verdict; return the exit code."""
    view.begin()
    try:
        read()
    except KeyboardInterrupt:
        inspection.leave()
        view.verdict(inspection)
        return LEFT
    view.verdict(inspection)
    return exit_code(inspection.parser.end)


def _stored_at(url: str, *, key_env: str, headers: tuple[str, ...], timeout: float, **others: Any) -> Recording:
    """The recording or the body that a URL leads to; a server's refusal is one, too."""
    from chunkfold.cli.live import answer_to
    from chunkfold.cli.sources import client_for

    del others  # they say what to ask a model
    request = ChatRequest(checked_url(url), {}, headers_of(key_env, headers), timeout)
    with client_for(request) as client, answer_to(client, request, "GET") as response:
        recorder = Recorder(response)
        with suppress(Exception):  # the recording says how it ended
            for _ in recorder.iter_bytes():
                pass
        fetched = recorder.recording
    try:
        stored = Recording.loads(fetched.body)
    except ValueError as error:
        raise click.ClickException(f"{one_line(str(error))}") from None
    is_plain = stored.body == fetched.body
    return replace(fetched, reads=stored.reads) if is_plain else stored  # when it was fetched is no time of its own
