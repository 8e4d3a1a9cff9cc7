"""Service Queues of the contract: each method translates, calls the session, and translates back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.errors import InvalidArgument
from holdfast.server.grpc import values
from holdfast.server.grpc.call import Call, stream, two_way, unary
from holdfast.server.grpc.places import Places
from holdfast.server.grpc.streams import Stream
from holdfast.v1 import broker_pb2 as pb
from holdfast.v1.broker_pb2_grpc import QueuesServicer


def _count(request: pb.ReceiveRequest | pb.RecoverRequest) -> int:
    return request.count if request.HasField("count") else 1


def _answer(got: Sequence[AsyncDelivery]) -> pb.ReceiveResponse:
    return pb.ReceiveResponse(deliveries=map(values.delivery, got))


def _queues(named: Sequence[str]) -> list[str]:
    if not named:
        raise InvalidArgument("the request must name a queue, or several")
    return list(named)


async def _send(request: pb.SendRequest, call: Call) -> pb.SendResponse:
    bodies = values.only_bodies(request.messages)
    if bodies is not None:
        ids = await call.session.send_bodies(request.queue, bodies, name=values.name(request))
    else:
        messages = [values.outgoing(m) for m in request.messages]
        ids = await call.session.send(request.queue, messages, name=values.name(request))
    return pb.SendResponse(sent=values.sent(ids))


class Queues(Places, QueuesServicer):
    @unary
    async def Send(self, request: pb.SendRequest, call: Call) -> pb.SendResponse:
        return await _send(request, call)

    @two_way
    async def SendStream(  # type: ignore[override] # it writes through the context
        self, request: pb.SendRequest, call: Call
    ) -> pb.SendResponse:
        return await _send(request, call)

    @unary
    async def Ensure(self, request: pb.EnsureRequest, call: Call) -> pb.SendResponse:
        if request.message.HasField("dedup_id"):
            raise InvalidArgument("ensure goes by the unique name; a dedup_id has no place in it")
        message = values.outgoing(request.message)
        return pb.SendResponse(
            sent=values.sent([await call.session.ensure(request.queue, request.unique, message)])
        )

    @unary
    async def Receive(self, request: pb.ReceiveRequest, call: Call) -> pb.ReceiveResponse:
        return await _receive(request, call, dead=False)

    @unary
    async def ReceiveDead(self, request: pb.ReceiveRequest, call: Call) -> pb.ReceiveResponse:
        return await _receive(request, call, dead=True)

    @stream
    async def ReceiveStream(  # type: ignore[override] # it writes through the context
        self, request: pb.ReceiveStreamRequest, call: Call
    ) -> None:
        names, lease = _queues(request.queues), values.lease(request)
        flow = Stream(
            call, request.flow, place_of=lambda got: got.source, lease=lease, auto_ack=False
        )
        await flow.run(
            lambda count, wait: call.session.receive(names, count, wait=wait, lease=lease), _answer
        )

    @unary
    async def Recover(self, request: pb.RecoverRequest, call: Call) -> pb.ReceiveResponse:
        recover = call.session.recover(
            request.queue,
            _count(request),
            elapsed=request.elapsed_ms / 1000,
            lease=values.lease(request),
        )
        return _answer(await call.take(lambda _: recover, 0))

    @unary
    async def ListQueues(self, request: pb.ListQueuesRequest, call: Call) -> pb.ListQueuesResponse:
        return pb.ListQueuesResponse(queues=await call.session.queues())

    @unary
    async def Remove(self, request: pb.RemoveRequest, call: Call) -> pb.RemoveResponse:
        return pb.RemoveResponse(removed=await call.session.remove(request.queue, request.id))

    @unary
    async def Reschedule(self, request: pb.RescheduleRequest, call: Call) -> pb.RescheduleResponse:
        when = request.WhichOneof("when")
        done = await call.session.reschedule(
            request.queue,
            request.id,
            delay=request.delay_ms / 1000 if when == "delay_ms" else None,
            due=values.moment(request.due_at_ms, "due_at_ms") if when == "due_at_ms" else None,
        )
        return pb.RescheduleResponse(rescheduled=done)

    @unary
    async def Purge(self, request: pb.PurgeRequest, call: Call) -> pb.PurgeResponse:
        gone = await call.session.purge(request.queue, *map(values.state, request.states))
        return pb.PurgeResponse(purged=gone)

    @unary
    async def Pause(self, request: pb.PauseRequest, call: Call) -> pb.PauseResponse:
        pause = partial(call.session.pause, request.queue)
        match request.WhichOneof("until"):
            case "for_ms":
                await pause(request.for_ms / 1000)
            case "until_ms":
                await pause(values.moment(request.until_ms, "until_ms"))
            case _:
                await pause()
        return pb.PauseResponse()

    @unary
    async def Resume(self, request: pb.ResumeRequest, call: Call) -> pb.ResumeResponse:
        await call.session.resume(request.queue)
        return pb.ResumeResponse()

    @unary
    async def Delete(self, request: pb.DeleteRequest, call: Call) -> pb.DeleteResponse:
        await call.session.delete(request.queue)
        return pb.DeleteResponse()


async def _receive(request: pb.ReceiveRequest, call: Call, *, dead: bool) -> pb.ReceiveResponse:
    names, count = _queues(request.queues), _count(request)
    lease = values.lease(request)
    taking = call.session.receive_dead if dead else call.session.receive
    got = await call.take(
        lambda wait: taking(names, count, wait=wait, lease=lease), request.wait_ms
    )
    return _answer(got)
