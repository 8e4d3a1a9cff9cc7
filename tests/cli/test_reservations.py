"""holdfast reservations: what readers hold, and giving it back."""

from __future__ import annotations

import holdfast
from tests.cli.conftest import Run


def test_list_shows_who_holds_how_many_messages(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many([b"x"] * 5)
    queue.reserve("archive-1", 1, [3])
    result = run("reservations", "list", queue.name)
    assert result.status == 0
    [line] = [line for line in result.lines if "archive-1" in line]
    assert line.split()[:6] == [queue.name, "archive-1", "1", "0", "3", "yes"]
    assert line.split()[-1] == "never"


def test_list_for_scripts_names_every_queue_and_subscription(
    run: Run, queue: holdfast.Queue, client: holdfast.Client
) -> None:
    queue.send(b"x")
    queue.reserve("one", 1, [1], ttl=60)
    topic = client.topic(f"t-{queue.name}"[:100])
    topic.subscribe("c", peer="p")
    topic.publish(b"x")
    topic.subscription("c", peer="p").reserve("two", 1, [1])
    found = {each["owner"]: each for each in run("reservations", "list", "--json").objects}
    assert found["one"]["queue"] == queue.name
    assert found["one"]["messages"] == 1
    assert found["one"]["ends"]
    assert found["two"]["queue"] == f"{topic.name}/c/p"
    assert found["two"]["ends"] is None
    topic.delete()


def test_list_says_so_when_nothing_is_reserved(run: Run, queue: holdfast.Queue) -> None:
    queue.send(b"x")
    result = run("reservations", "list", queue.name)
    assert (result.out, result.status) == ("", 0)
    assert "nothing is reserved" in result.err


def test_release_gives_one_reservation_back_and_leaves_the_others(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send_many([b"x"] * 5)
    queue.reserve("me", 1, [2])
    queue.reserve("me", 2, [1])
    result = run("reservations", "release", queue.name, "me", "2", "--yes", "--json")
    assert result.object == {"queue": queue.name, "owner": "me", "seq": 2, "released": 1}
    assert (queue.stats().ready, queue.stats().reserved) == (3, 2)
    assert "gave 2 messages back" in run("reservations", "release", queue.name, "me", "-y").out
    assert queue.stats().ready == 5


def test_release_asks_first_and_says_what_it_means(run: Run, queue: holdfast.Queue) -> None:
    queue.send(b"x")
    queue.reserve("me", 1, [1])
    result = run("reservations", "release", queue.name, "me")
    assert result.status == 64
    assert "may have reached its target already" in result.err
    assert "--yes" in result.err
    assert queue.stats().reserved == 1


def test_release_of_what_nobody_holds_changes_nothing(run: Run, queue: holdfast.Queue) -> None:
    queue.send(b"x")
    queue.reserve("me", 1, [1])
    result = run("reservations", "release", queue.name, "you", "--yes")
    assert result.status == 3
    assert "no reservation of 'you'" in result.err
    assert run("reservations", "release", queue.name, "me", "7", "--yes").status == 3
    assert queue.stats().reserved == 1


def test_release_knows_subscriptions(
    run: Run, client: holdfast.Client, queue: holdfast.Queue
) -> None:
    topic = client.topic(f"t-{queue.name}"[:100])
    seat = topic.subscribe("c")
    topic.publish(b"x")
    seat.reserve("me", 1, [1])
    words = ("reservations", "release", topic.name, "me", "--subscription", "c", "--yes")
    assert run(*words).status == 0
    assert seat.stats().ready == 1
    topic.delete()
