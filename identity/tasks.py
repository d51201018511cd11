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

log = structlog.get_logger(__name__)


def expire_proposals() -> int:
    """Close proposals that nobody decided in time; returns how many."""
    return proposals_expire(by=Principal.of_system("schedule"))


def purge_oauth() -> int:
    """Delete codes, refresh tokens and clients of OAuth that are of no use any more; returns how many."""
    return oauth_purge() + unconnected_clients_purge()


def purge_sessions() -> int:
    """Delete sessions of people that have ended; returns how many rows."""
    return sessions_purge()


def purge_changes() -> int:
    """Delete changes, messages to webhooks and read notifications past their retention; returns how many."""
    return deliveries_purge() + changes_purge() + notifications_purge()


def seal_log() -> int:
    """Seal the new rows of the log, and export the seals; returns how many rows."""
    rows = log_seal()
    seals_announce()
    try:
        seals_export()
    except (OSError, SealsDiffer) as error:
        # The seals are there; `doctor`, /readyz and the page say it until the file can be written again.
        log.error("seals_not_exported", error=str(error))
    return rows


def verify_log() -> int:
    """Go on checking the log against its seals; returns how many rows were checked."""
    return verification_continue()
