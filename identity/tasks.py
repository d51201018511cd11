"""Tasks of the worker for identity: services with a label, and the minutes between two runs."""

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


def _log_seal() -> int:
    rows = log_seal()
    seals_announce()
    try:
        seals_export()
    except (OSError, SealsDiffer) as error:
        # The seals are there; `doctor`, /readyz and the page say it until the file can be written again.
        log.error("seals_not_exported", error=str(error))
    return rows


expire_proposals = task(
    "identity.tasks.expire_proposals",
    "Expire old proposals",
    lambda: proposals_expire(by=Principal.of_system("schedule")),
    minutes=60,
)
purge_oauth = task(
    "identity.tasks.purge_oauth",
    "Delete expired OAuth data",
    lambda: oauth_purge() + unconnected_clients_purge(),
    minutes=60,
)
purge_sessions = task(
    "identity.tasks.purge_sessions", "Delete ended sessions of people", sessions_purge, minutes=24 * 60
)
purge_changes = task(
    "identity.tasks.purge_changes",
    "Delete changes past their retention",
    lambda: deliveries_purge() + changes_purge() + notifications_purge(),
    minutes=60,
)
seal_log = task("identity.tasks.seal_log", "Seal new records", _log_seal, minutes=1)
verify_log = task("identity.tasks.verify_log", "Verify the seals of the log", verification_continue, minutes=1)
