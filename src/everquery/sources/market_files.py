"""A simulated market as a growing folder of Parquet files, for whatever follows folders."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from everquery.sources.market import Market

FILES_A_LEVEL = 4


class MarketFiles:
    """Writes the events of a market, file after file.

    A file gets its name when it is complete. Equal markets give equal files.

    Parameters
    ----------
    folder : Path
    market : Market
    events : int
        A file.
    fluctuations : tuple of float
        Levels that take turns, four files each.
    most : int, optional
        How many events there are in all.

    Attributes
    ----------
    written : int
        Events so far.
    files : int
    """

    def __init__(
        self,
        folder: Path,
        market: Market,
        *,
        events: int,
        fluctuations: tuple[float, ...],
        most: int | None = None,
    ) -> None:
        self._folder = folder
        self._market = market
        self._events = events
        self._fluctuations = fluctuations
        self._most = most
        self.written = 0
        self.files = 0
        self._forgotten = 0

    @property
    def done(self) -> bool:
        """Whether there are no more events."""
        return self._most is not None and self.written >= self._most

    @property
    def fluctuation(self) -> float:
        """The level of the next file."""
        return self._fluctuations[self.files // FILES_A_LEVEL % len(self._fluctuations)]

    def write(self) -> Path:
        """Write the next file."""
        size = self._events
        if self._most is not None:
            size = min(size, self._most - self.written)
        batch = self._market.batch(size, fluctuation=self.fluctuation)
        path = self._path(self.files)
        unfinished = path.with_name(f".{path.name}")
        # Prices are all different: looking for a dictionary would take most of the time.
        pq.write_table(
            pa.Table.from_batches([batch]),
            unfinished,
            compression="none",
            use_dictionary=["symbol"],
            write_statistics=False,
        )
        unfinished.rename(path)
        self.written += size
        self.files += 1
        return path

    def forget(self, events: int, kept: int) -> None:
        """Remove the files of the first events, but for the last so many of these."""
        last = events // self._events - kept
        while self._forgotten < last:
            self._path(self._forgotten).unlink(missing_ok=True)
            self._forgotten += 1

    def newest(self, most: int) -> list[Path]:
        """Return the last files that there are, at most so many."""
        first = max(self._forgotten, self.files - most)
        return [self._path(number) for number in range(first, self.files)]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06}.parquet"
