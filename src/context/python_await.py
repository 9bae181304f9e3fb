"""A part of python.py: cells that await. One event loop for all of them, so that tasks live on."""

import asyncio


def event_loop():
    if State.loop is None or State.loop.is_closed():
        State.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(State.loop)
    return State.loop


async def evaluate_awaiting(codes):
    value = None
    for code in codes:
        value = eval(code, ns)
        if code.co_flags & COROUTINE:
            value = await value
    return value


def run_awaiting(codes):
    loop = event_loop()
    task = loop.create_task(evaluate_awaiting(codes))
    try:
        return loop.run_until_complete(task)
    except (KeyboardInterrupt, SystemExit) as error:
        if task.done():
            raise
        task.cancel()
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError as cancelled:
            # It knows where the cell was; before 3.11 the one does that it was made of.
            inner = cancelled.__context__
            where = inner if isinstance(inner, asyncio.CancelledError) else cancelled
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt().with_traceback(where.__traceback__) from None
        raise
