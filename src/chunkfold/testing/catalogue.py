"""The docs page "What providers really send": each rule of the catalogue, its example, and what comes of that.

    python -m chunkfold.testing.catalogue docs/providers.md           # write the page
    python -m chunkfold.testing.catalogue docs/providers.md --check   # exit with 1 if it is not up to date

Nothing on the page is told by hand that the parser can tell: each example is read, and the result is what it says.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from chunkfold.anomalies import LATE_FAULT, RULES, Rule
from chunkfold.errors import APIError
from chunkfold.models import ChatCompletionMessageToolCall
from chunkfold.parser import ChatCompletionParser

_COMMAND: Final = "python -m chunkfold.testing.catalogue docs/providers.md"
_GROUPS: Final = {
    "CF1": "CF1xx: framing",
    "CF2": "CF2xx: the shape of a chunk",
    "CF3": "CF3xx: tool calls",
    "CF4": "CF4xx: usage",
    "CF5": "CF5xx: the end",
    "CF6": "CF6xx: errors",
}
_RUN: Final = re.compile(r"(?P<character>[^⟨⟩])(?P=character){19,}")
_HIDDEN: Final = re.compile(rb"[^\n\x20-\x7e]| (?=\n|\Z)")

_INTRODUCTION: Final = f"""\
# What providers really send

<!-- Written by: {_COMMAND} -->

Every deviation from OpenAI's API reference that chunkfold knows is a *rule* with an id. Here is each
of them: what comes, who sends it, what chunkfold does, a body made for it, and what comes of that body.

In production you need none of this: the stream is read, and `anomalies` says what was tolerated. Look
here when an id turns up in your logs, or when you test a provider with `strict=True`, where the first
deviation is an `InvalidStreamError` that names its rule. The same in one table is in
[Payload](payload.md#anomalies).

```python
from chunkfold import RULES, ChatCompletionStream, InvalidStreamError

rule = next(rule for rule in RULES if rule.id == "CF305")
print(rule)

stream = ChatCompletionStream([rule.example])
print([call.id for call in stream.read().tool_calls])
print([(anomaly.rule.id, anomaly.count) for anomaly in stream.anomalies])

try:
    ChatCompletionStream([rule.example], strict=True).read()
except InvalidStreamError as error:
    print(error.rule.id)
```

```text
CF305: a new tool call has an index that is taken
['call_a', 'call_b']
[('CF305', 1)]
CF305
```

## How to read it

- A rule is noted once per stream, with a count and the first place, however often it is broken.
- The bodies are as they come over the wire. What could not be seen stands between ⟨ and ⟩: a byte as
  two hexadecimal digits, a repeated character with its count, and ⟨end⟩ where the body ends without
  a line end.
- The rules CF6xx are a provider's errors in an unusual shape. They are an `APIError` in strict mode
  too, since what the provider says goes before how it says it.
- Never a rule: what the event stream standard allows, unknown fields, reasoning fields, where usage
  stands, and an error in OpenAI's own form.
"""


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    for group, rules in groupby(RULES, key=lambda rule: rule.id[:3]):
        yield f"## {_GROUPS[group]}\n"
        yield from map(_section, rules)


def _section(rule: Rule) -> str:
    return f"""\
### {rule}

- Sent by: {rule.senders}.
- chunkfold: {rule.handling}.

```text
{shown(rule.example)}
```

{_result(rule)}
"""


def shown(body: bytes) -> str:
    """A body as people can read it; nothing of it is lost."""
    text = _HIDDEN.sub(lambda match: f"⟨{match[0].hex()}⟩".encode(), body).decode()
    text = _RUN.sub(lambda match: f"⟨{len(match[0])} times {match['character']}⟩", text)
    # A body that ends as an event stream does ends in a blank line, which says enough by itself.
    return text[:-1] if text.endswith("\n") else f"{text}⟨end⟩"


def _result(rule: Rule) -> str:
    """What comes of the example, in a sentence."""
    parser = ChatCompletionParser()
    parser.feed(rule.example)
    if rule is LATE_FAULT:
        parser.interrupt(ConnectionResetError("connection reset"))
    else:
        parser.close()
    snapshot, error = parser.snapshot, parser.error
    parts = [f"`{parser.end}`"]
    if isinstance(error, APIError):
        parts.append(f"`{type(error).__name__}`: {error.message}, status {error.status_code}")
    if snapshot.reasoning:
        parts.append(f"reasoning {_code(snapshot.reasoning)}")
    if snapshot.text:
        parts.append(f"text {_code(snapshot.text)}")
    if snapshot.message.audio is not None:
        parts.append(f"audio {_code(snapshot.message.audio.data or '')}")
    parts += map(_call, snapshot.tool_calls)
    if snapshot.usage is not None:
        parts.append(f"total_tokens {snapshot.usage.total_tokens}")
    before = "Then the connection is reset. " if rule is LATE_FAULT else ""
    return f"{before}What comes of it: {'; '.join(parts)}."


def _call(call: ChatCompletionMessageToolCall) -> str:
    return f"tool call {_code(f'{call.name}({call.arguments})')} with the id {_code(call.id or '')}"


def _code(text: str) -> str:
    return f"`{shown_text(text)}`"


def shown_text(text: str) -> str:
    """A text with what could not be seen in it as an escape."""
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it; the exit status."""
    options = argparse.ArgumentParser(prog="python -m chunkfold.testing.catalogue", description=page.__doc__)
    options.add_argument("path", type=Path, help="the page's file")
    options.add_argument("--check", action="store_true", help="write nothing; exit with 1 if it is not up to date")
    asked = options.parse_args(arguments)
    path: Path = asked.path
    if not asked.check:
        path.write_text(page(), "utf-8", newline="\n")
    elif not path.exists() or path.read_text("utf-8") != page():
        sys.stderr.write(f"{path} is not up to date: {_COMMAND}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
