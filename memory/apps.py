from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    verbose_name = "Memory"

    def ready(self) -> None:
        from django_q.signals import post_spawn

        from identity.policy.changes import changes_declare
        from identity.policy.permissions import scope_extend
        from identity.policy.sealed_tables import SealedTable, sealed_declare
        from identity.services.change_bodies import bodies
        from identity.services.seeding import profile_sources
        from memory.lifecycle.reaper import reaper_start
        from memory.models import Event, EventSequence, FactChange, JudgeCall
        from memory.schemas.change_bodies import memory_bodies
        from memory.selectors import profile_texts
        from memory.services.erasure import erasers
        from memory.services.import_erasure import imports_erase
        from memory.services.job_erasure import questions_erase
        from memory.transfer.export_runs import exports_erase
        from memory.transfer.runs import imports_stop
        from memory.types import MEMORY_TYPES

        for one in MEMORY_TYPES.values():
            for action in one.tokens_may:
                scope = "memory:read" if action == "view" else "memory:write"
                scope_extend(scope, {one.permission(action)}, in_projects=one.has_project)
            changes_declare(one.name, one.permission("view"), one.audit_verbs)
        bodies.update(memory_bodies(one.model for one in MEMORY_TYPES.values() if one.key_type == "uuid"))
        profile_sources.append(profile_texts)
        sealed_declare(
            SealedTable("event", Event, "Event", by_chain=True, counters=EventSequence),
            SealedTable(
                "factchange",
                FactChange,
                "Change of a fact",
                persona="coalesce(f.persona, 'actor')",
                join="LEFT JOIN memory_fact f ON f.id = t.fact_id AND f.agent_id = t.agent_id",
                condition="EXISTS (SELECT 1 FROM memory_fact f WHERE f.id = t.fact_id AND f.agent_id = t.agent_id)",
                open_columns={"agent_id": "that of its fact: a row that says another agent counts as missing"},
                blanks=("evidence", "other_id", "reason"),
            ),
            SealedTable("judgecall", JudgeCall, "Call of the judge", clock_column="created_at"),
        )
        erasers.extend([questions_erase, imports_erase, imports_stop, exports_erase])
        post_spawn.connect(reaper_start, dispatch_uid="memory.lifecycle.reaper")
