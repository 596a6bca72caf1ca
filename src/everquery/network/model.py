"""A network: streams, boxes, connection points and outputs, checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from everquery.errors import EverqueryError, InvalidNetworkError
from everquery.network import yaml_form
from everquery.network.ends import Output, Point, Source
from everquery.network.graph import dangling, infer, order
from everquery.network.rows import RowType
from everquery.network.spec import Box
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.network.analysis.check import Analysis
    from everquery.network.runtime.run import Run
    from everquery.network.scheduling.run import TimedRun

Made = TypeVar("Made")


class Network:
    """A loop-free network of boxes over streams.

    It is checked when it is made: every arrow comes from somewhere, there are no loops, and every
    box can take the columns that its arrows carry.

    Parameters
    ----------
    name : str
    streams : streams, or mapping of str to form
    boxes : mapping of str to Box
        A name with dots is within groups: ``heat.hot`` is the box ``hot`` of the group ``heat``.
    outputs : mapping of str to Output or str
        What applications read, by name: an `Output`, or the name of the box it comes from.
    points : mapping of str to Point or str, optional
        Connection points, by name. Boxes may read from them.

    Examples
    --------
    >>> import everquery as eq, pyarrow as pa
    >>> from everquery.network import Filter
    >>> readings = eq.Stream("readings", key="machine", attributes=["temperature"])
    >>> hot = Filter("readings", where="temperature > 80")
    >>> network = eq.Network("plant", [readings], {"hot": hot}, {"hot": "hot"})
    >>> run = network.start()
    >>> batch = pa.table({"machine": ["a", "b"], "temperature": [90.0, 20.0]})
    >>> run.process({"readings": batch})["hot"].to_pylist()
    [{'machine': 'a', 'temperature': 90.0}]
    """

    def __init__(
        self,
        name: str,
        streams: Iterable[Stream | Source] | Mapping[str, Any],
        boxes: Mapping[str, Box],
        outputs: Mapping[str, Output | str],
        points: Mapping[str, Point | str] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidNetworkError(f"a network has a name, and {name!r} is none")
        self.name = name
        self.streams = _streams(streams)
        self.boxes = dict(boxes)
        self.points = _each("point", points or {}, lambda _, form: Point.read(form))
        self.outputs = _each("output", outputs, lambda _, form: Output.read(form))
        self._check_names()
        self._check_arrows()
        self.types = self.infer({name: one.row_type() for name, one in self.streams.items()})

    @staticmethod
    def load(source: str | Path) -> Network:
        """Return a network from YAML: the name of a file, or the text itself.

        Raises
        ------
        InvalidNetworkError
            If it can't be read, or is no network.

        Examples
        --------
        >>> Network.load('''
        ... network: plant
        ... streams:
        ...   readings: {key: machine, time: ts, attributes: [temperature]}
        ... boxes:
        ...   hot: {box: filter, from: readings, where: "temperature > 80"}
        ... outputs:
        ...   hot: {from: hot}
        ... ''').name
        'plant'
        """
        parts = yaml_form.read(source)
        return Network(**parts)

    def dump(self) -> str:
        """Return the network as YAML, which `load` reads back equal.

        Raises
        ------
        InvalidNetworkError
            If a box has a Python function.
        """
        return yaml_form.write(self)

    @overload
    def start(
        self, *, optimize: bool = True, keep: Iterable[str] = (), threads: int = 1
    ) -> Run: ...
    @overload
    def start(
        self,
        *,
        optimize: bool = True,
        keep: Iterable[str] = (),
        **terms: Any,  # noqa: ANN401 - fields of `Terms`
    ) -> TimedRun: ...
    def start(
        self,
        *,
        optimize: bool = True,
        keep: Iterable[str] = (),
        threads: int = 1,
        **terms: Any,
    ) -> Run:
        """Return the network, running in this process.

        Parameters
        ----------
        optimize : bool
            Whether boxes are fused, reordered and given projections; outputs are the same.
        keep : names of boxes, optional
            Boxes that come out as they are, for taps and for who attaches later.
        threads : int
            How many boxes run at the same time, where none waits for another; outputs and their
            order are the same. A run against time has one.
        **terms
            The fields of `everquery.network.scheduling.terms.Terms`, such as ``capacity``, ``shed``
            and ``clock``: the network then runs against time, and may shed load.

        Raises
        ------
        InvalidNetworkError
            If ``shed: never`` of an output can't be kept at the rates that are given.
        """
        from everquery.network.runtime.run import Run

        if not terms:
            return Run(self, optimize=optimize, keep=keep, threads=threads)
        if threads != 1:
            raise InvalidNetworkError("a run against time has one thread; leave out `threads`")
        from everquery.network.scheduling.run import TimedRun
        from everquery.network.scheduling.terms import Terms

        return TimedRun(self, Terms.read(self, terms), optimize=optimize, keep=keep)

    def check(
        self,
        *,
        rates: Mapping[str, float],
        **known: Any,  # noqa: ANN401 - named below
    ) -> Analysis:
        """Return what the network asks of the machine at some rates.

        Parameters
        ----------
        rates : mapping of str to float
            Rows a second of each stream.
        costs, selectivities : mapping of str to float, optional
            Seconds for each row into a box, and rows out for each.
        samples : mapping of str to batch, optional
            On which costs and selectivities that are not given are measured.
        capacity, headroom : float, optional
            Seconds of work a second that the machine does, and the share of it that may be used.

        Examples
        --------
        >>> from everquery.network import Filter
        >>> from everquery.stream import Stream
        >>> large = Filter("s", where="x > 1")
        >>> network = Network("n", [Stream("s", attributes=["x"])], {"f": large}, {"o": "f"})
        >>> network.check(rates={"s": 1000}, costs={"f": 0.002}).minimum_capacity
        2.0
        """
        from everquery.network.analysis.check import check

        return check(self, rates=rates, **known)

    def draw(self) -> str:
        """Return a picture of the network, as SVG."""
        from everquery.network.picture import draw

        return draw(self)

    def explain(self) -> str:
        """Return the boxes as they are and as the optimizer would run them."""
        return self.start().explain()

    def watch(self, spark: Any, sources: Mapping[str, Any], **options: Any) -> Any:  # noqa: ANN401 - Spark is an extra
        """Return the network's outputs on Spark: a streaming DataFrame for each, by name.

        Parameters
        ----------
        spark : SparkSession
        sources : mapping of str to DataFrame
            A streaming DataFrame for each stream, or what `everquery.spark.read_files` returns.
        **options
            As `everquery.spark.watch_network` takes them.

        Returns
        -------
        everquery.spark.Watched
        """
        return import_module("everquery.spark").watch_network(self, spark, sources, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<Network {self.name!r}: {len(self.streams)} streams, {len(self.boxes)} boxes,"
            f" {len(self.outputs)} outputs>"
        )

    def _parts(self) -> tuple[Any, ...]:
        return self.name, self.streams, self.boxes, self.points, self.outputs

    @property
    def readable(self) -> dict[str, Box]:
        """The boxes, and connection points as boxes that change nothing."""
        from everquery.network.boxes.passing import Passing

        return {**{name: Passing(one.source) for name, one in self.points.items()}, **self.boxes}

    def infer(self, roots: Mapping[str, RowType]) -> dict[str, RowType]:
        """Return the type of the rows behind every stream, point and box."""
        types = infer(self.readable, roots)
        for name, output in self.outputs.items():
            values = output.qos.values if output.qos is not None else None
            for column in values or ():
                if column not in types[output.source].columns:
                    raise InvalidNetworkError(
                        f"output {name!r}: qos has a graph for values of {column!r}, and arrow"
                        f" {output.source} -> {name} carries {types[output.source]}"
                    )
        return types

    def _check_names(self) -> None:
        places: dict[str, str] = {}
        for what, names in (
            ("stream", self.streams),
            ("box", self.boxes),
            ("point", self.points),
        ):
            for name in names:
                if not isinstance(name, str) or not name or not all(name.split(".")):
                    raise InvalidNetworkError(f"{name!r} is no name of a {what}")
                if name in places:
                    raise InvalidNetworkError(
                        f"{name!r} is the name of a {places[name]} and of a {what}"
                    )
                places[name] = what
        for name, box in self.boxes.items():
            if not isinstance(box, Box):
                raise InvalidNetworkError(f"box {name!r} is {box!r}, and no box")

    def _check_arrows(self) -> None:
        known = {*self.streams, *self.boxes, *self.points}
        for name, point in self.points.items():
            if point.source not in known:
                raise dangling(f"point {name!r}", point.source, known)
        for name, output in self.outputs.items():
            if output.source not in known:
                raise dangling(f"output {name!r}", output.source, known)
        order(self.readable, self.streams)


def _streams(given: Iterable[Stream | Source] | Mapping[str, Any]) -> dict[str, Source]:
    if isinstance(given, Mapping):
        return _each("stream", given, Source.read)
    found = [Source.read("", one) for one in given]
    names = [one.stream.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidNetworkError(f"two streams have the name {name!r}")
    return dict(zip(names, found, strict=True))


def _each(what: str, forms: Mapping[str, Any], read: Callable[[str, Any], Made]) -> dict[str, Made]:
    """Return what is read of each form; an error names it."""
    found = {}
    for name, form in forms.items():
        try:
            found[name] = read(name, form)
        except EverqueryError as error:
            raise InvalidNetworkError(f"{what} {name!r}: {error}") from error
    return found
