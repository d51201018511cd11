"""Addresses of people, their invitations and one's own account."""

from django.urls import path

from nousweb.console.people import views

urlpatterns = [
    path("people/", views.people, name="people"),
    path("people/<int:pk>/", views.person, name="person"),
    path("people/<int:pk>/deactivate/", views.person_change, {"change": "deactivate"}, name="person_deactivate"),
    path("people/<int:pk>/reactivate/", views.person_change, {"change": "reactivate"}, name="person_reactivate"),
    path("people/<int:pk>/sign-out/", views.person_change, {"change": "sign_out"}, name="person_sign_out"),
    path("people/invitations/<uuid:pk>/revoke/", views.invitation_take_back, name="invitation_revoke"),
    path("invitation/<str:secret>/", views.invitation, name="invitation"),
    path("account/", views.account, name="account"),
    path("account/mail/", views.account_mail, name="account_mail"),
    path("account/sign-out-elsewhere/", views.account_sessions_end, name="account_sessions_end"),
]
