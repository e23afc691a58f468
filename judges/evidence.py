"""What a point says of the scene, without the part of the world that it says this speaks for."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from judges.opposites import ATTRIBUTES, COPULA_WORDS, SIDES, STOP_WORDS, VERBS
from judges.places import mask_places
from judges.sentences import words

__all__ = ["MASK", "clauses", "content_words", "covers", "evidence", "specifics", "without_quotes"]

MASK = "somewhere"
"""Stands where a place was."""
LONGEST = 1000
"""Characters of a point in which the clause that names places is looked for: the search is quadratic."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What links evidence and place: "which is typical of", "proves that this is", "nur in".
_LINKING = _words(
    """
    which that this and so as is are was were be would must a an the only very sure clear unique uniquely
    typical typically common commonly found seen used known characteristic specific special native standard
    usual proof prove proves proved sign signs hallmark mean means meaning indicate indicates indicating
    indicator indicative suggest suggests suggesting point points pointing confirm confirms confirming
    demonstrate demonstrates show shows showing reveal reveals narrow narrows identify identifies exist exists
    occur occurs belong belongs consistent definitely clearly therefore thus hence strongly directly straight
    exclusively solely just nowhere else but than outside like to in of for with from at toward towards on
    alone down by it we place places set puts put key strong look looks looking tells us you being exactly
    support supports supporting further tell makes make match matches matching can fits fit happens happen
    grow grows country countries such somewhere die das der den dem es nur gibt ist sind typisch für also
    daher deshalb im aus beweist zeigt spricht deutet auf hin eindeutig kommt vor nirgends sonst als bedeutet
    heißt dass muss sein wie donc ce qui est typique de du des le la les au aux en propre à prouve que c'est
    seulement uniquement montre indique caractéristique alors signe un une exclusif nulle part ailleurs qu'au
    qu'en lo típico típica del sólo solo demuestra prueba por tanto así indica característico única único se
    ve exclusivo esto señala el los las portanto logo só no na do da prova isso em são é existe quindi tipico
    tipica della il dimostra che è sono esclusivo dunque это значит типично для только в поэтому указывает на
    характерно что доказывает есть и бывает так khas hanya di jadi ini pasti membuktikan menunjukkan bahwa
    yang ada berarti adalah ciri
    """
)
# Up to the end of the clause.
_ATTRIBUTION = re.compile(
    rf"[,;:]?(?:\s[-–—])?\s*\b(?:(?:{'|'.join(sorted(map(re.escape, _LINKING), key=len, reverse=True))})[\s,]+)+"
    rf"{MASK}\b(?!-)(?=\s*(?:$|[.,;:!?)。，]|(?:and|or|alone|only|where|but|too|as|uses?|does|has|"
    rf"und|oder|et|ou|y|e|o|и|или|dan)\b))[^.;]*",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_CLAUSE = re.compile(r"[,;:]\s|\s(?:and|with|while)\s")


@lru_cache(1 << 14)
def evidence(point: str) -> str:
    """A point with its places masked, and without the clause that names them where enough is left.

    Args:
        point: a text.

    Example:
        >>> from judges.evidence import evidence
        >>> evidence("Cars drive on the left, which is unique to Japan."), evidence("Roofs as in Japan")
        ('Cars drive on the left.', 'Roofs as in somewhere')
    """
    masked = mask_places(point, MASK)
    if len(masked) > LONGEST:
        return masked
    left = _ATTRIBUTION.sub("", masked).strip(" ,;:")
    return left if len(content_words(left)) >= 2 else masked


def clauses(text: str) -> tuple[str, ...]:
    """A text, and the parts between its commas and conjunctions that say something.

    Args:
        text: as `evidence` returns it.

    Example:
        >>> from judges.evidence import clauses
        >>> clauses("Left traffic, coconut palms.")
        ('Left traffic, coconut palms.', 'Left traffic', 'coconut palms.')
    """
    parts = [part.strip() for part in _CLAUSE.split(text)]
    return (text, *(part for part in parts if len(parts) > 1 and len(content_words(part)) >= 2))


@lru_cache(1 << 14)
def content_words(text: str) -> frozenset[str]:
    """The words that carry what a text says, by their first four letters; pairs of characters where nothing is spaced.

    Args:
        text: any text.

    Example:
        >>> from judges.evidence import content_words
        >>> sorted(content_words("The poles are yellow"))
        ['pole', 'yell']
    """
    found: set[str] = set()
    filler = _filler()
    for word in _WORD.findall(text.casefold()):
        if word[0] >= "\u2e80":
            found.update(word[i : i + 2] for i in range(max(len(word) - 1, 1)))
        elif len(word) > 2 and word not in filler:
            found.add(word[:4])
    return frozenset(found)


@lru_cache(1)
def _filler() -> frozenset[str]:
    more = _words("has have its les des der die das los las hay una del con est une ist sind und ada dan var")
    return STOP_WORDS | VERBS | COPULA_WORDS | frozenset(words()["filler"]) | more


_QUOTED = re.compile(
    r"[\"“”„«»「」『』《》]([^\"“”„«»「」『』《》]{1,80})[\"“”„«»「」『』《》]|(?<!\w)['‘‚]([^'‘’‚]{1,80})['’‘](?!\w)"
)
_LETTERS = re.compile(r"[^\W\u2e80-\ufeff]+")  # in Chinese and Japanese a code is not spaced from the words about it
_LETTER = re.compile(r"(?<=\w )[^\W\d_](?![\w'’-])")  # one alone, not the first word: "road V"; not a T-junction
_NUMBERED = re.compile(
    r"^\W*(?:\d+\s*[.:)|]\s|[一二三四五六七八九十]+[、.:.:]|第[一二三四五六七八九十]+[步点條条][、,,::]?|"
    r"(?:step|clue|point|hint|observation|schritt|hinweis|étape|indice|paso|pista|passo|indizio|stap|krok|шаг|крок|adım|"
    r"lépés|vaihe|steg|langkah|bước)\s+\d+\s*[.:)|–—-]\s)",
    re.IGNORECASE,
)


def without_quotes(text: str) -> str:
    """A text without what it quotes, and without a number at its beginning that only counts.

    Args:
        text: a point as it was written.

    Example:
        >>> from judges.evidence import without_quotes
        >>> without_quotes("2. A sign says 'Nasi Goreng'")
        'A sign says  '
    """
    return _QUOTED.sub(" ", _NUMBERED.sub("", text))


def specifics(text: str) -> frozenset[str]:
    """What a text quotes, and its numbers and codes in capital letters, casefolded: two signs differ by these alone.

    Args:
        text: a point as it was written.

    Example:
        >>> from judges.evidence import specifics
        >>> sorted(specifics("Plates begin with DK, the sign says 'Nasi Goreng' 3 km"))
        ['3', 'dk', 'nasi goreng']
    """
    text = _NUMBERED.sub("", unicodedata.normalize("NFKC", text))
    quoted = [next(filter(None, match.groups())) for match in _QUOTED.finditer(text)]
    plain = _QUOTED.sub(" ", text)
    words = _LETTERS.findall(plain)
    shouted = plain.isupper() and len(words) > 1 and any(word.isalpha() and len(word) > 3 for word in words)
    codes = [word for word in words if _is_code(word, shouted)]
    codes += [letter for letter in _LETTER.findall(plain) if letter.isupper() and letter != "I" and not shouted]
    return frozenset(said.casefold().strip() for said in (*quoted, *codes)) - {""}


def _is_code(word: str, shouted: bool) -> bool:
    """Whether a word is a number, or letters that are all capitals where others are not."""
    return any(map(str.isdecimal, word)) or (len(word) > 1 and word.isupper() and not shouted)


_LANGUAGES = _words(
    """
    cyrillic latin arabic greek hebrew khmer thai lao burmese devanagari hindi bengali tamil sinhala telugu gujarati
    urdu persian farsi armenian georgian hangul korean kanji hiragana katakana japanese chinese traditional simplified
    mongolian amharic english french german dutch spanish portuguese italian romanian catalan polish czech slovak
    hungarian finnish estonian latvian lithuanian swedish norwegian danish icelandic irish welsh russian ukrainian
    bulgarian serbian croatian slovene albanian macedonian turkish kazakh kyrgyz uzbek malay indonesian tagalog cebuano
    vietnamese swahili zulu xhosa afrikaans sotho hausa yoruba quechua guarani maori
    """
)


def covers(context: str, statement: str) -> bool:
    """Whether a text names every colour, material, side, language and letter that a statement names; in English.

    An encoder takes plates of any colour for alike, and signs in any language.

    Args:
        context: the text that may support the statement.
        statement: what is to be supported.

    Example:
        >>> from judges.evidence import covers
        >>> covers("Plates are white and yellow.", "A yellow plate"), covers("White plates", "A yellow plate")
        (True, False)
    """
    said = attributes(context)
    return all(
        any(aspect == other and values & theirs for other, theirs in said) for aspect, values in attributes(statement)
    )


@lru_cache(1 << 14)
def attributes(text: str) -> frozenset[tuple[str, frozenset[str]]]:
    """(aspect, values it can stand for) of the colours, materials, sides, languages and letters in a text.

    Args:
        text: any text.

    Example:
        >>> from judges.evidence import attributes
        >>> attributes("A wooden pole")
        frozenset({('material', frozenset({'wood'}))})
    """
    found = set()
    for word in _WORD.findall(text.casefold()):
        for aspect in ("colour", "material"):
            if word in ATTRIBUTES[aspect]:
                found.add((aspect, ATTRIBUTES[aspect][word]))
        if word in SIDES:
            found.add(("side", frozenset({SIDES[word]})))
        if word in _LANGUAGES or (len(word) == 1 and "\u007f" < word < "\u2e80" and word not in "àèéóíавиксуоя"):
            found.add(("language", frozenset({word})))
    return frozenset(found)
