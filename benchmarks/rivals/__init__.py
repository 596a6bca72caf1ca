"""What a user would pick instead: NumPy by hand, Polars, DuckDB; Esper and Flink in `jvm`."""
