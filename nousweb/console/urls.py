"""Addresses of the console: the pages of each folder beside this file."""

from django.urls import include, path

from nousweb.console.home.views import home

urlpatterns = [
    path("", home, name="home"),
    path("", include("nousweb.console.search.urls")),
    path("", include("nousweb.console.context.urls")),
    path("", include("nousweb.console.memory.urls")),
    path("", include("nousweb.console.identity.urls")),
    path("", include("nousweb.console.people.urls")),
]
