"""Taking the planner's sample of a table again, as a function of the tables' owner, who alone may.

PostgreSQL keeps values of each column as statistics (`pg_statistic`), which go on holding those of erased rows until a
table is sampled again: by autovacuum that is when a tenth of it has changed. Of a table without rows they stay; PostgreSQL
18 and newer can clear them.
"""

from django.db import migrations

FORWARD = r"""
CREATE FUNCTION nous_sample_renew(of_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    found regclass;
    is_empty boolean;
BEGIN
    SELECT c.oid INTO found FROM pg_class c
    WHERE c.oid = to_regclass(quote_ident(of_table)) AND c.relkind IN ('r', 'p')
      AND pg_get_userbyid(c.relowner) = current_user;
    IF found IS NULL THEN
        RAISE EXCEPTION 'there is no such table' USING ERRCODE = 'undefined_table';
    END IF;
    EXECUTE format('ANALYZE %s', found);
    -- Of an empty table it keeps what it knew.
    EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s)', found) INTO is_empty;
    IF is_empty AND to_regprocedure('pg_clear_attribute_stats(text, text, text, boolean)') IS NOT NULL THEN
        PERFORM pg_clear_attribute_stats(s.schemaname, s.tablename, s.attname, s.inherited)
        FROM pg_stats s WHERE format('%I.%I', s.schemaname, s.tablename)::regclass = found;
    END IF;
END $$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION nous_sample_renew(text) SET search_path = pg_catalog, %I, pg_temp',
                   current_schema());
    REVOKE ALL ON FUNCTION nous_sample_renew(text) FROM PUBLIC;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0040_erasure_of_export_records"),
    ]

    operations = [
        migrations.RunSQL(FORWARD, "DROP FUNCTION nous_sample_renew(text);"),
    ]
