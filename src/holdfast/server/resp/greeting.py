"""What clients say when they connect, and about themselves: HELLO, AUTH, PING, CLIENT and the like."""

from __future__ import annotations

from holdfast import __version__
from holdfast.errors import Unauthenticated
from holdfast.server.resp.arguments import Words, integer, shown
from holdfast.server.resp.command import Command
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.writer import OK, Failure, Reply, Simple


def hello(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args)
    wanted = caller.protocol
    if len(words):
        said = words.word("protover")
        if said not in (b"2", b"3"):
            if not said.isdigit():
                raise Failure("Protocol version is not an integer or out of range")
            raise Failure("unsupported protocol version", "NOPROTO")
        wanted = int(said)
    name: str | None = None
    while option := words.option("AUTH", "SETNAME"):
        if option == "AUTH":
            _enter(caller, words.word("the user"), words.word("the token"))
        else:
            name = _name(words.word("the name"))
    words.end()
    if not caller.user:
        raise Failure(
            "HELLO must be called with the client already authenticated, otherwise the "
            "HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and "
            "select the RESP protocol version at the same time",
            "NOAUTH",
        )
    caller.protocol = wanted
    if name is not None:
        caller.name = name
    return {
        "server": "holdfast",
        "version": __version__,
        "proto": wanted,
        "id": caller.id,
        "mode": "standalone",
        "role": "master",
        "modules": [],
    }


def auth(caller: Connection, args: list[bytes]) -> Reply:
    if caller.door.gate.open:
        raise Failure(
            "AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?"
        )
    user, secret = (b"default", args[0]) if len(args) == 1 else (args[0], args[1])
    _enter(caller, user, secret)
    return OK


def _enter(caller: Connection, user: bytes, secret: bytes) -> None:
    """A token says who it is; a user's name, if one is given, must not say otherwise."""
    try:
        who = caller.door.gate.enter(secret.decode("utf-8", "surrogateescape"), peer=caller.peer)
    except Unauthenticated:
        who = None
    known = who is not None and (
        caller.door.gate.open or user in (b"default", b"", who.name.encode())
    )
    if who is None or not known:
        raise Failure("invalid username-password pair or user is disabled.", "WRONGPASS")
    caller.enter(who)


def ping(caller: Connection, args: list[bytes]) -> Reply:
    return args[0] if args else Simple("PONG")


def echo(caller: Connection, args: list[bytes]) -> Reply:
    return args[0]


def select(caller: Connection, args: list[bytes]) -> Reply:
    if integer(args[0], "the DB index") != 0:
        raise Failure("DB index is out of range")
    return OK


def leave(caller: Connection, args: list[bytes]) -> Reply:
    caller.part()
    return OK


def reset(caller: Connection, args: list[bytes]) -> Reply:
    caller.leave()
    return Simple("RESET")


def _name(said: bytes) -> str:
    name = said.decode("utf-8", "replace")
    if not name.isprintable() or " " in name or len(name) > 200:
        raise Failure("Client names cannot contain spaces, newlines or special characters.")
    return name


def client(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args[1:])
    match args[0].upper():
        case b"SETNAME":
            caller.name = _name(words.word("the name"))
        case b"GETNAME":
            return caller.name or None
        case b"SETINFO":
            _set_info(caller, words)
        case b"ID":
            return caller.id
        case b"INFO":
            return _line(caller)
        case b"LIST":
            # Others' connections are others' business.
            mine = [c for c in caller.door.connections if c.user == caller.user]
            return "".join(_line(c) for c in sorted(mine, key=lambda c: c.id))
        case b"NO-EVICT" | b"NO-TOUCH":
            if not words.option("ON", "OFF"):
                raise Failure("syntax error: ON or OFF is missing")
        case b"REPLY":
            if not words.option("ON"):
                raise Failure("this server always answers; only CLIENT REPLY ON is supported")
        case b"HELP":
            return ["CLIENT ID | INFO | LIST | GETNAME | SETNAME name | SETINFO attribute value"]
        case _:
            raise Failure(f"unknown subcommand '{shown(args[0])[1:-1]}'. Try CLIENT HELP.")
    return OK


def _set_info(caller: Connection, words: Words) -> None:
    which = words.option("LIB-NAME", "LIB-VER")
    if which is None:
        raise Failure("Unrecognized option for CLIENT SETINFO")
    caller.library[which == "LIB-VER"] = _name(words.word("the value"))


def _line(of: Connection) -> str:
    now = of.door.loop.time()
    return (
        f"id={of.id} addr={of.peer} laddr={of.door.address} name={of.name} "
        f"age={now - of.since:.0f} idle={now - of.active:.0f} flags=N db=0 "
        f"cmd={of.last_command} user={of.user} lib-name={of.library[0]} lib-ver={of.library[1]} "
        f"resp={of.protocol}\n"
    )


_FAST = ("fast", "loading", "stale")
COMMANDS = (
    Command(
        "hello",
        "[protover [AUTH username password] [SETNAME clientname]]",
        0,
        None,
        hello,
        "Choose RESP2 or RESP3, and authenticate",
        "connection",
        _FAST,
        before_auth=True,
    ),
    Command(
        "auth",
        "[username] password",
        1,
        2,
        auth,
        "Authenticate by a token",
        "connection",
        _FAST,
        before_auth=True,
    ),
    Command("ping", "[message]", 0, 1, ping, "Answers PONG", "connection", _FAST),
    Command("echo", "message", 1, 1, echo, "Answers the message", "connection", _FAST),
    Command("select", "index", 1, 1, select, "There is one database, 0", "connection", _FAST),
    Command(
        "quit", "", 0, None, leave, "Close the connection", "connection", _FAST, before_auth=True
    ),
    Command(
        "reset", "", 0, 0, reset, "As if connected anew", "connection", _FAST, before_auth=True
    ),
    Command(
        "client",
        "subcommand [argument ...]",
        1,
        None,
        client,
        "About this connection",
        "connection",
        _FAST,
    ),
)
