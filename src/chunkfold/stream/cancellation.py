"""Run something to completion although the task that waits for it is cancelled.

Pools lose a connection for good if the closing of a response is interrupted. The shields of httpcore are anyio's: they
protect from what anyio and trio cancel, but not from asyncio's own `task.cancel()`. So on asyncio the closing runs in a
task of its own.
"""

import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any


async def run_to_completion(work: Coroutine[Any, Any, None], *, on_cancel: Callable[[], object] | None = None) -> None:
    """Wait for it to its end; if the task was cancelled meanwhile, be cancelled then.

    Args:
        work: What has to finish.
        on_cancel: Called when the task is cancelled, to make it finish sooner.
    """
    if not _is_asyncio():
        await work
        return
    import asyncio

    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    with _without_anyio():
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
                if on_cancel is not None:
                    on_cancel()
    try:
        if cancelled is not None:
            raise cancelled
        task.result()
    finally:
        cancelled = None  # else it and this frame would hold each other


def _without_anyio() -> AbstractContextManager[object]:
    """Out of reach of anyio's cancellation, which would come again in every turn of the event loop."""
    anyio = sys.modules.get("anyio")
    return anyio.CancelScope(shield=True) if anyio is not None else nullcontext()


def _is_asyncio() -> bool:
    """Whether this runs in a task of asyncio; trio may run as its guest, where there is none."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False
