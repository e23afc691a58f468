"""The scores as functions: tensors in, tensors out."""

from geobias_torch.functional.reduce import GlobalScore, reduce_scores
from geobias_torch.functional.spad import spad
from geobias_torch.functional.sre import noise_floor, spatial_relative_entropy
from geobias_torch.functional.ssi import spatial_self_information

__all__ = [
    "GlobalScore",
    "noise_floor",
    "reduce_scores",
    "spad",
    "spatial_relative_entropy",
    "spatial_self_information",
]
