"""Edits that add no evidence: none pays where support is exact, and the benchmark runs."""

import random

import numpy as np
import pytest

from benchmarks import reward_attacks
from benchmarks.reward_edits import EDITS, Draft, World, negated, swapped
from judges.one_to_all import OneToAllJudge
from judges.reward import ChainReward
from tests.judges.stand_ins import TableContrast, WordScorer

# To merge statements that match nothing without a joint makes fewer of them; `max_point_tokens` bounds it.
PAYS = {"merge"}
CANDIDATES, REFERENCES = reward_attacks.read()
CHAINS = CANDIDATES[:6]


def halved(row):
    """A reference that holds every other point of the chain, so that there is room to rise."""
    return {**row, "text": None, "points": [*row["points"][::2], *REFERENCES[row["id"]]["points"][:2]]}


@pytest.fixture(scope="module")
def reward():
    return ChainReward(OneToAllJudge(WordScorer()), contrast=TableContrast(), quantum=0.001)


def scored(reward, rows, texts):
    results = reward_attacks.judge(reward, rows, texts, {row["id"]: halved(row) for row in CHAINS})
    return [reward_attacks.number(result) for result in results]


@pytest.mark.parametrize("name", sorted(set(EDITS) - PAYS))
def test_an_edit_does_not_pay(reward, name):
    rng = random.Random(0)
    drafts = [Draft(tuple(row["points"]), row["conclusion"]) for row in CHAINS]
    before = scored(reward, CHAINS, [draft.text() for draft in drafts])
    tries = 1 if name == reward_attacks.LONG else 6
    edited = [
        (row, EDITS[name](draft, world, rng), start)
        for row, draft, world, start in zip(
            CHAINS, drafts, reward_attacks.worlds(CHAINS, CANDIDATES), before, strict=True
        )
        for _ in range(tries)
    ]
    after = scored(reward, [row for row, _, _ in edited], [draft.text() for _, draft, _ in edited])
    assert any(draft.text() != Draft(tuple(row["points"]), row["conclusion"]).text() for row, draft, _ in edited)
    rises = [value - start for value, (_, _, start) in zip(after, edited, strict=True)]
    assert max(rises) <= 0.02
    assert all(reward_attacks.labels(draft, row) <= len(row["points"]) for row, draft, _ in edited)


def test_merging_pays_no_longer_with_a_tight_limit():
    points = [f"{word} {'x y z w v u ' * 3}{word}" for word in ("alpha", "beta", "gamma", "delta")]
    whole = "\n".join(f"- {point}" for point in points)
    merged = "\n".join(f"- {point}" for point in [*points[:2], f"{points[2]} {points[3]}"])
    columns = {"reference": [{"points": points[:1]}] * 2, "country": [None] * 2}

    def values(**limits):
        judge = OneToAllJudge(WordScorer())
        return ChainReward(judge, contrast=TableContrast(), min_value=1.0, **limits)(
            completions=[whole, merged], **columns
        )

    loose, tight = values(), values(max_point_tokens=20)
    assert loose[1] > loose[0]  # known: see the results of the benchmark
    assert tight[1] == tight[0]


def test_a_bandit_learns_the_honest_way_and_only_from_rewards():
    table = np.array([[0.6, 0.15, 0.4, 0.0, 0.0, 0.3], [0.5, 0.1, 0.45, 0.0, 0.0, 0.2]])
    for seed in range(5):
        assert reward_attacks.bandit(table, seed)[0] > 0.9
    assert max(reward_attacks.bandit(np.zeros_like(table), 0)) < 0.2


def test_the_benchmark_writes_its_results(tmp_path):
    found = reward_attacks.main(["--steps", "2", "--chains", "2", "--proposals", "1", "--out", str(tmp_path)])
    assert found["worth attacking"] >= 20
    assert all(end > 0.9 for end in found["bandit"]["honest in the end"])
    page = (tmp_path / "reward_attacks.md").read_text()
    assert "## Bandit: holds" in page
    assert "| merge |" in page
    assert (tmp_path / "reward_attacks.json").exists()


def test_edits():
    rng, world = random.Random(0), World(("Red soil in Kenya.", "Slim poles in Peru, Ghana and Laos.") * 20, "Mali")
    draft = Draft(("White bollards, red stripes on the left.", "The pole is tall."), "Mali")
    assert draft.text() == "- White bollards, red stripes on the left.\n- The pole is tall.\n\nConclusion: Mali\n"
    assert swapped("White poles on the left.") == "black poles on the right."
    assert negated("The pole is tall.") == "The pole is not tall."
    assert len(EDITS[reward_attacks.LONG](draft, world, rng).text().split()) >= 20_000
    assert len(EDITS["merge"](draft, world, rng).points) == 1
    assert all(any(edit(draft, world, rng) != draft for _ in range(9)) for edit in EDITS.values())
