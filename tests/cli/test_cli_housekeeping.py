"""holdfast queues, purge, delete, pause, resume, configure, redrive."""

from __future__ import annotations

import os
import pty

import pytest

import holdfast
from tests.cli.conftest import Run, Start
from tests.servers import wait_until


def bury(
    queue: holdfast.Queue, *reasons: str, attributes: dict[str, str] | None = None
) -> list[str]:
    ids = []
    for reason in reasons:
        ids.append(str(queue.send(reason, attributes=attributes)))
        delivery = queue.receive()
        assert delivery
        delivery.bury(reason)
    return ids


# ---- queues -------------------------------------------------------------------------------


def test_queues_prints_a_name_per_line(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    assert queue.name in run("queues").lines
    assert queue.name in run("queues", "--json").object["queues"]


# ---- purge and delete ---------------------------------------------------------------------


def test_purge_throws_away_messages_and_keeps_the_queue(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many(["a", "b"])
    queue.send("c", delay=60)
    result = run("purge", queue.name, "--yes")
    assert result.lines == [f"purged 3 messages of {queue.name!r}"]
    assert queue.stats().total == 0
    assert queue.stats().sent == 3


def test_purge_of_a_state_leaves_the_others(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    queue.send("b", delay=60)
    assert run("purge", queue.name, "--state", "delayed", "-y").lines == [
        f"purged 1 delayed message of {queue.name!r}"
    ]
    assert run("purge", queue.name, "--state", "ready", "-y", "--json").object == {
        "queue": queue.name,
        "purged": 1,
    }


def test_purge_and_delete_refuse_where_nobody_can_be_asked(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    result = run("purge", queue.name)
    assert result.status == 64
    assert result.err == (
        f"error: nobody is there to ask: say --yes to throw away 1 message of {queue.name!r}\n"
    )
    assert run("delete", queue.name).err == (
        f"error: nobody is there to ask: say --yes to delete {queue.name!r} with 1 message in it\n"
    )
    assert queue.stats().ready == 1


@pytest.mark.parametrize(("answer", "status", "left"), [(b"n\n", 1, 1), (b"y\n", 0, 0)])
@pytest.mark.slow
def test_purge_asks_on_a_terminal(
    start: Start, queue: holdfast.Queue, answer: bytes, status: int, left: int
) -> None:
    queue.send("a")
    parent, child = pty.openpty()
    process = start("purge", queue.name, stdin=child)
    os.write(parent, answer)
    out, err = process.communicate(timeout=60)
    os.close(child)
    os.close(parent)
    assert process.returncode == status
    assert err.decode() == f"Throw away 1 message of {queue.name!r}? [y/N]: "
    assert out == (b"" if left else f"purged 1 message of {queue.name!r}\n".encode())
    assert queue.stats().ready == left


def test_delete_takes_the_queue_away(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    assert run("delete", queue.name, "--yes").lines == [f"deleted {queue.name!r} and 1 message"]
    assert queue.name not in run("queues").lines
    assert run("delete", queue.name, "--yes").status == 3


def test_delete_in_json_says_how_many_messages_went(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many(["a", "b"])
    assert run("delete", queue.name, "-y", "--json").object == {
        "deleted": queue.name,
        "messages": 2,
    }


@pytest.mark.parametrize("verb", ["purge", "delete", "redrive", "inspect", "resume"])
def test_a_queue_that_is_not_there_is_an_error_exit_3(run: Run, verb: str) -> None:
    result = run(verb, "no-such-queue", *(["-y"] if verb in ("purge", "delete") else []))
    assert result.status == 3
    assert result.err.startswith("error: there is no queue 'no-such-queue'; ")


# ---- pause and resume ---------------------------------------------------------------------


def test_pause_and_resume_say_what_they_did(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    assert run("pause", queue.name).lines == [f"{queue.name!r} is paused until you resume it"]
    assert queue.receive() is None
    assert run("resume", queue.name).lines == [f"{queue.name!r} is resumed"]
    assert run("resume", queue.name).lines == [f"{queue.name!r} was not paused"]
    assert queue.receive() is not None


def test_pause_for_a_time_ends_by_itself(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    result = run("pause", queue.name, "--for", "300ms")
    assert result.out.startswith(f"{queue.name!r} is paused until ")
    assert wait_until(queue.receive, timeout=30, what="the end of the pause")


def test_pause_until_a_time(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    found = run("pause", queue.name, "--until", "2100-01-31T09:00Z", "--json").object
    assert found == {"queue": queue.name, "paused": True, "until": "2100-01-31T09:00:00+00:00"}
    assert run("resume", queue.name, "--json").object == {
        "queue": queue.name,
        "paused": False,
        "was_paused": True,
    }


def test_pause_of_a_queue_nobody_ever_used_asks_whether_the_name_is_right(
    run: Run, queue: holdfast.Queue
) -> None:
    result = run("pause", queue.name)
    assert result.status == 0
    assert result.err == f"nothing was ever sent to {queue.name!r}: is the name right?\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--for", "1", "--until", "2100-01-01"], "give --for or --until, not both"),
        (["--until", "2001-01-01"], "--until: '2001-01-01' is past"),
        (["--for", "999999999d"], "--for: '999999999d' is too long"),
    ],
)
def test_pause_refuses_what_makes_no_sense(run: Run, words: list[str], complaint: str) -> None:
    result = run("pause", "q", *words)
    assert (result.status, result.err) == (64, f"error: {complaint}\n")


# ---- configure ----------------------------------------------------------------------------


def test_configure_without_options_shows_the_settings(run: Run, queue: holdfast.Queue) -> None:
    result = run("configure", queue.name)
    shown = {line.split()[0]: line.split()[1] for line in result.lines[3:] if line.strip()}
    assert shown["lease"] == "30"
    assert shown["max_receives"] == "5"
    assert shown["journal"] == "off"
    of_topics = {"peer_timeout", "retention"}
    assert set(shown) == set(holdfast.Settings.__dataclass_fields__) - of_topics
    assert result.err == (
        "nobody has set the lease: what MQ.POP takes is leased until settled\n"
        f"defaults: nothing was ever sent to or set on {queue.name!r}\n"
    )


def test_configure_of_a_topic_shows_and_changes_what_topics_have(
    run: Run, queue: holdfast.Queue
) -> None:
    result = run("configure", queue.name, "--topic", "--set", "retention=1d", "--json")
    [shown] = result.objects
    assert (shown["topic"], shown["retention"]) == (queue.name, 86_400)
    assert shown["peer_timeout"] == 30
    assert "shards" not in shown
    assert run("configure", queue.name, "--set", "retention=1d").status == 64
    assert run("configure", queue.name, "--topic", "--set", "shards=2").status == 64


def test_configure_changes_what_is_named_and_keeps_the_rest(
    run: Run, queue: holdfast.Queue
) -> None:
    result = run(
        "configure", queue.name, "--lease", "5m", "--max-receives", "3", "--ttl", "1d", "--delay", "0",
        "--max-length", "10", "--journal", "on", "--set", "overflow=drop_oldest",
        "--set", "dedup-window=1h", "--json",
    )  # fmt: skip
    found = result.object
    assert found["lease"] == 300
    assert found["max_receives"] == 3
    assert found["ttl"] == 86_400
    assert found["max_length"] == 10
    assert found["overflow"] == "drop_oldest"
    assert found["dedup_window"] == 3600
    assert found["journal"] is True
    assert found["group_limit"] == 1
    settings = queue.settings()
    assert (settings.lease, settings.journal) == (300, True)


def test_configure_none_clears_a_setting(run: Run, queue: holdfast.Queue) -> None:
    queue.configure(max_receives=3, ttl=60)
    found = run(
        "configure", queue.name, "--max-receives", "none", "--set", "ttl=none", "--json"
    ).object
    assert (found["max_receives"], found["ttl"]) == (None, None)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["--set", "foo=1"],
            "there is no setting 'foo'; there are: lease, max_receives, delay, ttl, max_length, "
            "overflow, dedup_window, journal, journal_length, aging, group_limit, shards",
        ),
        (["--set", "foo"], "--set: 'foo' is not name=value"),
        (["--max-receives", "many"], "max_receives: 'many' is not a whole number"),
        (["--max-receives", "0"], "max_receives must be from 1 to 2147483648, not 0"),
        (["--journal", "perhaps"], "journal: 'perhaps' is neither on nor off"),
        (["--set", "overflow=spill"], "overflow must be 'reject' or 'drop_oldest', not 'spill'"),
        (["--set", "delay=none"], "delay must be seconds or a timedelta, not NoneType None"),
        (
            ["--lease", "long"],
            "lease: 'long' is not a duration; write seconds (5, 0.5) or 250ms, 30s, 5m, 2h, 1d",
        ),
    ],
)
def test_configure_refuses_what_makes_no_sense(
    run: Run, queue: holdfast.Queue, words: list[str], complaint: str
) -> None:
    result = run("configure", queue.name, *words)
    assert (result.status, result.err) == (64, f"error: {complaint}\n")


# ---- redrive ------------------------------------------------------------------------------


def test_redrive_makes_dead_letters_ready_again(run: Run, queue: holdfast.Queue) -> None:
    bury(queue, "x", "y")
    assert run("redrive", queue.name).lines == [f"redrove 2 dead letters of {queue.name!r}"]
    assert [m.body for m in queue.inspect("ready")] == [b"x", b"y"]
    assert run("redrive", queue.name).lines == [f"redrove 0 dead letters of {queue.name!r}"]


def test_redrive_up_to_a_count(run: Run, queue: holdfast.Queue) -> None:
    first, _ = bury(queue, "x", "y")
    assert run("redrive", queue.name, "-n", "1", "--json").object == {
        "queue": queue.name,
        "redriven": [first],
        "would_redrive": [],
        "not_dead": [],
    }


def test_redrive_by_reason_and_attribute(run: Run, queue: holdfast.Queue) -> None:
    bury(queue, "late payment", "broken", attributes={"country": "NL"})
    bury(queue, "late delivery", attributes={"country": "DE"})
    run("redrive", queue.name, "--reason", "late", "--attribute", "country=NL")
    assert [m.body for m in queue.inspect("ready")] == [b"late payment"]


def test_redrive_dry_run_says_which_and_changes_nothing(run: Run, queue: holdfast.Queue) -> None:
    ids = bury(queue, "x", "y")
    result = run("redrive", queue.name, "--dry-run")
    assert result.lines == ids
    assert result.err == f"would redrive 2 dead letters of {queue.name!r}; nothing was changed\n"
    assert run("redrive", queue.name, "--dry-run", "--json").object["would_redrive"] == ids
    assert queue.stats().dead == 2


def test_redrive_by_id_says_which_were_not_dead_and_exits_with_3(
    run: Run, queue: holdfast.Queue
) -> None:
    [dead] = bury(queue, "x")
    alive = str(queue.send("y"))
    result = run("redrive", queue.name, "--id", dead, "--id", alive)
    assert (result.status, result.lines) == (3, [f"redrove 1 dead letter of {queue.name!r}"])
    assert result.err == f"not a dead letter: {alive}\n"


def test_redrive_at_a_rate_says_when_the_last_is_ready(run: Run, queue: holdfast.Queue) -> None:
    bury(queue, "x", "y")
    assert run("redrive", queue.name, "--rate", "0.1").lines == [
        f"redrove 2 dead letters of {queue.name!r}, 0.1 a second: the last is ready in 20 s"
    ]
    assert queue.stats().dead == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--count", "0"], "count must be from 1 to 2147483648, not 0"),
        (
            ["--rate", "0"],
            "rate must be a number more than 0 and at most a million a second, not 0.0",
        ),
        (["--attribute", "x"], "--attribute: 'x' is not name=value"),
        (
            ["--id", "x"],
            "'x' is not a message id; ids look like 1599352749159-4, or 1599352749159-4-2",
        ),
    ],
)
def test_redrive_refuses_what_makes_no_sense(
    run: Run, queue: holdfast.Queue, words: list[str], complaint: str
) -> None:
    queue.send("x")
    result = run("redrive", queue.name, *words)
    assert (result.status, result.err) == (64, f"error: {complaint}\n")
