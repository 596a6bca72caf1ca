"""The terms of a run that keeps time: how much the machine does, and what it may leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everquery.errors import InvalidNetworkError
from everquery.network.analysis.check import check_terms

if TYPE_CHECKING:
    from everquery.network.model import Network


@dataclass(frozen=True)
class Terms:
    """How a network runs against time.

    Parameters
    ----------
    capacity : float
        Seconds of work in a second: 1 is one core.
    headroom : float
        The share of it that may be used in the long run.
    shed : bool
        Whether load is shed when outputs are late.
    costs : mapping of str to float, optional
        Seconds for each row into a box. Without a clock, work takes this long.
    selectivities : mapping of str to float, optional
        Rows out for each row in; measured without it.
    rates : mapping of str to float, optional
        Rows a second that are expected of each stream: what is too much is shed from the start, and
        `shed: never` is refused where it can't be kept.
    clock : function, optional
        Returns the time in seconds, such as `time.monotonic`. Without it time goes by the calls.
    interval : float
        Seconds between two looks at the load.
    patience, calm : int
        So many intervals of trouble before load is shed, and of peace before it is taken back.
    train : int
        The most rows that a box takes at once.
    queue_rows : int
        The rows that a queue keeps in memory; the rest is on disk.
    """

    capacity: float = 1.0
    headroom: float = 1.0
    shed: bool = False
    costs: Mapping[str, float] | None = None
    selectivities: Mapping[str, float] | None = None
    rates: Mapping[str, float] | None = None
    clock: Callable[[], float] | None = None
    interval: float = 1.0
    patience: int = 2
    calm: int = 5
    train: int = 1 << 16
    queue_rows: int = 1_000_000

    @staticmethod
    def read(network: Network, given: Mapping[str, Any]) -> Terms:
        """Return terms from what `Network.start` was given.

        Raises
        ------
        InvalidNetworkError
            If one is unknown, or out of its range.
        """
        known = Terms.__dataclass_fields__
        unknown = [name for name in given if name not in known]
        if unknown:
            raise InvalidNetworkError(
                f"a run has no {unknown[0]!r}; it has optimize, {', '.join(known)}"
            )
        terms = Terms(**given)
        check_terms(network, terms.rates or {}, terms.costs or {}, terms.capacity, terms.headroom)
        if terms.clock is None and terms.costs is None:
            raise InvalidNetworkError(
                "a run with a capacity has a clock or costs: give `clock=time.monotonic` to run"
                " against the machine's clock, or `costs` in seconds a row, so that time goes by"
                " the calls"
            )
        if not terms.interval > 0:
            raise InvalidNetworkError(f"interval is {terms.interval!r}; it is above 0, in seconds")
        for name in ("patience", "calm", "train", "queue_rows"):
            if not isinstance(getattr(terms, name), int) or getattr(terms, name) < 1:
                raise InvalidNetworkError(f"{name} is {getattr(terms, name)!r}; it is at least 1")
        return terms
