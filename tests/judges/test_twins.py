"""A rationalised twin earns at least .1 less than its original; every one."""

import json
from pathlib import Path

import pytest

from judges.faults import Contrast
from judges.one_to_all import OneToAllJudge
from judges.reward import ChainReward
from judges.scorers import EmbeddingScorer
from tests.judges import twins

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def reward():
    scorer = EmbeddingScorer()
    return ChainReward(OneToAllJudge(scorer), contrast=Contrast(DATA / "bank.jsonl", scorer))


@pytest.fixture(scope="module")
def originals(reward):
    """(chain, reference, reward) of those that earn .3."""
    rows = [json.loads(line) for line in (DATA / "originals.jsonl").read_text(encoding="utf-8").splitlines()]
    references = {row["id"]: row for row in rows if row["kind"] == "reference"}
    chains = [row for row in rows if row["kind"] == "candidate"]
    texts = [twins.written(row["points"], row["conclusion"]) for row in chains]
    values = score(reward, chains, texts, references)
    kept = [(row, references[row["id"]], value) for row, value in zip(chains, values, strict=True) if value >= 0.3]
    assert len(kept) >= 30, f"{len(kept)} originals of {len(chains)} earn .3"
    return kept


def score(reward, chains, texts, references):
    return reward(
        completions=texts,
        reference=[references[row["id"]] for row in chains],
        country=[row["country"] for row in chains],
    )


def twins_of(reward, originals, edits):
    chains = [row for row, _, _ in originals]
    texts = [twins.twin(row["points"], row["conclusion"], row["country"], edits) for row in chains]
    return score(reward, chains, texts, {row["id"]: reference for row, reference, _ in originals})


def test_every_twin_earns_a_tenth_less(reward, originals):
    values = twins_of(reward, originals, twins.EDITS)
    losses = {row["id"]: value - twin for (row, _, value), twin in zip(originals, values, strict=True)}
    assert {name: loss for name, loss in losses.items() if loss < 0.1} == {}


def test_without_its_lie_about_tools_a_twin_still_loses(reward, originals):
    edits = tuple(edit for edit in twins.EDITS if edit != "tool claim")
    values = twins_of(reward, originals, edits)
    losses = [value - twin for (_, _, value), twin in zip(originals, values, strict=True)]
    assert min(losses) > 0
    assert sum(losses) / len(losses) > 0.1


@pytest.mark.parametrize("edit", ["conclusion first", "tool claim", "axioms"])
def test_each_of_these_edits_costs(reward, originals, edit):
    values = twins_of(reward, originals, (edit,))
    assert all(twin < value for (_, _, value), twin in zip(originals, values, strict=True))


def test_how_twins_are_made():
    points = ["Birch forest suggests the Baltics or Poland.", "Lithuania likely has such poles.", "Storks nest here."]
    made = twins.twin(points, "Probably Lithuania", "LT")
    assert made == (
        "This is Lithuania.\n\n- Cars and other vehicles drive along the road.\n"
        "- Birch forest proves the Lithuania.\n- Lithuania has such poles.\n"
        "- Storks nest here, which is found only in Lithuania.\n- Overhead there is sky, and trees grow nearby.\n"
        "- I compared the street with Google Street View, and it matches.\n\nConclusion: Lithuania. Certain."
    )
    assert twins.twin(points, "Lithuania", "LT", ()) == twins.written(points, "Lithuania")
