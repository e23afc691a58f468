"""Location encoders: coordinates in, features out; and the network after them."""

from training.encoders.ffn import FFN
from training.encoders.sphere2vec import Sphere2Vec

__all__ = ["FFN", "Sphere2Vec"]
