"""Python client of Nous Web: an agent's memory, and its prompts."""

from nous_client.client import AsyncNous, Nous
from nous_client.errors import (
    Blocked,
    Conflict,
    Invalid,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NousError,
    Refused,
    ServerError,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from nous_client.models import (
    Context,
    Document,
    Episode,
    Event,
    Fact,
    FoundDocument,
    Hit,
    IdentityChange,
    LearnedFact,
    Outcome,
    PutDocument,
    RecentConversation,
    Report,
    Section,
)
from nous_client.turn import AsyncTurn, Turn

__version__ = "0.1.0"

__all__ = [
    "AsyncNous",
    "AsyncTurn",
    "Blocked",
    "Conflict",
    "Context",
    "Document",
    "Episode",
    "Event",
    "Fact",
    "FoundDocument",
    "Hit",
    "IdentityChange",
    "Invalid",
    "LearnedFact",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "Nous",
    "NousError",
    "Outcome",
    "PutDocument",
    "RecentConversation",
    "Refused",
    "Report",
    "Section",
    "ServerError",
    "TooManyRequests",
    "Turn",
    "Unavailable",
    "Unreachable",
]
