"""Where imported memory came from."""

import django.db.models.deletion
import nousweb.lib.clock
from django.db import migrations, models

from memory.migration_operations import erasure_blanks


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0014_audit_channel'),
        ('memory', "0027_documents"),
    ]

    operations = [
        migrations.CreateModel(
            name='ImportedMemory',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('persona', models.CharField(choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], max_length=20)),
                ('system', models.CharField(max_length=30)),
                ('key', models.CharField(max_length=64)),
                ('source_id', models.CharField(blank=True, max_length=300)),
                ('content_hash', models.CharField(blank=True, max_length=64)),
                ('item_type', models.CharField(max_length=20)),
                ('item_id', models.CharField(blank=True, max_length=40)),
                ('outcome', models.CharField(choices=[('stored', 'Stored'), ('confirmed', 'Known already, and confirmed'), ('superseded', 'Stored in the place of another'), ('queued', 'Waits for people'), ('decided', 'Not stored, as people had decided'), ('proposed', 'Proposed for the identity'), ('unchanged', 'Part of the identity already'), ('erased', 'Erased since')], max_length=20)),
                ('file', models.CharField(blank=True, max_length=255)),
                ('imported_at', models.DateTimeField(default=nousweb.lib.clock.now)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='identity.agent')),
            ],
            options={
                'indexes': [models.Index(fields=['agent', 'item_type', 'item_id'], name='import_of_item')],
                'constraints': [models.UniqueConstraint(fields=('agent', 'persona', 'system', 'key'), name='one_import_per_source_id')],
            },
        ),
        erasure_blanks("importedmemory"),
    ]
