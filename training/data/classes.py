"""Labels as class numbers; the training rows say which classes there are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

__all__ = ["numbered"]


def numbered(labels: np.ndarray, held_out: Tensor, place: Callable[[int], str]) -> tuple[Tensor, list[str]]:
    """Number the classes of the training rows in order: of the numbers if the labels are numbers, else of the text.

    Args:
        labels: (N,) texts or integers.
        held_out: (N,) bool, which rows are not for training.
        place: says where a row is, for the warning.

    Returns:
        The class of each row, int64, shape (N,), and the C labels. A held-out row whose label no training row has
        could not be right: it gets -1, and a warning says how many there are, and which is the first.

    Raises:
        ValueError: if the training rows have fewer than two classes.

    Example:
        >>> numbered(np.array(["10", "9", "10"]), torch.tensor([False, False, True]), "row {}".format)
        (tensor([1, 0, 1]), ['9', '10'])
    """
    known = np.unique(labels[~held_out.numpy()]).tolist()
    if len(known) < 2:
        raise ValueError(f"Expected at least 2 classes in the training rows, but got {known}.")
    with suppress(ValueError):  # texts that are no numbers are sorted already
        known.sort(key=float)
    number_of = {label: number for number, label in enumerate(known)}
    classes = torch.tensor([number_of.get(label, -1) for label in labels.tolist()])
    unknown = (classes < 0).nonzero()[:, 0].tolist()
    if unknown:
        lost = labels[unknown].tolist()
        warnings.warn(
            f"Dropped {len(lost)} held-out rows of {len(set(lost))} classes that no training row has, the first "
            f"{lost[0]!r} {place(unknown[0])}.",
            stacklevel=3,
        )
    return classes, [str(label) for label in known]
