"""Records: both formats and the folders of GeoRC; whatever is wrong is named with its file and line."""

import gzip
import json

import pytest

from judges.georc import read_georc
from judges.records import join, read_records

_DAMAGED = gzip.compress(b"x" * 1000, mtime=0)[:10] + b"\xff" * 40
GOOD = {"id": "a", "text": "- Red soil.\n\nAnswer: Kenya", "lat": -1.29, "lon": 36.82, "model": "m"}


def jsonl(path, *rows):
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n", encoding="utf-8"
    )
    return path


def test_jsonl(tmp_path):
    given = {"id": "b", "points": ["Red. Soil", "Tea"], "conclusion": "Kenya", "country": "kenyan", "author": "x"}
    given |= {"image": "b.png", "kind": "expert", "extra": 1, "model": None}
    records, problems = read_records(jsonl(tmp_path / "c.jsonl", GOOD, "", given))
    assert problems == []
    first, second = records
    assert (first.id, first.country, first.lat, first.lon, first.model) == ("a", "KE", -1.29, 36.82, "m")
    assert [point.text for point in first.chain.points] == ["Red soil."]
    assert first.chain.conclusion.country == "KE"
    assert [point.text for point in second.chain.points] == ["Red. Soil", "Tea"]
    assert (second.country, second.author, second.kind, second.image, second.lat) == (
        "KE",
        "x",
        "expert",
        "b.png",
        None,
    )
    assert second.line == f"{tmp_path / 'c.jsonl'}, line 3"


def test_bom_gzip_and_csv_say_the_same(tmp_path):
    plain = jsonl(tmp_path / "c.jsonl", GOOD)
    (tmp_path / "bom.jsonl").write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    cells = '\ufeffid,text,lat,lon,model,note\r\n"a","- Red soil.\n\nAnswer: Kenya",-1.29,36.82,m,\r\n\r\n'
    (tmp_path / "c.csv").write_text(cells, encoding="utf-8", newline="")
    (tmp_path / "c.CSV.gz").write_bytes(gzip.compress(cells.encode()))
    expected = read_records(plain)[0][0]
    for name in ("bom.jsonl", "c.jsonl.gz", "c.csv", "c.CSV.gz"):
        (record,), problems = read_records(tmp_path / name)
        assert problems == []
        assert (record.id, record.chain, record.country, record.lat) == (
            expected.id,
            expected.chain,
            "KE",
            expected.lat,
        )
    assert record.line.endswith("line 4")  # where the row ends


def test_points_in_a_cell(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(
        'id,points,conclusion\na,"[""Red, soil"", ""Tea""]",Kenya\nb,"Red, soil\nTea",Kenya\n', encoding="utf-8"
    )
    one, two = read_records(path)[0]
    assert (
        [point.text for point in one.chain.points] == ["Red, soil", "Tea"] == [point.text for point in two.chain.points]
    )
    assert one.chain.conclusion.country == "KE"


BAD = [
    ('{"id": "a", ', "Expected one JSON object per line, but got .*, at .*c.jsonl, line 2"),
    ("[1]", "Expected one JSON object per line, but got list"),
    ("[" * 100_000, "Expected one JSON object per line, but got "),
    ('{"id": "b", "lat": ' + "1" * 5000 + "}", "Expected one JSON object per line, but got a number or list"),
    ({"text": "x"}, "Expected an `id`, but got none"),
    ({"id": " ", "text": "x"}, "Expected an `id`, but got none"),
    ({"id": 3, "text": "x"}, "Expected `id` to be a text, but got 3"),
    ({"id": "b"}, "Expected a `text`, or `points` and a `conclusion`, but got neither"),
    ({"id": "b", "text": ["x"]}, "Expected `text` to be a text, but got"),
    ({"id": "b", "points": "x"}, "Expected `points` to be a list of texts, but got 'x'"),
    ({"id": "b", "points": [1]}, "Expected `points` to be a list of texts"),
    ({"id": "b", "text": "x", "lat": 91}, r"Expected `lat` in degrees within \[-90, 90\], but got 91"),
    ({"id": "b", "text": "x", "lat": "-91"}, r"Expected `lat` in degrees within \[-90, 90\], but got '-91'"),
    ({"id": "b", "text": "x", "lon": "east"}, r"Expected `lon` in degrees within \[-360, 360\], but got 'east'"),
    ({"id": "b", "text": "x", "lat": True}, "Expected `lat` in degrees"),
    ({"id": "b", "text": "x", "lat": float("nan")}, "Expected `lat` in degrees"),
    ({"id": "b", "text": "x", "lat": [1]}, "Expected `lat` in degrees"),
    ({"id": "b", "text": "x", "country": "Atlantis"}, "Expected `country` to be a country, but got 'Atlantis'"),
    ('{"id": "b", "text": "x", "lat": 1, "lon": 1' + "0" * 400 + "}", r"Expected `lon` in degrees within .* got 10000"),
    ({"id": "b", "text": "x", "lat": "1_0", "lon": 1}, "Expected `lat` in degrees within .* but got '1_0'"),
    ({"id": "b", "text": "x", "lat": 1}, "Expected `lat` and `lon` together, but got `lat` without `lon`"),
    ({"id": "b", "text": "x", "lon": 1, "country": "UG"}, "together, but got `lon` without `lat`"),
    ({"id": "b", "text": "- Red \ud800 soil."}, r"Expected `text` in whole characters, .* surrogate pair .'.ud800'."),
    ({"id": "b", "points": ["Tea", "\udfff"]}, r"Expected `points` in whole characters, .* .'.udfff'."),
    ({"id": "b", "points": ["Tea"], "conclusion": "\ud800"}, "Expected `conclusion` in whole characters"),
    ({"id": "b", "text": "x", "model": "\ud800"}, "Expected `model` in whole characters"),
    ({"id": "b\ud800", "text": "x"}, "Expected `id` in whole characters"),
    ({"id": "b", "text": "x", "points": ["y"]}, "Expected a `text`, or .* but got `text` and another `points`"),
    ({"id": "b", "text": "x", "points": []}, "but got `text` and another `points`"),
    ({"id": "b", "text": "x", "conclusion": "Kenya"}, "but got `text` and another `conclusion`"),
    ('{"id": "b", "text": "x", "text": "y"}', "Expected every field once, but got 'text' twice"),
    ("{", r"Expected one JSON object per line, but got .* .one that goes over several lines.."),
    (GOOD, "Expected one chain for each `id` and `model`, but got 'a' of 'm' again .first at .*line 1."),
]


@pytest.mark.parametrize(("row", "match"), BAD)
def test_bad_lines(tmp_path, row, match):
    path = jsonl(tmp_path / "c.jsonl", GOOD, row, {**GOOD, "id": "z"})
    with pytest.raises(ValueError, match=match) as caught:
        read_records(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(f", at {path}, line 2.")
    records, problems = read_records(path, skip_bad=True)
    assert [record.id for record in records] == ["a", "z"]
    assert problems == [str(caught.value)]


def test_fields_beside_others_that_say_nothing_else(tmp_path):
    rows = [
        {"id": "a", "text": "- Tea", "points": None, "conclusion": " "},
        {"id": "b", "text": "", "points": ["Tea"], "conclusion": "Kenya"},
        {"id": "c", "text": "", "conclusion": "Kenya"},
        {
            "id": "d",
            "text": "- Tea\n- Palms, so Kenya",
            "points": ["Tea"],
            "conclusion": "Kenya",
        },  # where they are from
    ]
    chains = [record.chain for record in read_records(jsonl(tmp_path / "c.jsonl", *rows))[0]]
    assert [[point.text for point in chain.points] for chain in chains] == [["Tea"], ["Tea"], [], ["Tea"]]
    assert [chain.conclusion and chain.conclusion.country for chain in chains] == [None, "KE", "KE", "KE"]


def test_lines_of_csv_may_end_in_cr_alone(tmp_path):
    path = tmp_path / "c.csv"
    path.write_bytes(b'id,text\ra,"- Red soil\n- Tea"\rb,- Palms\r')
    records, problems = read_records(path)
    assert ([record.id for record in records], problems) == (["a", "b"], [])
    assert [point.text for point in records[0].chain.points] == ["Red soil", "Tea"]


def test_one_id_may_have_chains_of_several_authors_and_kinds(tmp_path):
    rows = [{**GOOD, "author": "x"}, {**GOOD, "author": "y"}, {**GOOD, "kind": "random"}]
    assert len(read_records(jsonl(tmp_path / "c.jsonl", *rows))[0]) == 3


def test_references(tmp_path):
    path = jsonl(tmp_path / "r.jsonl", GOOD, GOOD, {"id": "b", "text": "Answer: Kenya"})
    with pytest.raises(
        ValueError, match=r"Expected points in every reference, but got none for 'b', at .*r.jsonl, line 3"
    ):
        read_records(path, references=True)
    records, problems = read_records(path, references=True, skip_bad=True)
    assert (len(records), len(problems)) == (2, 1)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("c.txt", b"", r"Expected chains in a file ending in .jsonl or .csv .also .gz., but got .*c.txt"),
        ("c.csv", b"", r"Expected a column `id` in the header, but got nothing in .*c.csv"),
        ("c.csv", b"name,text\n", r"Expected a column `id` in the header, but got `name`, `text` in .*c.csv"),
        ("c.csv", b"id,text\na,b,c\n", r"Expected 2 fields as in the header, but got 3, at .*c.csv, line 2"),
        ("c.csv", b"id,text\na,\n", None),
        (
            "c.csv",
            b'id,text\nw,- Red\nx0,"- A unclosed\nx1,- B\n',
            r"Expected closed quotes, .* one that is never closed, in the row that starts at .*c.csv, line 3\.$",
        ),
        (
            "c.csv",
            b'id,text\nx0,"- A unclosed\nx1,"- B"\n',
            r"Expected closed quotes, .* starts at .*c.csv, line 2\.$",
        ),
        (
            "c.csv",
            b"id,text,text\na,b,c\n",
            r"Expected every column once in the header, but got `text` twice in .*c.csv",
        ),
        ("c.csv", b"id,text\na,\xff\n", r"Expected text in UTF-8, but got other bytes, at .*c.csv, line 2"),
        ("c.jsonl", b'{"id": "\xff"}\n', r"Expected text in UTF-8, but got other bytes, at .*c.jsonl, line 1"),
        (
            "c.csv",
            b'id,points\na,"[1"\n',
            r"Expected `points` to be a JSON list of texts, or texts one per line, but got",
        ),
        ("c.jsonl.gz", _DAMAGED, r"Expected readable chains, but got this from .*c.jsonl.gz"),
        ("c.jsonl.gz", b"no gzip", r"Expected readable chains, but got this from .*c.jsonl.gz"),
    ],
)
def test_bad_files(tmp_path, name, content, match):
    path = tmp_path / name
    path.write_bytes(content)
    if match is None:
        assert read_records(path)[0][0].chain.points == ()  # an empty answer is one
        return
    with pytest.raises(ValueError, match=match):
        read_records(path)


def test_no_file(tmp_path):
    with pytest.raises(ValueError, match="Expected chains in a file, but got no file"):
        read_records(tmp_path / "c.jsonl")


def test_join(tmp_path):
    candidates = read_records(jsonl(tmp_path / "c.jsonl", {**GOOD, "id": "b"}, GOOD, {**GOOD, "id": "q"}))[0]
    references = read_records(jsonl(tmp_path / "r.jsonl", GOOD, {**GOOD, "id": "b"}, GOOD), references=True)[0]
    assert [(c.id, [r.line[-1] for r in rs]) for c, rs in join(candidates[:2], references)] == [
        ("b", ["2"]),
        ("a", ["1", "3"]),
    ]
    with pytest.raises(
        ValueError, match=r"Expected a reference for every candidate, but got none for 'q', at .*line 3"
    ):
        join(candidates, references)
    problems = []
    assert len(join(candidates, references, problems=problems)) == 2
    assert len(problems) == 1


EXPERT = """Round 1
Reasoning
Red soil. Tea.
Drives on the left
Conclusion
Kenya

Round 2:
Reasoning:
Palms
Conclusion:
Peru
Lima
"""


@pytest.fixture
def georc(tmp_path):
    folder = tmp_path / "asia"
    folder.mkdir()
    (folder / "Human_Chain_3.txt").write_text(EXPERT, encoding="utf-8")
    (folder / "candidate_reasoning_chain_gpt_4.1_2.txt").write_text("Tall palms.\nAnswer: Peru", encoding="utf-8")
    (folder / "asia_2.png").touch()
    return folder


def test_georc(georc):
    (georc / "Human_Expert_1.txt").write_text("\ufeffRound 2\nReasoning\nCoast\nConclusion\nPeru", encoding="utf-8")
    (georc / "asia_rounds_metadata.json").write_text('[{"lat": "-1.29", "lng": 36.82}, {"streakLocationCode": "pe"}]')
    (georc / "notes.txt").write_text("not a chain")
    for folder in (georc, georc.parent):
        candidates, references = read_georc(folder)
        assert [(r.id, r.author, r.country, r.kind) for r in references] == [
            ("asia/1", "3", "KE", "expert"),
            ("asia/2", "3", "PE", "expert"),
            ("asia/2", "1", "PE", "expert"),
        ]
    first, second, _ = references
    assert [point.text for point in first.chain.points] == ["Red soil. Tea.", "Drives on the left"]
    assert (first.lat, first.image, first.line) == (-1.29, None, f"{georc / 'Human_Chain_3.txt'}, line 1")
    assert second.chain.conclusion.text == "Peru Lima"
    assert second.line.endswith("line 8")
    (candidate,) = candidates
    assert (candidate.id, candidate.model, candidate.image) == ("asia/2", "gpt_4.1", str(georc / "asia_2.png"))
    assert [(c.id, len(rs)) for c, rs in join(candidates, references)] == [("asia/2", 2)]


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("Human_Chain_1.txt", b"Red soil", r'Expected lines such as "Round 1" .*Human_Chain_1.txt'),
        (
            "Human_Chain_1.txt",
            b"Round 1\nConclusion\nPeru",
            r"Expected points in every reference, but got none at .*line 1",
        ),
        (
            "Human_Chain_1.txt",
            b"Round 1\na\nRound 1\nb",
            r"Expected every round once, but got round 1 again, at .*line 3",
        ),
        ("Human_Chain_1.txt", b"Round 1\n\xff", r"Expected text in UTF-8, but got other bytes in .*Human_Chain_1.txt"),
        ("asia_rounds_metadata.json", b"3", r"Expected a JSON list with `lat` and `lng` of each round"),
        ("asia_rounds_metadata.json", b"{", r"Expected a JSON list with `lat` and `lng` of each round"),
        (
            "asia_rounds_metadata.json",
            b'[{"lat": 1, "lng": 2}, {"lat": [1], "lng": 2}]',
            r"Expected `lat` in degrees within .* but got .1., at .*asia_rounds_metadata.json, round 2\.",
        ),
        (
            "asia_rounds_metadata.json",
            b'[{"lat": 91, "lng": 2}]',
            r"Expected `lat` in degrees .* got 91, at .*asia_rounds_metadata.json, round 1\.",
        ),
        (
            "asia_rounds_metadata.json",
            b'[{"lat": 1}]',
            r"Expected `lat` and `lng` together, but got `lat` without `lng`, at .*, round 1\.",
        ),
        (
            "candidate_reasoning_chain_\udcff_1.txt",
            b"Palms",
            r"Expected names of files and folders in UTF-8, but got .*udcff",
        ),
    ],
)
def test_bad_georc(georc, name, content, match):
    (georc / name).write_bytes(content)
    with pytest.raises(ValueError, match=match):
        read_georc(georc)


def test_no_georc(tmp_path):
    with pytest.raises(
        ValueError, match=r"Expected chains of GeoRC \(such as Human_Chain_3.txt in a folder\), but got none"
    ):
        read_georc(tmp_path)
    with pytest.raises(ValueError, match="Expected the folder of GeoRC, but got no folder"):
        read_georc(tmp_path / "none")
