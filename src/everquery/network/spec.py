"""What all boxes are: a description that is checked, printed and read back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

from everquery.errors import InvalidNetworkError
from everquery.network.operator import Operator
from everquery.network.rows import RowType
from everquery.network.windows import Window

Function = Callable[..., Any]
"""A Python function over Arrow; a network that has one can't be printed as YAML."""


@dataclass(frozen=True)
class Box(ABC):
    """A box: what it reads from, and what it does.

    Parameters
    ----------
    source : str or sequence of str
        The stream, box or connection point that it reads from, or several of them: ``from``.
    """

    source: str | Sequence[str]
    kind: ClassVar[str]
    arity: ClassVar[tuple[int, int | None]] = (1, 1)

    def __post_init__(self) -> None:
        names = (self.source,) if isinstance(self.source, str) else tuple(self.source)
        for name in names:
            if not isinstance(name, str) or not name:
                raise InvalidNetworkError(f"`from` has {name!r}, which is no name")
        low, high = self.arity
        if len(names) < low or (high is not None and len(names) > high):
            wanted = f"{low}" if low == high else f"at least {low}"
            raise InvalidNetworkError(
                f"a {self.kind} box reads from {wanted}, and `from` has {len(names)}: {list(names)}"
            )
        object.__setattr__(self, "source", names[0] if len(names) == 1 else names)
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and field.metadata.get("window"):
                object.__setattr__(self, field.name, Window.read(value))
            elif value is not None and field.metadata.get("names"):
                object.__setattr__(self, field.name, read_names(value, field.name))

    @property
    def sources(self) -> tuple[str, ...]:
        """The names that it reads from, one for each arrow."""
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)

    @classmethod
    def read(cls, form: Mapping[str, Any]) -> Self:
        """Return a box from its form in YAML, without the word ``box``."""
        known = {("from" if field.name == "source" else field.name): field for field in fields(cls)}
        unknown = [key for key in form if key not in known]
        if unknown:
            raise InvalidNetworkError(
                f"a {cls.kind} box has no {unknown[0]!r}; it has {', '.join(known)}"
            )
        needed = [
            name
            for name, field in known.items()
            if field.default is MISSING and field.default_factory is MISSING and name not in form
        ]
        if needed:
            raise InvalidNetworkError(f"a {cls.kind} box needs `{needed[0]}`")
        return cls(**{known[name].name: value for name, value in form.items()})

    def form(self) -> dict[str, Any]:
        """Return it as YAML has it."""
        found: dict[str, Any] = {"box": self.kind}
        for field in fields(self):
            value = getattr(self, field.name)
            name = "from" if field.name == "source" else field.name
            if callable(value):
                raise InvalidNetworkError(
                    f"`{name}` is a Python function, and YAML can't hold one; write it in SQL"
                )
            if value is None or (field.default is not MISSING and value == field.default):
                continue
            found[name] = plain(value)
        return found

    def reading(self, *sources: str) -> Self:
        """Return the box with other arrows into it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**{**values, "source": sources})

    @abstractmethod
    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type of the rows that it gives, for those of its inputs.

        Raises
        ------
        InvalidNetworkError or BadExpressionError
            If it can't take them.
        """

    @abstractmethod
    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""


def plain(value: Any) -> Any:  # noqa: ANN401 - any field of any box
    """Return a value as YAML has it."""
    if isinstance(value, Window):
        return value.form()
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return value


def read_names(given: Any, what: str) -> tuple[str, ...]:  # noqa: ANN401 - whatever a file has
    """Return a list of column names; one alone may be given as it is."""
    names = (given,) if isinstance(given, str) else tuple(given) if _is_list(given) else (given,)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidNetworkError(f"`{what}` has {name!r}, which is no column name")
    return names


def _is_list(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, (str, bytes))


def check_columns(names: Sequence[str], rows: RowType, what: str) -> None:
    """Raise if a column that a box names is not on its arrow."""
    for name in names:
        if name not in rows.columns:
            raise InvalidNetworkError(f"`{what}` names column {name!r}, and there are {rows}")
