"""`chunkfold serve` as a user runs it, and clients of several kinds before it.

Its life is that of a process, whose first line is a URL and which a signal ends. What it answers and tells is the same
within this process; what scripts say wrongly is told without any.
"""

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cases import each_case
from command_line import PATIENCE, piped, run, started, wait_until

from chunkfold import APIError, ChatCompletionStream, StreamEnd, StreamInterruptedError, connect
from chunkfold.cli import serve as serving
from chunkfold.cli.scripts import Script, in_pieces, script_from
from chunkfold.recording import RecordedRead, Recording
from chunkfold.testing import Answer, ReceivedRequest, StreamBuilder, cut
from chunkfold.testing.recorded import BEFORE_RESET

STREAMED = {"model": "m", "messages": [], "stream": True}
BODY = StreamBuilder().text("recorded").usage(5, 1).finish().done().body

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs SIGTERM")


class Served:
    """What `chunkfold serve` runs, in this process."""

    def __init__(self, lines: list[str], *files: str, loop: bool) -> None:
        self._lines = lines
        answers = [answer for file in files for answer in serving.answers_of(file)]
        self.provider = serving.ScriptedProvider(answers, loop=loop).start()
        self.base_url, self.url = self.provider.base_url, self.provider.url

    @property
    def asked(self) -> int:
        """How many requests are being answered."""
        return len(self.provider._watched)

    @property
    def told(self) -> list[str]:
        """What was told, without times and sorted: lines may overtake each other."""
        return sorted(lines_of("\n".join(self._lines)))

    def stop(self) -> list[str]:
        """End it; gives what was told."""
        self.provider.stop()
        return self.told


def lines_of(told: str) -> list[str]:
    return [re.sub(r" after [\d.]+ s$", "", line) for line in told.splitlines()]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    """Serves files of a folder of its own; a script may be given as text, which becomes `s.toml`."""
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    # A thread may tell of the last request after the test has ended, where pytest captures nothing.
    monkeypatch.setattr(serving.click, "echo", lambda line, *, err: lines.append(line) if err else None)
    running: list[Served] = []

    def start(*files: str, script: str = "", loop: bool = True) -> Served:
        if script:
            (tmp_path / "s.toml").write_text(script, "utf-8")
        running.append(Served(lines, *(["s.toml"] if script else files), loop=loop))
        return running[-1]

    yield start
    for served in running:
        served.stop()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        yield client


def send(url: str, body: bytes = json.dumps(STREAMED).encode(), header: str = "host: x") -> socket.socket:
    """A plain socket that has sent a request."""
    address = urlsplit(url)
    connection = socket.create_connection((str(address.hostname), address.port or 0), timeout=PATIENCE)
    head = f"POST {address.path} HTTP/1.1\r\n{header}\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def exchange(url: str, body: bytes = json.dumps(STREAMED).encode()) -> bytes:
    with send(url, body, "connection: close") as connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


# Its life


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_without_a_script_it_says_hello_until_it_is_told_to_end(client: httpx.Client, how: signal.Signals) -> None:
    with started("serve") as process:
        base_url = process.stdout.readline().rstrip("\n")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", base_url)
        for _ in range(3):
            with connect(client, "POST", f"{base_url}/chat/completions", json=STREAMED) as stream:
                assert stream.read().text == "Hello from the fake provider."
        assert client.get(f"{base_url}/models").json()["data"][0]["id"] == "fake-model"
        assert client.get(f"{base_url}/x?key=sk-secret").status_code == 404
        process.send_signal(how)
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (0, "")
    assert sorted(lines_of(errors)) == [
        "GET /v1/models: the provider's own answer: 200, sent whole",
        "GET /v1/x: the provider's own answer: 404, sent whole",
        *["POST /v1/chat/completions: the provider's own answer: 200, sent whole"] * 3,
    ]


@pytest.mark.slow
def test_a_port_of_ones_own_and_one_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert piped("serve", "--port", str(port)) == ("", f"Error: port {port}: Address already in use\n", 1)
    (tmp_path / "s.toml").write_text("[[answers]]\nending = 'open'\n", "utf-8")
    with started("serve", "--port", str(port), str(tmp_path / "s.toml")) as process:
        assert process.stdout.readline() == f"http://127.0.0.1:{port}/v1\n"
        with send(f"http://127.0.0.1:{port}/v1/x") as connection:
            assert connection.recv(9) == b"HTTP/1.1 "
            process.terminate()
            _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert lines_of(errors) == [f"POST /v1/x: answer 1 of {tmp_path}/s.toml: 200, stopped"]


def test_it_stops_at_once_whatever_it_is_doing(serve: Callable[..., Served]) -> None:
    served = serve(script="[[answers]]\ndelay = 3600\n[[answers]]\npace = 3600\n[[answers]]\nending = 'open'\n")
    connections = []
    for number in (1, 2, 3):
        connections.append(send(served.url))
        wait_until(lambda number=number: served.asked == number)
    assert served.stop() == [f"POST /v1/chat/completions: answer {n} of s.toml: 200, stopped" for n in (1, 2, 3)]
    for connection in connections:
        connection.close()


def test_a_client_that_leaves_is_told_of(serve: Callable[..., Served]) -> None:
    served = serve(script="[[answers]]\nending = 'open'\n[[answers]]\ndelay = 0.1\nstatus = 204\n")
    for number in (1, 2):
        send(served.url).close()
        wait_until(lambda number=number: len(served.told) == number)
    assert served.stop() == [
        f"POST /v1/chat/completions: answer {n} of s.toml: {status}, the client left"
        for n, status in ((1, 200), (2, 204))
    ]


def test_what_is_told_has_no_secret_and_no_control_character(
    serve: Callable[..., Served], client: httpx.Client
) -> None:
    served = serve()
    headers = {"Authorization": "Bearer sk-secret", "X-Other": "sk-secret"}
    client.post(f"{served.base_url}/chat/completions?key=sk-secret", json={"prompt": "sk-secret"}, headers=headers)
    exchange(f"{served.base_url}/\x1b[31m\x9b" + "x" * 1000)
    told = served.stop()
    assert len(told) == 2
    assert "secret" not in "".join(told)
    assert all(line.isprintable() and len(line) < 300 for line in told)


# The script


def test_the_answers_come_in_turn_and_again(serve: Callable[..., Served], client: httpx.Client) -> None:
    served = serve(script="[[answers]]\ntext = 'one'\n[[answers]]\ntext = 'two'\n")
    got = [client.post(served.url, json={}).json()["choices"][0]["message"]["content"] for _ in range(5)]
    client.get(f"{served.base_url}/models")  # takes none of them
    assert got == ["one", "two", "one", "two", "one"]
    assert client.post(f"{served.base_url}/any/path", json={}).json()["choices"][0]["message"]["content"] == "two"


def test_once(serve: Callable[..., Served], client: httpx.Client) -> None:
    served = serve(loop=False, script="[[answers]]\nstatus = 503\n")
    assert [client.post(served.url, json=STREAMED).status_code for _ in range(3)] == [503, 200, 200]
    assert served.stop() == [
        "POST /v1/chat/completions: answer 1 of s.toml: 503, sent whole",
        *["POST /v1/chat/completions: the provider's own answer: 200, sent whole"] * 2,
    ]


def test_many_clients_at_once_get_every_answer_once(serve: Callable[..., Served]) -> None:
    served = serve(script="".join(f"[[answers]]\ntext = '{n}'\n" for n in range(40)))
    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.append(exchange(served.url, b"{}"))) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    texts = [json.loads(wire.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] for wire in got]
    assert sorted(map(int, texts)) == list(range(40))


EVERYTHING = """
[[answers]]
reasoning = "Let me think."
text = "Looking  for señor 日本\\n"
tool_calls = [
    { name = "add", arguments = { a = 1, b = "ü" } },
    { id = "x", name = "raw", arguments = '{"cut' },
]
finish_reason = "length"
"""


@pytest.mark.parametrize("stream", [True, False])
def test_what_a_model_says(serve: Callable[..., Served], client: httpx.Client, stream: bool) -> None:
    served = serve(script=EVERYTHING)
    options = {"model": "my-model", "stream": stream, "stream_options": {"include_usage": True}}
    with client.stream("POST", served.url, json=options) as response, ChatCompletionStream(response) as reading:
        completion = reading.read()
    message = completion.choices[0].message
    assert (completion.model, completion.finish_reason) == ("my-model", "length")
    assert (message.content, message.reasoning) == ("Looking  for señor 日本\n", "Let me think.")
    assert [(call.id, call.name, call.function.arguments) for call in message.tool_calls] == [
        ("call_1", "add", '{"a": 1, "b": "ü"}'),
        ("x", "raw", '{"cut'),
    ]
    assert completion.usage.total_tokens == 5 + (completion.usage.completion_tokens or 0)


@pytest.mark.parametrize("stream", [True, False])
def test_a_finish_reason_that_says_that_it_failed(
    serve: Callable[..., Served], client: httpx.Client, stream: bool
) -> None:
    """Was once wrong: the script ended `serve`."""
    served = serve(script="[[answers]]\ntext = 'Hel'\nfinish_reason = 'error'\n")
    with client.stream("POST", served.url, json={"stream": stream}) as response:
        reading = ChatCompletionStream(response)
        with pytest.raises(APIError, match="finish reason 'error'"):
            reading.read()
    assert (reading.snapshot.text, reading.snapshot.finish_reason) == ("Hel", "error")


def test_an_error_in_the_middle(serve: Callable[..., Served], client: httpx.Client) -> None:
    served = serve(script="[[answers]]\ntext = ['Hel', 'lo']\nerror = { message = 'too many', code = 529 }\n")
    with client.stream("POST", served.url, json=STREAMED) as response:
        stream = ChatCompletionStream(response)
        with pytest.raises(Exception, match="too many"):
            stream.read()
    assert (stream.end, stream.snapshot.text) == (StreamEnd.FAILED, "Hello")
    whole = client.post(served.url, json={})
    assert (whole.status_code, whole.json()) == (529, {"error": {"message": "too many", "code": 529}})


def test_a_status_and_its_error(serve: Callable[..., Served], client: httpx.Client) -> None:
    served = serve(
        script="[[answers]]\nstatus = 429\nheaders = { Retry-After = '7' }\n"
        "[[answers]]\nstatus = 401\nerror = { message = 'no key', code = 'invalid_api_key' }\n"
        "[[answers]]\nstatus = 204\n"
    )
    answers = [client.post(served.url, json=STREAMED) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 401, 204]
    assert answers[0].headers["retry-after"] == "7"
    assert answers[0].json()["error"]["type"] == "invalid_request_error"
    assert answers[1].json() == {"error": {"message": "no key", "code": "invalid_api_key"}}
    assert answers[2].content == b""


def test_a_request_that_is_no_json_gets_400(serve: Callable[..., Served], client: httpx.Client) -> None:
    served = serve(script="[[answers]]\ntext = 'x'\n")
    assert [client.post(served.url, content=body).status_code for body in (b"", b"[]", b"{}")] == [400, 400, 200]


EVENTS = [event + b"\n\n" for event in BODY.split(b"\n\n")[:-1]]
AT_ONCE = [*(step for event in EVENTS for step in (0.0, event)), 0.0]
# What a script says of a body, and how it is sent; `test_provider_wire` shows what becomes of that on the wire.
SENT: dict[str, Answer] = {
    "": Answer(AT_ONCE),
    **{f"framing = '{framing}'": Answer(AT_ONCE, framing=framing) for framing in ("content-length", "close", "raw")},
    "headers = { X-Y = 'z' }": Answer(AT_ONCE, headers={"x-y": "z"}),
    "status = 203": Answer(AT_ONCE, 203),
    "encoding = 'gzip'": Answer(AT_ONCE, encoding="gzip"),
    "ending = 'open'": Answer(AT_ONCE, ending="open"),
    "cut_at = 0": Answer(AT_ONCE, ending="cut", cut_at=0),
    "cut_at = 300\nending = 'reset'": Answer([*AT_ONCE, BEFORE_RESET], ending="reset", cut_at=300),
    "cut_at = 1\nending = 'end'": Answer(AT_ONCE, cut_at=1),
    "delay = 0.2": Answer([0.0, *AT_ONCE]),
    "pace = 0.05": Answer([step for event in EVENTS for step in (0.05, event)][1:]),
}


@each_case("keys", SENT)
def test_how_a_body_is_sent(keys: str, tmp_path: Path) -> None:
    (tmp_path / "b.sse").write_bytes(BODY)
    (tmp_path / "s.toml").write_text(f"[[answers]]\nbody_file = 'b.sse'\n{keys}\n")
    (answer,) = script_from(str(tmp_path / "s.toml"))
    assert answer.answer_to(ReceivedRequest("POST", "/", {}, b"")) == SENT[keys]
    assert answer.delay == (0.2 if keys == "delay = 0.2" else 0.0)


def test_what_is_cut_off_is_told(serve: Callable[..., Served]) -> None:
    served = serve(script="[[answers]]\ncut_at = 1\n[[answers]]\ncut_at = 1\nending = 'end'\n")
    assert exchange(served.url).endswith(b"\r\n1\r\nd\r\n")
    assert exchange(served.url).endswith(b"\r\n1\r\nd\r\n0\r\n\r\n")
    asked = "POST /v1/chat/completions: answer"
    assert served.stop() == [f"{asked} 1 of s.toml: 200, cut off", f"{asked} 2 of s.toml: 200, sent whole"]


# Files


def test_recordings_and_bodies_end_as_they_ended(serve: Callable[..., Served], client: httpx.Client) -> None:
    first, second = cut(StreamBuilder().text("Hel").body, 20)
    reads = (RecordedRead(0.1, first), RecordedRead(0.15, second))
    headers = {"content-type": "text/event-stream", "x-request-id": "r1", "content-encoding": "gzip"}
    Recording(reads, headers=headers, headers_at=0.05, end="error", ended_at=0.2, error="ReadError").save("a.jsonl")
    Recording((RecordedRead(0.0, b'{"error":{"message":"no"}}'),), 418).save("b.jsonl")
    Path("c.sse").write_bytes(BODY)
    served = serve("a.jsonl", "b.jsonl", "c.sse")
    started = time.monotonic()
    with pytest.raises(StreamInterruptedError) as caught, connect(client, "POST", served.url, json={}) as stream:
        stream.read()
    assert time.monotonic() - started >= 0.19  # at least: a busy machine only takes longer
    assert caught.value.snapshot.text == "Hel"
    assert stream.request_id == "r1"
    assert client.post(served.url).status_code == 418
    assert client.post(served.url).content == BODY
    assert served.stop() == [
        "POST /v1/chat/completions: a.jsonl: 200, reset",
        "POST /v1/chat/completions: b.jsonl: 418, sent whole",
        "POST /v1/chat/completions: c.sse: 200, sent whole",
    ]


def test_a_script_changes_how_a_recording_is_sent(serve: Callable[..., Served], client: httpx.Client) -> None:
    """Its files are looked for beside it."""
    folder = Path("folder")
    folder.mkdir()
    Recording((RecordedRead(3600.0, BODY),), headers={"x-request-id": "r1"}, headers_at=3500.0).save(folder / "a.jsonl")
    answer = {"recording": "a.jsonl", "delay": 0, "pace": 0, "status": 203, "headers": {"X-Request-Id": "r2"}}
    (folder / "s.json").write_text(json.dumps([answer]))
    served = serve("folder/s.json")
    response = client.post(served.url)
    assert (response.status_code, response.headers["x-request-id"], response.content) == (203, "r2", BODY)


# What is wrong with a script


@each_case(
    ("answer", "message"),
    [
        ("txt = 'x'", "answer 2: txt: not a known key; did you mean text?"),
        ("'a b' = 1", "answer 2: 'a b': not a known key; known are text, "),
        ("text = 1", "answer 2: text: expected text or a list of texts, received 1"),
        ("text = ['a', 1]", "answer 2: text[1]: expected text or a list of texts, received 1"),
        ("delay = '1'", "answer 2: delay: expected seconds, from 0 to 86400, received '1'"),
        ("pace = true", "answer 2: pace: expected seconds, from 0 to 86400, received True"),
        *((f"pace = {n}", f"answer 2: pace: expected seconds, from 0 to 86400, received {n}") for n in ("-1", "nan", "inf")),
        *((f"cut_at = {n}", f"answer 2: cut_at: expected a number of bytes, received {n}") for n in ("1.5", "-1")),
        *((f"status = {n}", f"answer 2: status: expected a status from 200 to 599, received {n}") for n in ("'200'", "100")),
        ("headers = []", "answer 2: headers: expected a table of texts, received []"),
        ("headers = { a = 1 }", "answer 2: headers.a: expected a table of texts, received 1"),
        ('headers = { a = "x\\r\\ny: z" }', "answer 2: headers: a: expected a name and a value that a header can have"),
        ("ending = 'abort'", "answer 2: ending: expected one of end, cut, reset, open, received 'abort'"),
        ("framing = 1", "answer 2: framing: expected one of chunked, content-length, close, raw, received 1"),
        ("encoding = 'br'", "answer 2: encoding: expected one of identity, gzip, deflate, received 'br'"),
        ("tool_calls = {}", "answer 2: tool_calls: expected a list of tables, each with a name, received {}"),
        ("tool_calls = [1]", "answer 2: tool_calls[0]: expected a list of tables, each with a name, received 1"),
        ("tool_calls = [{ name = 'a' }, {}]", "answer 2: tool_calls[1].name: expected text, received nothing"),
        ("tool_calls = [{ nam = 'a' }]", "answer 2: tool_calls[0].nam: not a known key; did you mean name?"),
        ("tool_calls = [{ name = 'a', arguments = 1 }]", "answer 2: tool_calls[0].arguments: expected a table or text"),
        ("error = 1", "answer 2: error: expected a table or text, received 1"),
        *((f"error = {{ at = {value} }}", "answer 2: error: expected what JSON can say") for value in ("2026-01-01", "inf")),
        ("tool_calls = [{ name = 'a', arguments = { x = nan } }]", "answer 2: tool_calls[0].arguments: expected what JSON can say"),
        ("body_file = 'none'", "answer 2: body_file: none: No such file or directory"),
        ("recording = 'bad.jsonl'", "answer 2: recording: bad.jsonl: recording: line 1: "),
        ("body_file = 's.toml'\ntext = 'x'", "answer 2: body_file: expected it without text"),
        ("body_file = 's.toml'\nrecording = 'x'", "answer 2: body_file: expected it without recording"),
        ("status = 404\ntext = 'x'", "answer 2: text: expected none with status 404"),
        ("error = 'x'\nfinish_reason = 'stop'", "answer 2: error: expected it without finish_reason"),
        ("framing = 'content-length'\nending = 'end'\ncut_at = 1", "answer 2: cut_at: a body that is shorter"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_bytes(b'{"chunkfold_recording":7}\n')
    (tmp_path / "s.toml").write_text(f"[[answers]]\ntext = 'good'\n[[answers]]\n{answer}\n")
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        script_from("s.toml")


@pytest.mark.parametrize(
    ("name", "script", "message"),
    [
        ("s.toml", "[[answers]\n", "Expected "),
        ("s.toml", "", "expected a list `answers` with one answer or more"),
        ("s.toml", "answers = []", "expected a list `answers` with one answer or more"),
        ("s.toml", "answers = [1]", "answer 1: expected a table, received 1"),
        ("s.toml", "[[answer]]\n", "answer: not a known key; did you mean answers?"),
        ("s.json", "{", "Expecting property name"),
        ("s.json", "[" * 100_000, "it is nested too deeply"),
        ("s.json", '"x"', "expected a list `answers` with one answer or more"),
        ("s.json", '[{"text": null}]', "answer 1: text: expected text or a list of texts, received nothing"),
    ],
)
def test_files_that_are_no_scripts(tmp_path: Path, name: str, script: str, message: str) -> None:
    (tmp_path / name).write_text(script)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        script_from(str(tmp_path / name))


def test_what_is_wrong_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text('[[answers]]\n"\\u001b[31m" = 1\n')
    done = run("serve", "s.toml")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: s.toml: answer 1: '")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    assert run("serve", "missing.toml") == ("", "Error: missing.toml: No such file or directory\n", 1)


@pytest.mark.parametrize("text", ["", " ", "Hello  there\n\n", "extraordinarily", "日本語の文章です。", " \t x"])
def test_pieces_are_the_text(text: str) -> None:
    pieces = in_pieces(text)
    assert "".join(pieces) == text
    assert all(pieces)


PAGE = (Path(__file__).parents[2] / "docs" / "fold-and-serve.md").read_text("utf-8")


def test_the_page_has_every_key_and_a_script_that_works(tmp_path: Path) -> None:
    tables = PAGE.partition("### The script")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE)) == set(Script.model_fields)
    script = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "s.toml").write_text(script[1])
    assert len(script_from(str(tmp_path / "s.toml"))) == 4
    (tmp_path / "s.toml").write_text("[[answers]]\n[[answers]]\npace = 'fast'\n")
    with pytest.raises(ValueError, match="answer 2") as caught:
        script_from(str(tmp_path / "s.toml"))
    assert f"Error: script.toml: {caught.value}\n" in PAGE
