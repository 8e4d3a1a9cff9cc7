"""What clients say when they connect: HELLO, AUTH, CLIENT and the like, and what the server tells of
itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from holdfast.server.gate import Gate
from holdfast.server.tokens import new
from tests.server.resp.raw_client import Raw
from tests.server.resp.running import Running

OpenDoor = Callable[..., Running]


@pytest.fixture
def raw(door: Running) -> Iterator[Raw]:
    with closing(Raw(door.port)) as it:
        yield it


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("PING", b"+PONG\r\n"),
        ("ping hello", b"$5\r\nhello\r\n"),
        ("SELECT 0", b"+OK\r\n"),
        ("SELECT 1", b"-ERR DB index is out of range\r\n"),
        ("RESET", b"+RESET\r\n"),
        ("CLIENT SETINFO LIB-NAME x", b"+OK\r\n"),
        ("CLIENT NO-EVICT on", b"+OK\r\n"),
        ("HELLO 4", b"-NOPROTO unsupported protocol version\r\n"),
        ("HELLO x", b"-ERR Protocol version is not an integer or out of range\r\n"),
        ("FOO a b", b"-ERR unknown command 'FOO', with args beginning with: 'a' 'b' \r\n"),
        ("FOO", b"-ERR unknown command 'FOO', with args beginning with: \r\n"),
        ("ECHO", b"-ERR wrong number of arguments for 'echo' command\r\n"),
        ("CLIENT EAT", b"-ERR unknown subcommand 'EAT'. Try CLIENT HELP.\r\n"),
        ("MQ.POP 1 no.such.queue", b"*-1\r\n"),
        ("CLIENT GETNAME", b"$-1\r\n"),
    ],
)
def test_simple_commands_are_answered_as_redis_does(raw: Raw, line: str, answer: bytes) -> None:
    assert raw.say(line) == answer


def test_an_unknown_command_cannot_break_the_line(raw: Raw) -> None:
    assert raw.say(r'"a\r\nb" "c\r\nd"').startswith(b"-ERR unknown command 'a\\r\\nb'")
    assert raw.say("PING") == b"+PONG\r\n"


def test_hello_chooses_the_protocol(raw: Raw) -> None:
    assert raw.say("HELLO 3 SETNAME me").startswith(b"%7\r\n$6\r\nserver\r\n$8\r\nholdfast\r\n")
    assert raw.say("CLIENT GETNAME") == b"$2\r\nme\r\n"
    assert raw.say("MQ.POP 1 no.such.queue") == b"_\r\n"
    assert raw.say("HELLO 2").startswith(b"*14\r\n")
    assert raw.say("MQ.POP 1 no.such.queue") == b"*-1\r\n"


def test_quit_answers_and_closes(raw: Raw) -> None:
    assert raw.say("QUIT\r\nPING") == b"+OK\r\n"
    assert raw.reply() == b""


def test_a_protocol_error_is_told_before_the_connection_is_closed(raw: Raw) -> None:
    assert raw.say("*1\r\n:1") == b"-ERR Protocol error: expected '$', got ':'\r\n"
    assert raw.reply() == b""


@pytest.fixture
def guarded(open_door: OpenDoor) -> tuple[Running, str, str]:
    """A door with two tokens, and their secrets."""
    all_, secret = new("boss", ["all *:*"])
    some, other = new("shop", ["produce queue:shop.*"])
    return open_door(gate=Gate([all_, some])), secret, other


def test_without_a_token_nothing_is_done(guarded: tuple[Running, str, str]) -> None:
    with closing(Raw(guarded[0].port)) as it:
        for line in ("PING", "MQ.PUSH q a", "INFO", "NOSUCH", "COMMAND", "CLIENT LIST"):
            assert it.say(line) == b"-NOAUTH Authentication required.\r\n", line
        assert it.say("HELLO 3").startswith(b"-NOAUTH HELLO must be called")
        assert it.say("AUTH wrong").startswith(b"-WRONGPASS ")
        assert it.say("PING").startswith(b"-NOAUTH")


def test_a_token_opens_the_door(guarded: tuple[Running, str, str], name: str) -> None:
    door, secret, _ = guarded
    for way in (
        ["AUTH", secret],
        ["AUTH", "boss", secret],
        ["HELLO", 3, "AUTH", "default", secret],
    ):
        with closing(Raw(door.port)) as it:
            it.say(" ".join(map(str, way)))
            assert it.say("PING") == b"+PONG\r\n"
            assert it.say("RESET") == b"+RESET\r\n"
            assert it.say("PING").startswith(b"-NOAUTH")
    with closing(Raw(door.port)) as it:
        assert it.say(f"AUTH somebody {secret}").startswith(b"-WRONGPASS ")


@pytest.mark.parametrize("protocol", [2, 3])
def test_rights_are_per_verb_and_prefix(
    guarded: tuple[Running, str, str], name: str, protocol: int
) -> None:
    door, _, secret = guarded
    with redis.Redis(port=door.port, password=secret, protocol=protocol) as r:
        assert len(r.execute_command("MQ.PUSH", name, "a")) == 1
        for command in (["MQ.POP", 1, name], ["MQ.PUSH", "office.x", "a"], ["MQ.ACK", name, "1-1"]):
            with pytest.raises(redis.exceptions.NoPermissionError, match=r"^shop may not"):
                r.execute_command(*command)


def test_auth_without_tokens_configured_is_told(raw: Raw) -> None:
    assert raw.say("AUTH x").startswith(b"-ERR AUTH <password> called without any password")


def test_clients_see_their_own_connections(door: Running, r: redis.Redis) -> None:
    r.client_setname("me")
    assert r.client_getname() in ("me", b"me")
    assert r.client_id() > 0
    assert r.client_info()["name"] == "me"
    assert any(c["name"] == "me" and c["resp"] == "2" for c in r.client_list())
    with pytest.raises(redis.ResponseError, match="cannot contain spaces"):
        r.client_setname("a b")


@pytest.mark.parametrize("protocol", [2, 3])
def test_command_tells_what_there_is(door: Running, protocol: int) -> None:
    with redis.Redis(port=door.port, protocol=protocol) as r:
        told: Any = r.command()
        assert told["mq.push"]["arity"] == -3
        assert told["mq.qinfo"]["arity"] == 2
        assert r.command_count() == len(told)


def test_command_has_its_subcommands(raw: Raw, door: Running) -> None:
    assert raw.say("COMMAND COUNT") == b":%d\r\n" % len(door.door.table)
    assert raw.say("COMMAND LIST").startswith(b"*%d\r\n" % len(door.door.table))
    assert raw.say("COMMAND INFO nosuch") == b"*1\r\n$-1\r\n"
    docs = raw.say("COMMAND DOCS mq.pop nosuch")
    assert docs.startswith(b"*2\r\n$6\r\nmq.pop\r\n*10\r\n$7\r\nsummary\r\n")
    assert raw.say("COMMAND EAT").startswith(b"-ERR unknown subcommand")


def test_info_is_read_by_redis_py(r: redis.Redis) -> None:
    every: Any = r.info()
    assert every["server_name"] == "holdfast"
    assert every["connected_clients"] >= 1
    assert "uptime_in_seconds" not in r.info("clients")
    seconds, micros = r.time()
    assert seconds > 1_600_000_000
    assert 0 <= micros < 1_000_000
    assert r.config_get("save") == {"save": ""}


def test_help_shows_usage(r: redis.Redis) -> None:
    [line] = r.execute_command("MQ.HELP", "mq.qinfo")
    assert line == (
        b"MQ.QINFO key -- The last id, and how many messages wait and how many were taken"
    )
    assert len(r.execute_command("MQ.HELP")) > 20
