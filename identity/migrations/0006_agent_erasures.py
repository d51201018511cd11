"""Count an agent's erasures, and a lock that those who write for an agent share and an erasure has for itself."""

from django.db import migrations, models

FORWARD = """
CREATE FUNCTION nous_agent_hold(agent bigint, alone boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF alone THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('nous.agent:' || agent, 0));
    ELSE
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('nous.agent:' || agent, 0));
    END IF;
    -- A statement of its own in a volatile function: it sees what was committed while the lock was waited for.
    RETURN (SELECT erasures FROM identity_agent WHERE id = agent);
END $$;
"""

BACKWARD = "DROP FUNCTION nous_agent_hold(bigint, boolean);"


class Migration(migrations.Migration):
    dependencies = [("identity", "0005_proposal_persona")]
    operations = [
        migrations.AddField(
            model_name="agent",
            name="erasures",
            field=models.PositiveBigIntegerField(default=0, editable=False),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
