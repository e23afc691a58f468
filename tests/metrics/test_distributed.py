"""Two processes: rows are gathered whatever their number per rank, repeats removed by index, errors raised everywhere.

All scenarios run in one pair of processes, as starting them takes longer than they do.
"""

import contextlib
import time
import warnings
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DistributedSampler
from torchmetrics import MetricCollection

from geobias_torch.metrics import points
from tests.metrics.rows import METRICS, Walks, bits, check_tables, chosen, fed, rows_of, table

WORLD = 2
N = 61  # odd: a distributed sampler has to repeat a row
SCENARIOS = {}


def scenario(function):
    """Runs on every rank; what it returns is seen by the test of the same name, rank by rank."""
    SCENARIOS[function.__name__] = function
    return function


def rows():
    columns = rows_of("clustered", N)
    return columns | {"index": torch.arange(N).numpy()}


def unnumbered(columns):
    return {name: column for name, column in columns.items() if name != "index"}


def result(metric):
    """Values and table after a compute, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        values = bits(metric.compute())
    return values, table(metric), [str(w.message) for w in said if "torchmetrics" not in w.filename]


# ------------------------------------------------------------------ what the ranks do


@scenario
def unequal(rank):
    """Three rows here, all others there, in several batches."""
    part = chosen(rows(), slice(0, 3)) if rank == 0 else chosen(rows(), slice(3, N))
    batches = [chosen(part, slice(i, i + 20)) for i in range(0, len(part["lat"]), 20)]
    return {name: result(fed(make(), *batches)) for name, make in METRICS.items()}


@scenario
def empty_updates(rank):
    part = rows() if rank == 1 else chosen(rows(), slice(0, 0))
    return {name: result(fed(make(), part, chosen(part, slice(0, 0)))) for name, make in METRICS.items()}


@scenario
def never_updated(rank):
    return {name: result(fed(make(), rows()) if rank == 1 else make()) for name, make in METRICS.items()}


@scenario
def nobody_updated(rank):
    return result(METRICS["collection"]())


@scenario
def without_index(rank):
    metric = fed(METRICS["collection"](), unnumbered(chosen(rows(), slice(rank, N, WORLD))))
    first = result(metric)
    # the next epoch: not said again
    metric.reset()
    fed(metric, unnumbered(chosen(rows(), slice(rank, N, WORLD))))
    return first, result(metric)


@scenario
def sampler(rank):
    indices = list(DistributedSampler(range(N), WORLD, rank, shuffle=True, seed=3))
    assert len(indices) == 31
    part = chosen(rows(), indices)
    numbered = {
        name: result(fed(make(), chosen(part, slice(0, 8)), chosen(part, slice(8, 31))))
        for name, make in METRICS.items()
    }
    return numbered, result(fed(METRICS["collection"](), unnumbered(part)))


@scenario
def another_place(rank):
    """The same row number with other coordinates: on one rank another data set was read."""
    part = chosen(rows(), slice(0, 40))
    if rank == 1:
        part["lat"] = part["lat"] + 0.5
    messages = {}
    for name, make in METRICS.items():
        try:
            fed(make(), part).compute()
        except ValueError as error:
            messages[name] = str(error)
    return messages


@scenario
def after_an_error(rank):
    """A metric that refused its rows is used on."""
    part = chosen(rows(), slice(0, 40))
    metric = fed(METRICS["lag"](), part | {"lat": part["lat"] + rank})
    with contextlib.suppress(ValueError):
        metric.compute()
    try:
        metric.reset()
    except AttributeError as error:  # what a gathered state once led to; the ranks must stay together
        return (repr(error), {})
    return result(fed(metric, rows()))


@scenario
def index_on_one_rank(rank):
    part = chosen(rows(), slice(rank, N, WORLD))
    try:
        fed(METRICS["lag"](), part if rank == 0 else unnumbered(part)).compute()
    except ValueError as error:
        return str(error)
    return "no error"


@scenario
def epochs(rank):
    """Rows of a rank are its own again after a compute; an epoch over the same coordinates keeps the geometry."""
    metric = METRICS["collection"]()
    part = chosen(rows(), slice(rank, N, WORLD))
    fed(metric, chosen(part, slice(0, 10)))
    half = result(metric)
    own = sum(len(batch) for batch in metric.rows)
    fed(metric, chosen(part, slice(10, N)))
    whole = result(metric)
    with pytest.MonkeyPatch.context() as patch:
        walks = Walks(patch)
        metric.reset()
        fed(metric, chosen(rows(), slice(1 - rank, N, WORLD)))
        again = result(metric)
    return half, whole, again, own, walks.count


@scenario
def gaps(rank):
    """A rank all of whose rows lack something; the dropped rows of all ranks are counted."""
    columns = rows()
    columns["performance"][:20] = float("nan")
    part = chosen(columns, slice(0, 20) if rank == 0 else slice(20, N))
    return result(fed(METRICS["collection"](), part))


@scenario
def collected(rank):
    part = chosen(rows(), slice(0, 3) if rank == 0 else slice(3, N))
    together = MetricCollection({name: METRICS[name]() for name in ("lag", "sector", "spad")})
    together.update(part["performance"], **{name: part[name] for name in ("lat", "lon", "index")})
    return bits(together.compute())


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    results = {}
    for name, function in SCENARIOS.items():
        results[name] = function(rank)
        dist.barrier()
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


# ------------------------------------------------------------------ what comes out


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """[results of all scenarios] of the ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    processes = mp.spawn(work, args=(str(folder),), nprocs=WORLD, join=False)
    end = time.monotonic() + 120
    try:
        while not processes.join(timeout=5):
            assert time.monotonic() < end, "the ranks wait for each other"
    finally:
        for process in processes.processes:
            process.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]


@pytest.fixture(scope="module")
def alone():
    """Values and table of every metric in one process that has all rows."""
    return {name: result(fed(make(), rows())) for name, make in METRICS.items()}


def check(actual, expected):
    assert actual[0] == expected[0]
    check_tables(actual[1], expected[1])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["unequal", "empty_updates", "never_updated"])
def test_any_number_of_rows_per_rank(name, metric, ranks, alone):
    for results in ranks:
        check(results[name][metric], alone[metric])
        assert results[name][metric][2] == []


def test_no_rows_on_any_rank(ranks):
    for results in ranks:
        values, local, _ = results["nobody_updated"]
        assert values["performance"] == bits(torch.tensor(torch.nan, dtype=torch.float64))["value"]
        assert len(local["lat"]) == 0


def test_without_index_the_rows_of_all_ranks_count_and_one_warning_says_so(ranks, alone):
    for results in ranks:
        first, second = results["without_index"]
        assert first[0] == second[0] == alone["collection"][0]
        assert len(first[2]) == 1
        assert first[2][0].startswith("Rows came from several processes without `index`")
        assert second[2] == []
        # the table is in the order of the ranks
        order = [*range(0, N, 2), *range(1, N, 2)]
        check_tables(first[1], {name: column[order] for name, column in alone["collection"][1].items()})


@pytest.mark.parametrize("metric", METRICS)
def test_repeats_of_a_distributed_sampler_are_removed(metric, ranks, alone):
    for results in ranks:
        numbered, plain = results["sampler"]
        check(numbered[metric], alone[metric])
        # without numbers the repeated row counts twice
        assert plain[0] != alone["collection"][0]
        assert len(plain[1]["lat"]) == N + 1


def test_one_index_is_one_location_on_all_ranks(ranks):
    for results in ranks:
        assert results["another_place"].keys() == METRICS.keys()
        for message in results["another_place"].values():
            assert message.startswith("Expected one location for each `index`, but got 0 with different `lat`, `lon`")


def test_a_metric_that_refused_its_rows_can_be_used_on(ranks, alone):
    for results in ranks:
        check(results["after_an_error"], alone["lag"])


def test_index_on_one_rank_alone_is_refused_on_all(ranks):
    for results in ranks:
        assert results["index_on_one_rank"].startswith("Expected `index` in every update or in none")


def test_epochs(ranks, alone):
    for rank, results in enumerate(ranks):
        half, whole, again, own, searches = results["epochs"]
        assert half[0] != whole[0]
        assert own == 10
        check(whole, alone["collection"])
        check(again, alone["collection"])
        assert searches == 0, f"rank {rank} searched again"


def test_a_rank_whose_rows_are_all_dropped(ranks):
    columns = rows()
    columns["performance"][:20] = float("nan")
    expected = result(fed(METRICS["collection"](), columns))
    for results in ranks:
        check(results["gaps"], expected)
        assert results["gaps"][2] == ["20 of 61 rows lack a location or performance and are left out."]


def test_metric_collection(ranks, alone):
    for results in ranks:
        assert results["collected"] == {name: alone[name][0]["value"] for name in ("lag", "sector", "spad")}


def _one_rank_computes(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/lonely", rank=rank, world_size=WORLD)
    points._PATIENCE = timedelta(seconds=1)
    metric = fed(METRICS["lag"](), rows())
    if rank == 0:
        with pytest.raises(RuntimeError, match=r"every rank to call `compute` of DistanceLagSRE.* within 1 s"):
            metric.compute()
        (Path(folder) / "raised").touch()
    else:  # still there, and busy with something else
        while not (Path(folder) / "raised").exists():
            time.sleep(0.05)
    dist.destroy_process_group()


def test_a_call_on_one_rank_only_raises_and_does_not_wait_for_ever(tmp_path):
    mp.spawn(_one_rank_computes, args=(str(tmp_path),), nprocs=WORLD)


def test_a_world_of_one_process_has_no_repeats(tmp_path):
    """`torchrun` with one process: nothing is gathered, nothing to be warned of."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert result(fed(METRICS["lag"](), unnumbered(rows())))[2] == []
    finally:
        dist.destroy_process_group()
