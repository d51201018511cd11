"""The log-in: a name and a password, and then the code of a second factor if the person has one. And the second factor:
one's own, and for owners whose it is required of and resetting somebody's."""

from typing import Any

import segno
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from identity.models import SecondFactor
from identity.principal import Principal
from identity.services.audit import person_of
from identity.services.people import owner_check
from identity.services.second_factors import (
    recovery_codes_renew,
    second_factor_address,
    second_factor_enrol,
    second_factor_remove,
    second_factor_requirements_set,
    second_factor_reset,
    second_factor_roles,
    second_factor_secret,
    second_factor_verify,
)
from nousweb.access.log_in import BACKEND, people_with_access
from nousweb.access.roles import role_of
from nousweb.access.second_factor_step import CODE, PENDING, is_fresh, login_held, login_hold, proof_set
from nousweb.console.common import FORM, POST, act, form_page, form_refuse, page, principal_of, refused_on
from nousweb.console.people.forms import ROLE_WORDS, CodeForm, RequirementsForm
from nousweb.console.people.views import provider_shown
from nousweb.lib.errors import Conflict, Invalid, NotFound, TooMany


class LogIn(LoginView):
    """The first step. A person with a second factor is not signed in by it, only sent to the second step."""

    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.setup_due:  # type: ignore[attr-defined]
            return redirect("second_factor")
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        provider = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
        # Where there is a provider, its button is the first to press.
        kind = "" if provider else "btn-primary"
        shown = {"provider": provider, "password_login": settings.PASSWORD_LOGIN, "kind": kind}
        return super().get_context_data(**shown, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponseRedirect:
        person = form.get_user()
        assert isinstance(person, User)  # noqa: S101
        if not SecondFactor.objects.filter(person=person).exists():
            return super().form_valid(form)  # type: ignore[return-value]
        login_hold(self.request, person, self.get_success_url())
        return HttpResponseRedirect(reverse("login_code"))


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def login_code(request: HttpRequest) -> HttpResponse:
    """The second step: a code of the app or a recovery code signs the person in."""
    held = login_held(request)
    if held is None:
        return redirect("login")
    person, next_page = held
    by = Principal.of_user(person, request_id=request.request_id)  # type: ignore[attr-defined]
    form = CodeForm(request.POST if request.method == "POST" else None)
    status = _code_check(form, person, by) if request.method == "POST" else 200
    if status == 302:
        del request.session[PENDING]
        proof_set(request, CODE)
        login(request, person, backend=BACKEND)
        return HttpResponseRedirect(next_page)
    return render(request, "people/login_code.html", {"form": form}, status=status)


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def account_confirm(request: HttpRequest) -> HttpResponse:
    """Require a fresh code from the signed-in person before an irreversible action."""
    by = principal_of(request)
    asked = request.POST.get("next") or request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(asked, allowed_hosts={request.get_host()})
    next_page = asked if safe else resolve_url("account")
    if request.method != "POST" and is_fresh(request):
        return HttpResponseRedirect(next_page)
    form = CodeForm(request.POST if request.method == "POST" else None)
    status = _code_check(form, person_of(by), by) if request.method == "POST" else 200
    if status == 302:
        proof_set(request, CODE)
        return HttpResponseRedirect(next_page)
    context = {"form": form, "next": next_page, "confirm": True}
    return render(request, "people/login_code.html", context, status=status)


def _code_check(form: CodeForm, person: User, by: Principal) -> int:
    """The status of the response to a code: 302 if it is right; else the form shows the error."""
    if not form.is_valid():
        return 422
    try:
        second_factor_verify(person=person, code=form.cleaned_data["code"], by=by)
    except Invalid as error:
        form_refuse(form, error)
        return 422
    except TooMany as error:
        form.add_error("code", error.detail)
        return 429
    return 302


SECRET = "second_factor_secret"  # noqa: S105


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    """Set up an authenticator app: its QR code, and with the first code of the app the recovery codes, this once."""
    person = person_of(principal_of(request))
    if getattr(person, "has_second_factor", False):
        return redirect("account")
    secret = request.session.setdefault(SECRET, second_factor_secret())
    form = CodeForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        with refused_on(form):
            codes = second_factor_enrol(
                person=person, secret=secret, code=form.cleaned_data["code"], by=principal_of(request)
            )
            del request.session[SECRET]
            proof_set(request, CODE)
            return render(request, "people/recovery_codes.html", {"codes": codes})
    address = second_factor_address(person, secret, f"Nous ({request.get_host()})")
    context = {
        "form": form,
        "image": segno.make(address, error="m").svg_data_uri(border=2, dark="#000", light="#fff"),
        "secret": " ".join(secret[start : start + 4] for start in range(0, len(secret), 4)),
        "required": request.setup_due,  # type: ignore[attr-defined]
    }
    return render(request, "people/second_factor.html", context, status=422 if form.errors else 200)


@page(methods=POST)
def second_factor_take_off(request: HttpRequest, by: Principal) -> HttpResponse:
    """Be asked for no code any more."""
    done = "Your second factor was removed. You now log in with the password only."
    return act(
        request,
        lambda: second_factor_remove(person=person_of(by), by=by),
        "account",
        done,
        refusals=(Conflict, NotFound),
    )


@page(methods=POST, fresh=True)
def recovery_codes_new(request: HttpRequest, by: Principal) -> HttpResponse:
    """New recovery codes instead of the old ones, shown this once."""
    try:
        codes = recovery_codes_renew(person=person_of(by), by=by)
    except NotFound as error:
        messages.error(request, error.detail)
        return redirect("account")
    return render(request, "people/recovery_codes.html", {"codes": codes})


@page(owner_check, methods=POST)
def person_second_factor_reset(request: HttpRequest, by: Principal, pk: int) -> HttpResponse:
    """Forget the second factor of somebody who lost it."""
    who = get_object_or_404(User, pk=pk)
    return act(
        request,
        lambda: second_factor_reset(person=who, by=by),
        reverse("person", args=[pk]),
        f"The second factor of {who.username} was reset.",
        refusals=(NotFound,),
    )


@page(owner_check, methods=FORM)
def second_factor_requirements(request: HttpRequest, by: Principal) -> HttpResponse:
    """The roles of which a second factor is required, with how many people that concerns, and the log-in at a
    provider."""
    now, people = {"roles": second_factor_roles()}, people_with_access().filter(is_active=True)
    form = RequirementsForm(request.POST if request.method == "POST" else None, initial=now)
    roles = [(role_of(person), person.has_second_factor) for person in people]  # type: ignore[attr-defined]
    form.fields["roles"].choices = [  # type: ignore[attr-defined]
        (role, f"{role}: {number:,} without one, {roles.count((role, True)):,} with one")
        for role in ROLE_WORDS
        for number in [roles.count((role, False))]
    ]
    return form_page(
        request,
        "people/log_in_rules.html",
        form,
        lambda given: second_factor_requirements_set(roles=set(given["roles"]), by=by),
        done=lambda _: (
            "People of these roles without a second factor must set one up on the next page that they open."
            if second_factor_roles()
            else "No role requires a second factor."
        ),
        back="second_factor_requirements",
        context={"provider": provider_shown(request)},
    )
