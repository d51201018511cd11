"""Maximum sizes of memories and of requests: characters, items, depth."""

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
MAX_WORKING_ITEMS = 100
MAX_OPEN_THREADS = 50
MAX_FACTS_OF_SPLIT = 500
"""Facts that one split of a subject can list."""
MAX_ATTRIBUTE_CHARACTERS = 80
MAX_VALUE_CHARACTERS = 200
"""Of an attribute."""
