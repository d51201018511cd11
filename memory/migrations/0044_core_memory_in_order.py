"""An index in the order in which prompts read core memory. It is made while people and agents write.

Making it waits for each transaction that is under way, which keeps nobody else waiting, so that it may take longer than
other locks. What a former try left unfinished is taken away first.
"""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

ORDER = (
    models.F("endorsed").desc(),
    models.Case(models.When(category__in=("rule",), then=0), default=1, output_field=models.IntegerField()),
    models.F("confidence").desc(),
    models.F("importance").desc(),
    models.F("recorded_at").desc(),
    models.F("id").asc(),
)


class Migration(migrations.Migration):
    # What is made beside other work has no transaction.
    atomic = False

    dependencies = [("memory", "0043_agent_in_every_table")]

    operations = [
        migrations.RunSQL("SET lock_timeout = 0", "RESET lock_timeout"),
        migrations.RunSQL("DROP INDEX CONCURRENTLY IF EXISTS fact_core", migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="fact",
            index=models.Index(
                models.F("agent"),
                models.F("persona"),
                *ORDER,
                condition=models.Q(active=True, category__in=("person", "preference", "rule")),
                name="fact_core",
            ),
        ),
        migrations.RunSQL("RESET lock_timeout", "SET lock_timeout = 0"),
    ]
