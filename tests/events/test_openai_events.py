"""openai's own event helper, `client.chat.completions.stream`, and chunkfold: do they say the same of a stream?

Both read the same well-formed streams from the same real provider, sync and async. Their events are put into common
words and compared one by one, then the completions whole. What differs by design is shown from both sides, by name;
where that fails after an update of openai, the difference is gone.
"""

from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, Literal

import httpx2
import pytest
from pydantic import BaseModel

import chunkfold
from chunkfold import testing
from chunkfold.testing import Answer, FakeProvider

openai = pytest.importorskip("openai", minversion="3", reason="it is what is compared with: openai>=3, group `dev`")

SYNC = (httpx2.Client, openai.OpenAI, chunkfold.connect)
ASYNC = (httpx2.AsyncClient, openai.AsyncOpenAI, chunkfold.aconnect)
FRONTS = {"sync": (SYNC, "asyncio"), "asyncio": (ASYNC, "asyncio"), "trio": (ASYNC, "trio")}
pytestmark = [
    pytest.mark.parametrize(("front", "anyio_backend"), FRONTS.values(), ids=FRONTS),
    # After `[DONE]` openai and httpx2 leave async generators behind, which trio tells of.
    pytest.mark.filterwarnings(r"ignore:Async generator '(openai|http(x|core)2)\.:ResourceWarning"),
]


class Weather(BaseModel):
    city: str
    days: int
    unit: Literal["celsius", "fahrenheit"]


TYPED = {"response_format": Weather}
TOOLS = {"tools": [openai.pydantic_function_tool(Weather, name="weather")]}


async def read_both(front: Any, payloads: Any, options: Any, view: Any = lambda s: s.events()) -> tuple[Any, Any]:
    """openai's reading and ours: events, or what else the view of ours gives; the completion; what was raised."""
    answer, (http, sdk, connect_with) = Answer([*payloads, testing.DONE]), front
    async with FakeProvider(answer, answer) as provider, AsyncExitStack() as stack:
        client = await enter(stack, http(trust_env=False, verify=False, timeout=30.0))
        theirs = sdk(base_url=provider.base_url, api_key="x", max_retries=0, http_client=client).chat.completions
        ours = connect_with(
            client, "POST", provider.url, json={"model": "m"}, tools={"weather": Weather}, one_choice=False
        )
        return (
            await read(theirs.stream(model="m", messages=[], **options), lambda stream: stream, "get_final_completion"),
            await read(ours, view, "completion"),
        )


async def read(manager: Any, view: Any, result: str) -> Any:
    reading = SimpleNamespace(items=[], completion=None, error=None)
    async with AsyncExitStack() as stack:
        stream = await enter(stack, manager)
        try:
            if hasattr(stream, "__aiter__"):
                async for item in view(stream):
                    reading.items.append(item)
            else:
                reading.items.extend(view(stream))  # what came before an error too
            completion = getattr(stream, result)()
            reading.completion = await completion if hasattr(completion, "__await__") else completion
        except Exception as error:  # noqa: BLE001 - the tests look at it
            reading.error = error
    return reading


async def enter(stack: AsyncExitStack, manager: Any) -> Any:
    return await stack.enter_async_context(manager) if hasattr(manager, "__aenter__") else stack.enter_context(manager)


# The streams, as OpenAI sends them

USAGE = testing.usage(9, 12, prompt_tokens_details={"cached_tokens": 4})
PIECES = ['{"city":"São', ' João","da', 'ys":1', '2,"unit":"cel', 'sius"}']
JSON, CUT = "".join(PIECES), "".join(PIECES[:-1])
VALUE = Weather(city="São João", days=12, unit="celsius")


def chunk(delta: Any = None, reason: str | None = None, index: int = 0, logprobs: Any = None) -> bytes:
    """One choice; without a delta the trailer, which has the usage."""
    meta = {"service_tier": "default", "system_fingerprint": "fp_1", "obfuscation": "pB7x"}
    if delta is None:
        return testing.chunk(**meta, usage=USAGE)
    return testing.chunk({**testing.choice(reason, index, **delta), "logprobs": logprobs}, **meta, usage=None)


def texts(pieces: list[str] | str, index: int = 0, name: str = "content") -> list[bytes]:
    return [chunk({name: piece}, index=index) for piece in pieces]


def call(pieces: list[str] | str, place: int = 0, index: int = 0, reason: str | None = None) -> list[bytes]:
    """Its id and name come with its first piece, which OpenAI leaves empty."""
    first, *rest = pieces
    begin = testing.fragment(place, f"call_{index}{place}", "weather", first)
    calls = [begin, *(testing.fragment(place, arguments=piece) for piece in rest)]
    return [chunk({"tool_calls": [one]}, reason, index) for one in calls]


def scored(token: str, name: str = "content") -> bytes:
    one = {"token": token, "logprob": -0.25, "bytes": list(token.encode()), "top_logprobs": []}
    return chunk({name: token}, logprobs={"content": None, "refusal": None, name: [one]})


BEGIN, BEGIN_1 = (chunk({"role": "assistant", "content": "", "refusal": None}, index=index) for index in (0, 1))
SILENT, CALL = chunk({"role": "assistant", "content": None, "refusal": None}), call(["", *PIECES])
STOP, CALLED, TRAILER = chunk({}, "stop"), chunk({}, "tool_calls"), chunk()
STOP_1, CALLED_1 = chunk({}, "stop", 1), chunk({}, "tool_calls", 1)
VALUES = [*texts(PIECES[:2]), *texts(PIECES, 1), *texts(PIECES[2:4]), STOP_1, *texts(PIECES[4:]), STOP]
CALLS = [*call(["", JSON], 0, 1), *CALL, *call(["", *PIECES], 1, 1), CALLED, CALLED_1]
STREAMS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "text": ([BEGIN, *texts(["Olá", ",\r\n", "", "\U0001f30d "]), STOP], {}),
    "text-usage": ([BEGIN, *texts(["Hi", "!"]), STOP, TRAILER], {"stream_options": {"include_usage": True}}),
    "text-with-its-reason": ([BEGIN, chunk({"content": "Hi"}, "stop")], {}),
    "refusal": ([BEGIN, *texts(["I can't ", "help."], name="refusal"), STOP, TRAILER], TYPED),
    "structured": ([BEGIN, *texts(PIECES), STOP, TRAILER], TYPED),
    "structured-by-character": ([BEGIN, *texts(JSON), STOP], TYPED),
    "call": ([SILENT, *CALL, CALLED, TRAILER], TOOLS),
    "call-with-stop": ([SILENT, *CALL, STOP], TOOLS),  # where `tool_choice` names the tool
    "parallel-calls": ([SILENT, *CALL, *call(["", JSON[:9], JSON[9:]], 1), CALLED], TOOLS),
    "text-then-call": ([BEGIN, *texts(["Let me ", "see."]), *CALL, CALLED, TRAILER], TOOLS),
    "two-choices": ([BEGIN, BEGIN_1, *VALUES, TRAILER], {"n": 2, **TYPED}),
    "two-choices-calls": ([SILENT, BEGIN_1, *CALLS], {"n": 2, **TOOLS}),
    "logprobs-content": ([BEGIN, scored("Hi"), scored(" you"), STOP], {"logprobs": True}),
    "logprobs-refusal": ([BEGIN, scored("No", "refusal"), scored(".", "refusal"), STOP], {"logprobs": True}),
}
ERRORS = {"length": openai.LengthFinishReasonError, "content_filter": openai.ContentFilterFinishReasonError}
CUTS: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any], list[Any]]] = {
    "structured": ([BEGIN, *texts(PIECES[:4])], {}, TYPED, [("content.done", 0, CUT)]),
    "with-its-reason": ([BEGIN], {"content": CUT}, TYPED, [("content.delta", 0, CUT, CUT), ("content.done", 0, CUT)]),
    "call": ([SILENT, *CALL[:-1]], {}, TOOLS, [("call", 0, 0, "weather", CUT, None)]),
    "text-beside-tools": ([BEGIN, *texts([CUT])], {}, TOOLS, [("content.done", 0, CUT)]),
    "text": ([BEGIN, *texts([CUT])], {}, {}, []),  # openai raises at the end, and misses only the completion
}
ARGUMENTS, ARGUMENTS_1 = (("arguments", 0, place, "weather", JSON, JSON) for place in (0, 1))
DONE, DONE_1 = (("call", 0, place, "weather", JSON, VALUE) for place in (0, 1))
ENDED = ("finished", 0, "tool_calls")


# The events in common words


def of_openai(events: list[Any]) -> list[Any]:
    said, ending, index = [], [], None
    for event in events:
        match event.type:
            case "chunk":
                # Finish reason, usage and the choice's index are in openai's raw chunk alone, which comes before the
                # other events of the chunk. Our events have them; our raw chunks are what iterating gives.
                said, choices, usage = said + ending, event.chunk.choices, event.chunk.usage
                index = choices[0].index if choices else None
                ending = [("finished", c.index, c.finish_reason) for c in choices if c.finish_reason]
                ending += [("usage", usage.model_dump(exclude_none=True))] if usage else []
            case "content.delta" | "refusal.delta" if event.delta:  # openai has empty ones too, we never do
                said.append((event.type, index, event.delta, event.snapshot))
            case "content.done" | "refusal.done":
                said.append((event.type, index, getattr(event, event.type.removesuffix(".done"))))
            case "tool_calls.function.arguments.delta" if event.arguments_delta:
                said.append(("arguments", index, event.index, event.name, event.arguments_delta, event.arguments))
            case "tool_calls.function.arguments.done":  # without the call's id, which ours has
                said.append(("call", index, event.index, event.name, event.arguments, event.parsed_arguments))
    return said + ending  # less logprobs, which are no events of ours: see their test


def of_chunkfold(events: list[Any]) -> list[Any]:
    said, grown, names = [], {}, {}
    for event in events:
        if isinstance(event, chunkfold.ToolCallStarted | chunkfold.ChoiceFinished):
            # In place of `content.done` and `refusal.done`: there a text is done, and its last delta knows it all.
            said += [(f"{kind}.done", c, grown.pop((kind, c))) for kind, c in list(grown) if c == event.choice]
        match event:
            case chunkfold.TextDelta(choice, delta) | chunkfold.RefusalDelta(choice, delta):
                kind = "content" if isinstance(event, chunkfold.TextDelta) else "refusal"
                grown[kind, choice] = event.snapshot
                said.append((f"{kind}.delta", choice, delta, event.snapshot))
            case chunkfold.ToolCallStarted(choice, position):  # openai has none, and the name in each delta
                names[choice, position] = event.name
            case chunkfold.ToolCallArgumentsDelta(choice, position, delta):
                said.append(("arguments", choice, position, names[choice, position], delta, event.snapshot))
            case chunkfold.ToolCallDone(choice, position, made, parsed):
                said.append(("call", choice, position, made.name, made.arguments, parsed))
            case chunkfold.ChoiceFinished(choice, finish_reason):
                said.append(("finished", choice, finish_reason))
            case chunkfold.UsageReceived(usage):
                said.append(("usage", usage.model_dump(exclude_none=True)))
            case _:
                said.append(event)  # openai has nothing like it
    return said


def plain(completion: Any) -> dict[str, Any]:
    """A completion as JSON, less what only one of the two has; what openai parsed is compared by itself."""
    dumped: dict[str, Any] = completion.model_dump(mode="json", exclude_none=True, warnings=False)
    for choice in dumped["choices"]:
        choice["message"].pop("parsed", None)
        for made in choice["message"].setdefault("tool_calls", []):  # None in openai's if there are none
            made.pop("index", None)  # openai keeps that of the chunks
            made["function"].pop("parsed_arguments", None)
    return dumped


@pytest.mark.parametrize(("payloads", "options"), STREAMS.values(), ids=STREAMS)
async def test_both_say_the_same(front: Any, payloads: list[Any], options: dict[str, Any]) -> None:
    theirs, ours = await read_both(front, payloads, options)
    assert (theirs.error, ours.error) == (None, None)
    assert of_chunkfold(ours.items) == of_openai(theirs.items)
    assert plain(ours.completion) == plain(theirs.completion)
    ids = {(e.choice, e.position): e.id for e in ours.items if isinstance(e, chunkfold.ToolCallStarted)}
    done = {(e.choice, e.position): e.call for e in ours.items if isinstance(e, chunkfold.ToolCallDone)}
    for their, our in zip(theirs.completion.choices, ours.completion.choices, strict=True):
        has_value = "response_format" in options and not our.message.refusal
        assert their.message.parsed == (our.message.parse(Weather) if has_value else None)
        for made, our_made in zip(their.message.tool_calls or [], our.message.tool_calls, strict=True):
            assert our_made.function.parse() == made.function.parsed_arguments
            assert done.pop((their.index, made.index)) == our_made
            assert ids.pop((their.index, made.index)) == made.id
    assert (ids, done) == ({}, {})


# What differs by design


@pytest.mark.parametrize("name", ["content", "refusal"])
async def test_logprobs_are_events_of_openai_and_in_our_chunks(front: Any, name: str) -> None:
    theirs, ours = await read_both(front, *STREAMS[f"logprobs-{name}"], lambda stream: stream)
    told = [event.model_dump()[name] for event in theirs.items if event.type == f"logprobs.{name}.delta"]
    had = [chunk.choices[0].logprobs for chunk in ours.items if chunk.choices[0].logprobs]
    assert [logprobs.model_dump()[name] for logprobs in had] == told
    assert len(told) == 2


async def test_openai_shows_half_numbers_and_ours_strings_that_grow(front: Any) -> None:
    city, days = {"city": "São João"}, {"city": "São João", "days": 12}
    shown = [{}, city, {**city, "days": 1}, days, VALUE.model_dump()]
    theirs, ours = await read_both(front, *STREAMS["structured"], lambda stream: stream.partials(Weather))
    assert [event.parsed for event in theirs.items if event.type.startswith("content.")] == [None, *shown, VALUE]
    assert ours.items == [{"city": "São"}, city, city, days, VALUE, VALUE]
    theirs, ours = await read_both(front, *STREAMS["call"])
    told = [event.parsed_arguments for event in theirs.items if event.type.endswith("arguments.delta")]
    assert told == [None, *shown]
    live = chunkfold.PartialJSON(Weather, half_numbers=True)
    known = [live.feed(event.delta) for event in ours.items if isinstance(event, chunkfold.ToolCallArgumentsDelta)]
    assert known == [{"city": "São"}, *shown[1:-1], VALUE]


async def test_a_refusal_is_no_value_for_openai_and_an_error_of_partials(front: Any) -> None:
    theirs, ours = await read_both(front, *STREAMS["refusal"], lambda stream: stream.partials(Weather))
    assert theirs.completion.choices[0].message.parsed is None
    assert (ours.items, ours.error.cut, ours.error.snapshot.message.refusal) == ([], False, "I can't help.")


async def test_calls_sent_whole_are_done_before_the_next_begins_with_ours_alone(front: Any) -> None:
    theirs, ours = await read_both(front, [SILENT, *call([JSON]), *call([JSON], 1), CALLED], TOOLS)
    assert of_openai(theirs.items) == [ARGUMENTS, ARGUMENTS_1, DONE, DONE_1, ENDED]
    assert of_chunkfold(ours.items) == [ARGUMENTS, DONE, ARGUMENTS_1, DONE_1, ENDED]


@pytest.mark.parametrize("reason", ERRORS)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
async def test_openai_raises_where_an_answer_is_cut_and_misses_the_rest(front: Any, cut: Any, reason: str) -> None:
    payloads, last, options, missed = cut
    theirs, ours = await read_both(front, [*payloads, chunk(last, reason), TRAILER], options)
    assert (type(theirs.error), theirs.completion, ours.error) == (ERRORS[reason], None, None)
    rest = [*missed, ("finished", 0, reason), ("usage", USAGE)] if options else []
    assert of_chunkfold(ours.items) == of_openai(theirs.items) + rest
    message = ours.completion.message
    with pytest.raises(chunkfold.ParseError) as raised:
        message.tool_calls[0].function.parse() if message.tool_calls else message.parse(Weather)
    assert raised.value.cut
    assert all(event.error.cut for event in ours.items if isinstance(event, chunkfold.ToolCallDone))
