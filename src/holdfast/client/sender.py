"""A name under which sends are numbered, so that the engine can tell a repetition."""

from __future__ import annotations

from typing import NamedTuple


class Sender:
    """Used by one call at a time; `number` grows with each."""

    __slots__ = ("name", "number")

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0


class CallName(NamedTuple):
    """One call of a sender's; `again`: it was made before, and may have been carried out."""

    sender: str
    number: int
    again: bool = False
