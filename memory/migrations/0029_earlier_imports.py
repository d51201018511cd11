"""What imported memory became before its source said something else."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0028_imported_memory'),
    ]

    operations = [
        migrations.AddField(
            model_name='importedmemory',
            name='earlier_item_ids',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), blank=True, default=list, size=None),
        ),
    ]
