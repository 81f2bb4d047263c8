"""The hostile set: streams that providers really send and that break clients, and a way to hold any client to it.

    from chunkfold.testing.hostile import hold, hostile_streams

    verdicts = hold(my_fold, hostile_streams())  # my_fold: bytes -> an object or a dict with text and tool_calls
    print([(verdict.stream.name, verdict.instead) for verdict in verdicts if not verdict.right])

How it is counted. One body is one point, and what a client has no notion of costs it nothing:

1. A `complete` stream is right if an answer came, with the text, the tool calls in order (name, id where one was
   sent, arguments that mean the same JSON), and, where the stream has them, the finish reason as sent, the
   reasoning and the counts of usage.
2. An exception counts as a refusal: wrong for a `complete` stream, right for all others, whatever it says. A crash does
   not: an exception of the interpreter's or of `json`, such as a KeyError, which only a mistake raises. It has a column
   of its own.
3. An `error` is right if it was refused, or if the answer's finish reason is itself the word for an error.
4. A stream that is `cut` or `invalid` is right if it was refused, or if the answer says that it has no finish reason.
   A client without a notion of a finish reason can only refuse.
5. What a client does not report (None: reasoning, usage, a finish reason, ids, further choices) is not judged.
6. A stream that has a `cost`, the cases of abuse, must not take more time or memory than that.
7. A client that tells the kinds of endings apart, as chunkfold does, has to tell the right one, with the provider's
   words for an error, and is judged on what it kept of a stream that was refused.
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
