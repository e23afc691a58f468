"""Chains: every form that a model or a person writes, and that no text at all can break the reader."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from judges import parse_chain
from judges.chains import BREADTHS, CATEGORIES, NEAREST, ReasoningChain, mark_restated, sentences

POINTS = ["Red soil.", "Drives on the left."]


def said(chain):
    return [point.text for point in chain.points]


def concluded(chain):
    return chain.conclusion.country if chain.conclusion else None


def holds(text, words):
    """Whether all letters of the words stand in the text in their order."""
    letters = iter(text)
    return all(letter in letters for letter in words if letter.isalnum())


@pytest.mark.parametrize(
    "text",
    [
        "- Red soil.\n- Drives on the left.\n\nConclusion: Kenya",
        "* Red soil.\n* Drives on the left.\nAnswer: Kenya",
        "• Red soil.\n‣ Drives on the left.\nGuess: Kenya",
        "1. Red soil.\n2. Drives on the left.\nFinal answer: Kenya",
        "1) Red soil.\n2) Drives on the left.\n\n**Final Answer:** Kenya",
        "(1) Red soil.\n(2) Drives on the left.\n\n### Conclusion\nKenya",
        "a) Red soil.\nb) Drives on the left.\n\nConclusion\nKenya",
        "a. Red soil.\n(b) Drives on the left.\n\nMy best guess: Kenya",
        "i. Red soil.\nii. Drives on the left.\n\nConclusion:\n- Kenya",
        "1、Red soil.\n2）Drives on the left.\n结论：肯尼亚",
        "① Red soil.\n② Drives on the left.\n結論\nケニア",
        "> - Red soil.\n> - Drives on the left.\n\nAnswer: Kenya",
        "1. **Red soil.**\n   - Drives on the left.\n\n**Country:** Kenya",
        "- Geology:\n  - [Red](http://a.b/c) `soil`.\n- Traffic:\n  - Drives on the _left_.\n\nAnswer: Kenya",
        "# Reasoning\nRed soil. Drives on the left.\n# Conclusion\nKenya",
        "Reasoning\nRed soil.\nDrives on the left.\nConclusion\nKenya, near Nairobi",
        "Round 3\nReasoning:\nRed soil.\nDrives on the left.\nConclusion:\nKenya",
        "Clues\n=====\nRed soil. Drives on the left.\n\nWhere\n-----\nI think this is in Kenya.",
        "Red soil. Drives on the left. Therefore we are in Kenya.",
        "Red soil.\n\nDrives on the left.\n\nKenya.",
        "Let me look at the picture step by step:\n\n- Red soil.\n- Drives on the left.\n\nSo, Kenya.",
        "| Clue |\n|---|---|\n| Red soil. | |\n| Drives on the left. | |\n\nThe answer is \\boxed{Kenya}.",
        "```\n- Red soil.\n- Drives on the left.\n```\n$\\boxed{\\text{Kenya}}$",
        "<think>Red soil. Drives on the left.</think><answer>Kenya</answer>",
        "Red soil. Drives on the left.</think>\nAnswer: Kenya",
        "Maybe it is Uganda?\nOr not.</think>\n- Red soil.\n- Drives on the left.\nAnswer: Kenya",
        "<think>Maybe Uganda?</think>- Red soil.\n- Drives on the left.\n<answer>Country: Kenya</answer>",
        "<think>Hm.</think><answer>- Red soil.\n- Drives on the left.\n\nThis is Kenya.</answer>",
        "<reasoning>\nRed soil.\nDrives on the left.\n</reasoning>\n<answer>\nKenya\n</answer>",
        '{"points": ["Red soil.", "Drives on the left."], "conclusion": {"country": "Kenya", "city": "Nairobi"}}',
        '```json\n{"reasoning": "Red soil. Drives on the left.", "country": "Kenya"}\n```',
        '[{"text": "Red soil.", "category": "geology"}, {"text": "Drives on the left."}]\n\nAnswer: Kenya',
        'Here it is:\n{"clues": {"soil": "Red soil.", "traffic": "Drives on the left."}, "answer": "Kenya"}',
        "Begründung:\n- Red soil.\n- Drives on the left.\n\nFazit: Kenia",
        "Indices :\n- Red soil.\n- Drives on the left.\n\nRéponse finale : Kenya",
        "Pistas:\n- Red soil.\n- Drives on the left.\n\nConclusión: Kenia",
        "Raciocínio:\n- Red soil.\n- Drives on the left.\n\nResposta: Quênia",
        "Indizi:\n- Red soil.\n- Drives on the left.\n\nConclusione: Kenya",
        "Анализ:\n- Red soil.\n- Drives on the left.\n\nВывод: Кения",
        "التحليل:\n- Red soil.\n- Drives on the left.\n\nالخلاصة: كينيا",
        "Answer: Kenya\n\n- Red soil.\n- Drives on the left.",
        "- Red soil.\u2028- Drives on the left.\u2029Answer: Kenya",
        "- Red soil.\x85- Drives on the left.\x0bAnswer: Kenya",
        "\ufeff- Red soil.\n\u200e- Drives on the left.\n\u200f\u202aAnswer:\u202c Kenya",
        "{'points': ['Red soil.', \"Drives on the left.\"], 'conclusion': 'Kenya'}",
        "['Red soil.', 'Drives on the left.']\n\nAnswer: 🇰🇪",
        "- Red soil.\n- Drives on the left.\n\nคำตอบ: 🇰🇪",
        "- Red soil.\n- Drives on the left.\n\nתשובה: Kenya",
        "- Red soil.\n- Drives on the left.\n\nउत्तर: केन्या",
    ],
)
def test_forms(text):
    chain = parse_chain(text)
    assert said(chain) == POINTS
    assert concluded(chain) == "KE"
    assert chain.text == text
    assert (chain.refused, chain.truncated, chain.dropped) == (False, False, 0)
    assert not any(point.restated for point in chain.points)
    for part in (*chain.points, chain.conclusion):
        assert holds(text[slice(*part.span)], part.text)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("Trees e.g. acacia, approx. 2.5 m tall. J. Smith Rd. is near St. Louis. Next.", 3),
        ("In 1990. Built of stone! Is it? Yes… perhaps.", 4),
        ("道は赤い。木は高い！本当？はい", 4),
        ("النص عربي؟ الطريق ضيق۔ نعم.", 3),
        ("सड़क लाल है। पेड़ ऊँचे हैं।", 2),
        ("the road is red. the trees are tall. done", 3),
        ("One line that is\nwrapped here. Another.", 2),
        ("One line\nAnother line", 2),
        ("", 0),
        ("...", 1),
    ],
)
def test_sentences(text, points):
    spans = sentences(text)
    lines = [span for line in text.split("\n") for span in sentences(line)] if "Another line" in text else spans
    assert len(lines) == points
    if text != "...":
        assert len(parse_chain(text).points) == points
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)


def test_rows_of_a_table_are_points():
    chain = parse_chain("| Clue | Where |\n|:--|:--|\n| Red soil | East Africa |\n| Tea | Kenya |\n| Country | Kenya |")
    assert said(chain) == ["Red soil: East Africa", "Tea: Kenya"]
    assert [point.breadth for point in chain.points] == ["countries", "country"]
    assert chain.conclusion.text == "Kenya"


def test_headings_are_no_points():
    text = "# Geography\n\n**Vegetation**\n\n- Palms grow here\n\nSigns:\n\n1. **Roads:**\n   Wide road.\n\n## Extra\n"
    assert said(parse_chain(text)) == ["Palms grow here", "Wide road."]


@pytest.mark.parametrize(
    ("text", "refused", "points"),
    [
        ("I'm sorry, but I can't determine the location from this image.", True, 0),
        ("I cannot help with that.", True, 0),
        ("I am unable to identify where this photo was taken. The soil is red.", True, 1),
        ("It is impossible to tell the country.", True, 0),
        ("Ich kann den Ort leider nicht bestimmen.", True, 0),
        ("我无法确定这个地点。", True, 0),
        ("I can't determine the exact city.\n- Red soil.\n\nAnswer: Kenya", False, 1),
        ("I can't see any poles.", False, 1),
        ("I can't identify a single road line.", False, 1),
    ],
)
def test_refusals(text, refused, points):
    chain = parse_chain(text)
    assert (chain.refused, len(chain.points)) == (refused, points)


@pytest.mark.parametrize(
    ("text", "truncated"),
    [
        ("- Red soil.\n- Tea fields.\n- The road has a long and", True),
        ("- Red soil\n- Tea fields\n- The road is red and", True),
        ("- Red soil\n- Tea fields\n- The road is red", False),
        ("- Red soil.\n- Tea fields.", False),
        ('{"points": ["Red soil", "Tea fie', True),
        ('{"points": ["Red soil", "Tea fields"]', False),
        ('{"points": ["Red soil", "Tea \\', True),
        ("- Red soil.\n- Tea fields.\n\nAnswer: Kenya", False),
        ("", False),
    ],
)
def test_truncated(text, truncated):
    assert parse_chain(text).truncated == truncated


def test_copies_of_the_prompt_are_dropped():
    prompt = "Look at the picture. Name the discriminative attributes of the scene, then the country."
    text = "- Name the **discriminative** attributes of the scene\n- The scene\n- Look at the palms"
    chain = parse_chain(text, prompt)
    assert said(chain) == ["The scene", "Look at the palms"]
    assert chain.dropped == 1
    assert parse_chain(text).dropped == 0


def test_restatements():
    chain = parse_chain(
        "- Red soil.\n- RED soil!\n- So Kenya.\n- Kenya has red soil.\n- this is it\n\nAnswer: this is it"
    )
    assert [point.restated for point in chain.points] == [False, True, True, False, True]


def test_restatements_by_similarity():
    texts = ["Red soil.", "Wooden poles.", "wooden poles", "Poles of timber.", "Red soil!"]
    chain = ReasoningChain.of(texts)
    assert [point.restated for point in chain.points] == [False, False, True, False, True]
    asked = []

    def similarity(left, right, of_poles=0.8):
        asked.append(left)
        cosine = np.eye(len(left))
        cosine[1, 0], cosine[2, 1] = 0.3, of_poles
        return cosine

    for of_poles, again in ((0.1, False), (0.8, True)):
        marked = mark_restated(chain, partial(similarity, of_poles=of_poles))
        assert [point.restated for point in marked.points] == [False, False, True, again, True]
    # what is marked already is not asked for; glosses after the texts
    assert asked[:2] == [[texts[0], texts[1], texts[3]], ["red soil", "wood utility pole", "utility pole wood"]]
    assert chain.points[3].restated is False
    assert mark_restated(ReasoningChain.of(["a"]), similarity).points[0].restated is False


def test_a_long_chain_is_compared_with_the_nearest_points(monkeypatch):
    same = 3 * NEAREST // 2  # neither among the first nor among the last
    texts = [f"The sign reads '{n}'." for n in range(3 * NEAREST)] + [f"There '{same}' can be read on the sign."]
    cosine = np.full((len(texts), len(texts)), 0.6)
    cosine[-1, same] = 1.0
    asked = []
    monkeypatch.setattr("judges.chains.contrasts", lambda later, earlier: asked.append(later.text) or False)
    marked = mark_restated(ReasoningChain.of(texts), lambda a, b: cosine)
    assert [point.restated for point in marked.points] == [False] * (len(texts) - 1) + [True]
    assert max(Counter(asked).values()) <= NEAREST


@pytest.mark.parametrize(
    ("earlier", "later", "cosine", "restated"),
    [
        ("White plates in front.", "The plates in front are white.", 0.85, True),
        ("White plates in front.", "The plates are yellow.", 0.89, False),  # another colour
        ("White plates in front.", "The plates are yellow.", 1.0, False),  # and it contradicts
        ("White plates in front.", "Plates of wood, white.", 0.9, True),  # this similar whatever it says
        ("White plates and red soil.", "White plates, typical of Kenya.", 0.7, True),
        ("White plates.", "White plates and red soil.", 0.7, False),
        ("Die Masten sind aus Holz.", "Aus Holz sind die Masten.", 0.88, True),
        ("Die Masten sind aus Holz.", "Die Dächer sind aus Blech.", 0.8, False),  # unknown to the encoder
        ("屋根は黒い釉薬瓦である。", "車は左側を走っている。", 0.8, False),
        ("山上有雪。", "山上有树。", 1.0, False),
        ("번호판은 흰색입니다.", "번호판은 노란색입니다.", 0.95, False),
        ("Η πινακίδα είναι κίτρινη.", "Η πινακίδα είναι μπλε.", 0.95, False),
        ("山上有雪。", "山上有积雪。", 1.0, True),
        ("A road sign.", "Another road sign.", 0.95, False),
        ("The sign reads 'Graz'.", "The sign reads 'Maribor'.", 1.0, False),  # places are masked, what is quoted counts
        ("Plat nomor diawali DK.", "Plat nomor diawali AB.", 0.95, False),
        ("The road is number 7.", "The road is number 9.", 0.95, False),
        ("The sign reads 'Graz', in capitals.", "Capitals spell 'Graz' on the sign.", 0.95, True),
    ],
)
def test_what_a_similar_point_adds(earlier, later, cosine, restated):
    chain = ReasoningChain.of([earlier, later])
    marked = mark_restated(chain, lambda a, b: np.full((2, 2), cosine))
    assert [point.restated for point in marked.points] == [False, restated]


def test_a_chain_of_given_points():
    chain = ReasoningChain.of([" Red soil. Tea. ", "", "- Palms"], "Probably Kenya or so")
    assert said(chain) == ["Red soil. Tea.", "- Palms"]
    assert all(point.text in chain.text[slice(*point.span)] for point in chain.points)
    assert chain.text[slice(*chain.conclusion.span)] == "Probably Kenya or so"
    assert ReasoningChain.of([]).conclusion is None


THREE = ("infrastructure", "vegetation", "architecture")


@pytest.mark.parametrize(
    ("text", "breadth", "hedge", "categories"),
    [
        ("Short bollards are found in Austria and Slovenia", "countries", False, ("infrastructure",)),
        ("The blue sky is seen everywhere, also in Peru", "world", False, ()),
        ("Cyrillic text suggests Bulgaria", "country", True, ("language",)),
        ("Wahrscheinlich Wald", None, True, ("vegetation",)),
        ("たぶん日本", "country", True, ()),
        ("The Google car has a black antenna", None, False, ("meta",)),
        ("Palms, pines, roofs, tiles, roads, signs, red soil", None, False, THREE),
        ("The sun is in the north, so southern hemisphere", "hemisphere", False, ("climate",)),
    ],
)  # fmt: skip
def test_what_a_point_says(text, breadth, hedge, categories):
    point = ReasoningChain.of([text]).points[0]
    assert (point.breadth, point.hedge) == (breadth, hedge)
    assert set(point.categories) == set(categories)


PARTS = [
    *("- ", "* ", "1. ", "(a) ", "# ", "## Conclusion\n", "Reasoning:", "Answer: ", "**", "__", "`", "```json\n", "\n"),
    *(
        "| ",
        "|---|\n",
        "---\n",
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "\\boxed{",
        "}",
        "{",
        "[",
        "]",
        '"',
        ":",
    ),
    *(
        ",",
        '"points": [',
        '{"country": "',
        "\\",
        "Round 2\n",
        "Brazil",
        "I can't tell the country",
        "。",
        "؟ ",
        "e.g. ",
    ),
    *("red soil ", "e\u0301", "\r\n", "\t", "\u2028", "0.8", "Confidence: high\n", "> ", "[a](b)", "\ud800"),
]


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from(PARTS), max_size=40).map("".join))
@example(":*")
def test_no_text_breaks_it(text):
    chain = parse_chain(text, prompt=text[:20])
    assert len(chain.points) <= len(text)
    for point in chain.points:
        start, end = point.span
        assert 0 <= start < end <= len(text)
        assert point.text.strip()
        assert len(point.categories) <= 3
        assert set(point.categories) <= set(CATEGORIES)
        assert point.breadth in (None, *BREADTHS)
        if "\\" not in text:
            assert holds(text[start:end], point.text)
    starts = [point.span[0] for point in chain.points]
    assert starts == sorted(starts)


LONG = [
    *(
        "((((",
        "[",
        "{",
        '["',
        '{"a":',
        "<think>",
        "<",
        "\n",
        "- a\n",
        "1. ",
        "*",
        "_",
        "|",
        "| a ",
        ". ",
        "a",
        "a ",
        "。",
    ),
    *("\\boxed{", "[a](", "```\n", "Conclusion: ", '"\\', "Conclusion\nA\nReasoning\nB\n", "<answer>- a</answer>"),
    *("e.g. ", "New York, ", "I can't a b c ", "I can't ", "\u0301", ">", "Brazil is red. ", '{"a": "1. ', "Mr. "),
    *("I can't tell where.\n", "A\n"),
]


@pytest.mark.parametrize("unit", LONG)
def test_the_time_of_long_texts_is_in_bounds(unit):
    """A quadratic reader would take minutes over these."""
    parse_chain(unit * (100_000 // len(unit)), prompt=unit * 400)
    parse_chain('{"points": ["' + unit.replace('"', "") * (20_000 // len(unit)))
