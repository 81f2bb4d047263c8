"""Parse one stream without I/O: bytes in, chunks out, and at the end how it ended.

Input: the bytes of a body, in pieces of any size, and whether the body ended, broke or was left. Output:
chunks or events, then the end, the error and the message. Read in this order:

- `parser`: `ChatCompletionParser`, the public class; `options`: its options and their checks;
- `lifecycle`: the effect of each read on the stream, its times, and its end;
- `streamed_body`: bytes into events, and what the standard discards; `event_folder`: events through their payloads into
  the fold; `refused_body`: the body of a response whose status is not 2xx;
- `template`: events that are like an earlier one, without parsing all JSON again; `holes`: where such events differ;
  `value_folder`: what the values there mean to the fold;
- `endings`: `judge`, how a stream ended as a function of the facts, and the error for each ending;
- `limits`: what a stream may cost in memory and time; `timing`: when chunks arrived;
- `surrogate_joiner`, `choice_merger`: chunks repaired before they are returned; `observers`: notifications.
"""
