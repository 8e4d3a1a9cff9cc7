"""Which node serves what: the one server of an address, the slots of a cluster, the master of sentinels.

A node that was cut off from the others tells an old story, and answers as fast as any. So all are asked,
side by side, and who knows best is believed: of a cluster the node that finds it in order and knows its
highest epoch, of sentinels those with the highest epoch of the master's configuration. That is the
servers' own rule for who is right.

A node that says nothing is doubted: while a call waits, those who would know are asked whether another
one has taken over. Rejected: a shorter time-out, which would give up servers that are only busy.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, RedisError

from holdfast import forks
from holdfast.client._async.node import AsyncNode, Superseded
from holdfast.client.address import Address
from holdfast.client.io_async import Lock, side_by_side
from holdfast.client.safety import parse_info
from holdfast.errors import Unavailable

Place = tuple[str, int]

# How long all are waited for, seconds, before the best of those who have answered is believed.
_SOON = 0.5
# For one who is asked, seconds: connecting, then each answer.
_ASK = 2.0
# How many nodes of a large cluster are asked.
_MOST = 9
# What was learned so many seconds ago is not asked for again: many calls fail at once.
_FRESH = 0.05
# How often those are asked who would know of a successor, seconds: of a node that should have answered, and
# of one that has nothing to say.
_DOUBT = 0.4
_LISTEN = 0.9


class View(NamedTuple):
    """What one node says of its cluster."""

    ok: bool
    epoch: int
    primaries: tuple[tuple[int, int, Place], ...]
    """First and last slot, and who serves them."""
    members: frozenset[Place]


class Master(NamedTuple):
    """What one sentinel says of the master."""

    epoch: int
    place: Place


class AsyncRoutes:
    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self._timeout = timeout
        # A cluster, or a server that has turned out to be part of one.
        self.cluster = address.topology == "cluster"
        self.closed = False
        self.slots: dict[int, AsyncNode] = {}
        self._nodes: dict[Place, AsyncNode] = {}
        # Apart from those that calls use: who is asked must answer soon.
        self._askers: dict[Place, AsyncNode] = {}
        self._master: AsyncNode | None = None
        self._members: frozenset[Place] = frozenset()
        self._epoch = 0
        self._learned = self._doubted = float("-inf")
        self._learning = Lock()
        forks.watch(self)

    def forked(self) -> None:
        """In the child of a fork: the parent's connections are left alone, and nobody here is learning."""
        self._learning = Lock()
        for node in [*self._nodes.values(), *self._askers.values()]:
            node.forked()

    # ---- where to -------------------------------------------------------------------------

    def node_at(self, host: str, port: int) -> AsyncNode:
        found = self._nodes.get((host, port))
        if found is None:
            # Two threads may both have found none; one node is for both.
            made = AsyncNode(self.address, host, port, self._timeout, self.doubt)
            found = self._nodes.setdefault((host, port), made)
            found.retired = self.closed
        return found

    async def node_for(self, key: str) -> AsyncNode:
        if self.closed:
            raise Unavailable("this client is closed; connect again")
        # Slots are known of a cluster, and of a server that has turned out to be part of one.
        if self.address.topology == "cluster" or (self.slots and key):
            slot = key_slot(key.encode())
            # What others forget meanwhile is good enough for this call.
            node = self.slots.get(slot) or (await self._learn_slots()).get(slot)
            if node is None:
                raise Unavailable(
                    f"no node of the cluster at {self.address.safe} serves slot {slot}"
                )
            return node
        master = self._master
        if master is None:
            if self.address.topology == "sentinel":
                master = await self._ask_sentinels()
            else:
                host, port = self.address.hosts[0] if self.address.hosts else ("", 0)
                master = self.node_at(host, port)
            self._master = master
        return master

    async def primaries(self) -> list[AsyncNode]:
        """All nodes that serve queues."""
        node = await self.node_for("")
        # A copy in one step: other calls learn of places meanwhile.
        return list(dict.fromkeys(list(self.slots.values()))) or [node]

    def redirected(self, by: AsyncNode, error: AskError) -> AsyncNode | None:
        """The node that `by` sends us to; None if that is nowhere we could go."""
        self.cluster = True
        # No host: the one that was asked, by its port.
        host = by.host if error.host in ("", "?") else error.host
        if (host, error.port) == (by.host, by.port):
            return None
        node = self.node_at(host, error.port)
        if isinstance(error, MovedError):
            self.slots[error.slot_id] = node
        return node

    def forget(self) -> None:
        self.slots, self._master = {}, None

    # ---- learning -------------------------------------------------------------------------

    async def _learn_slots(self) -> dict[int, AsyncNode]:
        async with self._learning:
            if self.slots and time.monotonic() - self._learned < _FRESH:
                return self.slots  # another call has asked meanwhile
            places = list(dict.fromkeys([*self.address.hosts, *self._members]))
            if len(places) > _MOST:
                places = random.sample(places, _MOST)
            views, problems = await side_by_side(
                [partial(self._view, place) for place in places],
                lambda got: 2 * sum(view.ok for view in got) > len(places),
                _SOON,
            )
            if not views:
                problem = problems[-1] if problems else "they know of no slots"
                raise Unavailable(
                    f"no node of the cluster at {self.address.safe} answers: {problem}"
                )
            # Where several know as much, what most of them say.
            votes = Counter(view.primaries for view in views)
            best = max(views, key=lambda view: (view.ok, view.epoch, votes[view.primaries]))
            slots: dict[int, AsyncNode] = {}
            for first, last, place in best.primaries:
                slots.update(dict.fromkeys(range(first, last + 1), self.node_at(*place)))
            self._epoch, self._members = best.epoch, best.members
            self.slots, self._learned = slots, time.monotonic()
            return slots

    async def _view(self, place: Place) -> View:
        info, ranges = await self._asker(place).exchange(
            [("CLUSTER", "INFO"), ("CLUSTER", "SLOTS")]
        )
        if isinstance(ranges, Exception):
            raise ranges
        # Who may not ask for the one may still ask for the other.
        told = {} if isinstance(info, Exception) else parse_info(info)
        ok = told.get("cluster_state", "ok") == "ok"
        primaries, members = _understood(ranges, place[0])
        if not primaries:
            raise Unavailable(f"{place[0]}:{place[1]} knows of no slots")
        return View(ok, int(told.get("cluster_current_epoch", 0)), primaries, members)

    async def _ask_sentinels(self) -> AsyncNode:
        places = self.address.hosts
        found, problems = await side_by_side(
            [partial(self._watched, place) for place in places],
            lambda got: 2 * len(got) > len(places),
            _SOON,
        )
        if not found:
            problem = problems[-1] if problems else "they know no such master"
            raise Unavailable(f"no sentinel tells where {self.address.master!r} is: {problem}")
        votes = Counter(master.place for master in found)
        best = max(found, key=lambda master: (master.epoch, votes[master.place]))
        return self.node_at(*best.place)

    async def _watched(self, sentinel: Place) -> Master:
        name = self.address.master
        place, details = await self._asker(sentinel).exchange(
            [("SENTINEL", "get-master-addr-by-name", name), ("SENTINEL", "MASTER", name)]
        )
        if isinstance(place, Exception):
            raise place
        if not place:
            raise Unavailable("they know no such master")
        told = (
            {}
            if isinstance(details, Exception)
            else dict(zip(details[::2], details[1::2], strict=True))
        )
        return Master(int(told.get(b"config-epoch", 0)), (place[0].decode(), int(place[1])))

    def _asker(self, place: Place) -> AsyncNode:
        found = self._askers.get(place)
        if found is None:
            address = self.address
            if address.topology == "sentinel":
                address = Address("standalone", (place,))
            made = AsyncNode(address, *place, min(self._timeout, _ASK))
            found = self._askers.setdefault(place, made)
            found.retired = self.closed
        return found

    # ---- doubting -------------------------------------------------------------------------

    async def doubt(self, node: AsyncNode, expected: bool) -> None:
        """Raises Superseded if another node has taken over from one that says nothing.

        For those who wait for its answer. `expected`: it may well be silent, since it waits for something
        itself; then one of the others is asked, and all only if that one has news.
        """
        now = time.monotonic()
        if now - self._doubted > (_LISTEN if expected else _DOUBT):
            self._doubted = now
            try:
                if self.address.topology == "sentinel":
                    await self._doubt_master(node, expected)
                elif self.cluster and node in self.slots.values():
                    await self._doubt_slots(node, expected)
            except (RedisError, OSError, Unavailable):
                return  # nobody knows better
        known = list(self.slots.values()) if self.cluster else [self._master]
        if known and known != [None] and node not in known:
            raise Superseded(f"{node} does not answer, and another node has taken its place")

    async def _doubt_master(self, node: AsyncNode, expected: bool) -> None:
        if expected:
            one = await self._watched(random.choice(self.address.hosts))
            if one.place == (node.host, node.port):
                return
        self._master = await self._ask_sentinels()

    async def _doubt_slots(self, node: AsyncNode, expected: bool) -> None:
        others = [place for place in self._members if place != (node.host, node.port)]
        if expected and others:
            told = parse_info(await self._asker(random.choice(others)).command("CLUSTER", "INFO"))
            if int(told.get("cluster_current_epoch", 0)) <= self._epoch:
                return
        await self._learn_slots()

    async def close(self) -> None:
        self.closed = True
        # A copy in one step: a call under way may still find a node.
        for node in [*list(self._nodes.values()), *list(self._askers.values())]:
            node.retired = True
            await node.close()


def _understood(
    ranges: Sequence[Any], asked: str
) -> tuple[tuple[tuple[int, int, Place], ...], frozenset[Place]]:
    """Who serves which slots, and all nodes: out of the answer to CLUSTER SLOTS of the host `asked`.

    A node without a host is at the one that was asked, by its port. Where that would make one of several
    nodes, the addresses that are told beside it are taken.
    """
    plain = {_name(node): _place(node, asked) for _, _, *nodes in ranges for node in nodes}
    if len(set(plain.values())) < len(plain):
        plain |= {
            _name(node): _place(node, asked, True) for _, _, *nodes in ranges for node in nodes
        }
    primaries = tuple((first, last, plain[_name(nodes[0])]) for first, last, *nodes in ranges)
    return primaries, frozenset(plain.values())


def _name(node: Sequence[Any]) -> Any:
    return node[2] if len(node) > 2 else (node[0], node[1])


def _place(node: Sequence[Any], asked: str, beside: bool = False) -> Place:
    host = (node[0] or b"").decode()
    if host in (
        "",
        "?",
    ):  # none is told; or one by name, which the node that was asked has not learned yet
        told = dict(zip(node[3][::2], node[3][1::2], strict=True)) if len(node) > 3 else {}
        host = told.get(b"ip", b"").decode() if beside or host else ""
    return host or asked, int(node[1])
