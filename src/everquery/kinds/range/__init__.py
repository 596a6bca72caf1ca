"""The range query: every event inside a box."""
