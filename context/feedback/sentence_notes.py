"""What each sentence of an answer has to do with the memories of its prompt, by words: no model judges its meaning."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

from context.feedback.absent_words import Spans
from context.feedback.content_words import content_words
from context.models import ContextRun
from memory.comparison.compare_facts import Kind, compare_facts
from memory.comparison.fact_snapshot import FactSnapshot
from memory.comparison.lexicon import NUMBER_WORDS, RELATIVE_TIMES
from memory.comparison.tokenizer import VERB_FORMS, base_form

WORDS_THAT_SAY_SOMETHING, WORDS_OF_A_MEMORY = 3, 2
"""Words of content; a sentence of fewer needs no memory, or shares fewer with one by chance."""
MAX_SENTENCES, MAX_MEMORIES, MAX_CHARACTERS, MAX_TOLD = 100, 4, 240, 2_000
"""Sentences of an answer that are looked at, memories that one is compared with, and the length of what is compared,
and of a memory that is read for what is done."""
MAX_COMPARED, MAX_GIVEN = 20_000, 100_000
"""Characters of an answer, and of what the agent was given, that are compared."""
Told = tuple[str, bool, set[str], str]
_OTHER_TENSES = ("done", "Says it as done."), ("coming", "Says it as still to come.")
_SENTENCE = re.compile(r"(?<!\w)(?!\d+[.)]\s)(?:[^.!?\n]|[.!?](?=\S))+[.!?]*")
_OPENING = re.compile(r"\s*(?:yes|no):\s+", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[;,]\s|\s(?:and|but|so|because|then|before|while)\s")
_TO_COME = re.compile(
    r"\b(?:will|(?:plan(?:s|ned)?|intends?|going|scheduled)\sto|next\ssteps?\b[^:;]{0,40}:)\s(be\s)?(?=([a-z]+))",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:was|were|been|has|have|had|I|we|they|he|she|you"
    r"|(?!(?:the|an?|th[aeio]\w+|my|our|your|his|her|its|all|some|any|each|every|new|old)\b)(?-i:[A-Z][a-z]+))"
    r"\s(?:already\s)?(?=([a-z]+))",
    re.IGNORECASE,
)
_OF_PLANS = {*RELATIVE_TIMES, "already", "next", "step", "plan", "schedul", "intend"}
_DENYING = {"be", "not"}
_NO_PROSE = re.compile(r"[{}<>=\|`@;]|\*\*|\[|\w\(|://|::|->|^\s*(?:#|//)")
"""Code, marks of lists and headings: of two such lines that differ neither denies the other."""
_NUMBER = re.compile(r"(\D*)(\d[\d.,:]*)(\D*)")
_UNSURE = re.compile(
    r"n['’]t\b|\?|\b(?:not|never|no|nobody|none|cannot|if|unless|would|could|should|may|might|must|can|without|almost|nearly"
    r"|maybe|perhaps|probably|partly|only|again|old|cancell?ed|postponed|when(?:ever)?|once|until|after|each|every|always)\b",
    re.IGNORECASE,
)


class Note(NamedTuple):
    """The memory (key) of which a sentence has words. `kind`: "same" if it says no more, no less and nothing else than
    a sentence of the memory, "changed" if it has another value or name or denies it, "coming" or "done" if for the
    memory that is still to come, or done, which the sentence tells the other way, else ""; `told`: that in words.
    `here` and `there`: the words of the answer and of the memory that say so."""

    key: int
    kind: str = ""
    told: str = "Shares words with it, but may say something else."
    here: str = ""
    there: str = ""


def sentence_notes(answer: str, marks: dict[int, Spans], memories: Mapping[int, str]) -> dict[int, list[Note]]:
    """By the end of each sentence of `answer` that says something its notes, none if hardly a word is in `memories`,
    and no sentence of what is too long.

    `marks` are what is known to be from a memory; those with most words of a sentence get marks there too.
    """
    if len(answer) > MAX_COMPARED or sum(map(len, memories.values())) > MAX_GIVEN:
        return {}
    parts = {key: [(one[0], _words(one[0])) for one in _SENTENCE.finditer(text)] for key, text in memories.items()}
    words = {key: set[str]().union(*(said for _, said in some)) for key, some in parts.items()}
    notes, compare, tenses = dict[int, list[Note]](), cache(_compared), cache(_tenses)
    for found in islice(_SENTENCE.finditer(answer), MAX_SENTENCES):
        start, end = found.span()
        said, marked = _words(found[0]), [key for key, spans in marks.items() if _within(spans, start, end)]
        if not marked and len(said) < WORDS_THAT_SAY_SOMETHING:
            continue
        nearest = {key: max(parts[key], key=lambda part: len(said & part[1]), default=("", set())) for key in parts}
        shared = {key: (len(said & nearest[key][1]), len(said & words[key])) for key in parts}
        most = max(shared.values(), default=(0, 0))
        best = [key for key in parts if shared[key] == most and most[1] >= WORDS_OF_A_MEMORY]
        likely = [key for key in [*best, *marked] if key in parts and 2 * shared[key][0] >= len(said)]
        compared = list(dict.fromkeys(likely))[:MAX_MEMORIES]
        has_all = {key for key in parts if said <= words[key]}
        told = {
            # A sentence of a longer text means what stands around it.
            key: Note(
                key,
                *compare(nearest[key][0], found[0], len(memories[key]) > MAX_CHARACTERS, bool(has_all - {key})),
            )
            for key in compared
        }
        certain = [key for key in best if key in told and told[key].kind]
        for key in certain or ([] if set(best) & set(marked) else best[:1]):
            if key not in marked:
                near = nearest[key][1] & said or words[key]
                own = [one for one in content_words(found[0]) if one.text in near]
                marks[key] = sorted([*marks.get(key, ()), *((start + one.start, start + one.end) for one in own)])
                marked.append(key)
        if marked or most[1] < WORDS_OF_A_MEMORY:
            notes[end] = [
                note
                if (note := told.get(key, Note(key))).kind
                else Note(key, *_other_tense(tenses(found[0]), tenses(memories[key])))
                for key in marked
            ]
    return notes


def findings_of(notes: Mapping[int, Sequence[Note]]) -> list[tuple[int, Note]]:
    """The notes of memories that say something else, with the ends of their sentences, the worst first. No sentence
    counts that another memory says too."""
    found = [
        (end, one)
        for end, some in notes.items()
        for one in some
        if one.kind in KINDS and all(other.kind != "same" for other in some)
    ]
    return sorted(found, key=lambda one: KINDS.index(one[1].kind))


KINDS = ContextRun.Finding.values


def _compared(memory: str, sentence: str, is_part: bool, is_elsewhere: bool) -> tuple[str, ...]:
    """What a sentence of a memory says of one of the answer; `is_part` of a longer text; `is_elsewhere`: another memory
    has all its words, so also its number."""
    if max(len(memory), len(sentence)) > MAX_CHARACTERS:
        return ()
    facts = FactSnapshot(memory), FactSnapshot(_OPENING.sub("", sentence, count=1))
    found = compare_facts(*facts)
    if found.kind is Kind.SAME:
        return "same", "Says the same."
    if is_part or not (_is_statement(memory) and _is_statement(sentence)):
        return ()
    if found.kind is Kind.CHANGED and not _may_be_equal(found.old_value, found.new_value):
        values = f" Here: {found.new_value}. There: {found.old_value}." if found.new_value else ""
        return "changed", f"{found.words(found.reasons[0])}{values}", sentence, memory
    codes = {reason.code for reason in found.reasons}
    (old, new), *more = {(reason.old, reason.new) for reason in found.reasons} or {("", "")}
    is_number = bool(_number(old) and _number(new)) and not is_elsewhere
    if not more and codes - {"name", "number"} == {"value"} and ("name" in codes or is_number):
        if _may_be_equal(old, new):
            return ()
        what = "name" if "name" in codes else "number"
        return "changed", f"Says it with another {what}. Here: {new}. There: {old}.", sentence, memory
    denied = [[base for text in fact.texts if (base := base_form(text)) not in _DENYING] for fact in facts]
    past = [sum(text.endswith("+ed") for text in fact.texts) for fact in facts]
    if denied[0] == denied[1] and past[0] == past[1] and sum(text == "not" for one in facts for text in one.texts) == 1:
        return "changed", "One denies what the other one says.", sentence, memory
    return ()


def _may_be_equal(old: str, new: str) -> bool:
    """Whether two values may be the same number in other words: equal ones, or one in another unit."""
    (before, number), (after, other) = _number(old) or ("", ""), _number(new) or ("", "")
    return bool(number and other) and (before != after or number == other)


def _number(text: str) -> tuple[str, str] | None:
    """What stands around the number of a value, as its unit, and the number; None without a single one."""
    # A value may be told once for each word that names it.
    text = " ".join(dict.fromkeys(text.split()))
    found = _NUMBER.fullmatch(NUMBER_WORDS.get(text.lower(), text))
    if found is None:
        return None
    number = found[2].rstrip(".,:").replace(",", "")
    return f"{found[1]}…{found[3].strip().lower()}", number.rstrip("0").rstrip(".") if "." in number else number


def _is_statement(text: str) -> bool:
    return text.rstrip().endswith((".", "!", "。", "！")) and not _NO_PROSE.search(text)


def _other_tense(here: list[Told], there: list[Told]) -> tuple[str, ...]:
    """What a memory says (`there`) of something that a sentence tells as done and that is still to come, or the other
    way round; nothing if it says both, or speaks of something else."""
    for verb, is_done, words, clause in here:
        said = {done: other for own, done, more, other in there if own == verb and words <= more}
        if said.keys() == {not is_done}:
            return *_OTHER_TENSES[is_done], clause, said[not is_done]
    return ()


def _tenses(text: str) -> list[Told]:
    """The verbs by which sentences tell for certain what is done, or still to come (False), with the other words of
    their clauses and these."""
    told: list[Told] = []
    certain = (one[0] for one in _SENTENCE.finditer(text) if len(text) <= MAX_TOLD and not _UNSURE.search(one[0]))
    for clause in (clause for sentence in certain for clause in _CLAUSE_END.split(sentence)):
        said, coming = _words(clause), [(bool(one[1]), one[2].lower()) for one in _TO_COME.finditer(clause)]
        for is_past, verb in coming or [(True, one[1].lower()) for one in _DONE.finditer(clause)]:
            form = VERB_FORMS.get(verb, verb)
            base = _words(base_form(form))
            words = said - base - _words(verb) - _OF_PLANS
            if is_past == form.endswith("ed") and len(words) > 1:
                told.append((min(base, default=verb), not coming, words, clause.strip()))
    return told


def _within(spans: Spans, start: int, end: int) -> bool:
    return any(begins < end and ends > start for begins, ends in spans)


def _words(text: str) -> set[str]:
    return {word.text for word in content_words(text)}
