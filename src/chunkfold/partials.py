"""The JSON that a stream's text is, as values while it is written."""

from collections.abc import Callable
from functools import partial
from typing import Any

from chunkfold.errors import ParseError
from chunkfold.events import ChatCompletionEvent, TextDelta
from chunkfold.models.partial import PartialJSON
from chunkfold.parser import ChatCompletionParser


class Partials:
    """The values that the text of choice 0 gives, while its stream is parsed.

    Args:
        parser: The stream's parser.
        as_type: Anything pydantic can validate; None for plain JSON values.
        half_numbers: Whether to show a number that may still go on.
    """

    def __init__(self, parser: ChatCompletionParser, as_type: Any, *, half_numbers: bool) -> None:
        self._parser = parser
        self._type = as_type
        self._live = PartialJSON(as_type, half_numbers=half_numbers)
        self._is_over = False

    def after(self, event: ChatCompletionEvent) -> list[Any]:
        """The value after an event; none if the text did not grow."""
        if not isinstance(event, TextDelta) or event.choice != 0:
            return []
        return [self._with_context(partial(self._live.feed, event.delta))]

    def last(self) -> list[Any]:
        """The whole value when the stream is over; none if it did not end well, or the value was given already."""
        end = self._parser.end
        if self._is_over or end is None or not end.complete:
            return []
        self._is_over = True
        return [self._with_context(partial(self._parser.completion().message.parse, self._type))]

    def _with_context(self, parse: Callable[[], Any]) -> Any:
        try:
            return parse()
        except ParseError as error:
            error.snapshot, error.emitted_output = self._parser.snapshot, self._parser.emitted_output
            raise
