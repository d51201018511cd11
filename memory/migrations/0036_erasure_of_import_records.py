"""Records of the audit trail about an import are blanked where they quote what is erased."""

from django.db import migrations

from memory.migration_operations import erasure_blanks


class Migration(migrations.Migration):
    dependencies = [("memory", "0035_held")]

    operations = [erasure_blanks("importrun")]
