"""Scheduling: queues that spill, trains of rows, and which output is served first."""
