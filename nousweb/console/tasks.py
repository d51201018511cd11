"""Background tasks that keep pages fast for large amounts of data."""

import time

from django.db.models import F, Min, Q

from context.feedback.health_score import HEALTH_BY_DAY, health_refresh, large_memories, score_keep
from identity.models import Agent, Persona
from memory.persona import VIEWS
from nousweb.console.home.context_calls import usage_refresh
from nousweb.console.home.usage import growth_refresh
from nousweb.console.inbox.query import inbox_ranks_refresh
from nousweb.console.memory.views.search import index_counts_refresh
from nousweb.lib.background import task

ROUND_SECONDS = 60
"""After this time, a round of counting does not start with another agent."""


def _health_scores_keep() -> int:
    # Those kept longest ago come first, since a round may end before all of them.
    begun, kept = time.monotonic(), 0
    agents = Agent.objects.alias(at=Min("figures__at", filter=Q(figures__name=HEALTH_BY_DAY)))
    for agent in agents.order_by(F("at").asc(nulls_first=True), "pk").iterator():
        kept += sum(score_keep(view(agent, include_quarantined=True)) for view in VIEWS.values())
        if time.monotonic() - begun > ROUND_SECONDS:
            break
    return kept


def _figures_keep() -> int:
    begun, counted = time.monotonic(), 0
    for agent in large_memories():
        for persona, view in VIEWS.items():
            health_refresh(view(agent, include_quarantined=True))
            index_counts_refresh(view(agent, include_quarantined=True))
            growth_refresh(agent, both=persona == Persona.SUBCONSCIOUS)
            usage_refresh(agent, both=persona == Persona.SUBCONSCIOUS)
        counted += 1
        if time.monotonic() - begun > ROUND_SECONDS:
            break
    if counted:
        for persona in VIEWS:
            growth_refresh(None, both=persona == Persona.SUBCONSCIOUS)
            usage_refresh(None, both=persona == Persona.SUBCONSCIOUS)
    return counted


keep_inbox_ranks = task(
    "nousweb.console.tasks.keep_inbox_ranks", "Rank items of long inboxes", inbox_ranks_refresh, minutes=2
)
keep_health_scores = task(
    "nousweb.console.tasks.keep_health_scores",
    "Keep today's health score of every memory",
    _health_scores_keep,
    minutes=60,
)
keep_figures = task(
    "nousweb.console.tasks.keep_figures", "Count large memories for the console", _figures_keep, minutes=15
)
