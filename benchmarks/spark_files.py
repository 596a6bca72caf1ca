"""Files of a market that several jobs read, under as many names as they need."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Scale
from benchmarks.markets import Market


class Stock:
    """The feed of a market, written once, in files of the same number of rows."""

    def __init__(self, folder: Path, market: Market, rows: int, scale: Scale) -> None:
        self._folder, self._folders = folder, 0
        stock = folder / "stock"
        stock.mkdir()
        batches = (strings for _, strings, _ in market.batches())
        self.files = []
        for number in range(scale.pick(12, 4)):
            path = stock / f"{number}.parquet"
            table = pa.Table.from_batches(list(islice(batches, rows // market.batch)))
            shares = np.random.default_rng(number).integers(1, 200, table.num_rows)
            table = table.select(["symbol", "price"]).append_column("shares", pa.array(shares))
            pq.write_table(table, path, row_group_size=rows // 4)
            self.files.append(path)

    def folder_of(self, triggers: int, *, few: int | None = None) -> Path:
        """Return a new folder with two files a trigger; the stock comes again and again.

        Parameters
        ----------
        few : int, optional
            So many events a trigger, not two whole files.
        """
        folder = self._folder / f"in{self._folders}"
        self._folders += 1
        folder.mkdir()
        head = None if few is None else pq.read_table(self.files[0]).slice(0, few // 2)
        for number in range(2 * triggers):
            path = folder / f"{number:06}.parquet"
            if head is None:
                os.link(self.files[number % len(self.files)], path)
            else:
                pq.write_table(head, path)
            os.utime(path, (number, number))
        return folder
