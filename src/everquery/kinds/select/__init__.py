"""The select query: columns or aggregates over past and future events, read on demand."""
