"""Addresses of the memory screens."""

from django.urls import path

from nousweb.console.memory.views import (
    censors,
    decisions,
    episodes,
    erasure,
    events,
    fact_changes,
    facts,
    index,
    procedures,
    reviews,
    search,
    working,
)
from nousweb.console.memory.views import (
    jobs as lifecycle,
)

AGENT = "agents/<slug:slug>/"

urlpatterns = [
    path("review/memory/", reviews.memory_review, name="memory_review"),
    path("review/memory/decide/", reviews.memory_review_bulk, name="memory_review_bulk"),
    path("review/memory/undo/<uuid:batch>/", reviews.memory_review_batch_undo, name="memory_review_batch_undo"),
    path("review/memory/<uuid:pk>/", reviews.memory_question, name="memory_question"),
    path("review/memory/<uuid:pk>/decide/", reviews.memory_question_decide, name="memory_question_decide"),
    path("review/memory/<uuid:pk>/undo/", reviews.memory_question_undo, name="memory_question_undo"),
    path("lifecycle/", lifecycle.lifecycle, name="lifecycle"),
    path("lifecycle/runs/<int:pk>/retry/", lifecycle.lifecycle_retry, name="lifecycle_retry"),
    path("lifecycle/schedules/<int:pk>/", lifecycle.lifecycle_schedule, name="lifecycle_schedule"),
    path(f"{AGENT}supersessions/", lifecycle.agent_supersessions, name="agent_supersessions"),
    path(f"{AGENT}supersessions/<int:pk>/undo/", lifecycle.agent_supersession_undo, name="agent_supersession_undo"),
    path(f"{AGENT}subjects/<path:subject>/", lifecycle.agent_subject, name="agent_subject"),
    path(f"{AGENT}search/", search.agent_search, name="agent_search"),
    path(f"{AGENT}events/", events.agent_events, name="agent_events"),
    path(f"{AGENT}events/<int:pk>/", events.agent_event, name="agent_event"),
    path(f"{AGENT}loops/<path:loop_id>/", events.agent_loop, name="agent_loop"),
    path(f"{AGENT}facts/", facts.agent_facts, name="agent_facts"),
    path(f"{AGENT}facts/add/", facts.agent_fact_add, name="agent_fact_add"),
    path(f"{AGENT}facts/<uuid:pk>/", facts.agent_fact, name="agent_fact"),
    path(f"{AGENT}facts/<uuid:pk>/erase/", erasure.agent_fact_erase, name="agent_fact_erase"),
    path(f"{AGENT}facts/<uuid:pk>/<slug:change>/", fact_changes.agent_fact_change, name="agent_fact_change"),
    path(f"{AGENT}episodes/", episodes.agent_episodes, name="agent_episodes"),
    path(f"{AGENT}episodes/<uuid:pk>/", episodes.agent_episode, name="agent_episode"),
    path(f"{AGENT}episodes/<uuid:pk>/edit/", episodes.agent_episode_edit, name="agent_episode_edit"),
    path(f"{AGENT}episodes/<uuid:pk>/close/", episodes.agent_episode_close, name="agent_episode_close"),
    path(f"{AGENT}decisions/", decisions.agent_decisions, name="agent_decisions"),
    path(f"{AGENT}decisions/<uuid:pk>/", decisions.agent_decision, name="agent_decision"),
    path(f"{AGENT}procedures/", procedures.agent_procedures, name="agent_procedures"),
    path(f"{AGENT}procedures/<uuid:pk>/", procedures.agent_procedure, name="agent_procedure"),
    path(f"{AGENT}procedures/<uuid:pk>/edit/", procedures.agent_procedure_edit, name="agent_procedure_edit"),
    path(f"{AGENT}procedures/<uuid:pk>/use/", procedures.agent_procedure_use, name="agent_procedure_use"),
    path(f"{AGENT}censors/", censors.agent_censors, name="agent_censors"),
    path(f"{AGENT}censors/add/", censors.agent_censor_add, name="agent_censor_add"),
    path(f"{AGENT}censors/bench/", censors.agent_censor_bench, name="agent_censor_bench"),
    path(f"{AGENT}censors/<uuid:pk>/", censors.agent_censor, name="agent_censor"),
    path(f"{AGENT}censors/<uuid:pk>/edit/", censors.agent_censor_edit, name="agent_censor_edit"),
    path(
        f"{AGENT}censors/<uuid:pk>/false-positive/",
        censors.agent_censor_false_positive,
        name="agent_censor_false_positive",
    ),
    path(f"{AGENT}working/", working.agent_working, name="agent_working"),
    path(f"{AGENT}index/", index.agent_index, name="agent_index"),
    path(f"{AGENT}index/retry/", index.agent_index_retry, name="agent_index_retry"),
    path(f"{AGENT}erase/", erasure.agent_erase_all, name="agent_erase"),
    path(f"{AGENT}erase/subject/", erasure.agent_subject_erase, name="agent_subject_erase"),
]
