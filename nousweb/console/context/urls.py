"""Addresses of the pages of context."""

from django.urls import path

from nousweb.console.context.views import (
    agent_settings,
    compare_runs,
    consent,
    context_runs,
    expectations,
    impact,
    inspector,
    playground,
    playground_compare,
    profiles,
)

AGENT = "agents/<slug:slug>/context/"
PROFILES = "context/profiles/"

urlpatterns = [
    path(AGENT, inspector.agent_context, name="agent_context"),
    path(f"{AGENT}tokens/", inspector.agent_context_tokens, name="agent_context_tokens"),
    path(f"{AGENT}playground/", playground.agent_playground, name="agent_playground"),
    path(f"{AGENT}playground/compare/", playground_compare.agent_playground_compare, name="agent_playground_compare"),
    path(f"{AGENT}settings/", agent_settings.agent_context_settings, name="agent_context_settings"),
    path(f"{AGENT}consent/", consent.agent_consent, name="agent_consent"),
    path(
        f"{AGENT}settings/restore/<int:version>/",
        agent_settings.agent_context_settings_restore,
        name="agent_context_settings_restore",
    ),
    path(f"{AGENT}runs/", context_runs.agent_context_runs, name="agent_context_runs"),
    path(f"{AGENT}session/", context_runs.agent_context_session, name="agent_context_session"),
    path(f"{AGENT}compare/", compare_runs.agent_context_compare, name="agent_context_compare"),
    path(f"{AGENT}fingerprints/", context_runs.agent_context_fingerprints, name="agent_context_fingerprints"),
    path(f"{AGENT}blast/", impact.agent_context_impact, name="agent_context_blast"),
    path(f"{AGENT}expectations/", expectations.agent_expectations, name="agent_expectations"),
    path(f"{AGENT}expectations/check/", expectations.agent_expectations_check, name="agent_expectations_check"),
    path(f"{AGENT}expectations/demand/", expectations.agent_expectation_demand, name="agent_expectation_demand"),
    path(f"{AGENT}expectations/<uuid:pk>/", expectations.agent_expectation, name="agent_expectation"),
    path(f"{AGENT}expectations/<uuid:pk>/undo/", expectations.agent_expectation_undo, name="agent_expectation_undo"),
    path(f"{AGENT}pins/", inspector.agent_context_pins, name="agent_context_pins"),
    path(f"{AGENT}items/<slug:item_type>/<str:item_id>/", inspector.agent_context_item, name="agent_context_item"),
    path(f"{AGENT}profile/", profiles.agent_context_profile, name="agent_context_profile"),
    path(f"{AGENT}<uuid:pk>/", context_runs.agent_context_run, name="agent_context_run"),
    path(f"{AGENT}<uuid:pk>/cause/", context_runs.agent_context_cause, name="agent_context_cause"),
    path(f"{AGENT}<uuid:pk>/bisect/", compare_runs.agent_context_bisect, name="agent_context_bisect"),
    path(f"{AGENT}<uuid:pk>/outcome/", context_runs.agent_context_outcome, name="agent_context_outcome"),
    path("context/blast/proposals/", impact.selected_impact, {"of": "proposals"}, name="context_blast_proposals"),
    path("context/blast/questions/", impact.selected_impact, {"of": "questions"}, name="context_blast_questions"),
    path(PROFILES, profiles.context_profiles, name="context_profiles"),
    path(f"{PROFILES}<str:profile_slug>/", profiles.context_profile, name="context_profile"),
    path(f"{PROFILES}<str:profile_slug>/edit/", profiles.context_profile_edit, name="context_profile_edit"),
    path(f"{PROFILES}<str:profile_slug>/copy/", profiles.context_profile_copy, name="context_profile_copy"),
    path(f"{PROFILES}<str:profile_slug>/history/", profiles.context_profile_history, name="context_profile_history"),
]
