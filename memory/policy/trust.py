"""Trust classes of memories, and which sources lower them."""

TRUST_ORDER = ("person", "agent", "tool", "imported", "web")
"""Trust classes of memories, the most trusted first: a person's words, the agent's own, what a tool answered, what came
from another system, what stands on a page of the web."""

TRUST_OF_EVENT_KIND = {"tool_result": "tool", "error": "tool"}
"""Kinds of events whose words are a program's, whoever records them."""

WEB_SOURCE = r"(?i)\b(?:https?|ftp)://|\bwww\."
"""A source that is a page of the web."""

SOURCE_FIELDS = ("source", "url", "link", "href")
"""Fields of an event's metadata, or of a document, that name a source."""
