"""Every script in `examples/`, as a user runs it: on its own, and against a given provider."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chunkfold.testing import Answer, FakeProvider, json_answer, sse

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("[!_]*.py"))
PATIENCE = 120.0  # seconds, after which a script that hangs fails


def run(name: str, provider: FakeProvider | None = None) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    if provider is not None:
        env |= {"OPENAI_BASE_URL": f"{provider.base_url}/", "OPENAI_API_KEY": "sk-test", "OPENAI_MODEL": "m"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "utf8", EXAMPLES / f"{name}.py"],
        env=env | {"no_proxy": "127.0.0.1"},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


def lines_of(name: str, provider: FakeProvider | None = None) -> list[str]:
    """What the script printed; it ended well and said nothing else."""
    result = run(name, provider)
    assert (result.stderr, result.returncode) == ("", 0)
    return result.stdout.splitlines()


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def text_answer(*texts: str) -> Answer:
    return Answer(sse(*(chunk(content=text) for text in texts), chunk("stop")))


def test_all_are_listed_here() -> None:
    assert SCRIPTS == ["async_stream", "errors", "print_a_stream", "sans_io", "tool_calls"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_is_short_and_says_what_it_shows(name: str) -> None:
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert source.startswith('"""')
    assert len(source.splitlines()) < 60


# On their own


def test_print_a_stream() -> None:
    assert lines_of("print_a_stream") == [
        "Hello from the fake provider.",
        "finish reason: stop, ended: finished",
        "tokens: 5 in, 6 out",
    ]


def test_async_stream() -> None:
    lines = lines_of("async_stream")
    for question in ("Tea?", "Coffee?"):
        assert [line for line in lines if line.startswith(question)] == [f"{question} 'Yes'", f"{question} ', please.'"]
    assert lines[4:] == ["Yes, please."] * 2


def test_tool_calls() -> None:
    assert lines_of("tool_calls") == [
        'weather({"city": "Lisbon"}) -> sun, 24 °C',
        'weather({"city": "Oslo"}) -> snow, -3 °C',
        "Lisbon has sun, Oslo has snow.",
    ]


def test_sans_io() -> None:
    assert lines_of("sans_io") == ["Hello from the fake provider.", "finish reason: stop"]


def test_errors() -> None:
    text, cut, of_the_cut, refused, of_the_refusal = lines_of("errors")
    assert text == "Once upon a ti"
    assert cut.startswith("StreamInterruptedError (interrupted): the transport failed")
    assert of_the_cut == "  arrived: 'Once upon a ti', retryable: False, retryable after output: True"
    assert refused == "APIError: The model is overloaded. (code 503, status 503)"
    assert of_the_refusal == "  arrived: '', retryable: True, retryable after output: True"


# Against a provider that was given


def test_print_a_stream_of_a_provider() -> None:
    with FakeProvider(text_answer("Good ", "day.")) as provider:
        assert lines_of("print_a_stream", provider) == ["Good day.", "finish reason: stop, ended: finished"]
    (request,) = provider.requests
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.json["model"] == "m"
    assert request.json["stream"]


def test_async_stream_asks_both_at_once_over_one_client() -> None:
    with FakeProvider(*[text_answer("No", ".")] * 2) as provider:
        assert lines_of("async_stream", provider)[4:] == ["No."] * 2
    assert {request.json["messages"][0]["content"] for request in provider.requests} == {"Tea?", "Coffee?"}


def test_tool_calls_sends_the_results_back() -> None:
    calls = [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "weather", "arguments": '{"town": 1}'}},
        {"index": 2, "id": "c", "type": "function", "function": {"name": "sing", "arguments": "{}"}},
    ]
    with FakeProvider(Answer(sse(chunk(tool_calls=calls), chunk("tool_calls"))), text_answer("Done.")) as provider:
        assert lines_of("tool_calls", provider)[-1] == "Done."
    question, message, *results = provider.requests[1].json["messages"]
    assert question["role"] == "user"
    sent_back = [{key: value for key, value in call.items() if key != "index"} for call in calls]
    assert message == {"role": "assistant", "content": None, "tool_calls": sent_back}
    assert [(result["role"], result["tool_call_id"]) for result in results] == [("tool", key) for key in "abc"]
    assert results[0]["content"] == "unknown"
    assert results[1]["content"].startswith("expected Place, received JSON that does not fit: city")
    assert results[2]["content"] == "no such tool: sing"


def test_sans_io_raises_what_the_provider_answers() -> None:
    refusal = {"error": {"message": "Incorrect API key provided.", "type": "invalid_request_error"}}
    cut = Answer(sse(chunk(content="Go"), done=False), ending="cut")
    with FakeProvider(json_answer(refusal, 401), cut) as provider:
        refused = run("sans_io", provider)
        interrupted = run("sans_io", provider)
    assert refused.returncode == interrupted.returncode == 1
    assert "chunkfold.errors.APIStatusError: " in refused.stderr
    assert "Incorrect API key provided." in refused.stderr
    assert interrupted.stdout == "Go"
    assert "chunkfold.errors.StreamInterruptedError: " in interrupted.stderr
    assert provider.requests[0].headers["authorization"] == "Bearer sk-test"


def test_errors_of_a_provider() -> None:
    limit = {"error": {"message": "Slow down.", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}
    with FakeProvider(json_answer(limit, 429), text_answer("A tale.")) as provider:
        assert lines_of("errors", provider) == [
            "APIStatusError: Slow down. (code rate_limit_exceeded, status 429)",
            "  arrived: '', retryable: True, retryable after output: True",
            "A tale.",
        ]
