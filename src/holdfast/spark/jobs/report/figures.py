"""How numbers and other people's texts are written, the same on the page and on the terminal."""

from __future__ import annotations

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def duration(ms: float) -> str:
    """12 ms · 1.25 s · 42.1 s · 3 m 20 s · 2 h 5 m · 3 d 4 h"""
    ms = round(ms)
    if ms < _SECOND:
        return f"{ms} ms"
    if ms < _MINUTE:
        # Rounded down: 59.99 s is not a minute yet.
        return f"{ms // 10 / 100:.2f} s" if ms < 10 * _SECOND else f"{ms // 100 / 10:.1f} s"
    for above, big, small, letters in (
        (_HOUR, _MINUTE, _SECOND, "ms"),
        (_DAY, _HOUR, _MINUTE, "hm"),
        (None, _DAY, _HOUR, "dh"),
    ):
        if above is None or ms < above:
            rest = ms % big // small
            return f"{ms // big} {letters[0]}" + (f" {rest} {letters[1]}" if rest else "")
    raise AssertionError("unreachable")


def count(n: int) -> str:
    return f"{n:,}"


def short(n: float) -> str:
    """For axes: 950 · 1.2k · 15k · 3M"""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= size:
            return f"{n / size:.3g}{letter}"
    return f"{n:g}"


def several(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def percent(part: int, whole: int) -> str:
    """0.3 % · 12 % · 100 %, and neither 0 nor 100 unless it is exactly that."""
    if not whole or not part:
        return "0 %"
    share = 100 * part / whole
    if part == whole:
        return "100 %"
    if share < 0.1:
        return "< 0.1 %"
    if share > 99.9:
        return "> 99.9 %"
    return f"{share:.1f} %" if share < 10 or share > 99 else f"{share:.0f} %"


def size(n: int) -> str:
    """640 B · 1.5 KB · 20.0 MB"""
    if n < 1024:
        return f"{n} B"
    power = min((n.bit_length() - 1) // 10, 4)
    return f"{n / 1024**power:.1f} {' KMGT'[power]}B"


def shown(text: str, most: int = 160) -> str:
    """Somebody's text on one line: nothing in it controls anything, and it is not too long."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
