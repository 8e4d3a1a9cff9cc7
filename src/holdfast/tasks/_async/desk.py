"""Where an app's tasks are handed in and asked about: all of its dealings with the server but the worker's.

Each operation is one or two calls; the rules are in the engine and in the pure modules beside this one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.client._async.client import AsyncClient
from holdfast.client._async.queue import AsyncQueue
from holdfast.engine import calls, keys
from holdfast.engine import tasks as engine
from holdfast.engine.calls import Packed
from holdfast.errors import InvalidArgument
from holdfast.message import Message, MessageId, Outgoing, parse_id
from holdfast.tasks.body import (
    All,
    Body,
    Flow,
    Gate,
    Item,
    Step,
    decode_items,
    encode,
    encode_items,
)
from holdfast.tasks.middleware import Sending, Stack
from holdfast.tasks.results import Kept
from holdfast.tasks.results import encode as encode_kept

# A gate outlives its flow by this much, seconds: parts may have to be redriven from the dead letters.
_KEEP_GATE = 7 * 24 * 3600
# A step that is sent again by another worker is known as the same for so long.
_KNOW_STEP = 24 * 3600
# How long a flow is known to be under way, seconds: longer than any should take.
_KNOW_FLOW = 90 * 24 * 3600
# How long a running task is told that it is cancelled.
_MARK = 24 * 3600
_LOOK_AGAIN = 10.0


class AsyncDesk:
    def __init__(self, client: AsyncClient, stack: Stack | None = None) -> None:
        self.client = client
        self._stack = stack or Stack()
        self._queues: dict[str, AsyncQueue] = {}

    def queue(self, name: str) -> AsyncQueue:
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = self.client.queue(name)
        return found

    async def close(self) -> None:
        await self.client.close()

    # ---- handing in -----------------------------------------------------------------------

    async def send(self, queue: str, body: bytes) -> MessageId:
        """A task about which nothing else is said."""
        return await (self._queues.get(queue) or self.queue(queue)).send(body)

    async def send_bodies(self, queue: str, bodies: Sequence[bytes]) -> list[MessageId]:
        return await self.queue(queue).send_many(bodies)

    async def send_packed(self, queue: str, messages: Sequence[Packed]) -> list[MessageId]:
        return await self.queue(queue).send_packed(messages)

    # ---- flows ----------------------------------------------------------------------------

    async def begin(self, flow: Flow, items: Sequence[Item]) -> None:
        """Remember that there is such a flow, then start it."""
        key = keys.FlowRef(flow.id).below("flow")
        await self.client.transport.command("SET", key, now_ms(), "EX", _KNOW_FLOW, key=key)
        await self.follow(flow, items, None)

    async def under_way(self, flow_id: str) -> bool:
        """It has begun, and not ended."""
        key = keys.FlowRef(flow_id).below("flow")
        return bool(await self.client.transport.command("EXISTS", key, key=key))

    async def follow(self, flow: Flow, items: Sequence[Item], value: bytes | None) -> None:
        """What comes next in a flow, after `value` (JSON) was returned; None: it begins.

        Idempotent: whoever does it again sends nothing twice.
        """
        out: dict[str, list[Packed]] = {}
        await self._advance(flow, list(items), value, out)
        for queue, messages in out.items():
            await self.queue(queue).send_packed(messages)

    async def _advance(
        self, flow: Flow, items: list[Item], value: bytes | None, out: dict[str, list[Packed]]
    ) -> None:
        while items:
            head, *rest = items
            if isinstance(head, Step):
                attributes: dict[str, str] = {}
                self._stack.tell("sending", Sending(head.task, head.queue, attributes))
                step = _packed(flow, head, rest, value, attributes)
                out.setdefault(head.queue, []).append(step)
                return
            ref = keys.FlowRef(flow.id)
            if isinstance(head, All):
                opened = engine.open_join(
                    ref, head.gate, len(head.parts), encode_items(rest), _KEEP_GATE
                )
                await self.client.transport.run(opened)
                for i, part in enumerate(head.parts):
                    await self._advance(flow, [*part, Gate(head.gate, i)], value, out)
                if head.parts:
                    return
                value, items = b"[]", rest
            else:
                joined = await self.client.transport.run(
                    engine.join(ref, head.gate, head.index, value or b"null", _KEEP_GATE)
                )
                if joined.missing:
                    return
                value, items = b"[" + b",".join(joined.results) + b"]", decode_items(joined.rest)
        await self.end(flow, Kept("succeeded", msgspec.Raw(value or b"null"), at=now_ms()))

    async def end(self, flow: Flow, kept: Kept) -> None:
        """The flow has come to its end, good or bad."""
        if flow.ttl_ms:
            await self.keep(flow.home, flow.id, kept, flow.ttl_ms)
        # Last: whoever does the step again, after a crash, comes here again.
        key = keys.FlowRef(flow.id).below("flow")
        await self.client.transport.command("DEL", key, key=key)

    # ---- asking ---------------------------------------------------------------------------

    async def keep(self, queue: str, tail: str, kept: Kept, ttl_ms: int) -> None:
        ref = await self.queue(queue).shard_of(tail)
        await self.client.transport.run(engine.keep(ref, tail, encode_kept(kept), ttl_ms / 1000))

    async def kept(self, queue: str, tail: str) -> bytes | None:
        """A result, if it is there."""
        key = keys.result_key(await self.queue(queue).shard_of(tail), tail)
        found: Any = await self.client.transport.command("LINDEX", key, 0, key=key)
        return None if found is None else bytes(found)

    async def wait(self, queue: str, tail: str, timeout: float | None) -> bytes | None:
        """A result, as soon as it is there; None if it is not in time."""
        key = keys.result_key(await self.queue(queue).shard_of(tail), tail)
        give_up = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_AGAIN if give_up is None else min(give_up - time.monotonic(), _LOOK_AGAIN)
            if left <= 0:
                return await self.kept(queue, tail)
            found = await self.client.transport.wait_in_list(key, left)
            if found is not None:
                return bytes(found)

    async def message(self, queue: str, task_id: str) -> Message | None:
        return await self.queue(queue).get(task_id)

    async def cancel(self, queue: str, task_id: str, ttl_ms: int) -> bool:
        """Queued: it is taken away. Running: it is told. False: it is neither."""
        place = self.queue(queue)
        packed, _ = parse_id(task_id)
        ref = await place.shard_of(task_id)
        # The mark first: whoever takes it from here on is told.
        await self.client.transport.run(engine.cancel(ref, packed, _MARK))
        for _ in range(2):
            found = await place.get(task_id)
            if found is None or found.state == "dead":
                return False
            if found.state in ("leased", "reserved"):
                return True
            if found.state == "delayed":
                removed = await place.remove(task_id)
            else:
                removed = await place.remove_ready(task_id)
            if removed:
                if ttl_ms:
                    await self.keep(queue, task_id, Kept("cancelled", at=now_ms()), ttl_ms)
                return True
            # It has moved meanwhile: into somebody's hands, most likely.
        return True


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _packed(
    flow: Flow, step: Step, rest: list[Item], value: bytes | None, attributes: dict[str, str]
) -> Packed:
    if step.into and value is None:
        raise InvalidArgument(f"{step.task!r} is the first step and has nothing to take")
    args = step.called_with(value) if value is not None else step.args
    body = encode(Body(step.task, args, step.key, flow, rest))
    delay = step.delay_ms / 1000 if step.delay_ms else None
    outgoing = Outgoing(
        body,
        delay=delay,
        priority=step.priority,
        attributes=attributes or None,
        group=step.group or None,
        dedup_id=step.key,
        dedup_window=_KNOW_STEP,
    )
    return calls.pack(outgoing)
