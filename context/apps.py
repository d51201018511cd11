from django.apps import AppConfig


class ContextConfig(AppConfig):
    name = "context"
    verbose_name = "Context"

    def ready(self) -> None:
        from context.services.erasure import context_erase
        from memory.services.erasure import erasers

        erasers.append(context_erase)
