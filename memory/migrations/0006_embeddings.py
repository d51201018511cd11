"""Words of agents under one index, lengths, leases and a second vector in the search index; models and counts."""

import django.db.models.deletion
import pgvector.django.halfvec
import nousweb.lib.clock
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION nous_agent_lexemes(agent bigint, terms tsvector) RETURNS text[]
    -- The cost keeps the planner from computing this for every row instead of using the index.
    LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 1000
    AS $$ SELECT ARRAY(SELECT agent::text || ':' || lexeme FROM unnest(tsvector_to_array(terms)) AS lexeme) $$;

CREATE FUNCTION nous_word_count(terms tsvector) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT coalesce(sum(cardinality(positions)), 0)::integer FROM unnest(terms) $$;

DROP INDEX memory_searchitem_terms;
DROP INDEX memory_searchitem_agent;
DROP INDEX memory_searchitem_unready;
ALTER TABLE memory_searchitem
    DROP COLUMN terms,
    -- The subject counts once, also where the text begins with it.
    ADD COLUMN terms tsvector GENERATED ALWAYS AS (
        to_tsvector('english', CASE WHEN starts_with(lower(text), lower(subject)) THEN text
                                    ELSE subject || ' ' || text END)) STORED,
    ADD COLUMN words integer GENERATED ALWAYS AS (
        nous_word_count(to_tsvector('english', CASE WHEN starts_with(lower(text), lower(subject)) THEN text
                                                    ELSE subject || ' ' || text END))) STORED,
    ADD COLUMN names text[] GENERATED ALWAYS AS (tsvector_to_array(to_tsvector('english', subject))) STORED,
    ADD COLUMN due_at timestamptz,
    ADD COLUMN next_embedding halfvec,
    ADD COLUMN next_model varchar(100) NOT NULL DEFAULT '';
-- One tree for all, in which each agent's words are its own: a search reads no other agent's rows.
CREATE INDEX memory_searchitem_words ON memory_searchitem USING gin (nous_agent_lexemes(agent_id, terms));
CREATE INDEX memory_searchitem_agent ON memory_searchitem (agent_id, active) INCLUDE (words);
CREATE INDEX memory_searchitem_unready ON memory_searchitem (status, due_at, id) WHERE status <> 'ready';
"""

BACKWARD = """
DROP INDEX memory_searchitem_unready;
DROP INDEX memory_searchitem_agent;
DROP INDEX memory_searchitem_words;
ALTER TABLE memory_searchitem
    DROP COLUMN words, DROP COLUMN names, DROP COLUMN terms, DROP COLUMN due_at, DROP COLUMN next_embedding, DROP COLUMN next_model,
    ADD COLUMN terms tsvector GENERATED ALWAYS AS (to_tsvector('english', subject || ' ' || text)) STORED;
CREATE INDEX memory_searchitem_agent ON memory_searchitem (agent_id, item_type, active);
CREATE INDEX memory_searchitem_terms ON memory_searchitem USING gin (terms);
CREATE INDEX memory_searchitem_unready ON memory_searchitem (status, attempts, id) WHERE status <> 'ready';
DROP FUNCTION nous_word_count(tsvector);
DROP FUNCTION nous_agent_lexemes(bigint, tsvector);
"""


class Migration(migrations.Migration):
    dependencies = [("identity", "0003_self_applied"), ("memory", "0005_fact_history")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FORWARD, BACKWARD)],
            state_operations=[
                migrations.AddField("searchitem", "words", models.IntegerField(default=0)),
                migrations.AddField("searchitem", "due_at", models.DateTimeField(null=True)),
                migrations.AddField("searchitem", "next_embedding", pgvector.django.halfvec.HalfVectorField(null=True)),
                migrations.AddField("searchitem", "next_model", models.CharField(blank=True, max_length=100)),
            ],
        ),
        migrations.CreateModel(
            name="EmbeddingModel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("dimension", models.PositiveIntegerField()),
                ("state", models.CharField(choices=[("active", "Active"), ("building", "Building")], max_length=10, unique=True)),
                ("since", models.DateTimeField(default=nousweb.lib.clock.now)),
            ],
        ),
        migrations.CreateModel(
            name="SearchStatistics",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("persona", models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20)),
                ("items", models.PositiveIntegerField()),
                ("mean_words", models.FloatField()),
                ("common", models.JSONField(default=dict)),
                ("vector_index_model", models.CharField(blank=True, max_length=100)),
                ("counted_at", models.DateTimeField(default=nousweb.lib.clock.now)),
                ("agent", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="identity.agent")),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("agent", "persona"), name="one_count_per_collection")],
            },
        ),
    ]
