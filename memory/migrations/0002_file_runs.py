"""One table of imports and exports instead of two."""

import django.db.models.deletion
import uuid
from django.db import migrations, models

from nousweb.lib.clock import now


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0001_initial'),
        ('memory', '0001_initial'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='importrun',
            name='agent',
        ),
        migrations.CreateModel(
            name='FileRun',
            fields=[
                ('author_kind', models.CharField(choices=[('person', 'Person'), ('token', 'Agent'), ('system', 'System')], max_length=10)),
                ('author_id', models.CharField(max_length=100)),
                ('author_name', models.CharField(max_length=200)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('import', 'Import'), ('export', 'Export')], max_length=10)),
                ('persona', models.CharField(blank=True, choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], max_length=20)),
                ('status', models.CharField(choices=[('uploading', 'Uploading'), ('checking', 'Being checked'), ('ready', 'Checked, not started'), ('refused', 'Refused'), ('running', 'Running'), ('stopped', 'Stopped'), ('done', 'Done'), ('failed', 'Failed'), ('discarded', 'File deleted')], max_length=10)),
                ('file_name', models.CharField(blank=True, max_length=255)),
                ('file_bytes', models.BigIntegerField(default=0)),
                ('received_bytes', models.BigIntegerField(default=0)),
                ('system', models.CharField(blank=True, max_length=30)),
                ('options', models.JSONField(default=dict)),
                ('survey', models.JSONField(default=dict)),
                ('outcomes', models.JSONField(default=dict)),
                ('known', models.JSONField(default=dict)),
                ('changed', models.JSONField(default=dict)),
                ('position', models.PositiveBigIntegerField(default=0)),
                ('share', models.FloatField(default=0.0)),
                ('work_seconds', models.FloatField(default=0.0)),
                ('slice', models.PositiveIntegerField(default=0)),
                ('error', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=now)),
                ('changed_at', models.DateTimeField(default=now)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='identity.agent')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'permissions': [('import_memory', 'Can import memories from a file')],
            },
        ),
        migrations.DeleteModel(
            name='ExportRun',
        ),
        migrations.DeleteModel(
            name='ImportRun',
        ),
        migrations.AddIndex(
            model_name='filerun',
            index=models.Index(fields=['agent', 'kind', '-created_at', '-id'], name='file_run_of_agent'),
        ),
        migrations.AddConstraint(
            model_name='filerun',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'export'), ('status', 'running')), fields=('agent',), name='one_export_of_an_agent_runs'),
        ),
    ]
