"""Let the database itself keep history: rows of the audit trail and of identity versions cannot be changed.

A session that sets `nous.erasure` to `on` may delete (never update) rows: the one path of an audited erasure.
TRUNCATE is always refused.
"""

from django.db import migrations

FORWARD = """
CREATE EXTENSION IF NOT EXISTS vector;

CREATE FUNCTION nous_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('nous.erasure', true) = 'on' THEN
        RETURN OLD;
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
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER audit_table_append_only BEFORE TRUNCATE ON identity_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();

CREATE TRIGGER version_rows_immutable BEFORE UPDATE ON identity_identityversion
    FOR EACH ROW EXECUTE FUNCTION nous_version_immutable();
CREATE TRIGGER version_rows_kept BEFORE DELETE ON identity_identityversion
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER version_table_kept BEFORE TRUNCATE ON identity_identityversion
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();
"""

BACKWARD = """
DROP TRIGGER audit_rows_append_only ON identity_auditevent;
DROP TRIGGER audit_table_append_only ON identity_auditevent;
DROP TRIGGER version_rows_immutable ON identity_identityversion;
DROP TRIGGER version_rows_kept ON identity_identityversion;
DROP TRIGGER version_table_kept ON identity_identityversion;
DROP FUNCTION nous_version_immutable();
DROP FUNCTION nous_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("identity", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
