"""The remaining answers of a script, for people: a line for each."""

from collections.abc import Callable
from typing import Any

from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.testing.answers import Answer, Raw
from chunkfold.testing.readings import one_line

_EXCERPT = 60  # characters of the text, or bytes of another body


def shown_script(scripted: Answer | Callable[..., Any]) -> str:
    """One answer of a script, or the function that would give it."""
    if not isinstance(scripted, Answer):
        return f"the function {getattr(scripted, '__qualname__', repr(scripted))}"
    pieces = [scripted.body] if isinstance(scripted.body, bytes) else scripted.body
    body = b"".join(
        piece.data if isinstance(piece, Raw) else piece for piece in pieces if isinstance(piece, bytes | Raw)
    )
    return f"{scripted.status}, {len(body)} bytes: {_said(body)}"


def _said(body: bytes) -> str:
    """The text of a stream; for any other body, its beginning."""
    parser = ChatCompletionParser()
    parser.fold(body)
    parser.close()
    if parser.end in ("invalid", "empty"):
        return one_line(ascii(body[:_EXCERPT].decode("utf-8", "replace")) + "..." * (len(body) > _EXCERPT))
    text = parser.snapshot.text
    said = [f"text {text[:_EXCERPT]!r}{'...' * (len(text) > _EXCERPT)}"] if text else []
    said += [f"a call of {call.name}" for call in parser.snapshot.tool_calls]
    said += [f"the error {parser.error}"] if parser.error is not None else []
    return one_line(", ".join(said) or f"a stream that is {parser.end}")
