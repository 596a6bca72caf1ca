"""Where events come from: for now, a simulated market."""

from everquery.sources.market import Market, market_queries, market_stream, query_ids

__all__ = ["Market", "market_queries", "market_stream", "query_ids"]
