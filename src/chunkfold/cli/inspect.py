"""`chunkfold inspect`: a stream frame by frame, and what a client must tolerate to read it."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click

from chunkfold.cli.consoles import standard_output
from chunkfold.cli.facts import exit_code
from chunkfold.cli.files import pieces_of, recording_from
from chunkfold.cli.frame_view import FrameView, JsonFrameView, TextFrameView
from chunkfold.cli.frames import Inspection, inspect_recording
from chunkfold.cli.request import ChatRequest, chat_request, checked_url, headers_of
from chunkfold.cli.safe import one_line
from chunkfold.cli.signals import LEFT
from chunkfold.recording import Recorder, Recording
from chunkfold.recording.format import is_recording
from chunkfold.recording.replaying import options_of
from chunkfold.recording.unpacking import unpacked

_PROMPT: Final = "Say hello."
_LARGEST_DOWNLOAD: Final = 64 * 2**20  # bytes


def inspect(
    source: str,
    prompt: str | None,
    *,
    is_explained: bool,
    only: str | None,
    as_json: bool,
    model: str | None,
    **options: Any,
) -> int:
    """Show the frames of a stream, and the verdict; return the exit code."""
    is_url = source.startswith(("http://", "https://"))
    if model is None and any((prompt is not None, *map(options.get, ("system", "tools", "params")))):
        raise click.UsageError("PROMPT, --system, --tool and --param are only used with a URL and --model")
    if model is not None and not is_url:
        raise click.UsageError(f"--model: expected a URL, received {one_line(source)}")
    kind = JsonFrameView if as_json else TextFrameView
    view = kind(standard_output(), is_explained=is_explained, only_odd=only is not None)
    try:
        if not is_url:
            return _show_file(source, view)
        if model is None:
            return _show_recording(_stored_at(source, **options), view)
        return _show_answer(chat_request(source, prompt or _PROMPT, model=model, **options), view)
    except KeyboardInterrupt:  # before there was anything to show
        return LEFT


def _show_file(source: str, view: FrameView) -> int:
    """A plain body is shown as it arrives; a recording is read first, since its last line says how it ended."""
    pieces = pieces_of(source)
    head = b""
    while (is_one := is_recording(head)) is None and (piece := next(pieces, b"")):
        head += piece
    if is_one is not False:  # or all of it is there
        return _show_recording(recording_from(source, chain([head], pieces)), view)
    size = 0 if source == "-" else Path(source).stat().st_size
    view = replace(view, timed=False, offset_width=len(str(size)))
    inspection = Inspection(view.frame, **options_of(Recording(())))

    def read() -> None:
        for piece in chain([head], pieces):
            inspection.feed(piece)
        inspection.close()

    return _watch(view, inspection, read)


def _show_recording(recording: Recording, view: FrameView) -> int:
    view = replace(view, timed=recording.is_timed, offset_width=len(str(len(recording.body))))
    inspection = Inspection(view.frame, **options_of(recording))
    return _watch(view, inspection, lambda: inspect_recording(recording, inspection))


def _show_answer(request: ChatRequest, view: FrameView) -> int:
    from chunkfold.cli.live import LiveAnswer
    from chunkfold.cli.sending import answer_to, client_for

    view = replace(view, hide=request.secrets.hide)
    with client_for(request) as client:
        started = time.monotonic()
        with answer_to(client, request) as response:
            answer = LiveAnswer(request, response, started, view.frame)
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
    from chunkfold.cli.sending import answer_to, client_for

    del others  # options of requests to a model
    request = ChatRequest(checked_url(url), {}, headers_of(key_env, headers), timeout)
    with client_for(request) as client, answer_to(client, request, "GET") as response:
        recorder, size = Recorder(response), 0
        with suppress(Exception):  # the recording says how it ended
            for data in recorder.iter_bytes():
                size += len(data)
                if size > _LARGEST_DOWNLOAD:
                    break
        if size > _LARGEST_DOWNLOAD:
            raise click.ClickException(f"URL: expected at most {_LARGEST_DOWNLOAD:,} bytes, received more")
        fetched = recorder.recording
    try:
        content = b"".join(unpacked(BytesIO(fetched.body)))
        stored = Recording.loads(content)
    except ValueError as error:
        raise click.ClickException(one_line(str(error))) from None
    is_plain = stored.body == content  # the download's times are not the stream's
    return replace(fetched, reads=stored.reads, ended_at=None) if is_plain else stored
