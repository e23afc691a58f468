"""Data sets of located points, their splits and batches."""

from training.data.airports import AirportsDataModule, load_airports
from training.data.module import LocatedDataModule
from training.data.points import Batch, ImagePredictions, Points

__all__ = ["AirportsDataModule", "Batch", "ImagePredictions", "LocatedDataModule", "Points", "load_airports"]
