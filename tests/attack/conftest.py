"""A PostgreSQL server, as the integration tests start one."""

from tests.integration.conftest import postgres

__all__ = ["postgres"]
