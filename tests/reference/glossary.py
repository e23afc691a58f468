"""Words of a text by the tables of the glossary, line by line and slow; and what two points share."""

import json
import math
import re
import unicodedata
from pathlib import Path

import judges

FOLDER = Path(judges.__file__).parent / "data"
COMPOUNDS = {"de", "fi", "hu", "nl", "sv"}
TALK = {"stop", "another"}
ASPECTS = {"colour", "lang", "material", "num", "shape", "side", "size"}


def table(code):
    """[(words of a term, concept)] in the order of the file."""
    found = []
    for line in (FOLDER / "glossary" / f"{code}.tsv").read_text(encoding="utf-8").splitlines():
        concept, terms = line.split("\t")
        for term in terms.split(", "):
            large = concept == "num.eight"
            found.append((re.findall(r"[^\W_]+\*?", term), "num." + term.replace("*", "") if large else concept))
    return found


def fits(word, token, ending=6):
    if word.endswith("*"):
        return token.startswith(word[:-1]) and len(token) - len(word[:-1]) <= ending
    return word == token


def alone(terms, token, ending=6):
    """Concepts of a single word, by its longest stem."""
    found = [(len(term[0].rstrip("*")), c) for term, c in terms if len(term) == 1 and fits(term[0], token, ending)]
    longest = max((size for size, _ in found), default=0)
    return {concept for size, concept in found if size == longest} - TALK


def understand(text, code):
    """[(words, concepts)] of a text in a spaced language, casefolded letters only."""
    terms, tokens, found = table(code), re.findall(r"[^\W_]+", text.casefold()), []
    while tokens:
        candidates = [
            ((len(term), len(term[0].rstrip("*"))), concept)
            for term, concept in terms
            if len(term) <= len(tokens) and all(fits(word, token) for word, token in zip(term, tokens, strict=False))
        ]
        best = max((size for size, _ in candidates), default=(1, 0))
        concepts = {concept for size, concept in candidates if size == best}
        taken, tokens = tokens[: best[0]], tokens[best[0] :]
        inside = []
        if len(taken) > 1 and concepts - TALK:
            inside = [alone(terms, token) for token in taken]
        elif not concepts and code in COMPOUNDS:
            inside = parts(terms, taken[0])
        for part in inside:
            values = {concept for concept in part if concept.split(".")[0] in ASPECTS} - concepts
            if values:
                found.append((" ".join(taken), values))
            concepts |= part - values
        if concepts or all(not part for part in inside):
            found.append((" ".join(taken), concepts))
    return [
        (word, concepts - TALK)
        for word, concepts in found
        if not (concepts and concepts <= TALK) and (concepts or len(word) > 2 or not word.isascii())
    ]


def parts(terms, token):
    heads = []
    for cut in range(len(token) - 4, 3, -1):
        head, tail = alone(terms, token[:cut], ending=1), alone(terms, token[cut:])
        if head and tail:
            return [head, tail]
        if head:
            heads.append(head)
    return heads[:1]


def letters(one, other):
    """Cosine of how often two texts, in small letters, have which three and four characters in a row."""
    counts = []
    for text in (one, other):
        text = " " + " ".join(re.findall(r"[^\W_]+", text)) + " "
        runs = [text[i : i + n] for n in (3, 4) for i in range(len(text) + 1 - n)]
        counts.append({run: runs.count(run) for run in set(runs)})
    dot = sum(count * counts[1].get(run, 0) for run, count in counts[0].items())
    lengths = [math.sqrt(sum(count**2 for count in one.values())) for one in counts]
    return dot / (lengths[0] * lengths[1])


def names_shared(texts, names):
    """How many names have all their words, in a row, in both texts; at most three."""
    both = [re.findall(r"[^\W_]+", text.casefold()) for text in texts]
    found = set()
    for name in names:
        words = re.findall(r"[^\W_]+", name.casefold())
        if all(any(text[i : i + len(words)] == words for i in range(len(text))) for text in both):
            found.add(tuple(words))
    return min(len(found), 3)


def probability(later, earlier, cosines, quoted, contradicted, letters, another, names):
    """The formula of `judges.restatement.restates`, of words as `understand` gives them."""
    model = json.loads((FOLDER / "restatements.json").read_text(encoding="utf-8"))
    lines = (FOLDER / "glossary" / "concepts.tsv").read_text(encoding="utf-8").splitlines()
    wider = {line.split("\t")[0]: line.split("\t")[3].split(", ") for line in lines}
    shared = missing = 0.0
    whereabouts = 0
    for word, concepts in later:
        known = set().union(*(others for _, others in earlier))
        near = {broad for concept in known for broad in wider.get(concept, [])}
        best = max(
            (model["rarity"].get(concept, 6.0) for concept in (concepts & known or concepts & near)), default=0.0
        )
        if not best:
            for other, theirs in earlier:
                if concepts and theirs:
                    continue
                same = 0
                while same < min(len(word), len(other)) and word[same] == other[same]:
                    same += 1
                if word == other or (same >= 4 and same >= 0.6 * min(len(word), len(other))):
                    best = min([model["rarity"].get(c, 6.0) for c in concepts] or [4.5])
        shared += best
        if not best and concepts:
            missing += min(model["rarity"].get(concept, 6.0) for concept in concepts)
            whereabouts += any(concept.split(".")[0] in ("place", "dir") for concept in concepts)
    x = [math.log(1 + shared), math.log(1 + missing), *cosines, quoted, contradicted, letters]
    x += [whereabouts, len(later), another, names]
    return 1 / (1 + math.exp(-model["bias"] - sum(w * value for w, value in zip(model["weights"], x, strict=True))))


def swaps(later, earlier, words):
    """Whether replacing one word of the earlier text, and nothing else, gives the later one."""
    pattern = r"[\u2e80-\u9fff\uf900-\ufaff]|(?:(?![\u2e80-\u9fff\uf900-\ufaff_])\w)+"
    new, old = (re.findall(pattern, text.casefold()) for text in (later, earlier))
    for start in range(min(len(new), len(old)) + 1):
        for end in range(min(len(new), len(old)) - start + 1):
            a, b = new[start : len(new) - end], old[start : len(old) - end]
            if not a or not b or new[:start] != old[:start] or new[len(new) - end :] != old[len(old) - end :]:
                continue
            if start + end < max(len(a), len(b)) and (start + end or max(len(a), len(b)) > 1):
                continue
            if any(len(x) > (1 if len(x[0]) > 1 or x[0] < "\u2e80" else 5) for x in (a, b)):
                continue
            one, other = "".join(a), "".join(b)
            same = 0
            while same < min(len(one), len(other)) and one[same] == other[same]:
                same += 1
            if one != other and same < max(4, 0.6 * min(len(one), len(other))):
                return any(x in word.text for x in a for word in words)
    return False


def latin(text):
    """Whether at least half of the letters have a Latin name."""
    names = [unicodedata.name(letter, "") for letter in text if letter.isalpha()]
    return 2 * sum("LATIN" in name for name in names) >= len(names)
