"""Labels: a quarantined text may hold a secret instead of an instruction, and a review says what it is about."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0007_figures_of_facts"),
    ]

    operations = [
        migrations.AlterField(
            model_name="factchange",
            name="action",
            field=models.CharField(
                choices=[
                    ("stored", "Stored"),
                    ("confirmed", "Confirmed"),
                    ("superseded", "Replaced"),
                    ("invalidated", "Marked as wrong"),
                    ("restored", "Restored"),
                    ("merged", "Merged into another"),
                    ("edited", "Edited"),
                    ("quarantined", "Quarantined"),
                ],
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="memoryreview",
            name="kind",
            field=models.CharField(
                choices=[
                    ("duplicate", "Possible duplicate"),
                    ("contradiction", "Contradiction"),
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
