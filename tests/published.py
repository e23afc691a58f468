"""The published tables, and the settings under which the definitions say that they come out."""

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(os.environ.get("GEOBIAS_PUBLISHED", Path(__file__).parents[1] / "../shared/data/published"))

needs_published = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"published tables not found at {FOLDER}")

RADIUS = 0.05
LAG = 0.005
SRE = {"smoothing": 1e-8, "min_patch_size": 20, "min_patches": 1, "drop_constant": False}
SSI = {
    "background": "concentric", "max_members": 100, "null": "value_scheme",
    "surprisal": "density", "floor": 1e-256, "ties": "index",
}  # fmt: skip
SSI_CAP = 589.0  # -log(1e-256) = 589.46: nothing can be compared at the cap

EUROSAT, EUROSAT_GPT = "eurosat_croma_finetune", "eurosat_gpt4o"
WORLDSTRAT, INAT = "worldstrat_ipcc_croma_linear", "inat2018_sphere2vec"
FILES = (EUROSAT, EUROSAT_GPT, WORLDSTRAT, INAT)
SSI_RADIUS = {EUROSAT: 0.1, EUROSAT_GPT: 0.1, WORLDSTRAT: 0.1, INAT: 0.05}


class Table:
    """One published file: named float64 columns."""

    def __init__(self, name):
        self.name = name
        with gzip.open(FOLDER / f"{name}.csv.gz", "rt") as file:
            header, *rows = csv.reader(file)
        self.columns = dict(zip(header, np.array([[float(v or "nan") for v in row] for row in rows]).T, strict=True))
        self.lat, self.lon, self.hit = (self.columns[c] for c in ("lat", "lon", "hit@1"))
        self.distance_lag = self.columns["dl_sre_r0.05_lag0.005"]
        self.centers = list(zip(self.lat.tolist(), self.lon.tolist(), strict=True))

    @property
    def sizes(self):
        """ROI sizes as whole numbers."""
        if "roi_size_r0.05" in self.columns:
            return self.columns["roi_size_r0.05"].astype(int)
        return np.round(self.columns["roi_fraction_r0.05"] * len(self.lat)).astype(int)

    def ssi(self, kind):
        """Published SSI column, `kind` "unmarked" or "marked"."""
        return self.columns[f"{kind}_ssi_r{SSI_RADIUS[self.name]}_k100"]


def all_right_for_all_wrong(hits_of_patches, roi_hits):
    """Published score of an ROI with all-wrong rings: these rings are taken for all-right, q = (0, 1) + 1e-8.

    `hits_of_patches` are (size, hits) of the scored patches, `roi_hits` is (size, hits) of the ROI.
    """
    size, hits = roi_hits
    h = np.array([1 - hits / size, hits / size])
    total = 0.0
    for patch_size, patch_hits in hits_of_patches:
        right = 1.0 if patch_hits == 0 else patch_hits / patch_size
        q = np.array([1 - right, right]) + 1e-8
        some = h > 0
        total += patch_size / size * float((h[some] * np.log(h[some] / q[some])).sum())
    return total
