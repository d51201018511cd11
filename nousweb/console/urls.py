"""Addresses of the console: the pages of each folder beside this file."""

from django.urls import include, path

from nousweb.console.home.views import demo_tour, inbox_items, notifications
from nousweb.console.home.views.home import home
from nousweb.console.home.views.inbox import inbox
from nousweb.console.home.views.search import console_search

urlpatterns = [
    path("", home, name="home"),
    path("inbox/", inbox, name="inbox"),
    path("inbox/change/", inbox_items.inbox_bulk, name="inbox_bulk"),
    path("inbox/filters/", notifications.inbox_filter_save, name="inbox_filter_save"),
    path("inbox/filters/<int:pk>/delete/", notifications.inbox_filter_delete, name="inbox_filter_delete"),
    path("inbox/<slug:item_type>/<uuid:pk>/<slug:change>/", inbox_items.item_change, name="item_change"),
    path("demo-tour/leave/", demo_tour.demo_tour_leave_view, name="demo_tour_leave"),
    path("demo-tour/resume/", demo_tour.demo_tour_resume_view, name="demo_tour_resume"),
    path("notifications/", notifications.notifications, name="notifications"),
    path("notifications/read/", notifications.notifications_mark, name="notifications_mark"),
    path("search/", console_search, name="search"),
    path("", include("nousweb.console.context.urls")),
    path("", include("nousweb.console.memory.urls")),
    path("", include("nousweb.console.identity.urls")),
    path("", include("nousweb.console.people.urls")),
    path("", include("nousweb.console.api_reference.urls")),
]
