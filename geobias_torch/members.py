"""List the members of every ROI, all of them or the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from geobias_torch.geometry import LocalFrame, distinct_points
from geobias_torch.search import Block, Search
from geobias_torch.segments import Segments, labels

if TYPE_CHECKING:
    from geobias_torch.regions import Regions

MAX_PAIRS = 1 << 29
"""(ROI, member) pairs that are listed at most: 2 GiB of member numbers."""

_TIE = 1e-10  # radians (0.6 mm): distances this close are ties


def list_members(search: Search) -> Segments:
    """Everybody within the radius."""
    return _assemble(search, search.walk(lambda block: (block.rows, block.counts, block.members())))


def nearest_searched(regions: Regions, max_members: int) -> tuple[Segments, Tensor]:
    """The nearest ``max_members`` of each ROI and those that tie with the last, and (M,) bool which ROIs were cut."""
    search = regions._search
    assert search is not None
    _check_ties(regions, max_members)
    listed = 0

    def work(block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        nonlocal listed
        counts, members, full = block.counts, block.members(), block.counts > max_members
        if full.any():
            distance = block.frame.distance
            edge = np.full(len(counts), np.inf)
            edge[full] = np.partition(block.table(distance, np.inf)[full], max_members - 1)[:, max_members - 1] + _TIE
            keep = distance <= np.repeat(edge, counts)
            counts = np.bincount(np.repeat(np.arange(len(counts)), counts)[keep], minlength=len(counts))
            members = members[keep]
        listed += len(members)
        _refuse_ties(listed, max_members)
        return block.rows, counts, members, counts < block.counts

    parts = search.walk(work)
    cut = np.zeros(len(regions), dtype=bool)
    for rows, _, _, lost in parts:
        cut[rows] = lost
    return _assemble(search, [part[:3] for part in parts]), torch.from_numpy(cut)


def nearest_listed(regions: Regions, max_members: int) -> tuple[Segments, Tensor]:
    """The same from a list of members."""
    offsets, sizes = regions.segments.offsets, regions.segments.sizes
    roi = labels(sizes)
    point = regions.members.long()
    center_lat, center_lon = regions.center_lat[roi], regions.center_lon[roi]
    distance = LocalFrame(center_lat, center_lon, regions.lat[point], regions.lon[point], regions.radius).distance
    order = torch.argsort(distance, stable=True)
    order = order[torch.argsort(roi[order], stable=True)]
    last = offsets[:-1] + sizes.clamp(min=1, max=max_members) - 1
    edge = distance[order[last.clamp(max=max(len(order) - 1, 0))]] if len(order) else distance.new_zeros(len(regions))
    keep = distance <= edge[roi] + _TIE
    counts = torch.zeros_like(sizes).index_add_(0, roi[keep], torch.ones_like(roi[keep]))
    kept = Segments(torch.nn.functional.pad(counts.cumsum(0), (1, 0)), regions.members[keep], regions.num_points)
    return kept, counts < sizes


def _check_ties(regions: Regions, max_members: int) -> None:
    """Refuse to list more coincident members than fit into memory; they tie, so that no cut parts them."""
    place, _, counts = distinct_points(regions.lat, regions.lon)
    crowded = counts > max_members
    if not crowded.any() or int(counts[crowded].max()) * len(regions) <= MAX_PAIRS:
        return
    where = torch.stack([regions.lat, regions.lon])[:, place[crowded]]
    crowd = dict(zip(map(tuple, where.T.tolist()), counts[crowded].tolist(), strict=True))
    centers = zip(regions.center_lat.tolist(), regions.center_lon.tolist(), strict=True)
    _refuse_ties(sum(crowd.get(center, 0) for center in centers), max_members)


def _refuse_ties(listed: int, max_members: int) -> None:
    if listed > MAX_PAIRS:
        raise ValueError(
            f"Expected ROIs of at most {MAX_PAIRS:,} (ROI, member) pairs in all, but points at equal distances, "
            f"which `max_members` = {max_members} does not part, make at least {listed:,}: take a smaller "
            "`radius`, score fewer centres with `center_index`, or merge coincident points."
        )


def _assemble(search: Search, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Segments:
    """Put the members found block by block into the order of the centres."""
    sizes = np.zeros(len(search.centers.lat), dtype=np.int64)
    for rows, counts, _ in parts:
        sizes[rows] = counts
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    members = np.empty(offsets[-1], dtype=np.int32)
    for rows, counts, found in parts:
        shift = np.repeat(offsets[rows] - (np.cumsum(counts) - counts), counts)
        members[shift + np.arange(len(found))] = found
    return Segments(torch.from_numpy(offsets), torch.from_numpy(members), len(search.points.lat))
