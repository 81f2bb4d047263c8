"""Answers to the examples."""

from chunkfold.testing import DONE, chunk, delta, json_answer, usage

PATIENCE = 30.0  # seconds, after which a test that hangs fails
HI, THERE = delta(content="Hi "), delta(content="there")
STOP, USAGE = delta("stop"), chunk(usage=usage(1000, 500))
WHOLE = [HI, THERE, STOP, USAGE, DONE]
ROLE = delta(role="assistant", content="")
BUSY = json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after": "0"})
THOUGHT = delta(reasoning_content="They greet.")
