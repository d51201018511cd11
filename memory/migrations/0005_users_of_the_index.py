"""An index of the items of a user, which searches of an agent that serves many count."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memory", "0004_users_erase_and_assign")]
    operations = [
        migrations.RunSQL(
            "CREATE INDEX memory_searchitem_user ON memory_searchitem (agent_id, user_key, id DESC)",
            "DROP INDEX memory_searchitem_user",
        )
    ]
