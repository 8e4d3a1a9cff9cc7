"""One picture of a whole run: a small panel per figure, the same order of sides in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.about import About
from benchmarks.peers.figures import Measured, PeersResult
from benchmarks.peers.laps import RATE
from benchmarks.peers.sides import OURS

_OURS, _PEER, _NO_ACK = "#1f6feb", "#8a8f98", "#e8c9a0"

Panel = tuple[str, dict[str, float], bool]
"""Title, a value per side, whether more is better."""


def draw(result: PeersResult, about: About, where: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    order = [name for name, _ in result.ordered()]
    figure, panels = pyplot.subplots(2, 3, figsize=(13, 8), layout="constrained")
    for panel, found in zip(panels.flat, _figures(result), strict=True):
        _bars(panel, result, order, *found)
    figure.suptitle("Task queues on one Valkey, no-op tasks", fontsize=14, fontweight="bold")
    figure.legend(
        handles=[
            Patch(color=_OURS, label="Holdfast"),
            Patch(color=_PEER, label="peer whose task survives kill -9 of the worker"),
            Patch(color=_NO_ACK, label="peer that loses it"),
        ],
        title=f"logarithmic scales · {about.server}, TCP on loopback, {about.cores} cores for all",
        title_fontproperties={"size": 10},
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    figure.savefig(where, dpi=140, facecolor="white")
    pyplot.close(figure)


def _figures(result: PeersResult) -> list[Panel]:
    def each(of: Any) -> dict[str, float]:
        return {name: of(side) for name, side in result.sides.items()}

    def lap(name: str) -> dict[str, float]:
        return each(lambda side: side.of(lambda lap: getattr(lap, name)))

    def cpu(side: Measured) -> float:
        return side.of(lambda lap: lap.worker_us + lap.server_us)

    return [
        ("Drained by one worker process, tasks/s", lap("drain"), True),
        ("Sent in bulk, tasks/s", lap("bulk"), True),
        ("Sent one by one, tasks/s", lap("single"), True),
        (f"Latency, p99 at {RATE}/s, ms", lap("p99_ms"), False),
        ("Server memory per queued task, bytes", each(lambda s: s.bytes_per_task), False),
        ("CPU per task, worker and server, µs", each(cpu), False),
    ]


def _bars(
    panel: Any, result: PeersResult, order: list[str], title: str, of: dict[str, float], more: bool
) -> None:
    values = [of[name] for name in order]
    drawn = panel.barh(order, values, color=[_colour(result, n) for n in order], height=0.7)
    panel.bar_label(drawn, [_short(value) for value in values], padding=3, fontsize=9)
    panel.set_xscale("log")
    low, high = min(values), max(values)
    panel.set_xlim(low / 2.5, high * 4)
    panel.invert_yaxis()
    panel.set_title(title, fontsize=11, loc="left")
    panel.set_xlabel("more is better" if more else "less is better", fontsize=9, color="#555555")
    panel.xaxis.set_major_formatter(lambda value, _: _short(value))
    panel.minorticks_off()
    panel.grid(True, axis="x", color="#e3e5e8", linewidth=0.8)
    panel.set_axisbelow(True)
    for label in panel.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == OURS else "normal")
    for edge in ("top", "right"):
        panel.spines[edge].set_visible(False)


def _colour(result: PeersResult, name: str) -> str:
    if name == OURS:
        return _OURS
    crash = result.sides[name].crash
    return _PEER if crash is None or crash.survives else _NO_ACK


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    return f"{value / 1000:.3g} k" if value >= 1000 else f"{value:.3g}"
