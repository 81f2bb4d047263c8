"""Write spoken output to a .wav file as its bytes arrive, and print its transcript; the argument is the file's name.

The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import os
import sys
import wave

import httpx
from _provider import base_url

import chunkfold

HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-audio")
FILE = sys.argv[1] if len(sys.argv) > 1 else "answer.wav"
RATE = 24_000  # samples per second; `pcm16` has one channel, and two bytes for each sample


def save(stream: chunkfold.ChatCompletionStream, file: wave.Wave_write) -> None:
    """Write each piece when it arrives: the file can be played at any time, even if the stream breaks."""
    file.setnchannels(1)
    file.setsampwidth(2)
    file.setframerate(RATE)
    for event in stream.events():
        if isinstance(event, chunkfold.AudioDelta):
            file.writeframes(event.data)  # corrects the header too
            print(event.transcript, end="", flush=True)
    print()


def main() -> None:
    """Ask for a spoken answer."""
    request = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Greet me."}],
        "modalities": ["text", "audio"],
        "audio": {"voice": "alloy", "format": "pcm16"},
    }
    with (
        base_url("voice") as base,
        httpx.Client(headers=HEADERS, timeout=120) as client,
        chunkfold.connect(client, "POST", f"{base}/chat/completions", json=request) as stream,
        wave.open(FILE, "wb") as file,
    ):
        save(stream, file)
        print(f"{FILE}: {file.tell() / RATE:.1f} s")


if __name__ == "__main__":
    main()
