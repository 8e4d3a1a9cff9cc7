"""Waiting for several queues or subscriptions at once, without taking anything from any.

Because nothing is taken, a wait can be given up at any moment and nothing is held: what the doors
of the server and a consumer of many topics build on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.client.io_async import cancelled, last_words
from holdfast.engine import calls
from holdfast.engine.keys import QueueRef

if TYPE_CHECKING:
    from holdfast.client._async.shards import AsyncShards

# Waiters look again at least this often, in case the one who should wake them died. Where there are several
# shards they wait at the first one, and are not told of all that falls due in another.
_LOOK_AGAIN, _LOOK_AROUND = 10.0, 2.0


def look_again(refs: Sequence[QueueRef]) -> float:
    """How long to wait at most before the next look."""
    return _LOOK_AGAIN if len(refs) == 1 else _LOOK_AROUND


async def wait_any(queues: Sequence[AsyncShards], seconds: float) -> bool:
    """True as soon as a receive on one of them may get something; False when the time is over.

    Others may be faster: whoever waits receives, and waits again if there was nothing.
    """
    give_up = time.monotonic() + seconds
    transport = queues[0].transport
    while True:
        left = give_up - time.monotonic()
        wait_ms = max(int(left * 1000), 0)
        refs = [await queue.refs() for queue in queues]
        looks = [
            queue.tend_call(ref, wait_ms)
            for queue, each in zip(queues, refs, strict=True)
            for ref in each
        ]
        answers = await transport.run_many(looks)
        if any(ready for ready, _ in answers):
            return True
        # What falls due next was perhaps ours to watch: when we give up, another waiter must look.
        wakes = [calls.wake(each[0]) for each in refs]
        due = [ms / 1000 + 0.001 for _, ms in answers if ms >= 0]
        if left <= 0:
            if due:
                await transport.run_many(wakes)
            return False
        pause = min([left, *(look_again(each) for each in refs), *due])
        try:
            await transport.wait_for_any(
                [each[0].below("wake") for each in refs], max(pause, 0.001)
            )
        except cancelled:
            await last_words(transport.run_many(wakes))
            raise
