"""One picture of a whole run: who makes how many rows a second, and what memory does meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.about import About
from benchmarks.rounds import Rounds
from benchmarks.run import Result
from benchmarks.spark import flat, reading, streaming, writing

_OURS, _PLAIN, _SYNTHETIC, _TODAY = "#1f6feb", "#3a3f47", "#c3c8d0", "#c9822b"
_READ = {
    reading.OURS: ("Holdfast batch read", _OURS),
    reading.DRAIN: ("plain Python drain", _PLAIN),
    reading.POPPED: ("LPOP in mapPartitions", _TODAY),
    reading.SYNTHETIC: ("synthetic, no server", _SYNTHETIC),
}
_STREAM = {
    streaming.OURS: ("Holdfast stream", _OURS),
    streaming.POPPED: ("LPOP in a loop, no checkpoint", _TODAY),
    streaming.SYNTHETIC: ("synthetic, no server", _SYNTHETIC),
}
_WRITE = {
    writing.OURS: ("Holdfast writer", _OURS),
    writing.SEND: ("plain Python send_many", _PLAIN),
    writing.PUSHED: ("RPUSH in foreachPartition", _TODAY),
}
_LINES = {flat.DRIVER: _PLAIN, flat.SOURCE: _OURS, flat.WORKERS: _SYNTHETIC, flat.HEAP: _TODAY}


def draw(results: dict[str, Result], about: About, where: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(12, 8), layout="constrained")
    for panel, name in zip(panels.flat, ("reading", "writing", "streaming", "flat"), strict=True):
        result = results.get(name)
        if isinstance(result, reading.ReadingResult):
            _bars(panel, result.rounds, _READ, f"Batch read, {result.rounds.messages:,} messages")
        elif isinstance(result, writing.WritingResult):
            _bars(panel, result.plain, _WRITE, f"Writing {result.plain.messages:,} messages")
        elif isinstance(result, streaming.StreamingResult):
            _groups(panel, result)
        elif isinstance(result, flat.FlatResult):
            _lines(panel, result)
        else:
            panel.set_axis_off()
    figure.suptitle("Queues in Spark: rows per second", fontsize=14, fontweight="bold")
    figure.supxlabel(
        f"100-byte bodies, local[2] and {about.server} on the same {about.cores} cores",
        fontsize=10,
        color="#555555",
    )
    figure.savefig(where, dpi=140, facecolor="white")
    pyplot.close(figure)


def _bars(panel: Any, rounds: Rounds, looks: dict[str, tuple[str, str]], title: str) -> None:
    rates = [rounds.per_second(side) for side in looks]
    labels = [label for label, _ in looks.values()]
    drawn = panel.barh(labels, rates, color=[colour for _, colour in looks.values()], height=0.62)
    panel.bar_label(drawn, [_short(rate) for rate in rates], padding=4, fontweight="bold")
    panel.set_xlim(0, max(rates) * 1.15)
    panel.invert_yaxis()
    panel.xaxis.set_major_formatter(lambda value, _: _short(value))
    _plain(panel, title, "x")


def _groups(panel: Any, result: streaming.StreamingResult) -> None:
    width = 0.8 / len(_STREAM)
    highest = 0.0
    for i, (side, (label, colour)) in enumerate(_STREAM.items()):
        rates = [size.rounds.per_second(side) for size in result.sizes]
        places = [at + (i - 1) * width for at in range(len(rates))]
        drawn = panel.bar(places, rates, width * 0.92, color=colour, label=label)
        panel.bar_label(drawn, [_short(rate) for rate in rates], padding=2, fontsize=8)
        highest = max(highest, *rates)
    panel.set_xticks(
        range(len(result.sizes)),
        [f"{size.rows_per_trigger:,}" for size in result.sizes],
    )
    panel.set_ylim(0, highest * 1.12)
    panel.yaxis.set_major_formatter(lambda value, _: _short(value))
    panel.legend(frameon=False, fontsize=9, loc="upper left")
    _plain(panel, "Stream → Parquet", "y")
    panel.set_xlabel("rows a trigger")


def _lines(panel: Any, result: flat.FlatResult) -> None:
    for what, colour in _LINES.items():
        points = [(s.messages, s.mb[what]) for s in result.samples if what in s.mb]
        if points:
            panel.plot(*zip(*points, strict=True), color=colour, linewidth=2, label=what)
    panel.set_ylim(bottom=0)
    panel.xaxis.set_major_formatter(lambda value, _: _short(value))
    panel.set_ylabel("MB")
    panel.legend(frameon=False, fontsize=9, ncols=2, loc="upper left")
    panel.set_ylim(top=panel.get_ylim()[1] * 1.25)
    _plain(panel, f"Memory over {result.messages:,} messages", "y")


def _plain(panel: Any, title: str, axis: str) -> None:
    panel.set_title(title, fontsize=12, loc="left")
    panel.grid(True, axis=axis, color="#e3e5e8", linewidth=0.8)
    panel.set_axisbelow(True)
    for edge in ("top", "right"):
        panel.spines[edge].set_visible(False)


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    return f"{value / 1000:.3g} k" if value >= 1000 else f"{value:.3g}"
