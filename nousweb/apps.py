from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


def prepare_database(app_config: AppConfig, **kwargs: Any) -> None:
    """Bring roles and schedules in line with their declarations once the last of our apps is migrated."""
    if app_config.label != "django_q":
        return
    from context.services.profiles import profiles_sync
    from nousweb.roles import roles_sync
    from nousweb.schedules import schedules_sync

    roles_sync()
    schedules_sync()
    profiles_sync()


class NousWebConfig(AppConfig):
    name = "nousweb"
    verbose_name = "Nous Web"

    def ready(self) -> None:
        post_migrate.connect(prepare_database, dispatch_uid="nousweb.prepare_database")
