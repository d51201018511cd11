"""Sentences of different shape that say the same, brought to one shape: passive, fronted phrases, possession, lists.

Each step fires only where the roles are certain; a sentence that it leaves alone is compared as it stands.
"""

from memory.comparison import lexicon as w
from memory.comparison.tokenizer import VERBS, number_free

Words = tuple[str, ...]

_ONE_SENTENCE = 40
"""Words up to which a text is taken for one sentence worth bringing into shape."""


def shaped(texts: Words) -> Words:
    """The one shape of `texts`, without articles."""
    if len(texts) > _ONE_SENTENCE or "|" in texts or "?" in texts:
        return tuple(text for text in texts if text not in w.ARTICLES)
    texts = _fronted(texts)
    texts = tuple(text for text in texts if text not in w.ARTICLES)
    texts = _wish(texts)
    texts = _listed(_active(_possessed(texts)))
    return _named_last(texts)


def _verbs(texts: Words) -> list[int]:
    return [place for place, text in enumerate(texts) if text in VERBS]


def _fronted(texts: Words) -> Words:
    """`On Mondays, the team meets` as `the team meets on Mondays`."""
    openers = w.PREPOSITIONS | {"if", "when", "whenever", "every"}
    if "," not in texts or texts[0] not in openers or texts.count(",") > 1:
        return texts
    comma = texts.index(",")
    phrase, rest = texts[:comma], texts[comma + 1 :]
    unsafe = (w.CLAUSE_WORDS | w.SPEECH_VERBS | {"to", "only", "not"}) - {","}
    if not rest or unsafe & set(rest) or len(_verbs(rest)) > 1:
        return texts
    return rest + phrase


def _wish(texts: Words) -> Words:
    """`likes to drink` as `likes drinking`."""
    for place in range(1, len(texts) - 2):
        wishing = number_free(texts[place - 1 : place])[0] in ("like", "love", "hate", "prefer")
        if texts[place] == "to" and wishing and texts[place + 1] in VERBS and "+" not in texts[place + 1]:
            return (*texts[:place], f"{texts[place + 1]}+ing", *texts[place + 2 :])
    return texts


def _possessed(texts: Words) -> Words:
    """`manager of Bob` as `Bob 's manager`, for nouns of a role."""
    if texts.count("of") != 1:
        return texts
    of = texts.index("of")
    if of == 0 or texts[of - 1] not in w.ROLE_NOUNS:
        return texts
    end = of + 1
    while end < len(texts) and texts[end] not in w.CLAUSE_WORDS | w.PREPOSITIONS | VERBS | {"'s"}:
        end += 1
    owner = texts[of + 1 : end]
    if not owner or (end < len(texts) and texts[end] == "'s"):
        return texts
    return (*texts[: of - 1], *owner, "'s", texts[of - 1], *texts[end:])


def _active(texts: Words) -> Words:
    """`Bob is managed by Alice` as `Alice manages Bob`."""
    if texts.count("by") != 1 or (w.QUANTIFIERS | w.CLAUSE_WORDS) & set(texts):
        return texts
    by = texts.index("by")
    if by < 3 or not texts[by - 1].endswith("+ed") or texts[by - 1] not in VERBS:
        return texts
    if texts[by - 2] in ("be", "be+pl", "be+ed", "be+pl+ed"):
        past, subject, negated = texts[by - 2].endswith("+ed"), texts[: by - 2], False
    elif texts[by - 2] == "not" and by > 3 and texts[by - 3] in ("be", "be+pl"):
        past, subject, negated = False, texts[: by - 3], True
    else:
        return texts
    # A noun may look like a verb ("the release"); only verbs that take a clause can stand before another verb here.
    verbs = w.SPEECH_VERBS | {"be", "have"} | {text for text in subject if text.endswith(("+ed", "+ing"))}
    if set(subject) & (w.PREPOSITIONS | verbs | w.NEGATIONS | w.MODALS):
        return texts
    end = by + 1
    while end < len(texts) and texts[end] not in w.PREPOSITIONS | VERBS:
        end += 1
    agent = texts[by + 1 : end]
    if not agent:
        return texts
    verb = texts[by - 1]
    if not past:
        many = agent[-1].endswith("s") or agent[-1] in ("they", "them", "people", "children")
        verb = verb.removesuffix("+ed") + ("" if many or negated else "+s")
    return (*agent, *(("not",) if negated else ()), verb, *subject, *texts[end:])


def _listed(texts: Words) -> Words:
    """`tea and coffee` as `coffee and tea`, where nothing but the pair itself hangs on it."""
    if texts.count("and") != 1 or set(texts) & (w.CLAUSE_WORDS - {"and"}) or "respectively" in texts:
        return texts
    place = texts.index("and")
    if place == 0 or place + 1 >= len(texts):
        return texts
    one, other = texts[place - 1], texts[place + 1]
    plain = not ({one, other} & (VERBS | w.PREPOSITIONS | w.NEGATIONS | w.QUANTIFIERS | {"'s"}))
    alone_last = place + 2 == len(texts) and place >= 2 and texts[place - 2] in (VERBS | {"with", "in", "to", "and"})
    alone_first = place == 1 and len(texts) > 3 and texts[3] in VERBS and texts.count(one) == 1
    if plain and (alone_last or alone_first) and one > other:
        return (*texts[: place - 1], other, "and", one, *texts[place + 2 :])
    return texts


def _named_last(texts: Words) -> Words:
    """`Alice is Bob's manager` as `Bob's manager is Alice`: identity holds both ways."""
    if texts.count("be") != 1 or set(texts) & (w.CLAUSE_WORDS | w.QUANTIFIERS | w.MODALS | w.NEGATIONS):
        return texts
    place = texts.index("be")
    left, right = texts[:place], texts[place + 1 :]
    if not left or not right or len(_verbs(texts)) != 1 or set(texts) & w.PREPOSITIONS:
        return texts
    if "'s" in right and "'s" not in left and right[-1] in w.ROLE_NOUNS:
        return (*right, "be", *left)
    return texts
