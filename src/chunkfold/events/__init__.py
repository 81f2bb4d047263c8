"""Turn a stream into typed events.

Input: the notifications of the fold. Output: events for text, reasoning, tool calls, audio, images, the end of a
choice, usage and anomalies. Read in this order:

- `types`: the events, frozen dataclasses, and `ChatCompletionEvent`, the union of all;
- `recorder`: `EventRecorder`, the observer that makes them.
"""
