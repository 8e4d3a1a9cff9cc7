"""holdfast inspect."""

from __future__ import annotations

import pytest

import holdfast
from tests.cli.conftest import Run


@pytest.fixture
def mixed(queue: holdfast.Queue) -> holdfast.Queue:
    """A queue with one message in each state."""
    queue.send("dead one", priority=3, attributes={"k": "v"})
    delivery = queue.receive()
    assert delivery
    delivery.bury("no such customer")
    queue.send("leased one", priority=2)
    queue.receive()
    queue.send("delayed one", delay=3600)
    queue.send("ready one", group="eu")
    return queue


def test_inspect_shows_messages_of_all_states(run: Run, mixed: holdfast.Queue) -> None:
    result = run("inspect", mixed.name)
    assert (result.status, result.err) == (0, "")
    rows = {row.split()[1]: row for row in result.lines[3:] if row.strip()}
    assert list(rows) == ["ready", "delayed", "leased", "dead"]
    assert "ready one" in rows["ready"]
    assert " eu " in rows["ready"]
    assert "due in 60 min" in rows["delayed"]
    assert "lease ends in " in rows["leased"]
    assert "no such customer" in rows["dead"]
    assert "died " in rows["dead"]


def test_inspect_in_json_prints_an_object_per_message(run: Run, mixed: holdfast.Queue) -> None:
    found = {m["state"]: m for m in run("inspect", mixed.name, "--json").objects}
    assert found["ready"]["group"] == "eu"
    assert found["delayed"]["due"] > found["delayed"]["sent_at"]
    assert found["leased"]["received_at"] < found["leased"]["lease_until"]
    assert found["dead"]["death"]["reason"] == "no such customer"
    assert found["dead"]["receives"] == 1


def test_inspect_of_one_state_pages_with_start_and_count(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many([f"m{n}" for n in range(20)])
    page = run("inspect", queue.name, "ready", "--start", "5", "-n", "2", "--json")
    assert [m["body"] for m in page.objects] == ["m5", "m6"]
    last = run("inspect", queue.name, "ready", "--start", "-2", "--json")
    assert [m["body"] for m in last.objects] == ["m18", "m19"]
    assert run("inspect", queue.name, "ready").err == "10 of 20; --count shows more\n"


def test_inspect_of_one_group_shows_what_waits_in_it(run: Run, queue: holdfast.Queue) -> None:
    for body, group in (("a", "x"), ("b", "y"), ("c", "x")):
        queue.send(body, group=group)
    result = run("inspect", queue.name, "--group", "x", "--json")
    assert [m["body"] for m in result.objects] == ["a", "c"]


def test_inspect_of_one_message_shows_all_there_is_to_know(run: Run, mixed: holdfast.Queue) -> None:
    [dead] = mixed.inspect("dead")
    result = run("inspect", mixed.name, "--id", dead.id)
    shown = dict(line.rstrip().split("  ", 1) for line in result.lines)
    shown = {name: value.strip() for name, value in shown.items()}
    assert shown["id"] == dead.id
    assert shown["state"] == "dead"
    assert shown["attribute k"] == "v"
    assert shown["died of"] == "no such customer"
    assert shown["body, 8 bytes"] == "dead one"
    assert run("inspect", mixed.name, "--id", dead.id, "--json").object["id"] == dead.id


def test_inspect_of_a_long_body_shows_its_start_on_one_line(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send("ä\n" * 1000)
    [row] = [line for line in run("inspect", queue.name).lines if "ready" in line]
    assert row.rstrip().endswith("ä\\nä\\n…")


def test_inspect_of_an_empty_state_says_so(run: Run, queue: holdfast.Queue) -> None:
    queue.send("x")
    assert run("inspect", queue.name, "dead").err == f"no dead messages in {queue.name!r}\n"
    queue.purge()
    assert run("inspect", queue.name).err == f"no messages in {queue.name!r}\n"


def test_inspect_remove_takes_a_message_away(run: Run, queue: holdfast.Queue) -> None:
    keep, drop, other = queue.send_many(["keep", "drop", "other"])
    assert run("inspect", queue.name, "--remove", drop, "--yes").lines == [f"removed {drop}"]
    assert run("inspect", queue.name, "--remove", other, "-y", "--json").object == {
        "removed": other
    }
    assert [m.id for m in queue.inspect("ready")] == [keep]


def test_inspect_remove_asks_first(run: Run, queue: holdfast.Queue) -> None:
    id_ = queue.send("keep")
    result = run("inspect", queue.name, "--remove", id_)
    assert result.status == 64
    assert result.err == (
        "error: nobody is there to ask: say --yes to "
        f"remove the ready message {id_} from {queue.name!r}\n"
    )
    assert queue.stats().ready == 1


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (
            ["--id", "1-1"],
            3,
            "no message 1-1 in {!r}: it was acked, expired, removed or never sent",
        ),
        (
            ["--remove", "1-1", "-y"],
            3,
            "no message 1-1 in {!r}: it was acked, expired, removed or never sent",
        ),
        (["--id", "1-1", "--remove", "1-1"], 64, "give --id or --remove, not both"),
        (["--start", "3"], 64, "--start needs a STATE: positions are counted within one"),
        (["dead", "--group", "g"], 64, "--group is for ready messages; leave 'dead' out"),
        (["--count", "0"], 64, "count must be from 1 to 2147483648, not 0"),
    ],
)
def test_inspect_refuses_what_makes_no_sense(
    run: Run, queue: holdfast.Queue, words: list[str], status: int, complaint: str
) -> None:
    queue.send("x")
    result = run("inspect", queue.name, *words)
    assert (result.status, result.err) == (status, f"error: {complaint.format(queue.name)}\n")


def test_inspect_names_the_states_there_are(run: Run, queue: holdfast.Queue) -> None:
    queue.send("x")
    result = run("inspect", queue.name, "dying")
    assert result.status == 64
    assert "'dying'" in result.err
    assert "ready" in result.err
