"""The full cycle by batch size, one panel per durability mode, as a picture for the README."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.about import About
from benchmarks.cycle import LISTS, OURS, STREAMS, CycleResult

_LOOKS = {
    LISTS: ("#8a8f98", "o", "raw lists: RPUSH + LPOP (no ack)"),
    STREAMS: ("#c9822b", "s", "raw Streams: XADD + XREADGROUP + XACK + XDEL"),
    OURS: ("#1f6feb", "D", "Holdfast: send + receive + ack"),
}


def draw(result: CycleResult, about: About, where: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    modes = list(dict.fromkeys(row.mode for row in result.rows))
    figure, panels = pyplot.subplots(
        1, len(modes), figsize=(11, 5), sharey=True, squeeze=False, layout="constrained"
    )
    for panel, mode in zip(panels[0], modes, strict=True):
        _panel(panel, result, mode)
    panels[0][0].set_ylabel("messages per second, full cycle")
    figure.suptitle(
        "Sent, received and acknowledged: messages per second by batch size\n",
        fontsize=14,
        fontweight="bold",
    )
    figure.text(
        0.5,
        0.925,
        f"100-byte bodies, one client process, {about.server}, {about.cores} cores",
        fontsize=10,
        color="#555555",
        ha="center",
    )
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    figure.savefig(where, dpi=140, facecolor="white")
    pyplot.close(figure)


def _panel(panel: Any, result: CycleResult, mode: str) -> None:
    rows = [row for row in result.rows if row.mode == mode]
    batches = [row.batch for row in rows]
    for side, (colour, marker, label) in _LOOKS.items():
        rates = [row.rounds.per_second(side) for row in rows]
        panel.plot(
            batches,
            rates,
            color=colour,
            marker=marker,
            markersize=7,
            linewidth=3 if side == OURS else 2,
            label=label,
            zorder=3 if side == OURS else 2,
        )
        if side == OURS:
            for batch, rate in zip(batches, rates, strict=True):
                panel.annotate(
                    _short(rate),
                    (batch, rate),
                    textcoords="offset points",
                    xytext=(-7, 9),
                    ha="right",
                    color=colour,
                    fontsize=10,
                    fontweight="bold",
                )
    what = {"fast": "fsync each second", "durable": "fsync before each answer"}
    panel.set_title(f"{mode}: {what.get(mode, '')}", fontsize=12)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(batches, [f"{batch:,}" for batch in batches])
    panel.set_xlim(min(batches) * 0.3, max(batches) * 1.5)
    panel.minorticks_off()
    panel.yaxis.set_major_formatter(lambda value, _: _short(value))
    panel.set_xlabel("messages per call")
    panel.grid(True, which="major", color="#e3e5e8", linewidth=0.8)
    panel.set_axisbelow(True)
    for edge in ("top", "right"):
        panel.spines[edge].set_visible(False)


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    return f"{value / 1000:.3g} k" if value >= 1000 else f"{value:.3g}"
