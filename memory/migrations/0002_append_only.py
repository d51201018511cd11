"""The history of facts is append-only in the database, as the audit trail is."""

from django.db import migrations

FORWARD = """
CREATE TRIGGER fact_change_rows_append_only BEFORE UPDATE OR DELETE ON memory_factchange
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER fact_change_table_append_only BEFORE TRUNCATE ON memory_factchange
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();
"""

BACKWARD = """
DROP TRIGGER fact_change_rows_append_only ON memory_factchange;
DROP TRIGGER fact_change_table_append_only ON memory_factchange;
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial"), ("identity", "0002_append_only")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
