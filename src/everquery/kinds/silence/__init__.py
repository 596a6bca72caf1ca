"""Silence queries: keys that nothing is heard from."""
