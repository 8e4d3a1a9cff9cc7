"""Who sends and who takes at which place. All of it runs at once; every body is sent by one producer only.

plain      send, send_many, dedup ids, priorities       receive, receive_many, consume, and one who dawdles
together   threads that share a queue; asyncio          consume of the asynchronous client, receive_many
later      delayed messages, ensure                     receive_many
ordered    groups                                       receive, receive_many, consume
spread     six shards: send, send_many                  receive_many, consume
taken      send_many                                    abandon and recover
reserved   send_many                                    reserve, read, commit
news       publish, publish_many                        two subscriptions: consume, observe
tasks      task.send, coroutines and functions          holdfast worker
resp       MQ.SEND, MQ.PUSH                             MQ.RECEIVE
grpc       send, send_many through the door             receive_many, consume
"""

from __future__ import annotations

import holdfast
from holdfast.engine.keys import QueueRef, TopicRef
from tools.torture import fleet, front, producers, takers
from tools.torture.crew import Crew
from tools.torture.producers import produce
from tools.torture.servers import Servers

Places = dict[str, holdfast.Queue | holdfast.Subscription]
GROUPS = ("red", "green", "blue")


class Workload:
    """`places`: as seen by a client that is there to look only. `keys`: where in the server they lie."""

    def __init__(self, crew: Crew, servers: Servers) -> None:
        self._crew = crew
        self._servers = servers
        self.admin = crew.connect()
        self.places: Places = {}
        self.keys: dict[str, str] = {}

    def _queue(self, place: str, **settings: int) -> str:
        """Its name; there is nothing in it yet."""
        name = self._servers.near(place)
        self.places[place] = self.admin.queue(name)
        self.keys[place] = QueueRef(name).key
        self.admin.queue(name).configure(lease=4, **settings)
        return name

    def _by(self, name: str) -> holdfast.Queue:
        return self._crew.connect().queue(name)

    def start(self) -> None:
        for part in (
            self.plain,
            self.together,
            self.later,
            self.ordered,
            self.spread,
            self.taken,
            self.reserved,
            self.news,
        ):
            part()

    def plain(self) -> None:
        crew, name = self._crew, self._queue("plain")
        produce(crew, "send", ["plain"], producers.singly(self._by(name)), pace=0.04)
        produce(crew, "send_many", ["plain"], producers.many(self._by(name)), batch=5)
        produce(crew, "dedup", ["plain"], producers.by_dedup_id(self._by(name)), insist=True)
        produce(
            crew,
            "priority",
            ["plain"],
            producers.by_priority(self._by(name), crew.chance("priority")),
        )
        takers.receive(crew, "receive", "plain", self._by(name))
        takers.receive(crew, "receive_many", "plain", self._by(name), count=20)
        takers.consume(crew, "consume", "plain", self._by(name))
        takers.dawdle(crew, "dawdle", "plain", self._by(name), crew.chance("dawdle"))

    def together(self) -> None:
        crew, name = self._crew, self._queue("together")
        shared = self._by(name)
        for n in range(3):
            produce(crew, f"shared/{n}", ["together"], producers.singly(shared))
        fleet.sail(crew, "async", "together", name)
        fleet.consume(crew, "async consume", "together", name)
        takers.receive(crew, "receive together", "together", self._by(name), count=20)

    def later(self) -> None:
        crew, name = self._crew, self._queue("later")
        produce(
            crew,
            "delayed",
            ["later"],
            producers.delayed(self._by(name), crew.chance("delayed")),
            batch=3,
        )
        produce(crew, "ensure", ["later"], producers.ensured(self._by(name)))
        takers.receive(crew, "receive later", "later", self._by(name), count=10)

    def ordered(self) -> None:
        crew, name = self._crew, self._queue("ordered")
        for n in range(2):
            groups = [f"{group}{n}" for group in GROUPS]
            send = producers.grouped(self._by(name), groups)
            produce(crew, f"group/{n}", ["ordered"], send, groups=groups)
        takers.receive(crew, "receive groups", "ordered", self._by(name))
        takers.receive(crew, "receive_many groups", "ordered", self._by(name), count=5)
        takers.consume(crew, "consume groups", "ordered", self._by(name))

    def spread(self) -> None:
        crew, name = self._crew, self._queue("spread", shards=6)
        self.keys["spread"] = QueueRef(name, 2).key
        produce(crew, "send shards", ["spread"], producers.singly(self._by(name)))
        produce(crew, "send_many shards", ["spread"], producers.many(self._by(name)), batch=5)
        takers.receive(crew, "receive shards", "spread", self._by(name), count=20)
        takers.consume(crew, "consume shards", "spread", self._by(name))

    def taken(self) -> None:
        crew, name = self._crew, self._queue("taken")
        produce(crew, "send taken", ["taken"], producers.many(self._by(name)), batch=2, pace=0.1)
        takers.abandon(crew, "abandon", "taken", self._by(name))
        takers.recover(crew, "recover", "taken", self._by(name))

    def reserved(self) -> None:
        crew, name = self._crew, self._queue("reserved")
        produce(crew, "send reserved", ["reserved"], producers.many(self._by(name)), batch=3)
        takers.read_reserved(crew, "reserve", "reserved", self._by(name))

    def news(self) -> None:
        crew, name = self._crew, self._servers.near("news", topic=True)
        topic = self.admin.topic(name)
        topic.configure(lease=4)
        self.keys["news"] = TopicRef(name).key
        seats = [f"news/{consumer}" for consumer in ("a", "b")]
        for seat, consumer in zip(seats, ("a", "b"), strict=True):
            self.places[seat] = topic.subscribe(consumer)
        produce(crew, "publish", seats, producers.published(crew.connect().topic(name)))
        many = producers.published_many(crew.connect().topic(name))
        produce(crew, "publish_many", seats, many, batch=3)
        takers.consume(crew, "consume news", seats[0], crew.connect().topic(name).subscription("a"))
        hf = crew.connect()
        takers.observe(crew, "observe", seats[1], hf, hf.topic(name).subscription("b"))

    def fronted(self, before: front.Front, tasks: str) -> None:
        """Through the doors, and by a worker."""
        crew = self._crew
        self.places["tasks"] = self.admin.queue(tasks)
        produce(crew, "task", ["tasks"], front.tasks(before, crew), pace=0.1)
        name = self._queue("resp")
        for n, way in enumerate(("send", "push")):
            client = front.Resp(before.resp_port, name)
            produce(crew, f"resp {way}", ["resp"], getattr(client, way), batch=1 + 2 * n, pace=0.1)
        front.take_by_resp(crew, "resp receive", "resp", front.Resp(before.resp_port, name))
        name = self._queue("grpc")
        produce(
            crew,
            "grpc send",
            ["grpc"],
            producers.singly(front.remote(before).queue(name)),
            pace=0.1,
        )
        many = producers.many(front.remote(before).queue(name))
        produce(crew, "grpc send_many", ["grpc"], many, batch=3, pace=0.1)
        takers.receive(crew, "grpc receive", "grpc", front.remote(before).queue(name), count=10)
        takers.consume(crew, "grpc consume", "grpc", front.remote(before).queue(name))
