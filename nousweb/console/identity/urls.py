"""Addresses of the identity pages."""

from django.urls import path

from nousweb.console.identity.views import (
    agents,
    audit,
    changes,
    connect,
    identity,
    integrity,
    oauth,
    tokens,
    webhooks,
)

urlpatterns = [
    path("agents/", agents.agents, name="agents"),
    path("agents/new/", agents.agent_new, name="agent_new"),
    path("agents/<slug:slug>/", agents.agent, name="agent"),
    path("agents/<slug:slug>/settings/", agents.agent_settings, name="agent_settings"),
    path("agents/<slug:slug>/initiate/", agents.agent_initiate, name="agent_initiate"),
    path("agents/<slug:slug>/identity/", identity.agent_identity, name="agent_identity"),
    path("agents/<slug:slug>/identity/<slug:section>/", identity.history, name="section_history"),
    path("agents/<slug:slug>/identity/<slug:section>/compare/", identity.compare, name="section_compare"),
    path("agents/<slug:slug>/identity/<slug:section>/propose/", identity.propose, name="section_propose"),
    path("agents/<slug:slug>/identity/<slug:section>/preview/", identity.preview, name="section_preview"),
    path(
        "agents/<slug:slug>/identity/<slug:section>/rollback/<int:version>/", identity.rollback, name="section_rollback"
    ),
    path("agents/<slug:slug>/connect/", connect.agent_connect, name="agent_connect"),
    path("agents/<slug:slug>/connect/<int:pk>/", connect.agent_connect_state, name="agent_connect_state"),
    path("agents/<slug:slug>/tokens/", tokens.agent_tokens, name="agent_tokens"),
    path("agents/<slug:slug>/tokens/<int:pk>/revoke/", tokens.agent_token_revoke, name="agent_token_revoke"),
    path("agents/<slug:slug>/tokens/<int:pk>/rotate/", tokens.agent_token_rotate, name="agent_token_rotate"),
    path("agents/<slug:slug>/changes/", changes.agent_changes, name="agent_changes"),
    path("agents/<slug:slug>/webhooks/", webhooks.agent_webhooks, name="agent_webhooks"),
    path("agents/<slug:slug>/webhooks/<uuid:pk>/", webhooks.agent_webhook, name="agent_webhook"),
    path("agents/<slug:slug>/webhooks/<uuid:pk>/edit/", webhooks.agent_webhook_edit, name="agent_webhook_edit"),
    path("agents/<slug:slug>/webhooks/<uuid:pk>/delete/", webhooks.agent_webhook_delete, name="agent_webhook_delete"),
    path("oauth/authorize", oauth.authorize, name="oauth_authorize"),
    path("clients/", oauth.clients, name="oauth_clients"),
    path("clients/<int:pk>/delete/", oauth.client_delete, name="oauth_client_delete"),
    path("integrity/", integrity.integrity, name="integrity"),
    path("integrity/state/", integrity.integrity_state, name="integrity_state"),
    path("integrity/verify/", integrity.integrity_verify, name="integrity_verify"),
    path("audit/", audit.audit, name="audit"),
    path("audit/<int:pk>/", audit.audit_event, name="audit_event"),
]
