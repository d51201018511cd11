"""Django's admin, restricted: it shows rows and changes none. People are managed on the console's pages, by services.

Django's own site lets anybody with a permission for users make themselves superuser, and anybody with a permission for
django-q's schedules run any function. Here no permission allows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any, TypeVar, cast

from django.contrib.admin import AdminSite, ModelAdmin
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db.models import Model
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from identity.admin_readonly import ReadOnlyAdmin

OWN_APPS = frozenset({"identity", "memory", "context"})
"""Apps whose rows staff may look at by the rights of their role, and nobody changes here."""

View = TypeVar("View", bound=Callable[..., HttpResponseBase])

LOGOUT = "/logout/"
"""The end of the one address here that takes a POST."""

HIDDEN = {"auth.user": ["password"]}
"""Fields of others' models that are shown to nobody."""


class SuperuserOnly:
    """Shown to superusers only, whatever permissions anybody has."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return _is_superuser(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_superuser(request)


class ClosedAdminSite(AdminSite):
    """Decides for each model, including those that third-party apps register, who sees it. Nobody changes any."""

    def has_permission(self, request: HttpRequest) -> bool:
        """For owners, and staff whose role is for all agents: rows of all of them stand here beside each other."""
        limited = getattr(request.user, "limited_to", None) is not None
        return _is_superuser(request) or (super().has_permission(request) and not limited)

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Refuses every request that could change something, whatever the page and its actions."""
        shown = super().admin_view(view, cacheable)

        def read_only(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            reads = request.method in ("GET", "HEAD", "OPTIONS") or request.path.endswith(LOGOUT)
            if not reads and self.has_permission(request):
                raise PermissionDenied("Django's admin changes nothing. Use the console's pages.")
            return shown(request, *args, **kwargs)

        return cast("View", update_wrapper(read_only, view))

    def register(
        self,
        model_or_iterable: type[Model] | Iterable[type[Model]],
        admin_class: type[ModelAdmin[Any]] | None = None,
        **options: Any,
    ) -> None:
        """Raises ImproperlyConfigured for a page of our own rows that could change them."""
        models = [model_or_iterable] if isinstance(model_or_iterable, type) else list(model_or_iterable)
        for model in models:
            given: Any = admin_class or ModelAdmin
            if model._meta.app_label not in OWN_APPS:
                shown = {"fieldsets": None, "exclude": HIDDEN.get(model._meta.label_lower)}
                given = type(f"Closed{given.__name__}", (SuperuserOnly, ReadOnlyAdmin, given), shown)
            elif not issubclass(given, ReadOnlyAdmin):
                raise ImproperlyConfigured(f"The admin of {model._meta.label} must be a ReadOnlyAdmin.")
            super().register(model, given, **options)


def _is_superuser(request: HttpRequest) -> bool:
    return bool(request.user.is_active and request.user.is_superuser)
