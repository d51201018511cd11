"""Addresses of the console: the pages of each folder beside this file."""

from django.urls import include, path

from nousweb.console.home import demo_tour_views, item_views, notification_views
from nousweb.console.home.inbox_views import inbox
from nousweb.console.home.search_views import console_search
from nousweb.console.home.views import home

urlpatterns = [
    path("", home, name="home"),
    path("inbox/", inbox, name="inbox"),
    path("inbox/change/", item_views.inbox_bulk, name="inbox_bulk"),
    path("inbox/filters/", notification_views.inbox_filter_save, name="inbox_filter_save"),
    path("inbox/filters/<int:pk>/delete/", notification_views.inbox_filter_delete, name="inbox_filter_delete"),
    path("inbox/<slug:item_type>/<uuid:pk>/<slug:change>/", item_views.item_change, name="item_change"),
    path("demo-tour/leave/", demo_tour_views.demo_tour_leave_view, name="demo_tour_leave"),
    path("demo-tour/resume/", demo_tour_views.demo_tour_resume_view, name="demo_tour_resume"),
    path("notifications/", notification_views.notifications, name="notifications"),
    path("notifications/read/", notification_views.notifications_mark, name="notifications_mark"),
    path("search/", console_search, name="search"),
    path("", include("nousweb.console.context.urls")),
    path("", include("nousweb.console.memory.urls")),
    path("", include("nousweb.console.identity.urls")),
    path("", include("nousweb.console.people.urls")),
    path("", include("nousweb.console.api_reference.urls")),
]
