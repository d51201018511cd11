"""Let an audited erasure blank what rows of the audit trail quote, besides deleting rows; nothing else changes.

A session that sets `nous.erasure` to `on` may update a row of the trail only so that the columns named by its
trigger become empty and every other column stays as it is. Tables whose trigger names no columns still refuse
every update, and TRUNCATE is always refused.
"""

from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION nous_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
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

DROP TRIGGER audit_rows_append_only ON identity_auditevent;
CREATE TRIGGER audit_rows_append_only BEFORE UPDATE OR DELETE ON identity_auditevent
    FOR EACH ROW EXECUTE FUNCTION nous_append_only('before', 'after', 'message', 'object_label');
"""

BACKWARD = """
DROP TRIGGER audit_rows_append_only ON identity_auditevent;
CREATE TRIGGER audit_rows_append_only BEFORE UPDATE OR DELETE ON identity_auditevent
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();

CREATE OR REPLACE FUNCTION nous_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('nous.erasure', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("identity", "0003_self_applied")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
