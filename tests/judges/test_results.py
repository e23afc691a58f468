import dataclasses
import json
import math

import pytest
import torch

from judges.one_to_all import OneToAllJudge
from judges.results import PointScore
from tests.judges.scoring import WordScorer


@pytest.fixture(scope="module")
def scores():
    candidates = ["- Red soil here.\n- red soil here\n- These fail.", "", "I cannot tell where this image was taken."]
    return OneToAllJudge(WordScorer()).score(candidates, [["- Red soil here.", "- Tea."]] * 3)


def test_frozen(scores):
    with pytest.raises(dataclasses.FrozenInstanceError):
        scores.f1 = torch.zeros(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        scores.candidate_points[0][0].value = 1.0


def test_records_are_json_and_say_everything(scores):
    records = scores.to_records()
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    assert [record["status"] for record in records] == ["failed", "empty candidate", "refused"]
    first = records[0]
    assert (first["precision"], first["recall"], first["f1"]) == (None, 1.0, None)
    kept, restated, failed = first["points"]
    assert kept == {
        "text": "Red soil here.", "span": [2, 16], "value": 1.0, "match": 0, "match_text": "Red soil here.",
        "restated": False, "categories": ["geology"], "reliability": 1.0, "reason": None,
    }  # fmt: skip
    assert (restated["restated"], restated["value"], restated["reason"], restated["match"]) == (True, None, None, None)
    assert (failed["restated"], failed["value"], failed["reason"], failed["match"]) == (False, None, "said so", None)
    assert [[point["value"] for point in reference] for reference in first["references"]] == [[1.0], [0.0]]
    assert records[1]["points"] == []
    assert records[1]["f1"] == records[2]["f1"] == 0.0


def test_lengths(scores):
    assert len(scores) == 3
    assert scores.f1.shape == scores.precision.shape == scores.reliability.shape == (3,)
    assert scores.f1.dtype == torch.float64
    assert [len(lists) for lists in scores.reference_points] == [2, 2, 2]


def test_a_point_without_clauses_has_no_such_field():
    assert "clauses" not in PointScore("a", (0, 1), 1.0).to_record()
    record = PointScore("a", (0, 1), 1.0, clauses=(("a", math.nan),)).to_record()
    assert record["clauses"] == [["a", None]]
