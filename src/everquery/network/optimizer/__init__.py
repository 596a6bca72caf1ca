"""Networks that do the same with less work."""
