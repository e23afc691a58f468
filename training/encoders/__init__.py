"""Location encoders: coordinates in, features out; and the network after them."""

from training.encoders.ffn import FFN
from training.encoders.nerf import NeRF
from training.encoders.rbf import RBF
from training.encoders.siren import SIREN, LocationEmbedding
from training.encoders.space2vec import Space2VecGrid, Space2VecTheory
from training.encoders.sphere2vec import Sphere2Vec
from training.encoders.spherical_harmonics import SphericalHarmonics
from training.encoders.xyz import XYZ, NoLocation

__all__ = [
    "FFN",
    "RBF",
    "SIREN",
    "XYZ",
    "LocationEmbedding",
    "NeRF",
    "NoLocation",
    "Space2VecGrid",
    "Space2VecTheory",
    "Sphere2Vec",
    "SphericalHarmonics",
]
