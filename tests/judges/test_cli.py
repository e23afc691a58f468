"""The command line of the judges, run in this process; and both commands after one another."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geobias_torch.cli import main as geobias
from judges import score_files as module
from judges.chains import ReasoningChain
from judges.cli import main
from judges.embeddings import Encoder
from judges.faults import Contrast
from judges.one_to_all import OneToAllJudge
from judges.settings import Settings
from tests.judges.command_line import CLUES, fill, load_once, read, run, write
from tests.judges.models import tiny_chat_model
from tests.judges.scoring import WordScorer

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _load_once(monkeypatch):
    load_once(monkeypatch)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return fill(tmp_path, monkeypatch)


# what comes out


def test_records(folder, capsys):
    status, _, err = run(capsys)
    assert (status, err) == (0, "")
    assert sorted(os.listdir()) == ["c.jsonl", "r.jsonl", "scores.jsonl"]
    records = read()
    given = [json.loads(line) for line in Path("c.jsonl").read_text().splitlines()]
    assert [(one["id"], one["model"]) for one in records] == [(one["id"], one["model"]) for one in given]
    first, second = records[:2]
    assert (first["lat"], first["lon"], first["country"]) == (0.3, 32.6, "UG")  # of the references
    assert (first["guessed_country"], first["country_correct"]) == ("UG", True)
    assert records[2]["country_correct"] is False
    assert second["precision"] == 1.0
    assert second["recall"] == pytest.approx(1 / 3, abs=1e-6)
    assert second["f1"] == 0.5
    assert second["status"] == "scored"
    assert [point["match_text"] for point in second["points"]] == [CLUES[0], None]
    assert [point["restated"] for point in second["points"]] == [False, True]
    assert second["points"][0]["categories"] == ["infrastructure", "geology"]
    odd = records[2]
    assert odd["false_tool"] == 1.0
    start, end = odd["fault_spans"]["false_tool"][0]
    assert (
        "I checked Google Maps."
        in "\n".join([*json.loads(Path("c.jsonl").read_text().splitlines()[2])["points"], "Uganda"])[start:end]
    )
    judged = OneToAllJudge(Settings(Path("c.jsonl"), Path("r.jsonl"), Path("x.csv")).make_judge().scorer)
    references = [json.loads(line)["points"] for line in Path("r.jsonl").read_text().splitlines()[:2]]
    again = judged.score([ReasoningChain.of(given[0]["points"])], [[ReasoningChain.of(one) for one in references]])
    assert first["f1"] == pytest.approx(again.f1.item(), abs=1e-5)


def test_the_table(folder, capsys):
    _, out, _ = run(capsys)
    for text in (
        "c.jsonl against r.jsonl: one-to-all, embedding",
        "40 chains at 20 locations",
        "approximate: similarity, not entailment",
        "guesses and headings are no points",
        "Country right: of 40 chains whose true country is known",
        "Kinds of evidence, share of ",
        "vehicles ",
        "Not looked for: generic, misattribution, stereotype (needs --contrast).",
        "95 % of 2,000 draws of the locations",
    ):
        assert text in out
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert lines["large"].split()[1:3] == ["20", "0"]
    assert lines["all"].split()[1:3] == ["40", "0"]
    assert "1.000 [1.000, 1.000]" in lines["large"]  # its countries
    assert "0.200 [0.050, 0.400]" in lines["small"]
    assert "50.0%" in lines["false_tool"]
    assert "(higher = better)" in out


def test_csv_says_the_same(folder, capsys):
    run(capsys)
    status, _, err = run(capsys, out="scores.csv")
    assert (status, err) == (0, "")
    with Path("scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    records = read()
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        for name in ("precision", "recall", "f1", "reliability", "lat", "lon", "false_tool", "restated"):
            assert float(row[name]) == record[name]
        assert row["country_correct"] == str(int(record["country_correct"]))
        assert row["id"] == record["id"]
        assert row["failures"] == "0"
    assert list(rows[0])[:4] == ["id", "model", "kind", "author"]


def test_both_halves_in_two_commands(folder, capsys):
    assert run(capsys, out="scores.csv")[0] == 0
    assert (
        geobias(
            ["score", "scores.csv", "--value", "f1", "--radius", "500km", "--min-patch-size", "2", "--json", "g.json"]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "latitude `lat`, longitude `lon`, performance `f1`" in out
    assert "40 rows read, 40 scored" in out
    with Path("scores.csv").open(newline="") as file:
        mean = sum(float(row["f1"]) for row in csv.DictReader(file)) / 40
    assert json.loads(Path("g.json").read_text())["scores"]["performance"] == pytest.approx(mean, abs=1e-6)


def test_contrast(folder, capsys):
    status, out, err = run(capsys, "--contrast", f"../{folder.name}_bank.jsonl")
    assert status == 0
    assert all(line.startswith("warning: ") for line in err.splitlines())
    assert "Not looked for" not in out
    first = read()[0]
    assert 0 <= first["generic"] <= 1
    assert {"misattribution", "stereotype"} <= set(first)


def test_the_bank_is_encoded_at_once(folder, capsys, monkeypatch):
    asked = []
    run_model = Encoder._run
    monkeypatch.setattr(
        Encoder, "_run", lambda self, texts, size: asked.append((size, texts)) or run_model(self, texts, size)
    )
    bank = f"../{folder.name}_bank.jsonl"
    assert run(capsys, "--contrast", bank, "--batch", "8")[0] == 0
    with pytest.warns(UserWarning, match="no chain written by a model"):
        texts = Contrast(bank).texts
    assert [found for size, found in asked if found == texts and size > 1] == [texts]
    one_by_one = {text for size, found in asked if size == 1 for text in found}
    assert one_by_one
    assert not one_by_one & set(texts)


def test_faults_that_cannot_be_told(folder, capsys):
    write(folder / "c.jsonl", [{"id": "a", "text": "- Red soil."}])
    write(folder / "r.jsonl", [{"id": "a", "text": "- The soil is red."}])
    status, out, _ = run(capsys, "--contrast", f"../{folder.name}_bank.jsonl")
    assert status == 0
    lines = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert lines["stereotype"] == ["stereotype", "-", "-", "0"]


def test_other_scorers_leave_the_contrast_to_sentences(folder, capsys, monkeypatch):
    monkeypatch.setattr(Settings, "make_judge", lambda self: OneToAllJudge(WordScorer()))
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    options = ("--scorer", "cross-encoder", "--model", "model", "--contrast", f"../{folder.name}_bank.jsonl")
    monkeypatch.setattr(Settings, "make_encoder", lambda self: None)  # MiniLM
    said = "Also with cross-encoder, generic, misattribution, stereotype rest on the similarity of sentences."
    assert said in run(capsys, *options)[1]
    assert "Also with" not in run(capsys, *options[-2:])[1]


def test_a_country_that_is_not_where_it_lies(folder, capsys):
    write(
        folder / "c.jsonl",
        [
            {"id": "a", "text": "- Red soil.", "country": "Kenya", "lat": 48.86, "lon": 2.35},
            {"id": "a", "text": "- Tea.", "country": "Kenya", "lat": 48.86, "lon": 2.35, "model": "m"},
            {"id": "a", "text": "- Tea.", "country": "Germany", "lat": 48.58, "lon": 7.75, "model": "n"},  # Strasbourg
            {"id": "a", "text": "- Tea.", "country": "Kenya", "lat": 0, "lon": -30, "model": "o"},  # at sea
        ],
    )
    write(folder / "r.jsonl", [{"id": "a", "text": "- The soil is red."}])
    status, _, err = run(capsys)
    assert status == 0
    first = "the first: KE for 48.86, 2.35 in FR, at c.jsonl, line 1"
    assert err == f"warning: 2 chains lie outside their country; {first}\n"


def test_key_points(folder, capsys):
    write(folder / "c.jsonl", [{"id": "loc00", "points": ["Red soil along the road and a lighthouse."]}])
    status, out, _ = run(capsys, "--judge", "key-points")
    assert status == 0
    assert "key-points, embedding" in out
    assert "approximate" in out
    clauses = read()[0]["points"][0]["clauses"]
    assert [text for text, _ in clauses] == ["Red soil along the road", "a lighthouse"]
    assert clauses[0][1] == 1.0


def test_a_language_model(folder, capsys):
    model, tokenizer = tiny_chat_model("qwen3")
    model.save_pretrained("model")
    tokenizer.save_pretrained("model")
    write(folder / "c.jsonl", [{"id": "loc00", "points": CLUES[:2]}])
    status, out, _ = run(capsys, "--scorer", "causal-lm", "--model", "./model", "--read", "argmax", "--device", "cpu")
    assert status == 0
    assert "causal-lm (./model)" in out
    assert "approximate" not in out
    record = read()[0]
    assert record["status"] == "failed"  # random weights answer with no label
    assert record["f1"] is None
    assert record["failures"] == {"label mass below min_mass": 8}
    assert "8 points could not be scored: label mass below min_mass." in out
    assert [line.split()[1:3] for line in out.splitlines() if line.startswith("all ")] == [["1", "1"]]


def test_refusals_empty_chains_and_unknown_countries(folder, capsys):
    rows = [
        {"id": "a", "text": "I cannot determine where this image was taken."},
        {"id": "a", "text": "", "model": "empty"},
        {"id": "a", "text": "- Red soil.\n\nAnswer: Kenya", "model": "good"},
    ]
    write(folder / "c.jsonl", rows)
    write(folder / "r.jsonl", [{"id": "a", "text": "- The soil is red."}])
    status, out, _ = run(capsys)
    assert status == 0
    refused, empty, good = read()
    assert (refused["status"], empty["status"], good["status"]) == ("refused", "empty candidate", "scored")
    assert [one["f1"] for one in (refused, empty, good)] == [0.0, 0.0, 1.0]
    assert good["country_correct"] is None
    assert (good["guessed_country"], good["lat"]) == ("KE", None)
    assert "1 chains refused to answer and count as 0." in out
    assert "1 chains have no points and count as 0." in out
    assert "of 0 chains whose true country is known" in out


def test_the_candidate_may_know_the_place(folder, capsys):
    write(folder / "c.jsonl", [{"id": "a", "text": "- Red soil.", "country": "Kenya", "lat": -1.3, "lon": 36.8}])
    write(folder / "r.jsonl", [{"id": "a", "text": "- The soil is red."}])
    assert run(capsys)[0] == 0
    (record,) = read()
    assert (record["country"], record["lat"], record["lon"]) == ("KE", -1.3, 36.8)
    assert (record["guessed_country"], record["country_correct"]) == (None, False)


# interrupted, and resumed


def stop_after(monkeypatch, batches, error=KeyboardInterrupt):
    """Stop the run when this many batches are kept."""
    score, left = module._score, iter(range(batches))

    def stopping(*arguments):
        if next(left, None) is None:
            raise error
        return score(*arguments)

    monkeypatch.setattr(module, "_score", stopping)


@pytest.mark.parametrize("out", ["scores.jsonl", "scores.csv"])
def test_resumed_output_is_equal_to_the_byte(folder, capsys, monkeypatch, out):
    options = ("--batch", "6", "--contrast", f"../{folder.name}_bank.jsonl")
    assert run(capsys, *options, out=out)[0] == 0
    expected = Path(out).read_bytes()
    Path(out).unlink()
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        status, printed, err = run(capsys, *options, out=out)
    assert (status, printed) == (130, "")
    kept = f"12 of 40 chains are kept in {out}.unfinished"
    assert err.splitlines()[-1] == f"error: interrupted; {kept}: the same command again goes on from there"
    assert sorted(os.listdir()) == ["c.jsonl", "r.jsonl", f"{out}.unfinished"]
    scored = []
    score = module._score
    monkeypatch.setattr(module, "_score", lambda batch, *more: scored.append(len(batch)) or score(batch, *more))
    status, printed, _ = run(capsys, *options, out=out)
    assert status == 0
    assert "12 of them scored by an earlier run" in printed
    assert scored == [6, 6, 6, 6, 4]
    assert Path(out).read_bytes() == expected
    assert sorted(os.listdir()) == ["c.jsonl", "r.jsonl", out]


def test_half_a_line_is_done_again(folder, capsys, monkeypatch):
    assert run(capsys, "--batch", "6")[0] == 0
    expected = Path("scores.jsonl").read_bytes()
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        run(capsys, "--batch", "6")
    kept = Path("scores.jsonl.unfinished")
    kept.write_bytes(kept.read_bytes()[:-100])
    status, out, _ = run(capsys, "--batch", "6")
    assert status == 0
    assert "12 of them scored by an earlier run" in out
    assert Path("scores.jsonl").read_bytes() == expected


@pytest.mark.parametrize("change", ["settings", "inputs"])
def test_what_belongs_to_another_run_is_not_taken(folder, capsys, monkeypatch, change):
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        run(capsys, "--batch", "6")
    options = ("--batch", "6")
    if change == "inputs":
        rows = Path("c.jsonl").read_text().splitlines()
        write(folder / "c.jsonl", [rows[0].replace("Wooden", "Steel").replace("Red", "Black"), *rows[1:]])
    else:
        options = (*options, "--judge", "key-points")
    status, out, err = run(capsys, *options)
    assert status == 0
    assert err == "warning: scores.jsonl.unfinished belonged to other inputs or settings and is started over\n"
    assert "by an earlier run" not in out
    assert len(read()) == 40


def test_an_older_output_stays_until_the_new_one_is_whole(folder, capsys, monkeypatch):
    Path("scores.jsonl").write_text("older")
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert run(capsys, "--batch", "6")[0] == 130
    assert Path("scores.jsonl").read_text() == "older"
    assert run(capsys, "--batch", "6")[0] == 0
    assert len(read()) == 40


def test_interrupted_before_anything(folder, capsys, monkeypatch):
    stop_after(monkeypatch, 0)
    status, _, err = run(capsys)
    assert (status, err) == (130, "error: interrupted\n")
    assert sorted(os.listdir()) == ["c.jsonl", "r.jsonl"]


def test_a_failure_in_the_middle_says_what_is_kept(folder, capsys, monkeypatch):
    stop_after(monkeypatch, 1, OSError("no space\nleft"))
    status, _, err = run(capsys, "--batch", "6")
    assert status == 2
    assert err.startswith("error: no space left; 6 of 40 chains are kept in ")


@pytest.mark.parametrize(
    ("number", "status", "text"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "told to end")]
)
def test_signals(folder, number, status, text):
    command = [sys.executable, "-m", "judges.cli", "score", "--candidates", "c.jsonl", "--references", "r.jsonl"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--out", "scores.jsonl", "--batch", "1"], env=environment, stderr=subprocess.PIPE, text=True
    )
    kept = folder / "scores.jsonl.unfinished"
    deadline = time.monotonic() + 300
    while not (kept.exists() and kept.read_bytes().count(b"\n") > 3) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(number)
    _, err = process.communicate(timeout=300)
    if process.returncode == 0:
        pytest.skip("it was done before the signal came")
    assert process.returncode == status
    assert err.startswith(f"error: {text}; ")
    assert err.count("\n") == 1  # no bars
    assert "goes on from there" in err
    assert not (folder / "scores.jsonl").exists()


# bounds


def test_batches_bound_what_is_scored_at_a_time(folder, capsys, monkeypatch):
    sizes = []
    scorer = WordScorer()
    monkeypatch.setattr(Settings, "make_judge", lambda self: OneToAllJudge(scorer))
    score = OneToAllJudge.score
    monkeypatch.setattr(OneToAllJudge, "score", lambda self, a, b: sizes.append(len(a)) or score(self, a, b))
    assert run(capsys, "--batch", "16")[0] == 0
    assert sizes == [16, 16, 8]
    assert len(scorer.calls) == 3


def test_every_batch_starts_without_memories(folder, capsys, monkeypatch):
    """What was read before would change the last digits, and with them the bytes of a resumed run."""
    kept = []
    mark = OneToAllJudge.mark

    def counting(self, chains):
        kept.append((len(self.scorer._memo), len(self.encoder._memo)))
        return mark(self, chains)

    monkeypatch.setattr(OneToAllJudge, "mark", counting)
    assert run(capsys, "--batch", "16")[0] == 0
    assert kept[::2] == [(0, 0)] * 3  # the command marks, then the judge
    assert kept[1][1] > 0


def test_folders_of_georc(tmp_path, capsys, monkeypatch):
    challenge = tmp_path / "georc" / "asia"
    challenge.mkdir(parents=True)
    expert = "Round 1\nReasoning\nRed soil.\nTea fields.\nConclusion\nKenya\n"
    (challenge / "Human_Chain_3.txt").write_text(expert)
    (challenge / "candidate_reasoning_chain_small_1.txt").write_text("- Red soil.\n\nAnswer: Kenya")
    (challenge / "asia_rounds_metadata.json").write_text('[{"lat": -1.29, "lng": 36.82}]')
    monkeypatch.chdir(tmp_path)
    command = ["score", "--candidates", "georc", "--references", "georc", "--out", "s.jsonl"]
    assert main(command) == 0
    (record,) = read("s.jsonl")
    assert (record["id"], record["model"], record["country"], record["lat"]) == ("asia/1", "small", "KE", -1.29)
    assert (record["precision"], record["recall"], record["country_correct"]) == (1.0, 0.5, True)
    (challenge / "Human_Chain_3.txt").write_text("Red soil.")
    assert main(command) == 2
    assert 'Expected lines such as "Round 1"' in capsys.readouterr().err
