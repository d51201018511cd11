"""What people found wrong, where another memory says it again: no prompt tells it, whatever it is kept as.

A fact that people found wrong is learned by no token again (memory.services.facts.rejected_facts). Its words may still
stand in an event, a decision, a document or a longer fact, from before or since; there each sentence is compared with
it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import QuerySet

from memory.comparison.compare import Kind, compare_facts
from memory.comparison.snapshot import FactSnapshot
from memory.embedding.thresholds import UNKNOWN
from memory.models import Fact
from memory.models.facts import SAME_WORDS
from memory.models.project_scope import meet
from memory.persona import PersonaMemory
from memory.search.result import SearchHit
from memory.types import MEMORY_TYPES
from nousweb.lib.word_overlap import share_within, words_of

LATEST = 100
"""So many of what was found wrong are looked for, the latest."""
FEWEST_WORDS = 3
"""Shorter ones say too little to be recognised among other words."""
WORTH_COMPARING = 0.8
MAX_SENTENCES = 400
"""Of one memory that are read."""
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)")
_FIELD = re.compile(r"^[\w .-]{1,60}: +")
"""The name before what a field of a document, or a speaker, says."""


class FoundWrong(NamedTuple):
    """A fact that people found wrong."""

    content: str
    project: str
    task: str


FOUND_WRONG_COLUMNS = FoundWrong._fields
_FACTS = Fact._meta.db_table
_NOT_AGAIN = (
    f"NOT EXISTS (SELECT 1 FROM {_FACTS} AS again WHERE again.agent_id = {_FACTS}.agent_id"  # noqa: S608
    f" AND again.persona = {_FACTS}.persona AND again.active AND {SAME_WORDS.format('again.content')}"
    f" = {SAME_WORDS.format(f'{_FACTS}.content')})"
)


def found_wrong_facts(view: PersonaMemory, as_of: datetime | None = None) -> QuerySet[Fact, tuple[str, str, str]]:
    """The latest facts that people found wrong and have not believed again in the same words: FOUND_WRONG_COLUMNS."""
    rows = view.facts.filter(invalidated_at__isnull=False, active=False)
    if as_of is not None:
        rows = rows.filter(invalidated_at__lte=as_of)
    held: QuerySet[Any, Any] = rows.extra(where=[_NOT_AGAIN])  # noqa: S610  (a constant)
    return held.order_by("-invalidated_at", "pk").values_list(*FOUND_WRONG_COLUMNS)[:LATEST]


def repeating_found_wrong(
    view: PersonaMemory, hits: Iterable[SearchHit], wrong: Sequence[FoundWrong]
) -> Mapping[tuple[str, str], str]:
    """By type and id of those hits that say again what was found wrong, in a sentence of theirs: what it was.

    What a person wrote, changed or closed is people's word, and stays. One statement for each type of which there is
    any, none else.
    """
    if not wrong:
        return {}
    found = {(hit.type, hit.id): said for hit in hits if (said := _repeated(hit, wrong)) is not None}
    for item_type in sorted({kind for kind, _ in found}):
        declared = MEMORY_TYPES.get(item_type)
        if declared is None or not any(one.name == "endorsed" for one in declared.model._meta.concrete_fields):
            continue
        ids = [key for kind, key in found if kind == item_type]
        peoples = declared.model._default_manager.filter(agent=view.agent, pk__in=ids, endorsed=True)
        for key in peoples.values_list("pk", flat=True):
            found.pop((item_type, str(key)), None)
    return found


def sentence_repeats(text: str, wrong: str) -> bool:
    """Whether a sentence of `text` says what `wrong` says."""
    words = words_of(wrong)
    if len(words) < FEWEST_WORDS or share_within(words, words_of(text)) < WORTH_COMPARING:
        return False
    sentences = (one for one in _sentences(text) if share_within(words, words_of(one)) >= WORTH_COMPARING)
    return any(_says_the_same(wrong, one) for one in sentences)


def _repeated(hit: SearchHit, wrong: Sequence[FoundWrong]) -> str | None:
    said = (one.content for one in wrong if meet(hit, one) and sentence_repeats(hit.content, one.content))
    return next(said, None)


def _sentences(text: str) -> list[str]:
    """The sentences of a text, each without the name of a field or a speaker too."""
    plain = [found.group(0).strip() for found in _SENTENCE.finditer(text)][:MAX_SENTENCES]
    return [*plain, *(bare for each in plain if (bare := _FIELD.sub("", each)) != each)]


@lru_cache(maxsize=4_096)
def _says_the_same(wrong: str, sentence: str) -> bool:
    old, new = FactSnapshot(wrong), FactSnapshot(sentence)
    return compare_facts(old, new, 1.0, UNKNOWN).kind is Kind.SAME
