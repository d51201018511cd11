"""Pairs of sentences that cannot both hold: the same words with the opposite polarity, or with another number."""

from collections.abc import Sequence

from memory.comparison import lexicon as w
from memory.comparison.clauses import clauses_of
from memory.comparison.slots import singular
from memory.comparison.tokenizer import VERBS, Token, number_free

Texts = tuple[str, ...]
GAP = "…"
"""In place of the number of a sentence."""
_MAX_WORDS = 40
_DROPPED = w.ARTICLES | w.words("do does did now still already currently any_more anymore longer any more always ,")
_NEGATED = w.words("not never no none")
_BEFORE_COUNT = VERBS | w.PREPOSITIONS | w.QUANTIFIERS | w.ARTICLES | w.words("max minimum maximum")
_BY_DATE = w.words("be start end open close expire launch renew begin")
_AFFIRMED = w.mapping("can/must=may love/enjoy=like")
_DENIABLE = {*w.REVERSED.values(), *_AFFIRMED, *_AFFIRMED.values()}


def reversed_sentence(olds: Sequence[Token], news: Sequence[Token]) -> tuple[str, str] | None:
    """The reversal in the new sentence, as (old words, new words); None if there is none."""
    if max(len(olds), len(news)) > _MAX_WORDS:
        return None
    old = _polarity(tuple(olds))
    for clause in clauses_of(news):
        positive, core = _polarity(clause)
        if len(core) > 1 and core == old[1] and positive != old[0]:
            return _written(olds), _written(clause)
    return None


def _written(tokens: Sequence[Token]) -> str:
    return " ".join(token.raw for token in tokens)[:200]


def _polarity(tokens: Sequence[Token]) -> tuple[bool, Texts]:
    """Whether a sentence affirms, and its words without those that affirm or deny."""
    positive = True
    core: list[str] = []
    texts = [text if text in _DROPPED else singular(text) for text in number_free(token.text for token in tokens)]
    skip = 0
    for at, text in enumerate(texts):
        if skip:
            skip -= 1
            continue
        base = text.partition("+")[0]
        if text in _NEGATED:
            positive = not positive
        elif base in ("stop", "quit", "cease") and "+ing" in "".join(texts[at + 1 : at + 2]):
            positive = not positive
            if core and core[-1] in ("have", "be"):
                core.pop()
        elif texts[at : at + 3] in (["be", "allow+ed", "to"], ["be", "permit+ted", "to"]):
            core.append("may")
            skip = 2
        elif text in _DROPPED or (text == "be" and "".join(texts[at + 1 : at + 2]).endswith("+ing")):
            continue
        elif base in w.REVERSED:
            positive = not positive
            core.append(w.REVERSED[base])
        else:
            core.append(_AFFIRMED.get(base, base) if base in _DENIABLE else text.removesuffix("+ing"))
    return positive, tuple(core)


def changed_number(olds: Texts, news: Texts) -> tuple[Texts, str, str] | None:
    """Another number in the same present sentence: this with a gap, the old number and the new one; else None."""
    one, other = _present(olds), _present(news)
    if not one or len(one) != len(other) or len(one) > _MAX_WORDS:
        return None
    places = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
    if len(places) != 1:
        return None
    at = places[0]
    before = [text for text in one[:at] if text in VERBS]
    if not (before and _is_number(one[at]) and _is_number(other[at])):
        return None
    runs = not {"run", "use"}.isdisjoint(one[max(0, at - 3) : at])
    named = not runs and one[at - 1] not in _BEFORE_COUNT
    dated = one[at].startswith("d:") and before[0] not in _BY_DATE
    # "Ticket 12" is another ticket; a date says when one event of many is; "1.2.3" is "1.2" more exactly.
    if named or dated or one[at].startswith(other[at]) or other[at].startswith(one[at]):
        return None
    return (*one[:at], GAP, *one[at + 1 :]), one[at], other[at]


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or (text[:2] in ("d:", "t:") and "?" not in text[:3])


def _present(texts: Texts) -> Texts:
    """The words of a sentence in the present tense, without what compares with before; () for another tense."""
    kept = [singular(text) for text in number_free(texts) if text not in w.ARTICLES | {"now", "currently", "only"}]
    if "instead" in kept:
        kept = kept[: kept.index("instead")]
    past = any(text.endswith("+ed") and (not at or kept[at - 1] != "be") for at, text in enumerate(kept))
    return () if past or "?" in kept or {*kept} & (w.MODALS - {"need", "need+s", "want"}) else tuple(kept)


def exclusive_states(olds: Texts, news: Texts) -> tuple[str, str] | None:
    """The two states that exclude each other, if they are the only difference of the texts; else None."""
    one, other = _present(olds), _present(news)
    if len(one) != len(other) or len(one) < 2:
        return None
    differing = [(left, right) for left, right in zip(one, other, strict=True) if left != right]
    if len(differing) != 1:
        return None
    left, right = differing[0]
    groups = {w.EXCLUSIVE_STATES.get(left, ""), w.EXCLUSIVE_STATES.get(right, "-")}
    return (left, right) if len(groups) == 1 else None
