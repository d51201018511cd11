"""Addresses of the console: the pages of each folder beside this file."""

from django.urls import include, path

from nousweb.console.home.views import console_search, console_usage, demo_tour_change, home
from nousweb.console.styleguide import styleguide

urlpatterns = [
    path("", home, name="home"),
    path("usage/", console_usage, name="usage"),
    path("demo-tour/leave/", demo_tour_change, {"leaves": True}, name="demo_tour_leave"),
    path("demo-tour/resume/", demo_tour_change, {"leaves": False}, name="demo_tour_resume"),
    path("search/", console_search, name="search"),
    path("styleguide/", styleguide, name="styleguide"),
    path("", include("nousweb.console.inbox.urls")),
    path("", include("nousweb.console.context.urls")),
    path("", include("nousweb.console.memory.urls")),
    path("", include("nousweb.console.identity.urls")),
    path("", include("nousweb.console.people.urls")),
]
