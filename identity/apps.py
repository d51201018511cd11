from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "identity"
    verbose_name = "Identity"

    def ready(self) -> None:
        from django_q.signals import post_spawn

        from identity.services.accounts import accounts_watch
        from identity.services.webhook_delivery import webhooks_start

        accounts_watch()
        post_spawn.connect(webhooks_start, dispatch_uid="identity.webhooks")
