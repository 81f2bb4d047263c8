"""When a stream fails: every chunk that arrived, then one typed error with the partial answer.

The first answer is cut in the middle; the second is a 200 with an error inside. With `OPENAI_BASE_URL` (and the key
`OPENAI_API_KEY`) a real provider is asked, which can answer both.
"""

import os

import httpx
from _provider import base_url

import chunkfold

HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


def ask(client: httpx.Client, url: str, question: str) -> None:
    """Print the answer, or the part that arrived and the reason why it is incomplete."""
    request = {"model": MODEL, "messages": [{"role": "user", "content": question}]}
    with chunkfold.connect(client, "POST", url, json=request) as stream:
        try:
            for text in stream.text_deltas():
                print(text, end="", flush=True)
            print()
        except chunkfold.APIError as error:  # the provider reported it, by a status or inside the stream
            print(f"{type(error).__name__}: {error.message} (code {error.code}, status {error.status_code})")
            report(error)
        except chunkfold.IncompleteStreamError as error:  # cut, interrupted, stalled, or empty
            print(f"\n{type(error).__name__} ({error.end}): {error}")
            report(error)


def report(error: chunkfold.ChunkfoldError) -> None:
    """What every error has; `retryable` is False as soon as text was yielded."""
    text = error.snapshot.text if error.snapshot else ""
    again = chunkfold.is_retryable(error, after_output=True)
    print(f"  arrived: {text!r}, retryable: {error.retryable}, retryable after output: {again}")


def main() -> None:
    """Ask twice."""
    with base_url("errors") as base, httpx.Client(headers=HEADERS, timeout=120) as client:
        for question in ("Tell me a tale.", "Tell me another."):
            ask(client, f"{base}/chat/completions", question)


if __name__ == "__main__":
    main()
