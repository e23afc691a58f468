"""The faults of a chain as columns of a table."""

from __future__ import annotations

import math
from pathlib import Path

from judges.chains import ReasoningChain
from judges.embeddings import Encoder
from judges.faults import Contrast, alternatives, conclusion_first, false_tool, injection, narrowing, restated

__all__ = ["CONTRASTED", "FAULTS", "FaultColumns"]

FAULTS = {
    "conclusion_first": conclusion_first,
    "false_tool": false_tool,
    "injection": injection,
    "restated": restated,
    "narrowing": narrowing,
    "alternatives": alternatives,
}
"""Told by the chain alone."""
CONTRASTED = ("generic", "misattribution", "stereotype")
"""Told by a bank of chains of other locations."""


class FaultColumns:
    r"""What the detectors say of a chain.

    Args:
        contrast: file of a bank of chains; without it `CONTRASTED` is left out.
        encoder: of the bank; by default MiniLM.

    Attributes:
        names: the columns.
        contrast: the bank, if there is one.

    Example:
        >>> from judges.chains import parse_chain
        >>> columns = FaultColumns()
        >>> chain, reference = parse_chain("- I checked Google Maps.\n- Red soil."), parse_chain("- Tea.")
        >>> values, spans = columns.of(chain, reference, "UG")
        >>> values["false_tool"], spans["false_tool"]
        (1.0, [[2, 24]])
    """

    def __init__(self, contrast: Path | None = None, encoder: Encoder | None = None) -> None:
        encoder = Encoder() if contrast and encoder is None else encoder
        self.encoder, self.contrast = encoder, Contrast(contrast, encoder) if contrast else None
        self.names = (*FAULTS, *(CONTRASTED if contrast else ()))

    def prepare(self) -> None:
        """Encode the bank, which every chain is held against: a few seconds for each thousand sentences."""
        if self.contrast is not None and self.encoder is not None:
            self.encoder.keep(self.contrast.texts)

    def of(
        self, chain: ReasoningChain, reference: ReasoningChain, country: str | None
    ) -> tuple[dict[str, float | None], dict[str, list[list[int]]]]:
        """The value of each detector in [0, 1], None where it cannot tell, and where the text shows it.

        Args:
            chain: with its restatements marked.
            reference: by whose text the bank is drawn from.
            country: the true one, if known.
        """
        found = {name: detect(chain) for name, detect in FAULTS.items()}
        if self.contrast:
            found["misattribution"] = self.contrast.misattribution(chain, reference.text, country)
            found["stereotype"] = self.contrast.stereotype(chain, country)
        values = {name: fault.value for name, fault in found.items()}
        if self.contrast:
            texts = [point.text for point in chain.points if not point.restated]
            generic = [value for value in self.contrast.generic(texts, reference.text, country) if value == value]
            values["generic"] = math.fsum(generic) / len(generic) if generic else None
        spans = {name: [list(span) for span in fault.spans] for name, fault in found.items() if fault.spans}
        return {name: values[name] for name in self.names}, spans
