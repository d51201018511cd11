"""Quarantined texts may hold a secret: their label says no longer that they read like an instruction."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0007_figures_of_facts"),
    ]

    operations = [
        migrations.AlterField(
            model_name="memoryreview",
            name="kind",
            field=models.CharField(
                choices=[
                    ("duplicate", "Possible duplicate"),
                    ("contradiction", "Possible contradiction"),
                    ("escalation", "Censor escalated"),
                    ("low_confidence", "Uncertain fact"),
                    ("compaction", "Many facts on one subject"),
                    ("relearned", "Learned again after being marked as wrong"),
                    ("repeated", "Same sentence about another subject"),
                    ("same_subject", "Possibly the same subject"),
                    ("quarantined", "Quarantined"),
                    ("new_memory", "New memory"),
                    ("attribute", "One value at a time or several"),
                ],
                max_length=20,
            ),
        ),
    ]
