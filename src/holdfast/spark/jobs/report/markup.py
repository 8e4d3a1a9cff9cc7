"""Markup in which nothing can be smuggled: what is not made by `tag` is text, and text is escaped.

Queue names, reasons and ids are whatever their senders chose. A template with places to escape has
places to forget it; here a forgotten one shows up as visible `&lt;`, never as an element.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = {"meta", "br"}


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Any text at all, for an element's inside or an attribute's value."""
    if isinstance(value, Markup):
        return value
    seen = "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in value
    )
    return Markup(html.escape(seen, quote=True))


def join(inside: object) -> Markup:
    """Text, markup, or any nesting of lists of them. None is nothing."""
    if inside is None:
        return Markup("")
    if isinstance(inside, str):
        return text(inside)
    if isinstance(inside, Iterable):
        return Markup("".join(join(each) for each in inside))
    return text(str(inside))


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element. Attributes: `class_` for class, `data_v` for data-v; None leaves one out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(inside)}</{name}>")


def _plain(value: object) -> str:
    """Numbers short: an SVG has thousands of them."""
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else str(value)
