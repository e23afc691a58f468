import itertools
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from judges.axioms import AXIOMS
from judges.chains import ReasoningChain, parse_chain
from judges.faults import Contrast, Fault, axiomatic, sufficiency
from judges.places import neighbours
from judges.records import Record, read_records
from judges.scorers import EmbeddingScorer, PairScores

BANK = Path(__file__).parent / "data" / "bank.jsonl"


class Words:
    """Support = share of the statement's words that a context point has, the best point; counts its calls."""

    def __init__(self):
        self.asked = []

    def score(self, statements, contexts):
        self.asked += list(zip(statements, contexts, strict=True))
        values = [
            max((len(set(one.split()) & set(point.split())) / len(set(one.split())) for point in context), default=0.0)
            for one, context in zip(statements, contexts, strict=True)
        ]
        value = torch.tensor(values, dtype=torch.float64)
        return PairScores(value, torch.ones_like(value), (None,) * len(values), (None,) * len(values))


def bank(*chains, author="model"):
    return [Record(str(i), ReasoningChain.of(points), code, author=author) for i, (code, points) in enumerate(chains)]


@pytest.fixture(scope="module")
def real():
    return Contrast(BANK)


def test_generic_is_the_mean_of_the_chains():
    contrast = Contrast(
        bank(("KE", ["alpha beta"]), ("TZ", ["alpha gamma"]), ("UG", ["alpha beta"])), Words(), axioms=()
    )
    assert contrast.generic(["alpha beta", "delta"], "", "UG") == [0.75, 0.0]
    assert contrast.generic(["alpha beta"], "", None) == [pytest.approx(5 / 6)]


def test_axioms_are_generic_whatever_was_drawn():
    contrast = Contrast(bank(("KE", ["alpha beta"]), ("TZ", ["alpha beta"])), Words(), axioms=("some sky",))
    assert contrast.generic(["some sky"], "", "UG") == [1.0]
    scorer = EmbeddingScorer()
    assert axiomatic(AXIOMS, scorer) == [1.0] * len(AXIOMS)
    assert axiomatic([], scorer) == []


def test_particular_points_are_no_axioms(real):
    said = ["Las casas llevan tejuelas de madera.", "骑楼下有人行走。", "Çatılarda güneş enerjili su ısıtıcıları var.",
            "Utility poles have a yellow and black wrap.", "Wooden houses clad in rounded shingles."]  # fmt: skip
    assert max(axiomatic(said, real.scorer)) == 0


def test_experts_are_not_generic_and_models_are(real):
    means = {}
    for author, records in itertools.groupby(read_records(BANK)[0], lambda record: record.author):
        values = [
            value
            for record in records
            for value in real.generic([p.text for p in record.chain.points], record.chain.text, record.country)
        ]
        means[author] = sum(values) / len(values)
    assert means["expert"] < 0.03
    assert means["model"] > 0.15


def test_drawn_chains(real):
    drawn = real.draw("red soil", "UG")
    assert len(drawn) == 8
    assert drawn == real.draw("red soil", "UG")
    assert drawn != real.draw("tea fields", "UG")
    countries = {record.chain: record.country for record in read_records(BANK)[0]}
    assert all(countries[chain] != "UG" for chain in drawn)
    backwards = Contrast(read_records(BANK)[0][::-1], real.scorer)
    assert backwards.draw("red soil", "UG") == drawn
    assert len(Contrast(BANK, real.scorer, size=100).draw("", "UG")) == 62


def test_draw_in_another_process(real):
    code = (
        f"from judges.faults import Contrast; print([c.text for c in Contrast({str(BANK)!r}).draw('red soil', 'UG')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == str([chain.text for chain in real.draw("red soil", "UG")])


def test_misattribution_needs_three_other_countries():
    said = ["shared thing here", "rare item here"]
    chain = ReasoningChain.of(
        [f"{said[0]}: Uganda", f"{said[1]}: Uganda", "no place", "shared thing here: Uganda or Kenya"]
    )
    chains = [("KE", said[:1]), ("TZ", said[:1]), ("RW", said[:1]), ("UG", said), ("ZM", said[1:])]
    contrast = Contrast(bank(*chains), Words(), axioms=())
    fault = contrast.misattribution(chain, "", "UG")
    assert fault.value == 1 / 4
    assert [chain.text[slice(*span)] for span in fault.spans] == [f"{said[0]}: Uganda"]
    # The true country is no other country.
    assert contrast.misattribution(chain, "", "KE").value == 0
    assert Contrast(bank(*chains[1:]), Words(), axioms=()).misattribution(chain, "", "UG").value == 0


@pytest.mark.parametrize(
    "said",
    [
        "Cars drive on the left, probably Uganda.",
        "Cars drive on the left in Uganda or Kenya.",
        "Cars drive on the left, which rules out Rwanda.",
        "Cars drive on the left.",
    ],
)
def test_honest_points_are_not_misattributed(real, said):
    assert real.misattribution(ReasoningChain.of([said]), "", "UG").value == 0


def test_misattribution_of_what_is_true_everywhere(real):
    assert real.misattribution(ReasoningChain.of(["The sky is blue, which is unique to Uganda."]), "", "UG").value == 1
    assert real.misattribution(ReasoningChain.of(["Cars drive on the left, as only in Uganda."]), "", "UG").value == 1
    assert real.misattribution(ReasoningChain.of([]), "", "UG") == Fault(0.0)


def test_colours_must_be_shared():
    contrast = Contrast(bank(("KE", ["white plates with digits"])), Words(), axioms=())
    assert contrast.generic(["white plates", "yellow plates with digits"], "", "UG") == [1.0, 0.0]


def test_stereotype():
    contrast = Contrast(bank(("KE", ["alpha beta"]), ("UG", ["gamma delta"])), Words(), axioms=())
    chain = ReasoningChain.of(["gamma delta", "alpha beta"])
    assert contrast.stereotype(chain, "UG") == Fault(0.5, (chain.points[0].span,))
    assert contrast.stereotype(chain, "PE").value is None
    assert contrast.stereotype(chain, None).value is None
    assert contrast.stereotype(ReasoningChain.of([]), "UG").value is None
    assert contrast.stereotype(ReasoningChain.of(["Peru is known for its hospitality.", "x y"]), "PE").value == 0.5


def test_cached_and_deterministic(real):
    points, text = ["Red soil.", "The sky is blue."], "some reference"
    assert real.generic(points, text, "UG") == real.generic(points, text, "UG")
    again = pickle.loads(pickle.dumps(real))
    assert again.generic(points, text, "UG") == real.generic(points, text, "UG")


@pytest.mark.parametrize("text", ["", "- ...", "- \u200b", "🙂\n- Kenya", "- a" * 50, '{"points": ["x"]}'])
def test_any_chain(real, text):
    chain = parse_chain(text)
    for fault in (real.misattribution(chain, text, "UG"), real.stereotype(chain, "UG")):
        assert fault.value is None or 0 <= fault.value <= 1
        assert all(0 <= start < end <= len(text) for start, end in fault.spans)
    assert all(0 <= value <= 1 for value in real.generic([point.text for point in chain.points], text, "UG"))


def test_bank_of_pairs():
    pairs = [(ReasoningChain.of(["Red soil."]), "Kenya"), (ReasoningChain.of(["Tea."]), "UG")]
    with pytest.warns(UserWarning, match="no chain written by a model"):
        contrast = Contrast(pairs, Words())
    assert [chain.points[0].text for chain in contrast.draw("", "UG")] == ["Red soil."]


def test_no_warning_with_chains_of_models():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Contrast(BANK, Words())


def test_a_country_may_be_given_by_its_name(real):
    chain = parse_chain("- Mate is drunk here.\n- Red soil is only in Brazil.\n\nConclusion: Uruguay")
    assert real.draw("x", "Uruguay") == real.draw("x", "UY")
    assert len({real.draw("x", country) for country in ("Uruguay", "Poland", "Ukraine")}) > 1
    assert real.stereotype(chain, "Uruguay") == real.stereotype(chain, "UY")
    assert real.misattribution(chain, "", "Uruguay") == real.misattribution(chain, "", "UY")
    for call in (
        lambda: real.draw("x", "Atlantis"),
        lambda: real.generic(["Red soil."], "x", "Atlantis"),
        lambda: real.misattribution(chain, "", "Atlantis"),
        lambda: real.stereotype(chain, "Atlantis"),
    ):
        with pytest.raises(ValueError, match=r"Expected `country` to be a country.*'Atlantis'"):
            call()


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="Expected `size` of at least 1, but got 0"):
        Contrast(BANK, size=0)
    with pytest.raises(ValueError, match="Expected a bank with at least one chain that has points, but got none"):
        Contrast(bank(("UG", [])), Words())
    with pytest.raises(ValueError, match="Expected a country for every chain of the bank, but got none for 'a'"):
        Contrast([Record("a", ReasoningChain.of(["Red soil."]))], Words())
    with pytest.raises(ValueError, match="no file"):
        Contrast(tmp_path / "none.jsonl")
    path = tmp_path / "bank.jsonl"
    path.write_text(json.dumps({"id": "a", "points": ["Red soil."], "author": "model"}) + "\n")
    with pytest.raises(ValueError, match=r"Expected a country .* none for 'a' at .*bank.jsonl, line 1"):
        Contrast(path)


class Levels:
    """A level for (country, whether there are notes); 1 for others."""

    def __init__(self, given, blank, other=1.0):
        self.given, self.blank, self.other, self.contexts = given, blank, other, set()

    def score(self, statements, contexts):
        self.contexts |= set(contexts)
        values = [
            self.other if "Uganda" not in one else self.blank if context == ("(no notes)",) else self.given
            for one, context in zip(statements, contexts, strict=True)
        ]
        value = torch.tensor(values, dtype=torch.float64)
        reason = tuple("failed" if one != one else None for one in values)
        return PairScores(value, torch.ones_like(value), (None,) * len(values), reason)


def test_sufficiency():
    chain = ReasoningChain.of(["Red soil as in Uganda.", "Plates start with U.", "Uganda."], "Uganda")
    scorer = Levels(1.0, 0.5, other=0.5)
    assert len(neighbours("UG")) == 4
    assert sufficiency(chain, "UG", scorer).value == pytest.approx(1 / 3 - 1 / 5)
    assert scorer.contexts == {("Red soil as in somewhere.", "Plates start with U."), ("(no notes)",)}
    assert sufficiency(chain, "UG", Levels(0.5, 1.0, other=0.5)).value == 0  # clipped
    assert sufficiency(chain, "UG", Levels(0.0, 0.0, other=0.0)).value is None
    assert sufficiency(chain, "UG", Levels(float("nan"), 0.5)).value is None
    assert sufficiency(chain, None, scorer).value is None
    assert sufficiency(chain, "UG", None).value is None
    assert sufficiency(chain, "UG", EmbeddingScorer()).value is None
    assert sufficiency(ReasoningChain.of(["Uganda."]), "UG", scorer).value is None
