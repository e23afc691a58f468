"""The published tables through the library: every row, with the bounds that the definitions state."""

import numpy as np
import pytest
import torch

from geobias_torch import DistanceLag, Regions
from geobias_torch.functional import spad, spatial_relative_entropy, spatial_self_information
from tests import published

pytestmark = published.needs_published


@pytest.fixture(scope="module", params=published.FILES)
def table(request):
    return published.Table(request.param)


@pytest.fixture(scope="module")
def regions(table):
    return Regions.from_points(lat=table.lat, lon=table.lon, radius=published.RADIUS)


def test_roi_sizes(table, regions):
    assert np.array_equal(regions.sizes.numpy(), table.sizes)


def test_distance_lag(table, regions):
    hit = torch.from_numpy(table.hit)
    partition = DistanceLag(published.LAG)
    score = spatial_relative_entropy(hit, regions, partition, **published.SRE)
    # where no ring is large enough the published table holds 0
    score = torch.nan_to_num(score).numpy()

    patches = regions.patches(partition)
    size, hits = patches.sizes.numpy(), patches.sum(hit).numpy().round()
    scored = size >= published.SRE["min_patch_size"]
    all_wrong = np.unique(patches.roi.numpy()[scored & (hits == 0)])
    expected_counts = {published.EUROSAT: 0, published.INAT: 0, published.EUROSAT_GPT: 242, published.WORLDSTRAT: 80}
    assert len(all_wrong) == expected_counts[table.name]
    roi_size, roi_hits = regions.sizes.numpy(), regions.sum(hit).numpy().round()
    for m in all_wrong:
        of_roi = scored & (patches.roi.numpy() == m)
        score[m] = published.all_right_for_all_wrong(
            zip(size[of_roi], hits[of_roi], strict=True), (roi_size[m], roi_hits[m])
        )
    np.testing.assert_allclose(score, table.distance_lag, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "kind", "share"),
    [
        (published.INAT, "unmarked", 0.93),
        (published.EUROSAT, "unmarked", 0.97),
        (published.EUROSAT_GPT, "unmarked", 0.97),
        (published.EUROSAT, "marked", 0.97),
        (published.EUROSAT_GPT, "marked", 0.97),
    ],
)
def test_ssi(name, kind, share):
    table = published.Table(name)
    expected = table.ssi(kind)
    below_cap = np.flatnonzero(expected < published.SSI_CAP)
    # the members that max_members keeps, to see which ROIs have coincident or all-equal ones
    kept = Regions.from_points(
        lat=table.lat, lon=table.lon, radius=published.SSI_RADIUS[name], center_index=below_cap
    ).nearest(published.SSI["max_members"])
    members, offsets = kept.members.numpy(), kept.offsets.numpy()
    _, place = np.unique(np.stack([table.lat, table.lon]), axis=1, return_inverse=True)
    comparable = []
    for m, row in enumerate(below_cap):
        inside = members[offsets[m] : offsets[m + 1]]
        # published marked scores of ROIs without a miss are their unmarked ones; ours are NaN by definition
        constant = kind == "marked" and len(set(table.hit[inside])) < 2
        if len(set(place[inside])) == len(inside) and not constant:
            comparable.append(row)
    assert len(comparable) > 500
    regions = Regions.from_points(
        lat=table.lat, lon=table.lon, radius=published.SSI_RADIUS[name], center_index=comparable
    )
    performance = None if kind == "unmarked" else torch.from_numpy(table.hit)
    coding = None if kind == "unmarked" else "signed"
    score = spatial_self_information(performance, regions, coding=coding, **published.SSI).numpy()
    assert np.isclose(score, expected[comparable], rtol=1e-6, atol=0).mean() >= share


def test_spad():
    table = published.Table(published.INAT)
    score, error = spad(torch.from_numpy(table.hit), lat=table.lat, lon=table.lon)
    assert 0 < float(error) < 1
    assert abs(float(score) - 19.02) < 3 * float(error)
