"""The addresses of the site."""

from django.contrib import admin
from django.urls import include, path

from nousweb.api import api
from nousweb.mcp import mcp
from nousweb.monitoring.health import healthz, readyz
from nousweb.monitoring.metrics import metrics

handler404 = "nousweb.console.common.view_helpers.page_missing"
handler500 = "nousweb.database.outages.server_error"
# Addresses are looked for in this order: what programs call comes first.
urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
    path("api/", api.urls),
    path("mcp", mcp),
    path("", include("nousweb.access.oauth.urls")),
    # Before the stock admin, some of whose addresses it answers itself.
    path("", include("nousweb.console.urls")),
    path("admin/", admin.site.urls),
]
