"""Records of the audit trail about an export are blanked where they quote what is erased."""

from django.db import migrations

from memory.migration_operations import erasure_blanks


class Migration(migrations.Migration):
    dependencies = [("memory", "0039_export_runs")]

    operations = [erasure_blanks("exportrun")]
