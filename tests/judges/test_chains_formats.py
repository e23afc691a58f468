"""Chains: the formats that models write around their points, and texts that are long on purpose."""

import pytest

from judges import parse_chain
from judges.parsing import fragments


def said(chain):
    return [point.text for point in chain.points]


def concluded(chain):
    return chain.conclusion.country if chain.conclusion else None


@pytest.mark.parametrize(
    "text",
    [
        "</think>\n- a\n" * 8000,
        "</thinking>a " * 8000,
        "." * 100_000 + "a",
        "a" + "_" * 100_000 + "a",
        "round 1" + "-" * 100_000 + "a",
        '{"a":' * 39 + '["b",' + '"c",' * 20_000,
        "### a b c\n" * 8000,
        "**Kenya**\n" * 8000,
        "Top guesses: a" + " " * 100_000 + "b",
        "<tr>" + " " * 100_000 + "a",
        "\\begin{" * 20_000,
        "<|" * 50_000,
    ],
)
def test_the_time_of_a_text_grows_no_faster_than_its_length(text):
    """Quadratic readers take half a minute and more over these."""
    fragments(text)


@pytest.mark.parametrize(
    ("text", "points", "country"),
    [
        ("- Red soil.\n- Tea.\n\n**Uganda**", ["Red soil.", "Tea."], "UG"),
        ("- Red soil.\n- Tea.\n\n# Uganda", ["Red soil.", "Tea."], "UG"),
        ("**Japan**\n- Kana.\n- Blue roofs.", ["Kana.", "Blue roofs."], "JP"),
        ("# Japan\n- Kana.\n- Blue roofs.", ["Kana.", "Blue roofs."], "JP"),
        ("- Kana.\n## Conclusion\n### Japan", ["Kana."], "JP"),
        ("# Japan\n- Kana.\n# Korea\n- Hangul.", ["Kana.", "Hangul."], None),  # both are weighed
        ("# Japan\n- Kana.\n\nAnswer: Korea", ["Kana."], "KR"),
    ],
)
def test_a_heading_that_is_a_place(text, points, country):
    chain = parse_chain(text)
    assert (said(chain), concluded(chain)) == (points, country)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("**Clue 1: Red soil**\n\n**Clue 2: Tea fields**\n\n**Answer:** Uganda", ["Red soil", "Tea fields"]),
        ("**Clue 1: Red soil**\n\nAnswer: Uganda", ["Red soil"]),
        ("### The soil is deep red\n\n### Tea grows\n\n### Answer\nUganda", ["The soil is deep red", "Tea grows"]),
        ("# Soil\n## Colour\n- Red\n# Plants\n\nAnswer: Uganda", ["Red"]),
        ("## Reasoning\n\n## Architecture\n- Blue roofs\n\nAnswer: Uganda", ["Blue roofs"]),
        ("**Image analysis**\n\nAnswer: Uganda", []),
    ],
)
def test_headings_with_nothing_below_are_points(text, points):
    chain = parse_chain(text)
    assert (said(chain), concluded(chain)) == (points, "UG")


@pytest.mark.parametrize(
    ("inside", "points", "conclusion"),
    [
        (
            "Red soil and tea plantations. People drive on the left. The location is Kenya.",
            ["Red soil and tea plantations.", "People drive on the left."],
            "The location is Kenya.",
        ),
        ("Kenya. Fairly sure.", [], "Kenya. Fairly sure."),
        ("This is Kenya. I am sure.", [], "This is Kenya. I am sure."),
    ],
)
def test_short_answers_that_argue(inside, points, conclusion):
    chain = parse_chain(f"<answer>{inside}</answer>")
    assert (said(chain), chain.conclusion.text, concluded(chain)) == (points, conclusion, "KE")


@pytest.mark.parametrize(
    "text",
    [
        "<ul><li>Red soil</li><li>Tea</li></ul><p>Answer: Kenya</p>",
        "<h3>Clues</h3><ol><li>\nRed soil\n</li><li>Tea</li></ol><h3>Answer</h3><p>Kenya</p>",
        "Red soil<br>Tea<br/>Answer: Kenya",
        "<div>Red soil</div><div>Tea</div><div>Answer: Kenya</div>",
        "<table><tr><th>Clue</th></tr><tr><td>Red soil</td></tr><tr><td>Tea</td></tr></table>Answer: Kenya",
        "<clue>Red soil</clue><clue>Tea</clue><country>Kenya</country>",
        "- Red soil\n- Tea\n<|begin_of_box|>Kenya<|end_of_box|>",
        "<|im_start|>assistant\n- Red soil\n- Tea\nAnswer: Kenya<|im_end|>",
        "<|channel|>analysis<|message|>- Red soil\n- Tea<|end|><|start|>assistant<|channel|>final<|message|>Kenya",
        "◁think▷- Red soil\n- Tea◁/think▷Kenya",
        "[THINK]- Red soil\n- Tea[/THINK]The location is Kenya.",
        "<think>- Red soil\n- Tea</think>\n\nThe image was taken in Kenya.",
        r"\begin{itemize}\item Red soil \item Tea\end{itemize} \boxed{Kenya}",
        "\\section{Clues}\n\\begin{enumerate}\n\\item \\textbf{Red} soil\n\\item Tea\n\\end{enumerate}\n\\boxed{Kenya}",
        r"- Red soil\n- Tea\n\nAnswer: Kenya",
        "✅ Red soil\n✅ Tea\n👉 Answer: Kenya",
        "### 🌿 Clues\n- [x] Red soil\n- [ ] Tea\n### 📍 Final Answer\n> Kenya",
        "【线索】\n・Red soil\n・Tea\n【结论】肯尼亚",
        "- Red soil\n- Tea\n\n答案是肯尼亚。",
        "Let's think step by step.\n- Red soil\n- Tea\nAnswer: Kenya",
        "Okay, let me look at the image carefully.\n- Red soil\n- Tea\nAnswer: Kenya",
        "Denken wir Schritt für Schritt.\n- Red soil\n- Tea\n\nIch tippe auf Kenia.",
        "Réfléchissons étape par étape.\n- Red soil\n- Tea\n\nLe pays est le Kenya.",
        "Pensemos paso a paso.\n- Red soil\n- Tea\n\nEl país es Kenia.",
        "Vamos pensar passo a passo.\n- Red soil\n- Tea\n\nO país é o Quênia.",
        "Давайте подумаем шаг за шагом.\n- Red soil\n- Tea\n\nОтвет: Кения",
        "让我们一步一步思考。\n- Red soil\n- Tea\n\n答案：肯尼亚",
        "I am fairly confident this is Kenya. Here's why:\n- Red soil\n- Tea",
        "- Red soil\n- Tea\n\nKết luận: Kenya",
        "- Red soil\n- Tea\n\nTop guesses: 1. Kenya 2. Uganda 3. Tanzania",
        "- Red soil\n- Tea\n\n**Top 3 guesses:**\n1. **Kenya** (60%)\n2. **Uganda** (30%)\n3. **Tanzania** (10%)",
        "- Red soil\n- Tea\n\nTop guesses:\n1. Kenya\n2. Uganda\n\nThat was hard:",
        "- Red soil\n- Tea\n\n1st guess: Kenya\n2nd guess: Uganda",
        "- Red soil\n- Tea\n\nAnswer: Kenya\nAlternatives: Uganda, Tanzania",
        '{"clues": ["Red soil", "Tea"], "guesses": ["Kenya", "Uganda"]}',
        '{"clues": ["Red soil", "Tea"], "top_guesses": [{"country": "Kenya"}, {"country": "Uganda"}]}',
    ],
)
def test_formats(text):
    chain = parse_chain(text)
    assert (said(chain), concluded(chain)) == (["Red soil", "Tea"], "KE")
    assert chain.text == text
    for part in chain.points:
        start, end = part.span
        assert part.text.split()[-1] in text[start:end]


def test_a_box_is_the_answer():
    chain = parse_chain("<|begin_of_box|>Kenya<|end_of_box|>")
    assert (chain.points, chain.conclusion.text, chain.conclusion.span) == ((), "Kenya", (16, 21))


def test_a_list_of_guesses_ends():
    chain = parse_chain("Top guesses:\n1. Kenya\n   - Red soil\n2. Uganda\n\nTea grows on the hills.")
    assert (said(chain), chain.conclusion.text) == (["Red soil", "Tea grows on the hills."], "Kenya")


def test_what_only_concludes_inside_think_is_no_evidence():
    chain = parse_chain("<think>- Red soil. So it's Poland.</think><answer>Poland</answer>")
    assert [(point.text, point.restated) for point in chain.points] == [("Red soil.", False), ("So it's Poland.", True)]
    assert said(parse_chain("<think>- Red soil. Typical of Poland.</think>Poland")) == ["Red soil. Typical of Poland."]


@pytest.mark.parametrize("text", ["Let me look at the red soil.", "The scene", "Here the road is wide.", "Okay"])
def test_what_says_something_is_no_talk(text):
    assert said(parse_chain(f"{text}\n\nAnswer: Kenya")) == [text]


def test_evidence_in_front_of_this_is():
    chain = parse_chain("Based on the red soil, this is likely Kenya.")
    assert (said(chain), chain.conclusion.text) == (["Based on the red soil"], "this is likely Kenya.")
    assert said(parse_chain("Probably, this is Kenya.")) == []  # a hedge is no evidence


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ('{"clues": [{"clue": "Red soil", "suggests": "East Africa"}]}', ["Red soil: East Africa"]),
        ('{"clues": [{"clue": "Red soil. Tea.", "note": "Hills."}, "Huts"]}', ["Red soil. Tea: Hills.", "Huts"]),
        ('{"clue1": {"observation": "Red soil", "inference": "East Africa"}}', ["Red soil: East Africa"]),
        ('{"clue": "Red soil", "suggests": "East Africa"}', ["Red soil: East Africa"]),
        ('{"clues": {"soil": "Red soil", "plants": "Tea"}}', ["Red soil", "Tea"]),
        ('{"steps": [{"level": "country", "clue": "Red soil"}]}', ["Red soil"]),
        ('[{"analysis": "Red soil.", "notes": "Tea.", "country": "Kenya"}]', ["Red soil.", "Tea."]),
    ],
)
def test_records_in_json_are_one_point(text, points):
    chain = parse_chain(text)
    assert said(chain) == points
    assert all(0 <= start < end <= len(text) for start, end in (point.span for point in chain.points))
