"""What every location encoder must keep: types, missing locations, saving, compiling, antimeridian and poles."""

import copy
import math

import pytest
import torch

from training.encoders import (
    RBF,
    SIREN,
    XYZ,
    LocationEmbedding,
    NeRF,
    NoLocation,
    Space2VecGrid,
    Space2VecTheory,
    Sphere2Vec,
    SphericalHarmonics,
)
from training.encoders.base import has_location

ANCHORS = [(10.0, 20.0), (-40.0, -175.0), (85.0, 100.0)]

# kind: [how it is made, another of the same shape]
ENCODERS = {
    **{
        variant: [lambda v=variant: Sphere2Vec(4, 0.01, variant=v), lambda v=variant: Sphere2Vec(4, 0.3, variant=v)]
        for variant in ("sphereC", "sphereC+", "sphereM")
    },
    "grid": [lambda: Space2VecGrid(4, 0.7), lambda: Space2VecGrid(4, 5.0)],
    "theory": [lambda: Space2VecTheory(4, 0.7), lambda: Space2VecTheory(4, 5.0)],
    "rbf": [lambda: RBF(ANCHORS, 0.4), lambda: RBF([(0.0, 0.0)] * 3, 0.1)],
    "rbf, degrees": [
        lambda: RBF(ANCHORS, 60.0, metric="euclid_deg"),
        lambda: RBF([(0.0, 0.0)] * 3, 2.0, metric="euclid_deg"),
    ],
    "nerf": [lambda: NeRF(8), lambda: NeRF(8)],
    "xyz": [XYZ, XYZ],
    "harmonics": [lambda: SphericalHarmonics(7), lambda: SphericalHarmonics(7)],
    "none": [NoLocation, NoLocation],
    "embedding": [lambda: LocationEmbedding(XYZ(), SIREN(3, 5)), lambda: LocationEmbedding(XYZ(), SIREN(3, 5))],
}
# what has a seam at the antimeridian unless told to have none
PERIODIC = {
    **{
        variant: lambda periodic, v=variant: Sphere2Vec(9, 0.013, variant=v, periodic=periodic)
        for variant in ("sphereC", "sphereC+", "sphereM")
    },
    "grid": lambda periodic: Space2VecGrid(9, 0.7, periodic=periodic),
    "theory": lambda periodic: Space2VecTheory(9, 0.7, periodic=periodic),
    "rbf, degrees": lambda periodic: RBF(ANCHORS, 20.0, metric="euclid_deg", periodic=periodic),
}
SEAMLESS = ("rbf", "nerf", "xyz", "harmonics", "none", "embedding")

every_encoder = pytest.mark.parametrize("name", ENCODERS)


def make(name):
    return ENCODERS[name][0]()


def some_points(count, seed=0, dtype=torch.float64):
    lat, lon = torch.rand(2, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (180 * lat - 90).to(dtype), (360 * lon - 180).to(dtype)


@every_encoder
def test_shape_and_range(name):
    lat, lon = some_points(50)
    encoder = make(name)
    encoding = encoder(lat, lon)
    assert encoding.shape == (50, encoder.dim)
    assert encoding.dtype == torch.float32
    assert encoding.isfinite().all()
    by_name = encoder(lon=lon, lat=lat)
    assert torch.equal(by_name, encoding)


@every_encoder
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_modules_dtype_rounds_the_result_and_nothing_else(name, dtype):
    lat, lon = some_points(20)
    encoder = make(name)
    if name == "embedding":
        encoder = encoder.position  # the network after it computes in the module's dtype
    exact = copy.deepcopy(encoder).double()(lat, lon)
    there_and_back = encoder.to(dtype).double().to(dtype)
    encoding = there_and_back(lat, lon)
    assert encoding.dtype == dtype
    assert torch.equal(encoding, exact.to(dtype))
    assert all(buffer.dtype == torch.float64 for buffer in encoder.state_dict().values())


@every_encoder
def test_autocast_changes_nothing(name):
    lat, lon = some_points(20)
    encoder = make(name)
    encoder = getattr(encoder, "position", encoder)
    expected = encoder(lat, lon)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(encoder(lat, lon), expected)


@every_encoder
def test_rows_without_a_location_are_zeros_and_leave_gradients_alone(name):
    nan, inf = float("nan"), float("inf")
    lat = torch.tensor([1.0, nan, 2.0, 3.0, nan], requires_grad=True)
    lon = torch.tensor([1.0, 0.0, inf, 4.0, nan], requires_grad=True)
    encoding = make(name)(lat, lon)
    located = has_location(lat, lon)
    assert located.tolist() == [True, False, False, True, False]
    assert (encoding[~located] == 0).all()
    slopes = torch.autograd.grad(encoding.sum(), [lat, lon])
    for slope in slopes:
        assert slope.isfinite().all()
        assert (slope[~located] == 0).all()


@every_encoder
def test_none_one_and_many_points(name):
    encoder = make(name)
    encoding = encoder(torch.empty(0), torch.empty(0))
    assert encoding.shape == (0, encoder.dim)
    many_lat, many_lon = some_points(20_000)
    many = encoder(many_lat, many_lon)
    for row in (0, 19_999):
        one = encoder(many_lat[row : row + 1], many_lon[row : row + 1])
        torch.testing.assert_close(one[0], many[row])


@every_encoder
def test_saved_and_loaded_it_is_the_same_function(name):
    lat, lon = some_points(20)
    saved, fresh = (build() for build in ENCODERS[name])
    expected = saved(lat, lon)
    if name != "embedding":  # its weights are rounded for good
        saved.half()
    fresh.load_state_dict(saved.state_dict())
    assert torch.equal(fresh(lat, lon), expected)


@every_encoder
def test_compiles_as_one_graph(name):
    torch._dynamo.reset()
    lat, lon = some_points(20)
    lat[3] = float("nan")
    encoder = make(name)
    compiled = torch.compile(encoder, fullgraph=True, backend="aot_eager")
    for rows in (20, 7):
        encoding = compiled(lat[:rows], lon[:rows])
        expected = encoder(lat[:rows], lon[:rows])
        torch.testing.assert_close(encoding, expected)


@pytest.mark.parametrize("name", [name for name in ENCODERS if "rbf" not in name])  # anchors are numbers to check
def test_moves_through_the_meta_device(name):
    with torch.device("meta"):
        empty = make(name)
    expected = make(name)
    loaded = empty.to_empty(device="cpu")
    loaded.load_state_dict(expected.state_dict())
    lat, lon = some_points(5)
    assert torch.equal(loaded(lat, lon), expected(lat, lon))


@every_encoder
def test_poles(name):
    lat = torch.tensor([90.0, 90.0, -90.0], dtype=torch.float64, requires_grad=True)
    lon = torch.tensor([0.0, 120.0, 0.0], dtype=torch.float64, requires_grad=True)
    encoding = make(name).double()(lat, lon)
    for slope in torch.autograd.grad(encoding.square().sum() + encoding.sum(), [lat, lon]):
        assert slope.isfinite().all()
    one_code = torch.allclose(encoding[0], encoding[1], atol=1e-9)
    assert one_code == (name in SEAMLESS)  # and many codes, one per longitude, as documented
    if name != "none":
        assert not torch.allclose(encoding[0], encoding[2], atol=1e-3)


def test_poles_are_one_place_for_nerf_without_its_input():
    lat, lon = torch.tensor([90.0, -90.0]), torch.tensor([0.0, 0.0])
    waves = NeRF(8, include_input=False).double()(lat, lon)
    torch.testing.assert_close(waves[0], waves[1], rtol=0, atol=1e-9)


def seam(encoder):
    lat, _ = some_points(9)
    east, west = torch.full_like(lat, 180.0), torch.full_like(lat, -180.0)
    encoder.double()
    return (encoder(lat, east) - encoder(lat, west)).abs()


@pytest.mark.parametrize("name", PERIODIC)
def test_periodic_closes_the_seam_at_the_antimeridian(name):
    assert seam(PERIODIC[name](True)).max() < 1e-9
    assert seam(PERIODIC[name](False)).max() > 0.1
    # and any number of turns is none
    lat, lon = some_points(9)
    encoder = PERIODIC[name](True).double()
    torch.testing.assert_close(encoder(lat, lon + 360), encoder(lat, lon), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", SEAMLESS)
def test_encodings_of_the_sphere_have_no_seam(name):
    assert seam(make(name)).sum() < 1e-9
    assert set(SEAMLESS) | set(PERIODIC) == set(ENCODERS)


@pytest.mark.parametrize("name", PERIODIC)
def test_periodic_moves_fine_frequencies_by_little(name):
    free, rounded = PERIODIC[name](False), PERIODIC[name](True)
    if name.startswith("rbf"):
        lat, lon = torch.tensor([12.0, 3.0]), torch.tensor([20.0, 5.0])  # nowhere near the seam from these anchors
        torch.testing.assert_close(rounded(lat, lon)[:, 0], free(lat, lon)[:, 0])
    else:
        torch.testing.assert_close(rounded.frequencies[:3], free.frequencies[:3], rtol=0.05, atol=0)
        assert (rounded.frequencies > 0).all()


@pytest.mark.parametrize(
    ("encoder", "waves"),
    [
        (Sphere2Vec(2, 0.4, 9.0, periodic=True), [2, 1]),
        (Space2VecGrid(2, 28.0, 360.0, periodic=True), [2, 1]),
        (Space2VecTheory(2, 15.0, 360.0, periodic=True), [4, 2]),  # of two directions half as many
    ],
)
def test_periodic_leaves_the_coarsest_scale_one_wave_around(encoder, waves):
    around = 2 * math.pi * 6371.0088 / encoder.wavelengths_km()
    torch.testing.assert_close(around, torch.tensor(waves, dtype=torch.float64))


@pytest.mark.parametrize(
    ("encoder", "expected"),
    [
        (Sphere2Vec(2, 0.1, variant="sphereM"), [4003.02, 40030.17]),
        (Space2VecGrid(2, 1.0, 10.0), [698.658, 6986.58]),
        (Space2VecTheory(1, 0.1), [69.8658]),
        (RBF(ANCHORS, 0.1), [4003.02]),
        (RBF(ANCHORS, math.degrees(0.1), metric="euclid_deg"), [4003.02]),
        (NeRF(2), [6371.01, 12742.02]),
        (SphericalHarmonics(3), [20015.09, 40030.17]),
        (SphericalHarmonics(1), []),
        (XYZ(), [40030.17]),
        (NoLocation(), []),
        (LocationEmbedding(XYZ(), SIREN(3, 5)), [40030.17]),
    ],
)
def test_wavelengths_finest_first(encoder, expected):
    wavelengths = encoder.half().wavelengths_km()
    torch.testing.assert_close(wavelengths, torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=0)


def test_wavelength_is_where_a_wave_repeats():
    # along the latitude for the plane; along z for NeRF; around the equator for a harmonic of order l
    zero = torch.zeros(1, dtype=torch.float64)
    grid = Space2VecGrid(1, 3.0).double()
    turn = torch.rad2deg(grid.wavelengths_km() / 6371.0088)
    torch.testing.assert_close(grid(turn, zero), grid(zero, zero))
    assert not torch.allclose(grid(turn / 2, zero), grid(zero, zero))
    nerf = NeRF(3, include_input=False).double()
    lat = torch.rad2deg(torch.asin(nerf.wavelengths_km()[:1] / 6371.0088))
    z_of_the_finest = [8, 17]
    here, there = nerf(zero, zero), nerf(lat, zero)
    torch.testing.assert_close(there[:, z_of_the_finest], here[:, z_of_the_finest])
    harmonics = SphericalHarmonics(5).double()
    turn = torch.rad2deg(harmonics.wavelengths_km()[:1] / 6371.0088)
    torch.testing.assert_close(harmonics(zero, turn)[:, -1], harmonics(zero, zero)[:, -1])
    assert not torch.allclose(harmonics(zero, turn / 2)[:, -1], harmonics(zero, zero)[:, -1])


@every_encoder
@pytest.mark.parametrize("shapes", [((2,), (3,)), ((2, 1), (2, 1)), ((), ())])
def test_refused_shapes(name, shapes):
    with pytest.raises(ValueError, match=r"`lat` and `lon` of the same shape \(N,\), but got \("):
        make(name)(*map(torch.zeros, shapes))
