"""Search hits that repeat a fact which people invalidated: prompts exclude them, whatever their memory type.

A token cannot learn an invalidated fact again (memory.services.facts.repeated_facts). An event, a decision, a
document or a longer fact, older or newer, may still contain its statement; here each of their sentences is compared
with the invalidated facts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import QuerySet

from memory.comparison.compare_facts import Kind, compare_facts
from memory.comparison.fact_snapshot import FactSnapshot
from memory.models import SAME_WORDS, Fact, scopes_overlap
from memory.persona import PersonaMemory
from memory.search.result import SearchHit
from memory.types import MEMORY_TYPES
from nousweb.lib.word_overlap import share_within, words_of

LATEST = 100
"""Maximum number of invalidated facts to compare with, the latest first."""
MIN_WORDS = 3
"""Statements with fewer words are not looked for: too short to be recognised in a longer text."""
MIN_SHARED_WORDS = 0.8
"""Minimum share of a statement's words that a text must contain to be compared with it."""
MAX_SENTENCES = 400
"""Maximum number of sentences that are read of one memory."""
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)")
_FIELD = re.compile(r"^[\w .-]{1,60}: +")
"""The name of a document's field, or of a speaker, at the start of a line."""


class InvalidatedFact(NamedTuple):
    """Content and scope keys of a fact that people invalidated."""

    content: str
    project: str
    task: str
    user: str


INVALIDATED_FACT_COLUMNS = InvalidatedFact._fields
_FACTS = Fact._meta.db_table
_NOT_AGAIN = (
    f"NOT EXISTS (SELECT 1 FROM {_FACTS} AS again WHERE again.agent_id = {_FACTS}.agent_id"  # noqa: S608
    f" AND again.persona = {_FACTS}.persona AND again.active AND {SAME_WORDS.format('again.content')}"
    f" = {SAME_WORDS.format(f'{_FACTS}.content')} AND (again.endorsed"
    f" OR (again.project, again.task, again.user_key) = ({_FACTS}.project, {_FACTS}.task, {_FACTS}.user_key)))"
)


def latest_invalidated_facts(
    view: PersonaMemory, as_of: datetime | None = None
) -> QuerySet[Fact, tuple[str, str, str]]:
    """The latest LATEST invalidated facts, except those that are active again in the same words:
    in the same scope, or verified by people.

    Values are INVALIDATED_FACT_COLUMNS. `as_of` leaves out facts that were invalidated after that moment.
    """
    rows = view.facts.filter(invalidated_at__isnull=False, active=False)
    if as_of is not None:
        rows = rows.filter(invalidated_at__lte=as_of)
    facts: QuerySet[Any, Any] = rows.extra(where=[_NOT_AGAIN])  # noqa: S610  (a constant)
    return facts.order_by("-invalidated_at", "pk").values_list(*INVALIDATED_FACT_COLUMNS)[:LATEST]


def hits_repeating_invalidated(
    view: PersonaMemory, hits: Iterable[SearchHit], invalidated: Sequence[InvalidatedFact]
) -> Mapping[tuple[str, str], str]:
    """The hits of which a sentence repeats an invalidated fact: the content of that fact, by type and id of the hit.

    Memories that a person wrote, changed or closed are left out. Runs one query for each memory type that has matches.
    """
    if not invalidated:
        return {}
    repeated = {(hit.type, hit.id): content for hit in hits if (content := _repeated_by(hit, invalidated)) is not None}
    for item_type in sorted({kind for kind, _ in repeated}):
        declared = MEMORY_TYPES.get(item_type)
        if declared is None or not any(field.name == "endorsed" for field in declared.model._meta.concrete_fields):
            continue
        ids = [key for kind, key in repeated if kind == item_type]
        endorsed = declared.model._default_manager.filter(agent=view.agent, pk__in=ids, endorsed=True)
        for key in endorsed.values_list("pk", flat=True):
            repeated.pop((item_type, str(key)), None)
    return repeated


def sentence_repeats(text: str, statement: str) -> bool:
    """Whether a sentence of `text` states the same as `statement`."""
    words = words_of(statement)
    if len(words) < MIN_WORDS or share_within(words, words_of(text)) < MIN_SHARED_WORDS:
        return False
    sentences = (
        sentence for sentence in _sentences(text) if share_within(words, words_of(sentence)) >= MIN_SHARED_WORDS
    )
    return any(_is_same_statement(statement, sentence) for sentence in sentences)


def _repeated_by(hit: SearchHit, invalidated: Sequence[InvalidatedFact]) -> str | None:
    """The content of the first of these facts that a sentence of the hit repeats, else None."""
    repeated = (
        fact.content
        for fact in invalidated
        if scopes_overlap(hit, fact) and sentence_repeats(hit.content, fact.content)
    )
    return next(repeated, None)


def _sentences(text: str) -> list[str]:
    """The sentences of a text. A sentence that begins with the name of a field or a speaker is there without it too."""
    sentences = [match.group(0).strip() for match in _SENTENCE.finditer(text)][:MAX_SENTENCES]
    return [*sentences, *(bare for sentence in sentences if (bare := _FIELD.sub("", sentence)) != sentence)]


@lru_cache(maxsize=4_096)
def _is_same_statement(statement: str, sentence: str) -> bool:
    old, new = FactSnapshot(statement), FactSnapshot(sentence)
    return compare_facts(old, new, 1.0).kind is Kind.SAME
