"""The provider of the examples: a real one, or without a key one on this machine, so that they run anywhere."""

import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from math import sin, tau

from chunkfold.testing import Answer, FakeProvider, StreamBuilder, delta, paced


@contextmanager
def base_url(script: str = "") -> Iterator[str]:
    """`OPENAI_BASE_URL` if it is set, else that of a provider on this machine that follows a script."""
    if given := os.environ.get("OPENAI_BASE_URL"):
        yield given.rstrip("/")
        return
    os.environ["no_proxy"] = "127.0.0.1"
    with FakeProvider(*_SCRIPTS.get(script, ())) as provider:
        yield provider.base_url


def _spoken(word: str, tone: float) -> bytes:
    """A chunk with a word, spoken as a tone of this frequency in hertz for a quarter of a second, in `pcm16`."""
    samples = (round(9000 * sin(tau * tone * place / 24_000)) for place in range(6_000))
    data = b"".join(sample.to_bytes(2, "little", signed=True) for sample in samples)
    return delta(audio={"id": "audio-example", "data": b64encode(data).decode(), "transcript": word})


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


_PAUSE = 0.2  # seconds
_ONE_CALL_AFTER_THE_OTHER = (
    StreamBuilder().tool_call("weather", '{"city": ', '"Lisbon"}').tool_call("weather", '{"city": ', '"Oslo"}')
)
_CALLS_AT_ONCE = StreamBuilder().tool_calls(
    ["weather", '{"ci', 'ty": ', '"Lisbon"}'], ["weather", '{"ci', 'ty": ', '"Oslo"}']
)
_WEATHER = StreamBuilder().text("Lisbon has sun, ", "Oslo has snow.").finish().done()
_CITIES = (
    '{"cities": [{"name": "Tokyo", "country": "Japan", "millions": 37.1}, {"name": "Delhi", "country": "India", '
    '"millions": 33.8}, {"name": "Shanghai", "country": "China", "millions": 29.9}]}'
)
_GREETING = [_spoken(word, tone) for word, tone in (("Good ", 440.0), ("morning", 554.4), (".", 659.3))]
_SCRIPTS = {
    "async_stream": 2 * [StreamBuilder().text("Yes", ", please.").finish().done().answer(pace=_PAUSE)],
    "live_table": [StreamBuilder().text(*_pieces(_CITIES, 16)).finish().done().answer(pace=_PAUSE)],
    "run_tools_early": [_ONE_CALL_AFTER_THE_OTHER.finish().done().answer(pace=_PAUSE), _WEATHER.answer()],
    "tool_calls": [_CALLS_AT_ONCE.finish().done().answer(), _WEATHER.answer()],
    "voice": [Answer(paced([*_GREETING, *StreamBuilder().finish().done()], pace=_PAUSE))],
    "errors": [
        StreamBuilder().text("Once upon ", "a ti").answer(ending="cut"),
        StreamBuilder().error("The model is overloaded.", type="server_error", code=503).answer(),
    ],
}
