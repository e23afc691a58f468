"""The network that turns a position encoding into features or predictions."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

__all__ = ["FFN"]

_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class FFN(nn.Module):
    """Blocks of [Linear, activation, dropout, skip where the sizes match, LayerNorm], then a plain Linear.

    Weights start Xavier-uniform, biases at 0. With ``plain`` the blocks have neither skip nor LayerNorm.

    Args:
        in_features: size of the input, shape (N, in_features).
        out_features: size of the result, shape (N, out_features).
        hidden: width of the blocks.
        layers: number of blocks, >= 0.
        dropout: share of the activations dropped in training, in [0, 1).
        activation: "relu" or "gelu".
        final_activation: "relu" also activates the result, as TorchSpatial does; None leaves it as it is.
        plain: blocks of [Linear, activation, dropout] only.

    Raises:
        ValueError: if a size or the dropout is out of its range, or the activation is unknown.

    Example:
        >>> import torch
        >>> from training.encoders import FFN
        >>> FFN(in_features=6, out_features=1, hidden=8, layers=2)(torch.zeros(5, 6)).shape
        torch.Size([5, 1])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        hidden: int = 256,
        layers: int = 3,
        dropout: float = 0.0,
        activation: Literal["relu", "gelu"] = "relu",
        final_activation: Literal["relu"] | None = None,
        plain: bool = False,
    ) -> None:
        super().__init__()
        if layers < 0:
            raise ValueError(f"Expected `layers` of at least 0, but got {layers}.")
        if hidden < 1:
            raise ValueError(f"Expected `hidden` of at least 1, but got {hidden}.")
        if not 0 <= dropout < 1:
            raise ValueError(f"Expected `dropout` within [0, 1), but got {dropout}.")
        if activation not in _ACTIVATIONS:
            raise ValueError(f"Expected `activation` to be one of {sorted(_ACTIVATIONS)}, but got {activation!r}.")
        sizes = [in_features] + [hidden] * layers
        self.blocks = nn.Sequential(
            *(_Block(i, o, dropout, _ACTIVATIONS[activation](), plain) for i, o in pairwise(sizes))
        )
        self.last = nn.Linear(sizes[-1], out_features)
        self.final = nn.ReLU() if final_activation == "relu" else nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (N, in_features) -> (N, out_features)."""
        return self.final(self.last(self.blocks(x)))


class _Block(nn.Module):
    def __init__(self, in_features: int, out_features: int, dropout: float, activation: nn.Module, plain: bool) -> None:
        super().__init__()
        self.transform = nn.Sequential(nn.Linear(in_features, out_features), activation, nn.Dropout(dropout))
        self.norm = nn.Identity() if plain else nn.LayerNorm(out_features)
        self.skip = in_features == out_features and not plain

    def forward(self, x: Tensor) -> Tensor:
        transformed = self.transform(x)
        return self.norm(x + transformed if self.skip else transformed)
