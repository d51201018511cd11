import django.db.models.deletion
import nousweb.lib.clock
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0021_agent_limits'),
        ('memory', '0038_seals'),
    ]

    operations = [
        migrations.CreateModel(
            name='ExportRun',
            fields=[
                ('author_kind', models.CharField(choices=[('person', 'Person'), ('token', 'Agent'), ('system', 'System')], max_length=10)),
                ('author_id', models.CharField(max_length=100)),
                ('author_name', models.CharField(max_length=200)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('persona', models.CharField(blank=True, choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], max_length=20)),
                ('with_audit', models.BooleanField(default=False)),
                ('status', models.CharField(choices=[('running', 'Running'), ('done', 'Done'), ('stopped', 'Stopped'), ('failed', 'Failed'), ('deleted', 'File deleted')], default='running', max_length=10)),
                ('lines', models.PositiveBigIntegerField(default=0)),
                ('expected', models.PositiveBigIntegerField(default=0)),
                ('file_bytes', models.BigIntegerField(default=0)),
                ('error', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=nousweb.lib.clock.now)),
                ('changed_at', models.DateTimeField(default=nousweb.lib.clock.now)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='identity.agent')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [models.Index(fields=['agent', '-created_at', '-id'], name='export_run_of_agent')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('status', 'running')), fields=('agent',), name='one_export_of_an_agent_runs')],
            },
        ),
    ]
