"""Rewards with judges from tables, for the tests of the formula and of what trainers meet."""

import json

from judges.one_to_all import OneToAllJudge
from judges.reward import ChainReward
from tests.judges.stand_ins import TableContrast, TableScorer

TABLE = {("alpha", "R0"): 0.8, ("beta", "R0"): 0.6, ("gamma", "R1"): 0.5, ("weak", "R2"): 0.2}
TRUTH = {"points": ["R0", "R1", "R2"], "conclusion": "Uganda"}


def make(table=TABLE, contrast=None, failing=(), **options):
    judge = OneToAllJudge(TableScorer(table, failing))
    return ChainReward(judge, contrast=contrast or TableContrast(), **options)


def texts(chains):
    return [point.text for chain in chains for point in chain.points]


def text(*points, answer="Uganda"):
    return "\n".join(f"- {point}" for point in points) + (f"\n\nConclusion: {answer}" if answer else "")


def call(reward, *completions, truth=TRUTH, country="Uganda", **rest):
    number = len(completions)
    return reward(
        prompts=["Where is this?"] * number,
        completions=list(completions),
        completion_ids=[[0]] * number,
        reference=[truth] * number,
        country=[country] * number,
        trainer_state=None,
        **rest,
    )


def parts_of(reward, completion, **rest):
    records = []
    call(reward, completion, log_extra=lambda name, values: records.extend(values), **rest)
    return json.loads(records[0])
