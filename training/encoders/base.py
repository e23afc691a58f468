"""What all position encodings have in common: float64 inside, zeros where there is no location."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["PositionEncoder", "geometric_frequencies", "has_location"]


class PositionEncoder(nn.Module, ABC):
    """A fixed function of latitude and longitude; a subclass brings ``encode`` and ``wavelengths_km``.

    Computed in float64, for at fine scales a float32 angle is off by a visible part of the wave, and returned in the
    module's dtype. Buffers keep their dtype, float64, under ``.half()`` and ``.to(dtype)``, and are saved.

    Args:
        dim: number of features D >= 0.

    Attributes:
        dim: number of features D.

    Example:
        >>> import torch
        >>> from training.encoders.base import PositionEncoder
        >>> class Latitude(PositionEncoder):
        ...     def encode(self, lat, lon):
        ...         return lat[:, None] / 90
        ...     def wavelengths_km(self):
        ...         return torch.tensor([40030.0])
        >>> Latitude(dim=1).half()(lat=torch.tensor([45.0, 9.0]), lon=torch.tensor([0.0, float("nan")]))
        tensor([[0.5000],
                [0.0000]], dtype=torch.float16)
    """

    _dtype_of_output: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        # An empty tensor follows .to(), .half(), .double() as parameters do: it knows the dtype to return.
        self.register_buffer("_dtype_of_output", torch.empty(0), persistent=False)

    @abstractmethod
    def encode(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Finite degrees, float64, shape (N,) each -> (N, dim) float64."""

    @abstractmethod
    def wavelengths_km(self) -> Tensor:
        """Lengths on the ground in km, finest first: what is much smaller than the first cannot be resolved."""

    def forward(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Encode points.

        Args:
            lat: latitude in degrees, shape (N,).
            lon: longitude in degrees, shape (N,).

        Returns:
            the encoding, shape (N, dim); zeros for rows with a NaN or infinite coordinate, see `has_location`.

        Raises:
            ValueError: if the shapes differ or are not (N,).
        """
        if lat.ndim != 1 or lat.shape != lon.shape:
            raise ValueError(
                f"Expected `lat` and `lon` of the same shape (N,), but got {tuple(lat.shape)} and {tuple(lon.shape)}."
            )
        located = has_location(lat, lon)
        # zeros before the encoding too: a NaN that is masked only afterwards has a NaN gradient
        lat, lon = (torch.where(located, degrees.to(torch.float64), 0.0) for degrees in (lat, lon))
        encoding = torch.where(located[:, None], self.encode(lat, lon), 0.0)
        return encoding.to(self._dtype_of_output.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        exact = {name: buffer for name, buffer in self.named_buffers(recurse=False) if name != "_dtype_of_output"}
        super()._apply(fn, recurse)
        for name, buffer in exact.items():
            moved = getattr(self, name)
            if moved.dtype != buffer.dtype:
                setattr(self, name, buffer.to(moved.device))  # moved, but never rounded to the module's dtype
        return self


def has_location(lat: Tensor, lon: Tensor) -> Tensor:
    """Which rows have a location, both coordinates finite: shape (N,) bool.

    Example:
        >>> import torch
        >>> has_location(torch.tensor([45.0, 9.0]), torch.tensor([0.0, float("nan")]))
        tensor([ True, False])
    """
    return lat.isfinite() & lon.isfinite()


def check_count(name: str, count: int) -> None:
    """Refuse what is no whole number of at least 1."""
    if not isinstance(count, Integral) or count < 1:
        raise ValueError(f"Expected a whole number as `{name}` of at least 1, but got {count}.")


def geometric_frequencies(scales: int, min_radius: float, max_radius: float) -> Tensor:
    r"""Frequencies :math:`f_i = 1/r_i` of radii spaced geometrically, finest first, shape (S,) float64.

    .. math:: r_i = r_{min} (r_{max}/r_{min})^{i/(S-1)}, \quad i = 0..S-1

    Args:
        scales: number of scales S >= 1.
        min_radius: finest radius, > 0.
        max_radius: coarsest radius, >= ``min_radius``; used for S > 1 only.

    Raises:
        ValueError: if one of them is out of its range.

    Example:
        >>> geometric_frequencies(3, min_radius=0.01, max_radius=1.0)
        tensor([100., 10., 1.], dtype=torch.float64)
    """
    check_count("scales", scales)
    if not 0 < min_radius <= max_radius:
        raise ValueError(f"Expected 0 < `min_radius` <= `max_radius`, but got {min_radius} and {max_radius}.")
    step = torch.arange(scales, dtype=torch.float64) / max(scales - 1, 1)
    return 1 / (min_radius * (max_radius / min_radius) ** step)
