"""The synchronous client between threads: what one of them changes while another looks at it.

Each test lets the other thread act in the very moment in which it used to do harm, and waits for it only
a moment: where it is kept out, it comes later.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar, cast

import pytest
from redis.crc import key_slot

import holdfast
from holdfast.client._sync.consumer import Consumer
from holdfast.client._sync.delivery import Delivery
from holdfast.client._sync.node import Node
from holdfast.client._sync.place import Place
from holdfast.client._sync.routes import Routes
from holdfast.client.address import parse
from holdfast.client.backoff import exponential
from tests.servers import wait_until

T = TypeVar("T")


def beside(act: Callable[[], object]) -> threading.Thread:
    """Another thread does it now; or soon, if it has to wait for us."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(0.2)
    return thread


# ---- a consumer ---------------------------------------------------------------------------


class Held:
    """A delivery, as far as a consumer is concerned. After `watch`, something happens once: when it is
    compared with others, or asked whether it is settled."""

    def __init__(self, number: int) -> None:
        self.id = str(number)
        self._settled = False
        self._watched: dict[str, Callable[[], object]] = {}
        self.acting: list[threading.Thread] = []

    def watch(self, moment: Literal["compared", "asked"], act: Callable[[], object]) -> None:
        self._watched[moment] = act

    def _look(self, moment: str) -> None:
        act = self._watched.pop(moment, None)
        if act is not None:
            self.acting.append(beside(act))

    @property
    def settled(self) -> bool:
        self._look("asked")
        return self._settled

    @settled.setter
    def settled(self, value: bool) -> None:
        self._settled = value

    def __eq__(self, other: object) -> bool:
        self._look("compared")
        return isinstance(other, Held) and self.id == other.id

    def __hash__(self) -> int:
        self._look("compared")
        return hash(self.id)


class Shelf:
    """The place that a consumer receives from: ten deliveries, once."""

    name = "shelf"

    def __init__(self) -> None:
        self.deliveries = [Held(n) for n in range(10)]
        self._left = list(self.deliveries)
        self.extended: list[list[Held]] = []
        self.acked: list[Held] = []
        self.released: list[Held] = []
        self.extending: Callable[[], object] = lambda: None

    def receive_many(self, count: int, **_: Any) -> list[Held]:
        got, self._left = self._left, []
        return got

    def ack_many(self, deliveries: Sequence[Held]) -> Sequence[Held]:
        self.acked += deliveries
        return deliveries

    def extend_many(self, deliveries: Sequence[Held], _: float) -> Sequence[Held]:
        self.extended.append(list(deliveries))
        self.extending()
        return deliveries

    def release_many(self, deliveries: Sequence[Held]) -> Sequence[Held]:
        self.released += deliveries
        return deliveries


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def consumer_of(shelf: Shelf, lease: float | None = None) -> Consumer:
    return Consumer(
        cast("Place", shelf),
        prefetch=10,
        lease=lease,
        backoff=exponential(),
        ack_every=100,
        idle=0.05,
    )


def taken(consumer: Consumer, count: int) -> tuple[Iterator[Delivery], list[Delivery]]:
    """An iteration that goes on, and what it gave first."""
    going_on = iter(consumer)
    return going_on, [next(going_on) for _ in range(count)]


def test_leases_are_extended_while_another_thread_acks(shelf: Shelf) -> None:
    consumer = consumer_of(shelf)
    _, got = taken(consumer, 4)
    for delivery in got[:3]:
        consumer.ack(delivery)
    watched = shelf.deliveries[0]
    watched.watch("compared", lambda: consumer.ack(got[3]))
    consumer._extend()
    for thread in watched.acting:
        thread.join()
    consumer.close()
    assert watched.acting
    assert {d.id for d in shelf.acked} == {"0", "1", "2", "3"}
    assert [d.id for d in shelf.released] == ["4", "5", "6", "7", "8", "9"]


def test_closing_while_another_thread_acks_releases_the_others(shelf: Shelf) -> None:
    consumer = consumer_of(shelf)
    _, got = taken(consumer, 2)
    consumer.ack(got[0])
    watched = shelf.deliveries[5]
    watched.watch("asked", lambda: consumer.ack(got[1]))
    consumer.close()
    for thread in watched.acting:
        thread.join()
    assert watched.acting
    assert {"5", "6", "7", "8", "9"} <= {d.id for d in shelf.released}
    assert {d.id for d in shelf.acked} == {"0", "1"}


@pytest.mark.parametrize("look", [1, 2])
def test_stop_from_another_thread_ends_the_iteration_whenever_it_comes(
    shelf: Shelf, look: int
) -> None:
    class Ready(deque[Delivery]):
        """Told to stop when somebody has just seen, for the first or second time, that there is one."""

        looks = 0

        def __bool__(self) -> bool:
            found = len(self) > 0
            self.looks += 1
            if self.looks == look:
                beside(consumer.stop)
            return found

    consumer = consumer_of(shelf)
    going_on, _ = taken(consumer, 2)
    consumer._ready = Ready(consumer._ready)
    assert len(list(going_on)) <= 2
    assert [d.id for d in shelf.released][-6:] == ["4", "5", "6", "7", "8", "9"]


def test_what_arrives_when_it_is_told_to_stop_goes_back_unseen(shelf: Shelf) -> None:
    consumer = consumer_of(shelf)
    receive = shelf.receive_many

    def and_stop(count: int, **how: Any) -> list[Held]:
        beside(consumer.stop).join()
        return receive(count, **how)

    shelf.receive_many = and_stop  # type: ignore[method-assign]
    assert list(consumer) == []
    assert len(shelf.released) == 10


def test_a_keeper_that_fails_says_so_and_goes_on(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_once() -> None:
        if len(shelf.extended) == 1:
            raise RuntimeError("deque mutated during iteration")

    shelf.extending = fail_once
    consumer = consumer_of(shelf, lease=0.06)
    with caplog.at_level(logging.ERROR, "holdfast"):
        going_on, _ = taken(consumer, 1)
        wait_until(lambda: len(shelf.extended) > 2, what="leases that are extended again")
        assert list(going_on)
    [said] = caplog.records
    assert (said.name, said.exc_info is not None) == ("holdfast", True)
    assert "keeping leases on 'shelf'" in said.getMessage()


# ---- a client -----------------------------------------------------------------------------


class Raided(list[T]):
    """Who sees that there is something finds nothing any more: another thread was faster."""

    def __len__(self) -> int:
        found = super().__len__()
        beside(self.clear)
        return found


@pytest.fixture
def hf(url: str) -> Iterator[holdfast.Client]:
    with holdfast.connect(url, check="off") as client:
        yield client


@pytest.fixture
def q(hf: holdfast.Client) -> holdfast.Queue:
    return hf.queue(f"q-{secrets.token_hex(4)}")


def test_a_connection_is_made_where_another_thread_took_the_last_idle_one(
    hf: holdfast.Client,
) -> None:
    hf.ping()
    [node] = hf.transport.routes._nodes.values()
    node._idle = Raided(node._idle)
    hf.ping()


def test_connections_are_closed_though_another_thread_takes_one(hf: holdfast.Client) -> None:
    hf.ping()
    [node] = hf.transport.routes._nodes.values()
    node._idle = Raided(node._idle)
    hf.close()


def test_a_send_has_a_name_where_another_thread_took_the_last_one(
    way: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("url" if way == "direct" else "door_url")
    with holdfast.connect(url) as hf:
        q = hf.queue(f"q-{secrets.token_hex(4)}")
        q.send(b"a")
        hf.senders = Raided(hf.senders)
        q.send(b"b")
        assert q.stats().ready == 2


def test_a_queue_that_another_thread_deletes_can_be_sent_to(q: holdfast.Queue) -> None:
    q.send(b"a")
    register = q._register

    def and_delete() -> None:
        q._register = register  # type: ignore[method-assign]
        beside(q.delete).join()
        register()

    q._register = and_delete  # type: ignore[method-assign]
    q.send_many([b"b", b"c"])
    assert q.stats().ready == 2


@pytest.mark.slow
def test_a_queue_that_another_thread_deletes_can_be_waited_for(
    hf: holdfast.Client, q: holdfast.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, run_after = q._take, q.transport.run_after

    def a_moment(marker: str, seconds: float, call: Any) -> Any:
        answer = run_after(marker, 0.001, call)
        monkeypatch.setattr(q, "_take", and_delete)
        return answer

    def and_delete(*what: Any, **how: Any) -> list[Delivery]:
        got = take(*what, **how)
        monkeypatch.undo()
        beside(q.delete).join()
        hf.queue(q.name).send(b"a")
        return got

    monkeypatch.setattr(q.transport, "run_after", a_moment)
    assert q.receive(wait=1) is not None


def test_shards_are_looked_at_while_another_thread_empties_them(q: holdfast.Queue) -> None:
    class Hints(list[int]):
        """Who has seen that there are some has another thread receive what they promise."""

        looks = 0

        def __len__(self) -> int:
            found = super().__len__()
            self.looks += 1
            if self.looks == 2:
                beside(lambda: got.extend(q.receive_many(10))).join()
            return found

    got: list[Delivery] = []
    q.configure(shards=2)
    q.send_many([b"a", b"b"])
    q._full, q._looked = Hints([0, 1]), time.monotonic() + 60
    got += q.receive_many(10)
    assert len(got) == 2


@pytest.mark.slow
def test_events_end_when_another_thread_closes_them(
    q: holdfast.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()
    ended: list[object] = []
    with q.events() as events:
        read = events._read

        def and_tell(*what: Any) -> None:
            waits.set()
            read(*what)

        monkeypatch.setattr(events, "_read", and_tell)
        waiter = threading.Thread(target=lambda: ended.append(events.get()))
        waiter.start()
        assert waits.wait(10)
        events.close()
        waiter.join(10)
        assert ended == [None]
        assert not events._connections


def test_a_reaper_that_fails_says_so_and_goes_on(
    hf: holdfast.Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []

    def queues() -> list[str]:
        looks.append(None)
        if len(looks) == 1:
            raise RuntimeError("a fault of ours")
        return []

    monkeypatch.setattr(hf, "queues", queues)
    with caplog.at_level(logging.ERROR, "holdfast"):
        hf.start_reaper(0.01)
        wait_until(lambda: len(looks) > 1, what="another round")
    [said] = caplog.records
    assert (said.name, said.exc_info is not None) == ("holdfast", True)


# ---- where to -----------------------------------------------------------------------------


def routes_to(url: str) -> Routes:
    return Routes(parse(url), timeout=1)


def test_a_call_goes_to_its_slot_though_another_thread_forgets_all_slots() -> None:
    routes = routes_to("redis://127.0.0.1:1,127.0.0.1:2")
    node = routes.node_at("127.0.0.1", 1)

    class Forgotten(dict[int, Node]):
        """Who sees that a slot is known finds all of them forgotten."""

        def __contains__(self, slot: object) -> bool:
            beside(routes.forget)
            return super().__contains__(slot)

    routes.slots = Forgotten({key_slot(b"q"): node})
    assert routes.node_for("q") is node


def test_a_call_goes_to_the_server_though_another_thread_forgets_which_it_is() -> None:
    class Forgetful(Routes):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_master" and value is not None:
                beside(self.forget)

    routes = Forgetful(parse("redis://127.0.0.1:1"), timeout=1)
    assert isinstance(routes.node_for("q"), Node)


def test_threads_that_find_a_server_at_once_share_its_connections() -> None:
    routes = routes_to("redis://127.0.0.1:1")
    found: list[Node] = []

    class Late(dict[tuple[str, int], Node]):
        """Who sees that there is no such node has another thread make it."""

        def get(self, place: Any, default: Any = None) -> Any:
            answer = super().get(place, default)
            if answer is None and threading.current_thread() is threading.main_thread():
                beside(lambda: found.append(routes.node_at(*place)))
            return answer

    routes._nodes = Late()
    found.append(routes.node_at("127.0.0.1", 1))
    assert found[0] is found[1]


def test_closing_is_not_disturbed_by_a_call_that_finds_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routes = routes_to("redis://127.0.0.1:1")
    for port in (1, 2):
        node = routes.node_at("127.0.0.1", port)
        monkeypatch.setattr(node, "close", lambda: beside(lambda: routes.node_at("127.0.0.1", 3)))
    routes.close()


def test_a_message_that_is_stored_is_confirmed_although_the_list_of_queues_is_out_of_reach(
    q: holdfast.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = q.transport.command

    def away(*words: Any, **where: Any) -> Any:
        # The second time: it was listed before its first message was sent, and is listed again after it.
        tries.append(words[0])
        if words[0] == "SADD" and tries.count("SADD") == 2:
            raise holdfast.Unavailable("no answer")
        return command(*words, **where)

    tries: list[Any] = []
    monkeypatch.setattr(q.transport, "command", away)
    assert q.send(b"a")
    assert tries.count("SADD") == 2
    assert q.send(b"b")
    assert tries.count("SADD") == 3  # who sends next lists it
    assert q.stats().ready == 2
