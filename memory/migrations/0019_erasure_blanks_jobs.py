"""Let erasures blank audit records about jobs by their new name too; older records have the former one."""

from django.db import migrations

from memory.migration_operations import erasure_blanks


class Migration(migrations.Migration):
    dependencies = [("memory", "0018_job")]
    operations = [erasure_blanks("job")]
