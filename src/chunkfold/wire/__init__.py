"""Parse one event into its chunks, an error, or `[DONE]`.

Input: a `ServerSentEvent`, or the body of a response that is not a stream. Output: a `Payload`, with a note for each
rule that was used to tolerate something. Read in this order:

- `payload`: `parse_payload`; the fast path is one validation of the bytes, the slow path handles each kind of data;
- `raw_data`: what data alone is, such as several events in one block, or an event that was cut;
- `reading`: the JSON of an event, also if a strict reader refuses it;
- `bodies`: bodies that are not an event stream, those of refused responses among them;
- `part_counts`: how many choices and entries of lists an event has, counted before models are made;
- `repairs`: the repairs of a chunk that does not validate, rule by rule;
- `envelopes`: the shapes of providers' errors, and events of other APIs;
- `api_errors`: turns an error, under any names, into an `APIError`;
- `statuses`: the HTTP status that an error means;
- `headers`: the id of the request, how long to wait before another attempt, how the body is encoded.
"""
