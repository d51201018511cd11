"""What the worker runs for identity. Thin: each calls a service."""

from identity.principal import Principal
from identity.services.change_feed import changes_purge
from identity.services.notifications import notifications_purge
from identity.services.oauth_clients import unconnected_clients_purge
from identity.services.oauth_grants import oauth_purge
from identity.services.people import sessions_purge
from identity.services.proposals import proposals_expire
from identity.services.webhook_delivery import deliveries_purge


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
