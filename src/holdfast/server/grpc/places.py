"""What both services offer: settling and looking, at a queue or at a seat."""

from __future__ import annotations

from holdfast.server.broker import Action
from holdfast.server.grpc import values
from holdfast.server.grpc.call import Call, Desk, settling, unary
from holdfast.v1 import broker_pb2 as pb

_ACTIONS: dict[int, Action] = {
    pb.NackRequest.ACTION_UNSPECIFIED: "retry",
    pb.NackRequest.ACTION_RETRY: "retry",
    pb.NackRequest.ACTION_RELEASE: "release",
    pb.NackRequest.ACTION_BURY: "bury",
}


class Places:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @settling
    async def Ack(self, request: pb.AckRequest, call: Call) -> pb.SettleResponse:
        place = values.place(request)
        done = await call.session.ack(place, request.receipts)
        self.desk.windows.settled(place, done)
        return pb.SettleResponse(receipts=done)

    @settling
    async def Nack(self, request: pb.NackRequest, call: Call) -> pb.SettleResponse:
        place = values.place(request)
        done = await call.session.nack(
            place,
            request.receipts,
            # An action that a newer client knows and we do not is refused by name, not guessed at.
            action=_ACTIONS.get(request.action, str(request.action)),  # type: ignore[arg-type]
            delay=request.delay_ms / 1000,
            text=request.text,
        )
        self.desk.windows.settled(place, done)
        return pb.SettleResponse(receipts=done)

    @settling
    async def Extend(self, request: pb.ExtendRequest, call: Call) -> pb.SettleResponse:
        place, lease = values.place(request), values.seconds(request, "lease_ms")
        done = await call.session.extend(place, request.receipts, lease)
        if lease == 0:
            self.desk.windows.settled(place, done)
        else:
            self.desk.windows.extended(place, done, lease or 0.0)
        return pb.SettleResponse(receipts=done)

    @unary
    async def Inspect(self, request: pb.InspectRequest, call: Call) -> pb.InspectResponse:
        found = await call.session.inspect(
            values.place(request),
            values.state(request.state),
            request.start,
            request.count if request.HasField("count") else 10,
            group=request.group if request.HasField("group") else None,
        )
        return pb.InspectResponse(messages=map(values.stored, found))

    @unary
    async def Get(self, request: pb.GetRequest, call: Call) -> pb.GetResponse:
        found = await call.session.get(values.place(request), request.id)
        return pb.GetResponse(message=values.stored(found) if found else None)

    @unary
    async def Stats(self, request: pb.StatsRequest, call: Call) -> pb.StatsResponse:
        return values.stats(await call.session.stats(values.place(request)))

    @unary
    async def Settings(self, request: pb.SettingsRequest, call: Call) -> pb.SettingsResponse:
        return values.settings(await call.session.settings(values.place(request)))

    @unary
    async def Configure(self, request: pb.ConfigureRequest, call: Call) -> pb.SettingsResponse:
        changes = values.changes(request.changes)
        return values.settings(await call.session.configure(values.place(request), **changes))

    @unary
    async def Redrive(self, request: pb.RedriveRequest, call: Call) -> pb.RedriveResponse:
        moved = await call.session.redrive(
            values.place(request),
            request.count if request.HasField("count") else None,
            ids=list(request.ids) or None,
            rate=request.per_second if request.HasField("per_second") else None,
            dry_run=request.dry_run,
        )
        return pb.RedriveResponse(ids=moved)
