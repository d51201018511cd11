"""The kinds of input and what each looks for: one table, read from the words alone, in English, German, French and
Spanish. The search ranks by it, and the inspector shows its sentence."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from memory.comparison import lexicon as w
from memory.comparison.tokenizer import VERB_FORMS
from memory.search.ranking_features import ASKS_TIME, WANTS_MANY

MIN_WORDS = 4
MAX_READ = 4_000
"""Characters of a text that are looked at."""
KEPT = 256
"""Texts whose kind a process keeps: an input is read for its intent and for its search."""


class Told(StrEnum):
    """Which candidates are relevant: those that answer, those that matter more likely than not, or none."""

    ANSWERS = "answers"
    MATTERS = "matters"
    NOTHING = "nothing"


class Shares(NamedTuple):
    """How the first items are shared, in rounds: so many are the next by the moved vector (memory.search.search), of
    the ranker, which was fitted on questions, by meaning alone and by words alone. So the search is never far below one
    of them."""

    moved: int
    ranker: int
    meaning: int
    words: int


ASKED = (Shares(0, 4, 1, 0), Shares(0, 8, 1, 1))
SAID = (Shares(8, 1, 1, 0), Shares(6, 2, 1, 1))
BOTH = (Shares(4, 4, 1, 1), Shares(4, 4, 1, 1))


@dataclass(frozen=True, slots=True)
class InputKind:
    """What an input is, and what it looks for.

    `shares`: where no item holds much of its words, and else (memory.search.ranking.WORDED).
    """

    name: str
    sentence: str
    shares: tuple[Shares, Shares] = ASKED
    told: Told = Told.ANSWERS


KINDS = {
    kind.name: kind
    for kind in (
        InputKind("small_talk", "Small talk: nothing is looked for.", told=Told.NOTHING),
        InputKind("message", "A statement of a person: looks for what matters to it.", SAID, Told.MATTERS),
        InputKind("statement", "A statement: looks for what matters to it.", SAID, Told.MATTERS),
        InputKind("told_question", "A statement of a person that asks: looks for both.", BOTH),
        InputKind("time", "A question about a time: looks for what says when."),
        InputKind("list", "A question for many: looks for all that belong together."),
        InputKind("question", "A question or a task: looks for what answers it."),
        InputKind("words", "Words or a code: looks for what holds them."),
    )
}
"""By name; codes and periods named in any of them are looked for beside it (memory.search.codes, .period)."""

_FIRST_PERSON = re.compile(
    r"(?<!\w)(?:i|i['’]\w+|me|my|mine|myself|we|we['’]\w+|us|our|ours|ich|mich|mir|mein\w*|wir|uns\w*"
    r"|je|j['’]\w+|moi|mon|ma|mes|nous|notre|nos|yo|mi|mis|m[ií]|nosotr[oa]s|nuestr[oa]s?)(?!\w)",
    re.IGNORECASE,
)
_THIRD_PERSON = re.compile(
    r"(?<!\w)(?:he|she|they|it|there|him|her|his|their|them|you|your|er|sie|ihn|ihm|ihr\w*|es|il|elle|ils|elles|on|lui"
    r"|leur|él|ella|ellos|ellas|su|sus|is|are|was|were|has|had|have|will|ist|sind|war|waren|hat|hatte|wird|est|sont"
    r"|était|está|están|era|fue|ha|hay)(?!\w)",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^\W*(?:(?:so|and|but|well|now|ok(?:ay)?|then|also|hey|hi|hello|und|aber|et|mais|alors|y|pero|entonces)[\s,]+)*"
    r"(?:please|tell|show|give|list|find|search|remind|recall|summari[sz]e|explain|describe|compare|what|when"
    r"|where|who|whom|whose|which|why|how|can|could|would|will|do|does|did|is|are|was|were|has|have|had|should"
    r"|bitte|nenne|zeige?|erkläre?|fasse|was|wann|wo|wer|welche\w*|warum|wie|kannst|könntest"
    r"|quel\w*|quand|où|qui|pourquoi|comment|dis|montre\w*|explique\w*|qué|cuándo|dónde|quién|cuál\w*|cómo|dime)\b",
    re.IGNORECASE,
)
_INDIRECT = re.compile(
    r"\b(?:(?:want|need|like) to know (?:what|when|where|who|whom|whose|which|why|how|if|whether)|i wonder (?:what|when"
    r"|where|who|which|if|whether)|(?:i forgot|not remember|n['’]t remember|not recall|n['’]t recall)"
    r" (?:what|when|where|who|whom|whose|which|how|if|whether)"
    r"|(?:möchte|will|wollte) (?:gern\w* )?wissen|frage mich|weiß nicht (?:mehr )?(?:was|wann|wo|wer|wie|welche\w*)"
    r"|(?:voudrais|veux|aimerais) savoir|me demande|quiero saber|quisiera saber|me pregunto)\b",
    re.IGNORECASE,
)
"""Questions in the form of a statement."""
_RHETORICAL = re.compile(
    r"\W*(?:who (?:knew|would have thought|would have guessed)|(?:do you )?ever (?:feel|get))\b", re.IGNORECASE
)
"""Statements in the form of a question."""
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")
_LETTERS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_HOW_ARE_YOU = re.compile(
    r"\b(?:how are you(?: doing)?|how is it going|what['’]?s up|wie geht['’]?s|wie geht es (?:dir|ihnen)|ça va"
    r"|comment (?:ça va|vas-tu|allez-vous)|qué tal|cómo est[aá]s?)\b(?:\s+(?:today|heute|aujourd['’]hui|hoy))?",
    re.IGNORECASE,
)
_SMALL_TALK = w.words("""
    thanks thank thx ty cheers appreciate appreciated grateful great good nice cool awesome perfect excellent wonderful
    fantastic brilliant lovely amazing super wow ok okay k alright right sure yes yeah yep yup no nope nah fine exactly
    indeed absolutely definitely agreed agree understood understand got helps help helpful helped sounds makes sense
    sorry apologies welcome worries problem bye goodbye hello hi hey haha hahaha lol hmm hm oh ah well please continue
    proceed wait interesting never mind danke dank vielen toll klar alles gut prima perfekt genau ja nein doch gerne
    bitte tschüss hallo moin hilft geholfen verstanden schön merci beaucoup parfait d'accord oui non bien génial bonjour
    bonsoir salut revoir bientôt demain compris gracias muchas perfecto vale genial sí claro bueno buenos buenas hola
    adiós luego entiendo entendido amable see hilarious excuse congratulations congrats guten gute später bonne
    muchísimas nada lo rock
    """)
_FILLERS = w.words("""
    a an the that this these it its it's that's thats i i'm i'll i've i'd im am is are was were be been you you're your
    u me my we us let let's lets will would do did does not don't didn't doesn't had have has one to for of on in at so
    very much really quite just now then too all and but or as with what exactly quick more again here there see talk
    speak think thought about know go going ahead ask asking take time try meant needed need found made work own mistake
    from today tomorrow tonight same way if how everyone nothing else out get keep up off course by can could should
    must may ll s t m d n't das der die den dir ihnen euch mir mich ich du sie es ist war sehr und aber auch dann bis
    morgen später schönes schönen tag abend wochenende noch mal jetzt hat für weiter c'est cela ça le la les de très je
    tu vous il est et mais à au bon bonne journée soirée nuit eso está el y pero muy mucho yo tú usted hasta mañana que
    por favor día tardes noches todo deal plan back day weekend works worked like love best done funny true night
    evening morning afternoon later soon moment next week news job point meet care idea maybe delay working report
    answers answer question explanation rest luck happy birthday guys everybody hilfe nacht right those lot bit
    """)
_BEFORE_NAMES = w.words("thanks thank bye goodbye sorry danke merci gracias")
MAX_SMALL_TALK = 24
"""Words; more than that are not only small talk."""


@lru_cache(maxsize=KEPT)
def input_kind(text: str) -> InputKind:
    """The kind of an input.

    A message or a statement neither asks nor requests anything in its last sentence. What follows a dash ("I bought a
    lamp—who am I?") is no question that waits for an answer.
    """
    text = text[:MAX_READ].strip()
    if _is_small_talk(text):
        return KINDS["small_talk"]
    *before, last = _SENTENCE_END.split(text)
    last = last.partition("—")[0]
    is_long = len(text.split()) >= MIN_WORDS
    if is_long and _RHETORICAL.match(last):
        return KINDS["message" if _FIRST_PERSON.search(text) else "statement"]
    if "?" in last or _REQUEST.match(last):
        stated = " ".join(before)
        told = len(stated.split()) >= MIN_WORDS and _FIRST_PERSON.search(stated) and not _asks(stated)
        return KINDS["told_question"] if told else _question_kind(text)
    if _REQUEST.match(text) or (_is_imperative(text) and not re.match(r"\W*i\b", text, re.I)):
        return _question_kind(text)
    if is_long and _FIRST_PERSON.search(text):
        return KINDS["told_question" if _INDIRECT.search(last) else "message"]
    if is_long and (_THIRD_PERSON.search(text) or text.endswith((".", "!", "…"))):
        return KINDS["statement"]
    return KINDS["words"]


def _asks(text: str) -> bool:
    return "?" in text or _REQUEST.match(text) is not None


def _question_kind(text: str) -> InputKind:
    for name, pattern in (("list", WANTS_MANY), ("time", ASKS_TIME)):
        if pattern.search(text):
            return KINDS[name]
    return KINDS["question"]


def _is_imperative(text: str) -> bool:
    """Whether the first word is a verb in its base form, and none that is also a past form ("Put it in a drawer")."""
    words = _LETTERS.findall(text[:80].lower())
    if len(words) < 2 or VERB_FORMS.get(words[0]) != words[0]:
        return False
    return _THIRD_PERSON.fullmatch(words[1]) is None or words[1] in ("it", "them", "her", "him", "your", "their")


def _is_small_talk(text: str) -> bool:
    """Whether all its words are those of greetings, thanks and agreement."""
    rest = _HOW_ARE_YOU.sub(" hello ", text)
    words = _LETTERS.findall(rest.lower().replace("’", "'"))
    if len(words) > 1 and words[0] in _BEFORE_NAMES and _LETTERS.findall(rest)[-1].istitle():
        words.pop()
    return (
        0 < len(words) <= MAX_SMALL_TALK
        and "?" not in rest.replace("hello ?", "")
        and not any(map(str.isdigit, rest))
        and not _SMALL_TALK.isdisjoint(words)
        and _SMALL_TALK.union(_FILLERS).issuperset(words)
    )
