"""Streams with usage, in every place where providers send it."""

from typing import Any, Final

from chunkfold.testing.hostile.values import HI, STOP, HostileStream, answer
from chunkfold.testing.wire import DONE, HEAD, choice, chunk, event, usage

_COUNTS: Final = usage(10, 5)
_ZEROS: Final = usage(0, 0)
_DETAILS: Final[dict[str, Any]] = {
    "prompt_tokens_details": None,
    "completion_tokens_details": {"reasoning_tokens": None},
}


def _usage(name: str, sentence: str, senders: str, body: bytes) -> HostileStream:
    """An answer with those counts."""
    return answer(name, sentence, senders, body + DONE, usage=_COUNTS)


USAGE: Final[tuple[HostileStream, ...]] = (
    _usage(
        "usage-trailer",
        "usage in a last chunk without choices, null in all before",
        "OpenAI, OpenToken, vLLM",
        chunk(choice(content="Hi"), usage=None) + chunk(choice("stop"), usage=None) + chunk(usage=_COUNTS),
    ),
    _usage(
        "usage-trailer-bare",
        "usage in a last chunk that has nothing else, not even choices",
        "NagaAI",
        HI + STOP + event({"usage": _COUNTS}),
    ),
    _usage(
        "usage-trailer-choices-null",
        "usage in a last chunk whose choices are null",
        "MiniMax, gateways",
        HI + STOP + event({**HEAD, "choices": None, "usage": _COUNTS}),
    ),
    _usage(
        "usage-at-finish",
        "usage in the chunk with the finish reason",
        "Sansa, xAI, DeepSeek",
        HI + chunk(choice("stop"), usage=_COUNTS),
    ),
    _usage(
        "usage-in-choice",
        "usage inside the choice",
        "Moonshot",
        HI + chunk({**choice("stop"), "usage": _COUNTS}),
    ),
    _usage(
        "usage-in-x-groq",
        "usage inside x_groq",
        "Groq",
        HI + chunk(choice("stop"), x_groq={"id": "req_1", "usage": _COUNTS}),
    ),
    _usage(
        "usage-on-each",
        "usage so far in every chunk",
        "StepFun, xAI, Gemini, Databricks",
        chunk(choice(content="H"), usage=usage(10, 1))
        + chunk(choice(content="i"), usage=usage(10, 2))
        + chunk(choice("stop"), usage=_COUNTS),
    ),
    _usage(
        "usage-twice",
        "the same usage at the finish reason and once more in a trailer",
        "OpenRouter, gateways",
        HI + chunk(choice("stop"), usage=_COUNTS) + chunk(usage=_COUNTS),
    ),
    _usage(
        "usage-of-other-api",
        "usage in a last object of another API of the same provider",
        "Cloudflare Workers AI",
        chunk(choice(content="Hi"), usage=usage(0, 1)) + STOP + event({"response": "", "usage": _COUNTS}),
    ),
    _usage(
        "usage-zero-before",
        "zeros in every chunk before the counts",
        "vLLM forks, gateways",
        chunk(choice(content="Hi"), usage=_ZEROS) + chunk(choice("stop"), usage=_ZEROS) + chunk(usage=_COUNTS),
    ),
    _usage(
        "usage-null-later",
        "null after the counts",
        "gateways with one schema for all",
        HI + chunk(choice("stop"), usage=_COUNTS) + chunk(usage=None),
    ),
    _usage(
        "usage-details-null",
        "null where details were, and keys of the provider's own",
        "DeepSeek, MiniMax, NagaAI",
        HI + STOP + chunk(usage={**_COUNTS, **_DETAILS, "prompt_cache_hit_tokens": 4, "total_characters": 0}),
    ),
    _usage(
        "usage-as-text",
        "the counts are strings",
        "gateways in loosely typed languages",
        HI + STOP + chunk(usage={key: str(count) for key, count in _COUNTS.items()}),
    ),
    _usage(
        "usage-empty-list",
        "an empty list, where the counts come in another chunk",
        "relays in PHP",
        chunk(choice(content="Hi"), usage=[]) + chunk(choice("stop"), usage=_COUNTS) + chunk(usage=[]),
    ),
    _usage(
        "usage-before-text",
        "usage so far comes before the text, the rest with the finish reason",
        "Databricks, vLLM with continuous usage",
        chunk(usage=usage(10, 0)) + HI + chunk(choice("stop"), usage=_COUNTS),
    ),
    _usage(
        "usage-then-finish",
        "usage in a chunk without choices before the one with the finish reason",
        "relays that reorder",
        HI + chunk(usage=_COUNTS) + STOP,
    ),
)
