"""The select query: columns or aggregates over past and future events, read on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from everquery.errors import InvalidQueryError
from everquery.kinds.select.fitting import (
    NO_TTL,
    bad_groups,
    bad_names,
    bad_telling,
    bad_tellings,
    misfit,
    misfit_of_other,
)
from everquery.kinds.select.plan import Plan, print_plan
from everquery.kinds.select.reader import plan_of
from everquery.kinds.select.windows import misfit_of_times
from everquery.queries.box import Box
from everquery.queries.fields import ChoiceField, TextField, declared
from everquery.queries.numbers import Bools
from everquery.queries.spec import Query, SaidColumns
from everquery.stream import Stream

PLAN = TextField(
    "plan",
    meaning="What is selected, and over which window; the box and the key restrict it further.",
    takes="SELECT ... [WHERE ...] [GROUP BY ...] BEGIN ... END ...",
    in_clause=True,
    example="'SELECT * BEGIN NOW - 1000 ROWS END NOW'",
)
TELL = ChoiceField(
    "tell",
    choices=("nothing", "matches", "changes"),
    meaning="Whether rows are told as they come, or how the answer changes; else it is only read.",
    in_clause=True,
)
UPKEEP = ChoiceField(
    "upkeep",
    choices=("auto", "eager", "lazy"),
    meaning="When rows are matched: as they come and in bulk (auto), also put into the answer"
    " (eager), or when the answer is read (lazy).",
)


@dataclass(frozen=True)
class Select(Query):
    """Select columns or aggregates over a window of past and future events, read on demand.

    Parameters
    ----------
    plan : str
        ``SELECT columns | aggregates [WHERE ...] [GROUP BY ...] BEGIN ... END ...``; of a join,
        ``FROM r, s`` too. ``FROM`` of one stream need not be there; if it is, the query is refused
        on any other. What the condition compares with constants becomes the box and the key.
    box : mapping from attribute to range, optional
    tell : {"nothing", "matches", "changes"}
        Whether each row is told as it comes (event ``match``), or how the answer changes with each
        batch (``insert``, ``delete``, ``update``).
    upkeep : {"auto", "eager", "lazy"}
        When rows are matched.

    Examples
    --------
    >>> Select("s", "SELECT symbol, price WHERE price > 40 BEGIN NOW - 1000 ROWS END NOW").plan
    'SELECT symbol, price BEGIN NOW - 1000 ROWS END NOW'
    """

    box: Mapping[str, Any] = field(default_factory=lambda: Box({}), kw_only=True)
    plan: str = field(metadata=declared(PLAN))
    tell: str = field(default="nothing", kw_only=True, metadata=declared(TELL))
    upkeep: str = field(default="auto", kw_only=True, metadata=declared(UPKEEP))

    kind: ClassVar[str] = "select"

    def __post_init__(self) -> None:
        if isinstance(self.plan, str):
            try:
                self._read_plan()
            except InvalidQueryError as error:
                raise InvalidQueryError(f"query {self.id!r}: {error}") from None
        super().__post_init__()
        reason = bad_telling(self.parsed, self.tell, throttled=self.throttle is not None)
        if reason is None and self.tells_of_several and self.ttl is not None:
            reason = NO_TTL
        if reason:
            raise InvalidQueryError(f"query {self.id!r}: {reason}")

    def _read_plan(self) -> None:
        """Move what the text says of a box and a key there, and write the rest in one way."""
        plan, condition = plan_of(self.plan)
        if condition.box:
            given = Box(self.box)
            twice = sorted(set(given) & set(condition.box))
            if twice:
                raise InvalidQueryError(
                    f"{twice[0]} is restricted by the box and by the plan; say it once"
                )
            object.__setattr__(self, "box", Box({**given, **condition.box}))
        if condition.key is not None:
            if self.key is not None and self.key != condition.key:
                raise InvalidQueryError(
                    f"the key is {self.key!r}, and {condition.key!r} in the plan; give one"
                )
            object.__setattr__(self, "key", condition.key)
        object.__setattr__(self, "plan", print_plan(plan))

    @property
    def parsed(self) -> Plan:
        """The plan, read."""
        return plan_of(self.plan)[0]

    @property
    def tell_matches(self) -> bool:
        """Whether rows are told as they come."""
        return self.tell == "matches"

    @property
    def tell_changes(self) -> bool:
        """Whether it is told how the answer changes."""
        return self.tell == "changes"

    @property
    def upkeep_eager(self) -> bool:
        """Whether the answer is made up as rows come."""
        return self.upkeep == "eager"

    @property
    def upkeep_lazy(self) -> bool:
        """Whether rows are matched when the answer is read."""
        return self.upkeep == "lazy"

    @property
    def looks_across_keys(self) -> bool:
        """Whether this query looks at the events of all keys together."""
        return self.tell_changes and self.key is None

    @classmethod
    def rows_across_keys(cls, keyed: bool, options: Mapping[str, Bools], n: int) -> Bools:
        """Tell which queries of a block of `n` look at the events of all keys together."""
        return np.zeros(n, np.bool_) if keyed else options["tell_changes"].copy()

    def misfit(self, stream: Stream) -> str | None:
        """Return why such a query can't be on the stream, or None."""
        reason = misfit(self.parsed, stream)
        if reason is None and self.tell_changes:
            reason = bad_groups(self.parsed, stream)
        return reason

    def misfit_of_times(self, kind: pa.DataType, stream: Stream) -> str | None:
        """Return why its window can't be one of times of a type, or None."""
        if stream.time is None:
            return None
        return misfit_of_times(self.parsed, kind, stream.time)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that its text names: both of a join."""
        return tuple(source.stream for source in self.parsed.sources)

    def misfit_of_other(self, stream: Stream, first: Stream) -> str | None:
        """Return why the second stream of a join can't be this one, or None."""
        reason = misfit_of_other(self.parsed, stream, first)
        if reason is None and self.tells_of_several:
            reason = bad_names(stream, first)
        return reason

    @property
    def tells_of_several(self) -> bool:
        """Whether it is a join that tells."""
        return self.tell != "nothing" and self.parsed.joins

    @classmethod
    def rows_of_several(
        cls, options: Mapping[str, Bools], texts: Mapping[str, pa.Array], n: int
    ) -> Bools:
        """Tell which queries of a block of `n` are joins that tell."""
        tells: Bools = options["tell_matches"] | options["tell_changes"]
        if not tells.any() or "plan" not in texts:
            return np.zeros(n, np.bool_)
        distinct = texts["plan"].dictionary_encode()
        joins = [text is not None and plan_of(text)[0].joins
                 for text in distinct.dictionary.to_pylist()]  # fmt: skip
        which = np.asarray(distinct.indices.fill_null(len(joins)))
        found: Bools = tells & np.array([*joins, False])[which]
        return found

    @classmethod
    def told_if(cls, options: Mapping[str, Bools]) -> Mapping[str, Bools]:
        """Return which queries of a block tell some events, by event."""
        changes = dict.fromkeys(("insert", "delete", "update"), options["tell_changes"])
        return {"match": options["tell_matches"], **changes}

    @classmethod
    def bad_rows(cls, said: SaidColumns) -> Iterator[tuple[Bools, str]]:
        """Yield which rows of a table can't be for what several columns say together, and why."""
        texts = said.texts["plan"]
        distinct = texts.dictionary_encode()
        which = np.asarray(distinct.indices.fill_null(-1))
        yield which < 0, "plan is null"
        for number, text in enumerate(distinct.dictionary.to_pylist()):
            here = which == number
            try:
                plan, condition = plan_of(text)
            except InvalidQueryError as error:
                yield here, str(error)
                continue
            if condition.box or condition.key is not None:
                yield here, "its plan restricts columns that ranges and the key say in a table"
            elif print_plan(plan) != text:
                yield here, f"plan is not in its usual form, {print_plan(plan)}"
            reason = misfit(plan, said.stream)
            if reason is None and said.time_type is not None and said.stream.time is not None:
                reason = misfit_of_times(plan, said.time_type, said.stream.time)
            if reason:
                yield here, reason
            reason = bad_groups(plan, said.stream)
            if reason:
                yield here & said.options["tell_changes"], reason
            if plan.joins:
                told = said.options["tell_matches"] | said.options["tell_changes"]
                yield here & told & said.has_span("ttl"), NO_TTL
            throttled = said.has_span("throttle")
            for tell in ("matches", "changes"):
                told = here & said.options[f"tell_{tell}"]
                yield from bad_tellings(plan, tell, told, throttled)
