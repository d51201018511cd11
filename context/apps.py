from django.apps import AppConfig


class ContextConfig(AppConfig):
    name = "context"
    verbose_name = "Context"

    def ready(self) -> None:
        from context.models import ContextPin, ContextProfile, ContextRun
        from context.services.erasure import context_erase
        from memory.persona import VIEW_SUBCONSCIOUS
        from memory.services.erasure import erasers, large_tables
        from nousweb.console.object_pages import object_pages, page_of_model

        erasers.append(context_erase)
        large_tables.append(ContextRun)
        object_pages.update(
            contextrun=page_of_model(
                ContextRun, "agent_context_run", ("agent__slug", "pk"), permission=VIEW_SUBCONSCIOUS
            ),
            contextpin=page_of_model(ContextPin, "agent_context_item", ("agent__slug", "item_type", "item_id")),
            contextprofile=page_of_model(ContextProfile, "context_profile", ("slug",)),
        )
