"""The loop that most programs start with: the row "a loop of 25 lines" of the README.

python -m chunkfold.testing --client tests.helpers.naive_client:fold
"""

import json
from typing import Any


def fold(body: bytes) -> dict[str, Any]:
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    finish_reason = None
    for line in body.decode().split("\n"):
        if not line.startswith("data: "):
            continue
        data = line.removeprefix("data: ").strip()
        if data == "[DONE]":
            break
        chunk = json.loads(data)
        if not chunk["choices"]:
            continue
        choice = chunk["choices"][0]
        delta = choice["delta"]
        text += delta.get("content") or ""
        for fragment in delta.get("tool_calls") or ():
            function = fragment["function"]
            index = fragment["index"]
            call = calls.setdefault(index, {"id": None, "name": "", "arguments": ""})
            call["id"] = call["id"] or fragment.get("id")
            call["name"] = call["name"] or function.get("name")
            call["arguments"] += function.get("arguments") or ""
        finish_reason = choice.get("finish_reason") or finish_reason
    return {"text": text, "tool_calls": list(calls.values()), "finish_reason": finish_reason}
