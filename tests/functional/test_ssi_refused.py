"""SSI: what it refuses, and crowds that it does not score."""

import numpy as np
import pytest
import torch

from geobias_torch import Regions
from geobias_torch.functional import spatial_self_information
from tests import scenes
from tests.functional.test_ssi import regions_of

REFUSED = [
    ({"performance": torch.tensor([1.0, np.nan])}, r"Expected `performance` to be finite, but got nan at row 1"),
    ({"performance": torch.ones(3)}, r"Expected `performance` of shape \(2,\) or \(2, R\), but got shape \(3,\)"),
    ({"coding": "binary"}, r"Expected `coding` to be one of .*, but got 'binary'"),
    ({"null": "normal"}, r"Expected `null` to be one of .*, but got 'normal'"),
    ({"surprisal": "upper"}, r"Expected `surprisal` to be one of .*, but got 'upper'"),
    ({"background": "random"}, r"Expected `background` to be one of .*, but got 'random'"),
    ({"ties": "first"}, r"Expected `ties` to be one of .*, but got 'first'"),
    ({"k": 0}, r"Expected `k` to be an integer >= 1, but got 0"),
    ({"k": 2.5}, r"Expected `k` to be an integer >= 1, but got 2.5"),
    ({"background_ratio": -1}, r"Expected `background_ratio` .*, but got -1"),
    ({"max_members": 0}, r"Expected `max_members` to be an integer >= 1 or None, but got 0"),
    ({"floor": -1.0}, r"Expected `floor` within \[0, 1\), but got -1.0"),
    ({"null": "value_scheme", "background_ratio": 2}, r"Expected `background_ratio` >= 3 with null=\"value_scheme\""),
]


@pytest.mark.parametrize(("keywords", "message"), REFUSED)
def test_refused(keywords, message):
    regions = Regions.from_points(lat=[40.0, 41.0], lon=[50.0, 50.0], radius=0.1)
    keywords = {"performance": torch.tensor([1.0, 0.0]), **keywords}
    with pytest.raises(ValueError, match=message):
        spatial_self_information(keywords.pop("performance"), regions, **keywords)


def test_refuses_more_values_than_a_coding_or_a_null_takes():
    regions = regions_of("clustered")
    real = torch.from_numpy(scenes.probabilities("clustered", 50))
    with pytest.raises(ValueError, match=r'Expected `performance` with two values for coding="signed"'):
        spatial_self_information(real, regions, coding="signed")
    with pytest.raises(ValueError, match=r"Expected at most 32 distinct values with null=\"value_scheme\", but got 5"):
        spatial_self_information(real, regions, null="value_scheme")


def test_too_many_points_for_dense_distances_are_refused(monkeypatch):
    monkeypatch.setattr("geobias_torch.graphs._MAX_DENSE", 50)
    regions = Regions.from_points(lat=np.linspace(40, 41, 20), lon=np.full(20, 5.0), radius=0.1)
    with pytest.raises(ValueError, match=r"Expected ROIs of at most 50 members and background points .* got 120"):
        spatial_self_information(None, regions, ties="index")


def test_a_crowd_in_one_place_is_not_scored_and_said(monkeypatch):
    monkeypatch.setattr("geobias_torch.graphs._MAX_TIES_OF_ROI", 500)
    lat = np.concatenate([np.full(40, 50.0), np.linspace(60, 61, 30)])
    regions = Regions.from_points(lat=lat, lon=np.full(70, 5.0), radius=0.1)
    with pytest.warns(UserWarning, match="1 of 31 ROIs are not scored by SSI: their coincident members"):
        local = spatial_self_information(torch.arange(70) % 2, regions)
    assert local[:40].isnan().all()
    assert local[40:].isfinite().all()
