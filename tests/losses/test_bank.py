"""PerformanceBank: what it remembers, what it hands out, and whose gradient goes where."""

import copy

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

from geobias_torch import DirectionSector, DistanceLag, Regions
from geobias_torch.losses import PerformanceBank, SRELoss, SSILoss

N, RADIUS = 120, 0.1


def coordinates(seed=0, count=N):
    rng = np.random.default_rng(seed)
    return 40 + rng.uniform(0, 6, count), 10 + rng.uniform(0, 6, count)


def make(**options):
    lat, lon = coordinates()
    return PerformanceBank(lat=lat, lon=lon, radius=RADIUS, **({"min_members": 1} | options))


def fill(bank, seed=0):
    """Every point once; returns their performance."""
    values = torch.rand(N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for index in torch.randperm(N, generator=torch.Generator().manual_seed(seed)).split(40):
        bank(values[index], index)
    return values


def test_it_hands_out_the_latest_performance_of_all():
    bank = make()
    values = fill(bank)
    index = torch.tensor([7, 3, 11])
    everybody, regions = bank(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64), index)
    expected = values.clone()
    expected[index] = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    assert torch.equal(everybody, expected)
    assert torch.equal(bank.performance, expected)
    assert not bank.performance.requires_grad
    assert bank.staleness()[index].tolist() == [0, 0, 0]
    assert bank.staleness().max() == 3
    whole = Regions.from_points(lat=coordinates()[0], lon=coordinates()[1], radius=RADIUS)
    centers = [int(((whole.center_lat == a) & (whole.center_lon == b)).nonzero()[0]) for a, b in
               zip(regions.center_lat, regions.center_lon, strict=True)]  # fmt: skip
    assert sorted(centers) == [3, 7, 11]  # the centres are rows of the batch
    for m, center in enumerate(centers):
        mine = regions.members[regions.offsets[m] : regions.offsets[m + 1]]
        assert torch.equal(mine, whole.members[whole.offsets[center] : whole.offsets[center + 1]])


def test_only_the_batch_carries_gradient():
    bank = make(scale_gradient=False)
    fill(bank)
    performance = torch.rand(10, dtype=torch.float64, requires_grad=True)
    index = torch.arange(0, 100, 10)
    everybody, _ = bank(performance, index)
    weights = torch.rand(N, dtype=torch.float64)
    (everybody * weights).sum().backward()
    torch.testing.assert_close(performance.grad, weights[index])
    everybody, _ = bank(torch.rand(5, dtype=torch.float64), torch.arange(5))  # nothing of the last step is held
    assert not everybody.requires_grad


def test_scaled_gradients_of_all_batches_add_up_to_that_of_the_whole():
    """The mean over the batches of an epoch is the gradient in which every member carries its own."""
    bank = make(centers_per_step=N)
    values = fill(bank)
    loss = SRELoss(DirectionSector(4))
    whole = Regions.from_points(lat=coordinates()[0], lon=coordinates()[1], radius=RADIUS)
    all_carry = values.clone().requires_grad_()
    loss(all_carry, whole).backward()
    mean = torch.zeros(N, dtype=torch.float64)
    batches = torch.arange(N).split(30)
    for index in batches:
        performance = values[index].clone().requires_grad_()
        everybody, _ = bank(performance, index)
        loss(everybody, whole).backward()
        mean[index] += performance.grad / len(batches)
    torch.testing.assert_close(mean, all_carry.grad)


def test_points_never_seen_are_left_out():
    bank = make(min_coverage=0.0)
    index = torch.arange(0, N, 2)
    _, regions = bank(torch.rand(len(index)), index)
    assert (regions.members % 2 == 0).all()
    assert len(regions) == 32
    assert regions.sizes.sum() == len(regions.members) > 0
    assert (bank.staleness()[1::2] == -1).all()
    SSILoss()(bank(torch.rand(len(index)), index)[0], regions)


@pytest.mark.parametrize(
    "partition", [DirectionSector(4), DistanceLag(0.05), lambda frame: (frame.lat > frame.center_lat).long() - 1]
)
def test_patches_without_the_points_never_seen_are_those_of_the_seen_alone(partition):
    """Once a loss has named its partitions, patches are not cut again, but thinned out: to the same."""
    bank, loss = make(min_coverage=0.0), SRELoss(partition, min_patch_size=2)
    index = torch.cat([torch.arange(0, N, 3), torch.arange(1, N, 9)])
    values = torch.rand(len(index), dtype=torch.float64)
    for step in range(2):
        everybody, regions = bank(values, index)
        assert bool(regions.partitions) == (step == 1)
        found = regions.patches(partition)
        fresh = Regions.from_members(
            lat=regions.lat, lon=regions.lon, center_lat=regions.center_lat, center_lon=regions.center_lon,
            radius=RADIUS, offsets=regions.offsets, members=regions.members,
        )  # fmt: skip
        expected = fresh.patches(partition)
        assert torch.equal(found.roi, expected.roi)
        assert torch.equal(found.ids, expected.ids)
        assert torch.equal(found.sizes, expected.sizes)
        torch.testing.assert_close(found.sum(everybody), expected.sum(everybody))
        torch.testing.assert_close(loss(everybody, regions), loss(everybody, fresh))


def test_nothing_is_handed_out_before_enough_is_known():
    bank, loss = make(min_coverage=0.7), SRELoss(DirectionSector(4))
    performance = torch.rand(N // 2, requires_grad=True)
    value = loss(*bank(performance, torch.arange(N // 2)))
    value.backward()
    assert (value.item(), bank.coverage) == (0, 0.5)
    assert (performance.grad == 0).all()
    assert len(bank(torch.rand(N // 2), torch.arange(N // 2, N))[1]) == 32


def test_small_rois_are_not_drawn_and_the_draw_depends_on_seed_and_call_only():
    lat, lon = (np.append(x, y) for x, y in zip(coordinates(), (-70.0, 100.0), strict=True))
    bank = PerformanceBank(lat=lat, lon=lon, radius=RADIUS, min_members=2, min_coverage=0, centers_per_step=500)
    _, regions = bank(torch.rand(N + 1), torch.arange(N + 1))
    assert (regions.center_lat > 0).all()
    assert len(regions) == N

    def drawn(seed):
        bank = make(seed=seed, centers_per_step=5, min_coverage=0)
        return [bank(torch.rand(N), torch.arange(N))[1].center_lat.tolist() for _ in range(3)]

    first = drawn(1)
    assert first == drawn(1)
    assert first[0] != first[1]
    assert first != drawn(2)


def test_a_point_that_comes_twice_counts_with_its_last_row():
    bank = make(scale_gradient=False, min_coverage=0)
    performance = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
    everybody, _ = bank(performance, torch.tensor([5, 6, 5]))
    assert everybody[5].item() == pytest.approx(0.3)
    everybody.sum().backward()
    assert performance.grad.tolist() == [0, 1, 1]


def test_an_empty_batch_and_half_precision():
    bank = make(min_coverage=0)
    everybody, regions = bank(torch.zeros(0, requires_grad=True), torch.zeros(0, dtype=torch.int64))
    assert len(regions) == 0
    SRELoss(DirectionSector(4))(everybody, regions).backward()
    performance = torch.rand(20).bfloat16().requires_grad_()
    SSILoss()(*bank(performance, torch.arange(20))).backward()
    assert performance.grad.isfinite().all()


def test_with_its_state_a_fresh_bank_goes_on_as_if_never_stopped():
    bank = make(centers_per_step=5)
    fill(bank)
    resumed = make(centers_per_step=5)
    resumed.load_state(copy.deepcopy(bank.state()))
    fill(bank, seed=1)  # a state is a copy
    fill(resumed, seed=1)
    (all_a, a), (all_b, b) = (x(torch.ones(20), torch.arange(20)) for x in (bank, resumed))
    assert torch.equal(all_a, all_b)
    assert torch.equal(a.center_lat, b.center_lat)
    assert torch.equal(bank.staleness(), resumed.staleness())
    lat, lon = coordinates(seed=1)
    with pytest.raises(ValueError, match=r"`state` of a bank of these 120 points, but got one of 120 others"):
        PerformanceBank(lat=lat, lon=lon, radius=RADIUS).load_state(bank.state())
    with pytest.raises(ValueError, match=r"`state` of a bank of these 121 points, but got one of 120 others"):
        PerformanceBank(lat=np.zeros(121), lon=np.arange(121) / 10, radius=RADIUS).load_state(bank.state())


def test_it_stays_exact_in_half_precision_and_says_when_it_can_hand_out_nothing():
    bank = make().half()
    assert bank.performance.dtype == torch.float64
    with pytest.warns(UserWarning, match=r"No point has 500 points \(`min_members`\) within the radius of 0.1 rad"):
        make(min_members=500)
    with pytest.raises(ValueError, match="`seed` to be an integer >= 0, but got -1"):
        make(seed=-1)


def test_buffers_are_not_saved_and_copies_are_apart():
    bank = make()
    fill(bank)
    assert bank.state_dict() == {}
    other = copy.deepcopy(bank)
    other(torch.ones(1), torch.tensor([0]))
    assert bank.performance[0] != 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"centers_per_step": 0}, "`centers_per_step` to be an integer of at least 1, but got 0"),
        ({"min_members": 0}, "`min_members` to be an integer of at least 1, but got 0"),
        ({"min_coverage": 1.5}, r"`min_coverage` within \[0, 1\], but got 1.5"),
    ],
)
def test_refused_options(options, match):
    with pytest.raises(ValueError, match=match):
        make(**options)


@pytest.mark.parametrize(
    ("performance", "index", "match"),
    [
        (torch.rand(2), [0, N], f"`index` within .*but got {N} at position 1"),
        (torch.rand(2), [-1, 0], "but got -1 at position 0"),
        (torch.rand(2), [0, 1, 2], r"`index` of shape \(2,\) as `performance`, but got \(3,\)"),
        (torch.rand(2), [0.0, 1.0], "to be a vector of integers"),
        (torch.tensor([0.0, float("nan")]), [0, 1], "finite, but got nan at row 1"),
        (torch.rand(2, 1), [0, 1], r"shape \(N,\), but got \(2, 1\)"),
    ],
)
def test_refused_calls(performance, index, match):
    bank = make()
    with pytest.raises(ValueError, match=match):
        bank(performance, torch.tensor(index))
    assert bank.calls == 0
    assert bank.coverage == 0


def _rank(rank, path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    bank = make(gather=False)
    bank(torch.full((60,), float(rank), dtype=torch.float64), torch.arange(60) + 60 * rank)  # each its half
    bank(torch.tensor([0.5 + rank], dtype=torch.float64), torch.tensor([10]))  # and one point both
    bank.sync()
    expected = torch.cat([torch.zeros(60), torch.ones(60)]).double()
    expected[10] = 1.5
    assert torch.equal(bank.performance, expected)
    assert bank.coverage == 1
    torch.distributed.destroy_process_group()


def test_sync_of_two_processes(tmp_path):
    mp.spawn(_rank, (str(tmp_path / "store"),), nprocs=2)


class Holder(torch.nn.Module):
    """A model that holds its bank as a child."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.bank = make(gather=False)

    def forward(self, index):
        return self.weight + index / 100


def _wrapped_rank(rank, path, broadcast):
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    model = Holder()
    wrapped = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=broadcast)

    def step(points):
        index = torch.tensor(points) + 60 * rank
        return model.bank(wrapped(index), index)[0].sum()

    step([1, 2]).backward()
    if broadcast and rank:
        with pytest.raises(RuntimeError, match=r"with `gather=False` to be this rank's own.*broadcast_buffers=False"):
            step([3])
    else:
        step([3])
        assert (model.bank.seen >= 0).nonzero()[:, 0].tolist() == [60 * rank + i for i in (1, 2, 3)]
    torch.distributed.barrier()


@pytest.mark.filterwarnings("ignore:`broadcast_buffers` is deprecated")
@pytest.mark.parametrize("broadcast", [True, False])
def test_a_bank_that_ddp_overwrites_says_so(tmp_path, broadcast):
    mp.spawn(_wrapped_rank, (str(tmp_path / "store"), broadcast), nprocs=2)


HALVES = [torch.tensor([3, 4, 5, 9, 20, 31]), torch.tensor([40, 41, 9, 77])]  # unequal, and one point in both


def _gathering_rank(rank, path, results):
    if path:
        torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    bank, loss = make(centers_per_step=4), SRELoss(DirectionSector(4), min_patch_size=2)
    fill(bank)
    index = HALVES[rank] if path else torch.cat(HALVES)
    weight = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    everybody, regions = bank(torch.sigmoid(weight * index), index)
    value = loss(everybody, regions)
    value.backward()
    results[rank] = (value.item(), weight.grad.item(), everybody.detach().tolist(), regions.center_lat.tolist())
    if path:
        torch.distributed.destroy_process_group()


def test_two_processes_are_one_with_the_whole_batch(tmp_path):
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(_gathering_rank, (str(tmp_path / "store"), results), nprocs=2)
        one, other = results[0], results[1]
    alone = {}
    _gathering_rank(0, None, alone)
    value, gradient, everybody, centers = alone[0]
    for rank in (one, other):
        assert rank[0] == pytest.approx(value, abs=1e-12)
        assert rank[2] == everybody
        assert rank[3] == centers
    assert (one[1] + other[1]) / 2 == pytest.approx(gradient, rel=1e-9)  # what DDP makes of them
    assert gradient != 0


def test_sync_of_one_process_changes_nothing():
    bank = make()
    values = fill(bank)
    bank.sync()
    assert torch.equal(bank.performance, values)


def test_patches_that_a_loss_asked_for_are_found_once_for_all():
    bank, loss = make(), SRELoss([DirectionSector(4), DistanceLag(0.05)])
    fill(bank)
    for step in range(3):
        index = torch.arange(step, N, 3)
        everybody, regions = bank(torch.rand(len(index)), index)
        assert len(regions.partitions) == (0 if step == 0 else 2)
        value = loss(everybody, regions)
        fresh = Regions.from_points(
            lat=coordinates()[0], lon=coordinates()[1], radius=RADIUS,
            center_lat=regions.center_lat, center_lon=regions.center_lon,
        )  # fmt: skip
        torch.testing.assert_close(value, loss(everybody, fresh))
    assert len(bank.regions.partitions) == 2


def test_print_shows_the_settings():
    bank = PerformanceBank(lat=torch.linspace(5, 6, 40), lon=torch.linspace(5, 6, 40), radius=0.1, centers_per_step=7)
    assert str(bank).startswith("PerformanceBank(points=40, radius=0.1, centers_per_step=7, min_coverage=0.5")


def test_what_is_known_is_not_rounded_with_the_module():
    bank = PerformanceBank(lat=torch.linspace(5, 6, 40), lon=torch.linspace(5, 6, 40), radius=0.1)
    bank(-torch.linspace(0, 1e5, 40), torch.arange(40))
    before = bank.performance.clone()
    assert torch.equal(bank.half().performance, before)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"seed": 1.5}, "`seed` to be an integer >= 0, but got 1.5"),
        ({"centers_per_step": 2.5}, "`centers_per_step` to be an integer of at least 1, but got 2.5"),
    ],
)
def test_halves_are_no_numbers_of_things(options, match):
    with pytest.raises(ValueError, match=match):
        PerformanceBank(lat=torch.linspace(5, 6, 40), lon=torch.linspace(5, 6, 40), radius=0.1, **options)


def test_numpy_numbers_are_numbers():
    bank = PerformanceBank(
        lat=torch.linspace(5, 6, 40), lon=torch.linspace(5, 6, 40), radius=0.1, seed=np.int64(3), min_members=1
    )
    _, regions = bank(torch.rand(40), torch.arange(40))
    assert len(regions) == 32


def test_complex_performance_is_refused():
    bank = PerformanceBank(lat=torch.linspace(5, 6, 40), lon=torch.linspace(5, 6, 40), radius=0.1)
    with pytest.raises(TypeError, match=r"`performance` to be real, but got torch.complex64"):
        bank(torch.zeros(40, dtype=torch.complex64), torch.arange(40))
