"""Addresses of the pages of memory."""

from collections.abc import Iterator
from importlib import import_module

from django.urls import URLPattern, path

from memory.types import MEMORY_TYPES
from nousweb.console.memory.views import (
    background_jobs,
    censors,
    documents,
    endings,
    episodes,
    erasure,
    events,
    fact_changes,
    facts,
    file_runs,
    memory_health,
    procedures,
    search,
    subjects,
    working_memory,
)

AGENT = "agents/<slug:slug>/"


def _type_pages() -> Iterator[URLPattern]:
    """The list and the page of each type of memory, which the views' module of the type has."""
    for name, declared in MEMORY_TYPES.items():
        views = import_module(f"nousweb.console.memory.views.{name}s")
        key = "uuid" if declared.key_type == "uuid" else "int"
        yield path(f"{AGENT}{name}s/", getattr(views, f"agent_{name}s"), name=f"agent_{name}s")
        yield path(f"{AGENT}{name}s/<{key}:pk>/", getattr(views, f"agent_{name}"), name=f"agent_{name}")


urlpatterns = [
    *_type_pages(),
    path("lifecycle/", background_jobs.lifecycle, name="lifecycle"),
    path("lifecycle/runs/<int:pk>/retry/", background_jobs.lifecycle_retry, name="lifecycle_retry"),
    path("lifecycle/screening/", background_jobs.lifecycle_screening, name="lifecycle_screening"),
    path("lifecycle/schedules/<int:pk>/", background_jobs.lifecycle_schedule, name="lifecycle_schedule"),
    path(f"{AGENT}health/", memory_health.agent_health, name="agent_health"),
    path(f"{AGENT}health/tokens/", memory_health.agent_health_ledger, name="agent_health_ledger"),
    path(f"{AGENT}health/<slug:finding>/", memory_health.agent_health_list, name="agent_health_list"),
    path(f"{AGENT}health/<slug:finding>/changes/", memory_health.agent_health_bulk, name="agent_health_bulk"),
    path(f"{AGENT}endings/", endings.agent_endings, name="agent_endings"),
    path(f"{AGENT}supersessions/", fact_changes.agent_supersessions, name="agent_supersessions"),
    path(f"{AGENT}supersessions/<int:pk>/undo/", fact_changes.agent_supersession_undo, name="agent_supersession_undo"),
    path(f"{AGENT}subjects/", subjects.agent_subjects, name="agent_subjects"),
    path(f"{AGENT}subjects/add/", subjects.agent_subject_add, name="agent_subject_add"),
    path(f"{AGENT}subjects/<uuid:pk>/", subjects.agent_subject_thing, name="agent_subject_thing"),
    path(f"{AGENT}subjects/<uuid:pk>/beside/", subjects.agent_subject_beside, name="agent_subject_beside"),
    path(f"{AGENT}subjects/<uuid:pk>/<slug:change>/", subjects.agent_subject_change, name="agent_subject_change"),
    path(f"{AGENT}subjects/<path:subject>/", subjects.agent_subject, name="agent_subject"),
    path(f"{AGENT}search/", search.agent_search, name="agent_search"),
    path(f"{AGENT}loops/<path:loop_id>/", events.agent_loop, name="agent_loop"),
    path(f"{AGENT}events/<int:pk>/wrong/", events.agent_event_wrong, name="agent_event_wrong"),
    path(f"{AGENT}events/<int:pk>/erase/", erasure.agent_event_erase, name="agent_event_erase"),
    path(f"{AGENT}facts/add/", facts.agent_fact_add, name="agent_fact_add"),
    path(f"{AGENT}facts/<uuid:pk>/erase/", erasure.agent_fact_erase, name="agent_fact_erase"),
    path(f"{AGENT}facts/<uuid:pk>/<slug:change>/", fact_changes.agent_fact_change, name="agent_fact_change"),
    path(f"{AGENT}episodes/<uuid:pk>/edit/", episodes.agent_episode_edit, name="agent_episode_edit"),
    path(f"{AGENT}episodes/<uuid:pk>/close/", episodes.agent_episode_close, name="agent_episode_close"),
    path(f"{AGENT}documents/<uuid:pk>/erase/", erasure.agent_document_erase, name="agent_document_erase"),
    path(f"{AGENT}documents/<uuid:pk>/expiry/", documents.agent_document_expiry, name="agent_document_expiry"),
    path(f"{AGENT}documents/<uuid:pk>/<slug:change>/", documents.agent_document_change, name="agent_document_change"),
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
    path(f"{AGENT}users/", erasure.agent_users, name="agent_users"),
    path(f"{AGENT}users/<path:user>/", erasure.agent_user, name="agent_user"),
    path(f"{AGENT}working/", working_memory.agent_working, name="agent_working"),
    path(f"{AGENT}index/", search.agent_index, name="agent_index"),
    path(f"{AGENT}index/retry/", search.agent_index_retry, name="agent_index_retry"),
    path(f"{AGENT}imports/", file_runs.agent_imports, name="agent_imports"),
    path(f"{AGENT}imports/<uuid:pk>/part/", file_runs.agent_import_part, name="agent_import_part"),
    path(f"{AGENT}exports/", file_runs.agent_exports, name="agent_exports"),
    path(f"{AGENT}exports/<uuid:pk>/file/", file_runs.agent_export_file, name="agent_export_file"),
    *(
        path(f"{AGENT}{kind}s/<uuid:pk>/{address}", view, {"kind": kind, **given}, name=f"agent_{kind}{name}")
        for kind in ("import", "export")
        for address, view, given, name in (
            ("", file_runs.file_run, {}, ""),
            ("state/", file_runs.file_run, {"template": "memory/_file_run_state.html"}, "_state"),
            ("<slug:change>/", file_runs.file_run_change, {}, "_change"),
        )
    ),
    path(f"{AGENT}erase/", erasure.agent_erase_all, name="agent_erase"),
    path(f"{AGENT}erase/subject/", erasure.agent_subject_erase, name="agent_subject_erase"),
    path(f"{AGENT}erase/project/", erasure.agent_project_erase, name="agent_project_erase"),
    path(f"{AGENT}erase/user/", erasure.agent_user_erase, name="agent_user_erase"),
]
