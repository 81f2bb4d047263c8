"""Five providers' bodies, each with what must come out of it, however the bytes are cut.

The format of the expected results, and where the facts come from, is told in `golden/README.md`.
"""

import json
from typing import Any

from cases import each_case
from golden_bodies import CASES, GOLDEN, golden

from chunkfold import APIError, ChatCompletionChunk, ChatCompletionParser, Choice, ChunkfoldError
from chunkfold.testing import cut_every

PROVIDERS = {"nagaai", "nameless", "opentoken", "sansa", "stepfun"}


def expected_of(case: str) -> dict[str, Any]:
    expected = json.loads((GOLDEN / f"{case}.json").read_text("utf-8"))
    del expected["about"]
    return expected


# A result in the words of `<case>.json`


def told(stream: Any, chunks: list[ChatCompletionChunk], error: ChunkfoldError | None) -> dict[str, Any]:
    """What a parser or a stream (their views are the same) says at the end, beside the error that was raised."""
    completion = stream.snapshot
    usage = completion.usage
    return {
        "end": stream.end,
        "error": error and told_error(error),
        "chunks": [chunk.model_dump(mode="json", exclude_unset=True) for chunk in chunks],
        "texts": [chunk.text for chunk in chunks],
        "completion": {
            "id": completion.id,
            "model": completion.model,
            "created": completion.created,
            "choices": [told_choice(choice) for choice in completion.choices],
            "usage": usage and usage.model_dump(mode="json", exclude_unset=True),
            "cached_tokens": usage and usage.cached_tokens,
            "reasoning_tokens": usage and usage.reasoning_tokens,
        },
    }


def told_error(error: ChunkfoldError) -> dict[str, Any]:
    sent = isinstance(error, APIError)  # only then has it a message of the provider's, and a code
    return {
        "type": type(error).__name__,
        "message": error.message if sent else None,
        "code": error.code if sent else None,
        "status_code": error.status_code if sent else None,
        "error_type": error.type if sent else None,
    }


def told_choice(choice: Choice) -> dict[str, Any]:
    message = choice.message
    calls = [{name: getattr(call, name) for name in ("id", "type", "name", "arguments")} for call in message.tool_calls]
    texts = {name: getattr(message, name) for name in ("role", "content", "reasoning", "refusal")}
    return {
        "index": choice.index,
        "finish_reason": choice.finish_reason,
        "outcome": choice.outcome,
        "message": {**texts, "tool_calls": calls},
    }


def test_every_provider_has_bodies_and_every_body_its_result() -> None:
    assert {case.partition("/")[0] for case in CASES} == PROVIDERS
    assert {path.with_suffix(".sse") for path in GOLDEN.rglob("*.json")} == set(GOLDEN.rglob("*.sse"))


@each_case("size", [None, 1], ids=["whole", "byte by byte"])
@each_case("case", CASES)
def test_parser(case: str, size: int | None) -> None:
    body = golden(case)
    parser = ChatCompletionParser()
    chunks = [chunk for data in cut_every(body, size or len(body)) for chunk in parser.feed(data)]
    chunks += parser.close()
    error = None
    try:
        assert parser.completion() == parser.snapshot
    except ChunkfoldError as exc:
        error = exc
    assert told(parser, chunks, error) == expected_of(case)
    assert error is parser.error
