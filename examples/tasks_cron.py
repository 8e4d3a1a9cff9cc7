"""Schedules: a day of them in a moment, with the clock of the testing kit.

In earnest, `holdfast worker tasks_cron:app` is all there is to do: each tick becomes one task, however many
workers there are.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import holdfast
from holdfast.testing import Kit

app = holdfast.App(queue="example-cron")
ran: Counter[str] = Counter()


@app.cron("*/15 * * * *")
def sweep() -> None:
    ran["sweep"] += 1


@app.cron("0 9 * * mon-fri", tz="Europe/Paris")
def report() -> None:
    ran["report"] += 1


def main() -> None:
    monday = datetime(2026, 3, 30, tzinfo=UTC)
    with holdfast.connect() as hf, Kit(app, hf.url, at=monday) as kit:
        for _ in range(24):
            kit.clock.advance(3600)
            kit.tick_crons()
            kit.run()
        print(f"on {monday:%A}: {ran['sweep']} sweeps, {ran['report']} report")
    print("the next report:", app.crons["report"].next(kit.clock.now))


if __name__ == "__main__":
    main()
