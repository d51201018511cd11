from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    verbose_name = "Memory"

    def ready(self) -> None:
        from django_q.signals import post_spawn

        from identity.pages import object_pages
        from identity.services.seeding import profile_sources
        from memory.pages import PAGES
        from memory.selectors import profile_texts
        from memory.services.erasure import erasers
        from memory.services.forgetting import questions_erase
        from memory.services.sweeping import sweeping_start

        profile_sources.append(profile_texts)
        erasers.append(questions_erase)
        object_pages.update(PAGES)
        post_spawn.connect(sweeping_start, dispatch_uid="memory.sweeping")
