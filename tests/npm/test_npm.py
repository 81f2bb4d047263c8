"""What the examples write for pages, read by the packages that pages have: `ai` of Vercel and `@ag-ui/client`.

Each example serves over HTTP, its provider is an embedded one, and a script under node asks it as a page does.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from example_scripts import served

from chunkfold.testing import Answer, FakeProvider, StreamBuilder, json_answer

HERE = Path(__file__).parent
PATIENCE = 60.0  # seconds, after which a page that hangs fails
WEATHER = (
    StreamBuilder("deepseek").reasoning("Look it up.").text("Let me ", "see.").tool_call("weather", '{"city": "Oslo"}')
)
WEATHER = WEATHER.usage(9, 4).finish().done()
SEARCHED = StreamBuilder().tool_call("web_search", '{"query": "Oslo"}', id="srvtoolu_1").text("Snow.").finish().done()
Ask = Callable[..., Any]

pytestmark = [
    pytest.mark.npm,
    pytest.mark.skipif(shutil.which("node") is None, reason="needs node"),
    pytest.mark.skipif(
        not (HERE / "node_modules").is_dir(), reason="needs its packages: npm install --prefix tests/npm"
    ),
]


def asked_by(script: str, url: str) -> Any:
    """What a page's script made of an answer."""
    done = subprocess.run(["node", HERE / script, url], capture_output=True, encoding="utf-8", timeout=PATIENCE)  # noqa: PLW1510, S607
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


BROKEN: dict[str, tuple[Any, str]] = {
    "cut": (StreamBuilder().text("Hi").answer(ending="cut"), "StreamInterruptedError"),
    "truncated": (StreamBuilder().text("Hi"), "IncompleteStreamError"),
    "an error inside": (StreamBuilder().text("Hi").error("sk-secret is busy", code=503), "APIError"),
    "a status": (json_answer({"error": {"message": "No such key: sk-secret"}}, 401), "APIStatusError"),
    "an event that is no chunk": (Answer([b"data: sk-secret\n\n"]), "InvalidChunkError"),
}


class TestTheAISDK:
    @pytest.fixture
    def ask(self) -> Iterator[Ask]:
        with FakeProvider() as provider, served("ai_sdk_ui", provider) as url:

            def ask(answer: Any) -> Any:
                provider.add(answer)
                said = asked_by("ai_sdk.mjs", f"{url}/api/chat")
                (request,) = provider.requests
                assert request.json["messages"] == [{"role": "user", "content": "Hi?"}]
                return said

            yield ask

    def test_a_message_with_reasoning_text_and_a_call(self, ask: Ask) -> None:
        said = ask(WEATHER)
        assert said["errors"] == []
        message = said["message"]
        assert (message["role"], message["metadata"]["usage"]["total_tokens"]) == ("assistant", 13)
        step, reasoning, text, call = message["parts"]
        assert step["type"] == "step-start"
        assert (reasoning["type"], reasoning["text"], reasoning["state"]) == ("reasoning", "Look it up.", "done")
        assert (text["type"], text["text"], text["state"]) == ("text", "Let me see.", "done")
        assert (call["type"], call["state"], call["input"]) == ("tool-weather", "input-available", {"city": "Oslo"})

    def test_a_call_that_the_server_ran_is_not_the_pages(self, ask: Ask) -> None:
        _, call, text = ask(SEARCHED)["message"]["parts"]
        assert (call["type"], call["providerExecuted"], text["text"]) == ("tool-web_search", True, "Snow.")

    def test_it_comes_piece_by_piece_and_says_how_it_ended(self, ask: Ask) -> None:
        said = ask(StreamBuilder().text("Hel", "lo").finish("length").done())
        assert said["chunks"] == [
            *("start", "start-step", "text-start", "text-delta", "text-delta", "text-end", "finish-step", "finish")
        ]
        assert said["message"]["parts"][1]["text"] == "Hello"

    def test_arguments_that_are_cut_are_an_error_of_the_call(self, ask: Ask) -> None:
        said = ask(StreamBuilder().tool_call("weather", '{"city": "Os').finish("length").done())
        assert said["errors"] == []
        (call,) = [part for part in said["message"]["parts"] if part["type"] == "tool-weather"]
        assert (call["state"], call["errorText"]) == ("output-error", "not JSON")

    @pytest.mark.parametrize("case", BROKEN)
    def test_what_fails_is_an_error_of_the_page(self, case: str, ask: Ask) -> None:
        answer, error = BROKEN[case]
        said = ask(answer)
        assert said["errors"] == [error]
        assert "finish" not in said["chunks"]
        assert "sk-secret" not in json.dumps(said)


class TestAGUI:
    @pytest.fixture
    def ask(self) -> Iterator[Ask]:
        with FakeProvider() as provider, served("ag_ui", provider) as url:

            def ask(answer: Any) -> Any:
                provider.add(answer)
                said = asked_by("ag_ui.mjs", f"{url}/")
                (request,) = provider.requests
                assert request.json["messages"] == [{"role": "user", "content": "Hi?"}]
                assert [tool["function"]["name"] for tool in request.json["tools"]] == ["weather"]
                return said

            yield ask

    def test_a_run_with_reasoning_text_and_a_call(self, ask: Ask) -> None:
        said = ask(WEATHER)
        assert said["errors"] == []
        asked, thought, answer = said["messages"]
        assert asked["content"] == "Hi?"
        assert (thought["role"], thought["content"]) == ("reasoning", "Look it up.")
        assert (answer["role"], answer["content"]) == ("assistant", "Let me see.")
        (call,) = answer["toolCalls"]
        assert call["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}

    def test_a_call_that_the_server_ran_is_left_out(self, ask: Ask) -> None:
        _, answer = ask(SEARCHED)["messages"]
        assert (answer["content"], answer.get("toolCalls")) == ("Snow.", None)

    def test_it_comes_piece_by_piece(self, ask: Ask) -> None:
        said = ask(StreamBuilder().text("Hel", "lo").finish().done())
        assert [event["type"] for event in said["events"]] == [
            *("RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT"),
            *("TEXT_MESSAGE_END", "RUN_FINISHED"),
        ]
        assert (said["events"][0]["threadId"], said["events"][0]["runId"]) == ("t1", "r1")
        assert said["messages"][1]["content"] == "Hello"

    @pytest.mark.parametrize("case", BROKEN)
    def test_what_fails_is_the_error_of_the_run(self, case: str, ask: Ask) -> None:
        answer, error = BROKEN[case]
        said = ask(answer)
        assert (said["events"][-1]["type"], said["events"][-1]["code"]) == ("RUN_ERROR", error)
        assert "sk-secret" not in json.dumps(said)
