"""Registries for tests: one that is not there is never made by the way."""

from everquery.registry import Registry


def new_registry(url):
    """Make a registry, and return its URL."""
    Registry(url, create=True).close()
    return url
