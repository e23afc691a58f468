import itertools
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.chains import ReasoningChain
from judges.embeddings import Encoder
from judges.one_to_all import OneToAllJudge, pairs
from judges.scorers import EmbeddingScorer, PairScores
from tests.judges.scoring import WordScorer, support
from tests.reference import judges as reference

WORDS = ("red", "soil", "white", "plates", "wooden", "poles", "tea", "bollards", "tall", "palms", "fail")
points = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(" ".join)
# no two points with the same words in the same order: the second would be restated
chains = st.lists(points, max_size=5, unique_by=lambda text: text.split().__repr__())


def judge(**options):
    return OneToAllJudge(WordScorer(), **options)


def chain(*points):
    return ReasoningChain.of(points)


def numbers(scores, row=0):
    return scores.precision[row].item(), scores.recall[row].item(), scores.f1[row].item()


def close(given, expected):
    return np.allclose(given, expected, rtol=0, atol=1e-12, equal_nan=True)


# arithmetic


def test_by_hand():
    candidate = chain("red soil", "white plates", "tall palms")
    scores = judge().score([candidate], [chain("red soil", "white bollards")])
    # P: 1, 1/3, 0; R: 1, 1/3
    assert close(numbers(scores), (4 / 9, 2 / 3, 8 / 15))
    assert [point.match for point in scores.candidate_points[0]][:2] == [0, 1]
    assert scores.candidate_points[0][1].match_text == "white bollards"
    assert scores.reference_points[0][0][1].match_text == "white plates"
    assert scores.status == ("scored",)
    assert scores.failures == {}
    assert scores.reliability.tolist() == [1.0]
    assert not scores.approximate


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(chains, st.lists(chains, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_is_the_reference(items):
    given_ = [chain(*candidate) for candidate, _ in items]
    scores = judge().score(given_, [[chain(*one) for one in references] for _, references in items])
    for row, (candidate, references) in enumerate(items):
        assert close(numbers(scores, row), reference.one_to_all(candidate, references, support))


@settings(max_examples=100, deadline=None)
@given(chains, chains, st.randoms(use_true_random=False))
def test_the_order_of_the_points_changes_nothing(candidate, other, random):
    before = numbers(judge().score([chain(*candidate)], [chain(*other)]))
    for points_ in (candidate, other):
        random.shuffle(points_)
    assert close(numbers(judge().score([chain(*candidate)], [chain(*other)])), before)


@settings(max_examples=100, deadline=None)
@given(chains, chains)
def test_the_reference_twice_is_the_reference(candidate, other):
    once = judge().score([chain(*candidate)], [chain(*other)])
    twice = judge().score([chain(*candidate)], [[chain(*other), chain(*other)]])
    assert close(numbers(once), numbers(twice))
    assert once.union == twice.union


@settings(max_examples=100, deadline=None)
@given(chains.filter(bool), chains.filter(bool))
def test_swapping_the_sides_swaps_precision_and_recall(candidate, other):
    there = judge().score([chain(*candidate)], [chain(*other)])
    back = judge().score([chain(*other)], [chain(*candidate)])
    precision, recall, f1 = numbers(there)
    assert close(numbers(back), (recall, precision, f1))


def test_several_references():
    scores = judge().score(
        [chain("red soil", "tea")], [[chain("red soil", "white plates"), chain("tea"), chain("tall palms")]]
    )
    # each point is in some reference; the second reference is covered wholly
    assert close(numbers(scores), (1, 1, 1))
    assert scores.union == (("red soil", "white plates", "tea", "tall palms"),)
    assert [point.match for point in scores.candidate_points[0]] == [0, 2]
    assert [[point.value for point in one] for one in scores.reference_points[0]] == [[1, 0], [1], [0]]


# nothing said, nothing to hold it against, and failures


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "empty candidate"),
        ("Kenya", "empty candidate"),
        ("I cannot determine the location of this image.", "refused"),
    ],
)
def test_nothing_said_counts_zero(text, status):
    scorer = WordScorer()
    scores = OneToAllJudge(scorer).score([text], ["- Red soil."])
    assert numbers(scores) == (0, 0, 0)
    assert scores.status == (status,)
    assert scores.reference_points[0][0][0].value == 0
    assert scores.failures == {}
    assert scorer.calls == []  # nobody has to be asked


def test_a_refusal_with_points_counts_zero():
    text = "- Red soil.\n- Tea fields.\n\nI cannot determine where this image was taken."
    scores = judge().score([text], ["- Red soil."])
    assert scores.status == ("refused",)
    assert numbers(scores) == (0, 0, 0)
    assert [point.value for point in scores.candidate_points[0]] == [0, 0]


@pytest.mark.parametrize("empty", [[], "", [""], ["- Kenya", "- Uganda"]])
def test_without_a_reference_there_is_no_score(empty):
    scores = judge().score(["- Red soil.", ""], [empty, empty])
    assert scores.precision.isnan().all()
    assert scores.recall.isnan().all()
    assert scores.f1.isnan().all()
    assert scores.status == ("empty reference",) * 2
    assert scores.failures["empty reference"] >= 2
    assert scores.reliability.isnan().all()
    assert scores.candidate_points[0][0].reason == "empty reference"


def test_one_empty_reference_among_others_is_left_out_and_counted():
    scores = judge().score([chain("red soil")], [[chain("red soil"), chain()]])
    assert numbers(scores) == (1, 1, 1)
    assert scores.failures == {"empty reference": 1}


def test_a_quarter_may_fail():
    other = chain("red soil")
    scored = judge().score([chain("red soil", "tea", "fail", "palms")], [other])
    assert scored.precision.item() == pytest.approx(1 / 3)  # the mean of the rest
    assert scored.failures == {"said so": 1}
    assert scored.reliability.item() == pytest.approx((4 + 0.25) / 5)
    failed = judge().score([chain("red soil", "tea", "fail")], [other])
    assert math.isnan(failed.precision.item())
    assert math.isnan(failed.f1.item())
    assert failed.recall.item() == 1
    assert failed.status == ("failed",)
    assert failed.candidate_points[0][2].reason == "said so"
    assert judge(max_failed=0.5).score([chain("red soil", "tea", "fail")], [other]).precision.item() == 0.5
    assert math.isnan(judge(max_failed=1).score([chain("fail")], [other]).precision.item())


def test_a_failed_reference_is_none_of_the_best():
    scores = judge().score([chain("red soil")], [[chain("fail"), chain("red soil", "tea")]])
    assert close(numbers(scores), (1, 0.5, 2 / 3))


# restatements


def test_restated_points_are_in_neither_sum():
    scores = judge().score(
        ["- Red soil\n- Tea\n- red soil!\n- Kenya.\n\nAnswer: Kenya"], [chain("Red soil", "RED SOIL")]
    )
    assert [point.restated for point in scores.candidate_points[0]] == [False, False, True, True]
    assert numbers(scores)[:2] == (0.5, 1.0)
    assert [point.restated for point in scores.reference_points[0][0]] == [False, True]
    assert scores.union == (("Red soil",),)


def test_by_similarity_where_the_scorer_has_an_encoder():
    scorer = EmbeddingScorer()
    texts = ["The soil is deep red.", "The soil is a deep red.", "Cars drive on the left.", "Cars drive on the right."]
    marked = [[point.restated for point in one.points] for one in OneToAllJudge(scorer).mark([chain(*texts)])]
    assert marked == [[False, True, False, False]]  # the opposite is no restatement
    assert scorer.encoder.similarity(texts[2:3], texts[3:]) > 0.9
    assert not any(point.restated for point in judge().mark([chain(*texts)])[0].points)
    with_encoder = OneToAllJudge(WordScorer(), similarity=scorer.encoder)
    assert with_encoder.mark([chain(*texts)])[0].points[1].restated
    assert [
        point.restated for point in with_encoder.mark([chain("Red soil in Kenya.", "Red soil in Ghana.")])[0].points
    ] == [False, True]


def test_by_a_function():
    by_length = judge(similarity=lambda a, b: np.array([[float(len(x) == len(y)) for y in b] for x in a]))
    assert [point.restated for point in by_length.mark([chain("red soil", "soil red", "long")])[0].points] == [
        False,
        True,
        False,
    ]
    assert by_length.encoder is None


def test_matches_index_all_points_of_the_candidate():
    scores = judge().score(["- Red soil\n- red soil.\n- Tea"], [chain("Tea")])
    assert scores.reference_points[0][0][0].match == 2
    assert scores.reference_points[0][0][0].match_text == "Tea"


def test_matches_that_the_scorer_cannot_say():
    silent = WordScorer(matches=False)
    scores = OneToAllJudge(silent).score([chain("red soil")], [chain("wooden poles", "red soil")])
    assert scores.candidate_points[0][0].match is None
    assert not scores.match_by_embedding
    filled = OneToAllJudge(silent, similarity=Encoder()).score([chain("red soil")], [chain("wooden poles", "red soil")])
    assert filled.candidate_points[0][0].match == 1
    assert filled.match_by_embedding
    assert close(numbers(filled), numbers(scores))


# one call


def test_one_call_without_duplicates():
    scorer = WordScorer()
    one, other = chain("red soil", "tea"), chain("red soil", "white plates")
    scores = OneToAllJudge(scorer).score([one, one, other, one], [other, [other, other], one, "- Palms"])
    assert len(scorer.calls) == 1
    assert len(set(scorer.calls[0])) == len(scorer.calls[0])
    alone = [judge().score([a], [b]) for a, b in ((one, other), (one, [other, other]), (other, one), (one, "- Palms"))]
    for row, single in enumerate(alone):
        assert numbers(scores, row) == numbers(single)


def test_texts_are_parsed():
    text = "- Red soil.\n- Tea fields.\n\nAnswer: Kenya"
    as_text = judge().score([text], [text])
    as_chains = judge().score([chain("Red soil.", "Tea fields.")], [chain("Red soil.", "Tea fields.")])
    assert numbers(as_text) == numbers(as_chains) == (1, 1, 1)
    assert as_text.candidate_points[0][1].span == (14, 25)


def test_no_chains():
    scores = judge().score([], [])
    assert len(scores) == 0
    assert scores.f1.shape == (0,)
    assert scores.to_records() == []


def test_bad_input():
    with pytest.raises(TypeError, match="`candidates` to be a list, one entry for each chain, but got str"):
        judge().score("- Red soil.", ["- Tea."])
    with pytest.raises(TypeError, match="`references` to be a list"):
        judge().score(["- Red soil."], "- Tea.")
    with pytest.raises(ValueError, match="one entry of `references` for each of the 2 candidates, but got 1"):
        judge().score(["a", "b"], ["c"])
    with pytest.raises(TypeError, match=r"`candidates\[1\]` to be a text or a ReasoningChain, but got NoneType"):
        judge().score(["a", None], ["b", "c"])
    with pytest.raises(
        TypeError, match=r"every chain of `references\[0\]` to be a text or a ReasoningChain, but got int"
    ):
        judge().score(["a"], [["b", 3]])
    with pytest.raises(TypeError, match=r"every chain of `references\[0\]` .* NoneType"):
        judge().score(["a"], [None])
    with pytest.raises(TypeError, match="`scorer` with a method `score`, but got str"):
        OneToAllJudge("MiniLM")
    with pytest.raises(TypeError, match="`similarity` to be an Encoder or a function, but got str"):
        judge(similarity="MiniLM")
    for share in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"`max_failed` within \[0, 1\]"):
            judge(max_failed=share)
    with pytest.raises(TypeError, match="`references` to be a list"):
        pairs("ab")


def test_a_scorer_that_answers_something_else_is_named():
    class Short:
        def score(self, statements, contexts):
            return PairScores(torch.ones(1).double(), torch.ones(1).double(), (None,), (None,))

    with pytest.raises(ValueError, match=r"Expected 2 pairs from Short\.score, but got 1"):
        OneToAllJudge(Short()).score([chain("a")], [chain("b")])


# experts against each other, and what the judge is


def test_expert_pairs():
    assert pairs([["a", "b", "c"], "d", ["e"], []]) == list(itertools.permutations("abc", 2))
    assert judge().pairs([["a", "b"]]) == [("a", "b"), ("b", "a")]


def test_approximate_with_embeddings():
    assert OneToAllJudge(EmbeddingScorer()).approximate
    assert OneToAllJudge(EmbeddingScorer()).score([], []).approximate


def test_pickles():
    copy = pickle.loads(pickle.dumps(OneToAllJudge(EmbeddingScorer(), max_failed=0.5)))
    assert copy.max_failed == 0.5
    assert copy.score([chain("red soil")], [chain("red soil")]).f1.item() == 1


def test_input_is_left_alone():
    candidates, references = ["- Red soil."], [["- Tea.", "- Red soil."]]
    judge().score(candidates, references)
    assert candidates == ["- Red soil."]
    assert references == [["- Tea.", "- Red soil."]]
