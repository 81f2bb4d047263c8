"""What a provider asserts about its script and the requests that came, with which words; and who else can read it."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cases import each_case
from fronts import ASKED

from chunkfold import ChatCompletionStream
from chunkfold.testing import DIALECTS, FakeProvider, ReceivedRequest, StreamBuilder, error_answer
from chunkfold.testing.hostile.peers import PEERS, is_installed, running_peers

HELLO = StreamBuilder().text("Hel", "lo").finish().done()
KEY = "sk-secret-1"
HEADERS = {"Authorization": f"Bearer {KEY}", "X-Mine": "1"}


@pytest.fixture(name="provider")
def asked_provider() -> Iterator[FakeProvider]:
    """Asked three times."""
    with FakeProvider(HELLO) as provider, httpx.Client(headers=HEADERS) as client:
        client.post(provider.url, json={**ASKED, "stream": True, "stream_options": {"include_usage": True}})
        client.post(provider.url, content=b"no json \xff" + b"x" * 300)
        client.get(provider.base_url + "/models")
        yield provider


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        (3, {}),
        (2, {"method": "POST"}),
        (1, {"method": "GET"}),
        (0, {"method": "post"}),
        (2, {"path": "/chat/completions"}),
        (2, {"path": "/v1/chat/completions"}),
        (0, {"path": "/v1"}),
        (3, {"headers": {"x-mine": "1"}}),
        (3, {"headers": {"X-MINE": "1", "authorization": f"Bearer {KEY}"}}),
        (0, {"headers": {"x-mine": "2"}}),
        (0, {"headers": {"x-other": "1"}}),
        (0, {"headers": {"x-other": None}}),  # as `os.environ.get` gives it, without a type checker
        (1, {"json": {}}),
        (1, {"json": {"stream": True}}),
        (1, {"json": {"stream": True, "stream_options": {"include_usage": True}}}),
        (0, {"json": {"stream_options": {}}}),
        (0, {"json": {"stream": False}}),
        (0, {"json": {"temperature": None}}),
        (1, {"method": "POST", "path": "/completions", "json": {"model": "m"}, "headers": {"x-mine": "1"}}),
        (0, {"method": "GET", "path": "/chat/completions"}),
    ],
)
def test_which_requests_count(provider: FakeProvider, times: int, wanted: dict[str, Any]) -> None:
    found = provider.assert_requested(times, **wanted)
    assert len(found) == times
    assert [request for request in provider.requests if request in found] == found
    for other in {times - 1, times + 1} - {-1}:
        with pytest.raises(AssertionError, match=rf"requests: expected {other}, found {times}; received:"):
            provider.assert_requested(other, **wanted)


def test_the_message_lists_what_came_without_headers(provider: FakeProvider) -> None:
    with pytest.raises(AssertionError) as caught:
        provider.assert_requested(json={"model": "other"})
    first, *lines = str(caught.value).splitlines()
    assert first == "requests: expected 1, found 0; received:"
    assert [line.split()[:2] for line in lines] == [
        ["POST", "/v1/chat/completions"],
        ["POST", "/v1/chat/completions"],
        ["GET", "/v1/models"],
    ]
    assert re.search(r'"model": ?"m"', lines[0])  # httpx before 0.28 writes blanks
    assert re.search(r"no json \\xffx+\.\.\. <-- json: expected an object$", lines[1])
    assert KEY not in str(caught.value)
    assert max(map(len, lines)) < 300


@pytest.mark.parametrize(
    ("wanted", "reasons"),
    [
        ({"method": "GET"}, [" <-- method: expected GET"] * 2 + [""]),
        ({"path": "/models"}, [" <-- path: expected one that ends with /models"] * 2 + [""]),
        (
            {"headers": {"x-mine": "1", "Authorization": "Bearer sk-secret-2"}},
            [" <-- headers: Authorization: expected the value passed, received another value"] * 3,
        ),
        ({"headers": {"X-Other": "1"}}, [" <-- headers: X-Other: expected the value passed, received none"] * 3),
        (
            {"json": {"stream": True, "model": "other"}},
            [" <-- json: model: expected 'other', received 'm'", *[" <-- json: expected an object"] * 2],
        ),
        ({"json": {"n": 2}}, [" <-- json: n: expected 2, received none", *[" <-- json: expected an object"] * 2]),
    ],
)
def test_the_message_says_why_a_request_does_not_match(
    provider: FakeProvider, wanted: dict[str, Any], reasons: list[str]
) -> None:
    with pytest.raises(AssertionError) as caught:
        provider.assert_requested(9, **wanted)
    lines = str(caught.value).splitlines()[1:]
    assert ["".join(re.findall(r" <-- .*$", line)) for line in lines] == reasons
    assert "sk-secret" not in str(caught.value)


def test_nothing_came() -> None:
    with FakeProvider() as provider, pytest.raises(AssertionError, match=r"expected 1, found 0; received: none$"):
        provider.assert_requested()
    assert provider.assert_requested(0) == []


def test_a_script_that_is_not_used_up_is_told_of() -> None:
    with FakeProvider(HELLO, HELLO.body) as provider:
        assert provider.unused == 2
        with pytest.raises(AssertionError, match="script: expected all answers to be used, 2 were not"):
            provider.assert_script_used()
        httpx.post(provider.url, json={})
        assert provider.unused == 1
        provider.add(HELLO)
        assert provider.unused == 2
        for _ in range(2):
            httpx.post(provider.url, json={})
        assert provider.unused == 0
        provider.assert_script_used()
        httpx.post(provider.url, json={})  # the default answer is no part of the script
        provider.assert_script_used()
        provider.add(HELLO)
        with pytest.raises(AssertionError, match=r"1 were not; left:\n  4\. "):
            provider.assert_script_used()


def test_what_is_left_of_a_script_is_listed() -> None:
    def echo(request: ReceivedRequest) -> bytes:
        return request.body

    failing = StreamBuilder().text("a" * 100).error("overloaded")
    calling = StreamBuilder().tool_call("find", {"q": "x"}).finish().done()
    refused = error_answer(429, "Slow down.")
    with FakeProvider(HELLO, failing, calling, refused, echo, StreamBuilder().done(), [b"data: ", 1.0]) as provider:
        httpx.post(provider.url, json={})
        with pytest.raises(AssertionError) as caught:
            provider.assert_script_used()
    first, *lines = str(caught.value).splitlines()
    assert first == "script: expected all answers to be used, 6 were not; left:"
    assert [re.sub(r"\d+ bytes", "N bytes", line) for line in lines] == [
        f"  2. 200, N bytes: text '{'a' * 60}'..., the error overloaded",
        "  3. 200, N bytes: a call of find",
        "  4. 429, N bytes: the error Slow down.",
        f"  5. the function {echo.__qualname__}",
        "  6. 200, N bytes: 'data: [DONE]\\n\\n'",
        "  7. 200, N bytes: 'data: '",
    ]


def test_a_provider_that_runs_can_be_used_with_with() -> None:
    def broken(_: object) -> bytes:
        raise LookupError("broken")

    with FakeProvider(broken) as provider:
        with pytest.raises(LookupError), provider as same:
            httpx.post(same.url, json={})
        assert same is provider
        with pytest.raises(httpx.ConnectError):
            httpx.post(provider.url, json={})
        with pytest.raises(RuntimeError, match="started once"):
            provider.start()  # and what failed is told once


# Other clients


@each_case("dialect", sorted(DIALECTS.keys() - {"azure-async", "minimax-search"}))  # no delta; two texts
def test_the_openai_sdk_reads_every_dialect(dialect: str) -> None:
    """As far as text goes; what else it makes of them is measured with the hostile set."""
    openai = pytest.importorskip("openai")
    stream = StreamBuilder(dialect).text("Hel", "lo 号").usage(3, 2).finish().done()
    with FakeProvider(stream) as provider:
        with openai.OpenAI(base_url=provider.base_url, api_key=KEY, max_retries=0) as client:
            chunks = list(client.chat.completions.create(**ASKED, stream=True))
        provider.assert_requested(json={**ASKED, "stream": True}, headers={"authorization": f"Bearer {KEY}"})
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Hello 号"
    assert ChatCompletionStream(stream).read().text == "Hello 号"


SPOKEN = ["openai", "azure", "deepseek", "groq", "mistral", "openrouter", "opentoken", "sansa", "stepfun", "xai"]


@pytest.mark.peers
@pytest.mark.parametrize("name", PEERS)
def test_other_libraries_read_a_text_and_a_call(name: str) -> None:
    if not is_installed(name):
        pytest.skip(f"needs {name} (group `peers`)")
    with running_peers() as peers:
        (client,) = (peer for peer in peers if peer.name == name)
        for dialect in SPOKEN:
            text = StreamBuilder(dialect).text("Hel", "lo 号").usage(3, 2).finish().done()
            call = StreamBuilder(dialect).tool_call("find", '{"q":', '"x"}').finish().done()
            assert client.fold(text.body).text == "Hello 号"
            if dialect != "stepfun" or name == "litellm":  # the others want an index
                called = client.fold(call.body)
                assert [(each.name, each.arguments) for each in called.calls or ()] == [("find", '{"q":"x"}')]
                assert called.text == ""
