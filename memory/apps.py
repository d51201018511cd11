from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    verbose_name = "Memory"

    def ready(self) -> None:
        from identity.policy.changes import action_register
        from identity.policy.permissions import scope_extend
        from identity.policy.sealed_tables import SEALED_TABLES
        from identity.registrations import new_agent_config, profile_sources
        from identity.services.change_feed import bodies
        from memory.policy.oversight import CONSENT_KEY, DEFAULT_CONSENT
        from memory.sealed_tables import SEALED_TABLES as memory_tables
        from memory.services.change_bodies import memory_bodies
        from memory.types import MEMORY_TYPES
        from nousweb.lib.background import on_worker_start

        for memory_type in MEMORY_TYPES.values():
            for action in memory_type.tokens_may:
                scope = "memory:read" if action == "view" else "memory:write"
                scope_extend(scope, {memory_type.permission(action)}, in_projects=memory_type.has_project)
            for verb in memory_type.audit_verbs:
                action_register(
                    memory_type.name, str(memory_type.model._meta.verbose_name), verb, memory_type.permission("view")
                )
        bodies.update(
            memory_bodies(memory_type.model for memory_type in MEMORY_TYPES.values() if memory_type.key_type == "uuid")
        )
        profile_sources.append("memory.selectors.profile_texts")
        new_agent_config[CONSENT_KEY] = DEFAULT_CONSENT.as_json()
        SEALED_TABLES.update({table.name: table for table in memory_tables})
        on_worker_start("memory.lifecycle.runner.requeuer_start")
