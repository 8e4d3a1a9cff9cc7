"""Random lives, played through by a plain state machine that writes the journal as it goes along.

The bookkeeping here is deliberately another than the report's: it adds up time while it passes, message
by message, where the report looks back at events with window functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.spark.jobs.stories import Said, moment, story

MAX_RECEIVES = 4
LEASE = 30.0
FAR = 1_000_000.0
COUNTED = (
    *("deliveries", "retries", "deaths", "redriven"),
    *("nacked", "lease_ended", "recovered", "released", "buried"),
    *("delayed_ms", "time_in_queue_ms", "time_in_hand_ms"),
)


@dataclass
class Played:
    """One message on its way. `life` is what the report must find."""

    random: Random
    now: float
    said: list[Said] = field(default_factory=list)
    receives: int = 0
    life: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def say(self, event: str, **more: Any) -> None:
        self.said.append(Said(event, self.now, self.receives, **more))

    def pass_time(self, seconds: float, where: str) -> None:
        self.now = round(self.now + seconds, 3)
        self.life[where] += round(seconds * 1000)

    def wait(self, event: str, reason: str = "") -> bool:
        """Put where it waits, with or without a delay. False if that was the end of it."""
        stays = self.random.random() < 0.04
        delay = self.random.choice((0.0, 0.0, FAR if stays else 5.0))
        self.say(event, reason=reason, due=self.now + delay if delay else None)
        if stays:
            return self.end("delayed" if delay else "ready", settled=False)
        if delay and self.random.random() < 0.2:
            self.pass_time(1.0, "delayed_ms")
            self.say("rescheduled", due=self.now + 8)
            delay = 8.0
        self.pass_time(delay, "delayed_ms")
        self.pass_time(self.random.choice((0.0, 0.25, 40.0)), "time_in_queue_ms")
        for event, chance in (("expired", 0.03), ("dropped", 0.03), ("removed", 0.03)):
            if self.random.random() < chance:
                self.say(event)
                return self.end(event)
        return True

    def deliver(self) -> bool:
        """One delivery. False if it was the last thing that happened."""
        self.say("received", lease=LEASE)
        self.life["deliveries"] += 1
        if self.random.random() < 0.04:
            return self.end("leased", settled=False)
        how = self.random.choice(
            ("acked", "acked", "acked", "nacked", "lease_ended", "released", "recovered", "buried")
        )
        if how == "lease_ended":
            self.pass_time(LEASE + self.random.choice((0.0, 3.0)), "time_in_hand_ms")
        else:
            self.pass_time(self.random.choice((0.0, 0.5, 10.0)), "time_in_hand_ms")
        if how == "acked":
            self.say("acked")
            return self.end("acked")
        if how == "released":
            self.life["released"] += 1
            return self.wait_again("")
        self.receives += 1
        if how == "buried":
            self.life["buried"] += 1
            return self.die(f"reason {self.random.randrange(3)}")
        if self.receives >= MAX_RECEIVES:
            # The journal does not tell a recovered last try from a nacked one.
            self.life["lease_ended" if how == "lease_ended" else "nacked"] += 1
            return self.die("max_receives")
        self.life[how] += 1
        self.life["retries"] += 1
        words = {"lease_ended": "the lease ended without an ack", "recovered": "recovered"}
        return self.wait_again(words.get(how, self.random.choice(("", "boom"))))

    def wait_again(self, reason: str) -> bool:
        return self.wait("requeued", reason)

    def die(self, reason: str) -> bool:
        self.say("dead", reason=reason)
        self.life["deaths"] += 1
        self.life |= {"dead_reason": reason, "settled_at": moment(self.now), "outcome": "dead"}
        while self.random.random() < 0.3:
            self.now += 2
            self.say("dead_received", lease=LEASE)
            self.now += 2
            if self.random.random() < 0.3:
                self.say("acked")
                return self.end("acked")
            self.say("dead", reason="returned")
        if self.random.random() < 0.5:
            return False
        self.now += 10
        self.receives = 0
        self.life["redriven"] += 1
        return self.wait("redriven")

    def end(self, outcome: str, *, settled: bool = True) -> bool:
        self.life |= {"outcome": outcome, "settled_at": moment(self.now) if settled else None}
        return False

    def play(self) -> None:
        self.life |= {"sent_at": moment(self.now), "complete": True, "dead_reason": None}
        going = self.wait("sent")
        while going:
            going = self.deliver()


def tell(messages: int, seed: int) -> tuple[list[dict[str, Any]], dict[tuple[str, str], Any]]:
    """Shuffled rows of events, and the life expected for each (queue, id)."""
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    lives: dict[tuple[str, str], Any] = {}
    for i in range(messages):
        queue, name = f"q{i % 3}", f"{i}-0"
        played = Played(random, now=float(i % 100))
        played.play()
        lives[queue, name] = played.life
        rows += story(queue, *played.said, id=name)
    random.shuffle(rows)
    return rows, lives
