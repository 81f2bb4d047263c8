"""Retry until text is shown; if the stream breaks after that, another provider continues. No text is shown twice.

Both providers are on this machine, and the first one fails in four ways. stamina does the retries.
"""

import httpx
import stamina

import chunkfold
from chunkfold.testing import Answer, FakeProvider, json_answer

REFUSED = json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after-ms": "500"})
RESET = Answer([b": hello\n\n", 0.2], ending="reset")
FAILED = Answer(b'data: {"error": {"message": "The model is overloaded.", "code": 503}}\n\n')
CUT = Answer(b'data: {"choices": [{"delta": {"content": "Once upon a time there was "}}]}\n\n', ending="cut")
REST = Answer(b'data: {"choices": [{"delta": {"content": "a fox."}, "finish_reason": "stop"}]}\n\n')


def wait_or_give_up(exc: Exception) -> float | bool:
    """For stamina: the seconds that the provider asks for, True for the usual wait, False to give up."""
    seconds: float | None = getattr(exc, "retry_after", None)
    if not chunkfold.is_retryable(exc) or (seconds or 0) > 60:
        return False  # always after output
    return seconds or True


@stamina.retry(on=wait_or_give_up, attempts=5, timeout=None, wait_jitter=0.2)  # else: for 45 seconds
def ask(client: httpx.Client, url: str, messages: list[dict[str, str]]) -> str:
    """Print the answer as it arrives, and return it."""
    with chunkfold.connect(client, "POST", url, json={"model": "m", "messages": messages}) as stream:
        for text in stream.text_deltas():
            print(text, end="", flush=True)
    return stream.completion().text


def answer(client: httpx.Client, first: str, second: str, messages: list[dict[str, str]]) -> str:
    """The first provider's answer; if it breaks off, the second provider continues it."""
    try:
        return ask(client, first, messages)
    except (chunkfold.ChunkfoldError, httpx.TransportError) as exc:
        if not chunkfold.is_retryable(exc, after_output=True):
            raise  # a wrong request, for instance
        shown = exc.snapshot.text if isinstance(exc, chunkfold.ChunkfoldError) and exc.snapshot else ""
        print(f"\n{exc}\n  -> the second provider continues")
    begun = [{"role": "assistant", "content": shown}] if shown else []
    return shown + ask(client, second, messages + begun)


def main() -> None:
    """Ask, and print each retry."""
    told = "{0.caused_by}\n  -> the same request again in {0.wait_for:.1f} s"
    stamina.instrumentation.set_on_retry_hooks([lambda details: print(told.format(details))])
    client = httpx.Client(timeout=httpx.Timeout(10, read=120), trust_env=False)
    with client, FakeProvider(REFUSED, RESET, FAILED, CUT) as first, FakeProvider(REST) as second:
        print("\n" + repr(answer(client, first.url, second.url, [{"role": "user", "content": "Tell me a tale."}])))


if __name__ == "__main__":
    main()
