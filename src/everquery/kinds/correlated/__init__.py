"""Correlated queries: an aggregate of the events whose attribute relates to its own extreme."""
