"""A kind of query that everquery does not know: every n-th event of a key, or of all keys."""
