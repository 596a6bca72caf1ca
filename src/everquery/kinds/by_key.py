"""Queries without key that look at all keys together, unless ``by_key`` says that at each apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from everquery.queries.numbers import Bools
from everquery.queries.spec import Query, SaidColumns
from everquery.stream import Stream


class ByKeyQuery(Query):
    """What specs with the field ``by_key`` share."""

    by_key: bool

    @property
    def looks_across_keys(self) -> bool:
        """Whether this query looks at the events of all keys together."""
        return super().looks_across_keys and not self.by_key

    @classmethod
    def rows_across_keys(cls, keyed: bool, options: Mapping[str, Bools], n: int) -> Bools:
        """Tell which queries of a block look at the events of all keys together."""
        return super().rows_across_keys(keyed, options, n) & ~options["by_key"]

    def misfit(self, stream: Stream) -> str | None:
        """Return why the query can't be on the stream, or None."""
        if self.by_key and stream.key is None:
            return f"by_key needs a stream with a key, and stream {stream.name!r} has none"
        return None

    @classmethod
    def bad_rows(cls, said: SaidColumns) -> Iterator[tuple[Bools, str]]:
        """Yield which rows of a table can't be for what several columns say together, and why."""
        by_key, stream = said.options["by_key"], said.stream
        yield by_key & said.keyed, "by_key is true, and it has a key already"
        if stream.key is None:
            yield by_key, f"by_key needs a stream with a key; {stream.name!r} has none"
