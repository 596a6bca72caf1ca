"""Boxes in real threads: those that do not wait for one another run at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from time import perf_counter

from everquery.network.rows import Flow
from everquery.network.runtime.plan import Node

Worked = tuple[Sequence[Flow], Flow, float]


def taken(node: Node) -> list[Flow]:
    """Return what waits in front of a box."""
    return [
        arc.take(row_type) for arc, row_type in zip(node.arcs, node.operator.inputs, strict=True)
    ]


def worked(node: Node, flows: Sequence[Flow]) -> Worked:
    """Run a box; return what went in, what came out, and the seconds it took."""
    began = perf_counter()
    found = node.operator.process(flows)
    return flows, found, perf_counter() - began


class Workers:
    """Threads that run boxes.

    A box begins when all that it reads from are done, as in one thread, so that it gets the same
    rows. Arcs, outputs and figures are touched by the calling thread alone.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="everquery-network")

    def drain(self, nodes: Mapping[str, Node], tell: Callable[[Node, Worked], None]) -> None:
        """Run all boxes that have something waiting, and those behind them.

        Parameters
        ----------
        tell : function
            What is done with each box's work, in the calling thread.
        """
        left = {
            name: {arc.source for arc in node.arcs} & nodes.keys() for name, node in nodes.items()
        }
        running: dict[Future[Worked], Node] = {}

        def finished(node: Node, work: Worked | None) -> None:
            if work is not None:
                tell(node, work)
            for sources in left.values():
                sources.discard(node.name)

        try:
            while left or running:
                ready = [nodes[name] for name, sources in left.items() if not sources]
                waiting = [node for node in ready if any(arc.fresh for arc in node.arcs)]
                alone = len(waiting) == 1 and not running
                here = []
                for node in waiting:
                    if alone or not node.operator.anywhere:
                        here.append(node)
                    else:
                        running[self._pool.submit(worked, node, taken(node))] = node
                busy = {node.name for node in waiting}
                for node in ready:
                    del left[node.name]
                    if node.name not in busy:
                        finished(node, None)
                for node in here:
                    finished(node, worked(node, taken(node)))
                if running and not ready:
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        finished(running.pop(future), future.result())
        finally:
            wait(running)
