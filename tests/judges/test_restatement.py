import json
from pathlib import Path

import pytest

from benchmarks import restatements as fit
from judges import restatement
from judges.chains import ReasoningChain, mark_restated
from judges.embeddings import Encoder
from judges.evidence import specifics, without_quotes
from judges.glossary import language, understand
from judges.places import mask_places
from judges.restatement import FEATURES, SURE, Said, adds_no_word, compared, contrasts, restates
from tests.reference import glossary as slow

DATA = Path(__file__).parent / "data"
PAIRS = [json.loads(line) for line in (DATA / "restatements.jsonl").read_text(encoding="utf-8").splitlines()]


def both(later, earlier):
    spoken = language([earlier, later])
    return Said.of(later, spoken), Said.of(earlier, spoken)


@pytest.mark.parametrize("row", [row for row in PAIRS if row["language"] in ("en", "de", "ru")][::9], ids=str)
def test_the_formula(row):
    later, earlier = both(row["later"], row["earlier"])
    x = dict(zip(FEATURES, compared(later, earlier, 0.4, 0.6), strict=True))
    words = [[(word.text, set(word.concepts)) for word in said.words] for said in (later, earlier)]
    plain = [mask_places(without_quotes(said.text), " ").casefold() for said in (later, earlier)]
    letters = slow.letters(*plain)
    assert x["letters"] == pytest.approx(letters, rel=1e-9)
    names = later.specifics | earlier.specifics
    assert x["names"] == slow.names_shared((later.text, earlier.text), names)
    read = slow.latin(later.text) and slow.latin(earlier.text)
    cosines = (0.4, 0.6) if read or not later.gloss or not earlier.gloss else (0.6, 0.6)
    p = slow.probability(*words, cosines, x["quoted"], x["contradicted"], letters, x["another"], x["names"])
    apart = slow.swaps(later.text, earlier.text, later.words) or (x["another"] and adds_no_word(later, earlier))
    expected = 0.0 if x["shared"] == 0 or apart else p
    assert restates(later, earlier, 0.4, 0.6) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("earlier", "later", "again"),
    [
        ("Houses on stilts.", "Dwellings here are raised off the ground by piles.", True),
        ("Poles with a transformer", "Utility poles", True),
        ("Utility poles", "Poles with a transformer", False),
        ("Eucalyptus trees line the road.", "The road is lined with trees.", True),  # less exactly
        ("There are trees.", "There are eucalyptus trees.", False),
        ("Cars drive on the left.", "Traffic keeps right.", False),
        ("A minibus with a yellow stripe", "It drives on the left.", False),  # a side of its own
        ("Auf dem Wegweiser steht Graz.", "Auf dem Wegweiser steht Maribor.", False),
        ("车辆靠右行驶。", "车辆靠左行驶。", False),
        ("A sign says 'Nasi'", "A sign says 'Mie'", False),
        ("Terra vermelha na beira da estrada.", "O solo do acostamento é avermelhado.", True),
        ("Die Leitpfosten tragen eine schwarze Kappe.", "Die Leitpfosten haben eine schwarze Kappe.", True),
        ("Words on the stores are in Castilian", "They are written in Spanish", True),  # languages are no places
        ("The lettering is in Lao and French.", "The lettering is in English.", False),
        ("The shop has Spanish letters.", "Portuguese is the language of the letters.", False),
        ("Название написано по-казахски.", "Надпись на казахском", True),
        ("White plates and red soil.", "White plates, typical of Kenya.", True),  # a country is nothing to be seen
        ("Signs to Nairobi", "Signs to Nakuru", False),
        ("Fifty steps lead up to it.", "Eighty steps lead up to it.", False),
        ("Les bornes sont de couleur rouge.", "Des bornes rouges", True),
        ("Biển hiệu bằng tiếng Việt.", "Biển hiệu bằng tiếng Hàn.", False),  # words that start alike mean two languages
        ("Столбы деревянные.", "ДЕРЕВЯННЫЕ СТОЛБЫ.", True),
        ("A road sign.", "Another road sign.", False),
        ("路牌。", "另一路牌。", False),
        ("...", "...", False),
        ("", "", False),
    ],
)
def test_what_is_said_again(earlier, later, again):
    said, encoder = both(later, earlier), Encoder()
    cosine = encoder.similarity([said[0].evidence], [said[1].evidence])
    of_glosses = encoder.similarity([said[0].gloss], [said[1].gloss])
    assert (restates(*said, float(cosine), float(of_glosses)) >= SURE) is again


def test_more_of_the_same_is_likelier_a_repetition():
    earlier = "Low white houses with blue shutters stand behind the dyke."
    said = [both(later, earlier) for later in ("Shutters, red brick", "Blue shutters, red brick", "Snowy mountains")]
    p = [restates(*pair, 0.5, 0.5) for pair in said]
    assert p[1] > p[0] > p[2] == 0
    assert restates(*said[0], 0.9, 0.9) > p[0] > restates(*said[0], 0.1, 0.1)
    quoted = both("Shutters, red brick, 'Boulangerie'", earlier)
    assert restates(*quoted, 0.5, 0.5) < p[0]


@pytest.mark.parametrize(
    ("text", "latin"),
    [
        ("Rote Erde, đường, Straße", True),
        ("The sign says 'ПЕКАРА' → 12 m²", True),
        ("Ζώνη", False),
        ("На табличке SRB", False),
        ("山上有雪", False),
        ("!", True),
    ],
)
def test_letters_that_the_encoder_reads(text, latin):
    said = Said.of(text, None)
    assert said.latin is slow.latin(text) is latin


def test_the_cosine_of_other_letters_tells_nothing():
    later, earlier = both("На холме стоит белая церковь.", "На холме растёт лес.")
    assert restates(later, earlier, 0.95, 0.4) == restates(later, earlier, 0.1, 0.4)
    later, earlier = both("A white church stands on the hill.", "A forest grows on the hill.")
    assert restates(later, earlier, 0.95, 0.4) > restates(later, earlier, 0.1, 0.4)


def test_a_further_thing_is_no_repetition():
    earlier = "A carved pillar with a small roof stands at the field edge."
    for one, further in (
        (
            "A carved pillar is under a roof, with a pensive Christ",
            "Another carved pillar is under a roof, with a pensive Christ",
        ),
        ("This pillar is carved and shows a saint", "The next pillar is carved and shows a saint"),
    ):
        p, q = (restates(*both(later, earlier), 0.5, 0.5) for later in (one, further))
        assert q < p - 0.05


@pytest.mark.parametrize(
    ("earlier", "later", "swapped"),
    [
        ("Signs in Thai", "Signs in Khmer", True),
        ("Spruce", "Larch", True),
        ("招牌上是繁体字。", "招牌上是简体字。", True),
        ("道路標識の数字はキロメートルだ。", "道路標識の数字はマイルだ。", True),
        ("A white plate at the front", "A white plate at the rear", True),
        ("A white plate at the front", "At the rear a white plate", False),
        ("The sign is yellow.", "A sign is yellow.", False),  # not a word that says something
        ("Red roofs", "A red roof", False),
        ("Red soil", "red soil!", False),
        ("Poles as in Kenya", "Poles as in Uganda", False),  # places tell nothing
        ("", "Larch", False),
    ],
)
def test_one_word_in_the_place_of_another(earlier, later, swapped):
    said = both(later, earlier)
    assert contrasts(*said) is slow.swaps(later, earlier, said[0].words) is swapped
    assert restates(*said, 1.0, 1.0) == 0 or not swapped


def test_names_in_both():
    earlier = "A long jeepney with 'Sta. Rosa - Calamba' painted on its side"
    named = "The route lettered on this bus is Sta. Rosa - Calamba"
    x, y = (dict(zip(FEATURES, compared(*both(later, earlier), 0.4, 0.4), strict=True)) for later in (named, "A bus"))
    assert x["names"] == 1
    assert y["names"] == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Номера Казахстана, код 02 и буквы КЗ", {"02", "кз"}),
        ("번호판은 흰색이다", set()),
        ("ΚΤΕΛ στο λεωφορείο", {"κτελ"}),
        ("أرض حمراء", set()),
        ("国道3号", {"3"}),
        ("車牌號是AB。", {"ab"}),
        ("牌子写着《药店》。", {"药店"}),
        ("ДЕРЕВЯННЫЕ СТОЛБЫ, КОД 02", {"02"}),  # all in capitals
        ("Step 5 – a wall", set()),
        ("第三步,一面墙", set()),
        ("Route 66 - 2 lanes", {"66", "2"}),
        ("Road V, a T-junction, the road ４ and then I see 'X'", {"v", "4", "x"}),
        ("İZM 35, A4", {"i̇zm", "35", "a4"}),
        ("A sign says «Ұн» and 'Nasi'", {"ұн", "nasi"}),
    ],
)
def test_specifics(text, found):
    assert specifics(text) == found


def test_in_six_languages():
    encoder = Encoder()
    chains = [
        ["Wooden bell tower with shingled onion cap", "A blue van", "The belfry is of timber with a bulbous roof"],
        ["Les volets des maisons basses sont bleus.", "Marais salants", "De petites maisons aux contrevents bleus."],
        ["Die Masten sind aus Beton.", "Rapsfelder", "Die Strommasten bestehen aus Zement."],
        ["Вдоль дороги растут берёзы.", "Синий забор", "У обочины стоят берёзы."],
        ["Yolun kenarında zeytin ağaçları var.", "Sarı plaka", "Yol boyunca zeytinlik uzanıyor."],
        ["道の両側に水田が広がる。", "青い屋根の家", "道路沿いは田んぼである。"],
    ]
    for texts in chains:
        marked = mark_restated(ReasoningChain.of(texts), lambda a, b: encoder.similarity(a, b).numpy())
        assert [point.restated for point in marked.points] == [False, False, True], texts


def test_the_model_is_that_of_the_statements():
    texts = [mask_places(row["text"], " ") for row in fit.rows(fit.STATEMENTS)]
    rare = restatement.rarities([understand(text, language([text])) for text in texts])
    assert restatement._model()["rarity"] == {concept: round(value, 3) for concept, value in rare.items()}
    assert len(restatement._model()["weights"]) == len(FEATURES)


def test_pairs_that_it_was_fitted_to():
    encoder = Encoder()
    right = []
    for row in PAIRS[::4]:
        later, earlier = both(row["later"], row["earlier"])
        texts = [later.evidence, earlier.evidence, later.gloss, earlier.gloss]
        cosine = encoder.similarity(texts, texts)
        p = restates(later, earlier, float(cosine[0, 1]), float(cosine[2, 3]))
        right.append((p >= restatement.SURE) == row["restated"])
    assert sum(right) / len(right) > 0.75


def test_numbers_of_all_kinds():
    encoder = Encoder()
    texts = [
        "Poles ① are here.",
        "Density of 10³ trees.",
        "Poles ② are here.",
        f"Number {'1' * 5000}",
        "Wooden poles.¹",
    ]
    marked = mark_restated(ReasoningChain.of(texts), lambda a, b: encoder.similarity(a, b).numpy())
    assert len(marked.points) == len(texts)


def test_equal_in_any_company():
    pairs = [both(row["later"], row["earlier"]) for row in PAIRS[:40]]
    once = [restates(*pair, 0.4, 0.5) for pair in pairs]
    assert [restates(*pair, 0.4, 0.5) for pair in reversed(pairs)] == once[::-1]


def test_a_language_of_no_glossary_is_not_all_alike():
    texts = ["मिट्टी गहरी लाल है।", "लकड़ी के खंभे हैं।", "सूरजमुखी के खेत दिखते हैं।", "मिट्टी गहरी लाल है"]
    encoder = Encoder()
    marked = mark_restated(ReasoningChain.of(texts), lambda a, b: encoder.similarity(a, b).numpy())
    assert [point.restated for point in marked.points] == [False, False, False, True]
