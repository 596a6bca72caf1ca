"""Shards apart from each other: how events and changes are spread over them, and how they last.

What the Spark runtime runs, without Spark: routing, packing, and shards whose state is a few values
of bytes in whatever store the runtime gives.
"""
