"""Passages of long texts with vectors of their own, and what each text says that is to be kept to.

What is there has no passages yet: `passages` is empty, and `manage.py reindex` lets the worker make them."""

import django.db.models.deletion
import pgvector.django.halfvec
from django.db import migrations, models

from memory.migration_operations import erasure_blanks

FORWARD = """
CREATE TABLE memory_searchpassage (
    agent_id bigint NOT NULL REFERENCES identity_agent (id) ON DELETE CASCADE,
    persona varchar(20) NOT NULL,
    row_id bigint NOT NULL,
    model varchar(100) NOT NULL,
    place smallint NOT NULL,
    begins integer NOT NULL,
    ends integer NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (row_id, model, place, persona, agent_id),
    FOREIGN KEY (persona, row_id) REFERENCES memory_searchitem (persona, id) ON DELETE CASCADE
) PARTITION BY LIST (persona);

CREATE TABLE memory_searchpassage_actor PARTITION OF memory_searchpassage FOR VALUES IN ('actor');
CREATE TABLE memory_searchpassage_subconscious PARTITION OF memory_searchpassage FOR VALUES IN ('subconscious');
CREATE INDEX memory_searchpassage_agent ON memory_searchpassage (agent_id, model);
CREATE INDEX memory_searchitem_standing ON memory_searchitem (agent_id) WHERE standing <> '';
"""

BACKWARD = """
DROP INDEX memory_searchitem_standing;
DROP TABLE memory_searchpassage;
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0025_project_erasure_and_lists")]
    operations = [
        migrations.AddField("searchitem", "passages", models.PositiveSmallIntegerField(null=True)),
        migrations.AddField(
            "searchitem", "standing", models.CharField(blank=True, db_default="", default="", max_length=20)
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FORWARD, BACKWARD)],
            state_operations=[
                migrations.CreateModel(
                    name="SearchPassage",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "row_id", "model", "place", "persona", "agent", blank=True, editable=False,
                                primary_key=True, serialize=False,
                            ),
                        ),
                        ("persona", models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20)),
                        ("row_id", models.BigIntegerField()),
                        ("model", models.CharField(max_length=100)),
                        ("place", models.PositiveSmallIntegerField()),
                        ("begins", models.PositiveIntegerField()),
                        ("ends", models.PositiveIntegerField()),
                        ("embedding", pgvector.django.halfvec.HalfVectorField()),
                        ("agent", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="identity.agent")),
                    ],
                    options={"db_table": "memory_searchpassage"},
                ),
            ],
        ),
        erasure_blanks("searchpassage"),
    ]
