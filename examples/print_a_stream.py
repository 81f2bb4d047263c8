"""Print an answer as it arrives, then its finish reason and its usage.

The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import os

import httpx
from _provider import base_url

import chunkfold

HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


def main() -> None:
    """Send one question."""
    request = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Greet me in one sentence."}],
        "stream_options": {"include_usage": True},
    }
    # `read` is the longest silence that is allowed, also while a model thinks.
    with base_url() as base, httpx.Client(headers=HEADERS, timeout=httpx.Timeout(10, read=120)) as client:
        with chunkfold.connect(client, "POST", f"{base}/chat/completions", json=request) as stream:
            for chunk in stream:
                print(chunk.text, end="", flush=True)
        completion = stream.completion()  # raises if the stream did not end well
    print()
    print(f"finish reason: {completion.finish_reason}, ended: {stream.end}")
    if completion.usage:
        print(f"tokens: {completion.usage.prompt_tokens} in, {completion.usage.completion_tokens} out")


if __name__ == "__main__":
    main()
