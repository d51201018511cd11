"""Rename the model of a job. Its table keeps its name; its permissions follow the model's."""

import django.db.models.deletion
from django.db import migrations, models


def rename_permissions(apps, schema_editor):
    permission = apps.get_model("auth", "Permission")
    for action in ("add", "change", "delete", "view"):
        permission.objects.filter(
            content_type__app_label="memory", codename=f"{action}_lifecyclerun"
        ).update(codename=f"{action}_job", name=f"Can {action} job")


def restore_permissions(apps, schema_editor):
    permission = apps.get_model("auth", "Permission")
    for action in ("add", "change", "delete", "view"):
        permission.objects.filter(content_type__app_label="memory", codename=f"{action}_job").update(
            codename=f"{action}_lifecyclerun", name=f"Can {action} lifecycle run"
        )


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0017_endorsed_memories"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.AlterModelTable("lifecyclerun", "memory_lifecyclerun"),
        migrations.RenameModel("LifecycleRun", "Job"),
        migrations.AlterField(
            "job",
            "agent",
            models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="identity.agent"
            ),
        ),
        migrations.RunPython(rename_permissions, restore_permissions),
    ]
