"""The agent in the two tables that had it only by what they refer to, and in the statements of the owner's functions.

So that the tables can be distributed by their agent: see nousweb/database/distributed_tables.py. A change of a fact, and an
event's place in an episode, is of the agent of the fact and the episode; the foreign keys to these hold it, so the
column has none of its own, and no index: nothing looks for rows by it alone.
"""

import django.db.models.deletion
from django.db import migrations, models

COLUMNS = """
ALTER TABLE memory_factchange ADD COLUMN agent_id bigint;
ALTER TABLE memory_episodeevent ADD COLUMN agent_id bigint;
ALTER TABLE memory_factchange DISABLE TRIGGER USER;
UPDATE memory_factchange c SET agent_id = f.agent_id FROM memory_fact f WHERE f.id = c.fact_id;
ALTER TABLE memory_factchange ENABLE TRIGGER USER;
UPDATE memory_episodeevent m SET agent_id = e.agent_id FROM memory_episode e WHERE e.id = m.episode_id;
ALTER TABLE memory_factchange ALTER COLUMN agent_id SET NOT NULL;
ALTER TABLE memory_episodeevent ALTER COLUMN agent_id SET NOT NULL;
"""
NO_COLUMNS = """
ALTER TABLE memory_factchange DROP COLUMN agent_id;
ALTER TABLE memory_episodeevent DROP COLUMN agent_id;
"""

KEY = """
ALTER TABLE memory_searchitem ADD CONSTRAINT memory_searchitem_once UNIQUE (persona, item_type, item_id, agent_id);
ALTER TABLE memory_searchitem DROP CONSTRAINT memory_searchitem_persona_item_type_item_id_key;
"""
NO_KEY = """
ALTER TABLE memory_searchitem ADD CONSTRAINT memory_searchitem_persona_item_type_item_id_key
    UNIQUE (persona, item_type, item_id);
ALTER TABLE memory_searchitem DROP CONSTRAINT memory_searchitem_once;
"""

FACTS = "nous_erase_facts(bigint, uuid[], bigint[], jsonb)"
DOCUMENTS = "nous_erase_documents(bigint, uuid[], bigint[], jsonb)"
PROJECT = "nous_erase_project(bigint, text, jsonb)"
AGENT = "nous_erase_agent(bigint, jsonb)"
PUBLISH = "nous_changes_publish(bigint, text)"
STATEMENTS = (
    (FACTS, "WHERE f.id = ANY (erased)", "WHERE f.agent_id = agent AND f.id = ANY (erased)"),
    (FACTS, "ON a.id = f.subject_alias_id WHERE", "ON a.agent_id = agent AND a.id = f.subject_alias_id WHERE"),
    (FACTS, "ON f.id = c.fact_id WHERE", "ON c.agent_id = agent AND f.id = c.fact_id WHERE"),
    (FACTS, "WHERE c.fact_id = ANY (erased)", "WHERE c.agent_id = agent AND c.fact_id = ANY (erased)"),
    (FACTS, "WHERE c.other_id = ANY (erased)", "WHERE c.agent_id = agent AND c.other_id = ANY (erased)"),
    (DOCUMENTS, "WHERE d.id = ANY (erased)", "WHERE d.agent_id = agent AND d.id = ANY (erased)"),
    (
        PROJECT,
        "WHERE m.episode_id = ANY (told) OR m.event_id = ANY (happened)",
        "WHERE m.agent_id = agent AND (m.episode_id = ANY (told) OR m.event_id = ANY (happened))",
    ),
    (PROJECT, "WHERE e.id = ANY (told)", "WHERE e.agent_id = agent AND e.id = ANY (told)"),
    (AGENT, "WHERE c.fact_id = f.id AND", "WHERE c.agent_id = agent AND c.fact_id = f.id AND"),
    (
        AGENT,
        "WHERE c.oid <> 'identity_auditevent'::regclass",
        "WHERE c.oid NOT IN ('identity_auditevent'::regclass, 'memory_factchange'::regclass)",
    ),
    (PUBLISH, "WHERE change.id = next.id", "WHERE change.agent_id = of_agent AND change.id = next.id"),
)
"""Functions, with what their statements said and what they say now."""

_REPLACE = """
DO $$
DECLARE
    source text := pg_get_functiondef('{function}'::regprocedure);
BEGIN
    IF strpos(source, $text${before}$text$) = 0 THEN
        RAISE EXCEPTION '% no longer reads as it did', '{function}';
    END IF;
    EXECUTE replace(source, $text${before}$text$, $text${after}$text$);
END $$;
"""


def replaced(function: str, before: str, after: str) -> str:
    return _REPLACE.replace("{function}", function).replace("{before}", before).replace("{after}", after)


def column() -> models.ForeignKey:
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="+",
        to="identity.agent",
    )


class Migration(migrations.Migration):
    dependencies = [("identity", "0023_seals"), ("memory", "0042_screenings")]
    operations = [
        migrations.RunSQL(
            COLUMNS,
            NO_COLUMNS,
            state_operations=[
                migrations.AddField("episodeevent", "agent", column()),
                migrations.AddField("factchange", "agent", column()),
            ],
        ),
        migrations.RunSQL(KEY, NO_KEY),
        *(migrations.RunSQL(replaced(f, old, new), replaced(f, new, old)) for f, old, new in STATEMENTS),
    ]
