from typing import Any

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig
from django.contrib.auth.signals import user_logged_in
from django.db.models.signals import post_migrate, post_save


def prepare_database(app_config: AppConfig, **kwargs: Any) -> None:
    """Bring roles and schedules in line with their declarations once the last of our apps is migrated."""
    if app_config.label != "django_q":
        return
    from context.services.agent_settings import profiles_sync
    from nousweb.access.roles import roles_sync
    from nousweb.queue import schedules_sync

    roles_sync()
    schedules_sync()
    profiles_sync()


class NousWebConfig(AppConfig):
    name = "nousweb"
    verbose_name = "Nous Web"

    def ready(self) -> None:
        from django_q.models import Task
        from django_q.signals import call_hook, post_execute_in_worker, pre_enqueue

        from nousweb.access.log_in import sign_in_note
        from nousweb.queue import failed_task_retry, task_check

        user_logged_in.connect(sign_in_note, dispatch_uid="nousweb.access.sign_ins")
        post_migrate.connect(prepare_database, dispatch_uid="nousweb.prepare_database")
        pre_enqueue.connect(task_check, dispatch_uid="nousweb.task_check")
        post_execute_in_worker.connect(failed_task_retry, dispatch_uid="nousweb.failed_task_retry")
        # It calls any function that a row of done tasks names.
        post_save.disconnect(call_hook, sender=Task)


class ClosedAdminConfig(AdminConfig):
    """Django's admin with `ClosedAdminSite`."""

    default_site = "nousweb.access.admin_site.ClosedAdminSite"
