"""The memory type of facts, whose former states are in their history."""

from memory.models import Fact, ItemType
from memory.models.project_scope import tier_of
from memory.types.index_entry import IndexEntry
from memory.types.memory_type import OF_AGENT, MemoryType
from memory.types.standing_instructions import standing_of


def _entry(fact: Fact) -> IndexEntry:
    return IndexEntry(
        agent_id=fact.agent_id,
        persona=fact.persona,
        item_type=ItemType.FACT,
        item_id=str(fact.pk),
        text=fact.content,
        happened_at=fact.valid_from or fact.recorded_at,
        recorded_at=fact.recorded_at,
        kind=fact.kind,
        category=fact.category,
        scope=tier_of(fact.scope, fact.project, fact.task),
        project=fact.project,
        task=fact.task,
        subject=fact.subject,
        tags=fact.tags,
        importance=fact.importance,
        active=fact.active,
        retired_at=fact.retired_at,
        valid_from=fact.valid_from,
        valid_until=fact.valid_until,
        standing=standing_of(fact.content),
        trust=fact.trust,
        held=fact.held,
    )


def _text(fact: Fact) -> str:
    return fact.content


def _words(fact: Fact) -> tuple[str, ...]:
    return (fact.subject, fact.attribute, fact.value, fact.content, fact.source, *fact.tags)


FACT = MemoryType(
    ItemType.FACT,
    Fact,
    _entry,
    _text,
    text_sql="content",
    words=_words,
    about=("subject", "category", "kind", "confidence", "source", "valid_from", "valid_until"),
    source_sql="source",
    subject_sql="(SELECT thing.name FROM memory_subjectalias AS spelling JOIN memory_subject AS thing"  # noqa: S608
    " ON thing.id = spelling.subject_id AND thing.agent_id = spelling.agent_id"
    f" WHERE spelling.agent_id = {OF_AGENT} AND spelling.id = subject_alias_id)",
    tokens_may=("view", "add"),
)
