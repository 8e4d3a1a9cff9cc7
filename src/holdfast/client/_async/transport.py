"""Runs Calls over redis-py's own connections, and decides what to repeat.

One place for: following MOVED and ASK, waiting out failovers, replication (WAIT), and the rule that a call
whose answer was lost is repeated only if its `Repeat` allows. Which node serves what is told by `routes.py`.
redis-py's Connection is used directly: its client classes cost half the speed here, and its cluster client
asks the server for the keys of every FCALL.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from holdfast.client import failures, safety
from holdfast.client._async import readiness
from holdfast.client._async.node import AsyncNode, Superseded, Unreached
from holdfast.client._async.routes import AsyncRoutes
from holdfast.client.address import Address
from holdfast.client.io_async import Connection, aside, sleep
from holdfast.client.sender import Sender
from holdfast.engine.calls import NEVER, ONCE_NAMED, Argument, Call, Plain, stamp
from holdfast.errors import (
    AnswerLost,
    HoldfastError,
    NotReplicated,
    Refused,
    Unavailable,
)

T = TypeVar("T")

log = logging.getLogger("holdfast")

# How long one slot of a cluster is watched before it is the next one's turn, seconds.
_TURN = 0.05

# How often in a row a call is sent elsewhere, or finds no functions, before it waits a while.
_TURNS = 4

# How long replicas may take to confirm what is only lent, seconds, and for how long nobody waits for them
# after they did not.
_LENT = 0.5
_AGAIN = 10.0

_LOST = (RedisConnectionError, RedisTimeoutError, OSError)

# The engine knows a repetition for a minute (lua/shared/memory.lua), seconds; and how much of that is left to
# the way there, at most.
_REMEMBERED = 60.0
_ON_THE_WAY = 30.0


class Names(Protocol):
    """Where names for calls come from."""

    senders: list[Sender]
    """Those that have no call under way."""

    def sender(self) -> Sender: ...


class AsyncTransport:
    def __init__(
        self,
        address: Address,
        *,
        timeout: float,
        retry_for: float,
        replicas: int,
        check: safety.Check,
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._retry_for = retry_for
        self._replicas = replicas
        self._check = check
        self.routes = AsyncRoutes(address, timeout)
        self._turn = 0
        # When replicas last did not confirm what was lent.
        self._in_vain = float("-inf")
        # Brings a server of ours back to life, if that is what is needed.
        self.revive: Callable[[], None] | None = None
        # Names calls that must not be done twice; without it they have none.
        self.names: Names | None = None

    async def examine_all(self) -> dict[str, list[safety.Finding]]:
        """What each node that serves queues really guarantees."""
        await self.command("PING")
        try:
            return {
                str(node): await readiness.examine(node) for node in await self.routes.primaries()
            }
        except (*_LOST, ResponseError) as error:
            raise Unavailable(f"a node of {self.address.safe} does not answer: {error}") from error
        except Exception as error:
            raise failures.ours(error, f"examining {self.address.safe}") from error

    # ---- running --------------------------------------------------------------------------

    async def run(self, call: Call[T]) -> T:
        """The call's answer. Raises a HoldfastError; nothing foreign gets out.

        A call that is to be named keeps its name when this fails: run once more, it is a repetition.
        """
        try:
            if call.repeat is not ONCE_NAMED:
                return call.parse(await self._run(call))
            self._name(call)
            answer = await self._run(call)
            self._answered(call)
            return call.parse(answer)
        except HoldfastError:
            raise
        except Exception as error:
            raise failures.ours(error, _told(call)) from error

    def _name(self, call: Call[Any]) -> None:
        """Give it a name that no other call has, if it is to have one."""
        if call.repeat is not ONCE_NAMED or self.names is None:
            return
        again = call.caller is not None
        if not again:
            call.caller = self.names.sender()
            call.caller.number += 1
        assert call.caller is not None
        call.name = (call.caller.name, call.caller.number, int(again))

    def _answered(self, call: Call[Any]) -> None:
        """Its name is free for others. Not after an error: it may still be under way somewhere."""
        caller, call.caller = call.caller, None
        if caller is not None and self.names is not None:
            self.names.senders.append(cast("Sender", caller))

    async def run_after(self, marker: str, seconds: float, call: Call[T]) -> T:
        """Wait for the marker, up to `seconds`, then run the call: in one round trip, so that a
        waiter has its message as soon as it is woken."""
        try:
            return call.parse(await self._run(call, ([marker], seconds)))
        except HoldfastError:
            raise
        except Exception as error:
            raise failures.ours(error, _told(call)) from error

    async def wait_for_any(self, markers: Sequence[str], seconds: float) -> None:
        """Until one of these markers is there, or the time is over; nothing is taken.

        It may end early, also when a connection is lost: whoever waits looks again. A cluster lets
        nobody block on keys of several slots at once, so they are watched in turn there.
        """
        if self.routes.cluster:
            by_slot: dict[int, list[str]] = {}
            for marker in markers:
                by_slot.setdefault(key_slot(marker.encode()), []).append(marker)
            if len(by_slot) > 1:
                self._turn += 1
                markers = list(by_slot.values())[self._turn % len(by_slot)]
                seconds = min(seconds, _TURN)
        try:
            node = await self.routes.node_for(markers[0])
            await node.exchange_after(markers, seconds, [("PING",)])
        except (*_LOST, RedisError, Unavailable):
            self.routes.forget()
            await sleep(min(seconds, _TURN))

    async def wait_in_list(self, key: str, seconds: float) -> Any:
        """The first element of a list, which stays there; None if none comes in time. It may end
        early, also when a connection is lost: whoever waits looks again."""
        try:
            return await (await self.routes.node_for(key)).wait_in_list(key, seconds)
        except (*_LOST, RedisError, Unavailable):
            self.routes.forget()
            await sleep(min(seconds, _TURN))
            return None

    async def run_many(self, calls: Sequence[Call[T]]) -> list[T]:
        """All answers, in order; calls to one node travel together.

        What did not go through in the first round is run again one by one, under the usual rules.
        """
        try:
            for call in calls:
                self._name(call)
            answers = await self._run_many(calls)
            for call in calls:
                self._answered(call)
            return [call.parse(answer) for call, answer in zip(calls, answers, strict=True)]
        except HoldfastError:
            raise
        except Exception as error:
            raise failures.ours(error, ", ".join({_told(call) for call in calls})) from error

    async def _run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        by_node: dict[AsyncNode, list[int]] = {}
        if len(calls) > 1:
            for i, call in enumerate(calls):
                try:
                    node = await self.routes.node_for(call.ref.key)
                except HoldfastError:
                    continue
                if node.prepared and not self._replicas:
                    by_node.setdefault(node, []).append(i)
        answers: dict[int, Any] = {}
        for node, places in by_node.items():
            began = time.monotonic()
            try:
                got = await node.exchange([calls[i].command(self.routes.cluster) for i in places])
            except Unreached:
                continue
            except _LOST as error:
                for i in places:
                    self._check_repeat(calls[i], error)
                    answers[i] = await self._run(calls[i].again(), unsure=began)
                continue
            answers |= {
                i: a for i, a in zip(places, got, strict=True) if not isinstance(a, ResponseError)
            }
        return [
            answers[i] if i in answers else await self._run(calls[i]) for i in range(len(calls))
        ]

    async def command(
        self, *command: Argument, key: str = "", parse: Callable[[Any], Any] | None = None
    ) -> Any:
        """A plain command that may be repeated, on the node of `key`."""
        return await self.run(Plain(key, command, parse))

    def _check_repeat(self, call: Call[Any], error: Exception) -> None:
        if call.repeat is NEVER:
            raise AnswerLost(
                f"the answer to {call.verb} on {call.ref.name!r} was lost ({error}), and it is not "
                "safe to repeat; look at stats or inspect to see whether it was done"
            ) from error

    def _check_remembered(self, call: Call[Any], unsure: float, last: Exception | None) -> None:
        """A call that may have been carried out at `unsure` is repeated while the engine would know."""
        left = _REMEMBERED - min(self._timeout, _ON_THE_WAY)
        if call.has_name and time.monotonic() > unsure + left:
            raise AnswerLost(
                f"the answer to {call.verb} on {call.ref.name!r} was lost {left:g} s ago or more ({last}), "
                "and the server remembers calls for a minute only: it is not safe to repeat any more; "
                "look at stats or inspect to see whether it was done"
            ) from last

    async def _back_off(self, wait: float, give_up: float, last: Exception) -> float:
        if time.monotonic() + wait > give_up or self.routes.closed:
            raise Unavailable(
                f"no answer from {self.address.safe} for {self._retry_for:g} s: {last}"
            ) from last
        if self.revive is not None:
            await aside(self.revive)
        await sleep(wait * random.uniform(0.5, 1.0))
        return min(wait * 2, 1.0)

    async def _run(
        self,
        call: Call[Any],
        after: tuple[Sequence[str], float] | None = None,
        *,
        unsure: float | None = None,
    ) -> Any:
        """`unsure`: when it was first sent, if it was and may have been carried out."""
        began = time.monotonic()
        give_up, wait = began + self._retry_for, 0.01
        if after is not None:
            give_up += after[1]
        node: AsyncNode | None = None
        asking, turns = False, 0
        last: Exception | None = None
        while True:
            try:
                if node is None:
                    node = await self.routes.node_for(call.ref.key)
                if not (node.prepared or call.plain):
                    await readiness.prepare(node, self._check)
                if unsure is not None:
                    # A connection first, which may take long: then there is only the way there.
                    await node.release(await node.acquire())
                    self._check_remembered(call, unsure, last)
            except ResponseError as error:
                if not failures.passing(error):
                    raise failures.translated(error) from error
                last = error
            except (*_LOST, Unavailable) as error:
                if failures.refused(error):
                    raise failures.translated(error) from error
                last = error
            else:
                try:
                    if after is not None or asking or self._replicas:
                        return await self._attempt(node, call, after, asking)
                    # An idle connection may have died unnoticed; what must not be repeated avoids that risk.
                    fresh = call.repeat is NEVER
                    return await node.command(*call.command(self.routes.cluster), fresh=fresh)
                except AskError as error:  # or MovedError, which is one too
                    # Nothing was done: the node that was asked does not serve this slot, or this key.
                    last, asking = error, not isinstance(error, MovedError)
                    there = self.routes.redirected(node, error)
                    # A slot that moves takes two turns; nodes that send us to each other take any number.
                    if there is not None and (turns := turns + 1) <= _TURNS:
                        node = there
                        continue
                except ResponseError as error:
                    last = error
                    if failures.no_function(error):
                        node.prepared = False
                        if (turns := turns + 1) <= _TURNS:
                            continue
                    elif not failures.passing(error):
                        raise failures.translated(error) from error
                except _LOST as error:
                    if failures.refused(error):
                        raise failures.translated(error) from error
                    await node.close()  # its other idle connections are no better
                    if not (isinstance(error, Unreached) or failures.passing(error)):
                        self._check_repeat(call, error)
                        unsure = began if unsure is None else unsure
                        call = call.again()
                    last = error
            if not failures.on_its_way(last):
                self.routes.forget()
            node, asking, after, turns = None, False, None, 0
            wait = await self._back_off(wait, give_up, last)
            began = time.monotonic()
            if unsure is not None:
                self._check_remembered(call, unsure, last)

    async def _attempt(
        self,
        node: AsyncNode,
        call: Call[Any],
        after: tuple[Sequence[str], float] | None,
        asking: bool,
    ) -> Any:
        """A call with something before or behind it."""
        before: list[tuple[Argument, ...]] = [("ASKING",)] if asking else []
        commands = [*before, call.command(self.routes.cluster)]
        replicas = 0 if call.reads else self._replicas
        if replicas:
            # What was answered from memory wrote nothing, and there would be nothing to wait for.
            commands += [*before, stamp(call.ref).command(self.routes.cluster)]
        # Shorter than our own time-out: the count must come back, whatever it is.
        within = self._timeout * 0.8
        if call.lends:
            in_vain = time.monotonic() < self._in_vain + _AGAIN
            within = min(within, 0.001 if in_vain else _LENT)
        confirm = ("WAIT", replicas, max(int(within * 1000), 1)) if replicas else None
        if after is not None:
            answers = await node.exchange_after(*after, commands, confirm)
        else:
            if confirm:
                commands.append(confirm)
            answers = await node.exchange(commands, fresh=call.repeat is NEVER)
        answer = answers[len(before)]
        if isinstance(answer, RedisError):
            raise answer
        confirmed = answers[-1] if replicas else 0
        if isinstance(confirmed, ResponseError):
            if isinstance(failures.translated(confirmed), Refused):
                raise confirmed
            # It is a primary no longer, and what it has done may be undone.
            raise Superseded(f"{node} could not wait for replicas: {confirmed}")
        if replicas and isinstance(answers[-2], RedisError):
            confirmed = 0  # the stamp was refused, and nobody knows what was waited for
        if confirmed < replicas:
            says = (
                f"{call.verb} on {call.ref.name!r} is done, but {confirmed} of "
                f"{replicas} replicas confirmed it in {within:g} s"
            )
            if not call.lends:
                # Its replicas may have another primary by now.
                self.routes.forget()
                raise NotReplicated(says)
            if within > 0.001:
                self._in_vain = time.monotonic()
                self.routes.forget()
                log.warning("%s; after a failover it may be handed out again", says)
        return answer

    async def subscribe(
        self, channels: Mapping[bytes, str]
    ) -> tuple[dict[str, Connection], list[Any]]:
        """Listen to channels, each at the node of its key. Connections of the caller's own, one for each
        node by its name, which the caller disconnects; and what came over them meanwhile."""
        give_up, wait = time.monotonic() + self._retry_for, 0.01
        while True:
            own: dict[str, Connection] = {}
            came: list[Any] = []
            last: Exception
            try:
                for channel, key in channels.items():
                    node = await self.routes.node_for(key)
                    if str(node) not in own:
                        own[str(node)] = await node.acquire(fresh=True)
                    came += await node.subscribe(own[str(node)], channel)
                return own, came
            except AskError as error:
                last = error
            except (*_LOST, ResponseError, Unavailable) as error:
                last = error
                if failures.refused(error) or (
                    isinstance(error, ResponseError) and not failures.passing(error)
                ):
                    raise failures.translated(error) from error
            except Exception as error:
                raise failures.ours(error, "listening to events") from error
            for each in own.values():
                await each.disconnect()
            self.routes.forget()
            wait = await self._back_off(wait, give_up, last)

    async def doubt(self, name: str) -> None:
        """For who listens at a node, by its name, and hears nothing. Raises ConnectionError if another node
        has taken its place."""
        for node in await self.routes.primaries():
            if str(node) == name:
                await self.routes.doubt(node, True)
                return
        raise Superseded(f"{name} is a primary no longer")

    async def close(self) -> None:
        await self.routes.close()


def _told(call: Call[Any]) -> str:
    return f"{call.verb} on {call.ref.name!r}" if call.ref.name else call.verb
