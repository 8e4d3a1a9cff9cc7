"""The bars: what we promise about speed and memory, as comparisons that can fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Bar:
    name: str
    measured: float
    relation: Literal["≥", "≤"]
    limit: float
    unit: str = "×"
    aim: float | None = None

    @property
    def passed(self) -> bool:
        """False as well where nothing sensible was measured (NaN)."""
        if self.relation == "≥":
            return self.measured >= self.limit
        return self.measured <= self.limit


def flat(name: str, ratio: float, tolerance: float) -> Bar:
    """A ratio that should be one. It can fail on either side."""
    return Bar(name, abs(ratio - 1) * 100, "≤", tolerance * 100, "% off")
