"""Files that a long run keeps beside its output, and outputs that appear whole."""

import pytest

from judges.unfinished import Unfinished, replacing


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


def test_unfinished_is_one_runs_alone(tmp_path):
    out = tmp_path / "s.csv"
    with Unfinished(out, "key") as first:
        first.add([{"id": "a"}])
        with pytest.raises(ValueError, match=r"Expected one run at a time .* another is at work on .*s.csv"):
            Unfinished(out, "other")
        first.add([{"id": "b"}])
        assert list(first.records()) == [{"id": "a"}, {"id": "b"}]
    with Unfinished(out, "key") as again:
        assert again.batches == 2
        again.remove()
        with Unfinished(out, "other") as later:
            later.add([])
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv.unfinished"]  # of the later one


def test_unfinished_without_a_batch_goes(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), Unfinished(tmp_path / "s.csv", "key"):
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []


def test_unfinished_of_another_key(tmp_path):
    with Unfinished(tmp_path / "s.csv", "one") as first:
        first.add([{"id": "a"}])
        assert (first.batches, first.replaced) == (1, False)
    with Unfinished(tmp_path / "s.csv", "other") as second:
        assert (second.batches, second.replaced, list(second.records())) == (0, True, [])
        second.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named(tmp_path):
    with Unfinished(tmp_path / "s.csv", "key") as first:
        first.add([{"id": "a"}])
    path = tmp_path / "s.csv.unfinished"
    path.write_bytes(path.read_bytes() + b"[{]\n")
    with (
        Unfinished(tmp_path / "s.csv", "key") as again,
        pytest.raises(ValueError, match=r"Expected batches .*s.csv.unfinished, line 3: delete this file"),
    ):
        list(again.records())
