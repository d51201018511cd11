"""Tasks of the worker for identity. Each calls a service."""

import structlog

from identity.principal import Principal
from identity.services.change_feed import changes_purge
from identity.services.inbox_items import notifications_purge
from identity.services.oauth import oauth_purge, unconnected_clients_purge
from identity.services.people import sessions_purge
from identity.services.proposals import proposals_expire
from identity.services.seals.export import SealsDiffer, seals_announce, seals_export
from identity.services.seals.sealer import log_seal
from identity.services.seals.verification import verification_continue
from identity.services.webhook_delivery import deliveries_purge
from nousweb.lib.background import task

log = structlog.get_logger(__name__)


@task(minutes=60)
def expire_proposals() -> int:
    """Expire old proposals."""
    return proposals_expire(by=Principal.of_system("schedule"))


@task(minutes=60)
def purge_oauth() -> int:
    """Delete expired OAuth data."""
    return oauth_purge() + unconnected_clients_purge()


@task(minutes=24 * 60)
def purge_sessions() -> int:
    """Delete ended sessions of people."""
    return sessions_purge()


@task(minutes=60)
def purge_changes() -> int:
    """Delete changes past their retention."""
    return deliveries_purge() + changes_purge() + notifications_purge()


@task(minutes=1)
def seal_log() -> int:
    """Seal new records."""
    rows = log_seal()
    seals_announce()
    try:
        seals_export()
    except (OSError, SealsDiffer) as error:
        # The seals are there; `doctor`, /readyz and the page say it until the file can be written again.
        log.error("seals_not_exported", error=str(error))
    return rows


@task(minutes=1)
def verify_log() -> int:
    """Verify the seals of the log."""
    return verification_continue()
