"""Addresses of the inbox and its items."""

from django.urls import path

from nousweb.console.inbox import decisions, proposals, reviews, views

urlpatterns = [
    path("inbox/", views.inbox, name="inbox"),
    path("inbox/change/", views.inbox_bulk, name="inbox_bulk"),
    path("inbox/undo/<uuid:batch>/", views.inbox_undo, name="inbox_undo"),
    path("inbox/filters/", views.inbox_filter_save, name="inbox_filter_save"),
    path("inbox/filters/<int:pk>/delete/", views.inbox_filter_delete, name="inbox_filter_delete"),
    path("inbox/beside/<uuid:pk>/", views.inbox_list, name="inbox_list"),
    path("inbox/<slug:item_type>/<uuid:pk>/compare/", views.inbox_compare, name="inbox_compare"),
    path("inbox/<slug:item_type>/<uuid:pk>/<slug:change>/", decisions.item_change, name="item_change"),
    path("notifications/", views.notifications, name="notifications"),
    path("notifications/read/", views.notifications_mark, name="notifications_mark"),
    path("review/", views.old_page, {"view": "identity"}, name="review"),
    path("review/memory/", views.old_page, {"view": "reviews"}, name="memory_review"),
    path("review/automatic/", views.automatic_decisions, name="automatic_decisions"),
    path("review/automatic/undo/", views.automatic_decisions_undo, name="automatic_decisions_undo"),
    path("review/memory/<uuid:pk>/", reviews.memory_review_detail, name="memory_review_detail"),
    path("review/<uuid:pk>/", proposals.proposal, name="proposal"),
    path("review/<uuid:pk>/preview/", proposals.proposal_preview, name="proposal_preview"),
]
