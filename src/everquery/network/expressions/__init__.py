"""SQL expressions over Arrow columns: read by sqlglot, typed before they run, vectorised."""
