"""Standing queries over live streams: registered once, answered for ever.

>>> import everquery as eq
>>> stream = eq.Stream("trades", key="symbol", attributes=["price"])
>>> engine = eq.Engine(stream)
>>> engine.register(eq.Range("cheap", {"price": (0, 10)}))
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everquery.public import *  # noqa: F403
    from everquery.public import __all__ as __all__
else:

    def __getattr__(name: str) -> object:
        """Load the public names: `everquery --help` needs none of them, and should be quick."""
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module 'everquery' has no attribute {name!r}")
        public = import_module("everquery.public")
        if name in public.__all__ or name == "__all__":
            globals()[name] = getattr(public, name)
        elif name not in globals():
            raise AttributeError(f"module 'everquery' has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module("everquery.public").__all__})
