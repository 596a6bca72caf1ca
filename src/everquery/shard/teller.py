"""How a shard tells notices: as tables of one layout, those of the past first."""

from __future__ import annotations

import pyarrow as pa

from everquery.shard.contents import Contents
from everquery.shard.layout import Layout, Layouts
from everquery.shard.query_set import QuerySet
from everquery.shard.record import Notices, join_notices
from everquery.shard.untold import joined, kinds_of_notices
from everquery.shard.writing import Names, write_notices


class Teller:
    """Writes the notices of a shard.

    Parameters
    ----------
    contents : Contents
    queries : QuerySet
    labelled : bool
        Whether notices tell the owner and the labels of their queries.
    all_columns : bool
        Whether notices have the columns of all kinds, and not only of those seen so far.

    Attributes
    ----------
    told : int
        How many notices were told.
    untold : list of pyarrow.Table
        Notices of the past that are told with the next step.
    """

    def __init__(
        self, contents: Contents, queries: QuerySet, *, labelled: bool, all_columns: bool
    ) -> None:
        self._contents = contents
        self._queries = queries
        self.labelled = labelled
        self.all_columns = all_columns
        self.told = 0
        self.untold: list[pa.Table] = []
        self._layouts = Layouts(contents.stream, contents.kinds, labelled=labelled)

    def write(self, told: list[Notices]) -> pa.Table:
        """Return notices as a table; those of the past stand before them."""
        if self.untold:
            before, self.untold = self.untold, []
            for kind in kinds_of_notices(before):  # their queries may have ended
                if kind in self._contents.kinds:
                    self._queries.see(kind)
            return joined(before, self.write(told), self._contents.catalog)
        return self.write_alone(told)

    def write_alone(self, told: list[Notices]) -> pa.Table:
        """Return notices as a table, without those of the past."""
        layout = self.layout()
        if not any(map(len, told)):
            return layout.no_notices
        contents = self._contents
        notices = join_notices(told)
        self.told += len(notices)
        names = Names(contents.catalog, contents.keys)
        return write_notices(notices, names, contents.outcomes, layout, contents.crew)

    def layout(self) -> Layout:
        """Return how notices look."""
        kinds = self._contents.kinds if self.all_columns else self._queries.kinds_seen
        time_type, key_type = self._contents.admission.time_type, self._contents.keys.type
        return self._layouts.layout(time_type, key_type, tuple(kinds))
