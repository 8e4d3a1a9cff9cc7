"""A program for a client of an earlier release: everything that it can do, and data of each kind left behind.

Run by test_earlier_releases.py with that release's sources on its path, so it uses nothing that came later.
"""

import asyncio
import json
import sys
from typing import Any

import holdfast

url, name, what = sys.argv[1:]
hf: Any = holdfast.connect(url, check="off")
version = tuple(int(n) for n in holdfast.__version__.split("."))


def bodies(found: Any) -> list[bytes]:
    return [bytes(m.body) for m in found]


def use_queue() -> None:
    q = hf.queue(name)
    assert q.configure(lease=60, max_receives=2, group_limit=1).lease == 60
    assert q.settings().max_receives == 2
    ids = [q.send(b"one"), *q.send_many([b"two", holdfast.Outgoing(b"three", priority=5)])]
    assert len(set(ids)) == 3
    assert bodies(q.inspect("ready")) == [b"three", b"one", b"two"]
    assert q.send(b"x", dedup_id="d") == q.send(b"x", dedup_id="d")
    assert not q.ensure("u", b"x").duplicate
    assert q.ensure("u", b"x").duplicate
    later = q.send(b"later", delay=3600, attributes={"a": "b"})
    assert q.get(later).attributes == {"a": "b"}
    assert q.reschedule(later, delay=1800)
    got = q.receive_many(5)
    assert bodies(got) == [b"three", b"one", b"two", b"x", b"x"]
    assert q.receive() is None
    stats = q.stats()
    assert (stats.leased, stats.delayed, stats.ready, stats.sent) == (5, 1, 0, 6), stats
    got[0].extend(120)
    got[0].ack()
    assert q.ack(got[1])
    assert not q.ack(got[1].receipt)
    got[2].nack(error="no")
    got[3].release()
    got[4].bury("bad")
    assert [m.death.reason for m in q.inspect("dead")] == ["bad"]
    assert len(q.receive_dead()) == 1
    q.recover(5, elapsed=0)
    assert len(q.receive_many(5)) == 2
    assert q.remove(later)
    assert q.purge() == 3
    for n in range(4):
        q.send(b"%d" % n, group="g" if n % 2 else None)
    seen = []
    for d in q.consume(prefetch=2, idle=0.2):
        with d:
            seen.append(bytes(d.body))
    assert sorted(seen) == [b"0", b"1", b"2", b"3"]
    q.send(b"soon", delay=0.2)
    assert q.receive(wait=10).body == b"soon"
    q.send(b"dead")
    q.receive().bury("x")
    assert len(q.redrive()) == 1
    q.pause()
    assert q.receive() is None
    q.resume()
    assert q.receive(wait=5).body == b"dead"
    q.purge()
    q.configure(shards=3)
    q.send_many([b"%d" % n for n in range(10)])
    got = []
    while more := q.receive_many(10):
        got += more
    assert len(q.ack_many(got)) == 10
    assert q.stats().total == 0
    assert name in hf.queues()
    q.tend()
    q.delete()
    assert name not in hf.queues()


def use_topic() -> None:
    topic = hf.topic(name)
    topic.publish(b"held")
    wants = holdfast.Filter.from_json('{"attribute": "a", "equals": "b"}')
    seats = [
        topic.subscribe("all", peer="p"),
        topic.subscribe("some", filter=wants),
        topic.subscribe("shared", peer="p", mode="shared"),
    ]
    topic.publish(b"plain")
    topic.publish(b"wanted", attributes={"a": "b"})
    found = [seat.observe(10, wait=5) for seat in seats]
    assert [bodies(each) for each in found] == [
        [b"held", b"plain", b"wanted"],
        [b"wanted"],
        [b"plain", b"wanted"],
    ], found
    for seat, got in zip(seats, found, strict=True):
        assert len(seat.ack_many(got)) == len(got)
    assert [i.consumer for i in topic.subscriptions()] == ["all", "shared", "some"]
    topic.publish(b"more")
    assert bodies(hf.consumer("all", peer="p").observe(10, wait=5)) == [b"more"]
    seats[0].touch()
    topic.configure(lease=7)
    assert topic.settings().lease == 7
    topic.tend()
    assert topic.unsubscribe("some")
    topic.delete()
    assert name not in hf.topics()


def use_reservations() -> None:
    q = hf.queue(f"{name}-r")
    q.send_many([b"1", b"2", b"3"])
    assert q.reserve("reader", 1, [2]) == [2]
    assert len(q.read_reserved("reader", 1, 0, 0, 2)) == 2
    assert q.stats().reserved == 2
    assert q.commit("reader", 1) == 2
    assert q.reserve("reader", 2, [2]) == [1]
    assert q.release_reserved("reader") == 1
    q.delete()


def use_tasks() -> None:
    from holdfast.worker.plan import Plan
    from holdfast.worker.shares import Share
    from holdfast.worker.worker import Worker

    app = holdfast.App(url, queue=f"{name}-t", check="off")

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(retries=0)
    def fails() -> None:
        raise ValueError("no")

    one, two = add.send(1, 2), fails.send()
    flow = app.start(holdfast.chain(add.job(1, 1), add.job(1)))
    asyncio.run(Worker(app, Plan([Share(f"{name}-t")], idle=0.3)).run())
    assert (one.result(), two.status(), flow.result(5)) == (3, "failed", 3)
    app.close()


def leave() -> None:
    """Data of each kind; what it says of them is read by today's client."""
    q = hf.queue(name)
    q.configure(lease=3600, max_receives=3)
    told = {"delayed": q.send(b"delayed", delay=3600)}
    q.send_many([b"leased 1", b"leased 2"])
    told["leased"] = [d.receipt for d in q.receive_many(2)]
    q.send(b"dead", attributes={"a": "b"})
    q.receive().bury("bad")
    q.ensure("unique", b"unique")
    q.send_many([holdfast.Outgoing(b"g%d" % n, group="g") for n in range(3)])
    q.send(b"high", priority=9)
    if version >= (0, 2, 0):
        hf.topic(f"{name}-held").publish(b"held")
        topic = hf.topic(name)
        topic.subscribe("c", peer="p")
        topic.subscribe("s", mode="shared")
        topic.publish_many([b"published %d" % n for n in range(3)])
    if version >= (0, 3, 0):
        r = hf.queue(f"{name}-r")
        r.send_many([b"1", b"2", b"3"])
        r.reserve("reader", 1, [2])
    print(json.dumps(told))


if what == "leave":
    leave()
else:
    use_queue()
    if version >= (0, 2, 0):
        use_topic()
    if version >= (0, 3, 0):
        use_reservations()
    if version >= (0, 4, 0):
        use_tasks()
hf.close()
