"""The client: a connection to one server or cluster, and the queues on it."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast import forks, names
from holdfast.client import safety
from holdfast.client._async.observer import AsyncObserver
from holdfast.client._async.queue import AsyncQueue
from holdfast.client._async.topic import AsyncTopic
from holdfast.client._async.transport import AsyncTransport
from holdfast.client.address import parse
from holdfast.client.io_async import Background
from holdfast.client.sender import CallName, Sender
from holdfast.engine import replies
from holdfast.engine.calls import Call
from holdfast.engine.keys import REGISTRY, TOPICS
from holdfast.engine.replies import Stats
from holdfast.errors import HoldfastError, InvalidArgument, TryAgain
from holdfast.message import Codec
from holdfast.settings import milliseconds, whole

if TYPE_CHECKING:
    from holdfast.embedded import Membership

log = logging.getLogger("holdfast")

T = TypeVar("T")


class AsyncClient:
    """Get one from `holdfast.connect_async`. Safe to share; close it when done, or use it in an
    `async with` block."""

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        replicas: int = 0,
        check: safety.Check = "warn",
        home: str | os.PathLike[str] | None = None,
        durability: str | None = None,
    ) -> None:
        milliseconds(timeout, "timeout", least=1)
        milliseconds(retry_for, "retry_for")
        whole(replicas, "replicas", 0, 100)
        if check not in ("warn", "refuse", "off"):
            raise InvalidArgument(f"check must be 'warn', 'refuse' or 'off', not {check!r}")
        url = url or os.environ.get("HOLDFAST_URL") or None
        if url and (home is not None or durability is not None):
            raise InvalidArgument("home and durability are for the embedded server, not for a URL")
        self._membership: Membership | None = None
        if url is None:
            from holdfast import embedded  # not on every platform, and not needed for a URL

            self._membership = embedded.join(Path(home) if home else None, durability)
            url = self._membership.url
        try:
            self._address = parse(url)
        except BaseException:
            self._leave()
            raise
        self.transport = AsyncTransport(
            self._address, timeout=timeout, retry_for=retry_for, replicas=replicas, check=check
        )
        if self._membership is not None:
            self.transport.revive = self._membership.revive
        # Names for calls that must not be done twice; each is used by one call at a time.
        self.senders: list[Sender] = []
        self._me = secrets.token_hex(6)
        self.transport.names = self
        # What handles of the same queue know in common: how many shards it has, whether it is listed.
        self.shards: dict[str, int] = {}
        self.listed: set[str] = set()
        self._reaper: Background | None = None
        forks.watch(self)

    def forked(self) -> None:
        """In the child of a fork: another sender. The reaper stays with the parent."""
        self.senders, self._me = [], secrets.token_hex(6)
        if self._reaper is not None:
            self._reaper = None
            log.info(
                "the reaper stays with the parent process; this one has none before it starts one"
            )

    def sender(self) -> Sender:
        """One that no other call has; to be put back into `senders` when its call is done."""
        try:
            return self.senders.pop()  # in one step: another thread may take the last one
        except IndexError:
            return Sender(f"{self._me}{secrets.token_hex(3)}")

    async def run_named(
        self, build: Callable[[str, int], Call[T]], name: CallName | None = None
    ) -> T:
        """Run a send under a name by which a repetition is known: one of ours, or the caller's own."""
        if name is not None:
            call = build(name.sender, name.number)
            return await self.transport.run(call.again() if name.again else call)
        sender = self.sender()
        sender.number += 1
        sent = await self.transport.run(build(sender.name, sender.number))
        # Not after an error: its last call may still be under way somewhere.
        self.senders.append(sender)
        return sent

    @property
    def url(self) -> str:
        """Of the server really in use; redis-py takes it too. It holds the password, if any."""
        return self._address.url

    def queue(self, name: str, *, codec: Codec[Any] | None = None) -> AsyncQueue:
        """The queue of that name. `codec` encodes bodies that are not bytes or text, and decodes
        `delivery.value`."""
        return AsyncQueue(self, names.check(name, "a queue's name"), codec)

    def topic(self, name: str, *, codec: Codec[Any] | None = None) -> AsyncTopic:
        """The topic of that name; `codec` as for a queue."""
        return AsyncTopic(self, names.check(name, "a topic's name"), codec)

    def consumer(self, consumer: str, *, peer: str = "") -> AsyncObserver:
        """A consumer over all topics it is subscribed to, or one peer of it."""
        return AsyncObserver(self, names.check(consumer, "a consumer's id"), peer)

    async def topics(self) -> list[str]:
        """Names of all topics that were ever published to or subscribed to, and not deleted."""
        found: list[str] = await self.transport.command(
            "SMEMBERS", TOPICS, key=TOPICS, parse=replies.names
        )
        return found

    async def queues(self) -> list[str]:
        """Names of all queues that were ever written to and not deleted."""
        found: list[str] = await self.transport.command(
            "SMEMBERS", REGISTRY, key=REGISTRY, parse=replies.names
        )
        return found

    async def all_stats(
        self, queues: Iterable[str] | None = None
    ) -> tuple[dict[str, Stats], dict[str, HoldfastError]]:
        """Stats of these queues, or of all; and why for those of which there are none, since their keys
        are not as a queue's should be: one of them does not hide the others."""
        found: dict[str, Stats] = {}
        unreadable: dict[str, HoldfastError] = {}
        for name in await self.queues() if queues is None else queues:
            try:
                found[name] = await self.queue(name).stats()
            except TryAgain:
                raise  # not this queue's fault
            except HoldfastError as error:
                unreadable[name] = error
        return found, unreadable

    async def ping(self) -> None:
        """Returns if a server answers; raises Unavailable if none does in time."""
        await self.transport.command("PING")

    async def examine(self) -> dict[str, list[safety.Finding]]:
        """What each node really guarantees; see `holdfast doctor`."""
        return await self.transport.examine_all()

    async def start_reaper(self, every: float = 1.0) -> None:
        """Tend all queues in the background, every so many seconds, until the client is closed.

        Only needed where nobody receives: every receive does the same for its own queue. A reaper
        belongs to this process: the child of a fork has none, and may start its own.
        """
        milliseconds(every, "every", least=1)
        if self._reaper is None:
            self._every = every
            self._reaper = Background(self._reap, "holdfast-reaper")

    async def _reap(self, me: Background) -> None:
        # What was said of which, so that it is not said every time.
        said: dict[str, str] = {}
        while not me.stopped:
            try:
                queues, topics = await self.queues(), await self.topics()
            except HoldfastError as error:
                log.warning("reaper: %s; going on", error)
            except Exception:
                log.exception("reaper; going on")
            else:
                for name in queues:
                    await self._tend(f"queue {name!r}", self.queue, name, said)
                for name in topics:
                    await self._tend(f"topic {name!r}", self.topic, name, said)
            await me.pause(self._every)

    async def _tend(
        self,
        what: str,
        place: Callable[[str], AsyncQueue | AsyncTopic],
        name: str,
        said: dict[str, str],
    ) -> None:
        """One that cannot be tended does not keep us from the next."""
        try:
            await place(name).tend()
        except HoldfastError as error:
            if said.get(what) != str(error):
                log.warning("reaper: %s: %s; going on with the others", what, error)
            said[what] = str(error)
        except Exception:
            log.exception("reaper: %s; going on with the others", what)
        else:
            said.pop(what, None)

    def _leave(self) -> None:
        membership, self._membership = self._membership, None
        if membership is not None:
            membership.close()

    async def close(self) -> None:
        """Close all connections; the embedded server, if in use, stops with its last user."""
        reaper, self._reaper = self._reaper, None
        if reaper is not None:
            await reaper.stop()
        await self.transport.close()
        self._leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
