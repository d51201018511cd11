from django.apps import AppConfig


class ContextConfig(AppConfig):
    name = "context"
    verbose_name = "Context"

    def ready(self) -> None:
        from context.models import ContextRun
        from context.services.erasure import context_erase
        from memory.services.erasure import erasers, large_tables

        erasers.append(context_erase)
        large_tables.append(ContextRun)
