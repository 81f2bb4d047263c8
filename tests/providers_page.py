"""Write the docs page "What providers really send": each rule of the catalogue with its example and the result.

    python tests/providers_page.py docs/providers.md

The results are not written by hand: the parser reads each example, as `connect` reads the answer to a request for one
choice.
"""

import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from chunkfold.anomalies import RULES, Rule
from chunkfold.errors import APIError
from chunkfold.models.tool_calls import ChatCompletionMessageToolCall
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.rule_examples import example_of

_COMMAND: Final = "python tests/providers_page.py docs/providers.md"
_GROUPS: Final = {
    "CF1": "CF1xx: framing",
    "CF2": "CF2xx: the shape of a chunk",
    "CF3": "CF3xx: tool calls",
    "CF4": "CF4xx: usage",
    "CF5": "CF5xx: the end of the stream",
    "CF6": "CF6xx: errors",
}
_RUN: Final = re.compile(r"(?P<character>[^⟨⟩])(?P=character){19,}")
_HIDDEN: Final = re.compile(rb"[^\n\x20-\x7e]| (?=\n|\Z)")

_INTRODUCTION: Final = f"""\
# What providers really send

<!-- Written by: {_COMMAND} -->

Every deviation from OpenAI's API reference that chunkfold knows is a *rule* with an id. This page lists the rules: what
is sent, who sends it, how chunkfold handles it, a minimal body that triggers it, and the result of reading that body.

Look here if an id appears in the `anomalies` of your logs, or if you test a provider with `strict=True`.

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

## How to read this page

- A stream has one anomaly per rule, with a count and the first place, however often it triggers the rule.
- The bodies are shown as sent. Invisible parts are between ⟨ and ⟩: a byte as two hexadecimal digits, a repeated
  character with its count, and ⟨end⟩ if the body ends without a line end.
- The rules CF6xx are a provider's errors in an unusual shape. They raise an `APIError` in strict mode too, since the
  provider's error matters more than its shape.
- [Tolerance](tolerance.md#rules-and-anomalies) lists what is not a deviation, and explains strict mode.
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
    """A body in readable form, without losing any of it."""
    text = _HIDDEN.sub(lambda match: f"⟨{match[0].hex()}⟩".encode(), body).decode()
    text = _RUN.sub(lambda match: f"⟨{len(match[0])} times {match['character']}⟩", text)
    # A body that ends with a blank line, as event streams do, needs no mark for its end.
    return text[:-1] if text.endswith("\n") else f"{text}⟨end⟩"


def _result(rule: Rule) -> str:
    """The result of reading the example, as a sentence."""
    example = example_of(rule.id)
    parser = ChatCompletionParser(one_choice=True)
    parser.feed(example.body)
    if example.is_broken:
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
    before = "Then the connection is reset. " if example.is_broken else ""
    return f"{before}Result: {'; '.join(parts)}."


def _call(call: ChatCompletionMessageToolCall) -> str:
    return f"tool call {_code(f'{call.name}({call.arguments})')} with the id {_code(call.id or '')}"


def _code(text: str) -> str:
    return f"`{shown_text(text)}`"


def shown_text(text: str) -> str:
    """A text with its invisible characters escaped."""
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8", newline="\n")
