"""Where the words of each memory come from, and whether they are held back.

What is there gets its origin from what is known of it: the kind and the source of an event, the events of an episode,
the episode, the source or the import of a fact. Nothing that is there is held back.
"""

from django.db import migrations, models


TOOL = "('tool_result', 'error')"
PAGE = r"'^\s*(https?|ftp)://'"
SOURCES = "coalesce(nullif({0} ->> 'source', ''), nullif({0} ->> 'url', ''), {0} ->> 'link', '')"
FORWARD = f"""
UPDATE memory_longtermentry AS entry SET origin = 'tool' FROM memory_event AS event
    WHERE event.id = entry.event_id AND event.kind IN {TOOL};
UPDATE memory_longtermentry AS entry SET origin = 'imported' FROM memory_importedmemory AS import
    WHERE import.agent_id = entry.agent_id AND import.item_type = 'event' AND import.item_id = entry.event_id::text;
UPDATE memory_longtermentry AS entry SET origin = 'web' FROM memory_event AS event
    WHERE event.id = entry.event_id AND event.metadata <> '{{}}' AND {SOURCES.format("event.metadata")} ~* {PAGE};
UPDATE memory_episode AS episode SET origin = least_trusted.origin FROM (
    SELECT member.episode_id, CASE
        WHEN bool_or(entry.origin = 'web') THEN 'web'
        WHEN bool_or(entry.origin = 'imported') THEN 'imported' ELSE 'tool' END AS origin
    FROM memory_episodeevent AS member JOIN memory_longtermentry AS entry USING (event_id)
    WHERE entry.origin <> 'agent' GROUP BY member.episode_id
) AS least_trusted WHERE least_trusted.episode_id = episode.id;
UPDATE memory_fact AS fact SET origin = episode.origin FROM memory_episode AS episode
    WHERE episode.id = fact.source_episode_id AND episode.origin <> 'agent' AND NOT episode.endorsed;
UPDATE memory_decision AS decision SET origin = episode.origin FROM memory_episode AS episode
    WHERE episode.id = decision.episode_id AND episode.origin <> 'agent' AND NOT episode.endorsed;
UPDATE memory_fact AS fact SET origin = entry.origin FROM memory_longtermentry AS entry
    WHERE entry.event_id = fact.source_event_id AND entry.origin <> 'agent';
UPDATE memory_fact AS fact SET origin = 'imported' FROM memory_importedmemory AS import
    WHERE import.agent_id = fact.agent_id AND import.item_type = 'fact' AND import.item_id = fact.id::text
    AND fact.origin <> 'web';
UPDATE memory_fact SET origin = 'web' WHERE source ~* {PAGE};
UPDATE memory_document SET origin = 'web' WHERE {SOURCES.format("value")} ~* {PAGE};
UPDATE memory_document SET origin = 'person' WHERE author_kind = 'person';
"""


class Migration(migrations.Migration):
    dependencies = [
        ("identity", "0018_oauth"),
        ("memory", "0031_search_languages"),
    ]

    operations = [
        migrations.AddField(
            model_name="censor",
            name="held",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="censor",
            name="origin",
            field=models.CharField(
                choices=[
                    ("person", "Person"),
                    ("agent", "Agent"),
                    ("tool", "Tool output"),
                    ("imported", "Imported"),
                    ("web", "Web"),
                ],
                db_default="agent",
                default="agent",
                editable=False,
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="held",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="decision",
            name="origin",
            field=models.CharField(
                choices=[
                    ("person", "Person"),
                    ("agent", "Agent"),
                    ("tool", "Tool output"),
                    ("imported", "Imported"),
                    ("web", "Web"),
                ],
                db_default="agent",
                default="agent",
                editable=False,
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="document",
            name="held",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="document",
            name="origin",
            field=models.CharField(
                choices=[
                    ("person", "Person"),
                    ("agent", "Agent"),
                    ("tool", "Tool output"),
                    ("imported", "Imported"),
                    ("web", "Web"),
                ],
                db_default="agent",
                default="agent",
                editable=False,
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="episode",
            name="held",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="episode",
            name="origin",
            field=models.CharField(
                choices=[
                    ("person", "Person"),
                    ("agent", "Agent"),
                    ("tool", "Tool output"),
                    ("imported", "Imported"),
                    ("web", "Web"),
                ],
                db_default="agent",
                default="agent",
                editable=False,
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="fact",
            name="held",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="fact",
            name="origin",
            field=models.CharField(
                choices=[
                    ("person", "Person"),
                    ("agent", "Agent"),
                    ("tool", "Tool output"),
                    ("imported", "Imported"),
                    ("web", "Web"),
                ],
                db_default="agent",
                default="agent",
                editable=False,
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="longtermentry",
            name="held",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="longtermentry",
            name="origin",
            field=models.CharField(
                choices=[
                    ("person", "Person"),
                    ("agent", "Agent"),
                    ("tool", "Tool output"),
                    ("imported", "Imported"),
                    ("web", "Web"),
                ],
                db_default="agent",
                default="agent",
                editable=False,
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="procedure",
            name="held",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="procedure",
            name="origin",
            field=models.CharField(
                choices=[
                    ("person", "Person"),
                    ("agent", "Agent"),
                    ("tool", "Tool output"),
                    ("imported", "Imported"),
                    ("web", "Web"),
                ],
                db_default="agent",
                default="agent",
                editable=False,
                max_length=10,
            ),
        ),
        migrations.AddIndex(
            model_name="longtermentry",
            index=models.Index(condition=models.Q(("held", True)), fields=["agent", "event"], name="held_events"),
        ),
        migrations.RunSQL(FORWARD, migrations.RunSQL.noop),
    ]
