"""The asynchronous client: many senders at once, some of whom give up; and its consume loop."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import holdfast
from holdfast import HoldfastError
from tools.torture.crew import LEASE, Crew
from tools.torture.hands import Hands

SENDERS = 12


def sail(crew: Crew, who: str, place: str, queue: str) -> None:
    """Many senders in one event loop, whose messages travel together."""

    def work() -> None:
        asyncio.run(_sail(crew, who, place, queue))

    crew.produce(who, work)


async def _sail(crew: Crew, who: str, place: str, queue: str) -> None:
    def complain(loop: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        crew.strange(f"loop of {who}", told.get("exception") or RuntimeError(told.get("message")))

    asyncio.get_running_loop().set_exception_handler(complain)
    options = crew.options
    async with holdfast.connect_async(
        options.url,
        replicas=options.replicas,
        timeout=options.timeout,
        retry_for=options.retry_for,
        check="off",
    ) as hf:
        q = hf.queue(queue)
        await asyncio.gather(*(_send(crew, who, place, q, k) for k in range(SENDERS)))


async def _send(crew: Crew, who: str, place: str, q: holdfast.AsyncQueue, k: int) -> None:
    """One of many; every sixth is impatient."""
    impatient, rnd = k % 6 == 5, crew.chance(f"{who} {k}")
    for n in itertools.count():
        if crew.stop.is_set():
            return
        body = f"{who}-{k}-{n}"
        crew.history.note("offered", who=who, place=place, body=body)
        try:
            sent = q.send(body.encode())
            patience = rnd.uniform(0.001, 0.5) if impatient else None
            id = await asyncio.wait_for(sent, patience)
        except TimeoutError:
            pass
        except HoldfastError as error:
            crew.failed(who, error)
        except Exception as error:
            crew.strange(who, error)
        else:
            crew.history.note("stored", who=who, place=place, body=body, id=id)
            if not impatient:
                crew.stored(who)
        await asyncio.sleep(rnd.uniform(0.2, 0.6))


def consume(crew: Crew, who: str, place: str, queue: str) -> None:
    crew.take(who, lambda: asyncio.run(_consume(crew, who, place, queue)))


async def _consume(crew: Crew, who: str, place: str, queue: str) -> None:
    options, hands = crew.options, Hands(crew, who, place)
    async with holdfast.connect_async(options.url, replicas=options.replicas, check="off") as hf:
        q = hf.queue(queue)
        while not crew.done.is_set():
            try:
                async with q.consume(prefetch=30, lease=LEASE, idle=0.5) as loop:
                    async for d in loop:
                        async with d:
                            held = hands.hold(d)
                            hands.got(held)
                            hands.settling([held])
            except HoldfastError as error:
                crew.failed(who, error)
            except Exception as error:
                crew.strange(who, error)
            await asyncio.sleep(0.05)
