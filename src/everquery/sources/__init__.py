"""Where events come from: a simulated market, files, pipes."""

from everquery.sources.market import (
    Market,
    market_queries,
    market_stream,
    query_ids,
    query_numbers,
    repeats,
)
from everquery.sources.market_files import MarketFiles

__all__ = [
    "Market",
    "MarketFiles",
    "market_queries",
    "market_stream",
    "query_ids",
    "query_numbers",
    "repeats",
]
