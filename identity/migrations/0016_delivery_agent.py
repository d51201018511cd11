"""Deliveries name their agent, as every row of an agent's does."""

import django.db.models.deletion
from django.db import migrations, models

FILL = (
    "UPDATE identity_webhookdelivery AS delivery SET agent_id = webhook.agent_id"
    " FROM identity_webhook AS webhook WHERE webhook.id = delivery.webhook_id;"
    # What a foreign key has left to check keeps a table from being altered.
    " SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED;"
)


def agent(**more: object) -> models.ForeignKey:
    return models.ForeignKey(
        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="identity.agent", **more
    )


class Migration(migrations.Migration):
    dependencies = [("identity", "0015_audit_channels")]
    operations = [
        migrations.AddField("webhookdelivery", "agent", agent(null=True)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AlterField("webhookdelivery", "agent", agent()),
        migrations.RemoveConstraint("webhookdelivery", "one_delivery_per_number"),
        migrations.AddConstraint(
            "webhookdelivery",
            models.UniqueConstraint(fields=["agent", "webhook", "number"], name="one_delivery_per_number"),
        ),
    ]
