"""How a text weighs other countries than the one it decides for, in several languages: as data."""

from __future__ import annotations

__all__ = ["AGAINST", "CONTRASTED", "DENIES", "WEIGHS"]

# In the clause of another country: it is a candidate, or was one.
WEIGHS = (
    r"\b(?:or|either|versus|vs|rather than|instead of|as opposed to|not|unlike|neither|nor|could|might|may|would|"
    r"consider(?:ed|ing)?|exclud\w+|rul(?:es?|ed|ing) out|eliminat\w+|dismiss\w*|reject\w*|discard\w*|candidates?|"
    r"options?|"
    r"alternatives?|possible|possibly|possibility|perhaps|maybe|thought of|thinking of|first (?:idea|guess|"
    r"thought|impression|"
    r"instinct)|initially|hypothes\w+|tempt\w*|doesn['’]t fit|does not fit|less likely|unlikely|plausible|"
    r"confus\w+|"
    r"contenders?|what about|weigh\w*)\b|\?",
    r"\b(?:oder|entweder|statt|nicht|kein\w*|könnte\w*|vielleicht|möglich\w*|scheidet|scheiden|ausgeschlossen|"
    r"ausschließ\w*|schließt|schließe|käme\w*|kommt|kommen|in frage|zuerst|zunächst|dachte|gedacht|alternativ\w*|"
    r"dagegen|"
    r"hingegen|eher|infrage|spricht|sprechen|passt|denkbar)\b",
    r"\b(?:ou|soit|plutôt|pas|pourrait|peut-être|possible|exclu\w*|écart\w*|élimin\w*|hésit\w*|d['’]abord|pensé|"
    r"alternative|"
    r"aussi|hypothèse|contrairement|candidat\w*)(?!\w)",
    r"\b(?:o|u|no|ni|podría\w*|puede|quizás?|tal vez|posible|descart\w*|exclu\w*|elimin\w*|primero|pensé|pensado|"
    r"duda\w*|"
    r"alternativa|a diferencia|en vez|en lugar|hipótesis|candidat\w*|opción|opciones)(?!\w)",
    r"\b(?:não|nem|poderia|pode|talvez|possível|descart\w*|exclu\w*|elimin\w*|primeiro|pensei|dúvida|"
    r"diferente|em vez|hipótese|candidat\w*|opção)(?!\w)",
    r"\b(?:oppure|non|né|potrebbe|forse|possibile|esclu\w*|scart\w*|elimin\w*|prima|pensato|piuttosto|"
    r"ipotesi|candidat\w*|invece|a differenza)(?!\w)",
    r"\b(?:или|либо|не|нет|мо(?:жет|гла|г|гло)|возможн\w*|исключ\w*|отпада\w*|отбр\w*|сначала|думал\w*|подумал\w*|"
    r"вариант\w*|"
    r"скорее|вместо|в отличие|кандидат\w*|сомнева\w*|рассматрива\w*|верси\w*)\b",
    r"\b(?:atau|bukan|bisa|mungkin|barangkali|awalnya|tidak|kemungkinan|dikesampingkan|dicoret|alternatif|"
    r"dibanding\w*|sempat|calon)\b",
    r"\b(?:veya|ya da|yoksa|değil|olabilir\w*|belki|ihtimal\w*|elendi|eleniyor|elenir|önce|düşün\w*|alternatif|"
    r"yerine|aksine|seçenek\w*|aday\w*|mümkün)\b",
    r"可能|かもしれ|ではな|でもな|じゃな|または|あるいは|除外|候補|迷っ|最初|考え|違う|違い|も考|"
    r"或|还是|不是|排除|候选|起初|一开始|也许|考虑|不像|而非|아니|또는|혹은|가능성|제외|후보|처음",
)

# In the clause after that of another country: it is held against the one decided for.
AGAINST = (
    r"\b(?:but|however|while|whereas|though|although|yet|aber|doch|jedoch|während|mais|cependant|tandis|pero|sino|"
    r"mientras|"
    r"mas|porém|enquanto|ma|però|mentre|но|однако|tetapi|namun|sedangkan|tapi|ama|ancak|fakat|oysa)\b|が、|が|但|"
    r"不过|지만",
)

# Named only to be held against, or to be ruled out.
CONTRASTED = (
    r"\b(?:unlike|not|rather than|instead of|as opposed to|in contrast to|different from|than|no|nicht|statt|"
    r"anders als|"
    r"im gegensatz zu|contrairement (?:à|aux?)|plutôt que|pas|a diferencia de|no|en vez de|ao contrário d\w+|não|"
    r"em vez de|a differenza"
    r" d\w+\w*|non|в отличие от|не|tidak seperti|bukan|yerine|değil|rul(?:es?|ed|ing) out|remov\w+|exclud\w+|"
    r"eliminat\w+|schließt|exclut|écarte|descarta|esclude|"
    r"исключает)(?: \w+){0,3}\s$",
)

# Directly before a demonym: "no Kenyan plates" weighs Kenya, "a German lorry" does not weigh Germany.
DENIES = (
    r"(?:\b(?:no|not|nor|neither|without|unlike|rather than|than|instead of|or|kein\w*|nicht|ohne|statt|oder|"
    r"pas(?: de| d['’])?|"
    r"sans|ou|sin|ni|sem|nem|não|non|senza|né|не|без|или|bukan|tanpa|atau))(?:\s\w+)?\s$"
)
