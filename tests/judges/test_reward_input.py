"""What a reward takes and refuses: odd completions never end a training, wrong arguments and columns do at once."""

import math

import numpy as np
import pytest

from judges.chains import ReasoningChain
from judges.one_to_all import OneToAllJudge
from judges.reward import ChainReward, compute_score_batch
from judges.reward_parts import quantise
from judges.reward_rows import message_text
from tests.judges.rewards import TRUTH, call, make, text, texts
from tests.judges.stand_ins import TableContrast, TableScorer

# completions


def test_odd_completions_do_not_crash():
    odd = ["", " ", "\ud800 half a pair", "\x00", "- " * 5000, "{" * 2000, "<think>", "字" * 4000]
    odd.append("I cannot say where this is.")
    values = call(make(), *odd)
    assert values == [0.0] * len(odd)
    # Half a pair cannot be encoded; a judge would fail on it, for all completions of its call.
    sent = []
    reward = make()
    reward._finder.judge = type(
        "Encodes", (), {"score": lambda self, chains, _: sent.extend(map(str.encode, texts(chains)))}
    )()
    call(reward, text("\ud800 half a pair"))
    assert sent == [b"? half a pair"]


@pytest.mark.parametrize(
    "none", [None, math.nan, np.float32("nan"), [], [None], [[]], {}, {"content": None}, [{"type": "image"}]]
)
def test_nothing_is_an_empty_text(none):
    seen = {}
    assert call(make(), none, text("alpha"), log_metric=seen.__setitem__) == [0.0, 0.4]
    assert seen["chain_reward/unreadable"] == seen["chain_reward/failed"] == 0


@pytest.mark.parametrize(
    "odd", [7, 0.5, True, b"- alpha", object(), [3], {"role": "assistant", "content": 3}, [{"type": "text", "text": 3}]]
)
def test_what_is_no_text_earns_like_an_empty_one_and_is_counted(odd):
    seen = {}
    assert call(make(), odd, text("alpha"), log_metric=seen.__setitem__) == [0.0, 0.4]
    assert seen["chain_reward/unreadable"] == 1
    assert seen["chain_reward/failed"] == 0


def test_the_na_of_pandas():
    pandas = pytest.importorskip("pandas")
    assert message_text(pandas.NA) == message_text(pandas.NaT) == ("", True)
    assert call(make({}), text("R0", "R1", "R2", answer="Kenya"), country=pandas.NA) == [1.0]
    assert call(make({}), text("R0"), truth=pandas.NA) == [None]


def test_texts_inside_lists_are_read():
    part = {"type": "text", "text": "- Tea"}
    for given in (
        ["- Tea"],
        [[part]],
        [[[{"role": "assistant", "content": [[part]]}]]],
        {"type": "text", "text": {"value": "- Tea"}},
        [{"role": "assistant", "content": [{"type": "text", "text": {"value": "- Tea"}}]}],
        np.array(["- Tea"], dtype=object),
    ):
        assert message_text(given, only="assistant") == ("- Tea", True)
    assert message_text(["- Tea", 3, "- Red soil"]) == ("- Tea\n- Red soil", False)
    deep = "- Tea"
    for _ in range(5000):
        deep = [deep]
    assert message_text(deep) == ("", False)


def test_odd_prompts():
    for odd, count in ((None, 0), (math.nan, 0), (3, 1), ([{"role": "user", "content": b"x"}], 1)):
        seen = {}
        columns = {"completions": [text("alpha")], "reference": [TRUTH], "country": ["UG"]}
        assert make()(prompts=[odd], log_metric=seen.__setitem__, **columns) == [0.4]
        assert seen["chain_reward/unreadable"] == count
    scores = compute_score_batch(["x"], [None], [TRUTH], [{"prompt": None, "country": "UG"}], reward=make())
    assert (scores[0]["score"], scores[0]["failed"]) == (0.0, False)


# references


def test_half_a_character_in_one_reference_leaves_the_others_alone():
    sent = []

    class Encodes(TableScorer):
        def score(self, statements, contexts):
            sent.extend("".join((one, *context)).encode() for one, context in zip(statements, contexts, strict=True))
            return super().score(statements, contexts)

    forms = (
        "- R0 \ud800\n\nUganda",
        {"points": ["R0 \ud800"], "conclusion": "\udfff"},
        ReasoningChain.of(["R0 \ud800"], "Uganda \ud800"),
    )
    for form in forms:
        reward = ChainReward(OneToAllJudge(Encodes()), contrast=TableContrast())
        values = reward(completions=[text("R0 ?"), text("R1")], reference=[form, "- R1"], country=["UG", "UG"])
        assert values == [1.0, 1.0]
    assert sent


@pytest.mark.parametrize(
    ("cell", "error", "match"),
    [
        ({"text": "- R0", "points": []}, ValueError, "but got `text` and another `points`"),
        ({"text": "- R0", "conclusion": "UG"}, ValueError, "but got `text` and another `conclusion`"),
        ({"points": ["R0"], "conclusion": 3}, TypeError, "with a text as `conclusion`, but got int 3"),
        ({"text": 3}, TypeError, "with a text as `text`, but got int 3"),
    ],
)
def test_references_that_say_two_things(cell, error, match):
    with pytest.raises(error, match=rf"Expected `reference\[0\]` .*{match}"):
        call(make({}), text("R0"), truth=cell)


def test_points_beside_another_text():
    with pytest.raises(ValueError, match=r"`reference.* but got `text` and another `points`"):
        call(make({}), text("R1"), truth={"text": "- R0", "points": ["R1"]})


def test_a_missing_conclusion_or_reference():
    truth = {"points": ["R0"], "conclusion": math.nan}
    assert call(make({}), text("R0", answer=""), truth=truth, country=None) == [1.0]
    both = {"points": ["R0"], "text": "- R0\n- R1\n\nUganda", "conclusion": "Uganda"}  # the text that the point is of
    assert call(make({}), text("R0"), truth=both) == [1.0]
    assert call(make({}), text("R0"), truth={"points": None, "text": "- R0", "conclusion": None}) == [1.0]
    assert call(make({}), text("R0"), truth=math.nan) == [None]


# calls


def test_countries_that_are_none():
    for wrong in (["Uganda"], np.array(["Uganda", "Kenya"]), b"UG", {}):
        with pytest.raises(TypeError, match=r"Expected `country\[0\]` to be a country, but got "):
            make({})(completions=[text("R0")], reference=["- R0"], country=[wrong])


@pytest.mark.parametrize("wrong", [None, "- alpha", 3, b"x", {"a": 1}])
def test_completions_that_are_no_list(wrong):
    columns = {"reference": ["- R0"], "country": ["UG"]}
    with pytest.raises(TypeError, match="Expected `completions` to be a list of texts or of lists of messages"):
        make()(completions=wrong, **columns)
    if wrong is not None:
        with pytest.raises(TypeError, match="Expected `prompts` to be a list"):
            make()(completions=["- R0"], prompts=wrong, **columns)


def test_arguments_of_verl():
    good = {"data_sources": ["x"], "solution_strs": [text("R0")], "ground_truths": [TRUTH], "extra_infos": [None]}
    for name, wrong, match in (
        ("extra_infos", ["a"], r"Expected `extra_infos\[0\]` to be a dictionary or None, but got 'a'"),
        ("extra_infos", 3, "Expected `extra_infos` to be a list, but got 3"),
        ("solution_strs", None, "Expected `solution_strs` to be a list, but got None"),
        ("solution_strs", "a", "Expected `solution_strs` to be a list, but got 'a'"),
        ("ground_truths", None, "Expected `ground_truths` to be a list, but got None"),
    ):
        with pytest.raises(TypeError, match=match):
            compute_score_batch(**good | {name: wrong}, reward=make(country=None))


# the constructor


def test_wrong_arguments():
    judge = OneToAllJudge(TableScorer())
    with pytest.raises(TypeError, match="`judge` with a method `score`, but got the class OneToAllJudge itself"):
        ChainReward(OneToAllJudge)
    with pytest.raises(TypeError, match="`judge` with a method `score`, but got str"):
        ChainReward("judge")
    with pytest.raises(TypeError, match="judge"):
        ChainReward()
    known = "conclusion_first, false_tool, misattribution, injection"
    with pytest.raises(ValueError, match=f"Expected `weights` of {known}, but got generic, stereotype"):
        make(weights={"stereotype": 0.1, "generic": 0.2})
    for name, value, match in (
        ("weights", {"injection": 1.5}, "within"),
        ("quantum", 0, "quantum"),
        ("min_value", 1.5, "min_value"),
        ("max_points", 0, "max_points"),
        ("max_point_tokens", 0, "max_point_tokens"),
        ("max_failed_calls", 0, "max_failed_calls"),
    ):
        with pytest.raises(ValueError, match=match):
            ChainReward(judge, contrast=TableContrast(), **{name: value})


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("contrast", "x", "Expected `contrast` to be a Contrast or None, but got 'x'"),
        ("reference", None, "Expected `reference` to be the name of a column, but got None"),
        ("country", 3, "Expected `country` to be the name of a column, but got 3"),
        ("weights", [1], "Expected `weights` to be a mapping of faults to numbers, but got .1."),
        ("weights", {"injection": "a"}, r"Expected `weights\['injection'\]` to be a number within .* but got 'a'"),
        ("quantum", "a", "Expected `quantum` to be a number within .* but got 'a'"),
        ("quantum", None, "Expected `quantum` to be a number"),
        ("quantum", True, "Expected `quantum` to be a number"),
        ("min_value", "a", "Expected `min_value` to be a number"),
        ("max_points", 2.5, "Expected `max_points` to be a whole number of at least 1, but got 2.5"),
        ("max_points", True, "Expected `max_points` to be a whole number of at least 1, but got True"),
        ("max_points", None, "Expected `max_points` to be a whole number"),
        ("max_point_tokens", math.nan, "Expected `max_point_tokens` to be a whole number of at least 1, but got nan"),
        ("max_failed_calls", "3", "Expected `max_failed_calls` to be a whole number"),
    ],
)
def test_arguments_of_a_wrong_type(name, value, match):
    options = {"contrast": TableContrast(), name: value}
    with pytest.raises(TypeError, match=match):
        ChainReward(OneToAllJudge(TableScorer()), **options)


@pytest.mark.parametrize("quantum", [0.6, 0.7, 0.3, 1.5, -0.5, 0, math.nan, 1e-320])
def test_a_quantum_that_does_not_lead_to_one(quantum):
    with pytest.raises(ValueError, match=r"Expected `quantum` within [\[(]0, 1\]"):
        make(quantum=quantum)


@pytest.mark.parametrize("quantum", [1, 0.5, 1 / 3, 0.2, 0.1, 1 / 7, 0.01, 0.001, 1e-9, np.float32(0.25)])
def test_a_perfect_answer_earns_one_in_any_step(quantum):
    assert call(make({}, quantum=quantum), text("R0", "R1", "R2")) == [1.0]
    assert quantise(0.0, quantum) == 0
    assert quantise(0.999999999999, quantum) == 1
