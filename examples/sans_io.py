"""Use the parser with any HTTP library: here with `http.client` of the standard library.

The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import json
import os
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

from _provider import base_url

from chunkfold import ChatCompletion, ChatCompletionParser

HEADERS = {
    "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}",
    "Content-Type": "application/json",
    "Accept": "text/event-stream",
}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


def read(response: HTTPResponse) -> ChatCompletion:
    """Feed the bytes of the response to the parser until the stream has ended."""
    parser = ChatCompletionParser(status_code=response.status, headers=dict(response.headers))
    while parser.end is None:
        try:
            data = response.read1()  # as many bytes as have arrived
        except (OSError, HTTPException) as error:
            chunks = parser.interrupt(error)
        else:
            chunks = parser.feed(data) if data else parser.close()
        for chunk in chunks:
            print(chunk.text, end="", flush=True)
    return parser.completion()  # raises if the stream failed, also for a status that is not 2xx


def main() -> None:
    """Send one question."""
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Greet me in one sentence."}]}
    with base_url() as base:
        url = urlsplit(base)
        connection = (HTTPSConnection if url.scheme == "https" else HTTPConnection)(url.netloc, timeout=120)
        with closing(connection):
            connection.request("POST", f"{url.path}/chat/completions", json.dumps(body), HEADERS)
            completion = read(connection.getresponse())
    print(f"\nfinish reason: {completion.finish_reason}")


if __name__ == "__main__":
    main()
