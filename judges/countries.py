"""Codes, names and neighbours of countries, and the country of a location."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from judges import gazetteer

MAX_KM = 100.0
"""Distance to the nearest town beyond which `country_at` names no country."""

_EARTH_KM = 6371.0
_CONTINENTS = {
    **{"AF": "Africa", "AN": "Antarctica", "AS": "Asia", "EU": "Europe"},
    **{"NA": "North America", "OC": "Oceania", "SA": "South America"},
}


@lru_cache(1 << 12)
def country_code(name: str) -> str | None:
    """Return the ISO alpha-2 code of a country given by its name in many languages, a code or a demonym.

    Args:
        name: the bare value; sentences are for `find_places`.

    Returns:
        The code, or None where the value is no country.

    Example:
        >>> [country_code(name) for name in ("Brasil", "BRA", "br", "Brazilian", "Scotland", "Atlantis")]
        ['BR', 'BR', 'BR', 'BR', 'GB', None]
    """
    countries = gazetteer.countries()
    name = name.strip()
    if name.upper() in countries:
        return name.upper()
    for code, row in countries.items():
        if row["alpha3"] == name.upper():
            return code
    key = gazetteer.key_of(name)
    for entry in gazetteer.table()[0].get(key[1:] if key[:1] == ("the",) else key, ()):
        if entry.kind == "country" or (entry.kind == "region" and gazetteer.fold(name) in _NATIONS):
            return entry.countries[0]
    return None


_NATIONS = ("england", "scotland", "wales", "northern ireland")


def country_name(code: str) -> str:
    """Return the English name of a country.

    Args:
        code: its ISO alpha-2 code.

    Raises:
        ValueError: if no country has this code.

    Example:
        >>> country_name("CI")
        'Ivory Coast'
    """
    return _row(code)["name"]


def continent_of(code: str) -> str:
    """Return the English name of the continent of a country.

    Args:
        code: its ISO alpha-2 code.

    Raises:
        ValueError: if no country has this code.

    Example:
        >>> continent_of("BR")
        'South America'
    """
    return _CONTINENTS[_row(code)["continent"]]


def neighbours(code: str, n: int = 4) -> tuple[str, ...]:
    """Return the nearest other countries: those that border on it, the nearer middle first, then the others so.

    Args:
        code: ISO alpha-2 code of the country.
        n: how many.

    Raises:
        ValueError: if no country has this code.

    Example:
        >>> neighbours("PT", 2)
        ('ES', 'GI')
    """
    bordering, centres = _row(code)["neighbours"], gazetteer.centres()
    if code not in centres:  # no town, as on Bouvet Island
        return bordering[:n]
    others = [other for other in centres if other != code]
    return tuple(sorted(others, key=lambda other: (other not in bordering, -centres[code] @ centres[other]))[:n])


def _row(code: str) -> dict[str, Any]:
    row = gazetteer.countries().get(code)
    if row is None:
        raise ValueError(f"Expected the ISO alpha-2 code of a country, such as 'BR', but got {code!r}.")
    return row


@lru_cache(1 << 14)
def country_at(lat: float, lon: float) -> str | None:
    """Return the country of a location: that of the nearest town, which errs close to a border alone.

    Args:
        lat: latitude in degrees within [-90, 90].
        lon: longitude in degrees; any turn of the globe.

    Returns:
        The ISO alpha-2 code, or None where no place of at least 500 inhabitants lies within `MAX_KM`, as at sea.

    Raises:
        ValueError: if the latitude is outside its range, or one is not finite.

    Example:
        >>> country_at(-22.9, -43.2), country_at(0.0, -30.0)
        ('BR', None)
    """
    if not (-90 <= lat <= 90 and math.isfinite(lon)):
        raise ValueError(f"Expected `lat` within [-90, 90] and a finite `lon`, in degrees, but got {lat}, {lon}.")
    lats, vectors, codes = gazetteer.towns()
    reach = math.degrees(MAX_KM / _EARTH_KM)
    near = slice(*np.searchsorted(lats, [lat - reach, lat + reach]))
    if near.start == near.stop:
        return None
    distances = np.linalg.norm(vectors[near] - gazetteer.unit_vectors(lat, lon), axis=1)
    nearest = int(np.argmin(distances))
    return str(codes[near][nearest]) if distances[nearest] * _EARTH_KM <= MAX_KM else None
