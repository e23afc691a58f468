"""SIREN: a network of sines after a position encoding, and an encoder that ends with a network."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from training.encoders.base import PositionEncoder, has_location

__all__ = ["SIREN", "LocationEmbedding"]


class SIREN(nn.Module):
    r"""Layers :math:`\sin(\omega (W x + b))`, then a plain Linear.

    Weights start uniform in :math:`\pm 1/n` in the first layer and in :math:`\pm \sqrt{6/n}/\omega` in the later ones,
    n inputs each: for inputs spread over [-1, 1], what goes into the sine has a standard deviation of about 1 in every
    layer but the first, however many there are. Biases start as those of `torch.nn.Linear`.

    Args:
        in_features: size of the input, shape (N, in_features), >= 1.
        out_features: size of the result, shape (N, out_features).
        hidden: width of the layers.
        layers: number of sine layers, >= 1.
        first_omega: frequency of the first layer, > 0: how fine the result can be.
        omega: frequency of the later layers, > 0.

    Attributes:
        in_features: size of the input.
        out_features: size of the result.

    Raises:
        ValueError: if a size, ``layers`` or a frequency is out of its range.

    Example:
        >>> import torch
        >>> from training.encoders import SIREN
        >>> SIREN(in_features=9, out_features=4, hidden=8)(torch.zeros(5, 9)).shape
        torch.Size([5, 4])

    References:
        Sitzmann et al., "Implicit Neural Representations with Periodic Activation Functions", 2020, section 3.2.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: int = 256,
        layers: int = 2,
        first_omega: float = 30.0,
        omega: float = 30.0,
    ) -> None:
        super().__init__()
        for name, value in {
            "in_features": in_features, "out_features": out_features, "hidden": hidden, "layers": layers
        }.items():  # fmt: skip
            if value < 1:
                raise ValueError(f"Expected `{name}` of at least 1, but got {value}.")
        if not (0 < first_omega < math.inf and 0 < omega < math.inf):
            raise ValueError(f"Expected `first_omega` and `omega` finite and > 0, but got {first_omega} and {omega}.")
        self.in_features, self.out_features = in_features, out_features
        self.first_omega, self.omega = first_omega, omega
        first, *later = [nn.Linear(i, o) for i, o in pairwise([in_features] + [hidden] * layers)]
        self.layers, self.last = nn.ModuleList([first, *later]), nn.Linear(hidden, out_features)
        nn.init.uniform_(first.weight, -1 / in_features, 1 / in_features)
        bound = math.sqrt(6 / hidden) / omega
        for layer in [*later, self.last]:
            nn.init.uniform_(layer.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (N, in_features) -> (N, out_features)."""
        for i, layer in enumerate(self.layers):
            x = torch.sin((self.omega if i else self.first_omega) * layer(x))
        return self.last(x)


class LocationEmbedding(nn.Module):
    """A position encoding and the network after it as one encoder, such as spherical harmonics and `SIREN`.

    Args:
        position: position encoding, such as `SphericalHarmonics`.
        network: network with ``in_features``, the encoding's ``dim``, and ``out_features``, such as `SIREN`.

    Attributes:
        dim: number of features, the network's ``out_features``.

    Raises:
        ValueError: if the network expects another number of features than the encoding has.

    Example:
        >>> import torch
        >>> from training.encoders import SIREN, LocationEmbedding, SphericalHarmonics
        >>> encoder = LocationEmbedding(SphericalHarmonics(bandlimit=3), SIREN(in_features=9, out_features=4))
        >>> encoder(lat=torch.tensor([0.0, float("nan")]), lon=torch.tensor([0.0, 10.0])).shape
        torch.Size([2, 4])
    """

    def __init__(self, position: PositionEncoder, network: SIREN) -> None:
        super().__init__()
        if position.dim != network.in_features:
            raise ValueError(
                f"Expected `network` with {position.dim} in_features, the encoding's, but got {network.in_features}."
            )
        self.position, self.network = position, network
        self.dim = network.out_features

    def forward(self, lat: Tensor, lon: Tensor) -> Tensor:
        """Degrees of shape (N,) each -> features (N, dim), zeros where there is no location."""
        features = self.network(self.position(lat, lon))
        return torch.where(has_location(lat, lon)[:, None], features, 0.0)

    def wavelengths_km(self) -> Tensor:
        """Those of the position encoding: shape and order are its own.

        Example:
            >>> from training.encoders import SIREN, XYZ, LocationEmbedding
            >>> LocationEmbedding(XYZ(), SIREN(in_features=3, out_features=4)).wavelengths_km().round()
            tensor([40030.], dtype=torch.float64)
        """
        return self.position.wavelengths_km()
