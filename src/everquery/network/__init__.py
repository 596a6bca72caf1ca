"""Networks: boxes and arrows over streams, of which standing queries are one kind of box."""

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
from everquery.network.ends import Output, Point, Source
from everquery.network.model import Network
from everquery.network.windows import Window

__all__ = [
    "Drop",
    "Filter",
    "GroupBy",
    "Join",
    "Latch",
    "Map",
    "Network",
    "Output",
    "Point",
    "Resample",
    "Slide",
    "Source",
    "Tumble",
    "Union",
    "Watch",
    "Window",
]
