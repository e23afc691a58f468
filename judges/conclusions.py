"""The conclusion of a chain: which fragments it is, and what it says."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from judges.countries import country_code
from judges.evidence import specifics
from judges.glossary import language, understand
from judges.json_answers import Fragment
from judges.kinds import KINDS, kinds
from judges.places import Place, find_places, mask_places
from judges.sentences import NO_EVIDENCE, clean, mentions, words


@dataclass(frozen=True)
class Conclusion:
    """What a chain concludes.

    Args:
        text: its words.
        country: ISO alpha-2 code of the country that it names, None where it names none or leaves several open.
        place: the city or region that it names.
        confidence: the words in which it says how sure it is.
        span: first character of the chain's text and the one after the last.

    Example:
        >>> from judges.chains import parse_chain
        >>> parse_chain("Conclusion: Kampala, Uganda. Fairly sure.").conclusion
        Conclusion(text='Kampala, Uganda. Fairly sure.', country='UG', place='Kampala', confidence='Fairly sure',
                   span=(12, 41))
    """

    text: str
    country: str | None
    place: str | None
    confidence: str | None
    span: tuple[int, int]


REFUSAL = re.compile(
    r"\b(?:i|we)(?:'m|’m| am| are)? (?:(?:can|could|do|did|will|won|would)(?:n?['’]?t| not)|cannot|unable|not able|"
    r"sorry)\b(?:\W{1,9}\w+){0,5}?\W{1,9}(?:determine|identify|tell|say|assist|help|provide|locate|geolocate|pinpoint|"
    r"comply|share|answer|guess|know|give)(?=[^.!?]{0,80}\b(?:location|where|country|place|city|region|coordinates|"
    r"image|photo|picture|request|this|that|answer)\b|\W*$)|"
    r"\bimpossible (?:for me )?to (?:determine|say|tell|identify|locate)(?=[^.!?]{0,80}\b(?:location|where|country))|"
    r"\bich kann (?:\w+ ){0,6}nicht (?:\w+ )?(?:bestimmen|sagen|erkennen|helfen)|"
    r"\bje ne (?:peux|sais) pas (?:déterminer|identifier|dire|où|aider)|"
    r"\bno puedo (?:determinar|identificar|decir|ayudar)|\bn[ãa]o (?:posso|consigo) (?:determinar|identificar|dizer)|"
    r"\bnon posso (?:determinare|identificare|dire)|я не могу (?:определить|сказать|помочь)|"
    r"[無无]法(?:确定|確定|判断|判斷|识别|識別)|特定できません|判断できません|لا أستطيع تحديد|لا يمكنني تحديد",
    re.IGNORECASE,
)
# They conclude; the others do where the sentence does not say what is usual somewhere.
_CONCLUDES = re.compile(
    r"\b(?:therefore|thus|hence|overall|altogether|conclude|conclusion|in summary|taken together|combined|final|answer|"
    r"guess|i(?:'d|’d| would) (?:say|go (?:with|for)|place)|daher|insgesamt|donc|por lo tanto|portanto|quindi|dus)\b|"
    r"итак|поэтому|следовательно|因此|所以|よって|したがって|لذلك|إذن",
    re.IGNORECASE,
)
_IS_HERE = re.compile(
    r"\b(?:i (?:think|believe)|we are|we're|we’re|i am in|th(?:is|e) (?:image|photo|picture|location|place|scene|view)?"
    r"\s?(?:is|was|must be|(?:looks|seems|appears|could|may|might) (?:like|to be|be))|(?:taken|located|somewhere) in|"
    r"(?:dies|das|es|das land) ist|wir sind|ich tippe auf|"
    r"(?:le pays|el país|o país|il paese|het land) (?:est|es|é|è|is)|"
    r"c'est|il s'agit|nous sommes|estamos|se trata|isto é|siamo in)\b|(?:^|[,;.] )so\b|"
    r"это |мы в |这是|這是|です",
    re.IGNORECASE,
)
_USUAL = re.compile(
    r"\b(?:typical|common|commonly|found|seen|used|characteristic|unique|popular|native|grows?|typisch|häufig|typiques?|"
    r"courant|típic[oa]s?|comum|comune?s?|tipic[oah]e?)\b|типичн|常见|典型|よく見",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_BEFORE_NAME = re.compile(
    r"\b(?:the|most|likely|probably|(?:north|south|east|west|north-?east|north-?west|south-?east|south-?west)(?:ern)?|"
    r"central|upper|lower|rural|somewhere in)\b",
    re.IGNORECASE,
)
_AFTER_NAME = re.compile(
    r"\s*(?:[,;:.!(–—*-]|$|(?:with|in|near|most|very|probably|likely|for|because|since|given|as|based)\b)",
    re.IGNORECASE,
)
_IS_PLACE = re.compile(
    r"(?:\b(?:is|was|must be|am|are|taken|located|situated|somewhere|looks like|ist|est|es|é|è)|['’](?:s|m|re))"
    r"(?:,? (?:most |very )?\w+ly)?(?: (?:in|from|of|en|em|au|aux))?(?: (?:the|\w+ern|central|rural))*\s*[*\"“']*$",
    re.IGNORECASE,
)
_SO = re.compile(
    r"[,;.] (?:and )?(?:(?:so|therefore|thus|hence) |(?=(?:this|it|the \w+) (?:is|must be|looks like) ))", re.IGNORECASE
)
_BECAUSE = re.compile(
    r",? (?:because(?: of)?|since|given(?: that)?|as indicated by|based on) |: | [–—-] ", re.IGNORECASE
)
# Where a clue is named too, the sentence is a point. (Terrain and climate also say whereabouts in a country.)
EVIDENCE = ("infrastructure", "vegetation", "architecture", "meta", "language", "vehicles")


def with_conclusion(text: str, parts: list[Fragment]) -> list[Fragment]:
    """Without a marked conclusion, the last sentence is one if it says where we are, or else the first.

    Also a sentence that is a place and nothing else, such as the first of a last line: "Uganda. Near Masaka, I think."
    The parts are of ``text``.
    """
    if not parts or any(part.role == "conclusion" for part in parts):
        return parts
    last = parts[-1]
    cut = text.rfind("\n", last.start, last.end) + 1
    above = clean(text[last.start : cut])
    if above.endswith((*".!?…。！？",)) and says_where(clean(text[cut : last.end])):  # below the last item, not of it
        item = replace(last, end=len(text[:cut].rstrip()), text=above)
        return [*parts[:-1], item, replace(last, start=cut, text=clean(text[cut : last.end]), role="conclusion")]
    first = next(i for i, part in enumerate(parts) if part.start > text.rfind("\n", 0, last.start))
    if 0 < first < len(parts) - 1 and says_where(parts[first].text):
        after = [_shows(part.text) and not says_where(part.text) for part in parts[first:]]
        ends = [
            replace(part, role="point" if shows else "conclusion")
            for part, shows in zip(parts[first:], after, strict=True)
        ]
        return [*parts[:first], *ends]
    if says_where(parts[-1].text):
        return [*parts[:-1], *_evidence_and_conclusion(text, parts[-1], _SO, first=True)]
    if _leads(parts[0].text):
        return [*_evidence_and_conclusion(text, parts[0], _BECAUSE, first=False), *parts[1:]]
    return parts


def _named(said: str) -> list[Place]:
    """The countries and what is in them that a text names."""
    return [place for place in find_places(said) if place.countries and place.kind != "continent"]


def says_where(said: str) -> bool:
    """Whether a last sentence gives the answer."""
    named = _named(said)
    says = _CONCLUDES.search(said) or (
        not _USUAL.search(said) and (_IS_HERE.search(said) or _places_first(said, named))
    )
    return bool(named and (says or nothing_left(said) or _shows_nothing(said, 0.35)) and not REFUSAL.search(said))


def _leads(said: str) -> bool:
    """Whether a first sentence gives the answer: "This is Japan", "We are in Japan, because ...", "Japan."."""
    named = _named(said)
    if not named or REFUSAL.search(said):
        return False
    start, end = named[0].span
    before = said[:start]
    here = _IS_PLACE.search(before) and not any(name not in NO_EVIDENCE for name, _, _ in mentions(before))
    return nothing_left(said) or _places_first(said, named) or bool(here and _AFTER_NAME.match(said, end))


def _shows(said: str) -> bool:
    """Whether a text has a word for evidence."""
    return any(name in EVIDENCE for name, _, _ in mentions(said))


def _evidence_and_conclusion(text: str, part: Fragment, joint: re.Pattern[str], first: bool) -> list[Fragment]:
    """A fragment as the conclusion; as a point and the conclusion where it is "red soil, so Kenya".

    Args:
        text: the whole text.
        part: of it.
        joint: what stands between evidence and conclusion.
        first: whether the evidence comes first.
    """
    at = joint.search(part.text)
    halves = (part.text[: at.start()], part.text[at.end() :]) if at else ("", "")
    said = {name for name, _, _ in mentions(halves[not first])}
    if not at or said.issubset(NO_EVIDENCE) or not find_places(halves[first]):
        return [replace(part, role="conclusion")]
    # the text still has its markdown; where that hides the joint, both get the whole span
    there = joint.search(text, part.start, part.end)
    end, start = there.span() if there else (part.end, part.start)
    roles = ("point", "conclusion") if first else ("conclusion", "point")
    return [
        replace(part, end=end, text=halves[0], role=roles[0]),
        replace(part, start=start, text=halves[1], role=roles[1]),
    ]


def _places_first(text: str, named: Sequence[Place]) -> bool:
    """Whether a text is the name of a place with remarks, as in "Malta, probably near Rabat; fairly sure"."""
    if not named or len({place.countries for place in named if place.kind == "country"}) > 1:
        return False
    start, end = named[0].span
    alone = not _WORD.findall(_BEFORE_NAME.sub("", text[:start])) and _AFTER_NAME.match(text, end)
    return bool(alone) and not _shows(text)


def nothing_left(text: str) -> bool:
    """Whether a text names places and says nothing else."""
    left = _WORD.findall(mask_places(text, " ").casefold())
    return len(left) <= 12 and find_places(text) != () and set(words()["filler"]).issuperset(left)


def _shows_nothing(text: str, unsure: float = 0.6) -> bool:
    """Whether a text that names a place says where this is, and no clue: "All this fits the coast of Peru".

    Args:
        text: a sentence.
        unsure: how likely it must be a place without evidence where it has words that are in no glossary.
    """
    if specifics(text) or _USUAL.search(text) or _shows(text):
        return False
    told = understand(mask_places(text, " "), language([text]))
    shows = any(word.concepts and not any(map(_WHEREABOUTS.match, word.concepts)) for word in told)
    if any(word.concepts and all(map(_THING.match, word.concepts)) for word in told):
        return False
    known = all(word.concepts for word in told)
    country = any(place.kind in ("country", "region") for place in find_places(text))
    bounds = [0.86 if country else 1.0, 1.0 if shows else 0.15 if known else unsure]
    return bool(kinds([text])[0, _PLACE] >= min(bounds))


def says_again(text: str, country: str) -> bool:
    """Whether a text says where this is, in the country of the conclusion, and shows nothing: "So it is Peru"."""
    return any(place.countries == (country,) for place in find_places(text)) and _shows_nothing(text)


def only_concludes(text: str) -> bool:
    """Whether a text says that this is a place, and nothing else: "So it's Poland"; not "Typical of Poland"."""
    says = _CONCLUDES.search(text) or _IS_HERE.search(text)
    return bool(says and not _USUAL.search(text) and not _INSTEAD.search(text) and nothing_left(text))


def is_place(text: str) -> bool:
    """Whether a text is the name of a country, a region or a city, with little else."""
    return nothing_left(text) and bool(_named(text))


_OPTIONS = re.compile(r"\b(?:or|oder|ou|o|oppure|of)\b|\bили\b|或|または|أو", re.IGNORECASE)
_PLACE = KINDS.index("place")
_WHEREABOUTS = re.compile(
    r"(?:place|size|num)\.|build\.(?:town|village|suburb)|own\.(?:lead|surround|regions?|zone)$|"
    r"land\.(?:coast|island|mountain|hill|plateau|valley|plain|desert|savanna|steppe|river|lake|horizon)"
)
_THING = re.compile(r"(?:own\.menu|plate\.plate|sign\.(?:flag|sign|advert)|veh\.(?:bus|car|truck|taxi|train))$")
_INSTEAD = re.compile(
    r"\b(?:rather than|instead of|as opposed to|not|unlike|although|though|but|over|statt|nicht|plutôt que|en vez de|"
    r"não|а не)\b|而不是|ではなく",
    re.IGNORECASE,
)
_SURE = re.compile(
    r"\b\d{1,3}(?:[.,]\d+)?\s?%(?: (?:sure|certain|confident))?|"
    r"\b(?:(?:very |fairly |quite |reasonably |moderately |pretty |rather |not (?:very |so |too )?|almost |absolutely )"
    r"(?:sure|certain|confident)|(?:very )?(?:high|medium|moderate|low|strong)(?:ly)? "
    r"(?:confidence|certainty|confident)|"
    r"(?:confident|certain|sicher|sûr|seguro)\b)",
    re.IGNORECASE,
)


def read_conclusion(text: str, parts: Sequence[Fragment]) -> Conclusion | None:
    """The last marked conclusion that names a country, else the last."""
    groups = [list(group) for role, group in itertools.groupby(parts, lambda part: part.role) if role == "conclusion"]
    found = [_read(text, group) for group in groups]
    return next((one for one in reversed(found) if one.country), found[-1] if found else None)


def _read(text: str, parts: Sequence[Fragment]) -> Conclusion:
    said = ", ".join(part.text for part in parts)
    decided = _INSTEAD.split(said, maxsplit=1)[0]
    decided = decided if find_places(decided) else said
    single = [place for place in find_places(decided) if len(place.countries) == 1]
    bare = (country_code(part.text.strip(" .")) for part in parts)  # a code says something where it stands alone
    country = single[0].countries[0] if single else next(filter(None, bare), None)
    others = [place for place in single if place.countries[0] != country and place.kind == single[0].kind]
    if others and _OPTIONS.search(decided, single[0].span[1], others[-1].span[0]):
        country = None  # one of several
    place = next((one.text for kind in ("city", "region") for one in single if one.kind == kind), None)
    sure = next((part.text for part in parts if part.label == "confidence"), None)
    if sure is None:
        phrase = _SURE.search(said)
        spans = [phrase.span()] if phrase else [(start, end) for name, start, end in mentions(said) if name == "hedges"]
        sure = said[slice(*spans[0])] if spans else None
    return Conclusion(said, country, place, sure, (parts[0].start, parts[-1].end))
