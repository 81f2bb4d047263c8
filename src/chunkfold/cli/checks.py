"""What `chunkfold doctor` asks a provider, and what it expects of each answer: a table.

A check is a request and a function that judges the result. The stream is read tolerantly: an answer that is right
although rules were broken on the way counts as tolerated, and the rules are listed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from chunkfold import APIError, APIStatusError, ChatCompletionParser, ParseError, StreamEnd
from chunkfold.cli.additions import quoted, tokens_of, word
from chunkfold.cli.frames import Frame
from chunkfold.cli.safe import one_line
from chunkfold.cli.verdict import described

WRONG_KEY: Final = "chunkfold-doctor-wrong-key"
WRONG_MODEL: Final = "chunkfold-doctor-no-such-model"
_TOO_OFTEN: Final = 429
_NOT_SUPPORTED: Final = frozenset({400, 404, 405, 415, 422, 501})  # what a provider says of what it does not know


class Result(StrEnum):
    """The result of a check."""

    PASS = "pass"  # noqa: S105 - no password
    TOLERATED = "tolerated"
    FAIL = "fail"
    SKIPPED = "skipped"


class Judgement(NamedTuple):
    """What is said of an answer.

    Attributes:
        result: The word.
        reason: Why.
        quote: What the provider said or sent, bounded and escaped; it belongs behind the reason.
    """

    result: Result
    reason: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a request.

    Attributes:
        parser: The parser that read it to its end.
        odd_frames: Of its frames those that broke a rule for the first time, and the one with the error.
        body_ended: Whether the body ended with the stream, so that the connection can be used again.
        left_after: When it was left, in seconds; None if it was not.
        following: The result of the next request, if one was sent.
    """

    parser: ChatCompletionParser
    odd_frames: Sequence[Frame] = ()
    body_ended: bool = True
    left_after: float | None = None
    following: "Reply | None" = None

    @property
    def text(self) -> str:
        """The text."""
        return self.parser.snapshot.text

    @property
    def is_cut(self) -> bool:
        """Whether the limit of tokens cut it."""
        return self.parser.snapshot.finish_reason == "length"


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: Its name.
        asks: What it asks for, in words.
        body: The request's body, beside the model and the limit of tokens.
        judge: What judges the answer.
        has_wrong_key: Whether it is sent with an invalid key.
        is_left: Whether it is left at the first output, and another request sent.
    """

    name: str
    asks: str
    body: Mapping[str, Any]
    judge: Callable[[Reply], Judgement]
    has_wrong_key: bool = field(default=False, kw_only=True)
    is_left: bool = field(default=False, kw_only=True)


# What is asked for


def _say(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


_CITIES: Final = ("Paris", "Tokyo")
_WEATHER: Final = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The city's name."}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


class _Weather(BaseModel):
    """The arguments of the tool."""

    model_config = ConfigDict(extra="forbid")
    city: str


class City(BaseModel):
    """What the structured output is to be."""

    model_config = ConfigDict(extra="forbid")
    name: str
    country: str


_CITY_FORMAT: Final = {
    "type": "json_schema",
    "json_schema": {
        "name": "city",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "country": {"type": "string"}},
            "required": ["name", "country"],
            "additionalProperties": False,
        },
    },
}


# What is expected


def judge_text(reply: Reply) -> Judgement:
    """The stream ends well, and brings text, or as much reasoning as the limit allows."""
    if (failure := _failure(reply)) is not None:
        return failure
    if not reply.text.strip() and not (reply.is_cut and reply.parser.snapshot.reasoning):
        return Judgement(Result.FAIL, f"no text came; the stream {_ended(reply)}")
    if not reply.body_ended:
        return Judgement(
            Result.TOLERATED, "the body did not end within 0.1 s of [DONE]: the connection cannot be used again"
        )
    if not reply.text.strip():
        return Judgement(Result.PASS, "only reasoning came, up to the limit of tokens")
    return Judgement(Result.PASS, "text came", _excerpt(reply.text))


def judge_tool_call(reply: Reply) -> Judgement:
    """One call of the tool comes, with its arguments whole."""
    return _failure(reply, optional=True) or _judge_calls(reply, _CITIES[:1])


def judge_parallel_calls(reply: Reply) -> Judgement:
    """Two calls of the tool come in one answer, with their own ids and arguments."""
    return _failure(reply, optional=True) or _judge_calls(reply, _CITIES)


def judge_usage(reply: Reply) -> Judgement:
    """Usage comes, and adds up."""
    if (failure := _failure(reply, optional=True)) is not None:
        return failure
    usage = reply.parser.snapshot.usage
    if usage is None:
        return Judgement(Result.FAIL, "no usage came, although stream_options.include_usage asked for it")
    if not usage.prompt_tokens or not usage.completion_tokens:
        return Judgement(Result.FAIL, "usage came without the tokens of prompt or completion", tokens_of(usage))
    total = usage.total_tokens
    if total is not None and total < usage.prompt_tokens + usage.completion_tokens:  # it may hold more
        return Judgement(Result.FAIL, "the total is less than prompt + completion", tokens_of(usage))
    return Judgement(Result.PASS, "usage came", tokens_of(usage))


def judge_structured_output(reply: Reply) -> Judgement:
    """The text is JSON that fits the schema."""
    if (failure := _failure(reply, optional=True)) is not None:
        return failure
    if reply.is_cut:
        return Judgement(Result.SKIPPED, "the limit of tokens cut the answer")
    if reply.parser.snapshot.choices[0].message.refusal:
        return Judgement(Result.SKIPPED, "the model refused to answer")
    try:
        city = reply.parser.snapshot.choices[0].message.parse(City)
    except ParseError as error:
        return Judgement(Result.FAIL, "the text does not fit the schema", one_line(str(error)))
    return Judgement(Result.PASS, "JSON came that fits the schema", city.model_dump_json())


def judge_early_close(reply: Reply) -> Judgement:
    """The stream can be left, and the next request is answered."""
    if reply.left_after is None:
        if (failure := _failure(reply)) is not None:
            return failure
        return Judgement(Result.SKIPPED, "the answer was over before it could be left")
    following = reply.following
    left = f"left after {reply.left_after:.2f} s"
    if following is None:
        return Judgement(Result.FAIL, f"{left}; the next request got no response")
    if (error := following.parser.error) is not None:
        return Judgement(Result.FAIL, f"{left}; then the next request failed", described(error))
    first = following.parser.timing.first_output
    began = "" if first is None else f", from {first:.2f} s on"
    return Judgement(Result.PASS, f"{left}; the next request was answered{began}")


def judge_wrong_key(reply: Reply) -> Judgement:
    """The request is refused with 401 or 403, before any stream, by an error as OpenAI's."""
    return _judge_refusal(reply, (401, 403))


def judge_wrong_model(reply: Reply) -> Judgement:
    """The request is refused with 404 or 400, before any stream, by an error as OpenAI's."""
    return _judge_refusal(reply, (404, 400, 403, 422))


CHECKS: Final[tuple[Check, ...]] = (
    Check("text", "a sentence of text", _say("Say hello in one short sentence."), judge_text),
    Check(
        "tools",
        "one call of a tool",
        {**_say("What is the weather in Paris? Call get_weather."), "tools": [_WEATHER]},
        judge_tool_call,
    ),
    Check(
        "parallel-tools",
        "two calls of a tool in one answer",
        {**_say("What is the weather in Paris and in Tokyo? Call get_weather for both at once."), "tools": [_WEATHER]},
        judge_parallel_calls,
    ),
    Check(
        "usage",
        "usage, by `stream_options`",
        {**_say("Say hello in one short sentence."), "stream_options": {"include_usage": True}},
        judge_usage,
    ),
    Check(
        "structured-output",
        "JSON that fits a schema, by `response_format`",
        {**_say("Which city is the capital of Japan?"), "response_format": _CITY_FORMAT},
        judge_structured_output,
    ),
    Check(
        "early-close",
        "an answer that is closed at its first output, and another one",
        _say("Count from 1 to 200, in digits."),
        judge_early_close,
        is_left=True,
    ),
    Check(
        "wrong-key",
        "an error, by an invalid key",
        _say("Say hello in one short sentence."),
        judge_wrong_key,
        has_wrong_key=True,
    ),
    Check(
        "wrong-model",
        "an error, by a model that does not exist",
        {**_say("Say hello in one short sentence."), "model": WRONG_MODEL},
        judge_wrong_model,
    ),
)


# What the judges share


def _failure(reply: Reply, *, optional: bool = False) -> Judgement | None:
    """What is said of a stream that did not end well; None if it did.

    Args:
        reply: The answer.
        optional: Whether a provider may say that it does not know what it was asked for.
    """
    error = reply.parser.error
    if error is None:
        return None
    if isinstance(error, APIStatusError):
        if error.status_code == _TOO_OFTEN:
            return Judgement(Result.SKIPPED, "there were too many requests", described(error))
        if optional and error.status_code in _NOT_SUPPORTED:
            return Judgement(Result.SKIPPED, "the provider refuses the request", described(error))
    return Judgement(Result.FAIL, f"the stream {_ended(reply)}", described(error))


def _judge_calls(reply: Reply, cities: Sequence[str]) -> Judgement:
    calls = reply.parser.snapshot.tool_calls
    if reply.is_cut:
        return Judgement(Result.SKIPPED, "the limit of tokens cut the answer")
    if not calls and "get_weather" in reply.text:
        return Judgement(Result.FAIL, "the call came as text", _excerpt(reply.text))
    if not calls:
        return Judgement(Result.SKIPPED, "the model called no tool; it said", _excerpt(reply.text))
    found: list[str] = []
    for place, call in enumerate(calls):
        if call.type != "function" or call.name != "get_weather":
            return Judgement(Result.FAIL, f"call {place} has another name than get_weather", word(call.name))
        try:
            found.append(call.function.parse(_Weather).city)
        except ParseError as error:
            return Judgement(Result.FAIL, f"the arguments of call {place} do not fit the tool", one_line(str(error)))
    if len({call.id for call in calls}) < len(calls):
        return Judgement(Result.FAIL, "two calls have the same id")
    if len(calls) < len(cities):
        return Judgement(Result.SKIPPED, "the model made one call, not two at once")
    return Judgement(Result.PASS, "calls came", ", ".join(f"get_weather({word(city)})" for city in found[:4]))


def _judge_refusal(reply: Reply, expected: Sequence[int]) -> Judgement:
    error = reply.parser.error
    told = f"expected HTTP {expected[0]} or {expected[1]}"
    if error is None:
        return Judgement(Result.FAIL, f"{told}, received an answer", _excerpt(reply.text))
    if not isinstance(error, APIError):
        return Judgement(Result.FAIL, f"{told}, received a stream that {_ended(reply)}", described(error))
    if error.status_code == _TOO_OFTEN:
        return Judgement(Result.SKIPPED, "there were too many requests", described(error))
    if error.status_code not in expected:
        return Judgement(Result.FAIL, f"{told}, received", described(error))
    if not isinstance(error, APIStatusError):
        return Judgement(Result.TOLERATED, f"{told}, received 200, and the error in the stream", described(error))
    if not isinstance(error.raw, dict):
        return Judgement(Result.TOLERATED, "the error's body is not a JSON object", described(error))
    return Judgement(Result.PASS, "the provider refused it", described(error))


def _ended(reply: Reply) -> str:
    end = reply.parser.end
    return str(end) if end in (StreamEnd.FAILED, StreamEnd.FINISHED) else f"was {end}"


def _excerpt(text: str) -> str:
    return quoted(text.strip(), len(text.strip()))
