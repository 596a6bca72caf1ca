"""Arrays, compiled loops, hash tables, bytes: what knows nothing of queries."""
