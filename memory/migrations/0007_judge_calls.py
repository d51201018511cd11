"""What the judge was asked and what it spent; append-only in the database, as the history of facts is."""

import django.db.models.deletion
from django.db import migrations, models

import nousweb.lib.clock

FORWARD = """
CREATE TRIGGER judge_call_rows_append_only BEFORE UPDATE OR DELETE ON memory_judgecall
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER judge_call_table_append_only BEFORE TRUNCATE ON memory_judgecall
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();
"""

BACKWARD = """
DROP TRIGGER judge_call_rows_append_only ON memory_judgecall;
DROP TRIGGER judge_call_table_append_only ON memory_judgecall;
"""


class Migration(migrations.Migration):
    dependencies = [("identity", "0002_append_only"), ("memory", "0006_embeddings")]
    operations = [
        migrations.CreateModel(
            name='JudgeCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('persona', models.CharField(choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], max_length=20)),
                ('task', models.CharField(choices=[('relation', 'Relation of two facts'), ('summarise', 'Summary of an episode'), ('extract_facts', 'Facts of an episode'), ('merge', 'Merging of facts')], max_length=20)),
                ('model', models.CharField(max_length=100)),
                ('prompt_version', models.CharField(max_length=20)),
                ('attempts', models.PositiveSmallIntegerField()),
                ('tokens_in', models.PositiveIntegerField(default=0)),
                ('tokens_out', models.PositiveIntegerField(default=0)),
                ('duration_ms', models.PositiveIntegerField()),
                ('verdict', models.JSONField(default=dict)),
                ('error', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=nousweb.lib.clock.now, editable=False)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='judge_calls', to='identity.agent')),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['-created_at'], name='memory_judg_created_40cddd_idx'), models.Index(fields=['agent', 'persona', '-created_at'], name='memory_judg_agent_i_0fbc33_idx')],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
