"""What processes that plan for Spark share: each source has one, and it is started with the query.

What such a process imports delays the first batch, so modules of sources import what they need for
offsets and nothing that runs queries.
"""

from __future__ import annotations

import os
import sys


def end_quietly() -> None:
    """End this process, if Spark has closed the socket to it.

    Spark ends a source so. Python would then try to report that end through the same socket, and
    print three tracebacks with every query's end.
    """
    if isinstance(sys.exception(), (EOFError, ConnectionError)):
        sys.stderr.flush()
        os._exit(0)
