"""Keeping house over RESP: dead letters, single messages, counts, settings, pauses and ends."""

from __future__ import annotations

from dataclasses import asdict

from holdfast.message import STATES, Message
from holdfast.server.resp.arguments import Words, count, integer, number, seconds, text, texts, when
from holdfast.server.resp.command import Command
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.setting import changes, told
from holdfast.server.resp.writer import NIL, OK, Failure, Reply


def _ms(message: Message) -> int:
    return round(message.death.at.timestamp() * 1000) if message.death else 0


async def dead(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args)
    place = words.place()
    start, most = integer(words.word("start"), "start"), count(words.word("count"))
    words.end()
    return [
        [m.id, m.body, m.death.reason, m.death.error, _ms(m), m.receives]
        for m in await caller.session.inspect(place, "dead", start, most)
        if m.death is not None
    ]


async def redrive(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args)
    place = words.place()
    most: int | None = None
    rate: float | None = None
    dry = False
    while option := words.option("COUNT", "RATE", "DRYRUN"):
        if option == "COUNT":
            most = count(words.word("count"))
        elif option == "RATE":
            rate = number(words.word("RATE"), "RATE")
        else:
            dry = True
    ids = texts(words.rest(), "id") or None
    return await caller.session.redrive(place, most, ids=ids, rate=rate, dry_run=dry)


async def get(caller: Connection, args: list[bytes]) -> Reply:
    found = await caller.session.get(text(args[0], "key"), text(args[1], "id"))
    if found is None:
        return NIL
    return [found.id, found.body, found.state, found.receives, found.attributes]


async def remove(caller: Connection, args: list[bytes]) -> Reply:
    return int(await caller.session.remove(text(args[0], "key"), text(args[1], "id")))


async def reschedule(caller: Connection, args: list[bytes]) -> Reply:
    key, name = text(args[0], "key"), text(args[1], "id")
    words = Words(args[2:])
    if words.option("DELAY"):
        moved = await caller.session.reschedule(
            key, name, delay=seconds(words.word("DELAY"), "DELAY")
        )
    elif words.option("AT"):
        moved = await caller.session.reschedule(key, name, due=when(words.word("AT"), "AT"))
    else:
        raise Failure("syntax error: DELAY milliseconds or AT unix-milliseconds is missing")
    return int(moved)


async def stats(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args)
    found = await caller.session.stats(words.place())
    words.end()
    return asdict(found) if found.now else NIL


async def configure(caller: Connection, args: list[bytes]) -> Reply:
    key = text(args[0], "key")
    if len(args) == 1:
        found = await caller.session.settings(key)
        pop_lease = await caller.session.pop_lease(key)
    else:
        found = await caller.session.configure(key, **changes(args[1:]))
        pop_lease = await caller.session.pop_lease(key, "configure")
    # MQ.POP has a lease only where somebody has set one; what is shown must hold for it too.
    return told(found) | {"pop_lease_ms": round((pop_lease or 0) * 1000)}


async def purge(caller: Connection, args: list[bytes]) -> Reply:
    states = [
        state for state in STATES if state in {a.decode("utf-8", "replace") for a in args[1:]}
    ]
    if len(states) != len(args) - 1:
        raise Failure(f"syntax error: states are {', '.join(STATES)}, each at most once")
    return await caller.session.purge(text(args[0], "key"), *states)


async def pause(caller: Connection, args: list[bytes]) -> Reply:
    until = seconds(args[1], "the pause") if len(args) == 2 else None
    await caller.session.pause(text(args[0], "key"), until)
    return OK


async def resume(caller: Connection, args: list[bytes]) -> Reply:
    await caller.session.resume(text(args[0], "key"))
    return OK


async def delete(caller: Connection, args: list[bytes]) -> Reply:
    await caller.session.delete(text(args[0], "key"))
    return OK


async def queues(caller: Connection, args: list[bytes]) -> Reply:
    return await caller.session.queues()


_SEAT = "key [FOR consumer [PEER peer]]"
_ONE = (1, 1, 1)
_READS, _WRITES = ("readonly",), ("write",)
COMMANDS = (
    Command(
        "mq.dead",
        f"{_SEAT} start count",
        3,
        7,
        dead,
        "Look at dead letters: id, payload, reason, error, time of death, deliveries",
        flags=_READS,
        keys=_ONE,
    ),
    Command(
        "mq.redrive",
        f"{_SEAT} [COUNT count] [RATE per-second] [DRYRUN] [id ...]",
        1,
        None,
        redrive,
        "Make dead letters ready again; answers their ids",
        flags=_WRITES,
        keys=_ONE,
    ),
    Command(
        "mq.get",
        "key id",
        2,
        2,
        get,
        "Look at one message: id, payload, state, deliveries, attributes",
        flags=_READS,
        keys=_ONE,
    ),
    Command(
        "mq.remove",
        "key id",
        2,
        2,
        remove,
        "Take one message away, whatever its state; answers 1, or 0 if it was not there",
        flags=_WRITES,
        keys=_ONE,
    ),
    Command(
        "mq.reschedule",
        "key id DELAY milliseconds | AT unix-milliseconds",
        4,
        4,
        reschedule,
        "Change when a delayed message falls due; answers 1, or 0 if it is not delayed",
        flags=_WRITES,
        keys=_ONE,
    ),
    Command(
        "mq.stats",
        _SEAT,
        1,
        5,
        stats,
        "Messages by state, and counters of what has happened",
        flags=_READS,
        keys=_ONE,
    ),
    Command(
        "mq.configure",
        "key [setting value ...]",
        1,
        None,
        configure,
        "Change settings; answers all of them",
        flags=_WRITES,
        keys=_ONE,
    ),
    Command(
        "mq.purge",
        "key [ready] [delayed] [leased] [reserved] [dead]",
        1,
        5,
        purge,
        "Take away all messages, or those of these states; answers how many",
        flags=_WRITES,
        keys=_ONE,
    ),
    Command(
        "mq.pause",
        "key [milliseconds]",
        1,
        2,
        pause,
        "Hand nothing out, for so long or until MQ.RESUME",
        flags=_WRITES,
        keys=_ONE,
    ),
    Command("mq.resume", "key", 1, 1, resume, "Hand messages out again", flags=_WRITES, keys=_ONE),
    Command(
        "mq.delete",
        "key",
        1,
        1,
        delete,
        "End a queue, with all its messages",
        flags=_WRITES,
        keys=_ONE,
    ),
    Command("mq.queues", "", 0, 0, queues, "Names of all queues you may use", flags=_READS),
)
