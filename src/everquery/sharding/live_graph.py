"""Live objects as plain values and arrays, and back: a closed set of types, nothing that could run.

Numbers, texts, containers, arrays, Arrow tables, and objects of everquery's own classes: those of
the packages that hold state, and of the kinds of query. An object comes back with the attributes
that it had; no code of its class runs. A kind of query goes by its name. What is a function is not
written: objects are poured into new ones of the same make, which have theirs. What is shared stays
shared.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from everquery.core.framing import Content, View
from everquery.kinds import KINDS, Kind

_PACKAGES = (
    "everquery.core",
    "everquery.index",
    "everquery.queries",
    "everquery.shard",
    "everquery.sharding.carried",
    "everquery.state",
)
_CONTAINERS: dict[type[Any], str] = {list: "list", set: "set", deque: "deque"}
_PLAIN = (bool, int, float, str)


class ForeignError(ValueError):
    """Something is not of the closed set, or not what it must be."""


def flatten(root: object, given: Sequence[object]) -> tuple[Any, dict[str, Content]]:
    """Return a graph of objects as plain values, and the arrays that they name.

    Parameters
    ----------
    given : objects that whoever reads it has already
    """
    writer = _Writer(given)
    return writer.node(root), writer.contents


def restore(node: Any, views: dict[str, View], like: object, given: Sequence[object]) -> Any:  # noqa: ANN401 - what was flattened
    """Return the graph that was flattened; arrays share the memory of the views.

    Parameters
    ----------
    like : new objects of the same make, which are filled
    given : as in `flatten`

    Raises
    ------
    ForeignError
        If this can't have been flattened; what was to be filled is of no use any more.
    """
    try:
        return _Reader(views, given).value(node, like)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise ForeignError(str(error)) from None
    except pa.ArrowException as error:
        raise ForeignError(str(error)) from None


class _Writer:
    def __init__(self, given: Sequence[object]) -> None:
        self.contents: dict[str, Content] = {}
        self._given = {id(each): place for place, each in enumerate(given)}
        self._known: dict[int, int] = {}
        self._alive: list[object] = []  # so that no id is used twice

    def node(self, value: Any) -> Any:  # noqa: ANN401 - anything, and JSON
        if value is None or type(value) in _PLAIN:
            return value
        if id(value) in self._given:
            return ["given", self._given[id(value)]]
        if isinstance(value, tuple):
            return self._tuple(value)
        if id(value) in self._known:
            return ["known", self._known[id(value)]]
        number = self._known[id(value)] = len(self._alive)
        self._alive.append(value)
        return self._new(value, number)

    def _new(self, value: Any, number: int) -> list[Any]:  # noqa: ANN401
        if isinstance(value, np.ndarray):
            return self._array(value, number)
        if isinstance(value, np.generic):
            return ["number", number, self._put(np.array([value]))]
        if isinstance(value, np.dtype):
            return ["dtype", number, value.str]
        if isinstance(value, type) and issubclass(value, np.generic):
            return ["scalar", number, np.dtype(value).str]
        if isinstance(value, dict):
            items = [[self.node(key), self.node(each)] for key, each in value.items()]
            return ["dict", number, items]
        if type(value) in _CONTAINERS:
            return [_CONTAINERS[type(value)], number, [self.node(each) for each in value]]
        if isinstance(value, Kind):
            return ["kind", number, value.name]
        if isinstance(value, timedelta):
            return ["timedelta", number, value.days, value.seconds, value.microseconds]
        if isinstance(value, bytes):
            return ["bytes", number, self._put(value)]
        if isinstance(value, (pa.Table, pa.Array, pa.DataType, pa.Schema)):
            return self._arrow(value, number)
        if callable(value) and not hasattr(type(value), "__dataclass_fields__"):
            return ["function", number]
        return self._object(value, number)

    def _tuple(self, value: tuple[Any, ...]) -> list[Any]:
        items = [self.node(each) for each in value]
        if type(value) is tuple:
            return ["tuple", items]
        return ["named", _name_of(type(value)), items]

    def _array(self, value: np.ndarray[Any, Any], number: int) -> list[Any]:
        if value.dtype.hasobject:
            raise ForeignError(f"an array of {value.dtype} can't be written")
        if value.dtype.names:
            return self._records(value, number)
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        flat = value.ravel(order="F" if fortran else "C")
        name = self._put(flat)
        return ["array", number, name, list(value.shape), fortran, bool(value.flags.writeable)]

    def _records(self, value: np.ndarray[Any, Any], number: int) -> list[Any]:
        fields = value.dtype.fields or {}
        if value.ndim != 1 or any(part.shape or part.names for part, *_ in fields.values()):
            raise ForeignError(f"an array of {value.dtype} can't be written")
        layout = [[name, part.str, offset] for name, (part, offset, *_) in fields.items()]
        size, aligned = value.dtype.itemsize, value.dtype.isalignedstruct
        plain = np.ascontiguousarray(value)
        name = self._put(np.frombuffer(plain.tobytes(), np.uint8))
        return ["records", number, name, layout, size, aligned, bool(value.flags.writeable)]

    def _arrow(self, value: Any, number: int) -> list[Any]:  # noqa: ANN401 - several types
        if isinstance(value, pa.Schema):
            return ["schema", number, self._put(value.serialize().to_pybytes())]
        if isinstance(value, pa.DataType):
            return ["type", number, self._put(pa.schema([("", value)]).serialize().to_pybytes())]
        column = isinstance(value, pa.Array)
        table = pa.table({"": value}) if column else value
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        name = self._put(np.frombuffer(sink.getvalue(), np.uint8))
        return ["column" if column else "table", number, name]

    def _object(self, value: object, number: int) -> list[Any]:
        name = _name_of(type(value))
        fields = [[each, self.node(getattr(value, each))] for each in _attributes(value)]
        return ["object", number, name, fields]

    def _put(self, content: Content) -> str:
        name = str(len(self.contents))
        self.contents[name] = content
        return name


class _Reader:
    def __init__(self, views: dict[str, View], given: Sequence[object]) -> None:
        self._views = views
        self._given = given
        self._known: dict[int, Any] = {}
        self._ways: dict[str, Callable[..., Any]] = {
            "number": lambda name: self._flat(name)[0],
            "dtype": np.dtype,
            "scalar": lambda name: np.dtype(name).type,
            "array": self._array,
            "records": self._records,
            "bytes": lambda name: bytes(self._views[name][2]),
            "kind": KINDS.__getitem__,
            "timedelta": timedelta,
            "type": lambda name: self._schema(name).field(0).type,
            "schema": self._schema,
            "table": self._table,
            "column": lambda name: self._table(name).column(0).combine_chunks(),
        }

    def value(self, node: Any, like: object) -> Any:  # noqa: ANN401 - what was written
        if node is None or type(node) in _PLAIN:
            return node
        tag, *rest = node
        if tag == "given":
            return self._given[rest[0]]
        if tag == "known":
            return self._known[rest[0]]
        if tag == "tuple":
            return self._tuple(rest[0], like)
        if tag == "named":
            return tuple.__new__(_class_of(rest[0], tuple), self._tuple(rest[1], like))
        number, *rest = rest
        if tag in ("object", "dict", "list", "set", "deque"):
            return getattr(self, f"_{tag}")(number, *rest, like)
        if tag == "function":
            if not callable(like):
                raise ForeignError("a function is wanted, and there is none")
            found = like
        else:
            found = self._ways[tag](*rest)
        self._known[number] = found
        return found

    def _tuple(self, items: list[Any], like: object) -> tuple[Any, ...]:
        likes = like if isinstance(like, tuple) and len(like) == len(items) else [None] * len(items)
        return tuple(self.value(item, each) for item, each in zip(items, likes, strict=True))

    def _object(self, number: int, name: str, fields: list[Any], like: object) -> object:
        cls = _class_of(name, object)
        made = like if type(like) is cls else object.__new__(cls)
        self._known[number] = made
        for field, node in fields:
            object.__setattr__(made, field, self.value(node, getattr(like, field, None)))
        return made

    def _dict(self, number: int, items: list[Any], like: object) -> dict[Any, Any]:
        filled = like if isinstance(like, dict) else {}
        self._known[number] = filled
        before = dict(filled)
        filled.clear()
        for key, node in items:
            named = self.value(key, None)
            filled[named] = self.value(node, before.get(named))
        return filled

    def _list(self, number: int, items: list[Any], _like: object) -> list[Any]:
        made: list[Any] = []
        self._known[number] = made
        made.extend(self.value(item, None) for item in items)
        return made

    def _set(self, number: int, items: list[Any], _like: object) -> set[Any]:
        made = {self.value(item, None) for item in items}
        self._known[number] = made
        return made

    def _deque(self, number: int, items: list[Any], _like: object) -> deque[Any]:
        made = deque(self.value(item, None) for item in items)
        self._known[number] = made
        return made

    def _flat(self, name: str) -> np.ndarray[Any, Any]:
        dtype, _, body = self._views[name]
        return np.frombuffer(body, dtype)

    def _array(
        self, name: str, shape: list[int], fortran: bool, writeable: bool
    ) -> np.ndarray[Any, Any]:
        array = self._flat(name).reshape(shape, order="F" if fortran else "C")
        array.flags.writeable = writeable
        return array

    def _records(
        self, name: str, layout: list[list[Any]], size: int, aligned: bool, writeable: bool
    ) -> np.ndarray[Any, Any]:
        names, formats, offsets = ([field[i] for field in layout] for i in range(3))
        spec: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
        dtype = np.dtype(spec, align=bool(aligned))
        if dtype.hasobject:
            raise ForeignError("records hold numbers only")
        records: np.ndarray[Any, Any] = np.frombuffer(self._views[name][2], dtype)
        records.flags.writeable = writeable
        return records

    def _schema(self, name: str) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(bytes(self._views[name][2])))

    def _table(self, name: str) -> pa.Table:
        with pa.ipc.open_stream(pa.py_buffer(self._views[name][2])) as reader:
            return reader.read_all()


def _attributes(value: object) -> list[str]:
    """Return the names of all that an object holds, but for what its class calls caches."""
    slots = [name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ())]
    names = [*slots, *getattr(value, "__dict__", {})]
    caches = getattr(type(value), "CACHES", ())
    return [name for name in dict.fromkeys(names) if hasattr(value, name) and name not in caches]


def _allowed(module: str) -> bool:
    packages = {kind.package for kind in KINDS.values()}
    return any(
        module == package or module.startswith(f"{package}.")
        for package in (*_PACKAGES, *packages)
        if package
    )


def _name_of(cls: type) -> list[str]:
    name = [cls.__module__, cls.__qualname__]
    if _class_of(name, object) is not cls:
        raise ForeignError(f"an object of {cls} can't be written")
    return name


def _class_of(name: Any, base: type) -> type[Any]:  # noqa: ANN401 - it may be anything
    """Return a class of everquery that is loaded already; raise if there is none of that name."""
    module, qualified = name
    if _allowed(module) and module in sys.modules:
        found = vars(sys.modules[module]).get(qualified)
        if isinstance(found, type) and (found.__module__, issubclass(found, base)) == (
            module,
            True,
        ):
            return found
    raise ForeignError(f"{module}.{qualified} is no class of live objects")
