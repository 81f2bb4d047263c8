"""Decode and encode server-sent events exactly as section 9.2 of the WHATWG HTML standard prescribes.

Input: the bytes of a body, in pieces of any size. Output: a `ServerSentEvent` for each block that the standard
dispatches. This package knows no chat completions and parses no JSON; one pattern recognises an error that is sent as
bare JSON between the blocks, which is only exposed. Read in this order:

- `server_sent_event`: the event, and `encode_event`, which writes one;
- `decoder`: `EventStreamDecoder`; `lines`: how it finds many lines in one step, and slices of large reads;
- `discarded`: what the standard discards although senders mean it, and a body that does not start as an event stream.
"""
