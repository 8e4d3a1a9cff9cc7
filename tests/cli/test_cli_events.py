"""holdfast events."""

from __future__ import annotations

import select
import signal

import msgspec
import pytest

import holdfast
from tests.cli.conftest import Run, Start
from tests.servers import wait_until


@pytest.mark.slow
def test_events_follow_what_happens_until_ctrl_c(start: Start, queue: holdfast.Queue) -> None:
    process = start("events", queue.name)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.readline().decode() == f"listening to {queue.name!r}; Ctrl-C ends it\n"
    id_ = queue.send("hello", priority=2)
    sent = process.stdout.readline().decode().split("  ")
    assert [part.strip() for part in sent[1:] if part] == ["sent", id_, "5 bytes", "priority 2"]
    delivery = queue.receive()
    assert delivery
    assert "lease 30 s" in process.stdout.readline().decode()
    delivery.nack(error="closed")
    assert "failed 1×  closed" in process.stdout.readline().decode()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.slow
def test_events_of_chosen_kinds_in_json(start: Start, queue: holdfast.Queue) -> None:
    process = start("events", queue.name, "--kind", "acked", "-k", "dead", "--json")
    out = process.stdout
    assert out is not None
    id_ = queue.send("hello")

    def heard() -> bool:
        """It dies, and is redriven, until the listener is there to hear of it."""
        queue.redrive()
        delivery = queue.receive()
        assert delivery
        delivery.bury("hopeless")
        return bool(select.select([out], [], [], 0.05)[0])

    wait_until(heard, timeout=30, what="an event")
    found = msgspec.json.decode(out.readline())
    assert found.pop("time")
    assert found == {
        "kind": "dead",
        "queue": queue.name,
        "id": id_,
        "priority": 0,
        "receives": 1,
        "size": 5,
        "reason": "hopeless",
    }


def test_events_from_the_journal_show_the_past(run: Run, queue: holdfast.Queue) -> None:
    queue.configure(journal=True)
    queue.send("a")
    delivery = queue.receive()
    assert delivery
    delivery.ack()
    found = run("events", queue.name, "--journal", "100", "--json").objects
    assert [event["kind"] for event in found] == ["sent", "received", "acked"]
    assert found[1]["lease"] == 30
    assert found[1]["lease_until"] > found[1]["time"]
    only = run("events", queue.name, "--journal", "100", "--kind", "acked").lines
    assert len(only) == 1
    assert " acked " in only[0]


def test_events_from_a_journal_that_is_off_say_how_to_switch_it_on(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send("a")
    result = run("events", queue.name, "--journal", "10")
    assert (result.status, result.out) == (0, "")
    assert result.err == (
        f"the journal of {queue.name!r} is off; switch it on with "
        f"`holdfast configure {queue.name} --journal on`\n"
    )


def test_events_name_the_kinds_there_are(run: Run, queue: holdfast.Queue) -> None:
    result = run("events", queue.name, "--kind", "lost")
    assert result.status == 64
    assert result.err == (
        "error: there is no event 'lost'; there are: sent, received, requeued, dead, dead_received, "
        "redriven, acked, expired, removed, extended, dropped, rescheduled\n"
    )
