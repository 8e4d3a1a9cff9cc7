"""A queue behind a Holdfast server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from holdfast.client import remote_values
from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client._async.queue import AsyncQueue
from holdfast.client._async.remote_place import LONG, AsyncRemotePlace, deliveries, lease_ms
from holdfast.client.remote_values import Parcel
from holdfast.client.sender import CallName
from holdfast.engine import calls
from holdfast.engine.calls import Packed
from holdfast.errors import HoldfastError
from holdfast.message import MessageId, Outgoing, State
from holdfast.settings import AS_SET, Lease, Seconds, milliseconds, whole
from holdfast.v1 import broker_pb2 as pb

if TYPE_CHECKING:
    from holdfast.client._async.remote import AsyncRemoteClient


class AsyncRemoteQueue(AsyncRemotePlace, AsyncQueue):
    """Obtained from a client: `hf.queue("orders")`."""

    _client: AsyncRemoteClient

    @property
    def _stub(self) -> Any:
        return self._remote.queues

    @property
    def _where(self) -> dict[str, Any]:
        return {"queue": self.name}

    # ---- sending --------------------------------------------------------------------------

    def _pack(self, message: Any, unique: str | None = None) -> Parcel:
        return Parcel(message, self.codec, unique)

    def _pack_plain(self, body: bytes) -> Parcel:
        return self._pack(body)

    async def send_many(
        self, messages: Iterable[Any], *, name: CallName | None = None
    ) -> list[MessageId]:
        """Store many messages in one round trip; bodies, or `Outgoing` for those with more to say."""
        parcels = [self._pack(m) for m in messages]
        return await self.send_packed(parcels) if parcels else []

    async def _ensure(self, unique: str, message: Packed) -> MessageId:
        proto = cast("Parcel", message).proto
        request = pb.EnsureRequest(queue=self.name, unique=unique, message=proto)
        answer = await self._remote.call(self._stub.Ensure, request, repeatable=False)
        return remote_values.message_id(answer.sent[0])

    async def _send_each(self, messages: Sequence[Packed]) -> Sequence[MessageId | HoldfastError]:
        return await self.send_packed(messages)

    async def send_packed(
        self, messages: Sequence[Packed], name: CallName | None = None
    ) -> list[MessageId]:
        parcels = cast("Sequence[Parcel]", messages)
        request = pb.SendRequest(queue=self.name, messages=[p.proto for p in parcels])
        answer = await self._client.send_named(self._stub.Send, request)
        return [remote_values.message_id(sent) for sent in answer.sent]

    # ---- taking ---------------------------------------------------------------------------

    async def _ask(self, count: int, wait_ms: int, lease: Lease, dead: bool) -> list[AsyncDelivery]:
        request = pb.ReceiveRequest(
            queues=[self.name], count=count, wait_ms=wait_ms, lease_ms=lease_ms(lease)
        )
        method = self._stub.ReceiveDead if dead else self._stub.Receive
        answer = await self._remote.call(method, request, longer=wait_ms / 1000)
        return deliveries(lambda _: self, answer.deliveries)

    async def recover(
        self, count: int, *, elapsed: Seconds, lease: Lease = AS_SET
    ) -> list[AsyncDelivery]:
        """Take over up to `count` deliveries that have been in hand for `elapsed` or longer."""
        request = pb.RecoverRequest(
            queue=self.name,
            count=whole(count, "count", 1, calls.MAX_COUNT),
            elapsed_ms=milliseconds(elapsed, "elapsed"),
            lease_ms=lease_ms(lease),
        )
        answer = await self._remote.call(self._stub.Recover, request, repeatable=False)
        return deliveries(lambda _: self, answer.deliveries)

    # ---- one message ----------------------------------------------------------------------

    async def remove(self, message_id: str) -> bool:
        """Take the message away, in whatever state it is. False: it was not there."""
        request = pb.RemoveRequest(queue=self.name, id=message_id)
        answer = await self._remote.call(self._stub.Remove, request, repeatable=False, longer=LONG)
        return bool(answer.removed)

    async def reschedule(
        self, message_id: str, *, delay: Seconds | None = None, due: datetime | None = None
    ) -> bool:
        """Change when a delayed message falls due. False: it is not delayed (any more)."""
        when = remote_values.when(calls.pack(Outgoing(b"", delay, due)))
        request = pb.RescheduleRequest(queue=self.name, id=message_id, **when)
        return bool((await self._remote.call(self._stub.Reschedule, request)).rescheduled)

    # ---- keeping house --------------------------------------------------------------------

    async def purge(self, *states: State) -> int:
        """Take away all messages of these states; of all states if none is named. Returns how many."""
        chosen = [remote_values.STATES[calls.state(state)] for state in states]
        request = pb.PurgeRequest(queue=self.name, states=chosen)
        answer = await self._remote.call(self._stub.Purge, request, repeatable=False, longer=LONG)
        return int(answer.purged)

    async def pause(self, until: datetime | Seconds | None = None) -> None:
        """Hand nothing out, until a time, for so many seconds, or until `resume`."""
        request = pb.PauseRequest(queue=self.name)
        if isinstance(until, datetime):
            request.until_ms = int(calls.pack(Outgoing(b"", due=until)).when[1:])
        elif until is not None:
            request.for_ms = milliseconds(until, "until")
        await self._remote.call(self._stub.Pause, request)

    async def resume(self) -> None:
        """Hand messages out again."""
        await self._remote.call(self._stub.Resume, pb.ResumeRequest(queue=self.name))

    async def delete(self) -> None:
        """The queue and all its messages go, whatever their state."""
        request = pb.DeleteRequest(queue=self.name)
        await self._remote.call(self._stub.Delete, request, longer=LONG)
