"""Read a response, sync or async, from the request to the closing of the connection.

Input: a response or any iterable of bytes, or with `connect` a client and a request. Output: what the parser returns,
chunk by chunk, event by event or as a whole. Read in this order:

- `connection`: `connect` and `aconnect` send the request; `responses`: what is read of a response;
- `driver`: what to do next, decided without I/O; `partials`: JSON values while their text is written;
- `sync`, `asynchronous`: the two streams, which pull bytes and close;
- `network`: reads with a deadline, waking a reader, and closing that cannot be cancelled;
- `reuse`: which servers close a connection that they announced to keep.
"""
