"""Limits, categories of facts and trust classes. Larger policies have their own file."""

from datetime import timedelta

MAX_SEARCH_LIMIT = 100
"""Memories that one search gives at most."""
MAX_PROJECTS = 50
"""Other projects in one request."""
MAX_CONTENT_CHARACTERS = 8_000
MAX_REMARK_CHARACTERS = 2_000
"""Reasons, notes and comments."""
MAX_DETAIL_CHARACTERS = 100_000
"""An episode's free text, and a text to be checked against censors."""
MAX_DOCUMENT_CHARACTERS = 100_000
"""A document's value, written as JSON."""
MAX_NUMBER_CHARACTERS = 40
"""A fraction in a document, which the database writes out in full."""
MAX_DOCUMENT_DEPTH = 32
"""Nesting of objects and lists: well below the limit of the readers of feeds and of exported files."""
MAX_DOCUMENT_KEY_CHARACTERS = 300
MAX_NAMESPACE_CHARACTERS = 100
MAX_NAMESPACE_LABELS = 10
MAX_INDEX_FIELDS = 20
MAX_ESCALATION_THRESHOLD = 1_000
MAX_REASONS = 20
MAX_TITLE_CHARACTERS = 200
MAX_LESSONS = 20
MAX_PARTICIPANTS = 50
MAX_NAME_CHARACTERS = 200
MAX_STEPS = 40
MAX_SESSION_CHARACTERS = 200
MAX_THREAD_CHARACTERS = 500
MAX_FRAME_CHARACTERS = 30
MAX_PATTERN_CHARACTERS = 1_000
MAX_EVENTS_PER_APPEND = 1_000
MAX_LOCATOR_CHARACTERS = 1_000
"""Of the URL or the path of a source."""
MAX_TTL_SECONDS = 50 * 366 * 86_400
"""The longest time to live of a memory, in seconds."""
MAX_WORKING_ITEMS = 100
MAX_OPEN_THREADS = 50
MAX_FACTS_OF_SPLIT = 500
"""Facts that one split of a subject can list."""
MAX_ATTRIBUTE_CHARACTERS = 80
MAX_VALUE_CHARACTERS = 200
"""Of an attribute."""


MAX_PENDING_REVIEWS_PER_ENDORSED_FACT = 3
"""Reviews of one fact of people's that wait; a token opens no further one."""

MAX_PENDING_REVIEWS_PER_TOKEN = 2_000

MAX_REVIEWS_PER_TOKEN_AND_WINDOW = 5_000

REVIEW_WINDOW = timedelta(hours=24)

REVIEW_RETRY_SECONDS = 3_600
"""After so long a token may try again where people have to answer first."""

MAX_PENDING_QUARANTINE_REVIEWS = 500
"""Pending reviews of quarantined texts, per persona. Further texts are quarantined without a review."""

MAX_ITEMS_PER_QUARANTINE_REVIEW = 1_000
"""Memories with the same words in one review."""

MAX_RELEARNED_REVIEWS = 3
RELEARNED_WINDOW = timedelta(days=30)
"""Maximum number of reviews of one invalidated fact in this time, whatever the sources."""


COMPACT_EPISODES = ((timedelta(days=30), 80), (timedelta(days=90), 40))
"""From which age on, by how many words of its summary search reads an episode; the summary itself is kept."""


CENSOR_SEVERITIES_BY_AUTHOR: dict[str, tuple[str, ...]] = {
    "person": ("warn", "block", "absolute"),
    "token": ("warn", "block"),
    "system": ("warn", "block"),
}
"""How strict a censor its author's kind may make, and how far one of theirs may ever rise by itself."""

ESCALATES_TO = {"warn": "block"}
"""The one step that a censor may rise by itself; to absolute only a person lifts it. Source: seed 009.1, part 4."""

CENSOR_CHECK_SECONDS = 2.0
"""After so long, a check starts no further censor of agents and reports the rest as timed out."""

BINDING_CENSOR_CHECK_SECONDS = 6.0
"""The same for those of people and the product, which are checked first. It is enough for the meanings of the longest
text, because what is not checked in time keeps the text back."""

MAX_ACTIVE_CENSORS = 500
"""Active censors of people and the product for one persona of an agent."""

MAX_ACTIVE_TOKEN_CENSORS = 100
"""Active censors that the tokens of one persona of an agent have made; they take no room from people's."""


TRUST_ORDER = ("person", "agent", "tool", "imported", "web")
"""Trust classes of memories, the most trusted first: a person's words, the agent's own, what a tool answered, what came
from another system, what stands on a page of the web."""

UNTRUSTED = TRUST_ORDER[2:]
"""Words of others than people and the agent: never core memory, and told in prompts as data that names its source."""

DERIVED_TYPES = ("episode", "decision", "loop")
"""Types of memories that have the trust class of others, beside which their own words stand."""

TRUST_OF_EVENT_KIND = {"tool_result": "tool", "error": "tool"}
"""Kinds of events whose words are a program's, whoever records them."""

WEB_SOURCE = r"(?i)\b(?:https?|ftp)://|\bwww\."
"""A source that is a page of the web."""

SOURCE_FIELDS = ("source", "url", "link", "href")
"""Fields of an event's metadata, or of a document, that name a source."""


SOURCE_NAMES = (*SOURCE_FIELDS, "tool", "name")
"""Of an event's metadata, those whose first one names its source in prompts."""

PROFILE_CATEGORIES = ("person", "preference", "rule")
"""Facts of these are always on (tier 1) and are left out of searched facts. Source: seed 008, part B."""

KNOWN_CATEGORIES = (*PROFILE_CATEGORIES, "technical", "concept", "tool", "project", "event")
"""Offered in the console; agents may use others of the same form."""

DEFAULT_CATEGORY = "concept"

CATEGORY_PERMISSIONS = {"rule": "memory.add_rule_fact"}
"""Categories that need a right of their own: a rule steers every prompt, so agents do not write it by default."""

BINDING_CATEGORIES = tuple(CATEGORY_PERMISSIONS)
"""Among facts that are always on, these come first: of people's, and of agents' own."""

SUBJECT_KIND_OF_CATEGORY = {"person": "person", "project": "project", "tool": "system"}
"""The kind of a new subject, by the category of the fact that names it; others are of the kind "other"."""
