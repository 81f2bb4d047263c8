"""Fold chunks into a message, with one rule for each field.

Input: chunks. Output: a snapshot on demand, and calls of an observer as things happen. Read in this order:

- `stream_fold`: which choice continues; `head`: what every chunk repeats; `accumulator`: the public class;
- `deltas`: the rule for each field of a delta; `choice_state`: the state that it is folded into, and its notifications;
- `tool_calls`: which call a fragment belongs to; `tool_call`: one call, and the legacy one;
- `merging`: unknown keys, usage; `blocks`: blocks of reasoning, content parts; `audio`; `text_buffer`: joined late;
- `snapshot`: the public form of a message, and what a whole message adds to the deltas;
- `footprint`: the memory that is kept; `text_channels`: the texts of a delta by place.
"""
