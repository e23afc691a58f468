import pickle
import random

import numpy as np
import pytest
import torch

from judges import embeddings
from judges.embeddings import Encoder


@pytest.fixture(scope="module")
def encoder():
    return Encoder()


class Counting:
    """A live model that counts what it is asked."""

    device = torch.device("cpu")

    def __init__(self):
        self.asked = []

    def modules(self):
        return iter(())

    def get_embedding_dimension(self):
        return 2

    def encode(self, texts, **options):
        self.asked += texts
        return torch.tensor([[len(text), 1.0] for text in texts])


def test_unit_rows_in_order(encoder):
    vectors = encoder.encode(["red soil", "wooden poles", "red soil"])
    assert vectors.shape == (3, 384)
    assert vectors.dtype == torch.float32
    assert torch.equal(vectors[0], vectors[2])
    assert torch.allclose(vectors.norm(dim=1), torch.ones(3), atol=1e-5)
    assert encoder.encode([]).shape == (0, 384)


def test_similarity(encoder):
    cosine = encoder.similarity(["red soil", "tall trees"], ["reddish earth", "high trees", "a car"])
    assert cosine.shape == (2, 3)
    assert cosine[0].argmax() == 0
    assert cosine[1].argmax() == 1


def test_every_distinct_string_is_encoded_once():
    model = Counting()
    encoder = Encoder(model)
    encoder.encode(["a", "bb", "a"])
    encoder.encode(["bb", "ccc"])
    assert model.asked == ["a", "bb", "ccc"]


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(embeddings, "_REMEMBERED", 2)
    model = Counting()
    encoder = Encoder(model)
    assert encoder.encode(["a", "bb", "ccc"])[:, 0].tolist() == [1, 2, 3]  # more than fit are returned all the same
    assert len(encoder._memo) == 2
    encoder.encode(["a"])
    assert model.asked == ["a", "bb", "ccc", "a"]


def test_kept_texts_are_not_forgotten(monkeypatch):
    monkeypatch.setattr(embeddings, "_REMEMBERED", 2)
    model = Counting()
    encoder = Encoder(model)
    encoder.keep(["bb", "a", "bb"])
    assert model.asked == ["a", "bb"]
    encoder.encode(["ccc", "dddd", "eeeee"])
    encoder.keep(["a", "ffffff"])
    assert encoder.encode(["a", "bb", "ffffff"]).tolist() == [[1, 1], [2, 1], [6, 1]]
    assert model.asked == ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]


def test_leaves_no_trace(encoder):
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    expected = torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
    model = encoder._load().train()
    model[0].eval()
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    with torch.enable_grad():
        vectors = encoder.encode(["not seen before"])
        assert torch.is_grad_enabled()
    assert not vectors.requires_grad
    assert (torch.rand(1), np.random.rand(), random.random()) == expected  # noqa: NPY002
    assert model.training
    assert not model[0].training
    model.eval()


def test_loading_leaves_the_random_state(encoder):
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    fresh = Encoder()
    fresh.encode(["red soil"])
    assert torch.equal(torch.rand(1), expected)


def test_pickles_its_configuration(encoder):
    copy = pickle.loads(pickle.dumps(encoder))
    assert copy._loaded is None
    assert torch.allclose(copy.encode(["red soil"]), encoder.encode(["red soil"]), atol=1e-6)
    assert len(pickle.dumps(encoder)) < 1000
    with pytest.raises(TypeError, match="live model"):
        pickle.dumps(Encoder(Counting()))


def test_bad_input(encoder):
    with pytest.raises(TypeError, match="name, a folder or a SentenceTransformer"):
        Encoder(3)
    with pytest.raises(ValueError, match="no `device` with a live model"):
        Encoder(Counting(), device="cpu")
    with pytest.raises(ValueError, match="`batch_size` of at least 1"):
        Encoder(batch_size=0)
    with pytest.raises(TypeError, match="sequence of strings"):
        encoder.encode("red soil")
    with pytest.raises(TypeError, match="sequence of strings"):
        encoder.encode(["a", None])
