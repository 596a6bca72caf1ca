"""Structures of the papers that everquery measures itself against, and does not use."""
