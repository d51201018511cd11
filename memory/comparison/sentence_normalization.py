"""Normalise sentences of different form with the same meaning to one form: passive, fronted phrases, wishes, lists.

Each step fires only where the roles are certain; a sentence that it leaves alone is compared as it stands.
"""

import re

from memory.comparison import lexicon as w
from memory.comparison.tokenizer import VERBS

_MAX_WORDS = 40
_WISH = re.compile(r"\b((?:like|love|hate|prefer)(?:\+s)?) to (\w+)(?= )")
_WISH_FORM = r"\1 \2+ing"
_PROGRESSIVE = re.compile(r"(?<!\S)be(?:\+pl)? (\w+)\+ing ")
"""`is running`, which says now what `runs` says."""
_PASSIVE = re.compile(r"(.+) be(?:\+pl)?(\+ed)? (?:(\w+)\+ed by|(store|host|hold)\+ed in) (.+)")
"""`is stored in`, too, says of a place what it does."""
_DAYS = w.MONTHS.keys() | w.words(
    "monday tuesday wednesday thursday friday saturday sunday day week month year morning evening"
)
_NEEDED = re.compile(r"(.+) be(?:\+pl)? (need|require)\+ed (?:to (\w+)|for (\w+)\+ing) (.+)")
"""`is needed to delete`, which `deleting needs`."""
_LIST = re.compile(r"(?:(.+) )?(\S+) and (\S+)(?: (.+))?")


def canonical(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The one shape of `texts`, without articles."""
    if len(texts) > _MAX_WORDS or {"|", "?"} & set(texts):
        return tuple(text for text in texts if text not in w.ARTICLES)
    words = " ".join(text for text in _fronted(texts) if text not in w.ARTICLES)
    # "likes to drink" as "likes drinking"
    words = _PROGRESSIVE.sub(r"\1+s ", f"{_WISH.sub(_WISH_FORM, words)} ").strip()
    return tuple(_listed(_active(_needing(words))).split())


def _fronted(texts: tuple[str, ...]) -> tuple[str, ...]:
    """`On Mondays, the team meets` as `the team meets on Mondays`."""
    if texts[:1] == () or texts[0] not in w.PREPOSITIONS | {"if", "when", "whenever", "every"}:
        return texts
    comma = texts.index(",") if texts.count(",") == 1 else _end_of_time(texts)
    if not comma:
        return texts
    rest = texts[comma:] if texts[comma] != "," else texts[comma + 1 :]
    clauses = texts[comma] == "," and sum(text in VERBS for text in rest) > 1
    unsafe = (w.CLAUSE_WORDS | {"to", "not"}) & set(rest) or clauses
    return texts if unsafe else rest + texts[:comma]


def _end_of_time(texts: tuple[str, ...]) -> int:
    """The number of words of a time in front of a sentence without a comma ("every Friday", "after 30 days"), or 0."""
    size = 3 if texts[1:2] and texts[1].isdigit() else 2
    is_time = len(texts) > size + 2 and texts[size - 1].removesuffix("s") in _DAYS and "," not in texts
    return size if is_time and texts[size] not in w.PREPOSITIONS else 0


def _needing(words: str) -> str:
    """`Two approvals are needed to delete projects` as `deleting projects needs two approvals`."""
    needed = _NEEDED.fullmatch(words)
    if not needed or (w.CLAUSE_WORDS | w.NEGATIONS | w.MODALS) & {*needed[1].split(), *needed[5].split()}:
        return words
    return f"{needed[3] or needed[4]}+ing {needed[5]} {needed[2]}+s {needed[1]}"


def _active(words: str) -> str:
    """`Bob is managed by Alice` as `Alice manages Bob`."""
    passive = _PASSIVE.fullmatch(words)
    if not passive or (w.QUANTIFIERS | w.CLAUSE_WORDS | {"by"}) & {*passive[1].split(), *passive[5].split()}:
        return words
    subject, past, verb, texts = passive[1], passive[2], passive[3] or passive[4], passive[5].split()
    end = next((place for place, text in enumerate(texts) if text in w.PREPOSITIONS | VERBS), len(texts))
    # A noun may look like a verb ("the release"), but not in these forms.
    verbs = any(text in ("be", "have") or text.endswith(("+ed", "+ing")) for text in subject.split())
    unsafe = set(subject.split()) & (w.PREPOSITIONS | w.NEGATIONS | w.MODALS)
    if not end or verbs or unsafe or f"{verb}+ed" not in VERBS:
        return words
    many = texts[end - 1].endswith("s") or texts[end - 1] in ("they", "them", "people", "children")
    return " ".join((*texts[:end], verb + (past or ("" if many else "+s")), subject, *texts[end:]))


def _listed(words: str) -> str:
    """`tea and coffee` as `coffee and tea`, where nothing but the pair itself hangs on it."""
    pair = _LIST.fullmatch(words)
    if not pair or (w.CLAUSE_WORDS & set(words.replace(" and ", " ", 1).split())):
        return words
    before, one, other, after = pair.groups(default="")
    plain = not {one, other} & (VERBS | w.PREPOSITIONS | w.NEGATIONS | w.QUANTIFIERS | {"'s"})
    last = not after and set(before.split()[-1:]) <= VERBS | {"with", "in", "to"}
    if not plain or not (last or (not before and after.split()[0] in VERBS)):
        return words
    return " ".join(filter(None, (before, min(one, other), "and", max(one, other), after)))
