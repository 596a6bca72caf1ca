"""Numbers as people read them."""

from __future__ import annotations

BARS = "▁▂▃▄▅▆▇█"


def rate(per_second: float) -> str:
    """Return a rate with three digits.

    Examples
    --------
    >>> rate(9_876_543.0), rate(12_345.0), rate(7.0)
    ('9.88 M/s', '12.3 k/s', '7 /s')
    """
    if per_second >= 999_500:
        return f"{per_second / 1e6:.3g} M/s"
    if per_second >= 999.5:
        return f"{per_second / 1e3:.3g} k/s"
    return f"{per_second:.0f} /s"


def megabytes(size: float) -> str:
    """Return a number of bytes in megabytes.

    Examples
    --------
    >>> megabytes(29_450_040)
    '29.5 MB'
    """
    return f"{size / 1e6:,.1f} MB"


def percent(share: float) -> str:
    """Return a share as a percentage, without digits that say nothing.

    Examples
    --------
    >>> percent(0.0001), percent(0.1)
    ('0.01%', '10%')
    """
    return f"{100 * share:.6g}%"


def parse_share(text: str) -> float:
    """Return the share that ``0.01%`` or ``0.0001`` stands for; anything else is a ValueError.

    Examples
    --------
    >>> parse_share("0.01%") == parse_share("0.0001") == 0.0001
    True
    """
    if text.endswith("%"):
        return float(f"{text[:-1]}e-2")  # in decimal: 0.01 / 100 is not 0.0001
    return float(text)


def sparkline(values: list[float], width: int) -> str:
    """Return the last values as bars.

    Examples
    --------
    >>> sparkline([0.0, 1.0, 7.0, 14.0], 3)
    '▁▅█'
    """
    shown = values[-width:]
    top = max(shown, default=0.0) or 1.0
    return "".join(BARS[round(value / top * (len(BARS) - 1))] for value in shown)
