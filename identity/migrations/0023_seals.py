"""Seals over what is append-only. The database keeps them itself: a seal is never changed or removed, and of leaves and
holes an erasure alone changes what it must (memory/migrations/0038_seals.py)."""

import django.contrib.postgres.fields
import django.db.models.deletion
import nousweb.lib.clock
from django.db import migrations, models


FORWARD = """
CREATE FUNCTION nous_seal_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME <> 'identity_logseal' AND current_setting('nous.erasure', true) = 'on' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% keeps what was sealed: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER seal_rows_kept BEFORE UPDATE OR DELETE ON identity_logseal
    FOR EACH ROW EXECUTE FUNCTION nous_seal_kept();
CREATE TRIGGER seal_table_kept BEFORE TRUNCATE ON identity_logseal
    FOR EACH STATEMENT EXECUTE FUNCTION nous_seal_kept();
CREATE TRIGGER leaf_rows_kept BEFORE UPDATE OR DELETE ON identity_logleaves
    FOR EACH ROW EXECUTE FUNCTION nous_seal_kept();
CREATE TRIGGER leaf_table_kept BEFORE TRUNCATE ON identity_logleaves
    FOR EACH STATEMENT EXECUTE FUNCTION nous_seal_kept();
CREATE TRIGGER hole_rows_kept BEFORE UPDATE OR DELETE ON identity_loghole
    FOR EACH ROW EXECUTE FUNCTION nous_seal_kept();
CREATE TRIGGER hole_table_kept BEFORE TRUNCATE ON identity_loghole
    FOR EACH STATEMENT EXECUTE FUNCTION nous_seal_kept();
"""
BACKWARD = """
DROP TRIGGER seal_rows_kept ON identity_logseal;
DROP TRIGGER seal_table_kept ON identity_logseal;
DROP TRIGGER leaf_rows_kept ON identity_logleaves;
DROP TRIGGER leaf_table_kept ON identity_logleaves;
DROP TRIGGER hole_rows_kept ON identity_loghole;
DROP TRIGGER hole_table_kept ON identity_loghole;
DROP FUNCTION nous_seal_kept();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0022_demo_tour'),
    ]

    operations = [
        migrations.CreateModel(
            name='LogHole',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slot', models.PositiveIntegerField()),
                ('key', models.TextField()),
                ('blanked', models.BooleanField()),
                ('receipt_id', models.BigIntegerField(null=True)),
                ('transaction', models.TextField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='LogHorizon',
            fields=[
                ('kind', models.CharField(max_length=30, primary_key=True, serialize=False)),
                ('floor', models.BigIntegerField(default=0)),
                ('next_floor', models.BigIntegerField(null=True)),
                ('next_transaction', models.BigIntegerField(null=True)),
                ('noted_at', models.DateTimeField(null=True)),
                ('done_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='LogSeal',
            fields=[
                ('serial', models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                ('format', models.PositiveSmallIntegerField()),
                ('kind', models.CharField(max_length=30)),
                ('agent_id', models.BigIntegerField(null=True)),
                ('agent_slug', models.CharField(blank=True, max_length=50)),
                ('persona', models.CharField(choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], max_length=20)),
                ('number', models.PositiveBigIntegerField()),
                ('first', models.PositiveBigIntegerField()),
                ('count', models.PositiveIntegerField()),
                ('floor', models.BigIntegerField(null=True)),
                ('since', models.DateTimeField(null=True)),
                ('sealed_at', models.DateTimeField()),
                ('root', models.CharField(max_length=64)),
                ('chain_previous', models.CharField(blank=True, max_length=64)),
                ('previous', models.CharField(blank=True, max_length=64)),
                ('hash', models.CharField(max_length=64)),
            ],
            options={
                'ordering': ['-serial'],
            },
        ),
        migrations.CreateModel(
            name='LogVerification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('asked_by', models.CharField(max_length=200)),
                ('asked_at', models.DateTimeField(default=nousweb.lib.clock.now)),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')], default='waiting', max_length=10)),
                ('started_at', models.DateTimeField(null=True)),
                ('worked_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('serial', models.PositiveBigIntegerField(default=0)),
                ('last_serial', models.PositiveBigIntegerField(default=0)),
                ('rows', models.PositiveBigIntegerField(default=0)),
                ('holes', models.PositiveBigIntegerField(default=0)),
                ('problems', models.PositiveBigIntegerField(default=0)),
                ('findings', models.JSONField(default=list)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='LogLeaves',
            fields=[
                ('seal', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='leaves', serialize=False, to='identity.logseal')),
                ('kind', models.CharField(max_length=30)),
                ('first_key', models.BigIntegerField(null=True)),
                ('last_key', models.BigIntegerField(null=True)),
                ('keys', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ('contents', models.BinaryField()),
                ('salts', models.BinaryField()),
                ('digests', models.BinaryField(null=True)),
            ],
        ),
        migrations.AddIndex(
            model_name='logseal',
            index=models.Index(fields=['kind', '-serial'], name='seals_of_kind'),
        ),
        migrations.AddConstraint(
            model_name='logseal',
            constraint=models.UniqueConstraint(fields=('agent_id', 'persona', 'kind', 'number'), name='one_seal_per_number', nulls_distinct=False),
        ),
        migrations.AddField(
            model_name='loghole',
            name='seal',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='holes', to='identity.logseal'),
        ),
        migrations.AddIndex(
            model_name='logleaves',
            index=models.Index(fields=['kind', 'last_key'], name='leaves_by_key'),
        ),
        migrations.AddIndex(
            model_name='loghole',
            index=models.Index(fields=['receipt_id'], name='holes_of_receipt'),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
