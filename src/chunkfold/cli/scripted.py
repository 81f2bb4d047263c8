"""The answers that `serve` gives: what a model says, a file's bytes, a recording, or an error, and how it is sent.

What does not depend on the request is checked where the script is read; the rest is made for each request.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chunkfold import ChatCompletionParser
from chunkfold.json_text.values import is_object
from chunkfold.recording import Recording
from chunkfold.testing import DONE, Answer, Raw, ReceivedRequest, choice, chunk, event, fragment, json_answer, usage
from chunkfold.testing.answers import Encoding, Ending, Framing
from chunkfold.testing.defaults import error_answer
from chunkfold.testing.recorded import BEFORE_RESET, recorded_answer

Pieces = Sequence[bytes | float | Raw]

_BLANK_LINE: Final = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)")
_CREATED: Final = 1_700_000_000  # seconds since 1970
_PROMPT_TOKENS: Final = 5


@dataclass(frozen=True, slots=True)
class Sending:
    """How an answer goes over the wire; see `Answer`. None: as it is where nothing is said.

    Attributes:
        delay: Seconds before the first byte.
        pace: Seconds between two pieces of the body.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    framing: Framing | None = None
    ending: Ending | None = None
    encoding: Encoding = "identity"
    cut_at: int | None = None
    delay: float | None = None
    pace: float | None = None

    def answer(
        self,
        pieces: Pieces,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        ending: Ending = "end",
        framing: Framing = "chunked",
    ) -> Answer:
        """The answer with these pieces, and the options of this table instead of the defaults.

        Raises:
            ValueError: The options contradict each other.
        """
        ended = self.ending or ("cut" if self.cut_at is not None else ending)
        # A pause of no length, behind the headers, is where it shows that a client has not waited for them.
        seen_to_leave = [0.0] if self.delay else []
        return Answer(
            [*seen_to_leave, *pieces, *([BEFORE_RESET] if ended == "reset" else [])],
            status if self.status is None else self.status,
            {**{name.lower(): value for name, value in (headers or {}).items()}, **self.headers},
            framing=self.framing or framing,
            ending=ended,
            encoding=self.encoding,
            cut_at=self.cut_at,
        )


class Scripted(ABC):
    """One answer of a script.

    Attributes:
        label: Its place in the script, for people.
        sending: How it is sent.
    """

    def __init__(self, label: str, sending: Sending) -> None:
        self.label = label
        self.sending = sending

    @property
    def delay(self) -> float:
        """How many seconds its first byte has to wait."""
        return self.sending.delay or 0.0

    @abstractmethod
    def answer_to(self, request: ReceivedRequest) -> Answer:
        """What a request gets.

        Raises:
            ValueError: What it is sent with contradicts it.
        """

    def check(self) -> None:
        """Find what would fail once it is asked for.

        Raises:
            ValueError: What it is sent with contradicts it.
        """
        for body in (b"{}", b'{"stream":true}'):
            self.answer_to(ReceivedRequest("POST", "/", {}, body))


@dataclass(frozen=True, slots=True)
class SaidCall:
    """A tool call; the arguments are text, whether or not that is JSON."""

    name: str
    arguments: str
    id: str


@dataclass(frozen=True, slots=True)
class Said:
    """What a model says, in the pieces in which it comes.

    Attributes:
        error: What the provider says instead of an end.
    """

    text: Sequence[str] = ()
    reasoning: Sequence[str] = ()
    tool_calls: Sequence[SaidCall] = ()
    finish_reason: str | None = None
    error: Mapping[str, Any] | None = None


class SaidAnswer(Scripted):
    """What a model says: streamed if that was asked for, else whole."""

    def __init__(self, label: str, sending: Sending, said: Said) -> None:
        super().__init__(label, sending)
        self._said = said

    def answer_to(self, request: ReceivedRequest) -> Answer:
        """As OpenAI's API would say it."""
        try:
            options: Any = request.json
        except ValueError:
            options = None
        if not is_object(options):
            return error_answer(400, "The body of a request must be a JSON object.")
        if options.get("stream"):
            return self.sending.answer(_paced(self._events(options), self.sending.pace))
        return self._whole(options)

    def _whole(self, options: dict[str, Any]) -> Answer:
        if self._said.error is not None:
            code = self._said.error.get("code")
            status = code if isinstance(code, int) and 400 <= code <= 599 else 500
            return _json_answer(self.sending, {"error": self._said.error}, status)
        parser = ChatCompletionParser()
        for data in self._events({**options, "stream_options": {"include_usage": True}}):
            parser.feed(data)
        return _json_answer(self.sending, parser.completion().model_dump(mode="json", exclude_none=True))

    def _events(self, options: dict[str, Any]) -> list[bytes]:
        said, head = self._said, _head_of(options)
        deltas = list(_deltas(said))
        if said.error is not None:
            return [*(_chunk(head, delta) for delta in deltas), event({"error": said.error})]
        streamed, trailer = options.get("stream_options"), list[bytes]()
        if is_object(streamed) and streamed.get("include_usage"):
            count = len(deltas) - 1  # the first one has the role alone
            trailer = [chunk(**head, usage=usage(_PROMPT_TOKENS, count))]
            head = {**head, "usage": None}
        reason = said.finish_reason or ("tool_calls" if said.tool_calls else "stop")
        return [*(_chunk(head, delta) for delta in deltas), _chunk(head, {}, reason), *trailer, DONE]


class ErrorAnswer(Scripted):
    """A status that says that there is no answer, with an error as its body."""

    def __init__(self, label: str, sending: Sending, error: Mapping[str, Any] | None) -> None:
        super().__init__(label, sending)
        self._error = error

    def answer_to(self, request: ReceivedRequest) -> Answer:  # noqa: ARG002 - it is the same for all
        """The error in OpenAI's form; nothing where there can be no body."""
        status = self.sending.status or 500
        if status in {204, 304}:
            return self.sending.answer([])
        kind = "server_error" if status >= 500 else "invalid_request_error"
        error = self._error or {"message": f"The script says {status}.", "type": kind, "param": None, "code": None}
        return _json_answer(self.sending, {"error": error})


class BytesAnswer(Scripted):
    """Bytes as they are: an event stream in pieces that are its events, or anything else in one."""

    def __init__(self, label: str, sending: Sending, data: bytes) -> None:
        super().__init__(label, sending)
        self._pieces = [piece for piece in _BLANK_LINE.split(data) if piece]

    def answer_to(self, request: ReceivedRequest) -> Answer:  # noqa: ARG002 - it is the same for all
        """The bytes."""
        return self.sending.answer(_paced(self._pieces, self.sending.pace))


class RecordedAnswer(Scripted):
    """A recording: cut as it was cut, at its own times unless others are given, and ended as it ended."""

    def __init__(self, label: str, sending: Sending, recording: Recording) -> None:
        super().__init__(label, sending)
        self._recording = recording
        self._recorded = recorded_answer(recording)

    @property
    def delay(self) -> float:
        """As given, else as recorded."""
        return (self._recording.headers_at or 0.0) if self.sending.delay is None else self.sending.delay

    def answer_to(self, request: ReceivedRequest) -> Answer:  # noqa: ARG002 - it is the same for all
        """The recorded response."""
        recorded, pace = self._recorded, self.sending.pace
        return self.sending.answer(
            recorded.pieces if pace is None else _paced([read.data for read in self._recording.reads], pace),
            status=recorded.status,
            headers=recorded.headers,
            ending=recorded.ending,
        )


def in_pieces(text: str) -> list[str]:
    """A text as models send it: words with the blanks before them, long ones in parts."""
    return re.findall(r"\s*\S{1,8}|\s+", text)


def _json_answer(sending: Sending, payload: Mapping[str, Any], status: int = 200) -> Answer:
    answer = json_answer(payload)
    pieces = [answer.body] if isinstance(answer.body, bytes) else []
    framing: Framing = "content-length" if sending.cut_at is None else "chunked"  # which may end where it is cut
    return sending.answer(pieces, status=status, headers=answer.headers, framing=framing)


def _paced(pieces: Sequence[bytes], pace: float | None) -> Pieces:
    """The pieces with a pause between any two."""
    if not pace:
        return pieces
    return [step for piece in pieces for step in (pace, piece)][1:]


def _deltas(said: Said) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    yield from ({"reasoning_content": piece} for piece in said.reasoning)
    yield from ({"content": piece} for piece in said.text)
    for index, call in enumerate(said.tool_calls):
        yield {"tool_calls": [fragment(index, call.id, call.name, "")]}
        yield from ({"tool_calls": [fragment(index, arguments=piece)]} for piece in in_pieces(call.arguments))


def _chunk(head: Mapping[str, Any], delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    return chunk({**choice(finish_reason, **delta), "logprobs": None}, **head)


def _head_of(options: Mapping[str, Any]) -> dict[str, Any]:
    model = options.get("model")
    return {
        "id": "chatcmpl-fake",
        "created": _CREATED,
        "model": model if isinstance(model, str) and model else "fake-model",
    }
