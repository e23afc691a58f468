"""Data sets of located points, their splits and batches."""

from training.data.airports import AirportsDataModule, load_airports
from training.data.cities import CitiesDataModule, load_cities
from training.data.features import FeatureFiles
from training.data.inaturalist import INaturalistDataModule
from training.data.module import LocatedDataModule
from training.data.mosaiks import MosaiksDataModule
from training.data.points import Batch, ImagePredictions, Points
from training.data.table import TableDataModule

__all__ = [
    "AirportsDataModule",
    "Batch",
    "CitiesDataModule",
    "FeatureFiles",
    "INaturalistDataModule",
    "ImagePredictions",
    "LocatedDataModule",
    "MosaiksDataModule",
    "Points",
    "TableDataModule",
    "load_airports",
    "load_cities",
]
