"""Addresses of people, their invitations, one's own account and the log-in."""

from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from nousweb.access.provider_login import PROVIDER_ID, provider_callback, provider_login
from nousweb.console.people import log_in, views

urlpatterns = [
    path("login/", log_in.LogIn.as_view(), name="login"),
    path("login/code/", log_in.login_code, name="login_code"),
    path("login/oidc/", provider_login, {"provider_id": PROVIDER_ID}, name="openid_connect_login"),
    path("login/oidc/callback/", provider_callback, {"provider_id": PROVIDER_ID}, name="openid_connect_callback"),
    path("logout/", LogoutView.as_view(), name="logout"),
    # The stock admin's own log-in would ask for no second factor.
    path("admin/login/", log_in.LogIn.as_view()),
    # Its own page would let guess the old password without end, and lose sight of the session.
    path("admin/password_change/", RedirectView.as_view(pattern_name="account")),
    path("people/", views.people, name="people"),
    path("people/<int:pk>/", views.person, name="person"),
    path("people/<int:pk>/agents/", views.person_agents, name="person_agents"),
    path("people/<int:pk>/deactivate/", views.person_change, {"change": "deactivate"}, name="person_deactivate"),
    path("people/<int:pk>/reactivate/", views.person_change, {"change": "reactivate"}, name="person_reactivate"),
    path("people/<int:pk>/staff/", views.person_change, {"change": "staff_give"}, name="person_staff_give"),
    path("people/<int:pk>/staff/end/", views.person_change, {"change": "staff_take"}, name="person_staff_take"),
    path("people/<int:pk>/sign-out/", views.person_change, {"change": "sign_out"}, name="person_sign_out"),
    path(
        "people/<int:pk>/second-factor/reset/",
        log_in.person_second_factor_reset,
        name="person_second_factor_reset",
    ),
    path("people/second-factor/", log_in.second_factor_requirements, name="second_factor_requirements"),
    path("people/invitations/<uuid:pk>/revoke/", views.invitation_take_back, name="invitation_revoke"),
    path("invitation/<str:secret>/", views.invitation, name="invitation"),
    path("account/", views.account, name="account"),
    path("account/name/", views.account_change, {"change": "name"}, name="account_name"),
    path("account/mail/", views.account_change, {"change": "mail"}, name="account_mail"),
    path("account/sign-out-elsewhere/", views.account_sessions_end, name="account_sessions_end"),
    path("account/provider/", views.account_provider, name="account_provider"),
    path("account/confirm/", log_in.account_confirm, name="account_confirm"),
    path("account/second-factor/", log_in.second_factor, name="second_factor"),
    path("account/second-factor/remove/", log_in.second_factor_take_off, name="second_factor_remove"),
    path("account/second-factor/codes/", log_in.recovery_codes_new, name="recovery_codes_renew"),
]
