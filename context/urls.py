"""Addresses of the context screens, and of the console's home."""

from django.urls import path

from context import views

urlpatterns = [
    path("", views.home, name="home"),
    path("agents/<slug:slug>/context/", views.agent_context, name="agent_context"),
    path("agents/<slug:slug>/context/<uuid:pk>/", views.agent_context_run, name="agent_context_run"),
]
