"""Addresses of the memory screens."""

from django.urls import path

from memory import views

urlpatterns = [
    path("agents/<slug:slug>/facts/", views.agent_facts, name="agent_facts"),
    path("agents/<slug:slug>/facts/add/", views.agent_fact_add, name="agent_fact_add"),
]
