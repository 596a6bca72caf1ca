"""``everquery demo``: a simulated market and its standing queries, on either runtime."""
