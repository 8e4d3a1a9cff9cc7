"""Connections under strain: slow readers, cuts, limits, many at once, and a door that closes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
import redis

from holdfast.server import files
from holdfast.server.limits import Limits
from tests.server.resp.raw_client import Raw
from tests.server.resp.running import Running
from tests.servers import wait_until

OpenDoor = Callable[..., Running]
MB = 1024 * 1024


def connected(door: Running) -> int:
    return len(door.door.connections)


def busy(door: Running) -> int:
    return sum(not connection.idle for connection in list(door.door.connections))


@pytest.mark.slow
def test_a_slow_reader_is_not_read_from_and_cannot_grow_memory(
    open_door: OpenDoor, name: str
) -> None:
    door = open_door()
    with redis.Redis(port=door.port) as r:
        r.execute_command("MQ.PUSH", name, bytes(MB))
    with closing(Raw(door.port)) as slow:
        wait_until(lambda: connected(door) == 1, 10, "only the slow one is connected")
        [connection] = door.door.connections
        slow.socket.settimeout(1)
        request = f"MQ.INSPECT {name} 0 1\r\n".encode() * 1000
        sent = 0
        with pytest.raises(TimeoutError):  # 64 MB of requests for 3 TB of answers
            while sent < 64 * MB:
                sent += slow.socket.send(request)
        assert door.door.meter.in_flight < 3 * MB
        assert connection._transport.get_write_buffer_size() < 3 * MB
        assert connection._parser.buffered < MB
        # It reads again, and is served again.
        slow.socket.settimeout(10)
        assert slow.socket.recv(100, socket.MSG_WAITALL).startswith(b"*1\r\n*2\r\n$")
    wait_until(lambda: door.door.meter.in_flight == 0, 10, "nothing is held for it any more")


def test_a_waiting_pop_whose_client_goes_away_takes_nothing(
    open_door: OpenDoor, name: str, r: redis.Redis
) -> None:
    door = open_door()
    with closing(Raw(door.port)) as gone:
        gone.socket.sendall(f"MQ.POP BLOCK 0 {name}\r\n".encode())
        wait_until(lambda: busy(door) == 1, 10, "it waits")
    wait_until(lambda: connected(door) == 0, 10, "it is gone")
    r.execute_command("MQ.PUSH", name, "a")
    assert r.execute_command("MQ.QINFO", name)[1:] == [1, 0]


def test_a_connection_cut_between_delivery_and_ack_loses_nothing(
    open_door: OpenDoor, name: str, r: redis.Redis
) -> None:
    door = open_door()
    ids = r.execute_command("MQ.PUSH", name, "a", "b")
    r.execute_command("MQ.CONFIGURE", name, "lease_ms", 0)
    with closing(Raw(door.port)) as cut:
        assert ids[0] in cut.say(f"MQ.POP 2 {name}")
    wait_until(lambda: connected(door) == 0, 10, "it is cut")
    assert r.execute_command("MQ.POP", 1, name) is None
    assert [i for i, _ in r.execute_command("MQ.RECOVER", name, 9, 0)] == ids


def test_requests_whose_client_is_gone_before_the_answer_hold_nothing(
    open_door: OpenDoor, name: str, r: redis.Redis
) -> None:
    """Whether the pop was not begun, under way or answered when the cut came: nothing is lost, and
    nothing is in hand unless it was written to the socket."""
    door = open_door()
    for turn in range(30):
        r.execute_command("MQ.PUSH", name, str(turn))
        with closing(Raw(door.port)) as gone:
            gone.socket.sendall(f"MQ.POP 1 {name}\r\n".encode())
        wait_until(lambda: connected(door) == 0, 10, "it is gone")
    _, ready, taken = r.execute_command("MQ.QINFO", name)
    assert ready + taken == 30


@pytest.mark.slow
def test_a_thousand_idle_connections_do_not_slow_the_others(open_door: OpenDoor, name: str) -> None:
    # Both ends of each connection are in this process.
    if files.allow(4096) < 2500:
        pytest.skip("the system allows too few open files: raise `ulimit -Hn`")
    door = open_door()
    with ExitStack() as stack:
        idle = [stack.enter_context(closing(Raw(door.port))) for _ in range(1000)]
        wait_until(lambda: connected(door) == 1000, 30, "all are connected")
        with ThreadPoolExecutor(4) as load:

            def work(which: int) -> int:
                with redis.Redis(port=door.port) as r:
                    done = 0
                    for _ in range(50):
                        ids = r.execute_command("MQ.PUSH", f"{name}.{which}", *"abcdefghij")
                        got = r.execute_command("MQ.POP", 10, f"{name}.{which}")
                        assert [i for i, _ in got] == ids
                        done += len(r.execute_command("MQ.ACK", f"{name}.{which}", *ids))
                    return done

            assert list(load.map(work, range(4))) == [500] * 4
        assert all(one.say("PING") == b"+PONG\r\n" for one in idle[::100])


def test_connections_past_the_limit_are_told_so(open_door: OpenDoor) -> None:
    door = open_door(limits=Limits(connections=2))
    with closing(Raw(door.port)) as one, closing(Raw(door.port)) as two:
        assert one.say("PING") == two.say("PING") == b"+PONG\r\n"
        with closing(Raw(door.port)) as three:
            assert three.reply().startswith(b"-TOOMANY this server has 2 connections")
            assert three.reply() == b""
    wait_until(lambda: connected(door) == 0, 10, "both have gone")
    with closing(Raw(door.port)) as again:
        assert again.say("PING") == b"+PONG\r\n"


def test_idle_connections_are_closed_and_waiting_ones_are_not(
    open_door: OpenDoor, name: str, r: redis.Redis
) -> None:
    door = open_door(limits=Limits(idle_seconds=0.2))
    with closing(Raw(door.port)) as idle, closing(Raw(door.port)) as waiting:
        waiting.socket.sendall(f"MQ.POP BLOCK 0 {name}\r\n".encode())
        assert idle.reply() == b""
        assert busy(door) == 1
        r.execute_command("MQ.PUSH", name, "a")
        assert b"$1\r\na\r\n" in waiting.reply()


@pytest.mark.parametrize(
    ("limits", "request_", "says"),
    [
        (Limits(message_bytes=10), ["MQ.PUSH", "k", "x" * 11], "a message may have 10 bytes"),
        (Limits(batch=3), ["MQ.PUSH", "k", *"abcd"], "at most 3 messages"),
        (Limits(batch=3), ["MQ.POP", "4", "k"], "at most 3 messages"),
        (Limits(batch=3), ["MQ.ACK", "k", *["1-1"] * 4], "at most 3 receipts"),
        (Limits(batch=3), ["MQ.INSPECT", "k", "0", "4"], "at most 3 messages"),
    ],
)
def test_a_request_past_a_limit_is_refused_and_the_connection_goes_on(
    open_door: OpenDoor, limits: Limits, request_: list[str], says: str
) -> None:
    door = open_door(limits=limits)
    with redis.Redis(port=door.port) as r:
        with pytest.raises(redis.ResponseError, match=f"^TOOLARGE {says}"):
            r.execute_command(*request_)
        assert r.ping()


@pytest.mark.parametrize(
    ("limits", "sent", "says"),
    [
        (Limits(request_bytes=100), b"*1\r\n$101\r\n", b"-TOOLARGE a request may have 100 bytes"),
        (Limits(arguments=5), b"*6\r\n", b"-ERR Protocol error: invalid multibulk length"),
        (Limits(inline_bytes=50), b"x" * 60, b"-ERR Protocol error: too big inline request"),
        (Limits(), b"*1\r\n*1\r\n$1\r\na\r\n", b"-ERR Protocol error: expected '$', got '*'"),
        (Limits(in_flight_bytes=100_000), b"*1\r\n$900000\r\n" + bytes(300_000), b"-TOOMANY "),
    ],
    ids=["bytes", "arguments", "inline", "nesting", "in flight"],
)
def test_a_request_that_cannot_be_read_to_its_end_ends_the_connection(
    open_door: OpenDoor, limits: Limits, sent: bytes, says: bytes
) -> None:
    door = open_door(limits=limits)
    with closing(Raw(door.port)) as it:
        it.socket.sendall(sent)
        assert it.reply().startswith(says)
    wait_until(lambda: connected(door) == 0 and door.door.meter.in_flight == 0, 10, "all is let go")
    with closing(Raw(door.port)) as other:
        assert other.say("PING") == b"+PONG\r\n"


def test_a_quiet_door_ends_waiting_calls_and_serves_who_is_there(
    open_door: OpenDoor, name: str
) -> None:
    door = open_door()
    with closing(Raw(door.port)) as waiting, closing(Raw(door.port)) as other:
        waiting.socket.sendall(f"MQ.POP BLOCK 0 {name}\r\n".encode())
        wait_until(lambda: busy(door) == 1, 10, "it waits")
        door.call(door.door.quiet())
        assert waiting.reply() == b"*-1\r\n"
        assert other.say(f"MQ.PUSH {name} a").startswith(b"*1\r\n")
        with pytest.raises(ConnectionRefusedError):
            Raw(door.port)


def test_closing_answers_what_has_come_and_gives_back_the_rest(
    open_door: OpenDoor, name: str, r: redis.Redis
) -> None:
    door = open_door()
    r.execute_command("MQ.PUSH", name, *map(str, range(100)))
    with closing(Raw(door.port)) as it, closing(Raw(door.port)) as waiting:
        waiting.socket.sendall(f"MQ.POP BLOCK 0 {name}.none\r\n".encode())
        wait_until(lambda: busy(door) == 1, 10, "one waits")
        it.socket.sendall(f"MQ.POP 1 {name}\r\n".encode() * 50)
        answered = it.reply()
        closing_ = threading.Thread(target=lambda: door.call(door.door.close(10)))
        closing_.start()
        assert waiting.reply() == b"*-1\r\n"
        answers = 0
        while answered:
            answers += 1
            answered = it.reply()
        closing_.join(15)
    assert not closing_.is_alive()
    assert answers >= 1
    # What was taken was answered; nothing was taken for an answer that never came.
    assert r.execute_command("MQ.QINFO", name)[1:] == [100 - answers, answers]


def test_closing_does_not_wait_longer_than_its_deadline_for_a_slow_reader(
    open_door: OpenDoor, name: str
) -> None:
    door = open_door()
    with redis.Redis(port=door.port) as r:
        r.execute_command("MQ.PUSH", name, bytes(4 * MB))
    with closing(Raw(door.port)) as slow:
        slow.socket.sendall(f"MQ.INSPECT {name} 0 1\r\n".encode() * 5)
        wait_until(
            lambda: any(not c._writable for c in list(door.door.connections)), 10, "answers wait"
        )
        door.call(door.door.close(0.2))
        assert connected(door) == 0
