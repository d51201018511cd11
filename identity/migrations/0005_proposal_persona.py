from django.db import migrations, models

# The token that proposed says which persona it was; whatever it had applied itself stays as it is.
BACKFILL = """
UPDATE identity_changeproposal AS proposal SET persona = token.persona
FROM identity_apitoken AS token
WHERE proposal.author_kind = 'token' AND proposal.author_id = token.id::text AND token.persona <> proposal.persona
"""


class Migration(migrations.Migration):
    dependencies = [("identity", "0004_erasure_blanks")]

    operations = [
        migrations.AddField(
            model_name="changeproposal",
            name="persona",
            field=models.CharField(
                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
            ),
        ),
        migrations.RunSQL(BACKFILL, migrations.RunSQL.noop),
    ]
