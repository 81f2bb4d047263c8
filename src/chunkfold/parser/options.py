"""The parser's options."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypedDict

from chunkfold.event_stream.server_sent_event import ServerSentEvent
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.tool_calls import ToolTypes
from chunkfold.transforms import Transform
from chunkfold.wire.headers import GivenHeaders

DEFAULT_MAX_EVENT_SIZE: Final = 32 * 2**20  # bytes

OnServerSentEvent = Callable[[ServerSentEvent, list[ChatCompletionChunk]], object]


class ReadOptions(TypedDict, total=False):
    """The options that `connect`, the streams and the parser all take; `ChatCompletionParser` describes them.

    They say how a body is read, whatever it comes from.
    """

    strict: bool | Collection[str]
    tolerate: Collection[str]
    max_event_size: int | None
    max_event_items: int | None
    max_output_size: int | None
    progress_timeout: float | None
    total_timeout: float | None
    on_server_sent_event: OnServerSentEvent | None
    clock: Callable[[], float]
    transforms: Sequence[Transform]
    one_choice: bool
    tools: ToolTypes | None


class ParserOptions(ReadOptions, total=False):
    """The options of `ChatCompletionParser`, which describes them. The streams and `replay` take the same."""

    status_code: int | None
    headers: GivenHeaders | None
    started: float | None


class BodyOptions(NamedTuple):
    """What the body of one stream needs of these options, and the response's status and headers, for error messages."""

    max_event_size: int | None
    max_event_items: int | None
    max_output_size: int | None
    on_server_sent_event: OnServerSentEvent | None
    transforms: Sequence[Transform]
    one_choice: bool
    status_code: int | None
    headers: Mapping[str, str]
