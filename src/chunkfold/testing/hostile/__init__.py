"""The hostile set: streams that providers really send and that break clients, and a way to test any client with it.

    from chunkfold.testing.hostile import hold, hostile_streams

    verdicts = hold(my_fold, hostile_streams())  # my_fold: bytes -> an object or a dict with text and tool_calls
    print([(verdict.stream.name, verdict.instead) for verdict in verdicts if not verdict.right])

How streams are counted: one body is one point, and a client loses nothing for features it does not have.

1. A `complete` stream is right if the client returned an answer, with the text, the tool calls in order (name, id if
   one was sent, arguments that are equal as JSON), and, if the stream has them, the finish reason as sent, the
   reasoning and the counts of usage.
2. An exception counts as a refusal, whatever its message: wrong for a `complete` stream, right for all others. A crash
   is not a refusal: a built-in exception or one of `json`, such as a KeyError, which only a bug raises. Crashes have a
   column of their own.
3. An `error` is right if it was refused, or if the answer's finish reason is itself the word for an error.
4. A stream that is `cut` or `invalid` is right if it was refused, or if the answer reports that it has no finish
   reason. A client that does not report finish reasons can only refuse.
5. Values that a client does not report (None: reasoning, usage, a finish reason, ids, further choices) do not count.
6. A stream that has a `cost`, the cases of abuse, must not take more time or memory than that.
7. A client that distinguishes the kinds of endings, as chunkfold does, has to report the right one, with the provider's
   message for an error, and the part of a refused stream that it kept counts too.

Read `values`; the streams, in the order of `collection`; then `judging`, `clients` and `report`.
"""

from chunkfold.testing.hostile.clients import Client, Verdict, chunkfold_client, client_of, hold
from chunkfold.testing.hostile.collection import hostile_streams
from chunkfold.testing.hostile.judging import judge
from chunkfold.testing.hostile.values import Cost, HostileStream
from chunkfold.testing.readings import Call, Ending, Reading

__all__ = [
    "Call",
    "Client",
    "Cost",
    "Ending",
    "HostileStream",
    "Reading",
    "Verdict",
    "chunkfold_client",
    "client_of",
    "hold",
    "hostile_streams",
    "judge",
]
