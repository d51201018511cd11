from django.apps import AppConfig


class IdentityConfig(AppConfig):
    name = "identity"
    verbose_name = "Identity"

    def ready(self) -> None:
        from django_q.signals import post_spawn

        from identity.models import AuditEvent, IdentityVersion
        from identity.policy.sealed_tables import SealedTable, sealed_declare
        from identity.services.accounts import accounts_watch
        from identity.services.webhook_runner import webhooks_start

        accounts_watch()
        sealed_declare(
            SealedTable(
                "auditevent",
                AuditEvent,
                "Audit record",
                persona="CASE t.persona WHEN 'subconscious' THEN 'subconscious' ELSE 'actor' END",
                blanks=("after", "before", "message", "object_label"),
                clock_column="at",
            ),
            SealedTable(
                "identityversion",
                IdentityVersion,
                "Identity version",
                persona="'actor'",
                numbered=False,
                open_columns={
                    "is_current": "It is lost when the next version comes; that the latest has it is checked instead."
                },
            ),
        )
        post_spawn.connect(webhooks_start, dispatch_uid="identity.webhooks")
