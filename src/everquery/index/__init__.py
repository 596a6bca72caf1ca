"""One file a structure: its arrays and its loops."""
