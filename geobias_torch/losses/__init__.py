"""Loss terms that pull a model's performance even over the map; add one to the task loss."""

from geobias_torch.losses.bank import PerformanceBank
from geobias_torch.losses.spad import SPADLoss
from geobias_torch.losses.sre import SRELoss
from geobias_torch.losses.ssi import SSILoss

__all__ = ["PerformanceBank", "SPADLoss", "SRELoss", "SSILoss"]
