import math
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from judges.embeddings import Encoder
from judges.memo import Memo
from judges.scorers import EmbeddingScorer, PairScores, Scorer, fill_matches
from judges.scorers.contract import OUT_OF_MEMORY, Outcome, score_distinct

CHAIN = ("Cars drive on the left.", "The soil is deep red.", "Tall eucalyptus trees stand along the road.")


@pytest.fixture(scope="module")
def scorer():
    return EmbeddingScorer()


def one(value, match=None, reason=None):
    return PairScores(torch.tensor([value]).double(), torch.ones(1).double(), (match,), (reason,))


# the contract


def test_pair_scores_are_checked():
    assert len(one(0.5)) == 1
    with pytest.raises(ValueError, match="length 1, that of `match`"):
        PairScores(torch.zeros(2), torch.zeros(1), (None,), (None,))
    for value, reason in ((1.5, None), (-0.1, None), (math.nan, None), (0.5, "empty context")):
        with pytest.raises(ValueError, match="NaN with a reason"):
            one(value, reason=reason)
    assert one(math.nan, reason="empty context").reason == ("empty context",)


def test_distinct_pairs_are_computed_once_and_remembered():
    asked, memo = [], Memo(10)

    def compute(pairs):
        asked.extend(pairs)
        return [Outcome(len(statement) / 10, 1.0, 0, None) for statement, _ in pairs]

    context = ("b", "c")
    first = score_distinct(["a", "aa", "a", " ", "a"], [context, context, context, context, ("bc",)], memo, compute)
    assert asked == [("a", context), ("aa", context), ("a", ("bc",))]
    assert first.value[:3].tolist() == [0.1, 0.2, 0.1]
    assert first.reason == (None, None, None, "empty statement", None)
    second = score_distinct(["aa"], [context], memo, compute)
    assert len(asked) == 3
    assert second.value.tolist() == [0.2]


def test_failures_to_run_are_tried_again():
    outcomes = iter([Outcome.failed(OUT_OF_MEMORY), Outcome(1.0, 1.0, 0, None)])
    memo = Memo(10)
    results = [score_distinct(["a"], [("b",)], memo, lambda pairs: [next(outcomes)]) for _ in range(2)]
    assert [result.reason for result in results] == [(OUT_OF_MEMORY,), (None,)]


def test_memo_is_bounded():
    memo = Memo(3)
    for number in range(10):
        score_distinct([f"{number}"], [("b",)], memo, lambda pairs: [Outcome(1.0, 1.0, 0, None)])
    assert len(memo) == 3


@pytest.mark.parametrize(
    ("statements", "contexts", "error", "text"),
    [
        ("ab", [("a",), ("b",)], TypeError, "`statements` to be a list"),
        (["a"], "b", TypeError, "`contexts` to be a list"),
        (["a"], [], ValueError, "one context for each of the 1 statements, but got 0"),
        (["a", None], [("b",), ("b",)], TypeError, "NoneType at row 1"),
        (["a"], ["b"], TypeError, "tuples of strings"),
        (["a"], [("b", 3)], TypeError, "tuples of strings"),
    ],
)
def test_bad_input(scorer, statements, contexts, error, text):
    with pytest.raises(error, match=text):
        scorer.score(statements, contexts)


def test_nothing_to_score(scorer):
    scores = scorer.score([], [])
    assert len(scores) == 0
    assert scores.value.shape == (0,)


# by embedding


def test_follows_the_protocol(scorer):
    assert isinstance(scorer, Scorer)
    assert not isinstance(object(), Scorer)


def test_value_match_and_failures(scorer):
    scores = scorer.score(["red soil", "a lighthouse", "", "x"], [CHAIN, CHAIN, CHAIN, ("", " ")])
    assert scores.match == (1, scores.match[1], None, None)
    assert scores.value[0] > 0.5
    assert scores.value[1] < 0.1
    assert scores.value[2:].isnan().all()
    assert scores.reason == (None, None, "empty statement", "empty context")
    assert scores.reliability[:2].tolist() == [1, 1]
    assert not scores.match_by_embedding


@pytest.mark.parametrize(
    ("twin", "of"),
    [("Cars drive on the right.", 0), ("The soil is deep black.", 1), ("No eucalyptus trees along the road.", 2)],
)
def test_a_contradicted_twin_scores_nothing(scorer, twin, of):
    assert scorer.encoder.similarity([twin], [CHAIN[of]]) > 0.65  # which similarity alone does not see
    assert scorer.score([twin], [(CHAIN[of],)]).value.item() == 0


def test_shared_place_names_earn_nothing(scorer):
    pair = "Red soil is common in Brazil.", "Eucalyptus trees are common in Brazil."
    assert scorer.encoder.similarity(pair[:1], pair[1:]) > 0.45
    assert scorer.score([pair[0]], [(pair[1],)]).value.item() == 0
    same = "Red soil is common in Brazil.", "Red soil is common in Kenya."
    assert scorer.score([same[0]], [(same[1],)]).value.item() > 0.9


class Angles:
    """An encoder of angles in degrees."""

    def encode(self, texts):
        angle = torch.tensor([float(text) for text in texts]).deg2rad()
        return torch.stack([angle.cos(), angle.sin()], dim=1)


def by_angle(lower, upper):
    scorer = EmbeddingScorer(lower=lower, upper=upper)
    scorer.encoder = Angles()
    return scorer


def test_the_ramp():
    scorer = by_angle(lower=0.0, upper=0.5)
    value = scorer.score(["0"] * 4, [("0",), ("60",), ("75.5225",), ("100",)]).value
    assert value == pytest.approx(torch.tensor([1, 1, 0.5, 0]).double(), abs=1e-4)


def test_equal_thresholds_are_a_step():
    value = by_angle(lower=0.5, upper=0.5).score(["0"] * 2, [("59.9",), ("60.1",)]).value
    assert value.tolist() == [1, 0]


def test_of_equal_values_the_larger_cosine_matches():
    scores = by_angle(lower=-1.0, upper=0.0).score(["0"], [("80", "10", "40")])
    assert scores.value.item() == 1
    assert scores.match == (1,)


def test_indices_count_blank_points(scorer):
    assert scorer.score(["red soil"], [("", "Cars drive on the left.", " ", "The soil is red.")]).match == (3,)


def test_equal_pairs_are_bit_equal_in_any_company(scorer):
    alone = EmbeddingScorer().score(["red soil"], [CHAIN]).value
    company = scorer.score(["red soil", *CHAIN, "red soil"], [CHAIN] * 5).value
    assert company[0] == company[-1]
    assert torch.allclose(company[:1], alone, atol=1e-5)


def test_thresholds_are_checked():
    for lower, upper in ((0.8, 0.7), (-2, 0), (0, 1.1), (math.nan, 1)):
        with pytest.raises(ValueError, match="-1 <= `lower` <= `upper` <= 1"):
            EmbeddingScorer(lower=lower, upper=upper)
    with pytest.raises(ValueError, match="no `device` with an Encoder"):
        EmbeddingScorer(Encoder(), device="cpu")


@pytest.mark.parametrize(
    ("statement", "point", "glossed"),
    [
        ("Деревянные столбы", "Wooden poles", 1.0),
        ("Der Boden ist rot.", "Le sol est rouge.", 1.0),
        ("Kırmızı toprak ve muz ağaçları", "Red soil and banana trees", 1.0),
        ("Autos fahren rechts.", "Autos fahren links.", 0.0),  # the guard reads glosses
        ("Am Straßenrand stehen Kiefern.", "Am Straßenrand steht ein Briefkasten.", 0.0),
    ],
)
def test_other_languages_are_compared_by_their_glosses(scorer, statement, point, glossed):
    assert scorer.score([statement], [(point,)]).value.item() == pytest.approx(glossed, abs=0.15)
    plain = EmbeddingScorer(scorer.encoder, gloss=False).score([statement], [(point,)]).value.item()
    assert abs(plain - glossed) > 0.1


def test_english_is_compared_as_it_is(scorer):
    texts = ["Cars keep left.", "Traffic is on the left.", "Poles of timber", "Wooden poles", "..."]
    plain = EmbeddingScorer(scorer.encoder, gloss=False)
    for text in texts:
        found, expected = (one.score([text] * 5, [(other,) for other in texts]) for one in (scorer, plain))
        assert torch.equal(found.value, expected.value)


def test_an_encoder_of_the_users_is_not_glossed():
    assert EmbeddingScorer().gloss
    assert not EmbeddingScorer("paraphrase-multilingual-MiniLM-L12-v2").gloss
    assert EmbeddingScorer("paraphrase-multilingual-MiniLM-L12-v2", gloss=True).gloss


def test_pickles_its_configuration(scorer):
    copy = pickle.loads(pickle.dumps(EmbeddingScorer(lower=0.4, upper=0.55, gloss=False)))
    assert (copy.lower, copy.upper, copy.gloss) == (0.4, 0.55, False)
    assert copy.encoder._loaded is None
    live = SimpleNamespace(encode=None)
    with pytest.raises(TypeError, match="live model"):
        pickle.dumps(EmbeddingScorer(live))


# matches of scorers that cannot say


def test_matches_are_filled_and_marked(scorer):
    contexts = [CHAIN, (), CHAIN, ("", *CHAIN)]
    scores = PairScores(
        torch.tensor([0.9, math.nan, 0.2, 0.1]).double(),
        torch.ones(4).double(),
        (None, None, 0, None),
        (None, "empty context", None, None),
    )
    filled = fill_matches(scores, ["red soil", "red soil", "red soil", "eucalyptus"], contexts, scorer.encoder)
    assert filled.match == (1, None, 0, 3)
    assert filled.match_by_embedding
    assert torch.equal(filled.value, scores.value) or filled.value.isnan().any()
    assert not scores.match_by_embedding


def test_nothing_to_fill(scorer):
    scores = one(0.5, match=0)
    assert fill_matches(scores, ["a"], [("b",)], scorer.encoder) is scores
    with pytest.raises(ValueError, match="`scores` of 2 pairs, but got 1"):
        fill_matches(scores, ["a", "b"], [("b",), ("b",)], scorer.encoder)


# imports


def test_import_brings_no_models():
    code = "import sys, judges.scorers, judges.embeddings; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"transformers", "sentence_transformers", "pycountry", "pandas"} & set(loaded)


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("sentence_transformers", "judges.embeddings.Encoder().encode(['a'])"),
        ("transformers", "judges.scorers.CausalLMScorer('some/model').score(['a'], [('b',)])"),
        ("transformers", "judges.scorers.CrossEncoderScorer('some/model').score(['a'], [('b',)])"),
    ],
)
def test_a_missing_package_names_the_extra(package, use):
    code = f"import sys; sys.modules[{package!r}] = None\nimport judges.scorers\n{use}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"ImportError: This judge needs `{package}`: pip install 'geobias-torch[judge]'" in run.stderr
