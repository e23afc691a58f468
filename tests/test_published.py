"""The published tables through the library, with the bounds that the definitions state.

Every row for ROI sizes, distance-lag and the noise floor; SSI takes a sample, and every row (minutes) with --slow.
"""

import numpy as np
import pytest
import torch

from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from geobias_torch.functional import noise_floor, spad, spatial_relative_entropy, spatial_self_information
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


@pytest.mark.parametrize("most", [200, pytest.param(None, marks=pytest.mark.slow)], ids=["sample", "every row"])
@pytest.mark.parametrize(
    ("name", "kind", "share"),
    [
        (published.INAT, "unmarked", 0.93),
        (published.EUROSAT, "unmarked", 0.97),
        (published.EUROSAT, "marked", 0.97),
        (published.EUROSAT_GPT, "marked", 0.97),
    ],
)
def test_ssi(name, kind, share, most):
    table = published.Table(name)
    expected, radius = table.ssi(kind), published.SSI_RADIUS[name]
    below_cap = np.flatnonzero(expected < published.SSI_CAP)
    # the members that max_members keeps, to see which ROIs have coincident or all-equal ones
    kept = Regions.from_points(lat=table.lat, lon=table.lon, radius=radius, center_index=below_cap)
    kept = kept.nearest(published.SSI["max_members"])
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
    if most is not None:
        comparable = np.random.default_rng(0).choice(comparable, most, replace=False)
    regions = Regions.from_points(lat=table.lat, lon=table.lon, radius=radius, center_index=comparable)
    performance = None if kind == "unmarked" else torch.from_numpy(table.hit)
    coding = None if kind == "unmarked" else "signed"
    score = spatial_self_information(performance, regions, coding=coding, **published.SSI).numpy()
    assert np.isclose(score, expected[comparable], rtol=1e-6, atol=0).mean() >= share


def test_unmarked_ssi_knows_no_model():
    """Both EuroSAT files hold the same points: what is shown for one of them is shown for the other."""
    tables = published.Table(published.EUROSAT), published.Table(published.EUROSAT_GPT)
    assert tables[0].centers == tables[1].centers
    assert np.array_equal(tables[0].ssi("unmarked"), tables[1].ssi("unmarked"))


def test_spad():
    table = published.Table(published.INAT)
    score, error = spad(torch.from_numpy(table.hit), lat=table.lat, lon=table.lon)
    assert 0 < float(error) < 1
    assert abs(float(score) - 19.02) < 3 * float(error)


FLOOR_OPTIONS = [
    {"min_patch_size": size, **smoothing} for size in (10, 20) for smoothing in ({"smoothing": 1e-8}, {"prior": 0.5})
]


def patch_scores(roi, roi_size, roi_hits, size, hits, smoothing=1e-8, prior=0.0):
    """(#P / #N) KL(h(N), q) of patches in two bins, for hits of shape (S, K)."""
    h = roi_hits[roi] / roi_size[roi]
    total = np.zeros(hits.shape)
    for share, count in ((h, hits), (1 - h, size - hits)):
        q = (count + prior * share) / (size + prior) if prior else count / size + smoothing
        some = share > 0
        total[:, some] += share[some] * np.log(share[some] / q[:, some])
    return size / roi_size[roi] * total


@pytest.mark.parametrize("name", [published.EUROSAT, published.INAT])
@pytest.mark.parametrize("partition", [DistanceLag(0.005), DirectionSector(8), ScaleGrid(0.01)], ids=["DL", "DS", "SG"])
def test_floor_is_the_mean_score_of_shuffles_within_rois(name, partition):
    """Every ROI is shuffled on its own: the hits of its patches are drawn from the multivariate hypergeometric."""
    shuffles, rng = 20, np.random.default_rng(0)
    table = published.Table(name)
    hit = torch.from_numpy(table.hit)
    regions = Regions.from_points(lat=table.lat, lon=table.lon, radius=published.RADIUS)
    patches = regions.patches(partition)
    large = (patches.sizes >= 10).numpy()
    roi, size = patches.roi.numpy()[large], patches.sizes.numpy()[large]
    observed = patches.sum(hit).numpy().round().astype(int)[large]
    roi_size = regions.sizes.numpy()
    roi_hits = regions.sum(hit).numpy().round().astype(int)

    drawn = np.empty((shuffles, len(roi)), dtype=np.int64)
    for stretch in np.split(np.arange(len(roi)), np.flatnonzero(np.diff(roi)) + 1):
        m = roi[stretch[0]]
        # the last colour is everybody who is in no large patch
        colours = np.append(size[stretch], roi_size[m] - size[stretch].sum())
        drawn[:, stretch] = rng.multivariate_hypergeometric(colours, roi_hits[m], shuffles)[:, :-1]

    for options in FLOOR_OPTIONS:
        keywords = {k: v for k, v in options.items() if k != "min_patch_size"}
        score, floor = (f(hit, regions, partition, **options).numpy() for f in (spatial_relative_entropy, noise_floor))
        counts = np.isfinite(score)
        assert np.array_equal(np.isfinite(floor), counts)
        scored = size >= options["min_patch_size"]
        where = (roi[scored], roi_size, roi_hits, size[scored])
        # the library's own scores come out of the same sum
        own = np.bincount(roi[scored], patch_scores(*where, observed[None, scored], **keywords)[0], len(table.lat))
        np.testing.assert_allclose(own[counts], score[counts], rtol=1e-9, atol=1e-9)
        shuffled = np.bincount(
            roi[scored], patch_scores(*where, drawn[:, scored], **keywords).mean(axis=0), len(table.lat)
        )
        assert floor[counts].mean() == pytest.approx(shuffled[counts].mean(), rel=0.03)
