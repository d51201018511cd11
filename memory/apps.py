from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    verbose_name = "Memory"

    def ready(self) -> None:
        from identity.services.seeding import profile_sources
        from memory.selectors import profile_texts

        profile_sources.append(profile_texts)
