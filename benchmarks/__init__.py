"""Benchmarks: the papers' figures and the asked speed and size, with peers in the same run."""
