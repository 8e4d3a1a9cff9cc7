"""A short scenario of each kind of fault, on real servers under load; and a control, in which the same
checker must find what is lost.

`make torture SEEDS=20` runs all there are, with doors and workers in front. How long service is away is
judged there only: here the machine is busy with other tests.
"""

from __future__ import annotations

import pytest

from tools.torture import scenarios
from tools.torture.run import Outcome
from tools.torture.runner import Runner

pytestmark = pytest.mark.slow

SHORT = {
    "kill": "cluster.kill",
    "pause": "sentinel.pause",
    "partition": "cluster.partition",
    "migration": "cluster.migration",
    "promotion": "cluster.promotion",
    "power cut": "single.power",
}


def tortured(name: str) -> Outcome:
    scenario = scenarios.named(name)
    if scenario.lacks:
        pytest.skip(scenario.lacks)
    outcome = Runner(bare=True).run(scenario, seed=1)
    assert not outcome.broken, outcome.broken
    assert outcome.faults
    assert outcome.stored > 100
    return outcome


@pytest.mark.parametrize("name", SHORT.values(), ids=SHORT)
def test_every_promise_is_kept_under(name: str) -> None:
    outcome = tortured(name)
    found = {kind: n for kind, n in outcome.found.items() if kind != "silence"}
    assert found == {}, f"{outcome.examples} after {outcome.faults}; again: {outcome.command}"


def test_the_control_loses_messages_and_the_checker_says_so() -> None:
    outcome = tortured("control.no-replicas")
    assert outcome.good
    assert outcome.found["lost"] > 0
