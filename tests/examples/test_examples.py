"""Every script in `examples/`: on its own, as a user runs it, and against a given provider, mostly in this process."""

import base64
import re
import runpy
import subprocess
import sys
import threading
import wave
from collections.abc import Callable
from pathlib import Path

import pytest
from cases import each_case
from example_scripts import EXAMPLES, NEEDS, ROOT, command, environment

from chunkfold import APIStatusError, ParseError, StreamInterruptedError
from chunkfold.testing import DONE, Answer, FakeProvider, StreamBuilder, delta, fragment, json_answer

SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("[!_]*.py") if not path.stem.startswith("test_"))
PATIENCE = 120.0  # seconds, after which a script that hangs fails
LONGEST = 220  # lines; code to copy is short, but not squeezed


Run = Callable[..., list[str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a script, against a provider if one is given, in this process, and gives the lines that it printed."""

    def run(name: str, provider: FakeProvider | None, *arguments: str | Path) -> list[str]:
        for variable in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
            monkeypatch.delenv(variable, raising=False)
        for variable, value in environment(provider).items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        monkeypatch.syspath_prepend(EXAMPLES)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def first_lines_of(name: str, provider: FakeProvider, count: int) -> list[str]:
    """The first lines of a script that would go on: they came while it ran."""
    with subprocess.Popen(
        command(name), env=environment(provider), stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            return [process.stdout.readline().rstrip("\n") for _ in range(count)]
        finally:
            timer.cancel()
            process.kill()


def call(index: int, id: str, name: str, arguments: str) -> bytes:
    return delta(tool_calls=[fragment(index, id, name, arguments)])


def said(*texts: str) -> StreamBuilder:
    return StreamBuilder().text(*texts).finish().done()


@each_case("path", EXAMPLES.glob("[!_]*.py"))
def test_each_is_short_and_says_what_it_shows(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    is_adapter = path.stem in NEEDS.keys() - {"ag_ui", "ai_sdk_ui", "resumable_relay"}
    assert re.match(r'"""[^"]+\.\n\n[^"]+"""\n' if is_adapter else '"""', source)  # how to run it
    assert len(source.splitlines()) < (80 if is_adapter or path.stem.startswith("test_") else LONGEST)  # pages quote it
    assert not is_adapter or f"examples/{path.name}" in (ROOT / "docs" / "adapters.md").read_text("utf-8")


# On their own

GREETED = ["Hello", " from", " the", " fake", " provider", r"\."]
GREETING = "".join(GREETED)
BROKEN_OFF = "the transport failed before the stream was complete: .*"
SAME_AGAIN = r"  -> the same request again in \d\.\d s"
OWN: dict[str, list[str]] = {  # what each prints on its own, line by line
    "async_stream": [r"(Tea|Coffee)\? '(Yes|, please\.)'"] * 4 + [r"Yes, please\."] * 2,
    "errors": [
        "Once upon a ti",
        r"StreamInterruptedError \(interrupted\): the transport failed.*",
        "  arrived: 'Once upon a ti', retryable: False, retryable after output: True",
        r"APIError: The model is overloaded\. \(code 503, status 503\)",
        "  arrived: '', retryable: True, retryable after output: True",
    ],
    "print_a_stream": [GREETING, "finish reason: stop, ended: finished", "tokens: 5 in, 6 out"],
    "retry_and_fall_back": [
        *(r"HTTP 429: Slow down\.", "  -> the same request again in 0.5 s", BROKEN_OFF, SAME_AGAIN),
        *(r"The model is overloaded\.", SAME_AGAIN, "Once upon a time there was ?", BROKEN_OFF),
        *("  -> the second provider continues", r"a fox\.", r"'Once upon a time there was a fox\.'"),
    ],
    "sans_io": [GREETING, "finish reason: stop"],
    "tool_calls": [
        r'weather\({"city": "Lisbon"}\) -> sun, 24 °C',
        r'weather\({"city": "Oslo"}\) -> snow, -3 °C',
        r"Lisbon has sun, Oslo has snow\.",
    ],
    "live_table": [
        *(r"(.|\n)*{'cities': \[{}\]}", r"(.|\n)*{'cities': \[{'name': 'Tokyo', 'country': 'Japan'}\]}", r"(.|\n)*"),
        r"cities=\[City\(name='Tokyo', country='Japan', millions=37\.1\), City\(name='Delhi'.*",
    ],
    "run_tools_early": [
        r'weather\({"city": "Lisbon"}\) -> sun, 24 °C',
        r"(the stream has ended\nweather.* -> snow, -3 °C|weather.* -> snow, -3 °C\nthe stream has ended)",
        *("the stream has ended", r"Lisbon has sun, Oslo has snow\."),
    ],
    "voice": [r"Good morning\.", r".*said\.wav: 0\.8 s"],
    "asgi_relay": [r"gpt-5-mini finished: 5 tokens in, 6 out, \$0\.0000133", GREETING, "finished"],
    "langchain_model": [GREETING],
    "openai_gateway": [GREETING, "finished"],
    "openai_sdk": [GREETING, r"CompletionUsage\(.*total_tokens=11.*\)"] * 2,
    "other_clients": [GREETING, "finish reason: stop"] * 3,
    "rich_ui": [GREETING, "finished, first output after .*"],
    "sdk_client": [*(rf"TextDelta\(choice=0, delta='{word}'\)" for word in GREETED), "ChoiceFinished.*"],
}


# What is read in pages is run by the tests that are named like these scripts, by test_chat_pages and by test_npm.
IN_PAGES = {"ag_ui", "ai_sdk_ui", "for_browsers", "resumable_relay"}


def test_all_are_listed_here() -> None:
    assert {*SCRIPTS} == OWN.keys() | IN_PAGES


@pytest.mark.parametrize("name", ["errors", "print_a_stream", "sans_io", "tool_calls"])
def test_each_prints_what_it_shows(run: Run, name: str) -> None:
    assert re.fullmatch("\n".join(OWN[name]), "\n".join(run(name, None)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.peers if name == "langchain_model" else ()) for name in OWN]
)
def test_each_runs_as_a_user_runs_it(name: str, tmp_path: Path) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"needs {package}")
    arguments = [tmp_path / "said.wav"] if name == "voice" else []
    result = subprocess.run(
        command(name, *arguments),
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert (result.stderr, result.returncode) == ("", 0)
    lines = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    assert re.fullmatch("\n".join(pattern.strip() for pattern in OWN[name]), "\n".join(lines))


def test_async_stream(run: Run) -> None:
    lines = run("async_stream", None)
    for question in ("Tea?", "Coffee?"):
        assert [line for line in lines if line.startswith(question)] == [f"{question} 'Yes'", f"{question} ', please.'"]
    assert lines[4:] == ["Yes, please."] * 2


# Against a provider that was given


def test_print_a_stream_of_a_provider(run: Run) -> None:
    with FakeProvider(said("Good ", "day.")) as provider:
        assert run("print_a_stream", provider) == ["Good day.", "finish reason: stop, ended: finished"]
    (request,) = provider.requests
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.json["model"] == "m"
    assert request.json["stream"]


def test_async_stream_asks_both_at_once_over_one_client(run: Run) -> None:
    with FakeProvider(*[said("No", ".")] * 2) as provider:
        assert run("async_stream", provider)[4:] == ["No."] * 2
    assert {request.json["messages"][0]["content"] for request in provider.requests} == {"Tea?", "Coffee?"}


@pytest.mark.parametrize("name", ["tool_calls", "run_tools_early"])
def test_the_results_are_sent_back_in_the_order_of_the_calls(run: Run, name: str) -> None:
    calls = [
        fragment(0, "a", "weather", '{"city": "Rome"}'),
        fragment(1, "b", "weather", '{"town": 1}'),
        fragment(2, "c", "sing", "{}"),
    ]
    called = Answer([*(delta(tool_calls=[one]) for one in calls), delta("tool_calls"), DONE])
    with FakeProvider(called, said("Done.")) as provider:
        assert run(name, provider)[-1] == "Done."
    question, message, *results = provider.requests[1].json["messages"]
    assert question["role"] == "user"
    sent_back = [{key: value for key, value in call.items() if key != "index"} for call in calls]
    assert message == {"role": "assistant", "content": None, "tool_calls": sent_back}
    assert [(result["role"], result["tool_call_id"]) for result in results] == [("tool", key) for key in "abc"]
    assert results[0]["content"] == "unknown"
    assert results[1]["content"].startswith("expected Place, received JSON that does not fit: city")
    assert results[2]["content"] == "no such tool: sing"


@pytest.mark.parametrize("name", ["tool_calls", "run_tools_early"])
def test_calls_that_the_server_ran_are_not_run(run: Run, name: str) -> None:
    searched = call(0, "srvtoolu_1", "web_search", "{}") + delta(tool_calls=[fragment(1, None, None, "{}")])
    with FakeProvider(Answer([searched, delta(content="Found."), delta("stop"), DONE])) as provider:
        assert run(name, provider)[-1] == "Found."
    assert len(provider.requests) == 1


def test_sans_io_raises_what_the_provider_answers(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    refusal = {"error": {"message": "Incorrect API key provided.", "type": "invalid_request_error"}}
    cut = StreamBuilder().text("Go").answer(ending="cut")
    with FakeProvider(json_answer(refusal, 401), cut) as provider:
        with pytest.raises(APIStatusError, match="Incorrect API key provided"):
            run("sans_io", provider)
        with pytest.raises(StreamInterruptedError):
            run("sans_io", provider)
    assert capsys.readouterr().out == "Go"
    assert provider.requests[0].headers["authorization"] == "Bearer sk-test"


def test_errors_of_a_provider(run: Run) -> None:
    limit = {"error": {"message": "Slow down.", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}
    with FakeProvider(json_answer(limit, 429), said("A tale.")) as provider:
        assert run("errors", provider) == [
            "APIStatusError: Slow down. (code rate_limit_exceeded, status 429)",
            "  arrived: '', retryable: True, retryable after output: True",
            "A tale.",
        ]


@pytest.mark.slow
def test_live_table_shows_what_came_of_an_answer_that_goes_on() -> None:
    pieces = ['{"cities": [{"na', 'me": "Ro', 'me", "millions": 4', ".3}, "]
    with FakeProvider(StreamBuilder().text(*pieces).answer(ending="open")) as provider:
        assert first_lines_of("live_table", provider, 4) == [
            "{'cities': [{}]}",
            "{'cities': [{'name': 'Ro'}]}",
            "{'cities': [{'name': 'Rome'}]}",
            "{'cities': [{'name': 'Rome', 'millions': 4.3}]}",
        ]
    answer_format = provider.requests[0].json["response_format"]
    assert answer_format["json_schema"]["schema"]["required"] == ["cities"]


def test_live_table_raises_what_is_no_such_json(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    city = '{"cities": [{"name": "Rome", "country": "Italy", "millions": "many"}]}'
    with FakeProvider(said("Here they ", "are"), said(city)) as provider:
        with pytest.raises(ParseError, match="expected JSON"):
            run("live_table", provider)
        assert capsys.readouterr().out == ""
        with pytest.raises(ParseError, match=r"expected Cities, received JSON that does not fit: cities\[0\].m"):
            run("live_table", provider)
    assert capsys.readouterr().out == "{'cities': [{'name': 'Rome', 'country': 'Italy'}]}\n"


@pytest.mark.slow
def test_live_table_is_drawn_in_place_on_a_terminal() -> None:
    from command_line import on_a_terminal  # which needs the extra `cli`

    pieces = ('{"cities": [{"name": "Ro', 'me", "country": "[red]Italy", "millions": 4.3}]}')
    role, first, *others = said(*pieces)
    with FakeProvider(Answer([role, first, 1.0, *others])) as provider:
        _, written, code = on_a_terminal(*command("live_table")[1:], command=sys.executable, **environment(provider))
    assert code == 0
    begin, end = written.split("\x1b[1A", 1)  # the cursor goes up
    assert "Ro " in begin
    assert "Rome" not in begin
    for cell in ("Rome", "[red]Italy", "4.3"):
        assert cell in end


@pytest.mark.slow
def test_run_tools_early_does_not_wait_for_the_end_of_the_stream() -> None:
    calls = [call(0, "a", "weather", '{"city": "Rome"}'), call(1, "b", "weather", '{"ci')]
    with FakeProvider(Answer(calls, ending="open")) as provider:
        assert first_lines_of("run_tools_early", provider, 1) == ['weather({"city": "Rome"}) -> unknown']


def test_run_tools_early_raises_how_a_stream_failed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    cut = Answer(call(0, "a", "weather", '{"city": "Rome"}'), ending="cut")
    with FakeProvider(cut) as provider, pytest.RaisesGroup(StreamInterruptedError):
        run("run_tools_early", provider)
    assert capsys.readouterr().out == ""  # a call that may go on is not run


def spoken(data: bytes, transcript: str) -> bytes:
    return delta(audio={"data": base64.b64encode(data).decode(), "transcript": transcript})


def test_voice_writes_the_bytes_that_came(run: Run, tmp_path: Path) -> None:
    sound = bytes(range(200))
    words = [spoken(sound[:70], "He"), spoken(sound[70:133], "llo"), spoken(sound[133:], ".")]
    path = tmp_path / "said.wav"
    with FakeProvider(Answer([*words, delta("stop"), DONE])) as provider:
        assert run("voice", provider, path) == ["Hello.", f"{path}: 0.0 s"]
    with wave.open(str(path)) as file:
        assert (file.getparams()[:3], file.readframes(1_000)) == ((1, 2, 24_000), sound)
    (request,) = provider.requests
    assert request.json["modalities"] == ["text", "audio"]
    assert request.json["audio"]["format"] == "pcm16"


def test_voice_keeps_what_came_of_an_answer_that_was_cut(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "said.wav"
    cut = Answer([spoken(b"\1\2", "He"), spoken(b"\3\4", "l")], ending="cut")
    with FakeProvider(cut) as provider, pytest.raises(StreamInterruptedError):
        run("voice", provider, path)
    assert capsys.readouterr().out == "Hel"
    with wave.open(str(path)) as file:
        assert file.readframes(1_000) == b"\1\2\3\4"
