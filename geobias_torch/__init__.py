"""See and reduce geographic bias: geo-bias scores as tensor code, metrics and loss terms."""

from geobias_torch.geometry import km
from geobias_torch.partitions import DirectionSector, DistanceLag, ScaleGrid
from geobias_torch.regions import Regions

__all__ = ["DirectionSector", "DistanceLag", "Regions", "ScaleGrid", "km"]
