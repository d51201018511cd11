"""Addresses of OAuth that programs call. People give their consent in the console."""

from django.urls import path

from nousweb.access.oauth import views

urlpatterns = [
    path(".well-known/oauth-protected-resource", views.protected_resource, name="oauth_resource"),
    path(".well-known/oauth-protected-resource/mcp", views.protected_resource, name="oauth_resource_mcp"),
    path(".well-known/oauth-authorization-server", views.authorization_server, name="oauth_server"),
    path("oauth/register", views.register, name="oauth_register"),
    path("oauth/token", views.token, name="oauth_token"),
    path("oauth/revoke", views.revoke, name="oauth_revoke"),
]
