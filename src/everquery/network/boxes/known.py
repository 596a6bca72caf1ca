"""The kinds of boxes, by the word that YAML has for each."""

from __future__ import annotations

from everquery.network.boxes.drop import Drop
from everquery.network.boxes.filter import Filter
from everquery.network.boxes.group_by import GroupBy
from everquery.network.boxes.join import Join
from everquery.network.boxes.latch import Latch
from everquery.network.boxes.map import Map
from everquery.network.boxes.resample import Resample
from everquery.network.boxes.slide import Slide
from everquery.network.boxes.tumble import Tumble
from everquery.network.boxes.union import Union
from everquery.network.boxes.watch import Watch
from everquery.network.spec import Box

KINDS: dict[str, type[Box]] = {
    kind.kind: kind
    for kind in (
        *(Filter, Map, Union, Join, Resample, Drop),
        *(Slide, Tumble, Latch, GroupBy, Watch),
    )
}
