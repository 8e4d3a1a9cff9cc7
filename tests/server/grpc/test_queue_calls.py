"""Every method of service Queues, through a real door."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from holdfast import AsyncClient
from holdfast.v1 import broker_pb2 as pb
from tests.server.grpc.conftest import Opened


def bodies(*texts: bytes) -> list[pb.OutgoingMessage]:
    return [pb.OutgoingMessage(body=text) for text in texts]


async def sent(served: Opened, name: str, *texts: bytes) -> list[str]:
    answer = await served.queues.Send(pb.SendRequest(queue=name, messages=bodies(*texts)))
    return [each.id for each in answer.sent]


async def received(served: Opened, name: str, count: int = 1, **more: int) -> list[pb.Delivery]:
    request = pb.ReceiveRequest(queues=[name], count=count, **more)
    return list((await served.queues.Receive(request)).deliveries)


async def stats(served: Opened, name: str) -> pb.StatsResponse:
    answer: pb.StatsResponse = await served.queues.Stats(pb.StatsRequest(queue=name))
    return answer


async def test_what_is_sent_is_received_once_and_gone_when_acked(served: Opened, name: str) -> None:
    ids = await sent(served, name, b"one", b"two")
    got = await received(served, name, 5)
    assert [d.id for d in got] == ids
    assert [d.body for d in got] == [b"one", b"two"]
    first = got[0]
    assert (first.source, first.receives, first.priority) == (name, 1, 0)
    assert abs(first.sent_at_ms - time.time() * 1000) < 60_000
    assert first.lease_until_ms - first.sent_at_ms >= 30_000
    assert await received(served, name, 5) == []
    receipts = [d.receipt for d in got]
    done = await served.queues.Ack(pb.AckRequest(queue=name, receipts=receipts))
    assert list(done.receipts) == receipts
    again = await served.queues.Ack(pb.AckRequest(queue=name, receipts=receipts))
    assert list(again.receipts) == []
    after = await stats(served, name)
    assert (after.ready, after.leased, after.sent, after.acked) == (0, 0, 2, 2)


async def test_everything_that_can_be_said_about_a_message_arrives(
    served: Opened, name: str
) -> None:
    message = pb.OutgoingMessage(
        body=b"\x00\xff",
        attributes={"kind": "x", "ü": "ß"},
        priority=7,
        group="g",
        ttl_ms=60_000,
        dedup_id="once",
    )
    answer = await served.queues.Send(pb.SendRequest(queue=name, messages=[message, message]))
    assert [s.duplicate for s in answer.sent] == [False, True]
    assert answer.sent[0].id == answer.sent[1].id
    [got] = await received(served, name, 5)
    assert (got.body, dict(got.attributes)) == (b"\x00\xff", {"kind": "x", "ü": "ß"})
    assert (got.priority, got.group) == (7, "g")
    assert got.expires_at_ms == got.sent_at_ms + 60_000
    assert not got.HasField("unique")
    assert not got.HasField("death")


async def test_a_message_can_be_delayed_and_moved(served: Opened, name: str) -> None:
    due = round(time.time() * 1000) + 3_600_000
    asked = [pb.OutgoingMessage(body=b"a", due_at_ms=due), pb.OutgoingMessage(delay_ms=3_600_000)]
    answer = await served.queues.Send(pb.SendRequest(queue=name, messages=asked))
    assert await received(served, name) == []
    seen = await served.queues.Inspect(pb.InspectRequest(queue=name, state=pb.STATE_DELAYED))
    assert seen.messages[0].due_at_ms == due
    moved = await served.queues.Reschedule(
        pb.RescheduleRequest(queue=name, id=answer.sent[0].id, delay_ms=0)
    )
    assert moved.rescheduled
    [got] = await received(served, name, 5)
    assert got.body == b"a"


async def test_a_stream_of_sends_is_answered_one_by_one_in_order(served: Opened, name: str) -> None:
    async def requests() -> AsyncIterator[pb.SendRequest]:
        for number in range(5):
            yield pb.SendRequest(queue=name, messages=bodies(b"%d" % number, b"and"))

    answers = [answer async for answer in served.queues.SendStream(requests())]
    ids = [each.id for answer in answers for each in answer.sent]
    got = await received(served, name, 20)
    assert [d.id for d in got] == ids
    assert [d.body for d in got][::2] == [b"0", b"1", b"2", b"3", b"4"]


async def test_ensure_sends_once_while_the_message_is_there(served: Opened, name: str) -> None:
    request = pb.EnsureRequest(queue=name, unique="nightly", message=bodies(b"x")[0])
    first, second = await served.queues.Ensure(request), await served.queues.Ensure(request)
    assert first.sent[0].id == second.sent[0].id
    assert (first.sent[0].duplicate, second.sent[0].duplicate) == (False, True)
    [got] = await received(served, name, 5)
    assert got.unique == "nightly"


async def test_several_queues_are_received_from_in_order_of_preference(
    served: Opened, name: str
) -> None:
    await sent(served, name + ".low", b"low")
    await sent(served, name + ".high", b"high")
    request = pb.ReceiveRequest(queues=[name + ".high", name + ".low"], count=5)
    got = (await served.queues.Receive(request)).deliveries
    assert [(d.source.rpartition(".")[2], d.body) for d in got] == [
        ("high", b"high"),
        ("low", b"low"),
    ]


async def test_the_three_ways_to_nack(served: Opened, name: str) -> None:
    action = pb.NackRequest.Action
    await sent(served, name, b"x")
    for kind, counts in ((action.ACTION_RETRY, 2), (action.ACTION_RELEASE, 2)):
        [got] = await received(served, name)
        done = await served.queues.Nack(
            pb.NackRequest(queue=name, receipts=[got.receipt], action=kind, text="why")
        )
        assert list(done.receipts) == [got.receipt]
        [got] = await received(served, name)
        assert got.receives == counts
        await served.queues.Nack(
            pb.NackRequest(queue=name, receipts=[got.receipt], action=action.ACTION_RELEASE)
        )
    [got] = await received(served, name)
    await served.queues.Nack(
        pb.NackRequest(
            queue=name, receipts=[got.receipt], action=action.ACTION_BURY, text="hopeless"
        )
    )
    dead = await served.queues.ReceiveDead(pb.ReceiveRequest(queues=[name]))
    assert dead.deliveries[0].death.reason == "hopeless"
    await served.queues.Ack(pb.AckRequest(queue=name, receipts=[dead.deliveries[0].receipt]))
    assert (await stats(served, name)).dead == 0


async def test_dead_letters_come_from_several_queues_the_first_named_first(
    served: Opened, name: str
) -> None:
    queues = [f"{name}.1", f"{name}.2", f"{name}.3"]
    for queue in queues[1:]:
        await sent(served, queue, queue.encode())
        [got] = await received(served, queue)
        await served.queues.Nack(
            pb.NackRequest(
                queue=queue, receipts=[got.receipt], action=pb.NackRequest.ACTION_BURY, text="no"
            )
        )
    dead = await served.queues.ReceiveDead(pb.ReceiveRequest(queues=queues, count=10))
    assert [d.source for d in dead.deliveries] == queues[1:]
    dead = await served.queues.ReceiveDead(pb.ReceiveRequest(queues=queues, wait_ms=200))
    assert list(dead.deliveries) == []


async def test_a_retry_may_be_delayed(served: Opened, name: str) -> None:
    await sent(served, name, b"x")
    [got] = await received(served, name)
    await served.queues.Nack(pb.NackRequest(queue=name, receipts=[got.receipt], delay_ms=60_000))
    assert await received(served, name) == []
    assert (await stats(served, name)).delayed == 1


async def test_extend_moves_the_end_of_the_lease(served: Opened, name: str) -> None:
    await sent(served, name, b"x")
    [got] = await received(served, name, lease_ms=1_000)
    done = await served.queues.Extend(
        pb.ExtendRequest(queue=name, receipts=[got.receipt], lease_ms=600_000)
    )
    assert list(done.receipts) == [got.receipt]
    seen = await served.queues.Inspect(pb.InspectRequest(queue=name, state=pb.STATE_LEASED))
    assert seen.messages[0].lease_until_ms > got.lease_until_ms + 500_000


async def test_a_lease_of_nothing_lasts_until_settled(served: Opened, name: str) -> None:
    await sent(served, name, b"x")
    [got] = await received(served, name, lease_ms=0)
    assert not got.HasField("lease_until_ms")


async def test_recover_takes_over_what_somebody_holds(served: Opened, name: str) -> None:
    await sent(served, name, b"x")
    [held] = await received(served, name)
    nobody = await served.queues.Recover(pb.RecoverRequest(queue=name, elapsed_ms=3_600_000))
    assert list(nobody.deliveries) == []
    taken = await served.queues.Recover(pb.RecoverRequest(queue=name, elapsed_ms=0, count=5))
    assert [d.receives for d in taken.deliveries] == [2]
    stale = await served.queues.Ack(pb.AckRequest(queue=name, receipts=[held.receipt]))
    assert list(stale.receipts) == []


async def test_messages_are_looked_at_got_and_removed(served: Opened, name: str) -> None:
    ids = await sent(served, name, b"a", b"b", b"c")
    seen = await served.queues.Inspect(
        pb.InspectRequest(queue=name, state=pb.STATE_READY, start=-2, count=1)
    )
    assert [m.id for m in seen.messages] == [ids[1]]
    found = await served.queues.Get(pb.GetRequest(queue=name, id=ids[2]))
    assert (found.message.body, found.message.state) == (b"c", pb.STATE_READY)
    gone = await served.queues.Remove(pb.RemoveRequest(queue=name, id=ids[2]))
    assert gone.removed
    assert not (await served.queues.Remove(pb.RemoveRequest(queue=name, id=ids[2]))).removed
    nothing = await served.queues.Get(pb.GetRequest(queue=name, id=ids[2]))
    assert not nothing.HasField("message")


async def test_dead_letters_are_redriven(served: Opened, name: str) -> None:
    ids = await sent(served, name, b"a", b"b", b"c")
    await served.queues.Nack(
        pb.NackRequest(
            queue=name,
            receipts=[d.receipt for d in await received(served, name, 3)],
            action=pb.NackRequest.ACTION_BURY,
        )
    )
    told = await served.queues.Redrive(pb.RedriveRequest(queue=name, dry_run=True))
    assert list(told.ids) == ids
    one = await served.queues.Redrive(pb.RedriveRequest(queue=name, ids=[ids[1]]))
    assert list(one.ids) == [ids[1]]
    rest = await served.queues.Redrive(pb.RedriveRequest(queue=name, count=1))
    assert list(rest.ids) == [ids[0]]
    assert (await stats(served, name)).dead == 1


async def test_purge_takes_away_the_states_it_is_told_to(served: Opened, name: str) -> None:
    await sent(served, name, b"a", b"b")
    await received(served, name)
    purged = await served.queues.Purge(pb.PurgeRequest(queue=name, states=[pb.STATE_READY]))
    assert purged.purged == 1
    assert (await stats(served, name)).leased == 1
    assert (await served.queues.Purge(pb.PurgeRequest(queue=name))).purged == 1


async def test_a_paused_queue_hands_nothing_out(served: Opened, name: str) -> None:
    await sent(served, name, b"a")
    for asked in (
        pb.PauseRequest(queue=name),
        pb.PauseRequest(queue=name, for_ms=60_000),
        pb.PauseRequest(queue=name, until_ms=round(time.time() * 1000) + 60_000),
    ):
        await served.queues.Pause(asked)
        assert await received(served, name) == []
        await served.queues.Resume(pb.ResumeRequest(queue=name))
    assert len(await received(served, name)) == 1


async def test_settings_are_changed_and_read(served: Opened, name: str) -> None:
    changes = pb.QueueSettings(lease_ms=5_500, max_receives=0, overflow="drop_oldest", journal=True)
    told = await served.queues.Configure(pb.ConfigureRequest(queue=name, changes=changes))
    read = await served.queues.Settings(pb.SettingsRequest(queue=name))
    assert told == read
    now = read.settings
    assert (now.lease_ms, now.max_receives, now.overflow) == (5_500, 0, "drop_oldest")
    assert now.journal
    assert now.dedup_window_ms == 300_000


async def test_queues_are_listed_and_deleted(
    served: Opened, name: str, direct: AsyncClient
) -> None:
    await sent(served, name, b"a")
    listed = await served.queues.ListQueues(pb.ListQueuesRequest())
    assert name in listed.queues
    await served.queues.Delete(pb.DeleteRequest(queue=name))
    assert name not in (await served.queues.ListQueues(pb.ListQueuesRequest())).queues
    assert name not in await direct.queues()
