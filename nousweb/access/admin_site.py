"""Django's admin, restricted: it shows the product's rows, only superusers change accounts, and all the rest is hidden.

Django's own site lets anybody with a permission for users make themselves superuser, and anybody with a permission for
django-q's schedules run any function. Here no permission allows that: only superusers enter, and they are created on
the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model
from django.http import HttpRequest

from identity.admin_readonly import ReadOnlyAdmin

OWN_APPS = frozenset({"identity", "memory", "context"})
"""Apps whose rows staff may look at by the rights of their role, and nobody changes here."""

EDITED_BY_SUPERUSERS = frozenset({"auth.user"})
"""All models that can be changed here: nousweb/access/roles.py declares roles, nousweb/queue/schedules.py schedules."""


class SuperuserOnly:
    """Shown to superusers only, whatever permissions anybody has."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return _is_superuser(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_superuser(request)


class EditedBySuperusers(SuperuserOnly):
    """Also changed by superusers."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _is_superuser(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_superuser(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_superuser(request)


class ClosedAdminSite(AdminSite):
    """Decides for each model, including those that third-party apps register, who sees and who changes it."""

    def has_permission(self, request: HttpRequest) -> bool:
        """For owners, and staff whose role is for all agents: rows of all of them stand here beside each other."""
        limited = getattr(request.user, "limited_to", None) is not None
        return _is_superuser(request) or (super().has_permission(request) and not limited)

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
                edited = model._meta.label_lower in EDITED_BY_SUPERUSERS
                ways = (EditedBySuperusers,) if edited else (SuperuserOnly, ReadOnlyAdmin)
                given = type(f"Closed{given.__name__}", (*ways, given), {})
            elif not issubclass(given, ReadOnlyAdmin):
                raise ImproperlyConfigured(f"The admin of {model._meta.label} must be a ReadOnlyAdmin.")
            super().register(model, given, **options)


def _is_superuser(request: HttpRequest) -> bool:
    return bool(request.user.is_active and request.user.is_superuser)
