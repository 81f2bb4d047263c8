"""Keys in a URL's path are starred, and names stay."""

import json
from functools import partial
from urllib.parse import unquote

import httpx
import pytest
from cases import each_case
from linear import assert_linear

from chunkfold.recording import RecordedRead, Recorder, Recording
from chunkfold.recording.credentials import secrets_in_request
from chunkfold.recording.redaction import clean_url
from chunkfold.report import facts_of, page, trace
from chunkfold.testing import delta

KEYS_IN_PATHS = {
    "a known prefix": ("sk-proj-AbCdEfGhIjKlMnOp1234", "/v1/{}/chat/completions"),
    "a short key with a known prefix": ("sk-a1b2c3d4", "/{}/v1"),
    "letters and digits": ("x7Gk2PqR9sLw4TzB8nVd", "/v1/{}/openai"),
    "one case": ("d41d8cd98f00b204e9800998ecf8427e", "/v1/{}/gateway/openai"),
    "with a number before it": ("bot123:x7Gk2PqR9sLw4TzB8nVd", "/{}/v1"),
    "escaped": ("x7Gk2PqR9sLw4TzB8nVd%3D%3D", "/v1/{}/openai"),
    "after its name": ("swordfish-and-more", "/token/{}/v1"),
    "after its name, with a prefix": ("swordfish-and-more", "/v1/api_key/{}"),
    "after its name and a sign": ("swordfish-and-more", "/v1/x-key={};v=1/openai"),
}


@each_case(("key", "path"), KEYS_IN_PATHS.values(), ids=KEYS_IN_PATHS)
def test_a_key_in_a_urls_path_is_starred(key: str, path: str) -> None:
    url = f"https://gateway.example{path.format(key)}"
    assert clean_url(url) == f"https://gateway.example{path.format('*' * len(key))}"
    refused = httpx.Response(401, text=f"no such key: {unquote(key)}", request=httpx.Request("POST", url))
    recorder = Recorder(refused)
    recorder.read()
    assert recorder.recording.url == clean_url(url)
    assert recorder.recording.body == f"no such key: {'*' * len(unquote(key))}".encode()
    for shown in (page([facts_of(Recording((), url=url), "a")]), json.dumps(trace([facts_of(at_times(url), "a")]))):
        assert key not in shown
        assert "*" * len(key) in shown


def at_times(url: str) -> Recording:
    return Recording((RecordedRead(0.5, delta("stop")),), url=url, headers_at=0.1)


NAMES_IN_PATHS = [
    "/v1/chat/completions",
    "/openai/deployments/gpt-4o-mini-2024-07-18/chat/completions",
    "/openai/deployments/gpt4ominideploymenteastus2/chat/completions",
    "/openai/deployments/MetaLlama31InstructTurbo/chat/completions",
    "/accounts/fireworks/models/llama-v3p1-405b-instruct",
    "/model/anthropic.claude-3-5-sonnet-20241022-v2:0/converse",
    "/models/Qwen/Qwen2.5-VL-7B-Instruct-GGUF-Q4_K_M/v1",
    "/models/hf-internal-testing/tiny-random-gpt2",
    "/models/mixtral8x7binstructv01/sk-learn",
    "/v1/projects/my-project-123456/locations/us-central1/endpoints/1234567890123456789/chat/completions",
    "/v2/pexec/functions/f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "/v2/vllm-abc123xyz/openai/v1",
    "/token/v1/chat/completions",
    "/chatcompletionsstreamingendpointnameofours/v1",
]


@each_case("path", NAMES_IN_PATHS)
def test_names_in_a_urls_path_stay(path: str) -> None:
    assert clean_url(f"https://gateway.example{path}") == f"https://gateway.example{path}"


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["sk-", "sk-a-", "a", "a1", "aB3", "/", "key/", "%", "="], ids=repr)
def test_looking_at_a_path_is_linear(piece: str) -> None:
    assert_linear(lambda size: partial(secrets_in_request, "https://a.example/sk-" + piece * size, {}), 2_000)
