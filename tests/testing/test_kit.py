"""The kit: what was sent, what a real worker makes of it, and time in the hands of the test."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast.engine import calls
from holdfast.engine.keys import QueueRef
from holdfast.errors import InvalidArgument
from holdfast.message import utc
from holdfast.testing import Kit, MakeKit, Ran, Sent
from tests.testing import shop
from tests.testing.shop import Order


@pytest.fixture
def kit(holdfast_kit: MakeKit) -> Kit:
    return holdfast_kit(shop.app)


def test_what_is_sent_is_seen_and_runs_when_the_test_says_so(kit: Kit) -> None:
    handle = shop.welcome.send(42)
    assert kit.sent("welcome") == [Sent("welcome", {"user_id": 42}, "emails")]
    assert handle.status() == "queued"
    assert kit.run() == Ran(succeeded=1)
    assert handle.result(0) == "hi 42"
    assert kit.sent(shop.welcome)[0].id == handle.id
    assert kit.run() == Ran()


def test_a_worker_runs_functions_in_its_threads_and_coroutines_too(kit: Kit) -> None:
    shop.welcome.send(1)
    handle = shop.newsletter.send(2)
    assert kit.run() == Ran(succeeded=2)
    assert handle.result(0) == 2
    assert shop.threads != [threading.get_ident()]


def test_all_ways_to_send_are_seen(kit: Kit) -> None:
    due = kit.clock.at(90)
    shop.welcome.send_at(due, 1)
    shop.welcome.send_in(90, 2)
    shop.welcome.using(priority=7, group="g", queue="vip").send(3)
    shop.welcome.send_many([(4,), {"user_id": 5, "template": "yo"}])
    shop.welcome.send_many([shop.welcome.using(delay=90).job(6)])
    assert kit.sent() == [
        Sent("welcome", {"user_id": 1}, "emails", due),
        Sent("welcome", {"user_id": 2}, "emails", due),
        Sent("welcome", {"user_id": 3}, "vip", priority=7, group="g"),
        Sent("welcome", {"user_id": 4}, "emails"),
        Sent("welcome", {"user_id": 5, "template": "yo"}, "emails"),
        Sent("welcome", {"user_id": 6}, "emails", due),
    ]
    assert kit.run() == Ran(succeeded=3)


def test_tasks_that_tasks_send_run_in_the_same_run(kit: Kit) -> None:
    shop.ship.send(Order(7))
    assert kit.run() == Ran(succeeded=2)
    sent = kit.sent()
    assert [(each.task, each.args) for each in sent] == [
        ("ship", {"order": {"number": 7, "paid": False}}),
        ("welcome", {"user_id": 7}),
        ("welcome", {"user_id": 7, "template": "thanks"}),
    ]
    assert sent[2].due == kit.clock.at(60)


def test_a_task_for_later_runs_when_the_clock_has_moved_so_far_and_not_before(kit: Kit) -> None:
    handle = shop.welcome.send_in(3600, 42)
    kit.clock.advance(3599)
    assert kit.run() == Ran()
    assert handle.status() == "delayed"
    kit.clock.advance(1)
    assert kit.run() == Ran(succeeded=1)
    assert handle.result(0) == "hi 42"


def test_a_queue_that_the_app_did_not_announce_keeps_the_same_time(kit: Kit) -> None:
    shop.welcome.using(queue="elsewhere", delay=10).send(1)
    kit.clock.advance(9.999)
    assert kit.run() == Ran()
    kit.clock.advance(0.001)
    assert kit.run() == Ran(succeeded=1)


def test_a_retry_waits_for_the_clock(kit: Kit) -> None:
    handle = shop.flaky.send(1)
    assert kit.run() == Ran(retried=1)
    assert kit.run() == Ran()
    assert handle.status() == "retrying"
    kit.clock.advance(10)
    assert kit.run() == Ran(succeeded=1)
    assert handle.result(0) == 2


def test_until_done_moves_the_clock_by_itself(kit: Kit) -> None:
    began = kit.clock.now
    handle = shop.flaky.send(2)
    assert kit.run(until_done=True) == Ran(retried=2, succeeded=1)
    assert handle.result(0) == 3
    assert kit.clock.now - began == timedelta(seconds=30)


def test_until_done_leaves_what_is_due_too_late(kit: Kit) -> None:
    began = kit.clock.now
    handle = shop.welcome.send_in(61, 1)
    assert kit.run(until_done=True, within=60) == Ran()
    assert (handle.status(), kit.clock.now) == ("delayed", began)


def test_until_done_gives_up_on_work_without_end(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.testing.steps._MOVES", 3)
    shop.insomniac.send()
    with pytest.raises(InvalidArgument, match="clock was moved 3 times"):
        kit.run(until_done=True)


def test_a_snoozed_task_comes_back_by_the_clock(kit: Kit) -> None:
    handle = shop.nap.send()
    assert kit.run() == Ran(snoozed=1)
    kit.clock.advance(30)
    assert kit.run() == Ran(succeeded=1)
    assert handle.result(0) == "awake"


def test_what_nobody_may_take_is_left_alone(kit: Kit) -> None:
    handle = shop.welcome.send(1)
    kit.queue("emails").pause()
    assert kit.run() == Ran()
    kit.queue("emails").resume()
    assert kit.run() == Ran(succeeded=1)
    assert handle.status() == "succeeded"


def test_dead_letters_tell_why_with_the_traceback_and_all_attempts(kit: Kit) -> None:
    handle = shop.flaky.send(99)
    assert kit.run(until_done=True) == Ran(retried=2, buried=1)
    [dead] = kit.dead()
    assert (dead.task, dead.args, dead.queue) == ("flaky", {"times": 99}, "default")
    assert "failed after 3 attempts: ConnectionError: attempt 3" in dead.reason
    assert dead.trace.rstrip().endswith("ConnectionError: attempt 3")
    assert "in flaky" in dead.trace
    assert [past.error for past in dead.history] == [
        f"ConnectionError: attempt {n}" for n in (1, 2, 3)
    ]
    assert kit.dead("welcome") == []
    with pytest.raises(holdfast.TaskFailed, match="attempt 3"):
        handle.result(0)


def test_a_message_that_is_no_task_is_a_dead_letter_too(kit: Kit) -> None:
    kit.queue("emails").send(b"what is this?")
    kit.queue("emails").send(b'{"task": "goodbye"}')
    assert kit.run() == Ran(buried=2)
    assert [dead.task for dead in kit.dead()] == ["", "goodbye"]
    assert "unknown task 'goodbye'" in kit.dead("goodbye")[0].reason


def test_errors_of_handlers_are_raised_on_request_once_all_has_run(kit: Kit) -> None:
    shop.flaky.send(1)
    handle = shop.welcome.send(1)
    with pytest.raises(ConnectionError, match="attempt 1"):
        kit.run(raise_errors=True)
    assert handle.result(0) == "hi 1"
    kit.run(raise_errors=True)


def test_flows_run_and_their_steps_are_seen(kit: Kit) -> None:
    parts = holdfast.group([shop.add.job(n, 10) for n in range(3)])
    handle = parts.then(shop.total.job()).then(shop.add.job(100)).send()
    assert kit.run() == Ran(succeeded=5)
    assert handle.result(0) == 133
    assert [sent.task for sent in kit.sent()] == ["add", "add", "add", "total", "add"]
    assert kit.sent("total")[0].args == {"numbers": [10, 11, 12]}


def test_crons_are_sent_for_the_time_that_has_passed(holdfast_kit: MakeKit) -> None:
    kit = holdfast_kit(shop.app, at=datetime(2030, 7, 1, 6, 51, tzinfo=UTC))
    assert kit.tick_crons() == []
    kit.clock.advance(600)
    kit.tick_crons()
    kit.run()
    assert sorted(shop.ran) == ["report", "sweep", "sweep"]  # 9:00 in Paris is 7:00 UTC
    assert kit.tick_crons() == []
    kit.clock.set(datetime(2030, 7, 1, 7, 5, tzinfo=UTC))
    assert [handle.task for handle in kit.tick_crons()] == ["sweep"]


def test_a_worker_of_the_kit_sends_no_ticks_by_itself(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def noted(_: object) -> None:
        shop.ran.append("a scheduler")

    monkeypatch.setattr("holdfast.worker.scheduler.serve", noted)
    kit.clock.advance(3600)
    shop.welcome.send(1)
    kit.run()
    assert shop.ran == []
    assert [sent.task for sent in kit.sent()] == ["welcome"]


def test_the_clock_goes_forward_only_and_times_have_zones(kit: Kit, holdfast_kit: MakeKit) -> None:
    with pytest.raises(InvalidArgument, match="forward only"):
        kit.clock.set(kit.clock.now - timedelta(seconds=1))
    with pytest.raises(InvalidArgument, match="time zone"):
        kit.clock.set(datetime(2100, 1, 1))
    with pytest.raises(InvalidArgument, match="seconds"):
        kit.clock.advance(-1)


def test_a_limit_is_kept_and_rates_begin_anew_when_the_clock_moves(
    holdfast_app: holdfast.App, holdfast_kit: MakeKit
) -> None:
    kit = holdfast_kit(holdfast_app)

    @holdfast_app.task(limits=[holdfast.Rate(1, per=3600)])
    def rare() -> None: ...

    rare.send_many([(), (), ()])
    assert kit.run().succeeded == 1
    kit.clock.advance(3600)
    assert kit.run().succeeded == 1


def test_a_task_for_a_process_of_its_own_runs_in_this_one(
    holdfast_app: holdfast.App, holdfast_kit: MakeKit
) -> None:
    kit = holdfast_kit(holdfast_app)

    @holdfast_app.task(run="process")
    def crunch() -> int:
        return os.getpid()

    handle = crunch.send()
    kit.run()
    assert handle.result(0) == os.getpid()


def test_unique_tasks_are_seen_once(holdfast_app: holdfast.App, holdfast_kit: MakeKit) -> None:
    kit = holdfast_kit(holdfast_app)

    @holdfast_app.task(unique="queued")
    def once(n: int) -> None: ...

    assert not once.send(1).duplicate
    assert once.send(1).duplicate
    assert len(kit.sent()) == 1


@pytest.mark.usefixtures("_holdfast_url")
def test_a_kit_needs_no_plugin(holdfast_server: str) -> None:
    with Kit(shop.app, holdfast_server) as kit:
        shop.welcome.send(1)
        assert kit.run() == Ran(succeeded=1)


@pytest.mark.usefixtures("_holdfast_url")
def test_afterwards_the_app_is_as_it_was_and_time_goes_on(holdfast_server: str) -> None:
    before = (shop.app._url, shop.app.connecting, shop.app.connecting_async)
    kit = Kit(shop.app, holdfast_server, at=datetime(2050, 1, 1, tzinfo=UTC))
    shop.flaky.send(1)
    kit.run()
    kit.close()
    assert (shop.app._url, shop.app.connecting, shop.app.connecting_async) == before
    assert not shop.app.stack.listens("failed")
    with holdfast.connect(holdfast_server, check="off") as hf:
        now = hf.transport.run(calls.clock(QueueRef("default"), None))
    assert utc(now).year < 2050
