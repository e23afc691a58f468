import json
import logging
import pickle
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from judges.chains import ReasoningChain
from judges.faults import Contrast
from judges.one_to_all import OneToAllJudge
from judges.records import read_records
from judges.results import ChainScores
from judges.reward import ChainReward, compute_score_batch
from judges.scorers import EmbeddingScorer
from tests.judges.rewards import TABLE, TRUTH, call, make, parts_of, text
from tests.judges.stand_ins import Dying, TableContrast, TableScorer, WordScorer

# trainers


def test_completions_as_messages():
    reward = make()
    completion = text("alpha", "gamma")
    parts = [{"type": "text", "text": completion}, {"type": "image"}]
    as_text, as_message, as_parts = (
        [completion],
        [[{"role": "assistant", "content": completion}]],
        [[{"role": "assistant", "content": parts}]],
    )
    columns = {"reference": [TRUTH], "country": ["UG"]}
    values = [make()(prompts=["Where?"], completions=given, **columns) for given in (as_text, as_message, as_parts)]
    assert values[0] == values[1] == values[2] == call(reward, completion)
    tool = [{"role": "assistant", "content": None}, {"role": "tool", "content": text("R1")}, *as_message[0]]
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [*parts[1:], "Where?"]}]
    assert make()(prompts=[prompt], completions=[tool], **columns) == values[0]
    clue = "Deep red soil is seen"
    told = {"role": "assistant", "content": text(clue)}
    thought = told | {"reasoning_content": "This is Uganda."}
    columns["reference"] = [{"points": [clue]}]
    assert make()(prompts=["Where?"], completions=[[told]], **columns) == [1.0]
    assert make()(prompts=["Where?"], completions=[[thought]], **columns) == [0.7]


def test_what_is_copied_from_the_prompt_counts_for_nothing():
    clue = "long wooden poles line the road"
    reward = make({(clue, "R0"): 1.0})
    columns = {"completions": [text(clue)], "reference": [TRUTH], "country": ["UG"]}
    asked = f"Where is this? Write points such as: {clue}"
    plain = reward(prompts=["Where is this?"], **columns)
    assert plain[0] > 0.4
    assert reward(prompts=[asked], **columns) == [0.0]
    assert reward(prompts=[[{"role": "user", "content": [{"type": "text", "text": asked}]}]], **columns) == [0.0]


def test_references_in_every_form():
    completion = text("R0", "R1")
    forms = (
        "- R0\n- R1\n\nConclusion: Uganda",
        ["- R0\n- R1", "- R2"],
        {"points": ["R0", "R1"], "conclusion": "Uganda"},
        {"points": None, "text": "- R0\n- R1"},
        {"points": np.array(["R0", "R1"], dtype=object)},
        ReasoningChain.of(["R0", "R1"], "Uganda"),
        np.array(["- R0\n- R1"], dtype=object),
    )
    for form in forms:
        assert call(make({}), completion, truth=form) == [1.0]
    for empty in (None, "", [], ["  "], {"points": []}):
        assert call(make({}), completion, truth=empty) == [None]
    for wrong in (3, {"points": [3]}, {"words": ["R0"]}, [3]):
        with pytest.raises(TypeError, match=r"Expected `reference\[0\]`"):
            call(make({}), completion, truth=wrong)


def test_wrong_calls_name_what_is_there():
    reward, said = make(), [text("alpha")]
    with pytest.raises(ValueError, match="Expected a column `reference` in the data set, but got `answer`, `country`"):
        reward(prompts=["?"], completions=said, answer=["x"], country=["UG"], log_metric=None)
    with pytest.raises(ValueError, match="Expected a column `country` in the data set, but got `reference`"):
        reward(prompts=["?"], completions=said, reference=["x"])
    with pytest.raises(ValueError, match="Expected a column `reference` in the data set, but got none"):
        reward(prompts=["?"], completions=said)
    with pytest.raises(ValueError, match="Expected `reference` with 1 cells, one for each completion, but got 2 cells"):
        reward(prompts=["?"], completions=said, reference=["x", "y"], country=["UG"])
    with pytest.raises(ValueError, match="but got str"):
        reward(prompts=["?"], completions=said, reference="x", country=["UG"])
    with pytest.raises(ValueError, match="Expected 1 `prompts`"):
        reward(prompts=["?", "?"], completions=said, reference=["x"], country=["UG"])
    with pytest.raises(ValueError, match=r"Expected `country\[0\]` to be a country, but got 'Atlantis'"):
        reward(prompts=["?"], completions=said, reference=["x"], country=["Atlantis"])
    with pytest.raises(TypeError, match=r"Expected `country\[0\]` to be a country, but got int"):
        reward(prompts=["?"], completions=said, reference=["x"], country=[7])
    columns = {"truth": ["- R0"], "where": ["UG"]}
    renamed = make(reference="truth", country="where")
    assert renamed(prompts=["?"], completions=[text("R0")], **columns) == [1.0]
    assert make(country=None)(prompts=["?"], completions=[text("R0", answer="Peru")], reference=["- R0"]) == [1.0]


def test_contrast_is_missed_once():
    judge = OneToAllJudge(TableScorer())
    with pytest.warns(UserWarning, match="without `contrast`") as seen:
        reward = ChainReward(judge)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(reward, text("R0", "R1", "R2")) == [1.0]
    parts = parts_of(reward, text("R0"))["parts"]
    assert parts["misattribution"] is None
    assert parts["stereotype"] is None
    axiom = "The sky is blue."
    lowered = call(reward, text("R0", axiom), truth={"points": ["R0", axiom]})
    assert lowered < call(make({}), text("R0", axiom), truth={"points": ["R0", axiom]})


def test_one_judge_call_for_all_and_equal_completions_once():
    reward = make()
    other = {"points": ["R1"], "conclusion": "Kenya"}
    completions = [text("alpha"), text("gamma"), text("alpha"), text("gamma")]
    values = reward(
        prompts=["?"] * 4, completions=completions, reference=[TRUTH, TRUTH, TRUTH, other], country=["UG"] * 3 + ["KE"]
    )
    scorer = reward.judge.scorer
    assert scorer.calls == [9]  # 3 points of different completions, and 3 + 3 points of references; one call
    assert values[0] == values[2]
    assert values[3] != values[1]
    assert [asked[1:] for asked in reward.contrast.asked] == [("Uganda\nR0\nR1\nR2", "UG"), ("Kenya\nR1", "KE")]
    assert reward.contrast.asked[0][0] == ("alpha", "gamma")


def test_remembers_completions():
    reward = make()
    first = call(reward, text("alpha"))
    reward.judge.scorer.table.clear()  # another number would come out now
    assert call(reward, text("alpha"), text("alpha")) == first * 2
    assert len(reward.judge.scorer.calls) == 1
    call(reward, text("alpha"), country="Kenya")
    assert len(reward.judge.scorer.calls) == 2


def test_a_failing_judge_gives_none_is_counted_and_ends_the_run(caplog, monkeypatch):
    # other libraries' set-up of logging, earlier in the process, must not hide the message
    log = logging.getLogger("judges.reward")
    monkeypatch.setattr(log, "disabled", False)
    monkeypatch.setattr(log, "handlers", [caplog.handler])
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)
    log.setLevel(logging.WARNING)
    counted, extra = [], []
    logs = {
        "log_metric": lambda name, value: counted.append((name, value)),
        "log_extra": lambda name, values: extra.append((name, values)),
    }
    reward = make()
    reward._finder.judge = Dying(reward.judge, at=2)
    assert call(reward, text("alpha"), text("gamma"), **logs) == [0.4, 0.25]
    assert ("chain_reward/failed", 0.0) in counted
    assert call(reward, text("beta"), text("alpha"), **logs) == [None, None]
    assert counted[-1] == ("chain_reward/failed", 2.0)
    assert "the judge is gone" in json.loads(extra[-1][1][0])["reason"]
    assert "ConnectionError" in caplog.text
    assert call(reward, text("alpha"), **logs) == [0.4]  # known; the row of failures is broken
    for _ in range(2):
        assert call(reward, text("beta"), **logs) == [None]
    with pytest.raises(
        RuntimeError, match=r"none in 3 calls in a row; .* ConnectionError: the judge is gone"
    ) as caught:
        call(reward, text("beta"), **logs)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert counted[-1] == ("chain_reward/failed", 1.0)


def test_none_for_the_one_that_cannot_be_scored():
    reward = make(failing=("lost",))
    seen = {}
    values = call(reward, text("alpha"), text("lost"), log_metric=seen.__setitem__)
    assert values == [0.4, None]
    assert seen["chain_reward/failed"] == 1
    assert seen["chain_reward/points"] == 1  # of the one that is scored
    assert parts_of(reward, text("lost"))["reason"] == "timeout"
    assert call(reward, text("lost")) == [None]
    with pytest.raises(RuntimeError, match="because of: timeout"):
        call(reward, text("lost"))
    assert call(reward, text("alpha")) == values[:1]
    assert reward(prompts=[], completions=[], reference=[], country=[]) == []


def test_a_judge_without_matches_is_an_error():
    class Blind(TableScorer):
        def score(self, statements, contexts):
            from dataclasses import replace

            scores = super().score(statements, contexts)
            return replace(scores, match=(None,) * len(scores))

    reward = ChainReward(OneToAllJudge(Blind(TABLE)), contrast=TableContrast())
    with pytest.raises(ValueError, match="no match for any of 1 points: give it an encoder"):
        call(reward, text("alpha"))


def test_a_judge_of_the_wrong_size_is_a_failure():
    class Short:
        def score(self, candidates, references):
            one = torch.ones(1).double()
            return ChainScores(one, one, one, ((),), (((),),), ((),), one)

    assert call(ChainReward(Short(), contrast=TableContrast()), text("alpha"), text("beta")) == [None, None]


def test_parts_are_means_over_completions():
    seen = {}
    call(make(), text("alpha", "gamma"), text("R0", "R1", "R2", answer="Kenya"), log_metric=seen.__setitem__)
    assert seen["chain_reward/country_correct"] == 0.5
    assert seen["chain_reward/recall"] == pytest.approx(((0.8 + 0.5) / 3 + 1) / 2)
    assert seen["chain_reward/misattribution"] == 0
    assert "chain_reward/stereotype" not in seen  # unknown for all


def test_twenty_thousand_tokens():
    value, padded = call(make(), text("alpha", "gamma"), text("alpha", "gamma", "the sky is blue " * 5000))
    assert padded < value / 10
    (paragraph,) = call(make(), "The sky is blue. " * 5000 + "\n\nConclusion: Uganda")
    assert paragraph == 0


# processes


def test_pickles_its_configuration():
    scorer = EmbeddingScorer()
    records = list(read_records("tests/judges/data/bank.jsonl")[0])[:3]
    reward = ChainReward(OneToAllJudge(WordScorer()), contrast=Contrast(records, scorer), weights={"injection": 0.5})
    value = call(reward, text("R0", "R1"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(reward))
    assert again.__name__ == "chain_reward"
    assert again.weights == reward.weights
    assert len(again._memo) == 0
    assert b"grouped_precision" not in pickle.dumps(reward)  # what was judged is not carried along
    assert call(again, text("R0", "R1")) == value
    assert not isinstance(reward, torch.nn.Module)


def test_leaves_random_states_and_gradients_alone():
    class Noisy(TableScorer):
        def score(self, statements, contexts):
            torch.rand(3), np.random.rand(3), random.random()  # noqa: NPY002
            assert not torch.is_grad_enabled()
            return super().score(statements, contexts)

    reward = ChainReward(OneToAllJudge(Noisy(TABLE)), contrast=TableContrast())
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    call(reward, text("alpha"))
    assert torch.is_grad_enabled()
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002


SCRIPT = """
from judges.faults import Contrast
from judges.one_to_all import OneToAllJudge
from judges.reward import ChainReward
from judges.scorers import EmbeddingScorer
scorer = EmbeddingScorer()
reward = ChainReward(OneToAllJudge(scorer), contrast=Contrast("tests/judges/data/bank.jsonl", scorer))
said = ["- Deep red soil.\\n- Slim bollards.\\n\\nUganda", "- Reddish earth.\\n\\nKenya", "- Tea.\\n\\nUganda"]
truth = "- The soil is red.\\n- Tea fields on hills."
order = {order}
values = reward(completions=[said[i] for i in order], reference=[truth] * 3, country=["UG"] * 3)
print([values[order.index(i)] for i in range(3)])
"""


def test_the_same_to_one_quantum_in_another_process():
    values = []
    for order in ("[0, 1, 2]", "[2, 0, 1]"):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT.replace("{order}", order)], capture_output=True, text=True, check=True
        )
        values.append(json.loads(run.stdout))
    assert len(set(values[0])) == 3
    assert values[0] == pytest.approx(values[1], abs=0.01 + 1e-9)


# verl


def test_score_batch_for_verl():
    reward = make(failing=("lost",))
    said = [text("alpha", "gamma"), text("R0", "R1", "R2", answer="Kenya"), text("lost")]
    truths = [TRUTH, {"reference": TRUTH, "country": "UG"}, TRUTH]
    infos = [{"country": "UG", "prompt": "Where?"}, None, {"index": 3}]
    scores = compute_score_batch(["geo"] * 3, said, truths, infos, reward=reward, anything=1)
    assert scores[0]["score"] == call(make(), said[0])[0]
    assert scores[1]["score"] == 0.7
    assert (scores[2]["score"], scores[2]["failed"]) == (0.0, True)
    assert [one["failed"] for one in scores[:2]] == [False, False]
    assert len({tuple(one) for one in scores}) == 1  # the manager makes columns of them
    assert all(isinstance(value, (float, bool)) for one in scores for value in one.values())
    plain = compute_score_batch(["geo"] * 2, said[:2], [TRUTH] * 2, None, reward=make(country=None))
    assert plain[1]["score"] == 1.0
    with pytest.raises(ValueError, match="for each of the 2 completions, but got 1 and 2"):
        compute_score_batch(["geo"] * 2, said[:2], [TRUTH], None, reward=reward)
    reward._finder.judge = Dying(reward.judge, at=1)
    assert compute_score_batch(["geo"], [text("beta")], [TRUTH], [{}], reward=reward)[0]["failed"] is True
