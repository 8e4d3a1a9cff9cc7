"""Random histories of a queue whose number of shards changes in mid-life, under clients that have not all
heard of it: what was sent is received once, wherever it went, by somebody who knows nothing."""

from __future__ import annotations

import random
from contextlib import ExitStack

import pytest

import holdfast
from holdfast import Client, InvalidArgument, Outgoing, Queue
from holdfast.engine import calls
from holdfast.engine.keys import QueueRef

pytestmark = pytest.mark.only(
    "standalone-shards", "cluster-shards", reason="about queues of several shards"
)

STEPS = 120


class History:
    def __init__(self, chance: random.Random, queues: list[Queue]) -> None:
        self._chance = chance
        self._queues = queues
        self.sent: set[bytes] = set()
        self.got: list[bytes] = []
        self.shrunk = 0

    def step(self) -> None:
        self._chance.choices(
            [self.send, self.send_many, self.take, self.reshard, self.die_half_way],
            weights=[30, 10, 30, 12, 3],
        )[0](self._chance.choice(self._queues))

    def _body(self) -> bytes:
        body = b"%d" % len(self.sent)
        self.sent.add(body)
        return body

    def send(self, q: Queue) -> None:
        body = self._body()
        q.send(body, group=self._chance.choice([None, "g", "h"]))

    def send_many(self, q: Queue) -> None:
        said = [Outgoing(self._body(), group=g) for g in ("a", "b", "c", None)]
        q.send_many(said)

    def take(self, q: Queue) -> None:
        got = q.receive_many(self._chance.randint(1, 12))
        self.got += [d.body for d in got]
        assert q.ack_many(got) == got

    def reshard(self, q: Queue) -> None:
        n = self._chance.randint(1, 5)
        try:
            q.configure(shards=n)
        except InvalidArgument:
            return
        self.shrunk += 1

    def die_half_way(self, q: Queue) -> None:
        """As reshard does, up to some point."""
        have = q.settings().shards
        n = self._chance.randint(1, have)
        begun = q.transport.run(calls.configure(QueueRef(q.name), {"edition": 0})).own
        closing = [QueueRef(q.name, shard) for shard in range(n, have)]
        for ref in closing[: self._chance.randint(0, len(closing))]:
            q.transport.run(calls.configure(ref, begun | {"shards": n}))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_is_sent_is_received_once_however_many_shards_there_are(
    hf: Client, q: Queue, seed: int
) -> None:
    with ExitStack() as stack:
        others = [
            stack.enter_context(holdfast.connect(hf.url, check="off")).queue(q.name)
            for _ in range(3)
        ]
        history = History(random.Random(seed), [q, *others])
        for _ in range(STEPS):
            history.step()
        fresh = stack.enter_context(holdfast.connect(hf.url, check="off")).queue(q.name)
        while got := fresh.receive_many(100):
            history.got += [d.body for d in got]
            fresh.ack_many(got)
        assert fresh.stats().total == 0
    assert history.shrunk > 2
    assert len(history.got) == len(set(history.got)), "some were received twice"
    assert set(history.got) == history.sent, "some are stranded"
