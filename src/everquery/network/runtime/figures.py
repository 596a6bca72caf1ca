"""What a box has done so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Figures:
    """Calls, rows and time of a box."""

    calls: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0

    @property
    def selectivity(self) -> float | None:
        """Rows out for each row in; None before any."""
        return self.rows_out / self.rows_in if self.rows_in else None

    @property
    def cost(self) -> float | None:
        """Seconds for each row in; None before any."""
        return self.seconds / self.rows_in if self.rows_in else None
