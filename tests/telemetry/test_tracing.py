"""Trace context: made, carried, continued; and whatever others put there, harmless."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.tasks.context import Context
from holdfast.tasks.middleware import Sending
from holdfast.telemetry import Propagation, Trace, current_trace
from holdfast.telemetry.trace_context import begin, known, parse
from tests.working import Letter, home, work

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ID = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_trace_context_is_read_as_it_was_written() -> None:
    found = begin().child()
    again = parse(found.traceparent, "vendor=1")
    assert again is not None
    assert (again.trace_id, again.span_id, again.flags) == (found.trace_id, found.span_id, 1)
    assert again.state == "vendor=1"


def test_a_child_stays_in_the_trace_and_names_its_parent() -> None:
    parent = parse(PARENT, "a=b")
    assert parent is not None
    child = parent.child()
    assert (child.trace_id, child.parent_id, child.state) == (ID, "00f067aa0ba902b7", "a=b")
    assert child.span_id != parent.span_id


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    later = parse("cc" + PARENT[2:] + "-what-the-future-brings")
    assert later is not None
    assert later.trace_id == ID
    assert later.traceparent.startswith("00-")


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nonsense",
        "ff" + PARENT[2:],
        PARENT + "-more",
        PARENT.upper(),
        PARENT[:-1],
        PARENT + "\n",
        "00-" + "0" * 32 + PARENT[35:],
        PARENT[:36] + "0" * 16 + "-01",
        PARENT.replace("4", "٤"),
    ],
)
def test_what_is_no_trace_context_is_none(text: str | None) -> None:
    assert parse(text) is None


@given(st.text(), st.text())
def test_no_text_makes_reading_fail(parent: str, state: str) -> None:
    found = parse(parent, state)
    assert found is None or re.fullmatch("[0-9a-f]{32}", found.trace_id)


def test_a_state_longer_than_the_standard_asks_for_is_left_behind() -> None:
    found = parse(PARENT, "a=" + "b" * 600)
    assert found is not None
    assert found.state == ""


def test_what_is_sent_outside_of_a_task_begins_a_trace() -> None:
    first, second = Sending("t", "q", {}), Sending("t", "q", {})
    for sending in (first, second):
        Propagation().sending(sending)
    one, other = parse(first.attributes["traceparent"]), parse(second.attributes["traceparent"])
    assert one is not None
    assert other is not None
    assert one.sampled
    assert one.trace_id != other.trace_id


def test_whether_new_traces_are_recorded_can_be_said() -> None:
    sending = Sending("t", "q", {})
    Propagation(sampled=False).sending(sending)
    assert sending.attributes["traceparent"].endswith("-00")


def test_a_trace_context_that_is_there_already_stays() -> None:
    sending = Sending("t", "q", {"traceparent": PARENT})
    Propagation().sending(sending)
    assert sending.attributes == {"traceparent": PARENT}


@pytest.mark.parametrize("kind", ["loop", "thread"])
def test_a_task_sent_within_a_task_is_its_child(app: holdfast.App, kind: str) -> None:
    app.add(Propagation())
    traces: dict[str, Trace | None] = {}

    @app.task
    def inner() -> None:
        traces["inner"] = current_trace()

    async def on_loop() -> None:
        traces["outer"] = current_trace()
        await inner.send_async()

    def in_thread() -> None:
        traces["outer"] = current_trace()
        inner.send()

    app.task(name="outer")(on_loop if kind == "loop" else in_thread).send()
    work(app, idle=0.3)
    outer, below = traces["outer"], traces["inner"]
    assert outer is not None
    assert below is not None
    assert below.trace_id == outer.trace_id
    assert below.parent_id == outer.span_id
    assert outer.parent_id  # the span that sent it


@pytest.mark.slow
def test_each_attempt_is_a_span_of_its_own_in_one_trace(app: holdfast.App) -> None:
    app.add(Propagation())
    traces: list[Trace] = []

    @app.task(retries=holdfast.Retries(1, first=0.01))
    def fails_once() -> None:
        found = current_trace()
        assert found is not None
        traces.append(found)
        if len(traces) == 1:
            raise ValueError("not yet")

    fails_once.send()
    work(app, idle=0.5)
    first, second = traces
    assert first.trace_id == second.trace_id
    assert first.parent_id == second.parent_id
    assert first.span_id != second.span_id


def test_a_trace_begun_elsewhere_goes_on_with_its_state(app: holdfast.App) -> None:
    app.add(Propagation())
    traces: list[Trace | None] = []
    attributes: list[dict[str, str]] = []

    @app.task
    def inner() -> None:
        traces.append(current_trace())
        attributes.append(holdfast.current().attributes)

    @app.task
    def outer() -> None:
        inner.send()

    home(app).send(
        b'{"task": "outer", "args": {}}',
        attributes={"traceparent": PARENT, "tracestate": "vendor=1", "shop": "lyon"},
    )
    work(app, idle=0.3)
    [found] = traces
    assert found is not None
    assert found.trace_id == ID
    assert attributes[0]["tracestate"] == "vendor=1"


@pytest.mark.parametrize("bad", ["nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\x00"])
def test_a_bad_traceparent_does_not_fail_a_task(app: holdfast.App, bad: str) -> None:
    app.add(Propagation())
    traces: list[Trace | None] = []

    @app.task
    def runs() -> None:
        traces.append(current_trace())

    home(app).send(b'{"task": "runs", "args": {}}', attributes={"traceparent": bad})
    work(app, idle=0.2)
    [found] = traces
    assert found is not None  # a new one
    assert found.parent_id == ""


def test_there_is_no_trace_outside_of_a_task() -> None:
    assert current_trace() is None


def test_an_attempt_has_one_trace_however_often_one_asks() -> None:
    context = Context(Letter(attributes={"traceparent": PARENT}), "t", "q", 1)
    assert known(context) is known(context) is not None
    assert known(Context(Letter(), "t", "q", 1)) is None


def test_the_steps_of_a_flow_are_in_one_trace(app: holdfast.App) -> None:
    app.add(Propagation())
    seen: list[str] = []

    @app.task
    def first() -> int:
        trace = current_trace()
        assert trace is not None
        seen.append(trace.trace_id)
        return 1

    @app.task
    async def second(n: int) -> None:
        trace = current_trace()
        assert trace is not None
        seen.append(trace.trace_id)

    holdfast.chain(first.job(), second.job()).send()
    work(app)
    assert len(seen) == 2
    assert len(set(seen)) == 1
