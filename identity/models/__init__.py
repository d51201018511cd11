"""Agents, their identity over time, proposals and decisions, and the audit trail."""

from identity.models.agent_limits import AgentLimit
from identity.models.agent_rows import AgentForeignKey, AgentOneToOneField, AgentRow
from identity.models.agents import SLUG_PATTERN, Agent, AgentKind, AgentQuerySet, Persona, validate_slug
from identity.models.audit import AuditEvent, AuditEventQuerySet
from identity.models.author import AuthorFields
from identity.models.changes import Change, ChangeStream
from identity.models.demo_tour import DemoTour
from identity.models.inbox import (
    ItemAssignment,
    ItemComment,
    ItemSnooze,
    MailPreference,
    Notification,
    NotificationQuerySet,
    SavedFilter,
    SecondOpinion,
)
from identity.models.oauth import OAuthClient, OAuthCode, OAuthRefreshToken
from identity.models.people import Invitation, InvitationQuerySet, SignIn
from identity.models.proposals import ChangeProposal, ChangeProposalQuerySet
from identity.models.seals import LogHole, LogHorizon, LogLeaves, LogSeal, LogSealQuerySet, LogVerification
from identity.models.second_factors import RecoveryCode, SecondFactor, SecondFactorRequirement
from identity.models.tokens import ApiToken, ApiTokenQuerySet
from identity.models.versions import IdentityVersion, IdentityVersionQuerySet
from identity.models.webhooks import Webhook, WebhookDelivery
from identity.models.write_positions import WriteMark

__all__ = [
    "SLUG_PATTERN",
    "Agent",
    "AgentForeignKey",
    "AgentKind",
    "AgentLimit",
    "AgentOneToOneField",
    "AgentQuerySet",
    "AgentRow",
    "ApiToken",
    "ApiTokenQuerySet",
    "AuditEvent",
    "AuditEventQuerySet",
    "AuthorFields",
    "Change",
    "ChangeProposal",
    "ChangeProposalQuerySet",
    "ChangeStream",
    "DemoTour",
    "IdentityVersion",
    "IdentityVersionQuerySet",
    "Invitation",
    "InvitationQuerySet",
    "ItemAssignment",
    "ItemComment",
    "ItemSnooze",
    "LogHole",
    "LogHorizon",
    "LogLeaves",
    "LogSeal",
    "LogSealQuerySet",
    "LogVerification",
    "MailPreference",
    "Notification",
    "NotificationQuerySet",
    "OAuthClient",
    "OAuthCode",
    "OAuthRefreshToken",
    "Persona",
    "RecoveryCode",
    "SavedFilter",
    "SecondFactor",
    "SecondFactorRequirement",
    "SecondOpinion",
    "SignIn",
    "Webhook",
    "WebhookDelivery",
    "WriteMark",
    "validate_slug",
]
