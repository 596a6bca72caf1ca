"""Time zones by their IANA names, as queries name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NO_ZONE = "there is no such time zone; give an IANA name, such as Europe/Berlin or UTC"
LONGEST_ZONE = 255  # letters; the longest name of the IANA database has 32


def bad_zone(name: object) -> str | None:
    """Return why this is no time zone, or None.

    Examples
    --------
    >>> bad_zone("Europe/Berlin")
    >>> bad_zone("Berlin")
    'there is no such time zone; give an IANA name, such as Europe/Berlin or UTC'
    """
    if isinstance(name, str) and 0 < len(name) <= LONGEST_ZONE and _is_known(name):
        return None
    return NO_ZONE


@lru_cache(maxsize=1024)
def _is_known(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # a name that is no path, or not that of a zone
        return False
    return True


def bad_zones(zones: Mapping[str, pa.Array]) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
    """Yield which rows name time zones that there are not; each distinct text is looked at once."""
    for name, column in zones.items():
        distinct = column.dictionary_encode()
        bad = [bad_zone(zone) is not None for zone in distinct.dictionary.to_pylist()]
        which = np.asarray(distinct.indices.fill_null(len(bad)))
        yield np.array([*bad, False])[which], f"{name}: {NO_ZONE}"
