"""Documents: what agents keep under a key, each change a version. Erasing a project erases its documents too."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import nousweb.lib.clock
import uuid
from django.db import migrations, models

from memory.migration_operations import erasure_blanks

_ERASED = """
    WITH erased AS (DELETE FROM memory_procedure p"""
_DOCUMENTS = """
    WITH erased AS (DELETE FROM memory_document d WHERE d.agent_id = agent AND d.project = named RETURNING d.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('document', count);"""
_REPLACE = """
DO $$
DECLARE
    source text := pg_get_functiondef('nous_erase_project(bigint, text, jsonb)'::regprocedure);
BEGIN
    IF strpos(source, $text${before}$text$) = 0 OR strpos(source, $text${listed}$text$) = 0 THEN
        RAISE EXCEPTION 'nous_erase_project no longer says what it deletes';
    END IF;
    source := replace(source, $text${before}$text$, $text${after}$text$);
    EXECUTE replace(source, $text${listed}$text$, $text${longer}$text$);
END $$;
"""
_LISTED, _LONGER = "('decision', 'procedure'", "('decision', 'document', 'procedure'"


def replaced(before: str, after: str, listed: str, longer: str) -> str:
    named = {"before": before, "after": after, "listed": listed, "longer": longer}
    text = _REPLACE
    for name, part in named.items():
        text = text.replace(f"{{{name}}}", part)
    return text



class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0014_audit_channel'),
        ('memory', '0026_search_passages'),
    ]

    operations = [
        migrations.AlterField(
            model_name='searchitem',
            name='item_type',
            field=models.CharField(choices=[('event', 'Event'), ('fact', 'Fact'), ('episode', 'Episode'), ('procedure', 'Procedure'), ('decision', 'Decision'), ('document', 'Document')], max_length=10),
        ),
        migrations.CreateModel(
            name='Document',
            fields=[
                ('author_kind', models.CharField(choices=[('person', 'Person'), ('token', 'Agent'), ('system', 'System')], max_length=10)),
                ('author_id', models.CharField(max_length=100)),
                ('author_name', models.CharField(max_length=200)),
                ('project', models.CharField(blank=True, db_default='', default='', max_length=100)),
                ('task', models.CharField(blank=True, db_default='', default='', max_length=100)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('persona', models.CharField(choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], default='actor', max_length=20)),
                ('scope', models.CharField(choices=[('task', 'Task'), ('project', 'Project'), ('global', 'Global')], default='global', max_length=10)),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=50), blank=True, default=list, size=None)),
                ('importance', models.FloatField(default=0.5, validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(1.0)])),
                ('active', models.BooleanField(default=True)),
                ('retired_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('created_at', models.DateTimeField(default=nousweb.lib.clock.now, editable=False)),
                ('updated_at', models.DateTimeField(default=nousweb.lib.clock.now, editable=False)),
                ('endorsed', models.BooleanField(default=False, editable=False)),
                ('namespace', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), size=None)),
                ('key', models.CharField(max_length=300)),
                ('address', models.CharField(editable=False, max_length=64)),
                ('value', models.JSONField(default=dict)),
                ('index_fields', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), blank=True, null=True, size=None)),
                ('text', models.TextField(blank=True)),
                ('version', models.PositiveIntegerField(default=1)),
                ('first_created_at', models.DateTimeField(default=nousweb.lib.clock.now, editable=False)),
                ('retired_by', models.CharField(blank=True, max_length=200)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='%(class)ss', to='identity.agent')),
                ('superseded_by', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='supersedes', to='memory.document')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [django.contrib.postgres.indexes.GinIndex(condition=models.Q(('active', True)), fields=['namespace'], name='document_of_namespace'), models.Index(fields=['agent', 'persona', '-created_at', '-id'], name='document_latest'), models.Index(condition=models.Q(('project', ''), _negated=True), fields=['agent', 'persona', 'project', '-created_at', '-id'], name='document_of_project')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('active', True)), fields=('agent', 'persona', 'address'), name='document_one_active'), models.UniqueConstraint(fields=('agent', 'persona', 'address', 'version'), name='document_versions'), models.CheckConstraint(condition=models.Q(models.Q(('active', True), ('retired_at__isnull', True), ('superseded_by__isnull', True)), models.Q(('active', False), ('retired_at__isnull', False)), _connector='OR'), name='document_active_until_retired')],
            },
        ),
        migrations.RunSQL(
            replaced(_ERASED, _DOCUMENTS + _ERASED, _LISTED, _LONGER),
            replaced(_DOCUMENTS + _ERASED, _ERASED, _LONGER, _LISTED),
        ),
        erasure_blanks("document"),
    ]
