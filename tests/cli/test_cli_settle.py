"""holdfast ack, nack, extend."""

from __future__ import annotations

from datetime import timedelta

import pytest

import holdfast
from holdfast.settings import IF_SET
from tests.cli.conftest import Run

STALE = "stale {}: already settled, or its lease ended; nothing changed\n"


def taken(queue: holdfast.Queue, n: int = 1) -> list[str]:
    queue.send_many([f"{i}" for i in range(n)])
    return [d.receipt for d in queue.receive_many(n)]


def test_ack_settles_and_says_which(run: Run, queue: holdfast.Queue) -> None:
    first, second = taken(queue, 2)
    result = run("ack", queue.name, first, second)
    assert (result.status, result.lines, result.err) == (
        0,
        [f"acked {first}", f"acked {second}"],
        "",
    )
    assert queue.stats().total == 0


def test_ack_by_bare_id_settles_whichever_delivery_is_current(
    run: Run, queue: holdfast.Queue
) -> None:
    [receipt] = taken(queue)
    assert run("ack", queue.name, receipt.partition("@")[0]).status == 0
    assert queue.stats().total == 0


def test_ack_of_a_stale_receipt_changes_nothing_and_exits_with_3(
    run: Run, queue: holdfast.Queue
) -> None:
    good, old = taken(queue, 2)
    queue.release(old)
    result = run("ack", queue.name, old, good)
    assert (result.status, result.lines) == (3, [f"acked {good}"])
    assert result.err == STALE.format(old)
    assert queue.stats().ready == 1


def test_ack_in_json_lists_acked_and_stale(run: Run, queue: holdfast.Queue) -> None:
    good, old = taken(queue, 2)
    queue.release(old)
    result = run("ack", queue.name, good, old, good, "--json")
    assert (result.status, result.err) == (3, "")
    assert result.object == {"acked": [good], "stale": [old]}


def test_ack_reads_receipts_from_stdin_by_the_thousand(run: Run, queue: holdfast.Queue) -> None:
    receipts = taken(queue, 2100)
    result = run("ack", queue.name, "-", stdin="\n".join([*receipts, "", ""]).encode())
    assert (result.status, len(result.lines)) == (0, 2100)
    assert queue.stats().total == 0


def test_nack_gives_back_with_delay_and_error(run: Run, queue: holdfast.Queue) -> None:
    queue.configure(max_receives=2)
    [receipt] = taken(queue)
    assert run("nack", queue.name, receipt, "--delay", "5m", "--error", "closed").lines == [
        f"nacked {receipt}"
    ]
    [delayed] = queue.inspect("delayed")
    assert delayed.receives == 1
    queue.reschedule(delayed.id, delay=0)
    again = queue.receive(wait=5)
    assert again
    run("nack", queue.name, again.receipt, "--error", "still closed")
    [dead] = queue.inspect("dead")
    assert dead.death
    assert (dead.death.reason, dead.death.error) == ("max_receives", "still closed")


def test_nack_release_does_not_count_as_a_failure(run: Run, queue: holdfast.Queue) -> None:
    [receipt] = taken(queue)
    assert run("nack", queue.name, receipt, "--release", "--json").object == {
        "released": [receipt],
        "stale": [],
    }
    assert [m.receives for m in queue.inspect("ready")] == [0]


def test_nack_bury_makes_a_dead_letter_with_the_reason(run: Run, queue: holdfast.Queue) -> None:
    [receipt] = taken(queue)
    assert run("nack", queue.name, receipt, "--bury", "hopeless").lines == [f"buried {receipt}"]
    [dead] = queue.inspect("dead")
    assert dead.death
    assert dead.death.reason == "hopeless"


def test_nack_of_a_stale_receipt_exits_with_3(run: Run, queue: holdfast.Queue) -> None:
    [receipt] = taken(queue)
    queue.ack(receipt)
    result = run("nack", queue.name, receipt)
    assert (result.status, result.out, result.err) == (3, "", STALE.format(receipt))


def test_extend_by_zero_gives_back_and_by_none_keeps_until_settled(
    run: Run, queue: holdfast.Queue
) -> None:
    [receipt] = taken(queue)
    assert run("extend", queue.name, receipt, "--lease", "none").lines == [f"extended {receipt}"]
    assert queue.inspect("leased")[0].lease_until is None
    assert run("extend", queue.name, receipt, "--lease", "0").lines == [f"extended {receipt}"]
    assert queue.stats().ready == 1


def test_extend_moves_the_end_of_a_lease(run: Run, queue: holdfast.Queue) -> None:
    [receipt] = taken(queue)
    [before] = queue.inspect("leased")
    assert run("extend", queue.name, receipt, "--lease", "2h").lines == [f"extended {receipt}"]
    [after] = queue.inspect("leased")
    assert before.lease_until
    assert after.lease_until
    assert after.lease_until - before.lease_until > timedelta(hours=1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["ack", "q", "bogus"],
            "'bogus' is not a message id; ids look like 1599352749159-4, or 1599352749159-4-2",
        ),
        (["ack", "q", "1-1@x"], "'1-1@x' is not a receipt; receipts look like 1599352749159-4@17"),
        (["ack", "q"], "missing argument 'RECEIPT…'; see `holdfast ack --help`"),
        (
            ["nack", "q", "1-1", "--release", "--bury", "x"],
            "give --release, or --bury, or --delay and --error: one of the three",
        ),
        (
            ["nack", "q", "1-1", "--release", "--delay", "1"],
            "give --release, or --bury, or --delay and --error: one of the three",
        ),
        (["extend", "q", "1-1"], "missing option '--lease'; see `holdfast extend --help`"),
    ],
)
def test_settling_refuses_what_makes_no_sense(run: Run, words: list[str], complaint: str) -> None:
    result = run(*words)
    assert (result.status, result.out, result.err) == (64, "", f"error: {complaint}\n")


def test_one_bad_receipt_keeps_the_whole_batch_from_being_touched(
    run: Run, queue: holdfast.Queue
) -> None:
    [receipt] = taken(queue)
    assert run("ack", queue.name, receipt, "bogus").status == 64
    assert queue.stats().leased == 1


def test_recover_gives_back_what_was_taken_long_ago(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many(["a", "b"])
    queue.receive(lease=IF_SET)
    assert run("recover", queue.name, "--elapsed", "1h").out == (
        f"gave 0 messages back to {queue.name!r}\n"
    )
    result = run("recover", queue.name, "--elapsed", "0", "--json")
    assert result.object == {"queue": queue.name, "recovered": 1, "dead": 0}
    assert [bytes(m.body) for m in queue.inspect("ready")] == [b"a", b"b"]
