"""The scores as torchmetrics metrics: per batch, per epoch, over processes."""

from geobias_torch.metrics.collection import GeoBiasScores
from geobias_torch.metrics.scores import excess
from geobias_torch.metrics.spad import SPAD
from geobias_torch.metrics.sre import DirectionSectorSRE, DistanceLagSRE, ScaleGridSRE
from geobias_torch.metrics.ssi import MarkedSSI, UnmarkedSSI

__all__ = [
    "SPAD",
    "DirectionSectorSRE",
    "DistanceLagSRE",
    "GeoBiasScores",
    "MarkedSSI",
    "ScaleGridSRE",
    "UnmarkedSSI",
    "excess",
]
