from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "identity"
    verbose_name = "Identity"

    def ready(self) -> None:
        from identity.services.accounts import accounts_watch
        from nousweb.lib.background import on_worker_start

        accounts_watch()
        on_worker_start("identity.services.webhook_delivery.webhooks_start")
