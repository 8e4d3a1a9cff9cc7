"""The reliable queue as commands: MQ.PUSH, POP, ACK, RECOVER, INSPECT and QINFO.

Names, argument orders and replies are those that users of the commands know; nothing here may be made
nicer. What they lack is in `sending.py`, `taking.py`, `settling.py` and `keeping.py`, under names of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.errors import FixTheCall, QueueFull
from holdfast.message import Message
from holdfast.server.entrance import Place
from holdfast.server.resp.arguments import Words, count, integer, seconds, text, texts
from holdfast.server.resp.command import Command
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.held import ids_of
from holdfast.server.resp.writer import NIL, Encoded, Failure, Reply
from holdfast.server.taking import give_back
from holdfast.settings import IF_SET

# Of bulk strings up to a length; ids are much shorter, receipts mostly.
_HEADS = [b"$%d\r\n" % size for size in range(1024)]


async def push(caller: Connection, args: list[bytes]) -> Reply:
    ids = await caller.session.send_bodies(text(args[0], "key"), args[1:])
    return _ids(_encoded(ids))


async def push_all(caller: Connection, several: list[list[bytes]]) -> list[Reply]:
    """One send for all of them; if that is refused, each by itself, since it may be one's fault."""
    bodies = [body for args in several for body in args[1:]]
    try:
        ids = await caller.session.send_bodies(text(several[0][0], "key"), bodies)
    except (FixTheCall, QueueFull, Failure):
        return [await caller.tried(push(caller, args)) for args in several]
    wires = _encoded(ids)
    answers: list[Reply] = []
    at = 0
    for args in several:
        end = at + len(args) - 1
        answers.append(_ids(wires[at:end]))
        at = end
    return answers


def _is_old(args: list[bytes]) -> bool:
    """`count key`: what two arguments mean, unless the first is an option."""
    return len(args) == 2 and args[0].upper() not in (b"COUNT", b"BLOCK")


async def pop(caller: Connection, args: list[bytes]) -> Reply:
    if _is_old(args):
        return await _pop_one(caller, args)
    words = Words(args)
    most, wait = 1, -1.0
    while option := words.option("COUNT", "BLOCK"):
        if option == "COUNT":
            most = count(words.word("count"))
        else:
            wait = seconds(words.word("BLOCK"), "BLOCK")
    keys = texts([words.word("key"), *words.rest()], "key")

    async def take(slice_s: float) -> list[AsyncDelivery]:
        return await caller.session.receive(keys, most, wait=slice_s, lease=IF_SET)

    got = await caller.wait_for(take, wait)
    await _reachable(caller, got)
    return [[d.source, d.id, d.body] for d in got] or NIL


async def _pop_one(caller: Connection, args: list[bytes]) -> Reply:
    most, key = count(args[0]), text(args[1], "key")
    got = await caller.session.receive(key, most, lease=IF_SET)
    await _reachable(caller, got)
    return _pairs(caller, key, got) if got else NIL


async def pop_all(caller: Connection, several: list[list[bytes]]) -> list[Reply]:
    """The same request several times, in one round trip."""
    most, key = count(several[0][0]), text(several[0][1], "key")
    rounds = await caller.session.receive_rounds(key, most, len(several), lease=IF_SET)
    if caller.gone:
        await give_back([d for got in rounds for d in got])
        return []
    return [_pairs(caller, key, got) if got else NIL for got in rounds]


async def _reachable(caller: Connection, got: list[AsyncDelivery]) -> None:
    """Whoever asked may have gone away while the answer was made; what is for nobody goes back."""
    if got and caller.gone:
        await give_back(got)
        got.clear()


def _pairs(caller: Connection, key: str, got: list[AsyncDelivery]) -> Encoded:
    """[id, payload] of each, written at once; and remembered, for the ack that will come."""
    ids = ids_of(got)
    caller.held.remember(key, got, ids)
    parts = [b"*%d\r\n" % len(got)]
    heads, short = _HEADS, len(_HEADS)
    for d, name in zip(got, ids, strict=True):
        body = d.body
        size = len(body)
        head = heads[size] if size < short else b"$%d\r\n" % size
        parts += (b"*2\r\n", heads[len(name)], name, b"\r\n", head, body, b"\r\n")
    return Encoded(b"".join(parts))


def _ids(ids: Sequence[bytes]) -> Encoded:
    # One join of parts that are there already: formatting each costs twice as much.
    parts = [b"*%d\r\n" % len(ids)]
    for name in ids:
        head = _HEADS[len(name)] if len(name) < len(_HEADS) else b"$%d\r\n" % len(name)
        parts += (head, name, b"\r\n")
    return Encoded(b"".join(parts))


def _encoded(ids: Sequence[str]) -> list[bytes]:
    # In one go: a hundred small encodes cost more than one large one and a split.
    return "\n".join(ids).encode().split(b"\n")


async def ack(caller: Connection, args: list[bytes]) -> Reply:
    if args[1].upper() == b"FOR":
        words = Words(args)
        place = words.place()
        return await _ack(caller, place, [words.word("id"), *words.rest()])
    key, ids = text(args[0], "key"), args[1:]
    batch = caller.held.take(key, ids)
    if batch is None:
        return await _ack(caller, key, ids)
    [lost] = await caller.session.ack_batches(key, [batch])
    return await _acked(caller, key, ids, lost)


async def ack_all(caller: Connection, several: list[list[bytes]]) -> list[Reply]:
    """Whole batches, one after the other, in one round trip."""
    key = text(several[0][0], "key")
    batches = [caller.held.take(key, args[1:]) for args in several]
    known = [batch for batch in batches if batch is not None]
    if len(known) < len(batches):
        return [await caller.tried(_ack(caller, key, args[1:])) for args in several]
    answers = await caller.session.ack_batches(key, known)
    return [
        await caller.tried(_acked(caller, key, args[1:], lost))
        for args, lost in zip(several, answers, strict=True)
    ]


async def _acked(caller: Connection, key: str, ids: list[bytes], lost: list[int]) -> Reply:
    if lost:
        # An id means its current delivery, whoever has it; the batch was an earlier one.
        again = await caller.session.ack(key, texts([ids[i] for i in lost], "id"))
        removed = set(again)
        gone = {ids[i] for i in lost if ids[i].decode() not in removed}
        ids = [i for i in ids if i not in gone]
    return _ids(ids) if ids else await _nothing(caller, key)


async def _ack(caller: Connection, place: Place, ids: list[bytes]) -> Reply:
    removed = await caller.session.ack(place, texts(ids, "id"))
    return _ids(_encoded(removed)) if removed else await _nothing(caller, place)


async def _nothing(caller: Connection, place: Place) -> Reply:
    """Nothing, or nil where there is not even a queue."""
    return NIL if await caller.session.clock("ack", place) is None else []


async def recover(caller: Connection, args: list[bytes]) -> Reply:
    key, most = text(args[0], "key"), count(args[1])
    elapsed = seconds(args[2], "elapsed")
    got = await caller.session.recover(key, most, elapsed=elapsed, lease=IF_SET)
    await _reachable(caller, got)
    if got:
        return _pairs(caller, key, got)
    return NIL if await caller.session.clock("recover", key) is None else []


async def inspect(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args)
    place = words.place()
    pending = words.option("PENDING") is not None
    start = integer(words.word("start"), "start")
    most = count(words.word("count"))
    words.end()
    if not pending:
        return [[m.id, m.body] for m in await caller.session.inspect(place, "ready", start, most)]
    # The clock last: no delivery may look as if it were in the future.
    found = await caller.session.inspect(place, "leased", start, most)
    now = await caller.session.clock("inspect", place) or 0
    return [_pending(m, now) for m in found]


def _pending(message: Message, now: int) -> Reply:
    at = round(message.received_at.timestamp() * 1000) if message.received_at else 0
    return [message.id, message.body, at, max(now - at, 0), message.receives]


async def qinfo(caller: Connection, args: list[bytes]) -> Reply:
    found = await caller.session.stats(text(args[0], "key"))
    if not found.now:
        return NIL
    return [f"{found.last_ms}-{found.last_seq}", found.ready, found.leased]


_WRITE = ("write", "denyoom", "fast")
COMMANDS = (
    Command(
        "mq.push",
        "key element [element ...]",
        2,
        None,
        push,
        "Append messages to a queue; answers their ids",
        flags=_WRITE,
        keys=(1, 1, 1),
        together=push_all,
    ),
    Command(
        "mq.pop",
        "count key | [COUNT count] [BLOCK milliseconds] key [key ...]",
        1,
        None,
        pop,
        "Take messages, which stay in hand until MQ.ACK or MQ.RECOVER",
        flags=("write", "blocking"),
        keys=(-1, -1, 1),
        together=pop_all,
        alike=lambda args: tuple(args) if _is_old(args) else None,
    ),
    Command(
        "mq.ack",
        "key [FOR consumer [PEER peer]] id [id ...]",
        2,
        None,
        ack,
        "Remove messages that were taken; answers the ids really removed",
        flags=("write", "fast"),
        keys=(1, 1, 1),
        together=ack_all,
        alike=lambda args: None if args[1].upper() == b"FOR" else args[0],
    ),
    Command(
        "mq.recover",
        "key count elapsed",
        3,
        3,
        recover,
        "Take over messages that were taken so many milliseconds ago or earlier",
        flags=("write",),
        keys=(1, 1, 1),
    ),
    Command(
        "mq.inspect",
        "key [FOR consumer [PEER peer]] [PENDING] start count",
        3,
        8,
        inspect,
        "Look at messages that wait, or, with PENDING, at those that were taken",
        flags=("readonly",),
        keys=(1, 1, 1),
    ),
    Command(
        "mq.qinfo",
        "key",
        1,
        1,
        qinfo,
        "The last id, and how many messages wait and how many were taken",
        flags=("readonly", "fast"),
        keys=(1, 1, 1),
    ),
)
