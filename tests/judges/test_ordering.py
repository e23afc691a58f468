"""Chains in the order that anybody would put them in. Thresholds are chosen on one half of the locations, and what is
held here is of the other; what does not hold is in benchmarks/results/judge_ordering.md and in the last test."""

import json

import pytest

from benchmarks import judge_ordering as ordering
from judges.embeddings import Encoder
from judges.one_to_all import OneToAllJudge
from judges.scorers import EmbeddingScorer


@pytest.fixture(scope="module")
def encoder():
    return Encoder()


@pytest.fixture(scope="module")
def found(encoder):
    develop, held_out = ordering.read()
    judge = OneToAllJudge(EmbeddingScorer(encoder, *ordering.choose(encoder, develop)))
    return ordering.numbers(ordering.scores(judge, held_out))


def test_the_halves_have_no_location_in_common():
    develop, held_out = ordering.read()
    ids = [{row["id"] for row in half} for half in (develop, held_out)]
    assert [len(half) for half in ids] == [12, 12]
    assert not ids[0] & ids[1]
    for half in (develop, held_out):
        assert {row["kind"] for row in half} == {"reference", *ordering.KINDS}


def test_bounds(found):
    assert found["mean_f1"]["paraphrase"] > 0.5
    assert found["mean_f1"]["random"] < 0.1


def test_order_of_the_means(found):
    means = found["mean_f1"]
    assert means["paraphrase"] > means["partial"] > max(means["hallucinated"], means["random"])
    assert means["partial"] > means["contradicted"]


def test_order_of_single_chains(found):
    assert found["auc"]["paraphrase > partial"] > 0.9
    assert found["auc"]["partial > hallucinated"] > 0.9
    assert found["auc"]["partial > contradicted"] > 0.9


def test_the_default_ramp_keeps_the_order_too(encoder):
    means = ordering.numbers(ordering.scores(OneToAllJudge(EmbeddingScorer(encoder)), ordering.read()[1]))["mean_f1"]
    assert means["paraphrase"] > 0.5 > means["partial"] > means["contradicted"]
    assert max(means["hallucinated"], means["random"]) < 0.1


def test_made_up_chains_are_not_told_from_those_of_other_places(found):
    """With places masked, a chain made up from the country's name shares no more with the reference than any other."""
    assert found["mean_f1"]["hallucinated"] < 0.1
    assert found["auc"]["hallucinated > random"] < 0.75


def test_the_written_results_are_these(found):
    written = json.loads((ordering.RESULTS / "judge_ordering.json").read_text())
    name, numbers = next(iter(written["judges"].items()))
    assert "chosen ramp" in name
    assert numbers["mean_f1"] == pytest.approx(found["mean_f1"], abs=0.01)
    text = (ordering.RESULTS / "judge_ordering.md").read_text()
    assert "hallucinated (0.000) > random (0.020)" in text


def test_auc():
    assert ordering.auc([1.0, 1.0], [0.0, 1.0]) == 0.75
    assert ordering.auc([0.0], [1.0]) == 0
