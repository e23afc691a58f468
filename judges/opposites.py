"""The words by which the contradiction guard tells what a text says of which thing. Tables only; English only."""

from __future__ import annotations

__all__ = [
    "ABSENT_WORDS",
    "ATTRIBUTES",
    "CLAUSE_WORDS",
    "COPULA_WORDS",
    "FOREIGN_WORDS",
    "GENERIC_WORDS",
    "NEGATION_IDIOMS",
    "NEGATORS",
    "POSITION_WORDS",
    "PREDICATE_WORDS",
    "SIDES",
    "SIDE_IDIOMS",
    "SIDE_TOPICS",
    "STOP_WORDS",
    "SYNONYMS",
    "VERBS",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A colour is the set of hues it can pass for: two colours agree where the sets meet (red soil, reddish-brown soil).
_COLOURS = {
    "red": "red", "reddish": "red", "crimson": "red", "maroon": "red brown", "orange": "orange red",
    "yellow": "yellow", "yellowish": "yellow", "gold": "yellow", "golden": "yellow", "green": "green",
    "greenish": "green", "blue": "blue", "bluish": "blue", "turquoise": "blue green", "teal": "blue green",
    "white": "white", "whitish": "white", "whitewashed": "white", "whitewash": "white",
    "cream": "white beige", "beige": "beige brown", "tan": "beige brown", "black": "black", "blackish": "black",
    "brown": "brown red orange",
    "brownish": "brown red orange", "grey": "grey", "gray": "grey", "greyish": "grey", "grayish": "grey",
    "silver": "grey", "pink": "pink", "pinkish": "pink", "purple": "purple", "violet": "purple",
}  # fmt: skip

# A material likewise; paved and unpaved are materials of a road.
_MATERIALS = {
    "wood": "wood", "wooden": "wood", "timber": "wood", "concrete": "concrete", "cement": "concrete",
    "metal": "metal", "metallic": "metal", "steel": "metal", "iron": "metal", "aluminium": "metal",
    "aluminum": "metal", "tin": "metal", "plastic": "plastic", "brick": "brick clay", "stone": "stone",
    "stucco": "stucco", "glass": "glass", "clay": "clay", "terracotta": "clay", "adobe": "clay", "thatch": "thatch",
    "thatched": "thatch", "bamboo": "bamboo", "asphalt": "paved", "tarmac": "paved", "paved": "paved",
    "sealed": "paved", "gravel": "unpaved", "unpaved": "unpaved", "unsealed": "unpaved",
}  # fmt: skip

_NUMBERS = {
    "one": "1", "single": "1", "two": "2", "double": "2", "twin": "2", "three": "3", "triple": "3", "four": "4",
    "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip

# aspect -> word -> values it can stand for; digits are numbers too.
ATTRIBUTES: dict[str, dict[str, frozenset[str]]] = {
    aspect: {word: _words(values) for word, values in table.items()}
    for aspect, table in (("colour", _COLOURS), ("material", _MATERIALS), ("number", _NUMBERS))
}

SIDES = {
    "left": "left", "right": "right", "lhd": "left", "rhd": "right", "nearside": "nearside", "offside": "offside",
    "north": "north", "south": "south", "northern": "north", "southern": "south",
}  # fmt: skip
# What a side is about, first hit in the clause; north and south count with sun and shadow only.
SIDE_TOPICS = {
    "shadow": _words("shadow"),
    "sun": _words("sun sunlight sunshine"),
    "steering": _words("steering wheel lhd rhd seat sit seated hand_drive"),
    "traffic": _words("drive driving driven traffic keep keeping travel travelling traveling"),
}
# After "left" or "right" these make it something else than a side.
SIDE_IDIOMS = _words("away now here there behind over angle angled")

NEGATORS = _words(
    """
    no not never without lack lacking lacked nor neither absence cannot devoid none absent missing forbidden prohibited
    forbid forbids prohibit prohibits
    """
)
# After a negator these make it something else than a denial.
NEGATION_IDIOMS = _words("longer matter doubt other only just necessarily wonder one")
# "X is not ...": a denial of X itself.
PREDICATE_WORDS = _words("visible present seen there used")
# A denial that is about somewhere else.
ABSENT_WORDS = _words("elsewhere outside anywhere beyond")

# Common words of languages that share some of the words above with English ("no" is "in the" in Portuguese).
FOREIGN_WORDS = _words(
    """
    de da das dos na nas nos com que os um uma não são el la los las en hay del una y con es le les des est dans avec
    der die und ist mit auf den ein eine il che di sono nel nella het een van op på och av er ligger
    """
)
STOP_WORDS = _words(
    """
    a an the this that these those some any all each every both either another such its it their there here they we
    you he she his her our i of in on at by with from to for into onto over under along across between near behind
    above below beside around through throughout about against within as than like and or but nor so if then also
    too which who whose whom what where when while whereas because since although though is are was were be been
    being am do does did has have had having can could may might must shall should will would not no without never
    somewhere very quite rather mostly often usually always sometimes only just more most much almost nearly up down
    out off far away ahead full empty per via plus however therefore thus lack lacking lacked absence cannot devoid
    none neither absent missing forbidden prohibited forbid forbids prohibit prohibits entirely completely totally
    wholly altogether
    """
)
# They end a noun phrase as a stop word does. Those that are nouns here more often (line, point, mark) are left out.
VERBS = _words(
    """
    appear seem suggest indicate show see seen find found use used cover covered covering stand standing run running
    drive driving driven keep mount mounted paint painted marked make made build built imply confirm consist include
    including contain lined surround surrounded look match matching visible present typical common located placed sit
    seated fit carry carried bear hold held rule ruled narrow write written grow growing hang hanging top topped
    resemble feature featuring
    rise rising stretch extend dominate lie reach fill climb flow lead cross form belong
    """
)

# They say nothing about which of several like things is meant.
GENERIC_WORDS = _words(
    """
    tall short thick thin slim slender big small large little old new bright dark light deep pale painted typical many
    few several long low high wide narrow round square rectangular simple plain common visible distinctive distinct
    standard local style styled coloured colored colour color licence license number registration vivid rich strong
    intense characteristic classic modern traditional broad solid utility overhead official rural
    """
)
# Said after a noun ("a line in the middle") these tell which of several like things is meant.
POSITION_WORDS = _words("edge centre side front back top bottom base foot shoulder corner curb inside outside")
# What may stand between a noun and the adjective said of it: "the poles are mostly made of wood".
COPULA_WORDS = _words(
    """
    is are was were be been look appear seem mostly often usually always entirely completely totally wholly altogether
    very deep dark bright light pale painted a an
    the all made of from in out built not never has have colour color coloured colored
    """
)
# Words that end a clause, beside punctuation.
CLAUSE_WORDS = _words("and but while whereas which because so since although though")

# One word for things that people name differently.
SYNONYMS = {
    "post": "pole", "pylon": "pole", "telegraph": "utility", "telephone": "utility", "power": "utility",
    "electric": "utility", "electricity": "utility", "electrical": "utility", "earth": "soil", "ground": "soil",
    "marking": "line", "street": "road", "highway": "road", "carriageway": "road", "motorway": "road",
    "vehicle": "car", "home": "house", "building": "house", "rooftop": "roof", "roofing": "roof",
    "delineator": "bollard", "center": "centre", "central": "centre", "middle": "centre", "rear": "back",
    "kerb": "curb", "signpost": "sign", "signage": "sign", "numberplate": "plate", "tile": "roof",
}  # fmt: skip
