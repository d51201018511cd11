from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    verbose_name = "Memory"

    def ready(self) -> None:
        from django_q.signals import post_spawn

        from identity.policy.changes import action_register
        from identity.policy.permissions import scope_extend
        from identity.policy.sealed_tables import SEALED_TABLES
        from identity.services.agents import new_agent_config, profile_sources
        from identity.services.change_bodies import bodies
        from memory.lifecycle.runner import requeuer_start
        from memory.policy.consent import CONFIG_KEY, DEFAULT_CONSENT
        from memory.sealed_tables import SEALED_TABLES as memory_tables
        from memory.selectors import profile_texts
        from memory.services.change_bodies import memory_bodies
        from memory.services.erasure import erasers
        from memory.services.erasure.imports_and_jobs import imports_erase, jobs_erase, sources_erase
        from memory.transfer.file_runs import runs_erase
        from memory.types import MEMORY_TYPES

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
        profile_sources.append(profile_texts)
        new_agent_config[CONFIG_KEY] = DEFAULT_CONSENT.as_json()
        SEALED_TABLES.update({table.name: table for table in memory_tables})
        erasers.extend([jobs_erase, imports_erase, sources_erase, runs_erase])
        post_spawn.connect(requeuer_start, dispatch_uid="memory.lifecycle.requeuer")
