"""What a chain concludes, and which sentence that is."""

import pytest

from judges import parse_chain
from judges.json_answers import json_fragments
from tests.judges.test_chains import concluded, said


@pytest.mark.parametrize(
    ("text", "country", "place", "confidence"),
    [
        ("Kampala, Uganda. Fairly sure.", "UG", "Kampala", "Fairly sure"),
        ("Brazil (80 % sure)", "BR", None, "80 % sure"),
        ("This is most likely Texas, with high confidence", "US", "Texas", "high confidence"),
        ("Perhaps Peru", "PE", None, "Perhaps"),
        ("Brazil rather than Argentina", "BR", None, None),
        ("Not sure, but Brazil", "BR", None, "Not sure"),
        ("Brazil or Argentina", None, None, None),
        ("either Brazil, Peru or Chile", None, None, None),
        ("somewhere in Africa", None, None, None),
        ("Country: Brazil\nCity: Recife\nConfidence: medium", "BR", "Recife", "medium"),
        ("巴西，可能", "BR", None, "可能"),
    ],
)
def test_conclusions(text, country, place, confidence):
    conclusion = parse_chain(f"- Red soil\n\nConclusion:\n{text}").conclusion
    assert (conclusion.country, conclusion.place, conclusion.confidence) == (country, place, confidence)


def test_json_deeper_than_any_answer_is_text():
    assert json_fragments('["a", ' * 40, 0, False)
    assert json_fragments('["a", ' * 41, 0, False) is None


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("{'answer': 'Kenya', 'points': ['It\\'s red', 'a \"b\" c, d']}", ["It's red", 'a "b" c, d']),
        ("Answer: Kenya\n\n['Red soil', 'Poles of wo", ["Red soil", "Poles of wo"]),
        ("['Route 7' is on the sign]\n\nAnswer: Kenya", ["['Route 7' is on the sign]"]),
        ("[ 'tis the season ]\n- Red soil\n\nAnswer: Kenya", ["[ 'tis the season ]", "Red soil"]),
    ],
)
def test_single_quotes(text, points):
    chain = parse_chain(text)
    assert said(chain) == points
    assert chain.conclusion.country == "KE"


def test_json_confidence():
    conclusion = parse_chain('{"points": ["Red soil"], "country": "Kenya", "confidence": 0.8}').conclusion
    assert (conclusion.country, conclusion.confidence) == ("KE", "0.8")


@pytest.mark.parametrize(
    "last", ["This is typical of southern Brazil.", "Such roofs are found in Kenya.", "The road is so narrow."]
)
def test_support_is_no_conclusion(last):
    chain = parse_chain(f"Red soil. {last}")
    assert said(chain) == ["Red soil.", last]
    assert chain.conclusion is None


@pytest.mark.parametrize(
    ("last", "country"),
    [
        ("Malta, probably near Rabat; no doubt of the country.", "MT"),
        ("Southern Saskatchewan, Canada, likely around Regina.", "CA"),
        ("The Faroe Islands, likely on Streymoy.", "FO"),
        ("I would go for central Serbia.", "RS"),
        ("Answer: UG", "UG"),
        ("This brings me to Benin, in the south near Cotonou.", "BJ"),
        ("From all of it: Peru, the coast.", "PE"),
        ("It all fits Slovakia, the Orava region.", "SK"),
        ("It should be Togo, around Kara.", "TG"),
        ("Also: Österreich, am Rand des Waldviertels.", "AT"),
        ("Závěr: Česko, Vysočina.", "CZ"),
        ("Висновок: Україна, Львівська область.", "UA"),
        ("Slutsats: Sverige, Norrland.", "SE"),
        ("Συμπέρασμα: Ελλάδα.", "GR"),
        ("Johtopäätös: Suomi, Kainuu.", "FI"),
        ("Következtetés: Magyarország.", "HU"),
        ("Вывод: Нигерия.", "NG"),
        ("结论:中国澳门。", "MO"),
        ("Conclusion: Uruguay, the department of Florida or Durazno.", "UY"),
    ],
)
def test_a_name_with_remarks_below_a_list_is_the_conclusion(last, country):
    chain = parse_chain(f"- Red soil.\n- Wooden poles.\n\n{last}")
    assert [point.text for point in chain.points] == ["Red soil.", "Wooden poles."]
    assert chain.conclusion.country == country


@pytest.mark.parametrize(
    ("last", "points", "country"),
    [
        ("Uganda. Near Masaka, I think.", [], "UG"),
        ("nigeria. the roofs say ibadan to me", ["the roofs say ibadan to me"], "NG"),
        ("Kenya. Not far from Nakuru, a white bus.", ["Not far from Nakuru, a white bus."], "KE"),
    ],
)
def test_the_last_line_begins_with_the_conclusion(last, points, country):
    chain = parse_chain(f"Red soil. Wooden poles.\n\n{last}")
    assert said(chain) == ["Red soil.", "Wooden poles.", *points]
    assert chain.conclusion.country == country


@pytest.mark.parametrize(
    "last", ["Brazil, Peru and Chile have such clouds.", "Japan, with its narrow poles.", "Kenya is hot."]
)
def test_other_names_that_come_first_are_points(last):
    assert parse_chain(f"- Red soil.\n\n{last}").conclusion is None


def test_evidence_in_the_sentence_that_concludes_is_kept():
    text = "- Red soil and wooden poles, so Kenya."
    chain = parse_chain(text)
    assert [text[slice(*point.span)] for point in chain.points] == ["Red soil and wooden poles"]
    assert (chain.conclusion.text, chain.conclusion.country) == ("Kenya.", "KE")
    marked = parse_chain("- **Red** soil and wooden poles, so Kenya.")
    assert (said(marked), marked.conclusion.text) == (["Red soil and wooden poles"], "Kenya.")
    assert marked.text[slice(*marked.points[0].span)] == "**Red** soil and wooden poles"
    hidden = parse_chain("- **Red** soil, **so** Kenya.")  # the joint is not to be found in the text: all of it
    assert (said(hidden), concluded(hidden)) == (["Red soil"], "KE")
    assert hidden.text[slice(*hidden.conclusion.span)] == "**Red** soil, **so** Kenya."
    late = parse_chain("It is late, so Kenya.")
    assert (late.points, late.conclusion.text) == ((), "It is late, so Kenya.")


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("This is Japan. Because the signs show kana.", ["Because the signs show kana."]),
        ("The country is Japan. Kana.", ["Kana."]),
        ("Japan. Kana.", ["Kana."]),
        ("I am in Japan. Kana.", ["Kana."]),
        ("It is Japan because the signs show kana.", ["the signs show kana."]),
        ("The location is most likely Japan, given the kana signs.\n- Blue roofs.", ["the kana signs.", "Blue roofs."]),
        (
            "We're in northern Japan: kana signs and snow poles.\n- Blue roofs.",
            ["kana signs and snow poles.", "Blue roofs."],
        ),
    ],
)
def test_a_conclusion_that_comes_first(text, points):
    chain = parse_chain(text)
    assert (concluded(chain), said(chain)) == ("JP", points)


@pytest.mark.parametrize(
    "text",
    [
        "This is a road in Japan with kana signs. Snow poles.",
        "This is Japanese writing. Snow poles.",
        "The red soil is Japanese. Snow poles.",
        "Japan has snow poles. Kana.",
        "The language is Japanese. Snow poles.",
    ],
)
def test_first_sentences_that_are_points(text):
    chain = parse_chain(text)
    assert (chain.conclusion, len(chain.points)) == (None, 2)


def test_a_conclusion_with_a_country_goes_before_one_without():
    chain = parse_chain("Answer: Kenya\n\n- Red soil\n\nConclusion: it was hard")
    assert (concluded(chain), said(chain)) == ("KE", ["Red soil"])


@pytest.mark.parametrize(
    ("point", "again"),
    [
        ("So the place is Peru.", True),
        ("All this happens on the coast of Peru.", True),
        ("What we see looks like a Peruvian town.", True),
        ("Todo indica los alrededores de Arequipa, en el sur.", True),
        ("The bus goes to Peru.", False),
        ("Plates of Peru.", False),
        ("The menu is Peruvian.", False),
        ("Флаг Перу.", False),
        ("The road signs name Lima, Peru.", False),
        ("This sign reads 'Peru'.", False),
    ],
)
def test_a_point_that_says_the_conclusion_is_restated(point, again):
    chain = parse_chain(f"- Red soil.\n- {point}\n- Wooden poles.\n\nConclusion: Peru")
    assert [one.restated for one in chain.points] == [False, again, False]


@pytest.mark.parametrize("last", ["So we are in Turkey.", "The combination fits Turkey best.", "Creo que es Turquía."])
def test_a_conclusion_right_below_the_last_item(last):
    chain = parse_chain(f"- Red soil.\n- Wooden poles.\n{last}")
    assert [point.text for point in chain.points] == ["Red soil.", "Wooden poles."]
    assert chain.conclusion.country == "TR"
    assert chain.text[slice(*chain.conclusion.span)] == last


def test_an_item_that_goes_on_below_stays_whole():
    assert said(parse_chain("- Red soil.\n- Poles of wood as\n  in Kenya are seen.")) == [
        "Red soil.",
        "Poles of wood as in Kenya are seen.",
    ]
