"""Remember which servers close a connection that they announced to keep.

llama.cpp's server announces `Keep-Alive: timeout=5` and closes the connection 4 to 9 ms after the last chunk. By then a
connection whose body was read to the end is in the pool, and the next request is sent over it: 13 to 30 % of
back-to-back requests failed before any answer. So after one such failure, the client that saw it no longer keeps
connections to that server.

Threads share what is remembered without a lock, because an interrupt could leave that locked: on Python 3.14, what a
signal handler raises can come between `with lock` and its block. Each step is a single operation of a dict.
"""

import time
from contextlib import suppress
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

_SOON: Final = 1.0  # seconds after a connection was kept in which a failure counts as caused by it
_MAX_ORIGINS: Final = 256
_NEVER: Final = float("inf")
_FAILURES: Final = {"ReadError", "WriteError", "RemoteProtocolError"}

_Origin = tuple[str, str, int | None]

_clients: Final = WeakKeyDictionary[Any, dict[_Origin, float]]()  # when a connection was kept last, by its origin


def may_reuse(client: Any, response: Any) -> bool:
    """Whether connections of this client to the response's origin may be kept.

    True for a client that does not support weak references, and a response whose URL has no origin or is not known.
    """
    with suppress(TypeError, AttributeError, RuntimeError):
        return _clients.get(client, {}).get(_origin(response)) != _NEVER
    return True


def note_kept(client: Any, response: Any) -> None:
    """Note that the end of a body was waited for, so that its connection went back to the client's pool."""
    with suppress(TypeError, AttributeError, RuntimeError):
        _set(_clients.setdefault(client, {}), _origin(response), time.monotonic())


def note_failure(client: Any, exc: BaseException) -> None:
    """Note what the client raised as it sent a request, if a connection that was kept may be the reason."""
    if type(exc).__name__ not in _FAILURES:
        return
    with suppress(Exception):  # whatever another library's exception has as its request, it passes unchanged
        origins = _clients.get(client, {})
        origin = _origin(cast("Any", exc).request)
        if time.monotonic() - origins.get(origin, -_NEVER) < _SOON:
            _set(origins, origin, _NEVER)


def _set(origins: dict[_Origin, float], origin: _Origin, when: float) -> None:
    origins.pop(origin, None)
    origins[origin] = when
    if len(origins) > _MAX_ORIGINS:
        origins.pop(next(iter(origins)), None)


def _origin(message: Any) -> _Origin:
    """The origin of a request or a response; httpx raises a RuntimeError for a response that was made by hand."""
    url = message.url
    return url.scheme, url.host, url.port
