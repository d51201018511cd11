"""One's own second factor, and for owners whose it is required of and resetting somebody's."""

import segno
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from identity.services.people import owner_check
from identity.services.second_factors import (
    recovery_codes_renew,
    second_factor_address,
    second_factor_enrol,
    second_factor_remove,
    second_factor_requirements_set,
    second_factor_reset,
    second_factor_secret,
)
from nousweb.access.second_factor_step import CODE, proof_set
from nousweb.console.common.view_helpers import principal_of, refused_on
from nousweb.console.people.forms import CodeForm, RequirementsForm
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


@require_POST
def second_factor_take_off(request: HttpRequest) -> HttpResponse:
    """Be asked for no code any more."""
    try:
        second_factor_remove(person=_person(request), by=principal_of(request))
    except (Conflict, NotFound) as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, "Your second factor was removed. You now log in with the password only.")
    return redirect("account")


@never_cache
@require_POST
def recovery_codes_new(request: HttpRequest) -> HttpResponse:
    """New recovery codes instead of the old ones, shown this once."""
    try:
        codes = recovery_codes_renew(person=_person(request), by=principal_of(request))
    except NotFound as error:
        messages.error(request, error.detail)
        return redirect("account")
    return render(request, "people/recovery_codes.html", {"codes": codes})


@require_POST
def person_second_factor_reset(request: HttpRequest, pk: int) -> HttpResponse:
    """Forget the second factor of somebody who lost it."""
    by = principal_of(request)
    owner_check(by)
    who = get_object_or_404(User, pk=pk)
    try:
        second_factor_reset(person=who, by=by)
    except NotFound as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, f"The second factor of {who.username} was reset.")
    return redirect("person", pk=pk)


@require_POST
def second_factor_requirements(request: HttpRequest) -> HttpResponse:
    """Say of which roles a second factor is required."""
    by = principal_of(request)
    owner_check(by)
    form = RequirementsForm(request.POST)
    if form.is_valid():
        second_factor_requirements_set(roles=set(form.cleaned_data["roles"]), by=by)
        messages.success(request, "People without a second factor must set one up on the next page that they open.")
    else:
        messages.error(request, "There is no such role.")
    return redirect("people")


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101
    return request.user
