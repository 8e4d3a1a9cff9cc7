"""The total-queue checker: everything that was stored must come out, once, in order, to one holder at a time.

It reads histories and knows nothing of servers. A send without an answer may have been done or not; both
are fine, and it counts for nothing here, unless its message comes out twice under two ids.

    lost         stored for sure; nobody ever had it, and it is not in the queue either
    stuck        still in the queue when all is healed and drained; or dead, and seen by nobody
    unexpected   came out, or is there at the end, and was never sent
    doubled      one send, two messages
    returned     came out again after its ack was confirmed
    holders      two had it at a time, each within its lease; or two deliveries of it were both acked
    disorder     a message of a group came out after a later one
    hung         a call that did not come back in the time that its settings permit
    foreign      an error that is not a HoldfastError, wherever it came up
    silence      seconds that a producer went unserved beyond those that a raw probe did, past the limit
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tools.torture.history import Event

KINDS = (
    "lost",
    "stuck",
    "unexpected",
    "doubled",
    "returned",
    "holders",
    "disorder",
    "hung",
    "foreign",
    "silence",
)
# The server counts leases in whole ms, and two clocks are read one after the other.
_BLINK = 0.02


@dataclass(frozen=True)
class Rules:
    """What histories are held to.

    `excused`: kinds that nothing promises here. `failover`: a send that is under way may be repeated at
    another server than the one that did it. `forgets`: seconds before a fault whose messages may be lost.
    `silence`: seconds that service may be away for longer than the probe's; None: not looked at.
    """

    excused: frozenset[str] = frozenset()
    failover: bool = False
    forgets: float = 0.0
    silence: float | None = None

    @property
    def unjudged(self) -> list[str]:
        """Kinds that cannot be found here, whatever happens."""
        away = self.excused | ({"silence"} if self.silence is None else set())
        return [kind for kind in KINDS if kind in away]


@dataclass
class Verdict:
    offered: int = 0
    stored: int = 0
    delivered: int = 0
    redelivered: int = 0
    found: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    forgotten: int = 0
    silence: float | None = None
    probe_silence: float | None = None

    @property
    def good(self) -> bool:
        return not self.found

    def blame(self, kind: str, what: str) -> None:
        self.found[kind] += 1
        if len(self.examples[kind]) < 3:
            self.examples[kind].append(what)


def check(events: Iterable[Event], rules: Rules | None = None) -> Verdict:
    rules = rules or Rules()
    everything = sorted(events, key=lambda event: event.t)
    verdict = Verdict()
    faults = [event.t for event in everything if event.kind == "fault"]
    places: dict[str, _Place] = {}
    for event in everything:
        if event.kind == "error":
            verdict.errors[f"{event.who.partition('/')[0]} {event.text}"] += 1
        elif event.kind in ("hung", "foreign"):
            verdict.blame(event.kind, f"{event.who}: {event.text}")
        elif event.place:
            places.setdefault(event.place, _Place(event.place)).take(event)
    for place in places.values():
        place.judge(verdict, rules, faults)
    if faults:
        _judge_silence(everything, faults[0], verdict, rules)
    for kind in rules.excused:
        verdict.found.pop(kind, None)
    return verdict


@dataclass
class _Claim:
    """One delivery: from when until when its taker held it for sure."""

    receipt: str
    start: float
    end: float


class _Place:
    """A queue, or one subscription of a topic."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._offered: dict[str, Event] = {}
        self._stored: dict[str, Event] = {}
        self._got: list[Event] = []
        self._settling: dict[str, float] = {}
        self._acked: dict[str, dict[str, float]] = defaultdict(dict)
        self._left: dict[str, str] = {}
        self._ids: dict[str, set[str]] = defaultdict(set)

    def take(self, event: Event) -> None:
        if event.id:
            self._ids[event.body].add(event.id)
        match event.kind:
            case "offered":
                self._offered.setdefault(event.body, event)
            case "stored":
                self._stored.setdefault(event.body, event)
            case "got":
                self._got.append(event)
            case "settling":
                self._settling.setdefault(event.receipt, event.t)
            case "acked":
                self._acked[event.id].setdefault(event.receipt, event.t)
            case "left":
                self._left[event.body] = event.text

    def judge(self, verdict: Verdict, rules: Rules, faults: Sequence[float]) -> None:
        seen = Counter(event.body for event in self._got)
        verdict.offered += len(self._offered)
        verdict.stored += len(self._stored)
        verdict.delivered += len(seen)
        verdict.redelivered += seen.total() - len(seen)
        for body, event in self._stored.items():
            if body in seen:
                continue
            if body in self._left:
                verdict.blame(
                    "stuck", f"{self._name}: {body} is {self._left[body]}, seen by nobody"
                )
            elif rules.forgets and any(
                self._offered[body].t <= fault <= event.t + rules.forgets for fault in faults
            ):
                verdict.forgotten += 1
            else:
                verdict.blame("lost", f"{self._name}: {body} ({event.id}, by {event.who})")
        for body, state in self._left.items():
            if state != "dead" and (body in seen or body not in self._stored):
                verdict.blame("stuck", f"{self._name}: {body} is still {state}")
        for body in seen.keys() | self._left.keys():
            if body not in self._offered:
                verdict.blame("unexpected", f"{self._name}: {body!r}")
        for body, ids in self._ids.items():
            if len(ids) == 1 or body not in self._offered:
                continue
            if not (rules.failover and self._taken_while_sent(body, faults)):
                verdict.blame("doubled", f"{self._name}: {body} as {' and '.join(sorted(ids))}")
        self._judge_holders(verdict)
        self._judge_order(verdict)

    def _taken_while_sent(self, body: str, faults: Sequence[float]) -> bool:
        """Whether each message but the one that its sender was told of was taken while the send was still
        under way, and a fault had been done: a primary that is lost handed it out, and its successor knows
        nothing of it."""
        told = self._stored.get(body)
        end = told.t if told else math.inf
        taken = [e for e in self._got if e.body == body and (told is None or e.id != told.id)]
        first = {e.id: e.t for e in reversed(taken)}
        return (
            self._ids[body] - first.keys() <= {told.id if told else ""}
            and all(t < end for t in first.values())
            and any(fault < end for fault in faults)
        )

    def _judge_holders(self, verdict: Verdict) -> None:
        claims: dict[str, list[_Claim]] = defaultdict(list)
        for event in self._got:
            if event.left is not None and event.left <= 0:
                continue  # it came too late, and its taker knows
            for receipt, done in self._acked.get(event.id, {}).items():
                if receipt != event.receipt and event.t > done:
                    verdict.blame("returned", f"{self._name}: {event.body} ({event.id})")
            if event.left is not None:
                end = min(
                    event.t + event.left, self._settling.get(event.receipt, event.t + event.left)
                )
                claims[event.id].append(_Claim(event.receipt, event.t, end))
        for message, held in claims.items():
            for one, other in pairwise(sorted(held, key=lambda claim: claim.start)):
                if one.receipt != other.receipt and other.start < one.end - _BLINK:
                    verdict.blame(
                        "holders", f"{self._name}: {message} for {one.receipt} and {other.receipt}"
                    )
        for message, receipts in self._acked.items():
            if len(receipts) > 1:
                verdict.blame(
                    "holders", f"{self._name}: {message} acked by {' and '.join(receipts)}"
                )

    def _judge_order(self, verdict: Verdict) -> None:
        """Sends without an answer may have been done at any time, and are left out."""
        order = {
            body: n
            for n, body in enumerate(sorted(self._stored, key=lambda b: self._offered[b].t))
            if self._stored[body].group
        }
        last: dict[str, tuple[int, str]] = {}
        for event in self._got:
            if event.body not in order or (event.left is not None and event.left <= 0):
                continue
            group, n = self._stored[event.body].group, order[event.body]
            if group in last and n < last[group][0]:
                verdict.blame("disorder", f"{self._name}: {event.body} after {last[group][1]}")
            last[group] = max(last.get(group, (n, event.body)), (n, event.body))


def longest_gap(times: Iterable[float], start: float, end: float) -> float:
    """The longest time in which nothing happened."""
    points = [start, *sorted(t for t in times if start < t < end), end]
    return max(b - a for a, b in pairwise(points))


def _judge_silence(events: Sequence[Event], start: float, verdict: Verdict, rules: Rules) -> None:
    end = next((event.t for event in events if event.kind == "calm"), None)
    served = [event.t for event in events if event.kind == "served"]
    if end is None or end <= start:
        return
    by_producer: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.kind == "stored":
            by_producer[event.who].append(event.t)
    gaps = {who: longest_gap(times, start, end) for who, times in by_producer.items()}
    if not gaps:
        return
    probe = longest_gap(served, start, end) if served else 0.0
    # Nobody is served who needs more than one key of a slot that is at two nodes.
    left = [event.t for event in events if event.kind == "leaves"]
    arrived = [event.t for event in events if event.kind == "arrives"]
    probe = max([probe, *(there - gone for gone, there in zip(left, arrived, strict=False))])
    verdict.probe_silence = probe
    verdict.silence = max(gaps.values())
    if rules.silence is not None:
        for who, gap in gaps.items():
            if gap > probe + rules.silence:
                verdict.blame("silence", f"{who}: {gap:.1f} s, the probe {probe:.1f} s")
