"""Run something to completion even if the task that waits for it is cancelled.

A pool loses a connection forever if the closing of its response is interrupted. The shields of httpcore are anyio's:
they protect from cancellation by anyio and trio, but not from asyncio's own `task.cancel()`. So on asyncio the closing
runs in a separate task.
"""

import sys
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any


async def run_to_completion(work: Coroutine[Any, Any, None], *, on_cancel: Callable[[], object] | None = None) -> None:
    """Wait until `work` is done; if this task was cancelled meanwhile, raise the cancellation then.

    `on_cancel` is called when the task is cancelled, to make the work finish sooner.
    """
    if not _is_asyncio():
        await work
        return
    import asyncio

    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    anyio = sys.modules.get("anyio")
    # Shielded from anyio's cancellation, which anyio repeats in every iteration of the event loop.
    with anyio.CancelScope(shield=True) if anyio is not None else nullcontext():
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
        cancelled = None  # else it and this frame would refer to each other


def _is_asyncio() -> bool:
    """Whether this runs in a task of asyncio; trio may run as its guest, where there is none."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False
