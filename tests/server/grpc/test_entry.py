"""Who gets in: tokens, certificates, and what needs neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from holdfast import AsyncClient
from holdfast.server import tokens
from holdfast.server.gate import Gate
from holdfast.v1 import broker_pb2 as pb
from tests.server.certificates import Authority
from tests.server.grpc.conftest import Opened, opened

SEAT = pb.Seat(topic="in.t", consumer="c")
MESSAGE = pb.OutgoingMessage(body=b"x")

# Method → a request on what the token may touch, and the right it takes.
QUEUE_CALLS: dict[str, tuple[Any, str]] = {
    "Send": (pb.SendRequest(queue="in.q", messages=[MESSAGE]), "send queue"),
    "Ensure": (pb.EnsureRequest(queue="in.q", unique="u", message=MESSAGE), "send queue"),
    "Receive": (pb.ReceiveRequest(queues=["in.q"]), "receive queue"),
    "ReceiveDead": (pb.ReceiveRequest(queues=["in.q"]), "receive queue"),
    "Recover": (pb.RecoverRequest(queue="in.q"), "recover queue"),
    "Ack": (pb.AckRequest(queue="in.q", receipts=["1-1"]), "ack queue"),
    "Nack": (pb.NackRequest(queue="in.q", receipts=["1-1"]), "nack queue"),
    "Extend": (pb.ExtendRequest(queue="in.q", receipts=["1-1"]), "extend queue"),
    "Inspect": (pb.InspectRequest(queue="in.q", state=pb.STATE_READY), "inspect queue"),
    "Get": (pb.GetRequest(queue="in.q", id="1-1"), "inspect queue"),
    "Stats": (pb.StatsRequest(queue="in.q"), "stats queue"),
    "Settings": (pb.SettingsRequest(queue="in.q"), "stats queue"),
    "Remove": (pb.RemoveRequest(queue="in.q", id="1-1"), "remove queue"),
    "Reschedule": (pb.RescheduleRequest(queue="in.q", id="1-1", delay_ms=1), "reschedule queue"),
    "Redrive": (pb.RedriveRequest(queue="in.q"), "redrive queue"),
    "Purge": (pb.PurgeRequest(queue="in.q"), "purge queue"),
    "Pause": (pb.PauseRequest(queue="in.q"), "pause queue"),
    "Resume": (pb.ResumeRequest(queue="in.q"), "pause queue"),
    "Configure": (pb.ConfigureRequest(queue="in.q"), "configure queue"),
    "Delete": (pb.DeleteRequest(queue="in.q"), "delete queue"),
}
TOPIC_CALLS: dict[str, tuple[Any, str]] = {
    "Subscribe": (pb.SubscribeRequest(topic="in.t", consumer="c"), "subscribe topic"),
    "Publish": (pb.PublishRequest(topic="in.t", payload=b"x"), "publish topic"),
    "Observe": (pb.ObserveRequest(consumer="c", topics=["in.t"]), "observe topic"),
    "Touch": (pb.TouchRequest(seat=SEAT), "observe topic"),
    "ReceiveDead": (pb.ReceiveDeadRequest(seat=SEAT), "observe topic"),
    "Ack": (pb.AckRequest(seat=SEAT, receipts=["1-1"]), "ack topic"),
    "Nack": (pb.NackRequest(seat=SEAT, receipts=["1-1"]), "nack topic"),
    "Extend": (pb.ExtendRequest(seat=SEAT, receipts=["1-1"]), "extend topic"),
    "Inspect": (pb.InspectRequest(seat=SEAT, state=pb.STATE_READY), "inspect topic"),
    "Get": (pb.GetRequest(seat=SEAT, id="1-1"), "inspect topic"),
    "Stats": (pb.StatsRequest(seat=SEAT), "stats topic"),
    "Settings": (pb.SettingsRequest(seat=SEAT), "stats topic"),
    "Redrive": (pb.RedriveRequest(seat=SEAT), "redrive topic"),
    "Configure": (pb.ConfigureRequest(seat=SEAT), "configure topic"),
    "Subscriptions": (pb.SubscriptionsRequest(topic="in.t"), "stats topic"),
    "TopicStats": (pb.TopicRequest(topic="in.t"), "stats topic"),
    "TopicSettings": (pb.TopicRequest(topic="in.t"), "stats topic"),
    "ConfigureTopic": (pb.ConfigureTopicRequest(topic="in.t"), "configure topic"),
    "Unsubscribe": (pb.UnsubscribeRequest(topic="in.t", consumer="d"), "unsubscribe topic"),
    "DeleteTopic": (pb.TopicRequest(topic="in.t"), "delete topic"),
}
# They name no queue or topic: anybody who is let in may ask, and sees what is theirs.
FREE: dict[str, dict[str, Any]] = {
    "Queues": {"ListQueues": pb.ListQueuesRequest()},
    "Broker": {
        "ListTopics": pb.ListTopicsRequest(),
        "ConsumerTopics": pb.ConsumerTopicsRequest(consumer="c"),
    },
}
STREAMS = {"SendStream", "ReceiveStream", "ObserveStream"}


def bearer(secret: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {secret}"),)


async def status(method: Any, request: Any, secret: str | None) -> grpc.StatusCode:
    try:
        await method(request, metadata=bearer(secret) if secret is not None else ())
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_every_method_is_in_the_matrix() -> None:
    for service, calls in (("Queues", QUEUE_CALLS), ("Broker", TOPIC_CALLS)):
        methods = {m.name for m in pb.DESCRIPTOR.services_by_name[service].methods}
        assert methods - STREAMS == set(calls) | set(FREE[service])


@pytest.mark.slow
async def test_each_method_with_no_token_a_wrong_one_another_prefix_another_verb_and_the_right_one(
    direct: AsyncClient,
) -> None:
    await direct.topic("in.t").subscribe("c")
    for stub, calls in (("queues", QUEUE_CALLS), ("broker", TOPIC_CALLS)):
        for method, (request, right) in calls.items():
            verb, kind = right.split()
            other = "stats" if verb != "stats" else "inspect"
            fitting, secret = tokens.new("fitting", [f"{right}:in.*"])
            elsewhere, misplaced = tokens.new("elsewhere", [f"{right}:out.*"])
            useless, weak = tokens.new("useless", [f"{other} {kind}:in.*"])
            gate = Gate([fitting, elsewhere, useless])
            async with opened(direct, gate=gate) as served:
                call = getattr(getattr(served, stub), method)
                code = grpc.StatusCode
                assert await status(call, request, None) is code.UNAUTHENTICATED, method
                assert await status(call, request, secret + "x") is code.UNAUTHENTICATED, method
                assert await status(call, request, misplaced) is code.PERMISSION_DENIED, method
                assert await status(call, request, weak) is code.PERMISSION_DENIED, method
                assert await status(call, request, secret) is code.OK, method


async def test_streams_ask_for_a_token_too(direct: AsyncClient, name: str) -> None:
    token, secret = tokens.new("t", [f"receive queue:{name}", f"send queue:{name}"])
    async with opened(direct, gate=Gate([token])) as served:
        wanted = pb.ReceiveStreamRequest(queues=[name])
        for metadata, code in (
            ((), grpc.StatusCode.UNAUTHENTICATED),
            (bearer("no"), grpc.StatusCode.UNAUTHENTICATED),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await served.queues.ReceiveStream(wanted, metadata=metadata).read()
            assert error.value.code() is code
        with pytest.raises(grpc.aio.AioRpcError) as error:
            foreign = pb.ReceiveStreamRequest(queues=["other"])
            await served.queues.ReceiveStream(foreign, metadata=bearer(secret)).read()
        assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await direct.queue(name).send(b"x")
        stream = served.queues.ReceiveStream(wanted, metadata=bearer(secret))
        assert [d.body for d in (await stream.read()).deliveries] == [b"x"]
        stream.cancel()


async def test_lists_show_only_what_the_token_may_touch(direct: AsyncClient, name: str) -> None:
    for end in (".mine", ".other"):
        await direct.queue(name + end).send(b"x")
        await direct.topic(name + end).subscribe(name)
    token, secret = tokens.new("t", [f"all *:{name}.mine"])
    async with opened(direct, gate=Gate([token])) as served:
        meta = bearer(secret)
        queues = await served.queues.ListQueues(pb.ListQueuesRequest(), metadata=meta)
        topics = await served.broker.ListTopics(pb.ListTopicsRequest(), metadata=meta)
        request = pb.ConsumerTopicsRequest(consumer=name)
        observed = await served.broker.ConsumerTopics(request, metadata=meta)
    assert list(queues.queues) == list(topics.topics) == list(observed.topics) == [name + ".mine"]


async def health(served: Opened, service: str = "") -> int:
    stub = health_pb2_grpc.HealthStub(served.channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    return int(answer.status)


async def test_health_needs_no_token_and_says_when_the_server_stops(direct: AsyncClient) -> None:
    token, _ = tokens.new("t", ["all *:*"])
    async with opened(direct, gate=Gate([token])) as served:
        for service in ("", "holdfast.v1.Broker", "holdfast.v1.Queues"):
            assert await health(served, service) == health_pb2.HealthCheckResponse.SERVING
        await served.door.quiet()
        assert await health(served) == health_pb2.HealthCheckResponse.NOT_SERVING


async def reflected(served: Opened) -> set[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    ask = stub.ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    )
    async for answer in ask:
        return {s.name for s in answer.list_services_response.service}
    return set()


async def test_reflection_is_there_if_asked_for_and_only_then(direct: AsyncClient) -> None:
    async with opened(direct, reflection=True) as served:
        assert {"holdfast.v1.Broker", "holdfast.v1.Queues"} <= await reflected(served)
    async with opened(direct) as served:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await reflected(served)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


# ---- TLS ----------------------------------------------------------------------------------------


def trusting(ca: Path, cert: Path | None = None, key: Path | None = None) -> Any:
    return grpc.ssl_channel_credentials(
        ca.read_bytes(), key.read_bytes() if key else None, cert.read_bytes() if cert else None
    )


async def reaches(served: Opened) -> bool:
    code = await status(served.queues.ListQueues, pb.ListQueuesRequest(), None)
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
    return code is grpc.StatusCode.OK


async def test_tls_with_the_right_ca_a_wrong_one_and_none(
    direct: AsyncClient, tmp_path: Path
) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    files = ours.issue().files()
    async with opened(direct, tls=files, credentials=trusting(ours.file)) as served:
        assert await reaches(served)
        async with grpc.aio.secure_channel(
            served.door.address, trusting(others.file)
        ) as distrusting:
            assert not await reaches(Opened(served.door, distrusting, served.meter))
        async with grpc.aio.insecure_channel(served.door.address) as plain:
            assert not await reaches(Opened(served.door, plain, served.meter))


async def test_an_expired_certificate_is_not_trusted(direct: AsyncClient, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    files = ours.issue(expired=True).files()
    async with opened(direct, tls=files, credentials=trusting(ours.file)) as served:
        assert not await reaches(served)


async def test_mutual_tls_lets_in_whom_a_token_names_by_certificate(
    direct: AsyncClient, tmp_path: Path, name: str
) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    files = ours.issue().files(client_ca=ours.file)
    token, secret = tokens.new("shop", [f"send queue:{name}"], certificate="shop.example")
    known = ours.issue("shop.example", name="shop.example")
    stranger = ours.issue("who.example", name="who.example")
    forged = others.issue("shop.example", name="shop.example")
    expired = ours.issue("shop.example", name="shop.example", expired=True)
    request = pb.SendRequest(queue=name, messages=[MESSAGE])
    code = grpc.StatusCode

    async def answer(pair: Any, secret: str | None = None) -> grpc.StatusCode:
        credentials = trusting(ours.file, *((pair.cert, pair.key) if pair else ()))
        async with grpc.aio.secure_channel(served.door.address, credentials) as channel:
            return await status(
                Opened(served.door, channel, served.meter).queues.Send, request, secret
            )

    async with opened(
        direct, gate=Gate([token]), tls=files, credentials=trusting(ours.file)
    ) as served:
        assert await answer(known) is code.OK
        assert await answer(stranger) is code.UNAUTHENTICATED
        assert await answer(stranger, secret) is code.OK
        assert await answer(known, "wrong") is code.UNAUTHENTICATED
        for unverified in (forged, expired, None):
            assert await answer(unverified) is code.UNAVAILABLE
