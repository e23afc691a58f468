import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import judges
from judges import glossary
from judges.embeddings import Encoder
from judges.glossary import gloss, language, says_another, understand, wider
from tests.reference import glossary as slow

FOLDER = Path(judges.__file__).parent / "data" / "glossary"
LANGUAGES = sorted(path.stem for path in FOLDER.glob("??.tsv"))
ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "statements.jsonl").read_text(encoding="utf-8").splitlines()
]


def lines(name):
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


CONCEPTS = {row[0]: row[1:] for row in lines("concepts.tsv")}
OF_ALL = {concept for concept in CONCEPTS if not concept.startswith("own.")}


def test_twenty_two_languages():
    assert len(LANGUAGES) == 22
    assert len(OF_ALL) == 500


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_table_is_well_formed(code):
    table = lines(f"{code}.tsv")
    ids = [row[0] for row in table]
    assert len(ids) == len(set(ids))
    assert set(ids) >= OF_ALL, "a concept is missing"
    assert all(concept in CONCEPTS or re.fullmatch(r"own\.\w+", concept) for concept in ids)
    for _, listed in table:
        terms = listed.split(", ")
        assert len(terms) == len(set(terms))
        for term in terms:
            assert term == glossary._normal(term.strip()) != ""
            first, *_ = re.split(r"[\W_]+(?<!\*)", term)
            assert "*" not in first or len(first) > (2 if code == "ko" else 4), term
            assert "*" not in re.sub(r"\w\*(?!\w)", "", term), term


def test_concepts_that_are_near_exist_and_are_others():
    assert all(wider(concept) <= set(CONCEPTS) - {concept} for concept in CONCEPTS)
    assert wider("veg.birch") >= {"veg.tree", "veg.deciduous"}
    assert "veg.birch" not in wider("veg.tree")


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code not in ("ja", "zh")])
def test_words_as_by_hand(code):
    texts = [row["text"] for row in ROWS if row["language"] == code][:6]
    texts += ["".join(listed.split(", ")[-1]).replace("*", "") for _, listed in lines(f"{code}.tsv")[1:40:8]]
    for text in texts:
        text = glossary._normal(text)
        assert [(word.text, set(word.concepts)) for word in understand(text, code)] == slow.understand(text, code)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("The poles are made of timber.", "en", "utility pole wood"),
        ("Left-hand traffic", "en", "left traffic"),
        ("Umlaufende Holzbalkone", "de", "surround balcony wood"),
        ("Rote Erde", "de", "red soil"),
        ("Деревянные столбы", "ru", "wood utility pole"),
        ("Ahşap direkler", "tr", "wood utility pole"),
        ("车辆靠左行驶", "zh", "car traffic left"),
        ("Das Schild ist nass.", None, "das schild ist nass"),
        ("", "en", ""),
    ],
)
def test_glosses(text, code, said):
    assert sorted(gloss(understand(text, code)).split()) == sorted(said.split())


@pytest.mark.parametrize(
    ("code", "further", "first"),
    [
        ("en", "The board too is blue.", "The board is blue."),
        ("de", "Auch der Mast ist hölzern.", "Der Mast ist hölzern."),
        ("ru", "Соседний столб тоже деревянный.", "Столб деревянный."),
        ("zh", "另一块牌子是红色的", "牌子是红色的"),
        ("ja", "隣の店も赤い", "店は赤い"),
        (None, "another", "another"),
    ],
)
def test_a_further_thing(code, further, first):
    assert says_another(further, code) is (code is not None)
    assert not says_another(first, code)
    assert "another" not in {concept for word in understand(further, code) for concept in word.concepts}


def test_languages_are_told_from_their_words():
    told = [row for row in ROWS if row["language"] in LANGUAGES and len(row["text"]) > 40]
    right = [language([row["text"]]) == row["language"] for row in told[::7]]
    assert sum(right) / len(right) > 0.97
    assert language(["招牌写着「歯科」。"]) == "zh"  # a quote is no language
    assert language([]) is language(["?!", "..."]) is None


@pytest.mark.parametrize("text", ["\ud83d half", "*", "\n\t", "A" * 5000, "ß" * 50, "holz" * 20_000, "①②", "ﬁne"])
def test_any_text(text):
    for code in (None, "en", "de", "ja", "ar"):
        if code != "ar":
            assert all(word.text for word in understand(text, code))


def test_texts_of_other_languages_come_closer():
    pairs = [
        ("Деревянные столбы вдоль дороги", "Wooden poles along the road"),
        ("Kırmızı toprak ve muz ağaçları", "Red soil and banana trees"),
        ("Casas de adobe con techo de paja", "Adobe houses with thatched roofs"),
        ("白い壁と黒い瓦屋根の家", "Houses with white walls and black tiled roofs"),
    ]
    encoder = Encoder()
    glosses = [gloss(understand(text, language([text]))) for text, _ in pairs]
    english = [text for _, text in pairs]
    plain = encoder.similarity([text for text, _ in pairs], english).diagonal()
    assert (encoder.similarity(glosses, english).diagonal() > plain + 0.1).all()


def test_nothing_is_read_at_import():
    code = "import judges.glossary as g; print(g._glossary.cache_info().currsize)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "0"
