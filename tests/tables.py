"""Small prediction tables as text, written where a test wants them."""

import numpy as np


def writer(folder):
    def write(content, name="table.csv"):
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def grid(seed=0, count=120):
    """Points around Stuttgart with hits that are better in the west."""
    generator = np.random.default_rng(seed)
    lat, lon = generator.uniform(48, 50, count), generator.uniform(8, 11, count)
    return lat, lon, (generator.uniform(8, 11, count) > lon).astype(int)


def text_of(lat, lon, hit, header="lat,lon,hit"):
    return "\n".join([header, *(f"{a!r},{b!r},{c}" for a, b, c in zip(lat.tolist(), lon.tolist(), hit, strict=True))])
