"""Let something finish although the task that waits for it is cancelled.

Pools lose a connection for good if the closing of a response is cut short. The shields of httpcore are anyio's: they
hold off what anyio and trio cancel, but not asyncio's own `task.cancel()`. So on asyncio it runs in a task of its own.
"""

import sys
from collections.abc import Coroutine
from typing import Any


async def shielded(work: Coroutine[Any, Any, None]) -> None:
    """Wait for it to its end; if the task was cancelled meanwhile, be cancelled then."""
    if not _is_asyncio():
        await work
        return
    import asyncio

    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _is_asyncio() -> bool:
    """Whether this runs in a task of asyncio; trio may run as its guest, where there is none."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False
