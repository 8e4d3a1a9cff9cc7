from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from holdfast import Client, InvalidArgument
from holdfast.engine import tasks
from holdfast.engine.keys import FlowRef, suffixed
from holdfast.engine.tasks import Joined
from tests.raw import Raw
from tests.servers import wait_until

_numbers = itertools.count(1)


class Flow:
    def __init__(self, hf: Client, name: str) -> None:
        self.ref = FlowRef(name)
        self._run = hf.transport.run

    def open(self, gate: str, total: int, rest: bytes = b"rest", keep: float = 60) -> bool:
        return self._run(tasks.open_join(self.ref, gate, total, rest, keep))

    def join(self, gate: str, index: int, result: bytes, keep: float = 60) -> Joined:
        return self._run(tasks.join(self.ref, gate, index, result, keep))


@pytest.fixture
def flow(hf: Client) -> Flow:
    return Flow(hf, f"flow {{{next(_numbers)}}}")


@pytest.mark.slow
def test_the_last_who_comes_is_told_everything_in_order(flow: Flow) -> None:
    assert flow.open("g", 3, b"what follows")
    assert flow.join("g", 2, b"c") == Joined(2, b"", [])
    assert flow.join("g", 0, b"a") == Joined(1, b"", [])
    assert flow.join("g", 1, b"b") == Joined(0, b"what follows", [b"a", b"b", b"c"])


def test_one_who_comes_twice_counts_once_and_its_first_result_stays(flow: Flow) -> None:
    flow.open("g", 2)
    assert flow.join("g", 0, b"first").missing == 1
    assert flow.join("g", 0, b"second").missing == 1
    assert flow.join("g", 1, b"x").results == [b"first", b"x"]


def test_once_all_are_there_each_repetition_is_told_the_same(flow: Flow) -> None:
    flow.open("g", 2)
    flow.join("g", 0, b"a")
    told = flow.join("g", 1, b"b")
    assert flow.join("g", 1, b"other") == flow.join("g", 0, b"other") == told


def test_a_gate_that_is_there_stays_as_it_is(flow: Flow) -> None:
    assert flow.open("g", 1, b"one")
    assert not flow.open("g", 2, b"two")
    assert flow.join("g", 0, b"a") == Joined(0, b"one", [b"a"])
    assert not flow.open("g", 2, b"two")


def test_gates_of_a_flow_and_flows_are_apart(hf: Client, flow: Flow) -> None:
    other = Flow(hf, flow.ref.name + "x")
    for one, gate in ((flow, "g"), (flow, "h"), (other, "g")):
        assert one.open(gate, 1, gate.encode())
    assert flow.join("g", 0, b"1").results == [b"1"]
    assert flow.join("h", 0, b"2").results == [b"2"]
    assert other.join("g", 0, b"3").results == [b"3"]


def test_a_gate_for_nobody_can_be_opened(flow: Flow) -> None:
    assert flow.open("g", 0)
    with pytest.raises(InvalidArgument, match="index must be"):
        flow.join("g", 0, b"x")


def test_a_gate_that_was_never_opened_is_an_error_and_leaves_nothing(flow: Flow, raw: Raw) -> None:
    with pytest.raises(InvalidArgument, match="there is no gate g: it was never opened"):
        flow.join("g", 0, b"x")
    assert not raw("EXISTS", suffixed(flow.ref.key, "gate", "g"))


def test_a_gate_ends_by_itself_counted_from_the_last_who_came(flow: Flow, raw: Raw) -> None:
    where = suffixed(flow.ref.key, "gate", "g")
    flow.open("g", 2, keep=100)
    assert 90_000 < raw("PTTL", where) <= 100_000
    flow.join("g", 0, b"a", keep=500)
    assert 490_000 < raw("PTTL", where) <= 500_000
    flow.join("g", 1, b"b", keep=0.05)
    wait_until(lambda: not raw("EXISTS", where), what="the gate to end")
    with pytest.raises(InvalidArgument, match="there is no gate"):
        flow.join("g", 1, b"b")


@pytest.mark.only("standalone", "redis7", reason="thousands of calls")
def test_thousands_can_join(flow: Flow) -> None:
    flow.open("g", 2500)
    for n in range(2499, 0, -1):
        assert flow.join("g", n, b"%d" % n).missing == n
    assert flow.join("g", 0, b"0").results == [b"%d" % n for n in range(2500)]


@pytest.mark.slow
def test_any_bytes_can_be_results_and_rest(flow: Flow) -> None:
    flow.open("g", 2, bytes(range(256)))
    flow.join("g", 0, b"")
    assert flow.join("g", 1, bytes(range(256))) == Joined(
        0, bytes(range(256)), [b"", bytes(range(256))]
    )


Wrong = Callable[[Flow], object]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda f: f.open("", 1), "a gate must have 1 to 200"),
        (lambda f: f.open("g", -1), "total must be from 0 to 100000"),
        (lambda f: f.open("g", 100_001), "total must be from 0 to 100000"),
        (lambda f: f.open("g", 1, keep=0), "keep must be from 0.001"),
        (lambda f: f.join("g", -1, b""), "index must be from 0"),
        (lambda f: f.join("g", 0, b"", keep=0), "keep must be from 0.001"),
    ],
)
def test_what_cannot_be_is_refused(flow: Flow, call: Wrong, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        call(flow)


def test_an_index_past_the_total_is_refused_and_changes_nothing(flow: Flow) -> None:
    flow.open("g", 2)
    with pytest.raises(InvalidArgument, match="index must be a whole number from 0 to 1"):
        flow.join("g", 2, b"x")
    assert flow.join("g", 0, b"a").missing == 1
