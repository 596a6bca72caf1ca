"""How far a query is."""

from __future__ import annotations

import numpy as np

from everquery.kinds.answer import Asked, AskedQuery


def progress(asked: Asked, query: AskedQuery) -> int:
    """Return how many events a query has seen."""
    return int(asked.index.state(np.array([query.slot], np.int32))["seen"][0])
