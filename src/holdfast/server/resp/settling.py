"""What becomes of messages that were taken, other than MQ.ACK: MQ.NACK and MQ.EXTEND.

Ids or receipts. Answers name those for which it was really done.
"""

from __future__ import annotations

from holdfast.server.broker import Action
from holdfast.server.resp.arguments import Words, lease, seconds, texts
from holdfast.server.resp.command import Command
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.writer import Reply

_ACTIONS: dict[str, Action] = {"RETRY": "retry", "RELEASE": "release", "BURY": "bury"}


async def nack(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args)
    place = words.place()
    action: Action = "retry"
    delay, reason = 0.0, ""
    while option := words.option(*_ACTIONS, "DELAY", "REASON"):
        if option == "DELAY":
            delay = seconds(words.word("DELAY"), "DELAY")
        elif option == "REASON":
            reason = words.text("REASON")
        else:
            action = _ACTIONS[option]
    ids = texts([words.word("id"), *words.rest()], "id")
    return await caller.session.nack(place, ids, action=action, delay=delay, text=reason)


async def extend(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args)
    place = words.place()
    until = lease(words.word("the lease"), "the lease")
    ids = texts([words.word("id"), *words.rest()], "id")
    return await caller.session.extend(place, ids, until)


COMMANDS = (
    Command(
        "mq.nack",
        "key [FOR consumer [PEER peer]] [RETRY | RELEASE | BURY] [DELAY milliseconds] "
        "[REASON text] id [id ...]",
        2,
        None,
        nack,
        "Give messages back: to be tried again, as if never taken, or as dead letters",
        flags=("write",),
        keys=(1, 1, 1),
    ),
    Command(
        "mq.extend",
        "key [FOR consumer [PEER peer]] milliseconds | NONE id [id ...]",
        3,
        None,
        extend,
        "Let the leases of messages end so many milliseconds from now; 0: give them back, NONE: when "
        "settled",
        flags=("write",),
        keys=(1, 1, 1),
    ),
)
