"""One's own second factor, and for owners whose it is required of and resetting somebody's."""

import segno
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from identity.principal import Principal
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
)
from nousweb.access.second_factor_step import CODE, proof_set
from nousweb.console.common import FORM, POST, act, form_page, page, principal_of, refused_on
from nousweb.console.people.forms import CodeForm, RequirementsForm
from nousweb.console.people.views import provider_shown
from nousweb.lib.errors import Conflict, NotFound

SECRET = "second_factor_secret"  # noqa: S105


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    """Set up an authenticator app: its QR code, and with the first code of the app the recovery codes, this once."""
    person = _person(request)
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
    person = _person(request)
    return act(
        request,
        lambda: second_factor_remove(person=person, by=by),
        "account",
        done,
        refusals=(Conflict, NotFound),
    )


@page(methods=POST, fresh=True)
def recovery_codes_new(request: HttpRequest, by: Principal) -> HttpResponse:
    """New recovery codes instead of the old ones, shown this once."""
    try:
        codes = recovery_codes_renew(person=_person(request), by=by)
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
    """The roles of which a second factor is required, with those that ?role= suggests, and the log-in at a provider."""
    roles = [*second_factor_roles(), *request.GET.getlist("role")]
    return form_page(
        request,
        "people/log_in_rules.html",
        RequirementsForm(request.POST if request.method == "POST" else None, initial={"roles": roles}),
        lambda given: second_factor_requirements_set(roles=set(given["roles"]), by=by),
        done="People without a second factor must set one up on the next page that they open.",
        back="second_factor_requirements",
        context={"provider": provider_shown(request)},
    )


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101
    return request.user
