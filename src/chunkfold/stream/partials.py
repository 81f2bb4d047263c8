"""Parse the text of a stream as JSON while it is written."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from chunkfold.errors import LimitExceededError, ParseError, exceeded
from chunkfold.events.types import ChatCompletionEvent, TextDelta
from chunkfold.json_text.partial import PartialJSON
from chunkfold.parser.parser import ChatCompletionParser

MAX_PARTIAL_VALUES: Final = 250_000  # each takes some microseconds and hundreds of bytes, and twice that at the end


class Partials:
    """The values of the text of choice 0, while its stream is parsed; type and numbers are those of `PartialJSON`."""

    def __init__(self, parser: ChatCompletionParser, as_type: Any, *, half_numbers: bool) -> None:
        self._parser = parser
        self._type = as_type
        self._live = PartialJSON(as_type, half_numbers=half_numbers)
        self._values = 0
        self._size = 0  # of the text that was read, in characters
        self._is_over = False

    def after(self, event: ChatCompletionEvent) -> list[Any]:
        """The value after an event; none if the text did not grow."""
        if not isinstance(event, TextDelta) or event.choice != 0:
            return []
        known, (_, self._size) = self._size, event._source  # pyright: ignore[reportPrivateUsage] - the size of `snapshot`
        # Another view may have taken events before this one, whose text is then read from the snapshot.
        text = event.delta if known + len(event.delta) == self._size else event.snapshot[known:]
        self._values += sum(map(text.count, ",[{"))
        return [self._with_context(partial(self._live.feed, text))]

    def last(self) -> list[Any]:
        """The whole value when the stream is over; none if it did not end well, or the value was given already."""
        end = self._parser.end
        if self._is_over or end is None or not end.complete:
            return []
        self._is_over = True
        return [self._with_context(partial(self._parser.completion().message.parse, self._type))]

    def _with_context(self, parse: Callable[[], Any]) -> Any:
        try:
            if self._values > MAX_PARTIAL_VALUES:
                raise exceeded("max_partial_values", MAX_PARTIAL_VALUES)
            return parse()
        except (LimitExceededError, ParseError) as error:
            error.snapshot, error.emitted_output = self._parser.snapshot, self._parser.emitted_output
            raise
