"""The tables of identity for a new database, and what their models do not say.

The text of each function is the same in every database, so that a later migration can replace a part of it. Where a
line of a function is longer than a line of this file, a backslash joins its parts.
"""

import uuid

import django.contrib.postgres.fields
import django.core.validators
from django.conf import settings
from django.db import migrations, models

from nousweb.database.table_operations import CreateTables
from nousweb.lib.clock import now

VECTOR = "CREATE EXTENSION IF NOT EXISTS vector"
"""The type of embeddings, which memory's tables need."""

APPEND_ONLY = """
CREATE FUNCTION nous_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('nous.erasure', true) = 'on' THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        IF TG_OP = 'UPDATE' AND TG_NARGS > 0
           AND to_jsonb(OLD) - TG_ARGV = to_jsonb(NEW) - TG_ARGV
           AND NOT EXISTS (
               SELECT 1 FROM unnest(TG_ARGV) AS name WHERE to_jsonb(NEW) -> name NOT IN ('null'::jsonb, '""'::jsonb))
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION nous_version_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.is_current AND NOT NEW.is_current
       AND to_jsonb(OLD) - 'is_current' = to_jsonb(NEW) - 'is_current' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an identity version is never edited' USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER audit_rows_append_only BEFORE UPDATE OR DELETE ON identity_auditevent
    FOR EACH ROW EXECUTE FUNCTION nous_append_only('before', 'after', 'message', 'object_label');
CREATE TRIGGER audit_table_append_only BEFORE TRUNCATE ON identity_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();

CREATE TRIGGER version_rows_immutable BEFORE UPDATE ON identity_identityversion
    FOR EACH ROW EXECUTE FUNCTION nous_version_immutable();
CREATE TRIGGER version_rows_kept BEFORE DELETE ON identity_identityversion
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER version_table_kept BEFORE TRUNCATE ON identity_identityversion
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();
"""
"""Rows of the audit trail and of identity versions cannot be changed.

A session that sets `nous.erasure` to `on` may delete rows, and may empty those columns of the audit trail that its
trigger names, while every other column stays as it is: the path of an audited erasure. TRUNCATE is always refused.
"""

AGENT_HOLD = """
CREATE FUNCTION nous_agent_hold(agent bigint, alone boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF alone THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('nous.agent:' || agent, 0));
    ELSE
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('nous.agent:' || agent, 0));
    END IF;
    -- A statement of its own in a volatile function: it sees what was committed while the lock was waited for.
    RETURN (SELECT erasures FROM identity_agent WHERE id = agent);
END $$;
"""
"""A lock that those who write for an agent share, and that an erasure has for itself. It returns the number of the
agent's erasures."""

CHANGE_FEED = """
CREATE FUNCTION nous_changes_publish(of_agent bigint, of_persona text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    held bigint;
    published integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM identity_change
                   WHERE agent_id = of_agent AND persona = of_persona AND position IS NULL) THEN
        RETURN 0;
    END IF;
    INSERT INTO identity_changestream (agent_id, persona, last, purged) VALUES (of_agent, of_persona, 0, 0)
    ON CONFLICT (agent_id, persona) DO NOTHING;
    SELECT last INTO held FROM identity_changestream WHERE agent_id = of_agent AND persona = of_persona
    FOR NO KEY UPDATE;
    -- A statement of its own, begun under the lock: it sees all that was committed before.
    WITH next AS (
        SELECT id, row_number() OVER (ORDER BY id) AS place FROM (
            SELECT id FROM identity_change
            WHERE agent_id = of_agent AND persona = of_persona AND position IS NULL ORDER BY id LIMIT 5000) first)
    UPDATE identity_change change SET position = held + next.place FROM next\
 WHERE change.agent_id = of_agent AND change.id = next.id;
    GET DIAGNOSTICS published = ROW_COUNT;
    UPDATE identity_changestream SET last = held + published WHERE agent_id = of_agent AND persona = of_persona;
    RETURN published;
END $$;

CREATE FUNCTION nous_changes_purge(of_agent bigint, of_persona text, before timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    horizon bigint;
    deleted integer;
BEGIN
    -- Everything up to the youngest of the old ones goes, so that what is left has no holes.
    SELECT min(position) - 1 INTO horizon FROM identity_change
    WHERE agent_id = of_agent AND persona = of_persona AND position IS NOT NULL AND at >= before;
    IF horizon IS NULL THEN
        SELECT last INTO horizon FROM identity_changestream WHERE agent_id = of_agent AND persona = of_persona;
    END IF;
    IF horizon IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE identity_changestream SET purged = greatest(purged, horizon)
    WHERE agent_id = of_agent AND persona = of_persona;
    DELETE FROM identity_change WHERE agent_id = of_agent AND persona = of_persona AND position <= horizon;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;

DO $$
DECLARE
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY['nous_changes_publish(bigint, text)',
                                    'nous_changes_purge(bigint, text, timestamptz)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', function, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
"""
"""The change feed: writers add rows, and these functions give them their places in a stream.

A number from a sequence is given before the commit, so a lower one may become visible after a higher one was read. So
the place is given afterwards: `nous_changes_publish` numbers what is committed and has no place yet, one publisher of
a stream at a time. It never waits for a writer, and no writer waits for it. Of what it finds, what was written first
comes first; a change that follows from another one is written after that one's commit, so it never comes before it.

The functions belong to the owner: the product adds rows and deletes them, and changes none.
"""

SEALS = """
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
"""A seal is never changed or removed. Of leaves and holes an erasure alone changes what it must: see `HOLES` in
memory/migrations/0001_initial.py."""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(VECTOR),
        CreateTables(
            [
                migrations.CreateModel(
                    name="Agent",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "slug",
                            models.CharField(
                                max_length=50,
                                unique=True,
                                validators=[
                                    django.core.validators.RegexValidator(
                                        "^[a-z0-9][a-z0-9_-]{0,49}$",
                                        "Use 1 to 50 lower-case letters, digits, - or _, beginning with a letter or digit.",
                                    )
                                ],
                            ),
                        ),
                        ("name", models.CharField(max_length=100)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("knight", "Knight: carries work out"),
                                    ("squire", "Squire: reviews and helps"),
                                    ("royalty", "Royalty: plans and delegates"),
                                    ("peasant", "Peasant: one narrow helper task"),
                                ],
                                default="squire",
                                max_length=20,
                            ),
                        ),
                        ("config", models.JSONField(blank=True, default=dict)),
                        ("initiated_at", models.DateTimeField(blank=True, null=True)),
                        ("erasures", models.PositiveBigIntegerField(default=0, editable=False)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                    ],
                    options={
                        "ordering": ["slug"],
                        "permissions": [("reinitiate_agent", "Can seed an agent's identity again")],
                    },
                ),
                migrations.CreateModel(
                    name="LogHole",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("slot", models.PositiveIntegerField()),
                        ("key", models.TextField()),
                        ("blanked", models.BooleanField()),
                        ("receipt_id", models.BigIntegerField(null=True)),
                        ("transaction", models.TextField()),
                        ("at", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ["-id"],
                    },
                ),
                migrations.CreateModel(
                    name="LogHorizon",
                    fields=[
                        ("kind", models.CharField(max_length=30, primary_key=True, serialize=False)),
                        ("floor", models.BigIntegerField(default=0)),
                        ("next_floor", models.BigIntegerField(null=True)),
                        ("next_transaction", models.BigIntegerField(null=True)),
                        ("noted_at", models.DateTimeField(null=True)),
                        ("done_at", models.DateTimeField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="LogSeal",
                    fields=[
                        ("serial", models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                        ("format", models.PositiveSmallIntegerField()),
                        ("kind", models.CharField(max_length=30)),
                        ("agent_id", models.BigIntegerField(null=True)),
                        ("agent_slug", models.CharField(blank=True, max_length=50)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("number", models.PositiveBigIntegerField()),
                        ("first", models.PositiveBigIntegerField()),
                        ("count", models.PositiveIntegerField()),
                        ("floor", models.BigIntegerField(null=True)),
                        ("since", models.DateTimeField(null=True)),
                        ("sealed_at", models.DateTimeField()),
                        ("root", models.CharField(max_length=64)),
                        ("chain_previous", models.CharField(blank=True, max_length=64)),
                        ("previous", models.CharField(blank=True, max_length=64)),
                        ("hash", models.CharField(max_length=64)),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["kind", "-serial"], name="seals_of_kind"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("agent_id", "persona", "kind", "number"),
                                name="one_seal_per_number",
                                nulls_distinct=False,
                            ),
                        ],
                        "ordering": ["-serial"],
                    },
                ),
                migrations.CreateModel(
                    name="LogVerification",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("asked_by", models.CharField(max_length=200)),
                        ("asked_at", models.DateTimeField(default=now)),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("waiting", "Pending"),
                                    ("running", "Running"),
                                    ("done", "Done"),
                                    ("failed", "Failed"),
                                ],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("started_at", models.DateTimeField(null=True)),
                        ("worked_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("serial", models.PositiveBigIntegerField(default=0)),
                        ("last_serial", models.PositiveBigIntegerField(default=0)),
                        ("rows", models.PositiveBigIntegerField(default=0)),
                        ("holes", models.PositiveBigIntegerField(default=0)),
                        ("problems", models.PositiveBigIntegerField(default=0)),
                        ("findings", models.JSONField(default=list)),
                    ],
                    options={
                        "ordering": ["-id"],
                    },
                ),
                migrations.CreateModel(
                    name="MailPreference",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("at_once", models.BooleanField(default=True)),
                        ("digest", models.BooleanField(default=True)),
                        ("digest_at", models.DateTimeField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="Notification",
                    fields=[
                        ("item_id", models.UUIDField()),
                        ("item_type", models.CharField(max_length=20)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("at", models.DateTimeField(default=now)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("mention", "Mentioned you"),
                                    ("assignment", "Assigned to you"),
                                    ("opinion", "Asked for your opinion"),
                                    ("answer", "Answered your opinion request"),
                                    ("returned", "Snooze ended"),
                                    ("high_risk", "High risk"),
                                    ("erred", "Automatic decisions erred: people are asked again"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("source", models.CharField(max_length=40)),
                        ("by_name", models.CharField(blank=True, max_length=200)),
                        ("read_at", models.DateTimeField(null=True)),
                        ("mailed_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ["-at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="OAuthClient",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("client_id", models.CharField(max_length=60, unique=True)),
                        ("name", models.CharField(max_length=100)),
                        (
                            "redirect_uris",
                            django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), size=None),
                        ),
                        (
                            "source",
                            models.CharField(
                                choices=[("registered", "Registered itself"), ("person", "Made by a person")], max_length=20
                            ),
                        ),
                        ("registered_from", models.CharField(blank=True, max_length=45)),
                        ("created_by", models.CharField(max_length=200)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["registered_from", "-created_at"], name="identity_oa_registe_31a9aa_idx"),
                        ],
                        "ordering": ["-created_at", "-pk"],
                    },
                ),
                migrations.CreateModel(
                    name="OAuthCode",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("rights", models.JSONField()),
                        ("redirect_uri", models.CharField(max_length=500)),
                        ("code_challenge", models.CharField(max_length=128)),
                        ("resource", models.CharField(max_length=500)),
                        ("expires_at", models.DateTimeField()),
                        ("used_at", models.DateTimeField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="OAuthRefreshToken",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("digest", models.CharField(max_length=64, unique=True)),
                        ("created_at", models.DateTimeField(default=now)),
                        ("expires_at", models.DateTimeField()),
                        ("used_at", models.DateTimeField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="RecoveryCode",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("digest", models.CharField(editable=False, max_length=64)),
                        ("used_at", models.DateTimeField(editable=False, null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="SavedFilter",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("name", models.CharField(max_length=60)),
                        ("query", models.CharField(max_length=500)),
                        ("created_at", models.DateTimeField(default=now)),
                    ],
                    options={
                        "ordering": ["name"],
                    },
                ),
                migrations.CreateModel(
                    name="SecondFactor",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("secret", models.CharField(editable=False, max_length=300)),
                        ("last_step", models.BigIntegerField(default=0, editable=False)),
                        ("failures", models.PositiveIntegerField(default=0, editable=False)),
                        ("failed_at", models.DateTimeField(editable=False, null=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("used_at", models.DateTimeField(editable=False, null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="SecondFactorRequirement",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("role", models.CharField(max_length=40, unique=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                    ],
                ),
                migrations.CreateModel(
                    name="SecondOpinion",
                    fields=[
                        ("item_id", models.UUIDField()),
                        ("item_type", models.CharField(max_length=20)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("at", models.DateTimeField(default=now)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ("asker_name", models.CharField(max_length=200)),
                        (
                            "answer",
                            models.CharField(
                                blank=True,
                                choices=[("for", "For it"), ("against", "Against it"), ("unsure", "Unsure")],
                                max_length=10,
                            ),
                        ),
                        ("note", models.TextField(blank=True)),
                        ("answered_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ["at", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="SignIn",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("session_key", models.CharField(editable=False, max_length=40, unique=True)),
                        ("browser", models.CharField(blank=True, max_length=200)),
                        ("address", models.CharField(blank=True, max_length=60)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                    ],
                    options={
                        "ordering": ["-created_at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="Webhook",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("url", models.CharField(max_length=500)),
                        ("secret", models.CharField(editable=False, max_length=1200)),
                        ("former_secret", models.CharField(default="", editable=False, max_length=1200)),
                        ("former_secret_until", models.DateTimeField(editable=False, null=True)),
                        (
                            "scopes",
                            django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None),
                        ),
                        (
                            "kinds",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=40), default=list, size=None
                            ),
                        ),
                        ("bodies", models.BooleanField(default=False)),
                        (
                            "state",
                            models.CharField(
                                choices=[("active", "Active"), ("paused", "Paused"), ("disabled", "Disabled after failures")],
                                default="active",
                                max_length=10,
                            ),
                        ),
                        ("actor_position", models.PositiveBigIntegerField(default=0)),
                        ("subconscious_position", models.PositiveBigIntegerField(default=0)),
                        ("failures", models.PositiveIntegerField(default=0)),
                        ("due_at", models.DateTimeField(default=now)),
                        ("lease", models.UUIDField(null=True)),
                        ("leased_until", models.DateTimeField(null=True)),
                        ("created_at", models.DateTimeField(default=now)),
                        ("created_by", models.CharField(max_length=200)),
                    ],
                    options={
                        "ordering": ["created_at", "id"],
                        "permissions": [("manage_webhook", "Can let addresses know of an agent's changes")],
                    },
                ),
                migrations.CreateModel(
                    name="WebhookDelivery",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ("number", models.PositiveBigIntegerField()),
                        ("changes", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                        (
                            "kinds",
                            django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None),
                        ),
                        (
                            "status",
                            models.CharField(
                                choices=[("waiting", "Pending"), ("delivered", "Delivered"), ("dead", "Failed permanently")],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        ("created_at", models.DateTimeField(default=now)),
                        ("tried_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("answer_status", models.PositiveSmallIntegerField(null=True)),
                        ("duration_ms", models.PositiveIntegerField(null=True)),
                        ("error", models.CharField(blank=True, max_length=300)),
                    ],
                    options={
                        "ordering": ["-number"],
                    },
                ),
                migrations.CreateModel(
                    name="WriteMark",
                    fields=[
                        ("key", models.CharField(max_length=40, primary_key=True, serialize=False)),
                        ("position", models.BigIntegerField()),
                    ],
                ),
                migrations.CreateModel(
                    name="AgentLimit",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "agents",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(), default=list, size=None
                            ),
                        ),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        (
                            "person",
                            models.OneToOneField(
                                on_delete=models.CASCADE, related_name="agent_limit", to=settings.AUTH_USER_MODEL
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="ApiToken",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("name", models.CharField(max_length=100)),
                        (
                            "scopes",
                            django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None),
                        ),
                        (
                            "projects",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=100), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "global_memory",
                            models.CharField(
                                choices=[("read", "Reads global memory"), ("write", "Reads and writes global memory")],
                                default="write",
                                max_length=10,
                            ),
                        ),
                        ("prefix", models.CharField(editable=False, max_length=20)),
                        ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                        ("former_digest", models.CharField(default="", editable=False, max_length=64)),
                        ("former_until", models.DateTimeField(editable=False, null=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("created_by", models.CharField(max_length=200)),
                        (
                            "maker_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")],
                                default="system",
                                editable=False,
                                max_length=10,
                            ),
                        ),
                        ("maker_id", models.CharField(default="", editable=False, max_length=100)),
                        (
                            "secret_holders",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=120), default=list, editable=False, size=None
                            ),
                        ),
                        ("expires_at", models.DateTimeField(blank=True, null=True)),
                        ("resource", models.CharField(blank=True, default="", editable=False, max_length=500)),
                        ("secret_expires_at", models.DateTimeField(editable=False, null=True)),
                        ("last_used_at", models.DateTimeField(editable=False, null=True)),
                        ("revoked_at", models.DateTimeField(editable=False, null=True)),
                        ("revoked_by", models.CharField(blank=True, editable=False, max_length=200)),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="tokens", to="identity.agent")),
                    ],
                    options={
                        "ordering": [models.OrderBy(models.F("revoked_at"), descending=True, nulls_first=True), "-created_at"],
                        "permissions": [("revoke_apitoken", "Can revoke an agent's token")],
                    },
                ),
                migrations.CreateModel(
                    name="AuditEvent",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("at", models.DateTimeField(default=now, editable=False)),
                        ("agent_slug", models.CharField(blank=True, max_length=50)),
                        (
                            "persona",
                            models.CharField(
                                blank=True,
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious"), ("both", "Both")],
                                default="",
                                max_length=20,
                            ),
                        ),
                        ("action", models.CharField(max_length=60)),
                        ("object_type", models.CharField(max_length=40)),
                        ("object_id", models.CharField(max_length=100)),
                        ("object_label", models.CharField(max_length=200)),
                        ("before", models.JSONField(null=True)),
                        ("after", models.JSONField(null=True)),
                        ("message", models.TextField(blank=True)),
                        ("request_id", models.CharField(blank=True, max_length=64)),
                        (
                            "channel",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("console", "Console"),
                                    ("api", "API"),
                                    ("mcp", "MCP"),
                                    ("import", "Import"),
                                    ("command", "Command line"),
                                ],
                                db_default="",
                                max_length=20,
                            ),
                        ),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                null=True,
                                on_delete=models.DO_NOTHING,
                                related_name="audit_events",
                                to="identity.agent",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "-id"], name="identity_au_agent_i_102154_idx"),
                            models.Index(fields=["action", "-id"], name="identity_au_action_99804c_idx"),
                            models.Index(fields=["object_type", "object_id", "-id"], name="identity_au_object__b4a12a_idx"),
                            models.Index(
                                condition=models.Q(("request_id", ""), _negated=True),
                                fields=["request_id"],
                                name="audit_request",
                            ),
                            models.Index(
                                condition=models.Q(("persona", "subconscious"), _negated=True),
                                fields=["action"],
                                name="audit_action_shown",
                            ),
                            models.Index(fields=["at"], name="identity_au_at_5f6edf_idx"),
                        ],
                        "ordering": ["-id"],
                    },
                ),
                migrations.CreateModel(
                    name="Change",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("key", models.UUIDField(default=uuid.uuid4, editable=False)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("kind", models.CharField(max_length=40)),
                        ("object_type", models.CharField(max_length=40)),
                        ("object_id", models.CharField(max_length=200)),
                        ("details", models.JSONField(default=dict)),
                        ("at", models.DateTimeField(default=now, editable=False)),
                        ("position", models.PositiveBigIntegerField(null=True)),
                        (
                            "agent",
                            models.ForeignKey(
                                db_index=False, on_delete=models.PROTECT, related_name="changes", to="identity.agent"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("position__isnull", True)),
                                fields=["agent", "persona", "id"],
                                name="change_unpublished",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("position__isnull", False)),
                                fields=("agent", "persona", "position"),
                                name="change_position",
                            ),
                        ],
                        "ordering": ["id"],
                    },
                ),
                migrations.CreateModel(
                    name="ChangeStream",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("last", models.PositiveBigIntegerField(default=0)),
                        ("purged", models.PositiveBigIntegerField(default=0)),
                        (
                            "agent",
                            models.ForeignKey(on_delete=models.PROTECT, related_name="change_streams", to="identity.agent"),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "persona"), name="one_stream_per_persona"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DemoTour",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("agent_slug", models.CharField(max_length=50)),
                        ("began_at", models.DateTimeField(default=now)),
                        ("left_at", models.DateTimeField(null=True)),
                        (
                            "person",
                            models.OneToOneField(
                                on_delete=models.CASCADE, related_name="demo_tour", to=settings.AUTH_USER_MODEL
                            ),
                        ),
                    ],
                ),
                migrations.CreateModel(
                    name="IdentityVersion",
                    fields=[
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "section",
                            models.CharField(
                                choices=[
                                    ("character", "Character"),
                                    ("values", "Values"),
                                    ("protocols", "Protocols"),
                                    ("preferences", "Preferences"),
                                    ("boundaries", "Boundaries"),
                                    ("environment", "Environment"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("version", models.PositiveIntegerField()),
                        ("content", models.TextField(blank=True)),
                        ("is_current", models.BooleanField(default=True)),
                        ("reason", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        (
                            "agent",
                            models.ForeignKey(on_delete=models.PROTECT, related_name="identity_versions", to="identity.agent"),
                        ),
                        (
                            "previous",
                            models.ForeignKey(
                                null=True, on_delete=models.PROTECT, related_name="+", to="identity.identityversion"
                            ),
                        ),
                        (
                            "restores",
                            models.ForeignKey(
                                null=True, on_delete=models.PROTECT, related_name="restored_by", to="identity.identityversion"
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "section", "version"), name="one_row_per_version"),
                            models.UniqueConstraint(
                                condition=models.Q(("is_current", True)),
                                fields=("agent", "section"),
                                name="one_current_version",
                            ),
                        ],
                        "ordering": ["agent", "section", "-version"],
                    },
                ),
                migrations.CreateModel(
                    name="ChangeProposal",
                    fields=[
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        (
                            "section",
                            models.CharField(
                                choices=[
                                    ("character", "Character"),
                                    ("values", "Values"),
                                    ("protocols", "Protocols"),
                                    ("preferences", "Preferences"),
                                    ("boundaries", "Boundaries"),
                                    ("environment", "Environment"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("base_version", models.PositiveIntegerField()),
                        ("content", models.TextField(blank=True)),
                        ("reason", models.TextField(blank=True)),
                        (
                            "risk",
                            models.CharField(choices=[("low", "Low"), ("medium", "Medium"), ("high", "High")], max_length=10),
                        ),
                        ("guardrail", models.CharField(max_length=300)),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("pending", "Pending"),
                                    ("applied", "Applied by the agent, not looked over"),
                                    ("approved", "Approved"),
                                    ("rejected", "Rejected"),
                                    ("withdrawn", "Withdrawn"),
                                    ("expired", "Expired"),
                                    ("reverted", "Reverted"),
                                ],
                                default="pending",
                                max_length=10,
                            ),
                        ),
                        ("reviewer_id", models.CharField(blank=True, max_length=100)),
                        ("reviewer_name", models.CharField(blank=True, max_length=200)),
                        ("comment", models.TextField(blank=True)),
                        ("edited", models.BooleanField(default=False)),
                        ("self_applied", models.BooleanField(default=False)),
                        ("decided_at", models.DateTimeField(null=True)),
                        ("batch", models.UUIDField(null=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("expires_at", models.DateTimeField()),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="proposals", to="identity.agent")),
                        (
                            "restores",
                            models.ForeignKey(
                                null=True, on_delete=models.PROTECT, related_name="+", to="identity.identityversion"
                            ),
                        ),
                        (
                            "version",
                            models.ForeignKey(
                                null=True, on_delete=models.PROTECT, related_name="proposals", to="identity.identityversion"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "status", "created_at"], name="identity_ch_agent_i_dfbbab_idx"),
                            models.Index(
                                condition=models.Q(("status", "pending")),
                                fields=["status", "expires_at"],
                                name="pending_expiry",
                            ),
                            models.Index(condition=models.Q(("batch__isnull", False)), fields=["batch"], name="proposal_batch"),
                        ],
                        "ordering": ["-created_at"],
                        "permissions": [
                            ("propose_changeproposal", "Can propose a change of identity"),
                            ("review_changeproposal", "Can approve, reject, roll back and undo changes of identity"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Invitation",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                        ("role", models.CharField(max_length=40)),
                        ("note", models.CharField(blank=True, max_length=200)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("created_by", models.CharField(max_length=200)),
                        ("expires_at", models.DateTimeField()),
                        ("accepted_at", models.DateTimeField(editable=False, null=True)),
                        ("revoked_at", models.DateTimeField(editable=False, null=True)),
                        ("revoked_by", models.CharField(blank=True, editable=False, max_length=200)),
                        (
                            "person",
                            models.ForeignKey(
                                editable=False,
                                null=True,
                                on_delete=models.SET_NULL,
                                related_name="+",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-created_at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="ItemAssignment",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("item_id", models.UUIDField()),
                        ("item_type", models.CharField(max_length=20)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("at", models.DateTimeField(default=now)),
                        ("by_name", models.CharField(max_length=200)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent")),
                        ("person", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("item_id",), name="one_assignment_per_item"),
                        ],
                        "ordering": ["-at"],
                    },
                ),
                migrations.CreateModel(
                    name="ItemComment",
                    fields=[
                        ("item_id", models.UUIDField()),
                        ("item_type", models.CharField(max_length=20)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("at", models.DateTimeField(default=now)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ("author_name", models.CharField(max_length=200)),
                        ("text", models.TextField()),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent")),
                        (
                            "person",
                            models.ForeignKey(
                                null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["item_id", "at"], name="identity_it_item_id_f8f9b1_idx"),
                        ],
                        "ordering": ["at", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="ItemSnooze",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("item_id", models.UUIDField()),
                        ("item_type", models.CharField(max_length=20)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("at", models.DateTimeField(default=now)),
                        ("until", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent")),
                        ("person", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at", None)), fields=("item_id", "person"), name="one_snooze_each"
                            ),
                        ],
                        "ordering": ["-at"],
                    },
                ),
                migrations.CreateModel(
                    name="LogLeaves",
                    fields=[
                        (
                            "seal",
                            models.OneToOneField(
                                on_delete=models.PROTECT,
                                primary_key=True,
                                related_name="leaves",
                                serialize=False,
                                to="identity.logseal",
                            ),
                        ),
                        ("kind", models.CharField(max_length=30)),
                        ("first_key", models.BigIntegerField(null=True)),
                        ("last_key", models.BigIntegerField(null=True)),
                        ("keys", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                        ("contents", models.BinaryField()),
                        ("salts", models.BinaryField()),
                        ("digests", models.BinaryField(null=True)),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["kind", "last_key"], name="leaves_by_key"),
                        ],
                    },
                ),
                migrations.AddField(
                    model_name="loghole",
                    name="seal",
                    field=models.ForeignKey(on_delete=models.PROTECT, related_name="holes", to="identity.logseal"),
                ),
                migrations.AddField(
                    model_name="mailpreference",
                    name="person",
                    field=models.OneToOneField(
                        on_delete=models.CASCADE, related_name="mail_preference", to=settings.AUTH_USER_MODEL
                    ),
                ),
                migrations.AddField(
                    model_name="notification",
                    name="agent",
                    field=models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent"),
                ),
                migrations.AddField(
                    model_name="notification",
                    name="person",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL),
                ),
                migrations.AddField(
                    model_name="apitoken",
                    name="client",
                    field=models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="tokens", to="identity.oauthclient"
                    ),
                ),
                migrations.AddField(
                    model_name="oauthcode",
                    name="agent",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="oauth_codes", to="identity.agent"),
                ),
                migrations.AddField(
                    model_name="oauthcode",
                    name="client",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="codes", to="identity.oauthclient"),
                ),
                migrations.AddField(
                    model_name="oauthcode",
                    name="person",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL),
                ),
                migrations.AddField(
                    model_name="oauthcode",
                    name="token",
                    field=models.ForeignKey(null=True, on_delete=models.SET_NULL, related_name="+", to="identity.apitoken"),
                ),
                migrations.AddField(
                    model_name="oauthrefreshtoken",
                    name="agent",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="oauth_refresh_tokens", to="identity.agent"),
                ),
                migrations.AddField(
                    model_name="oauthrefreshtoken",
                    name="token",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="refresh_tokens", to="identity.apitoken"),
                ),
                migrations.AddField(
                    model_name="savedfilter",
                    name="person",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL),
                ),
                migrations.AddField(
                    model_name="secondfactor",
                    name="person",
                    field=models.OneToOneField(
                        on_delete=models.CASCADE, related_name="second_factor", to=settings.AUTH_USER_MODEL
                    ),
                ),
                migrations.AddField(
                    model_name="recoverycode",
                    name="factor",
                    field=models.ForeignKey(
                        on_delete=models.CASCADE, related_name="recovery_codes", to="identity.secondfactor"
                    ),
                ),
                migrations.AddField(
                    model_name="secondopinion",
                    name="agent",
                    field=models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent"),
                ),
                migrations.AddField(
                    model_name="secondopinion",
                    name="asker",
                    field=models.ForeignKey(
                        null=True, on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                migrations.AddField(
                    model_name="secondopinion",
                    name="person",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL),
                ),
                migrations.AddField(
                    model_name="signin",
                    name="person",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="sign_ins", to=settings.AUTH_USER_MODEL),
                ),
                migrations.AddField(
                    model_name="webhook",
                    name="agent",
                    field=models.ForeignKey(on_delete=models.PROTECT, related_name="webhooks", to="identity.agent"),
                ),
                migrations.AddField(
                    model_name="webhookdelivery",
                    name="agent",
                    field=models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent"),
                ),
                migrations.AddField(
                    model_name="webhookdelivery",
                    name="webhook",
                    field=models.ForeignKey(on_delete=models.CASCADE, related_name="deliveries", to="identity.webhook"),
                ),
                migrations.AddIndex(
                    model_name="loghole",
                    index=models.Index(fields=["receipt_id"], name="holes_of_receipt"),
                ),
                migrations.AddIndex(
                    model_name="notification",
                    index=models.Index(fields=["person", "-at", "-id"], name="identity_no_person__20c9e5_idx"),
                ),
                migrations.AddIndex(
                    model_name="notification",
                    index=models.Index(condition=models.Q(("read_at", None)), fields=["person"], name="notification_unread"),
                ),
                migrations.AddIndex(
                    model_name="notification",
                    index=models.Index(fields=["item_id"], name="identity_no_item_id_079072_idx"),
                ),
                migrations.AddConstraint(
                    model_name="notification",
                    constraint=models.UniqueConstraint(fields=("person", "kind", "item_id", "source"), name="told_of_it_once"),
                ),
                migrations.AddIndex(
                    model_name="apitoken",
                    index=models.Index(
                        condition=models.Q(("former_digest", ""), _negated=True),
                        fields=["former_digest"],
                        name="token_former_secret",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="savedfilter",
                    constraint=models.UniqueConstraint(fields=("person", "name"), name="one_filter_per_name"),
                ),
                migrations.AddConstraint(
                    model_name="recoverycode",
                    constraint=models.UniqueConstraint(fields=("factor", "digest"), name="recovery_code_once"),
                ),
                migrations.AddConstraint(
                    model_name="secondopinion",
                    constraint=models.UniqueConstraint(fields=("item_id", "person"), name="one_opinion_each"),
                ),
                migrations.AddIndex(
                    model_name="webhookdelivery",
                    index=models.Index(
                        condition=models.Q(("status", "waiting")), fields=["webhook", "number"], name="delivery_waiting"
                    ),
                ),
                migrations.AddIndex(
                    model_name="webhookdelivery",
                    index=models.Index(fields=["webhook", "status", "-number"], name="identity_we_webhook_3ca385_idx"),
                ),
                migrations.AddConstraint(
                    model_name="webhookdelivery",
                    constraint=models.UniqueConstraint(fields=("agent", "webhook", "number"), name="one_delivery_per_number"),
                ),
            ]
        ),
        migrations.RunSQL(APPEND_ONLY),
        migrations.RunSQL(AGENT_HOLD),
        migrations.RunSQL(CHANGE_FEED),
        migrations.RunSQL(SEALS),
    ]
