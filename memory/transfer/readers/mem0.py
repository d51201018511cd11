"""mem0: `Memory.get_all()` of the open-source package, and the pages and exports of its platform. A memory is a fact.

What it is about is its user, to whom it belongs where the agent serves many, else its agent or run. Categories and
texts of its metadata become tags, but for an `attribute` with its `value`. It holds since it was last changed, and
expires with its day; what has expired already is imported as ended then.
"""

from collections.abc import Iterator

from memory.transfer.json_stream import BadEntry, Record, list_check, text_get, texts_kept
from memory.transfer.readers.entry import (
    FACT,
    Entry,
    Format,
    ReadOptions,
    content_id,
    expiry_moment,
    skipped,
    source_moment,
    stated_of,
    tags_of,
)
from nousweb.lib import clock

OWNERS = ("user_id", "agent_id", "run_id", "app_id")
TEXTS = ("memory", "text", "data")
"""Where the words stand: now, and in older versions."""


def _entries(record: Record, options: ReadOptions) -> Iterator[Entry]:
    place, memory = record.place, record.value
    if record.list_name == "relations":
        yield skipped(place, "a relation of mem0's graph, whose words its memories hold too")
        return
    if isinstance(memory, dict) and not memory.keys() & {*TEXTS, "id"}:
        raise BadEntry(place, "this is no memory of mem0: memory is missing.")
    name = next((name for name in TEXTS if isinstance(memory, dict) and memory.get(name) is not None), "memory")
    text = text_get(memory, name, place)
    if not text.strip():
        yield skipped(place, "a memory without words")
        return
    owners = texts_kept(memory, *OWNERS)
    owner = next((owners[name] for name in OWNERS if owners.get(name)), "")
    metadata = memory.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadEntry(place, "metadata is not an object.")
    categories = memory.get("categories") or []
    list_check(f"{place}: categories", categories)
    changed = source_moment(place, memory.get("updated_at")) or source_moment(place, memory.get("created_at"))
    stated = stated_of(metadata)
    expiry = expiry_moment(place, memory.get("expiration_date") or metadata.get("expiration_date"))
    yield Entry(
        FACT,
        place,
        text_get(memory, "id", place, default="") or content_id(text, owners),
        owner,
        {
            "content": text,
            "subject": owner,
            **stated,
            **({"user": owners["user_id"]} if options.serves_users and owners.get("user_id") else {}),
            "tags": tags_of(*categories, *(value for name, value in metadata.items() if name not in stated)),
            "valid_from": changed,
            "expires_at" if expiry and expiry > clock.now() else "valid_until": expiry,
        },
    )


FORMAT = Format(
    "mem0",
    "mem0",
    ("results", "memories", "relations"),
    lambda record: (
        isinstance(record.get("memory"), str) or ("hash" in record and any(name in record for name in TEXTS))
    ),
    _entries,
)
