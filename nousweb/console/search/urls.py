"""Addresses of the search across agents."""

from django.urls import path

from nousweb.console.search import views

urlpatterns = [path("search/", views.console_search, name="search")]
