"""Addresses of the identity pages."""

from django.urls import path

from nousweb.console.identity.views import audit, changes, identity, tokens

urlpatterns = [
    path("agents/", identity.agents, name="agents"),
    path("agents/new/", identity.agent_new, name="agent_new"),
    path("agents/<slug:slug>/", identity.agent, name="agent"),
    path("agents/<slug:slug>/settings/", identity.agent_settings, name="agent_settings"),
    path("agents/<slug:slug>/initiate/", identity.agent_initiate, name="agent_initiate"),
    path("agents/<slug:slug>/identity/", identity.agent_identity, name="agent_identity"),
    path("agents/<slug:slug>/identity/<slug:section>/", identity.history, name="section_history"),
    path("agents/<slug:slug>/identity/<slug:section>/compare/", identity.compare, name="section_compare"),
    path("agents/<slug:slug>/identity/<slug:section>/propose/", identity.propose, name="section_propose"),
    path("agents/<slug:slug>/identity/<slug:section>/preview/", identity.preview, name="section_preview"),
    path(
        "agents/<slug:slug>/identity/<slug:section>/rollback/<int:version>/", identity.rollback, name="section_rollback"
    ),
    path("agents/<slug:slug>/connect/", tokens.agent_connect, name="agent_connect"),
    path("agents/<slug:slug>/connect/<int:pk>/", tokens.agent_connect_state, name="agent_connect_state"),
    path("agents/<slug:slug>/tokens/", tokens.agent_tokens, name="agent_tokens"),
    path("agents/<slug:slug>/tokens/<int:pk>/revoke/", tokens.agent_token_revoke, name="agent_token_revoke"),
    path("agents/<slug:slug>/tokens/<int:pk>/rotate/", tokens.agent_token_rotate, name="agent_token_rotate"),
    path("agents/<slug:slug>/changes/", changes.agent_changes, name="agent_changes"),
    path("agents/<slug:slug>/webhooks/", changes.agent_webhooks, name="agent_webhooks"),
    path("agents/<slug:slug>/webhooks/<uuid:pk>/", changes.agent_webhook, name="agent_webhook"),
    path("agents/<slug:slug>/webhooks/<uuid:pk>/edit/", changes.agent_webhook_edit, name="agent_webhook_edit"),
    path("agents/<slug:slug>/webhooks/<uuid:pk>/delete/", changes.agent_webhook_delete, name="agent_webhook_delete"),
    path("oauth/authorize", tokens.authorize, name="oauth_authorize"),
    path("clients/", tokens.clients, name="oauth_clients"),
    path("clients/<int:pk>/delete/", tokens.client_delete, name="oauth_client_delete"),
    path("integrity/", audit.integrity, name="integrity"),
    path("integrity/state/", audit.integrity_state, name="integrity_state"),
    path("integrity/verify/", audit.integrity_verify, name="integrity_verify"),
    path("audit/", audit.audit, name="audit"),
    path("audit/<int:pk>/", audit.audit_event, name="audit_event"),
]
