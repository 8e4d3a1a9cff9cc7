"""The checker finds each fault in a history that has it, and nothing in one that has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.torture.checker import KINDS, Rules, check, longest_gap
from tools.torture.history import Event, History, Kind, read


def event(t: float, kind: Kind, **said: str | float) -> Event:
    return Event(t, kind, **{"place": "q", "body": "a", "id": "1-1"} | said)  # type: ignore[arg-type]


def sound() -> list[Event]:
    """One message sent, taken, acked."""
    return [
        event(1, "offered", id=""),
        event(2, "stored", who="p"),
        event(3, "got", receipt="1-1@1", left=4.0),
        event(4, "settling", receipt="1-1@1"),
        event(5, "acked", receipt="1-1@1"),
    ]


def grouped(*got: str) -> list[Event]:
    """Two messages of one group, stored in order, and what came out."""
    offered = [event(n, "offered", body=body, id="", group="g") for n, body in enumerate("ab", 1)]
    stored = [
        event(n + 0.1, "stored", body=body, id=f"1-{n}", group="g")
        for n, body in enumerate("ab", 1)
    ]
    return [*offered, *stored] + [
        event(
            10 + t,
            "got",
            body=body,
            id=f"1-{'ab'.index(body) + 1}",
            receipt=f"{body}@{t}",
            left=0.5,
        )
        for t, body in enumerate(got)
    ]


FAULTY: dict[str, list[Event]] = {
    "lost": sound()[:2],
    "stuck": [*sound()[:2], event(9, "left", text="dead")],
    "unexpected": sound()[2:],
    "doubled": [*sound(), event(9, "got", id="1-2", receipt="1-2@2", left=1.0)],
    "returned": [*sound(), event(9, "got", receipt="1-1@2", left=1.0)],
    "holders": [*sound()[:3], event(3.5, "got", receipt="1-1@2", left=1.0)],
    "disorder": grouped("b", "a"),
    "hung": [*sound(), Event(9, "hung", who="p")],
    "foreign": [*sound(), Event(9, "foreign", who="p", text="TypeError")],
    "silence": [
        *sound(),
        Event(6, "fault"),
        Event(7, "served"),
        Event(8, "served"),
        Event(9, "calm"),
    ],
}


def test_a_sound_history_is_good() -> None:
    verdict = check(sound(), Rules(silence=2))
    assert verdict.good
    assert (verdict.offered, verdict.stored, verdict.delivered, verdict.redelivered) == (1, 1, 1, 0)


def test_a_slot_that_moves_key_by_key_is_served_by_nobody_meanwhile() -> None:
    silent = FAULTY["silence"]
    leaves, arrives = Event(6.2, "leaves"), Event(8.5, "arrives")
    assert not check(silent, Rules(silence=1)).good
    verdict = check([*silent[:-1], leaves, arrives, silent[-1]], Rules(silence=1))
    assert verdict.good
    assert verdict.probe_silence == pytest.approx(2.3)


def sent_again(taken: float, fault: float = 1.5) -> list[Event]:
    """Taken as 1-0, while its sender is told only later, of 1-1."""
    first = event(taken, "got", id="1-0", receipt="1-0@1", left=0.1)
    return [Event(fault, "fault"), *sound(), first]


def test_a_message_that_a_lost_primary_handed_out_while_it_was_sent_may_come_again() -> None:
    assert check(sent_again(taken=1.8), Rules(failover=True)).good
    assert check(sent_again(taken=1.2), Rules(failover=True)).good


@pytest.mark.parametrize(
    ("history", "failover"),
    [
        (sent_again(taken=1.8), False),
        (sent_again(taken=2.5), True),
        (sent_again(taken=1.8, fault=2.5), True),
        (sent_again(taken=1.8)[1:], True),
        ([*sent_again(taken=1.8), event(9, "left", id="1-2", text="dead")], True),
    ],
    ids=["no failover", "taken later", "fault later", "no fault", "left, and never taken"],
)
def test_any_other_message_of_the_same_send_is_one_too_many(
    history: list[Event], failover: bool
) -> None:
    assert check(history, Rules(failover=failover)).found["doubled"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_is_found_and_only_that(kind: str) -> None:
    verdict = check(FAULTY[kind], Rules(silence=1))
    assert dict(verdict.found) == {kind: 1}
    assert verdict.examples[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_what_nothing_promises_is_no_fault(kind: str) -> None:
    assert check(FAULTY[kind], Rules(frozenset({kind}), silence=1)).good


def test_a_send_without_an_answer_may_be_there_or_not() -> None:
    assert check(sound()[:1]).good
    assert check([sound()[0], *sound()[2:]]).good


def test_what_comes_twice_before_its_ack_is_redelivered_and_no_fault() -> None:
    again = event(8, "got", receipt="1-1@2", left=1.0)
    verdict = check([*sound()[:3], again])
    assert verdict.good
    assert verdict.redelivered == 1


def test_a_delivery_that_arrives_after_its_lease_claims_nothing() -> None:
    assert check([*sound(), event(9, "got", receipt="1-1@0", left=-0.5)]).good


def test_two_deliveries_of_one_message_cannot_both_be_acked() -> None:
    late = [event(8, "got", receipt="1-1@2", left=1.0), event(9, "acked", receipt="1-1@2")]
    verdict = check([*sound()[:3], *late, event(9.5, "acked", receipt="1-1@1")])
    assert dict(verdict.found) == {"holders": 1}


def test_a_message_that_is_still_ready_is_stuck_though_somebody_saw_it() -> None:
    assert check([*sound()[:3], event(9, "left", text="leased")]).found == {"stuck": 1}
    assert check([*sound()[:3], event(9, "left", text="dead")]).good


def test_what_is_found_in_the_queue_and_nobody_sent_is_unexpected() -> None:
    assert check([*sound(), event(9, "left", body="?", text="dead")]).found == {"unexpected": 1}


def test_a_server_may_forget_its_last_second_and_no_more() -> None:
    stored = sound()[:2]
    assert check([*stored, Event(2.5, "fault")], Rules(forgets=1)).forgotten == 1
    assert check([*stored, Event(2.5, "fault")], Rules(forgets=1)).good
    assert check([*stored, Event(4, "fault")], Rules(forgets=1)).found == {"lost": 1}


def test_what_was_under_way_at_a_fault_is_lost_like_anything_else() -> None:
    offered, stored = sound()[:2]
    fault = Event((offered.t + stored.t) / 2, "fault")
    assert check([offered, fault, stored]).found == {"lost": 1}
    assert check([offered, fault, stored], Rules(forgets=1)).forgotten == 1
    early = Event(offered.t - 0.01, "fault")
    assert check([early, offered, stored], Rules(forgets=1)).found == {"lost": 1}


def test_groups_are_judged_by_what_was_confirmed() -> None:
    unsure = [e for e in grouped("b", "a") if not (e.kind == "stored" and e.body == "a")]
    assert check(unsure).good
    assert check(grouped("a", "a", "b")).good


@pytest.mark.parametrize(
    ("times", "gap"), [([], 10.0), ([2.0, 3.0], 7.0), ([5.0], 5.0), ([-1.0, 11.0], 10.0)]
)
def test_the_longest_gap_counts_the_ends_too(times: list[float], gap: float) -> None:
    assert longest_gap(times, 0, 10) == gap


def test_histories_of_several_processes_are_read_in_order_of_time(tmp_path: Path) -> None:
    one, two = History(tmp_path / "one.jsonl"), History(tmp_path / "two.jsonl")
    one.note("offered", who="p", place="q", body="a")
    two.note("got", place="q", body="a", id="1-1", receipt="1-1@1", left=2.5)
    one.note("calm")
    one.close()
    two.close()
    found = list(read(tmp_path))
    assert [e.kind for e in found] == ["offered", "got", "calm"]
    assert found[1].left == 2.5
