"""How errors look on the wire, and that a client gets the same class back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]
from grpc_status import rpc_status

from holdfast import AsyncClient, errors
from holdfast.client import remote_errors
from holdfast.errors import HoldfastError, TryAgain
from holdfast.server.broker import Session
from holdfast.server.limits import Limits
from holdfast.v1 import broker_pb2 as pb
from tests.server.grpc.conftest import Opened, opened


def every_class(root: type[HoldfastError] = HoldfastError) -> Iterator[type[HoldfastError]]:
    yield root
    for cls in root.__subclasses__():
        yield from every_class(cls)


def info_of(error: Any) -> Any:
    status: Any = rpc_status.from_call(error)
    assert status is not None
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


CLASSES = sorted(every_class(), key=lambda c: c.code)


@pytest.mark.parametrize("cls", CLASSES, ids=[c.code for c in CLASSES])
async def test_each_class_of_error_has_its_status_and_comes_back_as_itself(
    cls: type[HoldfastError], served: Opened, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise cls("what, which, why: ü")

    monkeypatch.setattr(Session, "stats", fail)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.queues.Stats(pb.StatsRequest(queue=name))
    error = caught.value
    assert error.code() is grpc.StatusCode[cls.grpc_status]
    assert error.details() == "what, which, why: ü"
    info = info_of(error)
    assert (info.domain, info.reason) == ("holdfast", cls.code)
    assert info.metadata["retryable"] == str(issubclass(cls, TryAgain)).lower()
    rebuilt = remote_errors.told(error)
    assert type(rebuilt) is cls
    assert str(rebuilt) == "what, which, why: ü"


def test_each_class_of_error_is_on_the_page_about_grpc() -> None:
    page = (Path(__file__).parents[3] / "docs/grpc.md").read_text("utf-8")
    branches = {errors.TryAgain, errors.FixTheCall, errors.AcceptTheState, HoldfastError}
    for cls in set(every_class()) - branches:
        retryable = "yes" if issubclass(cls, TryAgain) else "no"
        assert f"| `{cls.code}` | {cls.grpc_status} | {retryable} |" in page


async def test_what_nobody_foresaw_is_logged_and_told_without_its_text(
    served: Opened, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("/etc/secret is missing")

    monkeypatch.setattr(Session, "stats", fail)
    with caplog.at_level(logging.ERROR), pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.queues.Stats(pb.StatsRequest(queue=name))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value)
    assert "/etc/secret is missing" in caplog.text


async def test_an_endless_text_does_not_break_the_answer(
    served: Opened, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise errors.InvalidArgument("x" * 1_000_000)

    monkeypatch.setattr(Session, "stats", fail)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.queues.Stats(pb.StatsRequest(queue=name))
    assert info_of(caught.value).reason == "INVALID"


BAD = [
    ("Send", pb.SendRequest(queue="", messages=[pb.OutgoingMessage()])),
    ("Send", pb.SendRequest(queue="q", messages=[pb.OutgoingMessage(priority=10)])),
    ("Send", pb.SendRequest(queue="q", messages=[pb.OutgoingMessage(delay_ms=-1)])),
    ("Send", pb.SendRequest(queue="q", messages=[pb.OutgoingMessage(due_at_ms=2**62)])),
    ("Send", pb.SendRequest(queue="q", messages=[pb.OutgoingMessage(ttl_ms=0)])),
    ("Ensure", pb.EnsureRequest(queue="q", unique="")),
    ("Ensure", pb.EnsureRequest(queue="q", message=pb.OutgoingMessage(dedup_id="d"))),
    ("Receive", pb.ReceiveRequest()),
    ("Receive", pb.ReceiveRequest(queues=["q"], count=0)),
    ("Receive", pb.ReceiveRequest(queues=["q"], wait_ms=-5)),
    ("Receive", pb.ReceiveRequest(queues=["q"], lease_ms=-5)),
    ("ReceiveDead", pb.ReceiveRequest()),
    ("ReceiveDead", pb.ReceiveRequest(queues=["q"], count=0)),
    ("Recover", pb.RecoverRequest(queue="q", elapsed_ms=-1)),
    ("Ack", pb.AckRequest(receipts=["1-1"])),
    ("Ack", pb.AckRequest(queue="q", receipts=["no receipt"])),
    ("Nack", pb.NackRequest(queue="q", receipts=["1-1"], delay_ms=-1)),
    ("Nack", pb.NackRequest(queue="q", receipts=["1-1"], action=77)),  # type: ignore[arg-type]
    ("Extend", pb.ExtendRequest(queue="q", receipts=["1-1"], lease_ms=-1)),
    ("Inspect", pb.InspectRequest(queue="q")),
    ("Inspect", pb.InspectRequest(queue="q", state=pb.STATE_DEAD, start=-(2**62))),
    ("Get", pb.GetRequest(queue="q", id="x")),
    ("Pause", pb.PauseRequest(queue="q", until_ms=-7)),
    ("Reschedule", pb.RescheduleRequest(queue="q", id="1-1", due_at_ms=-7)),
    ("Purge", pb.PurgeRequest(queue="q", states=[99])),  # type: ignore[list-item]
    ("Redrive", pb.RedriveRequest(queue="q", count=0)),
    ("Redrive", pb.RedriveRequest(queue="q", per_second=-1)),
    ("Configure", pb.ConfigureRequest(queue="q", changes=pb.QueueSettings(overflow="x"))),
    ("Configure", pb.ConfigureRequest(queue="q", changes=pb.QueueSettings(group_limit=0))),
]


@pytest.mark.parametrize(
    ("method", "request_"), BAD, ids=[f"{m}-{i}" for i, (m, _) in enumerate(BAD)]
)
async def test_bad_input_is_answered_with_invalid_argument(
    method: str, request_: Any, served: Opened
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(served.queues, method)(request_)
    assert info_of(caught.value).reason == "INVALID", caught.value.details()


async def test_limits_have_their_typed_errors(direct: AsyncClient, name: str) -> None:
    limits = Limits(message_bytes=1_000, batch=5, request_bytes=20_000, in_flight_bytes=10_000)
    async with opened(direct, limits=limits) as served:
        for messages, code in (
            ([pb.OutgoingMessage(body=bytes(1_001))], "TOOLARGE"),
            ([pb.OutgoingMessage()] * 6, "TOOLARGE"),
            ([pb.OutgoingMessage(body=bytes(15_000))], "TOOMANY"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await served.queues.Send(pb.SendRequest(queue=name, messages=messages))
            assert remote_errors.told(caught.value).code == code  # type: ignore[union-attr]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.queues.Send(
                pb.SendRequest(queue=name, messages=[pb.OutgoingMessage(body=bytes(30_000))])
            )
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert served.meter.in_flight == 0
    assert (await direct.queue(name).stats()).sent == 0
