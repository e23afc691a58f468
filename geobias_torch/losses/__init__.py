"""Loss terms that pull a model's performance even over the map; add one to the task loss."""

from geobias_torch.losses.sre import SRELoss

__all__ = ["SRELoss"]
