"""Addresses of the reference of the API."""

from django.urls import path

from nousweb.console.api_reference import views

urlpatterns = [
    path("api/docs", views.api_reference, name="api_reference"),
    path("api/docs/<str:method>/<path:path>", views.api_operation, name="api_operation"),
]
