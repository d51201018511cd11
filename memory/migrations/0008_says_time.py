"""Whether an item says a time, worked out once when it is written instead of at every search."""

from django.db import migrations

FORWARD = """
ALTER TABLE memory_searchitem ADD COLUMN says_time boolean GENERATED ALWAYS AS (
    to_tsvector('english', text) @@ to_tsquery('english',
        'yesterday | today | tonight | tomorrow | ago | last | next | week | weekend | month | year | day | morning'
        ' | monday | tuesday | wednesday | thursday | friday | saturday | sunday | january | february | march | april'
        ' | may | june | july | august | september | october | november | december | recently | since'
        ' | summer | winter | spring | fall')) STORED
"""
BACKWARD = "ALTER TABLE memory_searchitem DROP COLUMN says_time"


class Migration(migrations.Migration):
    dependencies = [("memory", "0007_judge_calls")]
    operations = [migrations.RunSQL(FORWARD.replace("'\n        ' |", " |"), BACKWARD)]
