"""A part of python.py: cells that await. One event loop for all of them, so that tasks live on."""

import asyncio


def event_loop():
    if State.loop is None or State.loop.is_closed():
        State.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(State.loop)
    return State.loop


def wait_for(coroutine):
    loop = event_loop()
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        if task.done():
            raise
        task.cancel()
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError as cancelled:  # it knows where the cell was
            raise KeyboardInterrupt().with_traceback(cancelled.__traceback__) from None
        raise
