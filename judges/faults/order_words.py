"""How a text says where its image was taken, in several languages: patterns as data.

In the patterns HERE stands for a name of the country of the conclusion, or of a place within it, and THERE for a place
of another country.
"""

from __future__ import annotations

__all__ = ["AFTER", "BRIDGE", "DOUBT", "GLUE", "LOCATIONS", "SUBJECTS", "SUPPORTS"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# What is said to be in a place. The place follows, with nothing but words of BRIDGE between.
SUBJECTS = (
    # English
    r"\bwe(?:['’]re| are| must be| have to be| find ourselves)(?: now| currently)?(?: looking at)?\b",
    r"\bi(?:['’]m| am) (?:in|looking at)\b",
    r"\b(?:this|it|that)(?:['’]s|(?: photo| image| picture| photograph| scene| place| location| view| street|"
    r" road)?"
    r" (?:is|was|must be|has to be|can only be|will be|looks like|seems to be|appears to be|shows|depicts|"
    r"comes from))\b",
    r"\bthe (?:photo|image|picture|photograph|scene|place|location|view|shot|panorama|country|spot|answer|guess|"
    r"verdict)(?: here)?(?: is| was| shows| depicts| must be| has to be| comes from)\b",
    r"\b(?:taken|located|captured|photographed|set|shot) (?:in|near|at)\b",
    r"\bmy (?:answer|guess|pick|verdict|first guess|first impression|first thought|gut feeling) (?:is|says?)\b",
    r"^\W*(?:country|location|place) is\b",
    r"\b(?:answer|location|country|guess|verdict|final answer|prediction|result)\W{0,4}[:=]",
    r"\bi(?:['’]d| would| will|['’]ll)? (?:already |immediately |instantly )?(?:think|believe|guess|say|go with|"
    r"recogni[sz]ed?|place (?:this|it)|put (?:this|it)|am (?:sure|certain|confident)|know)\b",
    r"\bi(?:['’]m| am) (?:quite |very |fairly |pretty )?(?:sure|certain|confident|going with)\b",
    r"\b(?:must be|has to be|can only be|identified as|welcome to|greetings from)\b",
    # German
    r"\b(?:dies|das|es|hier)(?: hier)? (?:ist|muss|war|sieht aus wie|zeigt)\b",
    r"\b(?:wir|ich) (?:sind|bin|befinden uns|befinde mich)\b",
    r"\b(?:das|dieses) (?:bild|foto)(?: hier)? (?:ist|zeigt|stammt|wurde|kommt|entstand)\b",
    r"\b(?:antwort|ort|land|standort|ergebnis|tipp|vermutung)\W{0,4}:",
    r"\bmein(?:e)? (?:tipp|antwort|vermutung) (?:ist|lautet)\b",
    r"\bich (?:denke|glaube|tippe(?: auf)?|bin sicher|sage)\b",
    r"\b(?:sind|befinden) (?:wir|wir uns)\b",
    # French
    r"(?:\bc['’]est|\b(?:ceci|cela|ce) (?:est|doit être)|\bil s['’]agit|\bil doit s['’]agir)\b",
    r"\b(?:nous (?:sommes|nous trouvons)|on est|on se trouve|je suis)\b",
    r"\b(?:l['’]image|la photo|cette (?:image|photo|scène|rue|route)|la scène) (?:est|a été|provient|montre|vient|"
    r"se (?:situe|trouve))\b",
    r"\b(?:réponse|lieu|pays|localisation)\W{0,4}:",
    r"\b(?:je (?:pense|crois|dirais|suis sûre?)|ma réponse est|mon choix est)\b",
    # Spanish
    r"\b(?:esto|esta|este)(?: (?:imagen|foto|fotografía|lugar|escena|calle|carretera))? (?:es|está|debe ser|fue|"
    r"muestra|parece)\b",
    r"\b(?:la (?:imagen|foto|fotografía|escena)|el lugar) (?:es|está|fue|muestra|proviene|corresponde)\b",
    r"\b(?:estamos|nos encontramos|se trata|tiene que ser|debe ser|tomada|estoy)\b",
    r"\b(?:respuesta|lugar|país|ubicación)\W{0,4}:",
    r"\b(?:creo|pienso|diría|mi respuesta es|estoy segur[oa])\b",
    # Portuguese
    r"\b(?:isto|isso|esta|este)(?: (?:imagem|foto|fotografia|lugar|cena|rua|estrada))? (?:é|está|deve ser|foi|"
    r"mostra)(?!\w)",
    r"\b(?:a (?:imagem|foto|fotografia|cena)|o (?:lugar|local)) (?:é|está|foi|mostra|vem)(?!\w)",
    r"\b(?:trata-se|só pode ser|tem que ser|deve ser|encontramo-nos|estou)\b",
    r"\b(?:resposta|local|lugar|país|localização)\W{0,4}:",
    r"\b(?:acho|penso|acredito|diria|minha resposta é)(?!\w)",
    # Italian
    r"\b(?:questa|questo|qui|quest['’])(?: ?(?:immagine|foto|scena|luogo|strada))? (?:è|siamo|mostra|"
    r"deve essere)(?!\w)",
    r"\b(?:l['’]immagine|la foto|la scena) (?:è|mostra|proviene|è stata)(?!\w)",
    r"\b(?:siamo|ci troviamo|si tratta|dev['’]essere|deve essere)\b",
    r"\b(?:risposta|luogo|paese)\W{0,4}:",
    r"\b(?:penso|credo|direi|la mia risposta è)(?!\w)",
    # Russian
    r"(?:\bэто(?:т снимок| фото)?\b|\bмы(?: находимся)?\b|\bперед нами\b|\bдело происходит\b)",
    r"\b(?:снимок|фото(?:графия)?|изображение|кадр) (?:сделан[оа]?|снят[оа]?|из)\b",
    r"\b(?:ответ|место|страна)\W{0,4}:",
    r"\bя (?:думаю|считаю|уверена?)\b",
    # Indonesian
    r"\b(?:ini|foto ini|gambar ini|tempat ini|lokasi ini|lokasinya|jawabannya)(?: adalah| pasti| jelas| diambil|"
    r" berada|"
    r" terletak)?\b",
    r"\b(?:kita|kami|saya) (?:sedang )?(?:berada|ada)\b",
    r"\b(?:jawaban|lokasi|negara)\W{0,4}:",
    # Turkish
    r"\b(?:burası|bu (?:fotoğraf|görüntü|resim|yer|görsel)|fotoğraf|görüntü)\b",
    r"\b(?:cevap|konum|ülke|yer)\W{0,4}:",
    # Dutch
    r"\b(?:dit|het)(?: beeld)? (?:is|moet)\b",
    r"\bwe (?:zijn|bevinden ons)\b",
    # Polish
    r"\b(?:to(?: zdjęcie)? (?:jest|musi być|są)|jesteśmy|znajdujemy się)\b",
    # Japanese, Chinese, Korean: nothing but GLUE between
    r"(?:ここは|これは|場所は|この(?:写真|画像|場所|風景)は|撮影(?:地|場所)は|国は|答えは|回答[は:：]|答え[:：]|"
    r"場所[:：]|国[:：])",
    r"(?:这(?:里|張|张|幅|个)?(?:图片|照片|圖片|地方|地点|图)?(?:是|位于|在|拍摄于|拍攝於|應該是|应该是|一定是|"
    r"肯定是|显然是)|"
    r"我们(?:现在)?(?:在|位于)|我們(?:在|位於)|拍摄(?:于|地点是|地点为)|地点(?:是|为)|答案(?:是|为)?[:：]?|"
    r"位置[:：]|国家[:：])",
    r"(?:여기는|이곳은|이 사진은|장소는|정답[:：은]|위치[:：는])",
)

# What may stand between the subject and the place.
BRIDGE = _words(
    """
    in within inside at on from near of to that is was are be been being somewhere clearly definitely certainly
    obviously almost most likely probably surely very indeed simply just actually really undoubtedly evidently
    unmistakably the a an country city town village street road place region state province area part parts north
    south east west northern southern eastern western northeastern northwestern southeastern southwestern central
    rural urban coastal republic outside around taken located situated captured photographed shot photo image
    picture scene view highway small suburb suburbs outskirts capital countryside district this it we l d dell nell
    all answer for sure without doubt no question has have set me street-level residential quiet im der die das den
    dem ein eine einem einer aus bei nahe klar eindeutig sicher sicherlich wohl wahrscheinlich offensichtlich ganz
    auf stadt land dorf irgendwo aufgenommen sein dass hier es uns nördlich südlich norden süden en au aux à la le
    les un une des du de dans près clairement sûrement probablement évidemment sans doute prise pris située situé
    quelque ville pays région sud nord est ouest que ici certainement bien el los las una del cerca claramente
    seguramente probablemente obviamente sin duda tomada tomado algún lugar ciudad pueblo país región sur norte este
    oeste aquí estamos sacada o os as um uma em na nos nas do da dos perto certamente provavelmente sem dúvida
    tirada tirado cidade algum interior sul aqui il lo gli uno nel nella negli di della vicino chiaramente
    sicuramente probabilmente senza dubbio scattata scattato città paese qualche parte che qui в во на из это где то
    явно точно конечно скорее всего вероятно очевидно сделан сделано снято город страна рядом около недалеко от юге
    севере что мы находимся однозначно несомненно adalah pasti jelas tentu kemungkinan besar sebuah kota desa negara
    daerah dekat berada diambil ada suatu tempat kesinlikle açıkça muhtemelen büyük olasılıkla bir yer tam olarak
    het een zeker waarschijnlijk ergens op w jest pewno
    """
)

GLUE = r"[^\s。、，,.!?！？]{0,6}?"  # between subject and place where words are not spaced

# After the place: it is the place.
AFTER = (
    r"HERE,? (?:it is|is where|is (?:the|my|our) (?:answer|location|country|guess|pick|verdict)|is (?:certain|"
    r"obvious))\b",
    r"HERE['’]?[dt][aeı]y[ıi]z",
    r"HERE[^\s。，,]{0,4}(?:に違いない|で間違いない|で撮影|で撮られ|で撮ら)",
    r"HERE[^\s。，,]{0,6}(?:拍摄|拍的)",
    r"HERE['’]?(?:d[ae]|t[ae]) çekil",
)

# A guess that leaves others open is no commitment.
DOUBT = (
    r"\?|？|\b(?:could|might|may|maybe|perhaps|possibly|if|whether|unless|either|candidates?|options?|not|"
    r"isn['’]t|never|"
    r"rather than|considered|unlikely|könnte|vielleicht|möglicherweise|ob|falls|nicht|kein|entweder|pourrait|"
    r"peut-être|si|pas|podría|quizás?|tal vez|puede|no es|poderia|talvez|pode|não|potrebbe|forse|può|non|возможно|"
    r"может|если|не|mungkin|barangkali|jika|bukan|belki|olabilir|eğer|değil|misschien|kan|niet|może|nie|jeśli)\b|"
    r"かもしれ|可能性|だろうか|ではな|でしょうか|可能|也许|或许|不是|吗|일 수|아니"
)

# A place is named as one that something fits, not as the one.
SUPPORTS = (
    r"\b(?:common|typical\w*|usual\w*|fits?|fitting|consistent|match\w*|suggest\w*|points?|indicat\w*|similar|"
    r"resembl\w*|known|found|seen|also|typisch\w*|passt|passen|wie|üblich|typiques?|comme|fréquente?s?|típic\w*|como|"
    r"común|comum|tipic\w*|come|comune|типичн\w*|как|похож\w*|обычн\w*|khas|seperti|cocok|gibi|tipik|yaygın|zoals|jak|"
    r"typow\w*)\b|らしい|よくある|典型|常见|常見|흔"
)

# Nouns of places: "a Peruvian village" is a location, "a Peruvian bus" is not.
LOCATIONS = (
    r"(?:city|town|village|street|road|place|region|state|province|area|countryside|highway|suburb|district|"
    r"landscape|"
    r"location|scene|territory|coast|island|desert|neighbou?rhood|stadt|dorf|straße|ville|rue|ciudad|calle|"
    r"cidade|rua|città|strada)\b"
)
