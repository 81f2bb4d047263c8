"""Streams of all that chunkfold knows how to fold, made by hypothesis, for what holds for every stream and every cut.

`chunkfold.testing.strategies` makes what providers are known to send; this adds what some of them might: every field of
a delta, halves of characters, tools of both kinds, whole messages, a transport that fails.
"""

import base64
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from chunkfold import ChatCompletionEvent, ChatCompletionParser
from chunkfold.testing import DONE, Answer, chunk, cut, delta, event, fragment
from chunkfold.testing.playback import Playback
from chunkfold.testing.strategies import builders

STOP = delta("stop")
ERROR = event({"error": {"message": "overloaded", "code": 503}})


@dataclass(frozen=True)
class Stream:
    """The events of a body, and whether the transport fails behind them."""

    pieces: list[bytes]
    is_reset: bool = False

    def cut(self, places: list[int]) -> "Stream":
        """The same bytes, cut at other places; any number is one."""
        body = b"".join(self.pieces)
        return Stream(cut(body, *(place % (len(body) + 1) for place in places)), self.is_reset)

    def read(
        self, late: int = 0, *, folded: bool = False, **options: Any
    ) -> tuple[ChatCompletionParser, list[ChatCompletionEvent]]:
        """Parse it to its end; the events are asked for from that piece on, and then after each."""
        parser = ChatCompletionParser(**options)
        take: Callable[[bytes], object] = parser.fold if folded else parser.feed
        events = parser.events() if not late else []
        for number, piece in enumerate(self.pieces, 1):
            take(piece)
            events += parser.events() if number >= late else []
        if self.is_reset:
            parser.interrupt(ConnectionResetError("reset"))
        else:
            parser.close()
        return parser, events + parser.events()

    def __iter__(self) -> Iterator[bytes]:
        """What a transport would give; `async for` gives the same."""
        return iter(self._played)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._played)

    @property
    def _played(self) -> Playback:
        return Playback(Answer(self.pieces, ending="reset" if self.is_reset else "end"))


def custom(
    index: int | None, id: str | None = None, name: str | None = None, input: str | None = None
) -> dict[str, Any]:
    """A fragment of a custom tool's call; what is None is not sent."""
    outer = fragment(index, id)
    del outer["function"]
    inner = {key: value for key, value in (("name", name), ("input", input)) if value is not None}
    return {**outer, "custom": inner}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sparse(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


TEXTS = st.text("ab 号😀\n", max_size=4) | st.sampled_from(["\ud83d", "\ude00"])  # and halves of a character
WHOLE_TEXTS = st.text("ab 号😀\n", max_size=4)
THINKING = WHOLE_TEXTS | st.lists(st.builds(lambda text: {"type": "text", "text": text}, WHOLE_TEXTS), max_size=2)
CONTENT_LISTS = st.lists(
    WHOLE_TEXTS
    | st.builds(lambda text: {"type": "text", "text": text}, WHOLE_TEXTS)
    | st.builds(lambda thinking: {"type": "thinking", "thinking": thinking}, THINKING),
    max_size=3,
)
DETAILS = st.builds(lambda key, text: [{"type": f"reasoning.{key}", "index": 0, key: text}], st.sampled_from(["text", "summary"]), WHOLE_TEXTS)  # fmt: skip
REASONING = (
    st.builds(lambda text: {"reasoning_content": text}, TEXTS)
    | st.builds(lambda text: {"reasoning": text}, TEXTS)
    | st.builds(lambda details: {"reasoning_details": details}, DETAILS)
    | st.builds(lambda parts: {"content": parts}, CONTENT_LISTS)
    | st.builds(lambda text: {"reasoning": text, "reasoning_content": text}, WHOLE_TEXTS)
    | st.builds(lambda text, details: {"reasoning": text, "reasoning_details": details}, WHOLE_TEXTS, DETAILS)
)
FRAGMENTS = st.builds(
    fragment,
    st.sampled_from([None, 0, 0, 1, 2]),
    st.sampled_from([None, None, "", "a", "b", "call_0"]),
    st.sampled_from([None, None, "", "f", "f", "g", "fg"]),
    st.sampled_from([None, "", "{}", '{"x":', "1}", '{"x":1}', {"x": 1}, {}]),
)
CUSTOM = st.builds(
    custom,
    st.sampled_from([0, 1]),
    st.sampled_from([None, "a", "d"]),
    st.sampled_from([None, "h"]),
    st.sampled_from([None, "", "in", "put"]),
)
AUDIO = sparse(
    data=st.sampled_from([encoded(b"abc"), encoded(b"de"), "", encoded(b"fgh") * 2]),
    transcript=WHOLE_TEXTS,
    id=st.just("audio_1"),
)
ANNOTATIONS = st.lists(st.sampled_from([{"type": "url_citation", "url_citation": {"url": "u"}}, {"type": "x", "y": 1}]), max_size=2)  # fmt: skip
IMAGES = st.lists(st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, st.text("ab", max_size=2)), max_size=2)  # fmt: skip
DELTAS = (
    st.builds(lambda text: {"content": text}, TEXTS)
    | REASONING
    | st.builds(lambda text: {"refusal": text}, TEXTS)
    | st.builds(lambda calls: {"tool_calls": calls}, st.lists(FRAGMENTS, min_size=1, max_size=3))
    | st.builds(lambda call: {"tool_calls": [call]}, CUSTOM)
    | st.builds(lambda audio: {"audio": audio}, AUDIO)
    | st.builds(lambda images: {"images": images}, IMAGES)
    | st.builds(lambda annotations: {"annotations": annotations}, ANNOTATIONS)
    | st.just({"role": "assistant"})
)
FINISH_REASONS = ["stop", "length", "tool_calls", "content_filter", "eos_token", "", "network_error"]
INDEXES = st.sampled_from([0, 0, 0, 1, 7])
COUNTS = sparse(
    prompt_tokens=st.integers(0, 3) | st.none(),
    total_tokens=st.integers(0, 9),
    completion_tokens_details=st.builds(lambda count: {"reasoning_tokens": count}, st.integers(0, 3)),
)


def chunk_of(fields: dict[str, Any], more: dict[str, Any], finish_reason: str | None, index: int) -> bytes:
    return delta(finish_reason, index, **{**more, **fields})


def whole_message(message: dict[str, Any]) -> bytes:
    return chunk({"index": 0, "message": message, "finish_reason": "stop"})


EVENTS = (
    st.builds(chunk_of, DELTAS, st.just({}) | DELTAS, st.none(), INDEXES)
    | st.builds(chunk_of, DELTAS, st.just({}) | DELTAS, st.none(), INDEXES)
    | st.builds(chunk_of, st.just({}) | DELTAS, st.just({}), st.sampled_from(FINISH_REASONS), INDEXES)
    | st.builds(lambda counts: chunk(usage=counts), COUNTS)
    | st.builds(lambda calls: delta(tool_calls=calls), st.lists(FRAGMENTS, min_size=2, max_size=4))
    | st.builds(whole_message, DELTAS)
)
ENDS = st.sampled_from([[DONE], [DONE], [STOP, DONE], [STOP], [], [ERROR], [event("oops")]])
STREAMS = st.builds(
    lambda events, end, is_reset: Stream([*events, *end], is_reset), st.lists(EVENTS, max_size=8), ENDS, st.booleans()
) | st.builds(lambda built, is_reset: Stream(built.events, is_reset), builders(whole=False), st.booleans())
CUTS = st.lists(st.integers(0, 5000), max_size=8)
