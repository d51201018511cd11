"""What people decided about attributes, and the reviews that ask them."""

import django.db.models.deletion
import nousweb.lib.clock
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0001_squashed_0026_labels'),
        ('memory', '0050_stated_attributes'),
    ]

    operations = [
        migrations.CreateModel(
            name='Attribute',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('persona', models.CharField(choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], default='actor', max_length=20)),
                ('name', models.CharField(max_length=80)),
                ('cardinality', models.CharField(choices=[('one', 'one'), ('many', 'many')], max_length=10)),
                ('decided_by', models.CharField(max_length=200)),
                ('decided_at', models.DateTimeField(default=nousweb.lib.clock.now, editable=False)),
            ],
            options={
                'ordering': ['name', 'id'],
            },
        ),
        migrations.RemoveIndex(
            model_name='memoryreview',
            name='memory_review_old',
        ),
        migrations.RemoveIndex(
            model_name='memoryreview',
            name='memory_review_new',
        ),
        migrations.AlterField(
            model_name='memoryreview',
            name='kind',
            field=models.CharField(choices=[('duplicate', 'Possible duplicate'), ('contradiction', 'Possible contradiction'), ('escalation', 'Censor escalated'), ('low_confidence', 'Uncertain fact'), ('compaction', 'Many facts on one subject'), ('relearned', 'Learned again after being marked as wrong'), ('repeated', 'Same sentence about another subject'), ('same_subject', 'Possibly the same subject'), ('held', 'Reads like an instruction'), ('attribute', 'One value at a time or several')], max_length=20),
        ),
        migrations.AlterField(
            model_name='memoryreview',
            name='status',
            field=models.CharField(choices=[('pending', 'Pending'), ('resolved', 'Resolved'), ('expired', 'Expired'), ('joined', 'Asked with its attribute')], default='pending', max_length=10),
        ),
        migrations.AddIndex(
            model_name='memoryreview',
            index=models.Index(condition=models.Q(('kind__in', ['contradiction', 'duplicate']), ('status__in', ['pending', 'expired', 'joined'])), fields=['old'], name='memory_review_old'),
        ),
        migrations.AddIndex(
            model_name='memoryreview',
            index=models.Index(condition=models.Q(('kind__in', ['contradiction', 'duplicate']), ('status__in', ['pending', 'expired', 'joined'])), fields=['new'], name='memory_review_new'),
        ),
        migrations.AddField(
            model_name='attribute',
            name='agent',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='identity.agent'),
        ),
        migrations.AddConstraint(
            model_name='attribute',
            constraint=models.UniqueConstraint(fields=('agent', 'persona', 'name'), name='attribute_name'),
        ),
    ]
