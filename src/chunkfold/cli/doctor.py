"""`chunkfold doctor`: a few small requests to a provider, and a report of the results."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import click
import httpx
from rich.text import Text

from chunkfold import APIStatusError
from chunkfold.cli.checks import CHECKS, WRONG_KEY, Check, Judgement, Reply, Result
from chunkfold.cli.conformance import Finding, Report, as_json, markdown
from chunkfold.cli.exit_codes import LEFT
from chunkfold.cli.frames import Frame, Inspection
from chunkfold.cli.live import LiveAnswer, answer_to
from chunkfold.cli.request import MODEL_OPTION, ChatRequest, connection_options, endpoint, headers_of, with_default_url
from chunkfold.cli.sources import client_for
from chunkfold.cli.verdict import described
from chunkfold.cli.view import standard_output
from chunkfold.cli.waiting import waiting_for
from chunkfold.recording.redaction import Redactor

_MOST_TOKENS: Final = 256
_LIMITS: Final = ("max_tokens", "max_completion_tokens")  # OpenAI's newer models refuse the first
_KEY_HEADER: Final = re.compile(r"auth|(?<!port)key|token", re.IGNORECASE)
_STYLES: Final = {Result.PASS: "green", Result.TOLERATED: "yellow", Result.FAIL: "bold red", Result.SKIPPED: "dim"}
_BEGINNING: Final = 8  # characters that tell the beginning of a secret

_EPILOG: Final = """\b
Examples:
  chunkfold doctor https://api.openai.com/v1 -m gpt-5-mini
  chunkfold doctor http://127.0.0.1:8080/v1 -m qwen3 --only tools --only usage
  chunkfold doctor $OPENAI_BASE_URL -m gpt-5-mini --json | jq .checks[].result

\b
Exit codes:
  0  nothing failed
  1  something failed, or there was no answer: no response, or too many requests
  2  usage error
  130  stopped by Ctrl-C
"""


class Provider:
    """Asks a provider, one request after the other, over one client.

    Args:
        request: Where and how; its body has the model.
        client: The client.
    """

    def __init__(self, request: ChatRequest, client: httpx.Client) -> None:
        self._request = request
        self._client = client
        self._limit = _LIMITS[0]
        self.has_answered = False

    @property
    def note(self) -> str:
        """What had to be changed for it to answer."""
        return "" if self._limit == _LIMITS[0] else f"`{_LIMITS[0]}` was refused, `{_LIMITS[1]}` sent instead"

    @property
    def has_key(self) -> bool:
        """Whether a key is sent."""
        return any(map(_KEY_HEADER.search, self._request.headers))

    def ask(self, check: Check) -> Reply:
        """Send a check's request, and what else belongs to it.

        Raises:
            click.ClickException: There was no response.
        """
        reply = self._send(check)
        error = reply.parser.error
        if isinstance(error, APIStatusError) and self._limit == _LIMITS[0] and _LIMITS[0] in str(error):
            self._limit = _LIMITS[1]
            reply = self._send(check)
        if reply.left_after is None:
            return reply
        try:
            return replace(reply, following=self._send(CHECKS[0]))
        except click.ClickException:
            return reply

    def _send(self, check: Check) -> Reply:
        request = self._request
        headers = request.headers
        if check.has_wrong_key:
            headers = {name: _wrong(value) if _KEY_HEADER.search(name) else value for name, value in headers.items()}
        body = {**request.body, self._limit: _MOST_TOKENS, **check.body}
        odd: list[Frame] = []

        def keep(frame: Frame) -> None:
            if frame.error is not None or any(noted.is_first for noted in frame.anomalies):
                odd.append(frame)

        def is_enough(inspection: Inspection) -> bool:
            return check.is_left and inspection.parser.emitted_output

        started = time.monotonic()
        with answer_to(self._client, replace(request, body=body, headers=headers)) as response:
            self.has_answered = True
            answer = LiveAnswer(response, started, keep, progress_timeout=request.read_timeout)
            answer.read(is_enough)
            parser = answer.inspection.parser
            left_after = time.monotonic() - started if parser.end == "closed" else None
            return Reply(parser, odd, response.is_closed, left_after)


def list_checks(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    """What `--list` does: print the checks, and end."""
    if wanted and not context.resilient_parsing:
        width = max(len(check.name) for check in CHECKS)
        for check in CHECKS:
            click.echo(f"{check.name:<{width}}  {check.asks}")
        context.exit()


@click.command(epilog=_EPILOG)
@click.argument("url", required=False)
@MODEL_OPTION
@click.option(
    "--only",
    "names",
    multiple=True,
    metavar="CHECK",
    type=click.Choice([check.name for check in CHECKS]),
    help="Only this check; may be repeated.",
)
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=list_checks, help="List the checks.")
@click.option("--json", "as_object", is_flag=True, help="The report as one JSON object.")
@connection_options
@click.pass_context
def doctor(
    context: click.Context,
    /,
    url: str | None,
    *,
    model: str,
    names: tuple[str, ...],
    as_object: bool,
    key_env: str,
    headers: tuple[str, ...],
    timeout: float,
) -> None:
    """Check how well a provider follows the protocol.

    Sends at most ten small requests, each with a limit of 256 tokens, and prints a report in Markdown, to be
    pasted into a bug report. Keys are never in it.
    """
    request = ChatRequest(endpoint(with_default_url(url)[0]), {"model": model}, headers_of(key_env, headers), timeout)
    report = Report(request.url, model, datetime.now(UTC))
    is_interrupted = False
    checks = [check for check in CHECKS if not names or check.name in names]
    with client_for(request) as client, waiting_for(model) as show:
        provider = Provider(request, client)
        try:
            report.findings.extend(examine(provider, checks, show))  # as far as it comes
        except KeyboardInterrupt:
            is_interrupted = True
        report.note = provider.note
    _print(report, request.secrets, as_object=as_object)
    context.exit(LEFT if is_interrupted else int(report.has_failed or report.is_unanswered))


def examine(provider: Provider, checks: Sequence[Check], show: Callable[[str], object]) -> Iterator[Finding]:
    """The result of each check, as soon as it is known.

    Args:
        provider: The provider to check.
        checks: The checks, in order.
        show: Called with a line on the progress.

    Raises:
        click.ClickException: The first request got no response.
    """
    refused = ""
    for number, check in enumerate(checks, 1):
        show(f"{check.name} ({number} of {len(checks)})")
        if refused:
            yield Finding(check, Judgement(Result.SKIPPED, "already the plain request was refused", refused))
            continue
        finding = _finding(provider, check)
        yield finding
        if check is CHECKS[0] and finding.reply and isinstance(finding.reply.parser.error, APIStatusError):
            refused = described(finding.reply.parser.error)


def _finding(provider: Provider, check: Check) -> Finding:
    if check.has_wrong_key and not provider.has_key:
        return Finding(check, Judgement(Result.SKIPPED, "no key is set, so that there is none to replace"))
    try:
        reply = provider.ask(check)
    except click.ClickException as error:
        if not provider.has_answered:
            raise
        return Finding(check, Judgement(Result.FAIL, "there was no response", error.message))
    judgement = check.judge(reply)
    if judgement.result is Result.PASS and reply.parser.anomalies:
        judgement = judgement._replace(result=Result.TOLERATED)
    return Finding(check, judgement, reply)


def _wrong(value: str) -> str:
    return f"Bearer {WRONG_KEY}" if value.startswith("Bearer ") else WRONG_KEY


def _print(report: Report, secrets: Sequence[str], *, as_object: bool) -> None:
    """Print the report without secrets: as it is into a pipe, wrapped on a terminal."""
    console = standard_output()
    width = console.width if console.is_interactive else None
    text = without_secrets(as_json(report) if as_object else markdown(report, width), secrets)
    if as_object or width is None:
        console.file.write(text)
        console.file.flush()
        return
    for line in text.splitlines():
        indent = "  " if line.startswith("- ") else ""
        for number, row in enumerate(_coloured(line).wrap(console, width - len(indent))):
            console.print(Text.assemble(indent if number else "", row), no_wrap=True, overflow="crop")


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """The text with stars in place of every secret, and of the beginning of one that an excerpt has cut."""
    text = Redactor(secrets).clean_text(text)
    for secret in secrets:
        begin = text.find(secret[:_BEGINNING])
        while begin >= 0:
            size = next(size for size in range(len(secret), 0, -1) if text.startswith(secret[:size], begin))
            text = text[:begin] + "*" * size + text[begin + size :]
            begin = text.find(secret[:_BEGINNING], begin + size)
    return text


def _coloured(line: str) -> Text:
    text = Text(line, "bold" if line.startswith("#") else "")
    for result, style in _STYLES.items():
        text.highlight_regex(rf"(?<=[|:] )(\*\*)?{result}\b(\*\*)?", style)
    return text
