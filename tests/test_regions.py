"""Who is in which ROI: against brute force, on every kind of input, in every way to ask."""

import copy
import gc
import itertools
import pickle
import warnings

import numpy as np
import pytest
import torch

import geobias_torch.regions
from geobias_torch import DirectionSector, DistanceLag, Regions, ScaleGrid
from geobias_torch.functional import noise_floor, spatial_relative_entropy
from geobias_torch.geometry import Arc
from geobias_torch.losses import SRELoss, SSILoss
from geobias_torch.patches import plain_patches
from tests import scenes
from tests.reference import geometry

RADII = (1e-7, 0.01, 0.1, 1.0, 2.0, 3.141592653589793)


def rois_of(regions):
    offsets, members = regions.offsets.tolist(), regions.members.tolist()
    return [members[a:b] for a, b in itertools.pairwise(offsets)]


def listed(lat, lon, radius, centers=None, max_members=None):
    return [r.tolist() for r in geometry.rois(lat, lon, radius, centers, max_members)]


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_members_equal_brute_force(scene, radius):
    lat, lon = scenes.points(scene, 150)
    regions = Regions.from_points(lat=lat, lon=lon, radius=Arc(radius))
    assert rois_of(regions) == listed(lat, lon, radius)
    assert regions.sizes.tolist() == [len(r) for r in rois_of(regions)]
    assert len(regions) == regions.num_points == 150
    assert regions.members.dtype == torch.int32
    assert regions.offsets.dtype == regions.sizes.dtype == torch.int64
    # somebody else's centres, among them the poles and the antimeridian
    centers = [(90.0, 13.0), (-90.0, 0.0), (-16.0, 180.0), (49.0, 11.0), (0.5, -0.5)]
    regions = Regions.from_points(
        lat=lat, lon=lon, radius=Arc(radius), center_lat=[c[0] for c in centers], center_lon=[c[1] for c in centers]
    )
    assert rois_of(regions) == listed(lat, lon, radius, centers)


def test_members_of_many_points_equal_brute_force():
    """Enough points for many tiles and blocks of the search, of very different density."""
    rng = np.random.default_rng(1)
    lat = np.concatenate(
        [np.degrees(np.arcsin(rng.uniform(-1, 1, 3000))), rng.normal(51, 0.3, 2000), np.full(500, -33.0)]
    )
    lon = np.concatenate([rng.uniform(-180, 180, 3000), rng.normal(179.9, 0.3, 2000), np.full(500, 151.0)])
    chosen = rng.choice(len(lat), 150, replace=False)
    for radius in (0.001, 0.03, 0.4):
        regions = Regions.from_points(lat=lat, lon=lon, radius=radius, center_index=chosen)
        assert rois_of(regions) == listed(lat, lon, radius, [(lat[i], lon[i]) for i in chosen])
        everybody = Regions.from_points(lat=lat, lon=lon, radius=radius)
        assert torch.equal(everybody.sizes[chosen], regions.sizes)


@pytest.mark.parametrize("scene", scenes.NAMES)
def test_nothing_changes_with_the_way_that_coordinates_are_written(scene):
    lat, lon = scenes.points(scene)
    plain = rois_of(Regions.from_points(lat=lat, lon=lon, radius=0.1))
    assert rois_of(Regions.from_points(lat=lat, lon=lon + 360, radius=0.1)) == plain
    assert rois_of(Regions.from_points(lat=lat, lon=lon - 720, radius=0.1)) == plain
    assert rois_of(Regions.from_points(lat=lat, lon=lon + 64, radius=0.1)) == plain
    assert rois_of(Regions.from_points(lat=torch.tensor(lat), lon=torch.tensor(lon), radius=0.1)) == plain
    assert rois_of(Regions.from_points(lat=lat.tolist(), lon=lon.tolist(), radius=0.1)) == plain
    turned = scenes.rotate(lat, lon)
    assert rois_of(Regions.from_points(lat=turned[0], lon=turned[1], radius=0.1)) == plain
    order = np.random.default_rng(0).permutation(len(lat))
    permuted = rois_of(Regions.from_points(lat=lat[order], lon=lon[order], radius=0.1))
    assert [sorted(order[r].tolist()) for r in permuted] == [plain[i] for i in order]


def test_inputs_are_not_changed_and_longitudes_are_wrapped():
    lat, lon = np.array([10.0, 20.0]), np.array([370.0, -185.0])
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1)
    assert lon.tolist() == [370.0, -185.0]
    assert regions.lon.tolist() == [10.0, 175.0]
    assert regions.lat.dtype == regions.lon.dtype == regions.center_lat.dtype == torch.float64
    assert regions.radius == 0.1
    assert repr(regions) == "Regions(2 ROIs of radius 0.1 rad over 2 points)"


def test_no_points_one_point_and_no_centres():
    nothing = Regions.from_points(lat=[], lon=[], radius=0.1)
    assert (len(nothing), nothing.num_points, rois_of(nothing)) == (0, 0, [])
    assert nothing.sum(torch.zeros(0)).shape == (0,)
    assert len(nothing.patches(DistanceLag(0.05)).roi) == 0
    lone = Regions.from_points(lat=[10.0], lon=[20.0], radius=0.1)
    assert rois_of(lone) == [[0]]
    no_centres = Regions.from_points(lat=[10.0], lon=[20.0], radius=0.1, center_index=[])
    assert (len(no_centres), no_centres.num_points) == (0, 1)
    assert no_centres.sum(torch.ones(1)).shape == (0,)
    empty = Regions.from_points(lat=[], lon=[], radius=0.1, center_lat=[1.0], center_lon=[2.0])
    assert rois_of(empty) == [[]]
    assert empty.sum(torch.zeros(0)).tolist() == [0.0]


@pytest.mark.parametrize("max_members", [1, 4, 20, 1000])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_the_nearest_members_equal_brute_force(scene, max_members):
    lat, lon = scenes.points(scene)
    expected = listed(lat, lon, 0.1, max_members=max_members)
    full = Regions.from_points(lat=lat, lon=lon, radius=0.1)
    cut = sum(len(a) > len(b) for a, b in zip(rois_of(full), expected, strict=True))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        regions = Regions.from_points(lat=lat, lon=lon, radius=0.1, max_members=max_members)
    assert rois_of(regions) == expected
    messages = [str(w.message) for w in caught]
    assert messages == ([f"{cut} of 80 ROIs were cut to their {max_members} nearest members."] if cut else [])
    # from a list of members as well as from a search
    of_list = Regions.from_members(
        lat=lat, lon=lon, center_lat=lat, center_lon=lon, radius=0.1, offsets=full.offsets, members=full.members
    )
    assert rois_of(of_list.nearest(max_members)) == expected
    assert full.nearest(None) is full


def test_ties_at_the_cut_are_kept():
    regions = Regions.from_points(lat=[40.0] * 30 + [40.1], lon=[10.0] * 31, radius=0.1).nearest(5)
    assert regions.sizes.tolist() == [30] * 30 + [31]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_sums_and_their_gradient(scene, dtype):
    lat, lon = scenes.points(scene)
    values = torch.tensor(scenes.probabilities(scene), dtype=dtype)
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1)
    expected = torch.stack([values[r].sum() for r in rois_of(regions)])
    torch.testing.assert_close(regions.sum(values), expected)
    # after patches were made, sums are taken from their cells
    weight = torch.linspace(-1, 1, 80, dtype=dtype)
    for _ in range(2):
        both = torch.stack([values, values**2], dim=1).requires_grad_()
        total = regions.sum(both)
        torch.testing.assert_close(total[:, 0], expected)
        (weight[:, None] * total).sum().backward()
        gradient = torch.stack([weight[[i in r for r in rois_of(regions)]].sum() for i in range(80)])
        torch.testing.assert_close(both.grad, torch.stack([gradient, gradient], dim=1))
        regions.build([DistanceLag(0.03), DirectionSector(5), ScaleGrid(0.03)])


@pytest.mark.parametrize("made_first", [True, False])
@pytest.mark.parametrize(
    "centers",
    [slice(3, 20), slice(None, None, 7), 5, -1, torch.tensor([9, 2, 2, 40]), [1], np.array([0, -2]), slice(0, 0)],
)
def test_subsets(centers, made_first):
    lat, lon = scenes.points("clustered")
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1)
    everybody = rois_of(regions) if made_first else None
    part = regions[centers]
    numbers = np.arange(80)[centers.numpy() if isinstance(centers, torch.Tensor) else centers]
    numbers = np.atleast_1d(numbers).tolist()
    assert len(part) == len(numbers)
    assert part.num_points == 80
    assert part.center_lat.tolist() == [lat[i] for i in numbers]
    everybody = everybody or rois_of(regions)
    assert rois_of(part) == [everybody[i] for i in numbers]
    values = torch.from_numpy(scenes.hits("clustered"))
    torch.testing.assert_close(part.sum(values), regions.sum(values)[numbers])
    sizes = part.patches(DistanceLag(0.03)).sizes
    assert int(sizes.sum()) == int(part.sizes.sum())


def patches_of(patches):
    """[(ROI, id, members)] of all patches, and the members that lie in none, ROI by ROI."""
    cells, found, none = patches.cells, {}, {}
    offsets, members = cells.segments.offsets.tolist(), cells.segments.members.tolist()
    for cell, (roi, patch) in enumerate(zip(cells.roi.tolist(), patches.cell_patch.tolist(), strict=True)):
        own = members[offsets[cell] : offsets[cell + 1]]
        if patch == len(patches):
            none.setdefault(roi, []).extend(own)
        else:
            found.setdefault(patch, []).extend(own)
    table = zip(patches.roi.tolist(), patches.ids.tolist(), patches.sizes.tolist(), strict=True)
    rows = [(roi, number, size, sorted(found[patch])) for patch, (roi, number, size) in enumerate(table)]
    return rows, {roi: sorted(own) for roi, own in none.items()}


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_a_subset_takes_over_the_patches_that_exist(scene, together, listed):
    lat, lon = scenes.points(scene)
    partitions = [ours for ours, _ in scenes.PARTITIONS.values()] + [lambda frame: (frame.lat > 0).long() - 1]
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1)
    regions.build(partitions) if together else [regions.patches(p) for p in partitions]
    if listed:
        regions.members  # noqa: B018 - made on first use
    for index in (torch.tensor([7, 3, 3, 79]), torch.zeros(0, dtype=torch.int64), torch.arange(80)):
        part, fresh = regions[index], Regions.from_points(lat=lat, lon=lon, radius=0.1, center_index=index)
        assert part.partitions == partitions
        assert torch.equal(part.sizes, fresh.sizes)
        for partition in partitions:
            assert patches_of(part.patches(partition)) == patches_of(plain_patches(fresh, partition))


def test_a_mask_is_an_index():
    regions = Regions.from_points(lat=[40.0, 41.0, 42.0], lon=[10.0] * 3, radius=0.1)
    assert regions[torch.tensor([True, False, True])].center_lat.tolist() == [40.0, 42.0]


@pytest.mark.parametrize("made_first", [True, False])
@pytest.mark.parametrize("max_bytes", [1, 20_000, 10**9])
def test_blocks(max_bytes, made_first):
    lat, lon = scenes.points("uniform")
    regions = Regions.from_points(lat=lat, lon=lon, radius=0.1)
    if made_first:
        regions.members  # noqa: B018 - made on first use
    blocks = list(regions.blocks(max_bytes))
    assert sum(len(b) for b in blocks) == 80
    # a block holds one ROI at least, and no more pairs than its bytes allow
    assert all(len(b) == 1 or 4 * len(b.members) <= max_bytes for b in blocks)
    assert {1: len(blocks) == 80, 20_000: 1 < len(blocks) < 80, 10**9: len(blocks) == 1}[max_bytes]
    assert [r for b in blocks for r in rois_of(b)] == rois_of(regions)


def test_members_given_explicitly():
    lat, lon = scenes.points("antimeridian")
    searched = Regions.from_points(lat=lat, lon=lon, radius=0.1)
    given = Regions.from_members(
        lat=lat, lon=lon, center_lat=lat, center_lon=lon, radius=0.1, offsets=searched.offsets, members=searched.members
    )
    values = torch.from_numpy(scenes.hits("antimeridian"))
    torch.testing.assert_close(given.sum(values), searched.sum(values))
    for partition, _ in scenes.PARTITIONS.values():
        a, b = given.patches(partition), searched.patches(partition)
        assert torch.equal(a.roi, b.roi)
        assert torch.equal(a.ids, b.ids)
        assert torch.equal(a.sizes, b.sizes)
        torch.testing.assert_close(a.sum(values), b.sum(values))
    # a member far outside the radius goes into the outermost ring
    far = Regions.from_members(
        lat=[40.0, 41.0, 80.0], lon=[10.0] * 3, center_lat=[40.0], center_lon=[10.0], radius=0.1, offsets=[0, 3],
        members=[0, 1, 2],
    )  # fmt: skip
    assert far.patches(DistanceLag(0.03)).ids.tolist() == [0, 3]


def test_what_was_built_is_kept():
    regions = Regions.from_points(lat=[40.0, 41.0], lon=[10.0] * 2, radius=0.1)
    assert regions.patches(DistanceLag(0.05)) is regions.patches(DistanceLag(0.05))
    assert regions.graph(k=1) is regions.graph(k=1)
    assert regions.graph(k=1) is not regions.graph(k=1, ties="index")
    assert regions.to("cpu") is regions


def test_coincident_points_beyond_memory_are_refused_before_anything_is_allocated(monkeypatch):
    lat, lon = torch.full((100_000,), 12.0), torch.full((100_000,), 34.0)
    message = r"100,000 ROIs of radius 0.05 rad hold at least 10,000,000,000: take a smaller `radius`, keep the nearest"
    with pytest.raises(ValueError, match=message):
        Regions.from_points(lat=lat, lon=lon, radius=0.05)
    few = Regions.from_points(lat=lat, lon=lon, radius=0.05, center_index=[5, 6])
    assert few.sizes.tolist() == [100_000, 100_000]
    monkeypatch.setattr(geobias_torch.members, "MAX_PAIRS", 1_000_000)
    message = r"at most 1,000,000 .* points at equal distances, which `max_members` = 100 does not part"
    with pytest.raises(ValueError, match=message):
        Regions.from_points(lat=lat[:2000], lon=lon[:2000], radius=0.05, max_members=100)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"center_lat": [1.0]}, r"Expected `center_lat` and `center_lon` together, but got only one of them"),
        ({"center_index": [0], "center_lat": [1.0], "center_lon": [1.0]},
         r"Expected either `center_index` or `center_lat` and `center_lon`, but got both"),
        ({"center_index": [0, 2]}, r"Expected `center_index` within \[0, 1\], but got 2 at position 1"),
        ({"center_index": [-1]}, r"Expected `center_index` within \[0, 1\], but got -1 at position 0"),
        ({"center_index": [0.5]}, r"Expected `center_index` to be a vector of integers, but got torch.float64"),
        ({"center_lat": [91.0], "center_lon": [0.0]},
         r"Expected `center_lat` of shape \(N,\) in degrees within \[-90, 90\], but got 91 at row 0"),
        ({"center_lat": [1.0], "center_lon": []}, r"Expected `center_lat` and `center_lon` of one length"),
        ({"max_members": 0}, r"Expected `max_members` to be an integer >= 1 or None, but got 0"),
        ({"max_members": 2.5}, r"Expected `max_members` to be an integer >= 1 or None, but got 2.5"),
    ],
)  # fmt: skip
def test_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        Regions.from_points(lat=[40.0, 41.0], lon=[10.0, 10.0], radius=0.1, **keywords)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"offsets": [0, 1, 2]}, r"Expected `offsets` of shape \(2,\), but got shape \(3,\)"),
        ({"offsets": [0, 1]}, r"Expected `offsets` to ascend from 0 to the number of members, 2"),
        ({"offsets": [1, 2]}, r"Expected `offsets` to ascend from 0 to the number of members, 2"),
        ({"members": [0, 3]}, r"Expected `members` within \[0, 2\], but got 3 at position 1"),
        ({"radius": 5}, r"did you mean km\(5\)\?"),
    ],
)
def test_refused_members(keywords, message):
    given = {
        "lat": [40.0, 41.0, 42.0], "lon": [10.0] * 3, "center_lat": [40.0], "center_lon": [10.0], "radius": 0.1,
        "offsets": [0, 2], "members": [0, 1],
    }  # fmt: skip
    assert Regions.from_members(**given).sizes.tolist() == [2]
    with pytest.raises(ValueError, match=message):
        Regions.from_members(**{**given, **keywords})


def test_refused_questions():
    regions = Regions.from_points(lat=[40.0, 41.0], lon=[10.0, 10.0], radius=0.1)
    with pytest.raises(ValueError, match=r"Expected `centres` within \[-2, 1\], but got 2 at position 0"):
        regions[2]
    with pytest.raises(ValueError, match=r"Expected `centres` to be a vector of integers, but got torch.float32"):
        regions[torch.tensor([0.0])]
    with pytest.raises(ValueError, match=r"Expected `max_bytes` > 0, but got 0"):
        next(regions.blocks(0))
    with pytest.raises(ValueError, match=r"Expected `values` for 2 points, but got shape \(3,\)"):
        regions.sum(torch.ones(3))
    with pytest.raises(TypeError, match=r"Expected `lat` to hold numbers, but got <U3"):
        Regions.from_points(lat=["40N"], lon=[10.0], radius=0.1)


def test_threads_change_nothing():
    rng = np.random.default_rng(3)
    lat, lon = 45 + rng.normal(0, 2, (2, 3000))
    performance = torch.from_numpy(rng.random(3000))
    results = []
    threads = torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            regions = Regions.from_points(lat=lat, lon=lon, radius=0.05)
            patches = regions.patches(ScaleGrid(0.02))
            values = performance.clone().requires_grad_()
            patches.sum(values).square().sum().backward()
            graph = regions.graph(max_members=30)
            results.append([regions.members, patches.roi, patches.ids, values.grad, graph.source, graph.s1])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


@pytest.mark.parametrize("radius", [0.01, 0.1, 1.5, 3.1])
@pytest.mark.parametrize("scene", scenes.NAMES)
def test_no_bound_is_below_the_number_of_pairs(scene, radius):
    lat, lon = scenes.points(scene)
    regions = Regions.from_points(lat=lat, lon=lon, radius=Arc(radius))
    low, high = (int(bound.sum()) for bound in regions._search.bounds())
    assert low <= len(regions.members) <= high <= regions._search.at_most()


# ------------------------------------------------------------------ several ROIs around one centre


@pytest.fixture
def crowded():
    """60 points at 9 places, and a centre for each."""
    rng = np.random.default_rng(0)
    lat, lon = (np.array([[50.0], [179.9]]) + rng.uniform(0, 4, (2, 9)))[:, rng.integers(9, size=60)]
    return {"lat": lat, "lon": lon, "radius": 0.03}


PARTS = (ScaleGrid(0.01), DistanceLag(0.01), DirectionSector(4))


def one_by_one(regions, partition):
    """{ROI: {patch id: members}}."""
    patches, found = regions.patches(partition), [{} for _ in range(len(regions))]
    segments = patches.cells.segments
    for cell, patch in enumerate(patches.cell_patch.tolist()):
        if patch < len(patches):
            start, stop = segments.offsets[cell], segments.offsets[cell + 1]
            own = found[int(patches.roi[patch])].setdefault(int(patches.ids[patch]), set())
            own.update(segments.members[start:stop].tolist())
    return found


SOME, KNOWN = torch.arange(59, 20, -2), torch.arange(60) % 3 > 0
WAYS = {
    "as they are": lambda r: r,
    "built before": lambda r: (r.build(PARTS), r)[1],
    "copied": lambda r: pickle.loads(pickle.dumps((r.build(PARTS), r)[1])),
    "some": lambda r: (r.build(PARTS), r[SOME])[1],
    "some, of nobody's patches": lambda r: r[SOME],
    "of some points": lambda r: (r.build(PARTS), r.only(KNOWN))[1],
}


@pytest.mark.parametrize("way", WAYS)
def test_rois_around_one_centre_are_found_once(crowded, way):
    regions = WAYS[way](Regions.from_points(**crowded))
    listed = Regions.from_points(**crowded).segments
    lists = [listed.members[a:b].tolist() for a, b in itertools.pairwise(listed.offsets.tolist())]
    if way.startswith("some"):
        lists = [lists[roi] for roi in SOME]
    if way == "of some points":
        lists = [[point for point in members if KNOWN[point]] for members in lists]
    assert regions.sizes.tolist() == [len(members) for members in lists]
    values = torch.rand(60, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(regions.sum(values), torch.stack([values[members].sum(dim=0) for members in lists]))
    same = torch.arange(60) % 4 == 0
    assert regions.constant(same.double()).tolist() == [len({bool(same[i]) for i in m}) < 2 for m in lists]
    for partition in PARTS:
        for members, patches in zip(lists, one_by_one(regions, partition), strict=True):
            found = sorted(itertools.chain.from_iterable(patches.values()))
            nowhere = set(members) - set(found)  # those at the centre lie in no sector
            assert found == sorted(set(members) - nowhere)
            assert not nowhere or partition == DirectionSector(4)


def test_scores_of_rois_around_one_centre(crowded):
    regions = Regions.from_points(**crowded)
    distinct, which = regions.distinct
    assert (len(distinct), len(which)) == (9, 60)
    torch.testing.assert_close(distinct.center_lat[which], regions.center_lat)
    performance = torch.rand(60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for partition in PARTS:
        options = {"min_patch_size": 3}
        alone = Regions.from_members(
            lat=regions.lat, lon=regions.lon, center_lat=regions.center_lat, center_lon=regions.center_lon,
            radius=regions.radius, offsets=regions.offsets, members=regions.members,
        )  # fmt: skip
        assert alone.distinct[0] is alone
        for score in (spatial_relative_entropy, noise_floor):
            found, expected = (score(performance, rois, partition, **options) for rois in (regions, alone))
            assert found.isfinite().any()
            torch.testing.assert_close(found, expected, equal_nan=True)
    assert not regions._patches, "the ROIs around one centre were cut one by one"


def test_a_copy_outlives_the_original(crowded):
    """What is taken over from the whole hangs on the whole's own cells, not on where in memory they lie."""
    values = torch.arange(60.0)
    expected = [Regions.from_points(**crowded).patches(DirectionSector(n)).sum(values) for n in range(2, 40)]
    for copied in (copy.deepcopy, lambda regions: pickle.loads(pickle.dumps(regions))):
        for known in range(2, 12):
            regions = Regions.from_points(**crowded)
            for n in range(2, known):
                regions.patches(DirectionSector(n))
            regions = copied(regions)
            gc.collect()
            for n, sums in enumerate(expected, start=2):
                assert torch.equal(regions.patches(DirectionSector(n)).sum(values), sums)


@pytest.mark.parametrize("what", ["patches", "of_size", "sizes", "graph", "sum"])
def test_what_was_found_in_inference_mode_may_be_trained_on(crowded, what):
    def gradient(regions):
        values = performance.clone().requires_grad_()
        score = spatial_relative_entropy(values, regions, PARTS[0], bins="probability", prior=0.5, min_patch_size=2)
        losses = SRELoss(PARTS, target="roi")(values, regions) + SSILoss()(values, regions)
        return torch.autograd.grad(score.nansum() + losses, values)[0]

    regions = Regions.from_points(**crowded)
    performance = torch.rand(60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        {
            "patches": lambda: regions.patches(PARTS[0]),
            "of_size": lambda: spatial_relative_entropy(performance, regions, PARTS[0], bins="probability", prior=0.5),
            "sizes": lambda: regions.sizes,
            "graph": lambda: regions.graph(background_ratio=0),
            "sum": lambda: regions.sum(performance),
        }[what]()
    expected = gradient(Regions.from_points(**crowded))
    assert expected.any()
    torch.testing.assert_close(gradient(regions), expected)
