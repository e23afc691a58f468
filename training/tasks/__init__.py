"""What is trained: encoder, network, task loss and, if wanted, a geo-bias term."""

from training.tasks.regression import RegressionTask

__all__ = ["RegressionTask"]
