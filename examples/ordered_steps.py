"""Order per customer, concurrency between customers: groups, with three consumers at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import holdfast

CUSTOMERS, STEPS = 5, 20


async def consumer(url: str, seen: dict[str, list[int]]) -> None:
    async with (
        holdfast.connect_async(url) as hf,
        hf.queue("example-steps").consume(idle=0.5) as deliveries,
    ):
        async for delivery in deliveries:
            async with delivery:
                assert delivery.group is not None
                seen[delivery.group].append(delivery.json()["step"])


async def main() -> None:
    async with holdfast.connect_async() as hf:
        q = hf.queue("example-steps")
        for step in range(STEPS):
            await q.send_many(
                holdfast.Outgoing({"step": step}, group=f"customer-{c}") for c in range(CUSTOMERS)
            )
        seen: dict[str, list[int]] = defaultdict(list)
        await asyncio.gather(*(consumer(hf.url, seen) for _ in range(3)))
    in_order = all(steps == list(range(STEPS)) for steps in seen.values())
    print(f"{len(seen)} customers, {sum(map(len, seen.values()))} steps, in order: {in_order}")


if __name__ == "__main__":
    asyncio.run(main())
