"""`chunkfold doctor`: a few small requests to a provider, and a report of the results."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import click
import httpx
from rich.text import Text

from chunkfold import APIStatusError, ChatCompletion, StreamEnd
from chunkfold.cli.checks import CHECKS, WRONG_KEY, Check, Judgement, Reply, Result, judge
from chunkfold.cli.consoles import print_beside, standard_output
from chunkfold.cli.doctor_report import Finding, Report, to_json, to_markdown
from chunkfold.cli.frames import Frame
from chunkfold.cli.live import LiveAnswer
from chunkfold.cli.request import ChatRequest, endpoint, headers_of, with_default_url
from chunkfold.cli.sending import NoResponseError, answer_to, client_for, waiting_for
from chunkfold.cli.signals import LEFT
from chunkfold.json_text.values import is_list, is_object
from chunkfold.recording.redaction import Redactor

_MOST_TOKENS: Final = 256
_LIMITS: Final = ("max_tokens", "max_completion_tokens")  # OpenAI's newer models refuse the first
_KEY_HEADER: Final = re.compile(r"auth|(?<!port)key|token", re.IGNORECASE)
_NOT_ASKED: Final = Judgement(Result.SKIPPED, "not asked, since the first request was refused")
_KEY: Final = re.compile(r"(Bearer )?.*")
_STYLES: Final = {"pass": "green", "tolerated": "yellow", "fail": "bold red", "unsupported": "dim", "skipped": "dim"}


class Provider:
    """Sends the requests of each check over a connection of its own."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._redactor = request.redactor
        self._limit = _LIMITS[0]
        self.note = ""  # what had to be changed so that the provider answers

    def examine(self, check: Check) -> Finding:
        """Send a check's requests, and judge the answers."""
        headers = self._request.headers
        if check.name == "wrong-key":
            names = filter(_KEY_HEADER.search, headers)
            headers = headers | {name: _KEY.sub(rf"\1{WRONG_KEY}", headers[name], 1) for name in names}
            if headers == self._request.headers:
                return Finding(check, Judgement(Result.SKIPPED, "no key is set, so there is none to replace"))
        replies, lost = list[Reply](), None
        with client_for(self._request) as client:
            try:
                replies.append(self._send(client, check.body, headers, is_left=check.is_left))
                error = replies[0].error
                if isinstance(error, APIStatusError) and self._limit == _LIMITS[0] and _LIMITS[0] in str(error):
                    self._limit, self.note = _LIMITS[1], f"`{_LIMITS[0]}` was refused, `{_LIMITS[1]}` sent instead"
                    replies = [self._send(client, check.body, headers, is_left=check.is_left)]
                if check.next_body is not None and replies[0].error is None:
                    replies.append(self._send(client, check.next_body(replies[0]), headers))
            except NoResponseError as failure:
                lost = failure.problem
        return Finding(check, judge(check, replies, lost), replies, lost)

    def _send(
        self, client: httpx.Client, body: Mapping[str, Any], headers: dict[str, str], *, is_left: bool = False
    ) -> Reply:
        odd: list[Frame] = []

        def keep(frame: Frame) -> None:
            if frame.error is not None or any(noted.is_first for noted in frame.anomalies):
                odd.append(frame)

        started = time.monotonic()
        body = {**self._request.body, self._limit: _MOST_TOKENS, **body}
        request = replace(self._request, body=body, headers=headers)
        with answer_to(client, request) as response:
            answer = LiveAnswer(request, response, started, keep)
            answer.read(lambda inspection: is_left and inspection.parser.emitted_output)
            parser = answer.inspection.parser
            was_left = parser.end is StreamEnd.CLOSED
            return Reply(
                parser,
                ChatCompletion.model_validate(self._cleaned(parser.snapshot.model_dump(mode="json"))),
                odd,
                connection=response.extensions["network_stream"],
                closes=_closing(response),
                body_ended=response.is_closed,
                left_after=time.monotonic() - started if was_left else None,
                noticed_after=answer.hang_up() if was_left else None,
            )

    def _cleaned(self, value: Any) -> Any:
        """The value without secrets, also without those that arrived in pieces."""
        if isinstance(value, str):
            return self._redactor.clean_text(value)
        if is_list(value):
            return [*map(self._cleaned, value)]
        return {name: self._cleaned(each) for name, each in value.items()} if is_object(value) else value


def doctor(
    url: str | None,
    *,
    model: str,
    names: tuple[str, ...],
    as_json: bool,
    key_env: str,
    headers: tuple[str, ...],
    timeout: float,
) -> int:
    """Send the requests of the checks, and print the report; return the exit code."""
    request = ChatRequest(endpoint(with_default_url(url)[0]), {"model": model}, headers_of(key_env, headers), timeout)
    date = datetime.now(UTC)
    provider, findings = Provider(request), list[Finding]()
    is_interrupted = False
    with waiting_for(model) as show:
        try:
            for finding in _examined(provider, [check for check in CHECKS if not names or check.name in names], show):
                findings.append(finding)
        except KeyboardInterrupt:
            is_interrupted = True
    parts = urlsplit(request.url)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    _print(Report(host, model, date, provider.note, findings), request.redactor, is_json=as_json)
    has_failed = any(finding.judgement.result is Result.FAIL for finding in findings)
    return LEFT if is_interrupted else int(has_failed or any(finding.is_one_too_many for finding in findings[:1]))


def _examined(provider: Provider, checks: Sequence[Check], show: Callable[[str], object]) -> Iterator[Finding]:
    """The result of each check, as soon as it is known.

    Once the plain request is refused, or the first request of a check is one too many, no more requests are sent.

    Raises:
        NoResponseError: The first request got no response.
    """
    is_refused = False
    for number, check in enumerate(checks, 1):
        show(f"{check.name} ({number} of {len(checks)})")
        finding = Finding(check, _NOT_ASKED) if is_refused else provider.examine(check)
        if finding.lost and number == 1 and not finding.replies:
            raise NoResponseError(finding.lost)
        yield finding
        is_refused |= check is CHECKS[0] and isinstance(finding.error, APIStatusError)
        is_refused |= number == 1 and finding.is_one_too_many


def _closing(response: httpx.Response) -> str:
    """What announces that the connection ends with the body; "" if nothing does."""
    if response.http_version == "HTTP/1.0":
        return response.http_version
    return "connection: close" if "close" in response.headers.get("connection", "").lower() else ""


def _print(report: Report, redactor: Redactor, *, is_json: bool) -> None:
    """Print the report without secrets: as it is into a pipe, wrapped on a terminal."""
    if is_json:
        click.echo(redactor.clean_text(to_json(report)))
        return
    console = standard_output()
    lines = to_markdown(report, console.width if console.is_interactive else None)
    for line in redactor.clean_text("\n".join(lines)).splitlines():
        bullet = "- " if line.startswith("- ") else ""
        print_beside(console, Text(bullet), _coloured(line.removeprefix(bullet)))


def _coloured(line: str) -> Text:
    text = Text(line, "bold" if line.startswith("#") else "")
    for result, style in _STYLES.items():
        text.highlight_regex(rf"(?<=[|:] )(\*\*)?{result}\b(\*\*)?", style)
    return text
