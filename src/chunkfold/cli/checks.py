"""What `chunkfold doctor` asks a provider, and what it expects of each answer: a table.

A check is a request, perhaps a second one that depends on the first answer, and a function that judges the result. The
stream is read tolerantly: an answer that is right although rules were broken on the way counts as tolerated, and the
rules are listed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple, TypeGuard

from pydantic import BaseModel

from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletion,
    ChatCompletionParser,
    Choice,
    ChunkfoldError,
    ParseError,
    StreamEnd,
)
from chunkfold.cli.additions import quoted, tokens_of, word
from chunkfold.cli.facts import Problem
from chunkfold.cli.frames import Frame
from chunkfold.cli.safe import one_line
from chunkfold.cli.verdict import described

WRONG_KEY: Final = "chunkfold-doctor-wrong-key"
WRONG_MODEL: Final = "chunkfold-doctor-no-such-model"
_TOO_MANY_REQUESTS: Final = 429
_NOT_SUPPORTED: Final = frozenset({400, 404, 405, 415, 422, 501})  # statuses for an unsupported request


class Result(StrEnum):
    """The result of a check."""

    PASS = "pass"  # noqa: S105 - no password
    TOLERATED = "tolerated"
    FAIL = "fail"
    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"


class Judgement(NamedTuple):
    """The verdict on an answer."""

    result: Result
    reason: str
    quote: str = ""  # what the provider said or sent, bounded and escaped; shown after the reason


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request."""

    parser: ChatCompletionParser  # has read it to its end
    completion: ChatCompletion  # without secrets
    odd_frames: Sequence[Frame]  # those that broke a rule for the first time, and the one with the error
    connection: object  # that it was read from
    closes: str  # what announced that the connection ends with the body; "" if nothing did
    body_ended: bool  # with the stream, so that the connection can be used again
    left_after: float | None  # the seconds until it was left; None if it was not
    noticed_after: float | None  # the seconds until the provider noticed that; see `LiveAnswer.hang_up`

    @property
    def error(self) -> ChunkfoldError | None:
        """What went wrong; leaving is not an error."""
        return self.parser.error if self.left_after is None else None


@dataclass(frozen=True, slots=True)
class Check:
    """One check; `judge` judges the first and the last answer, if both ended well."""

    name: str
    asks: str
    body: Mapping[str, Any]  # of the request, without the model and the token limit
    judge: Callable[[Reply, Reply], Judgement] = lambda _first, _last: Judgement(Result.PASS, "")
    next_body: Callable[[Reply], Mapping[str, Any]] | None = None  # of a second request over the same client
    refused_with: tuple[int, ...] = ()  # the statuses of which one is expected; empty if an answer is expected
    is_left: bool = False  # whether the answer is left at the first output


# The requests


def _say(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


class _Weather(BaseModel, extra="forbid"):
    city: str


class _City(BaseModel, extra="forbid"):
    name: str
    country: str


_WEATHER: Final = {"name": "get_weather", "parameters": _Weather.model_json_schema()}
_TOOLS: Final = {"tools": [{"type": "function", "function": _WEATHER}]}
_CITY: Final = {"name": "city", "strict": True, "schema": _City.model_json_schema()}
_GREETING: Final = _say("Say hello in one short sentence.")
_COUNT: Final = _say("Count from 1 to 200, in digits.")
_WITH_USAGE: Final = {**_GREETING, "stream_options": {"include_usage": True}}
_WRONG_MODEL: Final = {**_GREETING, "model": WRONG_MODEL}
_ONE_CALL: Final = {**_say("What is the weather in Paris? Call get_weather."), **_TOOLS}
_TWO_CALLS: Final = {**_say("What is the weather in Paris and in Tokyo? Call get_weather for both at once."), **_TOOLS}
_JSON: Final = {
    **_say("Which city is the capital of Japan?"),
    "response_format": {"type": "json_schema", "json_schema": _CITY},
}


def _greeting(_: Reply) -> dict[str, Any]:
    return _GREETING


def _second_turn(reply: Reply) -> dict[str, Any]:
    """The answer sent back, with a result for each of its calls, or with another question if it has none."""
    calls = [call for call in reply.completion.tool_calls if call.name]
    results = [{"role": "tool", "tool_call_id": call.id, "content": "18 degrees, sunny"} for call in calls]
    more = results or _say("Say goodbye in one short sentence.")["messages"]
    return {**_TOOLS, "messages": [*_ONE_CALL["messages"], reply.completion.message.to_param(), *more]}


# The checks of the answers


def judge(check: Check, replies: Sequence[Reply], lost: Problem | None) -> Judgement:
    """The verdict on the answers to a check; `lost` says why the request after them got no response."""
    judgement = _judged(check, replies, lost)
    if judgement.result is Result.PASS and any(reply.parser.anomalies for reply in replies):
        judgement = judgement._replace(result=Result.TOLERATED)
    if not replies or replies[0].left_after is None:
        return judgement
    left = f"left after {replies[0].left_after:.2f} s; {_noticed(replies[0].noticed_after)}"
    return judgement._replace(reason=f"{left}; {judgement.reason}")


def _judged(check: Check, replies: Sequence[Reply], lost: Problem | None) -> Judgement:
    if lost is not None:
        told = "the next request got no response" if replies else "there was no response"
        return Judgement(Result.FAIL, told, lost.message)
    first, last = replies[0], replies[-1]
    if is_one_too_many(last.error) and first.left_after is None:  # else the answer that was left may be the reason
        return Judgement(Result.SKIPPED, "there were too many requests", described(last.error))
    if check.refused_with:
        return _judge_refusal(last, check.refused_with)
    if last.error is not None:
        is_status = isinstance(last.error, APIStatusError) and last.error.status_code in _NOT_SUPPORTED
        if is_status and first is last and len(check.body) > 1:  # it has more than messages
            return Judgement(Result.UNSUPPORTED, "the provider refuses the request", described(last.error))
        told = f"the stream {_ended(last)}" if first is last else "the next request failed"
        return Judgement(Result.FAIL, told, described(last.error))
    if first.completion.finish_reason == "length" and not check.body.keys().isdisjoint(("tools", "response_format")):
        return Judgement(Result.SKIPPED, "the token limit cut the answer")
    return check.judge(first, last)


def is_one_too_many(error: object) -> TypeGuard[APIError]:
    """Whether the error says that there were too many requests."""
    return isinstance(error, APIError) and error.status_code == _TOO_MANY_REQUESTS


def _judge_text(reply: Reply, _: Reply) -> Judgement:
    """Text arrives, or as much reasoning as the limit allows."""
    if reply.completion.text.strip():
        return Judgement(Result.PASS, "received text", _excerpt(reply.completion.text))
    if any(map(_has_text, reply.completion.choices)):
        return Judgement(Result.PASS, "received only reasoning, up to the token limit")
    return Judgement(Result.FAIL, f"received no text; the stream {_ended(reply)}")


def _judge_calls(reply: Reply, _: Reply, least: int = 1) -> Judgement:
    """Calls of the tool arrive in one answer, each with its own id and complete arguments."""
    calls = reply.completion.tool_calls
    if not calls and "get_weather" in reply.completion.text:
        return Judgement(Result.FAIL, "the call arrived as text", _excerpt(reply.completion.text))
    if not calls:
        return Judgement(Result.SKIPPED, "the model called no tool; it said", _excerpt(reply.completion.text))
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
    if len(calls) < least:
        return Judgement(Result.SKIPPED, "the model made one call, not two at once")
    return Judgement(Result.PASS, "received calls", ", ".join(f"get_weather({word(city)})" for city in found[:4]))


def _judge_second_turn(first: Reply, last: Reply) -> Judgement:
    """The provider takes its own answer back, with the results of its calls, and answers with text."""
    if last.completion.tool_calls:
        return Judgement(Result.SKIPPED, "the call and its result were sent back; the model called a tool once more")
    judgement = _judge_text(last, last)
    if first.completion.tool_calls:
        return judgement._replace(reason=f"the call and its result were sent back; {judgement.reason}")
    result = Result.SKIPPED if judgement.result is Result.PASS else judgement.result
    return judgement._replace(
        result=result, reason=f"the model called no tool; its text was sent back; {judgement.reason}"
    )


def _judge_choices(reply: Reply, _: Reply) -> Judgement:
    """Two choices arrive, each with text."""
    choices = reply.completion.choices
    if len(choices) == 1:
        return Judgement(Result.UNSUPPORTED, "`n` was ignored: received one choice", _excerpt(reply.completion.text))
    if (indexes := [choice.index for choice in choices]) != [0, 1]:
        return Judgement(Result.FAIL, "expected choices 0 and 1, received", one_line(str(indexes[:9])))
    if empty := [choice.index for choice in choices if not _has_text(choice)]:
        return Judgement(Result.FAIL, f"received no text in choice {empty[0]}")
    return Judgement(Result.PASS, "received two choices", ", ".join(_excerpt(each.message.content) for each in choices))


def _judge_usage(reply: Reply, _: Reply) -> Judgement:
    """Usage arrives, and adds up."""
    usage = reply.completion.usage
    if usage is None:
        return Judgement(Result.FAIL, "received no usage, although stream_options.include_usage requested it")
    if not usage.prompt_tokens or not usage.completion_tokens:
        return Judgement(Result.FAIL, "received usage without prompt or completion tokens", tokens_of(usage))
    total = usage.total_tokens
    if total is not None and total < usage.prompt_tokens + usage.completion_tokens:  # it may hold more
        return Judgement(Result.FAIL, "the total is less than prompt + completion", tokens_of(usage))
    return Judgement(Result.PASS, "received usage", tokens_of(usage))


def _judge_structured_output(reply: Reply, _: Reply) -> Judgement:
    """The text is JSON that fits the schema."""
    message = reply.completion.message
    if message.refusal:
        return Judgement(Result.SKIPPED, "the model refused to answer")
    try:
        return Judgement(Result.PASS, "received JSON that fits the schema", message.parse(_City).model_dump_json())
    except ParseError as error:
        return Judgement(Result.FAIL, "the text does not fit the schema", one_line(str(error)))


def _judge_reuse(first: Reply, last: Reply) -> Judgement:
    """The second request is answered over the connection of the first."""
    if last.connection is first.connection:
        return Judgement(Result.PASS, "both requests were answered over one connection")
    if first.closes:
        return Judgement(Result.UNSUPPORTED, "the provider closes the connection after each answer", first.closes)
    why = "was closed after the first answer, without notice"
    if not first.body_ended:
        why = "cannot be used again: the body did not end within 0.1 s of [DONE]"
    return Judgement(Result.TOLERATED, f"the connection {why}; the next request needed another one")


def _judge_leaving(first: Reply, last: Reply) -> Judgement:
    """The stream can be left, and the next request is answered."""
    if first.left_after is None:
        return Judgement(Result.SKIPPED, "the answer ended before it could be left")
    began = last.parser.timing.first_output
    return Judgement(Result.PASS, "the next request was answered" + (f", from {began:.2f} s on" if began else ""))


CHECKS: Final = (
    Check("text", "a sentence of text", _GREETING, _judge_text),
    Check("tools", "one call of a tool", _ONE_CALL, _judge_calls),
    Check("parallel-tools", "two calls of a tool in one answer", _TWO_CALLS, partial(_judge_calls, least=2)),
    Check("second-turn", "an answer to the result of its call", _ONE_CALL, _judge_second_turn, _second_turn),
    Check("choices", "two choices, by `n`", {**_GREETING, "n": 2}, _judge_choices),
    Check("usage", "usage, by `stream_options`", _WITH_USAGE, _judge_usage),
    Check("structured-output", "JSON that fits a schema, by `response_format`", _JSON, _judge_structured_output),
    Check("reuse", "two answers over one connection", _GREETING, _judge_reuse, _greeting),
    Check("early-close", "an answer that is left early, and another", _COUNT, _judge_leaving, _greeting, is_left=True),
    Check("wrong-key", "an error, by an invalid key", _GREETING, refused_with=(401, 403)),
    Check("wrong-model", "an error, by a model that does not exist", _WRONG_MODEL, refused_with=(404, 400, 403, 422)),
)


# Shared by the checks


def _judge_refusal(reply: Reply, expected: Sequence[int]) -> Judgement:
    error = reply.error
    told = f"expected HTTP {expected[0]} or {expected[1]}"
    if error is None:
        return Judgement(Result.FAIL, f"{told}, received an answer", _excerpt(reply.completion.text))
    if not isinstance(error, APIError):
        return Judgement(Result.FAIL, f"{told}, received a stream that {_ended(reply)}", described(error))
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


def _excerpt(text: str | None) -> str:
    text = (text or "").strip()
    return quoted(text, len(text))


def _has_text(choice: Choice) -> bool:
    message = choice.message
    return bool((message.content or "").strip() or (choice.finish_reason == "length" and message.reasoning))


def _noticed(seconds: float | None) -> str:
    """Whether the provider stopped, in words."""
    if seconds is None:
        return "the answer ended before the provider could notice"
    if math.isinf(seconds):
        return "the provider did not react within 1 s"
    return f"the provider stopped {seconds:.2f} s later"
