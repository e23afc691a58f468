"""What is trained: encoder, network, task loss and, if wanted, geo-bias terms."""

from training.tasks.base import LocationTask
from training.tasks.classification import ClassificationTask
from training.tasks.geo_prior import GeoPriorTask, fuse, presence_only_loss, uniform_on_sphere
from training.tasks.regression import RegressionTask

__all__ = [
    "ClassificationTask",
    "GeoPriorTask",
    "LocationTask",
    "RegressionTask",
    "fuse",
    "presence_only_loss",
    "uniform_on_sphere",
]
