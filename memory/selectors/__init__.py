"""Reads of memory that other apps use; `filters` narrows lists for API and console."""

from collections.abc import Mapping, Sequence

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from memory.models import GLOBAL, Fact, MemoryReview, MemoryReviewQuerySet, Subject
from memory.persona import PersonaMemory
from memory.policy import PROFILE_CATEGORIES
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents
from nousweb.lib.transactions import sql_rows

PROFILE_SEED_LIMIT = 50


def profile_texts(agent: Agent) -> Mapping[str, Sequence[str]]:
    """The actor's current profile facts as texts by category, surest first, at most 50 of each.

    Those of projects are not among them, nor what only tools, imports and the web report: an identity is in every
    prompt.
    """
    found: dict[str, list[str]] = {category: [] for category in PROFILE_CATEGORIES}
    facts = Fact.objects.current().profile().reported(False).filter(GLOBAL.q, agent=agent, persona=Persona.ACTOR)
    for category, content in facts.surest_first().values_list("category", "content"):
        if len(found[category]) < PROFILE_SEED_LIMIT:
            found[category].append(content)
    return found


MAX_CHAIN = 50
_CHAIN = """
WITH RECURSIVE older (id, step) AS (
    SELECT id, 1 FROM memory_fact WHERE agent_id = %(agent)s AND superseded_by_id = %(id)s
    UNION ALL
    SELECT fact.id, older.step + 1 FROM memory_fact fact JOIN older ON fact.superseded_by_id = older.id
    WHERE fact.agent_id = %(agent)s AND older.step < %(most)s
), newer (id, step) AS (
    SELECT superseded_by_id, 1 FROM memory_fact WHERE agent_id = %(agent)s AND id = %(id)s
        AND superseded_by_id IS NOT NULL
    UNION ALL
    SELECT fact.superseded_by_id, newer.step + 1 FROM memory_fact fact JOIN newer ON fact.id = newer.id
    WHERE fact.agent_id = %(agent)s AND fact.superseded_by_id IS NOT NULL AND newer.step < %(most)s
)
(SELECT id FROM older ORDER BY step LIMIT %(most)s) UNION ALL (SELECT id FROM newer ORDER BY step LIMIT %(most)s)
"""


def fact_chain(memory: PersonaMemory, fact: Fact) -> list[Fact]:
    """What `fact` replaced and what replaced it, with itself, in the order in which they were learned.

    At most 50 on either side, those nearest to it. Empty for a fact that stands alone.
    """
    others = [row[0] for row in sql_rows(_CHAIN, {"agent": fact.agent_id, "id": fact.pk, "most": MAX_CHAIN})]
    if not others:
        return []
    return list(memory.facts.filter(pk__in=[fact.pk, *others]).order_by("recorded_at", "id"))


def visible_reviews(by: PermissionHolder) -> MemoryReviewQuerySet:
    """The reviews of memories that `by`, a person, may know of."""
    reviews: MemoryReviewQuerySet = for_visible_agents(MemoryReview.objects.all(), by)  # type: ignore[assignment]
    return reviews if by.may(VIEW_SUBCONSCIOUS) else reviews.filter(persona=Persona.ACTOR)


def subjects_shown(memory: PersonaMemory, *, merged: bool = False) -> QuerySet[Subject]:
    """The subjects of a memory with their spellings and how many current facts are about each (`facts`).

    With `merged`, those that another one has taken up are among them.
    """
    rows = memory.rows(Subject) if merged else memory.rows(Subject).filter(merged_into__isnull=True)
    # Counted for each row that is shown, and not for all subjects before the first page of them.
    about = Fact.objects.current().filter(agent=OuterRef("agent"), subject_alias__subject=OuterRef("pk")).order_by()
    held = about.values("subject_alias__subject").annotate(number=Count("pk")).values("number")
    return rows.select_related("agent").annotate(facts=Coalesce(Subquery(held), 0)).prefetch_related("aliases")
