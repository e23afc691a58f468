"""The reference itself, held against other people's numbers and against what the definitions promise."""

import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from tests import published
from tests.reference import geometry, spad, sre, ssi
from tests.reference.gradient import numerical_gradient
from tests.reference.reduce import reduce_scores


@pytest.fixture(scope="module", params=published.FILES)
def table(request):
    return published.Table(request.param)


def sample(table, rows, count=60):
    return np.random.default_rng(0).choice(rows, min(count, len(rows)), replace=False)


@published.needs_published
def test_roi_sizes_and_distance_lag_are_the_published_ones(table):
    rows = sample(table, np.arange(len(table.lat)))
    centers = [table.centers[i] for i in rows]
    rois = geometry.rois(table.lat, table.lon, published.RADIUS, centers)
    assert [len(r) for r in rois] == table.sizes[rows].tolist()

    partition = sre.distance_lag(published.LAG)
    where = (table.lat, table.lon, centers, published.RADIUS, partition)
    score = np.nan_to_num(sre.spatial_relative_entropy(table.hit, *where, **published.SRE, rois=rois))
    for value, (inside, parts), expected in zip(
        score, sre.patches(*where, rois=rois), table.distance_lag[rows], strict=True
    ):
        scored = [(len(p), table.hit[p].sum()) for p in parts if len(p) >= published.SRE["min_patch_size"]]
        if any(hits == 0 for _, hits in scored):
            value = published.all_right_for_all_wrong(scored, (len(inside), table.hit[inside].sum()))
        assert value == pytest.approx(expected, rel=1e-7, abs=1e-9)


@published.needs_published
@pytest.mark.parametrize(
    ("name", "kind", "share"),
    [
        (published.INAT, "unmarked", 0.85),
        (published.EUROSAT, "unmarked", 0.95),
        (published.EUROSAT, "marked", 0.95),
        (published.EUROSAT_GPT, "marked", 0.95),
    ],
)
def test_ssi_is_the_published_one(name, kind, share):
    table = published.Table(name)
    expected, radius = table.ssi(kind), published.SSI_RADIUS[name]
    rows = []
    for i in sample(table, np.flatnonzero(expected < published.SSI_CAP), 60):
        kept = geometry.members(table.lat, table.lon, *table.centers[i], radius, 100)
        distinct = len({table.centers[j] for j in kept}) == len(kept)
        if distinct and (kind == "unmarked" or len(set(table.hit[kept])) == 2):
            rows.append(i)
    rows = rows[:20]
    values = None if kind == "unmarked" else table.hit
    centers = [table.centers[i] for i in rows]
    score = ssi.spatial_self_information(values, table.lat, table.lon, centers, radius, **published.SSI)
    # the rest hangs on the rounding of the published code's own background points
    assert np.isclose(score, expected[rows], rtol=1e-6).mean() >= share


@published.needs_published
def test_spad_is_the_published_one():
    table = published.Table(published.INAT)
    some = np.random.default_rng(0).integers(1, 101, size=(40, 2))
    score, error = spad.spad(table.hit, table.lat, table.lon, some.tolist())
    assert error < 1
    assert abs(score - 19.02) < 3 * error


@pytest.mark.parametrize("values", ["binary", "real"])
def test_permutation_moments_are_esdas(values):
    esda, libpysal = pytest.importorskip("esda"), pytest.importorskip("libpysal")
    rng = np.random.default_rng(3)
    points = rng.normal(size=(40, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    weights = ssi.knn_weights(points, 4)
    z = rng.integers(0, 2, 40).astype(float) if values == "binary" else rng.normal(size=40)
    graph = libpysal.weights.W(
        {i: np.flatnonzero(row).tolist() for i, row in enumerate(weights)}, silence_warnings=True
    )
    moran = esda.Moran(z, graph, transformation="o", permutations=0)
    scale = weights.sum() * z.var()  # G = I S0 m2
    mu, variance = ssi.permutation_moments(weights, z)
    assert mu == pytest.approx(moran.EI * scale, rel=1e-12)
    assert variance == pytest.approx(moran.VI_rand * scale**2, rel=1e-10)
    deviation = z - z.mean()
    assert deviation @ weights @ deviation == pytest.approx(moran.I * scale, rel=1e-12)


def test_permutation_moments_are_the_mean_over_all_orders():
    import itertools

    rng = np.random.default_rng(0)
    weights = rng.random((6, 6)) * (1 - np.eye(6))
    z = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 3.0])
    orders = np.array(list(itertools.permutations(z - z.mean())))
    g = np.einsum("pi,ij,pj->p", orders, weights, orders)
    assert ssi.permutation_moments(weights, z) == pytest.approx((g.mean(), g.var()), rel=1e-10)


@pytest.mark.parametrize(("smoothing", "prior"), [(1e-8, 0.0), (1e-3, 0.0), (1e-8, 0.5)])
def test_expected_log_is_scipys(smoothing, prior):
    n, c, p = 37, 9, 12
    a = np.arange(p + 1)
    q = (a + prior * c / n) / (p + prior) if prior else a / p + smoothing
    assert sre.expected_log_q(n, c, p, smoothing, prior) == pytest.approx(
        (hypergeom.pmf(a, n, c, p) * np.log(q)).sum(), rel=1e-10
    )


def test_excess_without_a_side_is_zero_on_average_over_shuffles():
    """The one promise of the noise correction, exactly: the mean over all placements of the values."""
    import itertools

    lat, lon = [0.0, 0.1, 0.2, 2.0, 2.1, 2.2], [0.0] * 6
    where = (lat, lon, [(0.0, 0.0)], 0.05, sre.distance_lag(0.025))
    for values in ([0.0, 0.0, 1.0, 1.0, 1.0, 1.0], [0.1, 0.3, 0.2, 0.9, 0.5, 0.8]):
        losses = [
            sre.loss(order, *where, min_patch_size=2, one_sided=False) for order in itertools.permutations(values)
        ]
        assert np.std(losses) > 0.01
        assert np.mean(losses) == pytest.approx(0, abs=1e-12)


def test_numerical_gradient_of_a_polynomial():
    gradient = numerical_gradient(lambda x: float(x[0] ** 2 * x[1]), [3.0, 5.0])
    assert gradient == pytest.approx([30.0, 9.0], rel=1e-8)


def test_backgrounds_lie_where_they_should():
    centre = geometry.unit_vectors(40.0, 170.0)
    lattice = ssi.fibonacci(40.0, 170.0, 0.1, 500)
    distance = geometry.arc_distance(lattice, centre)
    assert distance.max() < 0.1
    # equal areas: half of the points lie within the cap of half the area
    assert (np.sin(distance / 2) ** 2 < np.sin(0.05) ** 2 / 2).sum() == 250
    rings = ssi.concentric(40.0, 170.0, 0.1, 100)
    assert len(rings) == 578
    assert np.unique(np.round(geometry.arc_distance(rings, centre), 9)).size == 13


def test_reduce_by_hand():
    assert reduce_scores([1.0, math.nan, 4.0], [1.0, 5.0, 2.0]) == (3.0, 2, 3)
