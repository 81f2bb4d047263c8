"""No secret of an exchange is stored, in whatever spelling and however it is cut."""

import base64
import html
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote, quote_plus

import httpx
import pytest
from cases import each_case
from counted_calls import calls_of
from fronts import each_library, generators_of_httpx_are_not_ours, over_both_streams, raw_client_of, send
from hypothesis import assume, given
from hypothesis import strategies as st
from linear import assert_linear
from recorded_streams import HELLO, Failing, Steps, read_to_its_end

from chunkfold import ChatCompletionStream, StreamInterruptedError
from chunkfold.recording import Recorder
from chunkfold.recording.redaction import Redactor
from chunkfold.testing import Answer, FakeProvider, ReceivedRequest, StreamBuilder, cut, cut_randomly, delta

pytest_generate_tests = over_both_streams
library = each_library
pytestmark = generators_of_httpx_are_not_ours

PLACES = (
    *(
        "authorization",
        "api-key",
        "x-api-key",
        "cookie",
        "proxy-authorization",
        "x-goog-api-key",
        "openai-organization",
    ),
    *("x-custom", "x-title", "user-agent", "accept-language", "x-stainless-lang", "idempotency-key", "referer"),
    *("user", "password", "key in the query", "another in the query", "alone in the query"),
    *("sent cookie", "sent token"),
)
MARK = "7f3a9c21"


def mark(place: str) -> str:
    """A secret of this place, as nothing else is."""
    return f"{re.sub('[^a-z]', '', place)}{MARK}"


def echo(request: ReceivedRequest) -> Answer:
    """Say all that came, and all that is answered, in many spellings, and cut everywhere."""
    sent = {
        "set-cookie": f"sid={mark('sent cookie')}; path=/; Max-Age=86400, b=2",
        "x-token": mark("sent token"),
        "x-request-id": "r1",
    }
    credentials = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
    told = f"{request.path}?{request.query} {json.dumps(request.headers)} {credentials} {json.dumps(sent)}"
    spelled = [told, quote(told), html.escape(told), json.dumps(told), json.dumps(json.dumps(told))]
    body = StreamBuilder().text(*spelled, "".join(f"\\u{ord(c):04x}" for c in told)).body
    return Answer(cut_randomly(body, reads=1000), headers=sent)


async def test_no_secret_of_an_exchange_is_stored(library: Any, front: Any) -> None:
    headers = {name: mark(name) for name in PLACES[:14]}
    headers["cookie"] = f'theme=dark; sid="{mark("cookie")}"'
    headers["proxy-authorization"] = f"Bearer {mark('proxy-authorization')}"
    del headers["authorization"]  # httpx makes it of the user and the password
    url = f"?key={mark('key in the query')}&x={mark('another in the query')}&{mark('alone in the query')}&api-version=2024-10-01"
    with FakeProvider(echo) as provider:
        address = provider.url.replace("//", f"//{mark('user')}:{mark('password')}@")
        async with raw_client_of(front, library, headers=headers) as client:
            live = await read_to_its_end(front, Recorder(await send(client, address + url)))
        assert live.recorder.recording.url == provider.url
    recorded = live.recorder.recording
    echoed = b"".join(data for _, data in live.recorder._log._reads)
    assert echoed.count(MARK.encode()) > 50
    assert all(mark(place).encode() in echoed for place in PLACES if place != "authorization")
    data = recorded.dumps() + repr(recorded).encode() + repr(live.recorder).encode()
    assert MARK.encode() not in data
    assert mark("x").removesuffix(MARK) != MARK
    assert [len(read.data) for read in recorded.reads] == [len(data) for _, data in live.recorder._log._reads]
    for harmless in ("2024-10-01", "Max-Age=86400", "chat/completions", "text/event-stream", "keep-alive"):
        if harmless.encode() in echoed:
            assert harmless.encode() in recorded.body, harmless
    assert recorded.headers["x-request-id"] == "r1"


SECRET = 'pa/ss+"w\\ö&rd<1'
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, not only ASCII": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with escaped slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON for HTML": lambda text: json.dumps(text)[1:-1].replace("<", "\\u003C").replace("&", "\\u0026"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON in JSON in JSON": lambda text: json.dumps(json.dumps(json.dumps(text)))[7:-7],
    "escaped unit by unit": lambda text: re.sub(
        "....", lambda unit: f"\\u{unit[0]}", text.encode("utf-16-be").hex().upper()
    ),
    "URL": quote,
    "URL, slashes too": lambda text: quote(text, safe=""),
    "URL in URL": lambda text: quote(quote(text)),
    "URL in lower case": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text)),
    "form": quote_plus,
    "HTML": html.escape,
    "HTML by numbers": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "HTML by hexadecimal numbers": lambda text: "".join(f"&#x{ord(letter):X};" for letter in text),
    "HTML in JSON": lambda text: json.dumps(html.escape(text))[1:-1],
}


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
@each_case("spell", SPELLINGS.values(), ids=SPELLINGS)
@each_case("secret", [SECRET, "abcdef", "two words", "a\tb\nc/d", "emoji 😀 key", "C:\\Users\\me"])
def test_a_secret_is_found_in_every_spelling_and_every_cut(spell: Callable[[str], str], secret: str, step: int) -> None:
    body = f"before {spell(secret)} behind".encode()
    expected = b"before " + b"*" * (len(body) - 14) + b" behind"
    for place in range(len(body) % step, len(body) + 1, step):  # the spellings differ in their lengths
        recorder = Recorder(Steps(*cut(body, place)), secrets=[secret])
        list(recorder.iter_bytes())
        first, second = (read.data for read in recorder.recording.reads)
        assert (first, second) == (expected[:place], expected[place:])


@given(
    secret=st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=6, max_size=12),
    spell=st.sampled_from(list(SPELLINGS.values())),
    around=st.text(max_size=5),
)
def test_any_secret_is_found(secret: str, spell: Callable[[str], str], around: str) -> None:
    spelled = spell(secret).encode()
    before, behind = around.encode("utf-8", "replace"), b" behind"
    assume(not (secret.isdigit() and (before[-1:].isdigit() or before.endswith(b"."))))  # a part of a longer number
    cleaned = Redactor([secret]).clean(before + spelled + behind)
    assert len(cleaned) == len(before + spelled + behind)
    assert spelled not in cleaned or not spelled.strip(b"*")


def test_a_body_that_ends_within_a_secret() -> None:
    spelled = json.dumps(SECRET)[1:-1]
    for size in range(6, len(spelled)):
        cleaned = Redactor(["abcdefgh", SECRET]).clean(f"no {spelled[:size]}".encode())
        assert cleaned == b"no " + b"*" * size
    assert Redactor([SECRET]).clean(f"no {spelled[:5]}".encode()) == f"no {spelled[:5]}".encode()
    assert Redactor(["aaaaaaab"]).clean(b"aaaaaaaaaa") == b"aaa*******"
    assert Redactor(["abcabcabd"]).clean(b"xabcabcabcab") == b"xabc********"


@each_case(
    ("secrets", "text", "cleaned"),
    [
        (["secret", "secret-and-more", ""], "secret-and-more, secret, secre", "***************, ******, secre"),
        ([], "secret", "secret"),
        # A number is no secret within a longer one.
        (["123456"], "123456, at 1123456, 123456.5, 0.123456", "******, at 1123456, 123456.5, 0.123456"),
        ([], "Bearer a1/b2+c3.d4~e5", "Bearer **************"),
    ],
)
def test_secrets_in_others_and_in_numbers(secrets: list[str], text: str, cleaned: str) -> None:
    assert Redactor(secrets).clean_text(text) == cleaned
    assert Redactor(secrets).clean(text.encode()) == cleaned.encode()


LOOKS_SECRET = [
    "sk-proj-AbCdEfGhIjKlMnOp1234_-zz",
    "sk-ant-api03-AbCdEfGhIjKlMnOp1234AA",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "gsk_0123456789abcdefABCDEF",
    "xai-0123456789abcdefABCDEF",
    "hf_abcdefghijklmnopQRST12",
    "hf_" + "AbCdEfGhIjKlMnOpQ" * 2,
    "nvapi-0123456789abcdefABCDEF-_",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "AKIAABCDEFGHIJKL1234",
    "ASIAABCDEFGHIJKL1234",
    "ABSK" + base64.b64encode(b"BedrockAPIKey-made-up-at-000000000000:" + bytes(range(60, 120))).decode(),
    "AQ.Ab8RN6" + "AbCdEfGh-_" * 4,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_",
    "sk-ab******************yz12",
]
LOOKS_PLAIN = [
    "key_value_pairs_sorted_by_name",
    "sk-learn",
    "task-oriented-programming-language",
    "hf_hub_download(repo_id)",
    "hf_" + "abcdefghijklmnopq" * 3,
    "pk_column_name",
    "the Bearer authentication scheme",
    "Authorization: Bearer YOUR_API_KEY_HERE",
    "eyJust.a.word",
    "disk-0123456789abcdefghij",
    "FAQ.how-to-write-a-page-of-answers-in-2026",
    "AQ.a-name-of-many-words-without-any-number",
    "ABSK" + "Ab12" * 5,
    "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    base64.b64encode(bytes(range(256))).decode(),
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
]


@each_case("text", LOOKS_SECRET)
def test_what_looks_like_a_key_is_overwritten(text: str) -> None:
    assert Redactor().clean(delta(content=f"my key is {text}.")) == delta(content=f"my key is {'*' * len(text)}.")
    assert Redactor().clean_text(f"Bearer {text}") == f"Bearer {'*' * len(text)}"


@each_case("text", LOOKS_PLAIN)
def test_what_does_not_is_let_be(text: str) -> None:
    assert Redactor().clean(delta(content=f"so {text}.")) == delta(content=f"so {text}.")


OF_ITSELF = {  # what a client says
    "user-agent": "OpenAI/Python 1.99.1",
    "x-stainless-lang": "python",
    "x-stainless-os": "MacOS",
    "x-stainless-package-version": "1.99.1",
    "x-stainless-runtime": "CPython",
    "accept": "text/event-stream, application/json;q=0.9",
    "http-referer": "https://weather.example/",
    "x-title": "Weather for everyone",
    "x-model": "claude-3-5-sonnet-20241022",
    "anthropic-version": "2023-06-01",
    "openai-beta": "assistants",
}
PORTKEY = {  # a gateway's headers, and whether their values are secrets
    "x-portkey-provider": ("vertex-ai-eu1", False),
    "x-portkey-trace-id": ("checkout-8f3a21bc", False),
    "x-portkey-span-id": ("span-77b01c2d", False),
    "x-portkey-api-key": ("pk9-marked-1", True),
    "x-portkey-virtual-key": ("vk9-marked-2", True),
    "authorization": ("Bearer marked-3-upstream", True),
    "x-portkey-aws-secret-access-key": ("marked-4-aws", True),
    "x-portkey-aws-session-token": ("marked-5-aws", True),
    "x-portkey-custom-host": ("https://user:marked-6-host@own.example/v1", True),
}
TARGETS = [
    {"provider": "azure-openai", "api_key": "short7", "weight": 1, "credentials": [{"value": "short8"}]},
    {"custom": 'marked-1 q"o\\te-7', "key-name-1": None, "override_params": {"model": "gpt-4o-mini"}},
]
CONFIGURATION = {"strategy": {"mode": "fallback"}, "targets": TARGETS}  # JSON in a gateway's header
CREDENTIALS = base64.b64encode(b"user-name:pass:word").decode()
# The headers of a request, and the texts that are secrets where its answer quotes them, or are none.
QUOTED: list[tuple[dict[str, str], list[str], list[str]]] = [
    (OF_ITSELF, [], [*OF_ITSELF.values()]),
    (
        {name: value for name, (value, _) in PORTKEY.items()},
        [value.removeprefix("Bearer ") for value, is_secret in PORTKEY.values() if is_secret],
        [value for value, is_secret in PORTKEY.values() if not is_secret],
    ),
    *(
        (
            {"x-portkey-config": json.dumps(CONFIGURATION, separators=separators)},
            ["marked-1", "short7", "short8", 'q"o\\te-7'],
            ["azure-openai", "gpt-4o-mini", "fallback", "override_params", "key-name-1"],
        )
        for separators in ((",", ":"), (", ", ": "))
    ),
    ({"authorization": f"Basic {CREDENTIALS}"}, ["user-name", "pass:word", CREDENTIALS], []),
    ({"authorization": "Bearer short"}, ["Bearer short"], ["short"]),  # so short, it may be any word
    ({"authorization": "Bearer ollama"}, ["Bearer ollama"], ["fp_ollama"]),  # a key that is none
]


@each_case(
    ("headers", "text", "is_secret"),
    [
        (headers, text, is_secret)
        for headers, secrets, others in QUOTED
        for texts, is_secret in ((secrets, True), (others, False))
        for text in texts
    ],
)
def test_of_a_requests_headers_the_secrets_are_hidden_alone(
    headers: dict[str, str], text: str, is_secret: bool
) -> None:
    quoted = json.dumps(text)[1:-1]
    shown = "*" * len(quoted) if is_secret else quoted
    expected = delta(content="a X b").replace(b"X", shown.encode())
    assert stored_body(delta(content=f"a {text} b"), headers) == expected


def stored_body(content: bytes, headers: dict[str, str]) -> bytes:
    request = httpx.Request("POST", "https://api.example/v1?api-version=2024-10-01-preview", headers=headers)
    recorder = Recorder(httpx.Response(200, content=content, request=request))
    list(recorder.iter_bytes())
    return recorder.recording.body


def test_json_in_a_header_may_be_nested_too_deep_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """How deep that is depends on Python; a header for all versions would take seconds to be searched for."""
    request = httpx.Request("POST", "https://api.example/v1", headers={"x-nested": "[[]]"})
    loads = Mock(side_effect=RecursionError)
    monkeypatch.setattr(json, "loads", loads)
    assert Recorder(httpx.Response(200, request=request)).recording.status_code == 200
    loads.assert_any_call("[[]]")


def test_a_stored_header_and_the_path_hold_no_secret() -> None:
    key = "sk-proj-AbCdEfGhIjKlMnOp1234"
    request = httpx.Request("POST", f"https://api.example/{key}/marked-secret/v1", headers={"x-a": "marked-secret"})
    response = httpx.Response(200, headers={"server": f"{key} marked-secret ok", "date": "today"}, request=request)
    recorded = Recorder(response).recording
    assert recorded.headers == {"server": f"{'*' * 28} {'*' * 13} ok", "date": "today"}
    assert recorded.url == f"https://api.example/{'*' * 28}/{'*' * 13}/v1"


async def test_the_key_of_a_request_that_was_redirected(library: Any, front: Any) -> None:
    """On the way to another host clients drop it, but it was sent."""
    with FakeProvider(Answer([HELLO[:-9], mark("authorization").encode()], 403)) as other:
        away = Answer(b"", 307, {"location": other.url.replace("127.0.0.1", "localhost")}, framing="content-length")
        with FakeProvider(away) as provider:
            headers = {"authorization": f"Bearer {mark('authorization')}"}
            async with raw_client_of(front, library, headers=headers, follow_redirects=True) as client:
                live = await read_to_its_end(front, Recorder(await send(client, provider.url)))
        assert "authorization" not in other.requests[0].headers
    assert live.recorder.recording.body.endswith(b"*" * len(mark("authorization")))


def test_of_an_exception_only_the_types_name_is_stored() -> None:
    recorder = Recorder(Failing(HELLO, ConnectionResetError(f"while sending {MARK}")))
    with pytest.raises(StreamInterruptedError, match=MARK):
        ChatCompletionStream(recorder).read()
    assert MARK.encode() not in recorder.recording.dumps()
    assert recorder.recording.error == "ConnectionResetError"


HARD = [b"sk-", b"sk-a-", b"sk-***", b"eyJ", b"eyJa-", b"eyJaaaaaaaa.", b"Bearer ", b"Bearer a/", b"\\", b"%25", b"&#0000", b"\\u", b"a", b"sk-" + b"a" * 60 + b"-"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", HARD, ids=repr)
def test_looking_for_secrets_is_linear(piece: bytes) -> None:
    redactor = Redactor(["sk-proj-" + "aB3" * 40, SECRET, "a" * 20 + "b"])
    assert_linear(lambda size: partial(redactor.clean, b"sk-" + piece * (size // len(piece))), 20_000)


def test_a_long_secret_costs_little_where_it_does_not_appear() -> None:
    """Was once wrong: a pattern for all of it was compiled, for a cookie of 4,000 characters in a second."""
    assert calls_of(lambda: Redactor(["long-" + "aB3" * 1000]).clean(b"a long-aB answer")) < 30_000
