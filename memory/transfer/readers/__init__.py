"""One reader a format: what other tools export, as facts, events and proposals for an identity."""

from memory.transfer.readers import chatgpt, claude, json_lines, langgraph, letta, mem0
from memory.transfer.readers.entry import Format

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (mem0.FORMAT, langgraph.FORMAT, letta.FORMAT, chatgpt.FORMAT, claude.FORMAT, json_lines.FORMAT)
}
"""By the name that a person types. A new format is a module here and a word in this list."""
