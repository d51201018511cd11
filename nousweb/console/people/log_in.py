"""The log-in: a name and a password, and then the code of a second factor if the person has one."""

from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from identity.models import SecondFactor
from identity.principal import Principal
from identity.services.second_factors import second_factor_verify
from nousweb.access.log_in import BACKEND
from nousweb.access.second_factor_step import CODE, PENDING, is_fresh, login_held, login_hold, proof_set
from nousweb.console.common import form_refuse, principal_of
from nousweb.console.people.forms import CodeForm
from nousweb.lib.errors import Invalid, TooMany


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
    person = request.user
    assert isinstance(person, User)  # noqa: S101
    asked = request.POST.get("next") or request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(asked, allowed_hosts={request.get_host()})
    next_page = asked if safe else resolve_url("account")
    if request.method != "POST" and is_fresh(request):
        return HttpResponseRedirect(next_page)
    form = CodeForm(request.POST if request.method == "POST" else None)
    status = _code_check(form, person, principal_of(request)) if request.method == "POST" else 200
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
