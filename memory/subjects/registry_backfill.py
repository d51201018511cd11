"""Backfill the registry of subjects from facts without a registered subject (older versions and exports).

A statement for each thousand spellings, whatever the number of facts. Raises no question: what may be the same thing is
found when it is named the next time, and by the dream cycle.
"""

import uuid
from typing import Any

from django.db import connection

from memory.subjects.name_lexicon import USER_MEANING
from memory.subjects.name_similarity import blocks_offered, is_users, key_of, meaning_of

BATCH = 1_000

_SPELLINGS = """
SELECT persona, subject, min(recorded_at) FROM memory_fact
WHERE agent_id = %s AND subject <> '' AND subject_alias_id IS NULL
GROUP BY persona, subject ORDER BY min(recorded_at), subject
"""
_KNOWN = "SELECT persona, key, meaning, id, subject_id FROM memory_subjectalias WHERE agent_id = %s"
_USERS = "SELECT persona, id FROM memory_subject WHERE agent_id = %s AND is_user"
_SUBJECTS = """
INSERT INTO memory_subject (id, agent_id, persona, name, kind, is_user, created_at)
SELECT id, %s, persona, name, CASE WHEN is_user THEN 'person' ELSE 'other' END, is_user, at
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::boolean[], %s::timestamptz[])
    AS new (id, persona, name, is_user, at)
"""
_ALIAS = """
INSERT INTO memory_subjectalias (id, agent_id, persona, subject_id, spelling, key, meaning, origin, blocks, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, 'seen', %s, %s)
"""
_POINT = """
UPDATE memory_fact AS fact SET subject_alias_id = spelled.alias
FROM unnest(%s::text[], %s::text[], %s::uuid[]) AS spelled (persona, subject, alias)
WHERE fact.agent_id = %s AND fact.persona = spelled.persona AND fact.subject = spelled.subject
  AND fact.subject_alias_id IS NULL
"""


def registry_fill(agent_id: int) -> int:
    """Let every fact of an agent that names a subject point to its spelling; returns how many facts now do."""
    pointed = 0
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN, [agent_id])
        keys: dict[tuple[str, str], uuid.UUID] = {}
        meanings: dict[tuple[str, str], uuid.UUID] = {}
        for persona, key, meaning, alias_id, subject_id in cursor.fetchall():
            keys[persona, key] = alias_id
            meanings.setdefault((persona, meaning), subject_id)
        cursor.execute(_USERS, [agent_id])
        meanings |= {(persona, USER_MEANING): subject_id for persona, subject_id in cursor.fetchall()}
        cursor.execute(_SPELLINGS, [agent_id])
        named = cursor.fetchall()
        for begin in range(0, len(named), BATCH):
            rows = named[begin : begin + BATCH]
            subjects: list[tuple[Any, ...]] = []
            aliases: list[list[Any]] = []
            point: list[tuple[str, str, uuid.UUID]] = []
            for persona, spelling, at in rows:
                key, meaning = key_of(spelling), meaning_of(spelling)
                if not key:
                    continue
                if (persona, key) not in keys:
                    subject_id = meanings.get((persona, meaning))
                    if subject_id is None:
                        subject_id = meanings[persona, meaning] = uuid.uuid4()
                        subjects.append((subject_id, persona, spelling, is_users(spelling), at))
                    alias_id = keys[persona, key] = uuid.uuid4()
                    blocks = blocks_offered(agent_id, persona, spelling)
                    aliases.append([alias_id, agent_id, persona, subject_id, spelling, key, meaning, blocks, at])
                point.append((persona, spelling, keys[persona, key]))
            if subjects:
                cursor.execute(_SUBJECTS, [agent_id, *map(list, zip(*subjects, strict=True))])
            if aliases:
                cursor.executemany(_ALIAS, aliases)
            if point:
                cursor.execute(_POINT, [*map(list, zip(*point, strict=True)), agent_id])
                pointed += cursor.rowcount
    return pointed
