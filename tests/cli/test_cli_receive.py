"""holdfast receive."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess

import pytest
import redis

import holdfast
from tests.cli.conftest import Run, Start
from tests.servers import wait_until


def test_receive_in_a_pipe_prints_receipt_and_body_and_holds_the_message(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send("hello")
    result = run("receive", queue.name)
    receipt, body = result.out.rstrip("\n").split("\t")
    assert body == "hello"
    assert (result.status, queue.stats().leased) == (0, 1)
    assert queue.ack(receipt)


def test_receive_says_when_the_lease_ends_and_what_to_do_then(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send("hello")
    result = run("receive", queue.name, "--lease", "10m")
    first, second = result.err.splitlines()
    assert first.startswith("leased until ")
    assert first.endswith("); then it comes back")
    assert second.startswith("when done:  holdfast ack ")
    assert second.endswith(result.out.partition("\t")[0])


def test_receive_without_an_end_of_the_lease_says_so(run: Run, queue: holdfast.Queue) -> None:
    queue.send("hello")
    assert run("receive", queue.name, "--lease", "none").err.startswith("leased until settled\n")


def test_receive_refuses_a_lease_of_zero(run: Run, queue: holdfast.Queue) -> None:
    result = run("receive", queue.name, "--lease", "0")
    assert result.status == 64
    assert "write `none` for one that lasts until settled" in result.err


def test_receive_takes_up_to_count_messages(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many(["a", "b", "c"])
    assert [line.split("\t")[1] for line in run("receive", queue.name, "-n", "2").lines] == [
        "a",
        "b",
    ]


def test_receive_in_json_has_everything_about_the_message(run: Run, queue: holdfast.Queue) -> None:
    id_ = queue.send("hello", priority=3, attributes={"k": "v"}, group="g")
    result = run("receive", queue.name, "--json")
    found = result.object
    assert result.err == ""
    assert found.pop("receipt").startswith(f"{id_}@")
    assert found.pop("sent_at") < found.pop("lease_until")
    assert found == {
        "id": id_,
        "state": "leased",
        "body": "hello",
        "attributes": {"k": "v"},
        "priority": 3,
        "group": "g",
        "receives": 1,
    }


def test_receive_in_json_gives_a_body_that_is_not_text_in_base64(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send(b"\xff\x00")
    found = run("receive", queue.name, "--json").object
    assert found["body_base64"] == "/wA="
    assert "body" not in found


def test_receive_from_an_empty_queue_exits_with_4(run: Run, queue: holdfast.Queue) -> None:
    result = run("receive", queue.name)
    assert (result.status, result.out) == (4, "")
    assert result.err == f"nothing to receive in {queue.name!r}\n"
    assert run("receive", queue.name, "--json")[:2] == (4, b"")


def test_receive_of_nothing_says_where_the_messages_are(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a", delay=60)
    assert (
        run("receive", queue.name).err == f"nothing to receive in {queue.name!r} now (1 delayed)\n"
    )
    queue.send_many(["b"])
    queue.pause()
    assert run("receive", queue.name).err == f"nothing to receive in {queue.name!r}; it is paused\n"


def test_receive_of_nothing_says_that_a_group_is_busy(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a", group="g")
    queue.send("b", group="g")
    queue.receive()
    assert run("receive", queue.name).err == (
        f"nothing to receive in {queue.name!r} now (1 ready, 1 leased; "
        "what is ready waits behind others of its group)\n"
    )


@pytest.mark.slow
def test_receive_waits_for_a_message(start: Start, queue: holdfast.Queue, server: str) -> None:
    process = start("receive", queue.name, "--wait", "30s", "--ack")
    wait_until(lambda: blocked(server, queue), timeout=30, what="receive is waiting")
    queue.send("at last")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"at last\n", b"")


def blocked(server: str, queue: holdfast.Queue) -> bool:
    with redis.Redis.from_url(server) as raw:
        return any(c["cmd"] == "blpop" and "b" in c["flags"] for c in raw.client_list())


def test_receive_and_ack_prints_bodies_unaltered_and_removes_the_messages(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send_many([b"\xff\x00", b"text"])
    result = run("receive", queue.name, "-n", "10", "--ack")
    assert (result.status, result.raw, result.err) == (0, b"\xff\x00\ntext\n", "")
    assert queue.stats().total == 0


def test_receive_and_ack_takes_as_many_as_asked_for(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many([b"%d" % n for n in range(250)])
    assert run("receive", queue.name, "-n", "230", "--ack").lines == [str(n) for n in range(230)]
    assert queue.stats().ready == 20


def test_receive_and_ack_acks_only_after_the_message_was_flushed(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send("precious")
    at_flush: list[tuple[bytes, int]] = []

    class Watched(io.BytesIO):
        def flush(self) -> None:
            if not self.closed and self.getvalue():
                at_flush.append((self.getvalue(), queue.stats().acked))

    assert run("receive", queue.name, "--ack", out=Watched()).status == 0
    assert at_flush[0] == (b"precious\n", 0)
    assert queue.stats().acked == 1


def test_receive_gives_back_what_it_could_not_write(run: Run, queue: holdfast.Queue) -> None:
    queue.send("precious")

    class Interrupted(io.BytesIO):
        def write(self, data: object) -> int:
            raise KeyboardInterrupt

    for words in (["--ack"], [], ["--json"]):
        assert run("receive", queue.name, *words, out=Interrupted()).status == 130
        [message] = queue.inspect("ready")
        assert message.receives == 0


@pytest.mark.slow
def test_receive_into_a_pipe_that_nobody_reads_gives_the_message_back(
    start: Start, queue: holdfast.Queue
) -> None:
    queue.send("precious")
    reader, writer = os.pipe()
    os.close(reader)
    process = start("receive", queue.name, "--ack", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")
    assert queue.stats().ready == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.slow
def test_a_waiting_receive_ends_quietly_when_interrupted(
    start: Start, queue: holdfast.Queue, server: str, number: signal.Signals, status: int
) -> None:
    process = start("receive", queue.name, "--wait", "1h")
    wait_until(lambda: blocked(server, queue), timeout=30, what="receive is waiting")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (status, b"", b"")


def test_receive_says_that_an_ack_came_too_late(run: Run, queue: holdfast.Queue) -> None:
    queue.send("slow")

    class Slow(io.BytesIO):
        def flush(self) -> None:
            if not self.closed and self.getvalue() and queue.stats().leased:
                [held] = queue.inspect("leased")
                queue.remove(held.id)

    result = run("receive", queue.name, "--ack", out=Slow())
    assert result.status == 3
    assert result.err == (
        "1 of 1 acks came too late: the lease had ended, and the messages will be or were delivered "
        "again; use a longer --lease\n"
    )


def test_receive_takes_dead_letters_and_says_of_what_they_died(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send("bad")
    delivery = queue.receive()
    assert delivery
    delivery.bury("no such customer")
    assert run("receive", queue.name).err == f"nothing to receive in {queue.name!r} now (1 dead)\n"
    found = run("receive", queue.name, "--dead", "--json").object
    assert found["death"].pop("at")
    assert found["death"] == {"reason": "no such customer", "error": ""}
    assert (
        run("receive", queue.name, "--dead").err
        == f"no dead letters in {queue.name!r} now (1 leased)\n"
    )


@pytest.mark.slow
def test_receive_shows_a_table_on_a_terminal_and_nothing_of_a_body_can_harm_it(
    start: Start, queue: holdfast.Queue
) -> None:
    queue.send("[bold]two\nlines \x1b[31m", attributes={"k": "v"}, group="g", priority=2)
    queue.send(b"\xff\x00")
    parent, child = pty.openpty()
    process = start(
        "receive", queue.name, "-n", "2", stdout=child, stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "xterm"},
    )  # fmt: skip
    os.close(child)
    text = read_all(parent)
    assert process.wait(60) == 0
    for word in ("receipt", "receives", "priority", "group", "attributes", "k=v", "[bold]two"):
        assert word in text
    assert "lines \\x1b[31m" in text
    assert "\\xff\\x00" in text
    assert "\x1b[31m" not in text


def read_all(terminal: int) -> str:
    found = b""
    while True:
        try:
            chunk = os.read(terminal, 65_536)
        except OSError:  # how a terminal says that the other side is closed
            chunk = b""
        if not chunk:
            os.close(terminal)
            return found.decode()
        found += chunk


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--count", "0"], "--count must be from 1 to 100000, not 0"),
        (
            ["--wait", "x"],
            "--wait: 'x' is not a duration; write seconds (5, 0.5) or 250ms, 30s, 5m, 2h, 1d",
        ),
        (
            ["--lease", "x"],
            "--lease: 'x' is not a duration; write seconds (5, 0.5) or 250ms, 30s, 5m, 2h, 1d",
        ),
    ],
)
def test_receive_refuses_what_makes_no_sense(
    run: Run, queue: holdfast.Queue, words: list[str], complaint: str
) -> None:
    result = run("receive", queue.name, *words)
    assert (result.status, result.err) == (64, f"error: {complaint}\n")
