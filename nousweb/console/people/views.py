"""People: their access, roles and sessions; invitations; and one's own account."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.models import User
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, CharField, OuterRef, TextField, Value, When
from django.db.models.functions import Cast
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from identity.models import Agent, ApiToken, AuthorFields, Invitation, MailPreference
from identity.principal import Principal
from identity.services.accounts import provider_linked
from identity.services.audit import person_of
from identity.services.people import (
    invitation_accept,
    invitation_create,
    invitation_find,
    invitation_revoke,
    owner_check,
    person_active_set,
    person_agents_set,
    person_password_set,
    person_role_set,
    person_staff_set,
    sessions_end,
    sessions_of,
)
from identity.services.personal_settings import mail_preference_set, person_name_set
from identity.services.second_factors import recovery_codes_left
from nousweb.access.log_in import BACKEND, people_with_access, sign_in_note
from nousweb.access.provider_login import CONNECT
from nousweb.access.roles import role_of
from nousweb.console.common import (
    FORM,
    POST,
    Column,
    ListExport,
    ListPage,
    Title,
    act,
    export_format,
    form_page,
    keyset_rows,
    list_export,
    page,
    principal_of,
    refused_on,
)
from nousweb.console.people.forms import (
    ROLE_WORDS,
    ROLES,
    AcceptForm,
    AgentsForm,
    InvitationForm,
    MailForm,
    NameForm,
    OwnPasswordForm,
    PeopleFilter,
    RoleForm,
)
from nousweb.console.templatetags.console import day
from nousweb.console.templatetags.parts import badge, goto, time_of
from nousweb.lib.errors import Invalid

INVITATIONS_SHOWN = 50
FEW = 8
"""Accounts that need no views of a part of them."""
POWERFUL = (Invitation.OWNER, "Administrator")
"""The roles whose accounts should have a second factor even where none is required."""
PEOPLE = ListExport(
    "People",
    (
        "id",
        "username",
        ("full_name", User.get_full_name),
        "email",
        ("role", role_of),
        ("second_factor", lambda person: person.has_second_factor),
        "is_active",
        "last_login",
        "date_joined",
    ),
)
AGENTS_NAMED = 2
"""Agents that a row names before it counts them."""


def _two_lines(first: Any, second: str) -> Any:
    return format_html('{}<span class="muted row-detail">{}</span>', first, second)


def _second_factor_told(person: Any) -> Any:
    """Whether the account has one, and of one's own what can be done about its absence."""
    if isinstance(person, Invitation):
        return ""
    if person.has_second_factor or not person.is_active:
        return badge("On", "ok") if person.has_second_factor else badge("Off")
    advised = "advised for this role" if role_of(person) in POWERFUL else ""
    why = "required at the next page that they open" if person.needs_second_factor else advised
    state = badge("Off", "warn" if why else "neutral")
    offered = [goto("Set up", "second_factor")] if person.is_oneself else _reminders(person)
    return _two_lines(format_html("{} {}", state, format_html_join(" · ", "{}", ([one] for one in offered))), why)


def _reminders(person: Any) -> list[Any]:
    """How an owner asks a person to set up a second factor: by a mail of one's own."""
    mail = {"subject": "Your log-in to Nous", "body": f"Please set up a second factor: {person.second_factor_url}"}
    address = f"mailto:{quote(person.email, '@')}?{urlencode(mail, quote_via=quote)}"
    return [goto("Remind by mail", address)] if person.email else []


def _access_told(person: Any) -> Any:
    """When somebody last logged in, and by what their access goes on: sessions, and tokens that they made."""
    if isinstance(person, Invitation):
        return _two_lines("Not accepted yet", f"expires {day(person.expires_at)}")
    held = ((len(person.sessions), "session"), (len(person.tokens), "token"))
    told = ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in held if number)
    return _two_lines(time_of(person.last_login), told)


def _agents_told(person: Any) -> str:
    if isinstance(person, Invitation) or person.limited_to is None:
        return "All"
    if not person.limited_to:
        return "None"
    return ", ".join(person.agents) if len(person.agents) <= AGENTS_NAMED else f"{len(person.agents)} agents"


LIST = ListPage(
    title="People",
    noun="account",
    empty="",
    moment="date_joined",
    numbered=True,
    template="people/people.html",
    row=Title(
        lambda person: (
            person.note or "Not named" if isinstance(person, Invitation) else person.get_full_name() or person.username
        ),
        url=lambda person: (
            "?view=invitations" if isinstance(person, Invitation) else reverse("person", args=[person.pk])
        ),
        badges=lambda person: (
            [("accent", "invited")]
            if isinstance(person, Invitation)
            else [("key", person.username)] * bool(person.get_full_name())
            + [("tag", "You")] * person.is_oneself
            + [("neutral", "deactivated")] * (not person.is_active)
        ),
        detail=lambda person: (
            f"by {person.created_by}, {day(person.created_at)}" if isinstance(person, Invitation) else person.email
        ),
        initials=True,
    ),
    columns=(
        Column("Role", look="people/_person_role.html"),
        Column("Agents", _agents_told),
        Column("Second factor", _second_factor_told),
        Column("Last log-in", _access_told),
        Column("Actions", look="people/_person_actions.html"),
    ),
)
INVITATIONS = replace(
    LIST, noun="invitation", empty="An invitation is a link by which one person gets an account.", is_exported=False
)
"""All that there were, in a table of their own; the open ones stand among the accounts too."""
VIEWS = {"": "Everybody", "without": "Without second factor", "invitations": "Invitations"}
STATE_BADGES = {"open": "accent", "accepted": "ok", "revoked": "neutral", "expired": "neutral"}


@page(owner_check, methods=FORM)
def people(request: HttpRequest, by: Principal) -> HttpResponseBase:
    """Everybody with an account, and the invitations; a POST makes one and shows its link this once."""
    form = InvitationForm(_posted(request))
    context: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        with refused_on(form):
            made, secret = invitation_create(**form.cleaned_data, by=by)
            link = request.build_absolute_uri(reverse("invitation", args=[secret]))
            context, form = {"made": made, "link": link}, InvitationForm()
    tokens = ApiToken.objects.usable().filter(maker_kind=AuthorFields.Kind.PERSON)
    accounts = (
        people_with_access()
        .annotate(
            sessions=ArraySubquery(sessions_of(OuterRef("pk")).values("pk")),
            tokens=ArraySubquery(tokens.filter(maker_id=Cast(OuterRef("pk"), CharField())).values("pk")),
            roles=Case(
                When(is_superuser=True, then=Value(Invitation.OWNER)),
                default=Cast("group_names", TextField()),
                output_field=TextField(),
            ),
        )
        .order_by("-is_active", "username")
    )
    found = PeopleFilter(request.GET, queryset=accounts)
    if export_format(request):
        return list_export(request, PEOPLE, keyset_rows(found.results, "date_joined"))
    invitations = Invitation.objects.select_related("person")[:INVITATIONS_SHOWN]
    view = request.GET.get("view", "")
    everybody: list[Any] = list(accounts)
    without = [person for person in everybody if person.is_active and not person.has_second_factor]
    shown = found.results.filter(pk__in=[person.pk for person in without]) if view == "without" else found.results
    invited = [one for one in invitations if one.state == "open"]
    numbers = {"": len(everybody) + len(invited), "without": len(without), "invitations": len(invitations)}
    listed = INVITATIONS if view == "invitations" else LIST
    context |= {
        "invitation_form": form,
        **listed.context(
            request,
            listed.page(request, invitations if listed is INVITATIONS else shown),
            found.form if listed is LIST else None,
            found.is_filtered or view == "without",
            {"view": view} if view else None,
        ),
        "every": request.path,
        "invitations": [(one, STATE_BADGES[one.state]) for one in invitations],
        "narrows": True,
        "layouts": [
            {"label": VIEWS[key], "url": f"?view={key}" if key else "?", "active": view == key, "count": number or None}
            for key, number in numbers.items()
            if view or len(everybody) > FEW or invitations
        ],
    }
    limits = {key for row in context["rows"] for key in getattr(row, "limited_to", None) or ()}
    names = dict(Agent.objects.filter(pk__in=limits).values_list("pk", "name")) if limits else {}
    for row in [*context["rows"], *invited]:
        is_account, row.is_oneself = isinstance(row, User), row.pk == request.user.pk
        row.held = role_of(row) if is_account else row.role
        row.does = ROLE_WORDS.get(row.held, "sees nothing")
        row.listed = f"?{urlencode({'list': request.GET.urlencode()})}"
        row.roles = [one for one in ROLES if one[0] != row.held and is_account and not row.is_oneself]
        row.agents = sorted(names[key] for key in getattr(row, "limited_to", None) or () if key in names)
        row.second_factor_url = request.build_absolute_uri(reverse("second_factor"))
    if not view and not context["page"].has_next():
        sought = request.GET.get("q", "").strip().lower()
        invited = [one for one in invited if sought in f"{one.note} {one.role} {one.created_by}".lower()]
        context["rows"] += invited
        context["also"] = f"and {len(invited)} invited" if invited else ""
    response = render(request, LIST.template, context, status=422 if form.errors else 200)
    response["Cache-Control"] = "no-store"
    return response


@page(owner_check, methods=POST)
def invitation_take_back(request: HttpRequest, by: Principal, pk: UUID) -> HttpResponse:
    """Take an open invitation back."""
    taken = get_object_or_404(Invitation, pk=pk)
    return act(request, lambda: invitation_revoke(invitation=taken, by=by), "people", "The invitation was revoked.")


@page(owner_check, methods=FORM)
def person(request: HttpRequest, by: Principal, pk: int) -> HttpResponse:
    """One person: role, sessions, and keeping them out. A POST changes the role, and leads back to the `list` from
    which it came, by its query."""
    who: Any = get_object_or_404(people_with_access(), pk=pk)
    role = role_of(who)
    who.second_factor_url = request.build_absolute_uri(reverse("second_factor"))
    return form_page(
        request,
        "people/person.html",
        RoleForm(_posted(request), held=role),
        lambda given: person_role_set(person=who, role=given["role"], by=by),
        done=lambda changed: f"{who.username} now has the role {request.POST['role']}.",
        back=f"{reverse('people')}?{request.GET['list']}".rstrip("?") if "list" in request.GET else request.path,
        context={
            "person": who,
            "their_role": role,
            "sessions": [(one, False) for one in sessions_of(who)],
            "has_second_factor": who.has_second_factor,
            "reminders": _reminders(who),
            "agents_form": None if who.is_superuser else _agents_form(who),
            "is_oneself": who.pk == request.user.pk,
        },
        conflict="role",
    )


@page(owner_check, methods=POST)
def person_agents(request: HttpRequest, by: Principal, pk: int) -> HttpResponse:
    """Limit a person's role to some agents, or let it be for all."""
    who = get_object_or_404(User, pk=pk)
    form = AgentsForm(request.POST)

    def limit() -> str:
        if not form.is_valid():
            raise Invalid("Choose existing agents.")
        person_agents_set(person=who, agents=form.chosen, by=by)
        sees = "all agents" if form.chosen is None else f"{len(form.chosen)} of the agents"
        return f"{who.username} sees {sees} from the next page on."

    return act(request, limit, reverse("person", args=[pk]))


def _agents_form(who: User) -> AgentsForm:
    limit: list[int] | None = who.limited_to  # type: ignore[attr-defined]
    held = Agent.objects.filter(pk__in=limit or ())
    return AgentsForm(initial={"limited": "" if limit is None else "yes", "agents": [one.slug for one in held]})


@page(owner_check, methods=POST)
def person_change(request: HttpRequest, by: Principal, pk: int, change: str) -> HttpResponse:
    """Keep a person out, let them in again, end their sessions, or let them look at the database."""
    who = get_object_or_404(User, pk=pk)
    name = who.username
    changes: dict[str, tuple[Callable[[], object], str]] = {
        "deactivate": (
            lambda: person_active_set(person=who, active=False, by=by),
            f"{name} was deactivated and signed out everywhere.",
        ),
        "reactivate": (lambda: person_active_set(person=who, active=True, by=by), f"{name} was reactivated."),
        "staff_give": (
            lambda: person_staff_set(person=who, staff=True, by=by),
            f"{name} can read the database now.",
        ),
        "staff_take": (
            lambda: person_staff_set(person=who, staff=False, by=by),
            f"{name} can no longer read the database.",
        ),
        "sign_out": (lambda: f"Sessions of {name} ended: {sessions_end(person=who, by=by)}.", ""),
    }
    service, done = changes[change]
    return act(request, service, reverse("person", args=[pk]), done)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """One's own account: the password, and where one is signed in. A POST changes the password."""
    user = person_of(principal_of(request))
    form = OwnPasswordForm(request, user, _posted(request))
    if request.method == "POST" and form.is_valid():
        person_password_set(person=user, password=form.cleaned_data["new_password1"], by=principal_of(request))
        # Every other session ends with the old password; this one goes on under a new key.
        update_session_auth_hash(request, user)
        sessions_end(person=user, by=principal_of(request), except_key=request.session.session_key or "")
        sign_in_note(request, user)
        messages.success(request, "Your password was changed. You are signed out everywhere else.")
        return redirect("account")
    here = request.session.session_key
    wanted = MailPreference.objects.filter(person=user).first() or MailPreference(person=user)
    name = {"first_name": user.first_name, "last_name": user.last_name}
    mail = {"email": user.email, "at_once": wanted.at_once, "digest": wanted.digest}
    context = {
        "form": form,
        "name_form": NameForm(initial=name),
        "mail_form": MailForm(mail),
        "sends_mail": bool(settings.EMAIL_URL),
        "their_role": role_of(user),
        "password_login": user.has_usable_password() and (settings.PASSWORD_LOGIN or user.is_superuser),
        "provider": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "provider_linked": provider_linked(user),
        "codes_left": recovery_codes_left(user),
        "sessions": [(one, one.session_key == here) for one in sessions_of(user)],
    }
    return render(request, "people/account.html", context, status=422 if form.errors else 200)


ACCOUNT: dict[str, tuple[type[Form], Callable[..., object], str]] = {
    "name": (NameForm, person_name_set, "Your name was saved."),
    "mail": (MailForm, mail_preference_set, "Your e-mail preferences were saved."),
}


@page(methods=POST)
def account_change(request: HttpRequest, by: Principal, change: str) -> HttpResponse:
    """Set one's own full name, or choose what comes by e-mail, and where to."""
    kind, service, done = ACCOUNT[change]
    form = kind(request.POST)

    def choose() -> None:
        # Its page shows no errors beside the fields.
        if not form.is_valid():
            raise Invalid(" ".join(str(error) for errors in form.errors.values() for error in errors))
        service(**form.cleaned_data, by=by)

    return act(request, choose, "account", done)


@page(methods=POST)
def account_sessions_end(request: HttpRequest, by: Principal) -> HttpResponse:
    """Sign out everywhere but here."""
    ended = sessions_end(person=person_of(by), by=by, except_key=request.session.session_key or "")
    messages.success(request, f"{ended} other session{'s' if ended != 1 else ''} ended.")
    return redirect("account")


@require_POST
def account_provider(request: HttpRequest) -> HttpResponse:
    """Begin to connect the provider's log-in with one's own account. The page that it answers leads on to the provider:
    no form may, since the browser would not follow it there."""
    request.session[CONNECT] = True
    return render(request, "people/account_provider.html", {"provider": settings.OIDC_NAME})


def provider_shown(request: HttpRequest) -> dict[str, Any]:
    """The settings of the provider log-in for owners; they come from the environment."""
    if not settings.OIDC_ISSUER:
        return {}
    return {
        "name": settings.OIDC_NAME,
        "facts": [
            ("Issuer", settings.OIDC_ISSUER),
            ("Client", settings.OIDC_CLIENT_ID),
            ("Redirect address", request.build_absolute_uri(reverse("openid_connect_callback"))),
            ("Claim with the groups", settings.OIDC_GROUPS_CLAIM),
        ],
        "roles": sorted(settings.OIDC_ROLES.items()),
        "password_login": settings.PASSWORD_LOGIN,
    }


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """The page of an invited person: the form of their account. A POST creates it and signs them in."""
    found = invitation_find(secret)
    form = AcceptForm(_posted(request))
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        with refused_on(form):
            made = invitation_accept(secret=secret, username=given["username"], password=given["password"])
            login(request, made, backend=BACKEND)
            messages.success(request, f"Welcome, {made.username}.")
            return redirect("home")
    response = render(
        request,
        "people/invitation.html",
        {"form": form, "invitation": found},
        status=422 if form.errors else 200,
    )
    # To this server alone: without any, a browser sends the form from the origin "null", which is refused.
    response["Referrer-Policy"] = "same-origin"
    return response


def _posted(request: HttpRequest) -> Any:
    """The submitted data, even if empty; None for a GET."""
    return request.POST if request.method == "POST" else None
