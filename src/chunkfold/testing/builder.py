"""Describe a stream: what the model says, piece by piece; the dialect defines how it is sent.

    stream = StreamBuilder("stepfun").reasoning("Hm", "m.").text("Hel", "lo").usage(10, 5).finish().done()

    stream.body        # the bytes
    stream.events      # the same in pieces, one for each event
    stream.answer()    # what a FakeProvider sends
    stream.reading     # the result that a client must get

The dialect can be changed at any time: the bytes are written when they are requested.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Self, cast

from chunkfold.arguments import check_word
from chunkfold.testing.answers import Answer, Raw
from chunkfold.testing.dialects import Dialect, dialect_of
from chunkfold.testing.error_shapes import ERROR_SHAPES, ErrorShape, ReportedError
from chunkfold.testing.expected import reading_of
from chunkfold.testing.pacing import paced
from chunkfold.testing.readings import Reading
from chunkfold.testing.steps import (
    CallTools,
    Encoded,
    Fail,
    Finish,
    SaidCall,
    Say,
    SayDone,
    Step,
    UsageCounts,
)
from chunkfold.testing.wire import HEAD, event
from chunkfold.testing.writing import Writer


@dataclass(frozen=True, slots=True, repr=False)
class StreamBuilder:
    """A streamed chat completion as a provider sends it. Each method returns a new builder with one more step.

    Only the dialect adds anything by itself: a stream without `finish` and `done` is cut off.
    You can iterate over a builder, and pass it to a stream: `ChatCompletionStream(builder)`.

    Attributes:
        dialect: The name of a dialect among `DIALECTS`, or a `Dialect`.
        head: Replaces the `id`, `object`, `created` and `model` that chunks have by default.
        steps: The steps so far.
        counts: The usage, None if there is none.

    Raises:
        ValueError: There is no dialect of that name.

    Examples:
        >>> StreamBuilder().text("Hi").finish().done().reading.text
        'Hi'
    """

    dialect: str | Dialect = "openai"
    head: Mapping[str, Any] = field(default_factory=dict[str, Any])
    steps: tuple[Step, ...] = ()
    counts: UsageCounts | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown dialect where it is named."""
        dialect_of(self.dialect)

    def text(self, *pieces: str, choice: int = 0) -> Self:
        """Add text, a chunk for each piece."""
        return self._with(Say("content", pieces, choice))

    def reasoning(self, *pieces: str, choice: int = 0) -> Self:
        """Add reasoning, a chunk for each piece; a dialect without reasoning does not send it."""
        return self._with(Say("reasoning", pieces, choice))

    def refusal(self, *pieces: str, choice: int = 0) -> Self:
        """Add a refusal, a chunk for each piece."""
        return self._with(Say("refusal", pieces, choice))

    def tool_call(self, name: str, *arguments: str | Mapping[str, Any], id: str | None = None, choice: int = 0) -> Self:
        """Add a tool call whose arguments are sent in these pieces; the id is generated unless you pass one.

        Args:
            name: The tool's name.
            arguments: The JSON in pieces; or a dict, which is sent as JSON in one piece.
            id: The call's id.
            choice: The index of the choice that has the call.

        Raises:
            TypeError: A piece is neither text nor a dict, or there are other pieces beside a dict.
        """
        return self._calling([(name, arguments, id)], choice)

    def tool_calls(self, *calls: Sequence[str | Mapping[str, Any]], choice: int = 0) -> Self:
        """Add several tool calls with interleaved pieces: each is a name, then pieces of arguments or a dict.

        In a dialect that sends whole calls, or that distinguishes calls only by their order, they are sent one by one.

        Raises:
            TypeError: One of them is text.
            ValueError: One of them is empty.
        """
        for call in calls:
            if isinstance(call, str) or not call:
                error = TypeError if isinstance(call, str) else ValueError
                raise error(f"calls: expected a name and pieces for each, received {call!r}")
        return self._calling([(cast("str", name), pieces, None) for name, *pieces in calls], choice)

    def usage(self, prompt: int, completion: int, *, cached: int | None = None, reasoning: int | None = None) -> Self:
        """Add the usage, in tokens. It is sent where the dialect has it, and only if there is a `finish`.

        Without this step no usage is sent, even in the dialect of a provider that always sends it.
        """
        return replace(self, counts=UsageCounts(prompt, completion, cached, reasoning))

    def finish(self, reason: str | None = None, *, choice: int = 0) -> Self:
        """Add the finish reason: by default `tool_calls` if there are tool calls, else `stop`."""
        return self._with(Finish(reason or ("tool_calls" if self._calls(choice) else "stop"), choice))

    def error(
        self, message: str, *, code: int | str | None = None, type: str | None = None, shape: ErrorShape | None = None
    ) -> Self:
        """Add a provider's error, in the dialect's shape unless you pass another of `ERROR_SHAPES`.

        Args:
            message: The error message.
            code: An HTTP status, or a word.
            type: The provider's name for this kind of error.
            shape: How it is sent. Some shapes have no place for the code or the type.

        Raises:
            ValueError: There is no shape of that name.
        """
        if shape is not None:
            check_word("shape", shape, ERROR_SHAPES)
        return self._with(Fail(ReportedError(message, code, type), shape))

    def comment(self, text: str = "keep-alive") -> Self:
        """Add a comment, which some providers send to keep the connection alive.

        Raises:
            ValueError: The text has more than one line.
        """
        if "\n" in text or "\r" in text:
            raise ValueError(f"text: expected one line, received {text!r}")
        return self.raw(f": {text}\n\n".encode())

    def event(self, payload: object, name: str = "message") -> Self:
        """Add one more event: text and bytes are its data, anything else becomes JSON."""
        return self._with(Encoded(event(payload, name)))

    def raw(self, data: bytes) -> Self:
        """Add bytes, which are sent unchanged.

        Raises:
            TypeError: They are not bytes.
        """
        return self._with(Raw(data))

    def done(self) -> Self:
        """Add the last event, `[DONE]`, if the dialect has it."""
        return self._with(SayDone())

    def in_dialect(self, dialect: str | Dialect) -> Self:
        """Return the same stream as another provider sends it.

        Raises:
            ValueError: There is no dialect of that name.
        """
        return replace(self, dialect=dialect)

    @property
    def events(self) -> list[bytes]:
        """The body in pieces, one for each event."""
        return list(Writer(dialect_of(self.dialect), {**HEAD, **self.head}, self.counts).write(self.steps))

    @property
    def body(self) -> bytes:
        """The body."""
        return b"".join(self.events)

    def __iter__(self) -> Iterator[bytes]:
        """The body in pieces, as a stream reads it."""
        return iter(self.events)

    def __repr__(self) -> str:
        """Its body, shortened."""
        body = self.body
        return f"<{type(self).__name__} of {len(body)} bytes in {len(self.events)} events>"

    def answer(
        self, *, first: float = 0.0, pace: float = 0.0, jitter: float = 0.0, seed: int = 0, **options: Any
    ) -> Answer:
        """The answer that a FakeProvider or a mocked client sends.

        Args:
            first: Seconds before the first event.
            pace: Seconds between two events.
            jitter: By how much of itself a pause may be longer or shorter; see `paced`.
            seed: For the jitter.
            options: As `Answer` has them: `ending`, `cut_at`, `encoding`, `status`, ...
        """
        return Answer(paced(self.events, first=first, pace=pace, jitter=jitter, seed=seed), **options)

    @property
    def reading(self) -> Reading:
        """The result that a client must get; steps of `raw` and `event` are not included."""
        return reading_of(self.steps, dialect_of(self.dialect), self.counts)

    def _calls(self, choice: int) -> list[SaidCall]:
        steps = (step for step in self.steps if isinstance(step, CallTools) and step.choice == choice)
        return [call for step in steps for call in step.calls]

    def _calling(self, calls: Iterable[tuple[str, Sequence[str | Mapping[str, Any]], str | None]], choice: int) -> Self:
        """Add calls: the name of each, the pieces of its arguments, and its id, None for one that is free."""
        before = self._calls(choice)
        taken = {call.id for call in before}
        free = (new for number in count(len(taken) + 1) if (new := f"call_{number}") not in taken)
        said = (SaidCall(name, _pieces(pieces), own or next(free)) for name, pieces, own in calls)
        return self._with(CallTools(tuple(said), len(before), choice))

    def _with(self, step: Step) -> Self:
        return replace(self, steps=(*self.steps, step))


def _pieces(arguments: Sequence[str | Mapping[str, Any]]) -> tuple[str, ...]:
    """The pieces of arguments; a dict is one piece, and the only one."""
    if not any(isinstance(piece, Mapping) for piece in arguments):
        return tuple(cast("Sequence[str]", arguments))
    if len(arguments) > 1:
        raise TypeError(
            f"arguments: expected pieces of text or one dict, received {len(arguments)} with a dict in them"
        )
    return (json.dumps(arguments[0], ensure_ascii=False),)
