"""The columns that an expression may name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from everquery.network.expressions.types import BadExpressionError


@dataclass(frozen=True, slots=True)
class Scope:
    """Column types by name, and by name with the box that they come from.

    Attributes
    ----------
    columns : mapping of str to Arrow type
    qualified : mapping of (box, column) to str
        Where ``box.column`` may be written: the name in `columns` that it stands for.
    ambiguous : frozenset of str
        Names that may not be written without their box.
    """

    columns: Mapping[str, pa.DataType]
    qualified: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()

    def find(self, column: exp.Column) -> str:
        """Return the name in `columns` that a column of SQL stands for.

        Raises
        ------
        BadExpressionError
            If there is none; says which there are.
        """
        name, table = column.name, column.table
        if table:
            found = self.qualified.get((table, name))
            if found is None:
                known = ", ".join(f"{box}.{column}" for box, column in self.qualified)
                raise BadExpressionError(
                    f"there is no column {table}.{name}" + (f"; there are {known}" if known else "")
                )
            return found
        if name in self.ambiguous:
            boxes = [box for box, own in self.qualified if own == name]
            raise BadExpressionError(
                f"column {name!r} is of {' and '.join(boxes)}; write {boxes[0]}.{name}"
            )
        if name in self.columns:
            return name
        alike = [known for known in self.columns if known.lower() == name.lower()]
        if len(alike) == 1 and not column.this.quoted:
            return alike[0]
        raise BadExpressionError(
            f"there is no column {name!r}; there are {', '.join(self.columns) or 'none'}"
        )
