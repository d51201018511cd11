"""One index of the words of all facts, for those that were active once too, in place of two that had some."""

from django.db import migrations

_WORDS = r"(agent_id, persona, md5(rtrim(regexp_replace(btrim(content), '\s+', ' ', 'g'), ' .!')))"


class Migration(migrations.Migration):
    dependencies = [("memory", "0005_users_of_the_index")]
    operations = [
        migrations.RunSQL(
            f"""
CREATE INDEX memory_fact_words ON memory_fact {_WORDS};
DROP INDEX memory_fact_said;
DROP INDEX memory_fact_rejected;
""",
            f"""
CREATE INDEX memory_fact_said ON memory_fact {_WORDS} WHERE active;
CREATE INDEX memory_fact_rejected ON memory_fact {_WORDS} WHERE invalidated_at IS NOT NULL;
DROP INDEX memory_fact_words;
""",
        )
    ]
