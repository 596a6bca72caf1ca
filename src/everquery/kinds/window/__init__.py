"""The window kind: statistics of the last rows, or of the last stretch of time."""
