"""Networks: boxes and arrows over streams, of which standing queries are one kind of box."""

from everquery.network.boxes.filter import Filter
from everquery.network.boxes.join import Join
from everquery.network.boxes.map import Map
from everquery.network.boxes.tumble import Tumble
from everquery.network.boxes.union import Union
from everquery.network.boxes.watch import Watch
from everquery.network.ends import Output, Point, Source
from everquery.network.model import Network
from everquery.network.windows import Window

__all__ = [
    "Filter",
    "Join",
    "Map",
    "Network",
    "Output",
    "Point",
    "Source",
    "Tumble",
    "Union",
    "Watch",
    "Window",
]
