"""An engine and its registry's log."""

import pytest

import everquery as eq

STREAM = eq.Stream("s", key="k", attributes=["x"])


def test_a_registry_that_is_older_than_the_engine(tmp_path):
    ahead = eq.Engine(STREAM, registry=f"sqlite:///{tmp_path / 'a.db'}", create=True)
    ahead.register(eq.Range("z", {}))
    behind = eq.Engine(STREAM, registry=f"sqlite:///{tmp_path / 'b.db'}", create=True)
    behind.restore(ahead.snapshot())
    with pytest.raises(eq.RegistryError, match="stands at position 1"):
        behind.register(eq.Range("new", {}))
