"""The border query: only what enters or leaves a box."""
