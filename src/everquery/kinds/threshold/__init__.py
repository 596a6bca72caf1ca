"""The threshold query: the event at which a total is reached."""
