"""The kinds of boxes, by the word that YAML has for each."""

from __future__ import annotations

from everquery.network.boxes.filter import Filter
from everquery.network.boxes.join import Join
from everquery.network.boxes.map import Map
from everquery.network.boxes.tumble import Tumble
from everquery.network.boxes.union import Union
from everquery.network.boxes.watch import Watch
from everquery.network.spec import Box

KINDS: dict[str, type[Box]] = {
    kind.kind: kind for kind in (Filter, Map, Union, Join, Tumble, Watch)
}
