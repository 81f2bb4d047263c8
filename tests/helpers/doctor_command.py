"""`chunkfold doctor` against a provider that is good but for one thing."""

import json
from collections.abc import Callable
from typing import Any

from command_line import Ran, run

from chunkfold.cli.checks import CHECKS, WRONG_KEY, WRONG_MODEL
from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, StreamBuilder, delta, json_answer

KEY = "sk-marked-0123456789abcdefghij"
NAMES = [check.name for check in CHECKS]
STOP = delta("stop")
Given = Answer | StreamBuilder


def text(*pieces: str, end: bytes = STOP + DONE) -> StreamBuilder:
    return StreamBuilder().text(*pieces).raw(end)


def called(*calls: tuple[str, str], reason: str | None = None) -> StreamBuilder:
    stream = StreamBuilder()
    for name, arguments in calls:
        stream = stream.tool_call(name, arguments)
    return stream.finish(reason).done()


def refusal(status: int, message: str = "no", **headers: str) -> Answer:
    return json_answer({"error": {"message": message, "type": "invalid_request_error"}}, status, headers)


CHOICES = StreamBuilder().text("Hello!").text("Hi!", choice=1).finish().finish(choice=1).done()
PARIS, TOKYO = ("get_weather", '{"city":"Paris"}'), ("get_weather", '{"city":"Tokyo"}')
GOOD: dict[str, Given] = {
    "text": text("Hel", "lo!"),
    "tools": called(PARIS),
    "parallel-tools": called(PARIS, TOKYO),
    "second-turn": text("Sunny."),
    "choices": CHOICES,
    "usage": StreamBuilder().text("Hello!").usage(5, 7).finish().done(),
    "structured-output": text('{"name":"Tokyo",', '"country":"Japan"}'),
    "early-close": StreamBuilder().text("1 2 3").answer(ending="open"),
    "wrong-key": refusal(401),
    "wrong-model": refusal(404),
}
SENDS = {"reuse": "text"}  # a check that sends the requests of another


def check_of(request: ReceivedRequest) -> str:
    """The name of the check that sent a request, or of the one that sends the same."""
    body = request.json
    prompt = body["messages"][0]["content"]
    if WRONG_KEY in "".join(request.headers.values()):
        return "wrong-key"
    if body["model"] == WRONG_MODEL:
        return "wrong-model"
    if len(body["messages"]) > 1:
        return "second-turn"
    if "n" in body:
        return "choices"
    if "tools" in body:
        return "parallel-tools" if "both" in prompt else "tools"
    if "stream_options" in body:
        return "usage"
    if "response_format" in body:
        return "structured-output"
    return "early-close" if "Count" in prompt else "text"


def provider(**bad: Given | Callable[[ReceivedRequest], Given]) -> FakeProvider:
    """One that keeps to the protocol, but for the checks that are named, with "_" for "-"."""
    answers = {**GOOD, **{SENDS.get(name, name).replace("_", "-"): answer for name, answer in bad.items()}}

    def respond(request: ReceivedRequest) -> Given:
        answer = answers[check_of(request)]
        return answer(request) if callable(answer) else answer

    return FakeProvider(*[respond] * 20)


def doctor(*arguments: str, key: str | None = KEY) -> Ran:
    return run("doctor", *arguments, OPENAI_API_KEY=key)


def findings(server: FakeProvider, *options: str, key: str | None = KEY) -> dict[str, dict[str, Any]]:
    """What is found of each check, by its name."""
    report = json.loads(doctor(server.base_url, "-m", "m", "--json", *options, key=key).stdout)
    return {finding["check"]: finding for finding in report["checks"]}
