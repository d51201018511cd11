"""Where everything lives."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path
from django.views.generic import RedirectView

from nousweb.access.provider_login import PROVIDER_ID, provider_callback, provider_login
from nousweb.api import api
from nousweb.console.api_reference.views import api_operation, api_reference
from nousweb.console.people.log_in import LogIn, login_code
from nousweb.mcp.views import mcp
from nousweb.monitoring.health import healthz, readyz
from nousweb.monitoring.metrics import metrics

handler404 = "nousweb.console.common.missing_pages.page_missing"
handler500 = "nousweb.database.outages.server_error"
urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
    path("api/docs", api_reference, name="api_reference"),
    path("api/docs/<str:method>/<path:path>", api_operation, name="api_operation"),
    path("api/", api.urls),
    path("mcp", mcp),
    path("", include("nousweb.access.oauth.urls")),
    # The admin's own page would let guess the old password without end, and lose sight of the session.
    path("admin/password_change/", RedirectView.as_view(pattern_name="account")),
    # Its own log-in would ask for no second factor.
    path("admin/login/", LogIn.as_view()),
    path("admin/", admin.site.urls),
    path("login/", LogIn.as_view(), name="login"),
    path("login/oidc/", provider_login, {"provider_id": PROVIDER_ID}, name="openid_connect_login"),
    path("login/oidc/callback/", provider_callback, {"provider_id": PROVIDER_ID}, name="openid_connect_callback"),
    path("login/code/", login_code, name="login_code"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", include("nousweb.console.urls")),
]
