"""A bank in two processes, under DDP and FSDP: 20 steps give the parameters of one process with the whole batches."""

import lightning.pytorch as pl
import pytest
import torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from geobias_torch import DirectionSector
from geobias_torch.losses import PerformanceBank, SRELoss

COUNT, BATCH, STEPS = 200, 20, 20


def coordinates():
    return 45 + 6 * torch.rand(2, COUNT, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Rows(Dataset):
    """Points that are harder in the south; their order is that of a run in which every step sees others."""

    def __init__(self):
        self.lat, self.lon = coordinates()
        self.order = torch.cat([torch.randperm(COUNT, generator=torch.Generator().manual_seed(i)) for i in range(2)])

    def __len__(self):
        return len(self.order)

    def __getitem__(self, i):
        row = int(self.order[i])
        x = torch.stack([self.lat[row] - 48, self.lon[row] - 48]).float()
        return {"x": x, "y": (x[0] > 0.3 * torch.sin(9 * x[1])).float(), "index": row}


class Module(pl.LightningModule):
    """What docs/own_loop.md shows."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        lat, lon = coordinates()
        self.bank = PerformanceBank(lat=lat, lon=lon, radius=0.05, min_members=5, centers_per_step=8, min_coverage=0.3)
        self.sre = SRELoss(DirectionSector(4), min_patch_size=3)

    def training_step(self, batch, _):
        return loss_of(self.net, self.bank, self.sre, batch)

    def train_dataloader(self):  # Lightning's own sampler would shuffle
        world, rank = self.trainer.world_size, self.trainer.global_rank
        sampler = DistributedSampler(Rows(), num_replicas=world, rank=rank, shuffle=False)
        return DataLoader(Rows(), batch_size=BATCH // world, sampler=sampler)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)


def loss_of(net, bank, sre, batch):
    logits = net(batch["x"])[:, 0]
    performance = torch.sigmoid(logits * (2 * batch["y"] - 1))
    return -performance.log().mean() + 3 * sre(*bank(performance, batch["index"]))


def trained(strategy, devices):
    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler")
    quiet = dict.fromkeys(off, False)
    module = Module()
    trainer = pl.Trainer(accelerator="cpu", devices=devices, strategy=strategy, max_steps=STEPS, max_epochs=-1, **quiet)
    trainer.fit(module)
    return torch.cat([p.detach().flatten() for p in module.net.parameters()])


@pytest.mark.filterwarnings("ignore")
def test_ddp_gives_the_parameters_of_one_process():
    alone = trained("auto", 1)
    together = trained("ddp_spawn", 2)
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


def test_the_geobias_term_is_felt():
    """Otherwise the tests here would hold for any bank."""
    module, batch = Module(), torch.utils.data.default_collate([Rows()[i] for i in range(2 * COUNT)])
    module.bank(torch.rand(COUNT, generator=torch.Generator().manual_seed(1)), torch.arange(COUNT))
    without = lambda performance, regions: 0 * performance.sum()  # noqa: E731
    gradients = []
    for loss in (module.sre, without):
        module.zero_grad()
        loss_of(module.net, module.bank, loss, batch).backward()
        gradients.append(module.net[0].weight.grad.clone())
    assert (gradients[0] - gradients[1]).abs().max() > 1e-3


def _shard(rank, path, results):
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    module = Module()
    fully_shard(module.net, mesh=torch.distributed.init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.SGD(module.net.parameters(), lr=0.5)
    rows = Rows()
    for step in range(STEPS):
        mine = [rows[(step * BATCH + i) % len(rows)] for i in range(rank, BATCH, 2)]
        batch = torch.utils.data.default_collate(mine)
        loss_of(module.net, module.bank, module.sre, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    whole = torch.cat([p.full_tensor().detach().flatten() for p in module.net.parameters()])
    results[rank] = whole.tolist()
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
def test_fsdp_gives_the_parameters_of_one_process(tmp_path):
    pytest.importorskip("torch.distributed.fsdp", reason="fully_shard came with torch 2.6")
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(_shard, (str(tmp_path / "store"), results), nprocs=2)
        sharded = torch.tensor(results[0])
    torch.testing.assert_close(sharded, trained("auto", 1), rtol=0, atol=1e-5)
