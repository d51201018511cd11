"""Messages: what a person says, not asks. A memory that matters to one may share hardly a word with it.

Among short remarks the cosine to a message says little: a few remarks are near to everything ("hubs"; Radovanović,
Nanopoulos and Ivanović, "Hubs in Space", 2010). What an item has in common with the usual item of its collection is
therefore taken off: the query's vector is moved away from the mean vector of the collection, which is the same as
subtracting from each cosine the item's own mean cosine, and lets the vector index be used as it is.
"""

import re
from functools import lru_cache

import numpy as np

from identity.models import Agent
from memory.embedding.protocol import Vectors
from memory.persona import VIEWS, PersonaMemory
from memory.search.fusion import Counts
from memory.search.index_tables import source_of
from nousweb.lib.prepared_statements import rows_prepared

MOVED = 1.2
"""How far the query is moved, in mean vectors; 1.0 to 1.6 differ by less than .03 of recall@10."""
USUAL_ITEMS = 200
"""The latest so many items are the usual ones; 50 and 1,000 give the same."""
KEPT = 1_024
"""Mean vectors that a process keeps."""
MIN_WORDS = 5
MAX_READ = 4_000
"""Characters of a text that are looked at."""
_FIRST_PERSON = re.compile(
    r"(?<!\w)(?:i|i['’]\w+|me|my|mine|myself|we|we['’]\w+|us|our|ours|ich|mich|mir|mein\w*|wir|uns\w*"
    r"|je|j['’]\w+|moi|mon|ma|mes|nous|notre|nos|yo|mi|mis|m[ií]|nosotr[oa]s|nuestr[oa]s?)(?!\w)",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"^\W*(?:please|tell|show|give|list|find|search|remind|recall|summari[sz]e|explain|describe|compare|what|when"
    r"|where|who|whom|whose|which|why|how|can|could|would|will|do|does|did|is|are|was|were|has|have|had|should"
    r"|bitte|nenne|zeige?|erkläre?|fasse|was|wann|wo|wer|welche\w*|warum|wie|kannst|könntest"
    r"|quel\w*|quand|où|qui|pourquoi|comment|dis|montre\w*|explique\w*|qué|cuándo|dónde|quién|cuál\w*|cómo|dime)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+")


def is_message(text: str) -> bool:
    """Whether `text` says something about its speaker, and its last sentence neither asks nor requests anything.

    What follows a dash ("I bought a lamp—who am I?") is no question that waits for an answer.
    """
    text = text[:MAX_READ].strip()
    last = _SENTENCE_END.split(text)[-1].partition("—")[0]
    return (
        "?" not in last
        and not _REQUEST.match(text)
        and not _REQUEST.match(last)
        and len(text.split()) >= MIN_WORDS
        and _FIRST_PERSON.search(text) is not None
    )


def moved_query(view: PersonaMemory, counts: Counts, vector: Vectors) -> Vectors | None:
    """The query's vector, moved away from the mean vector of the collection; None for an empty collection."""
    mean_read = _mean_kept if counts.items >= USUAL_ITEMS else _mean_kept.__wrapped__
    mean = mean_read(view.persona, int(view.agent.pk), counts.model, counts.items // USUAL_ITEMS)
    return None if mean is None else np.asarray(vector - MOVED * mean, np.float32)


@lru_cache(maxsize=KEPT)
def _mean_kept(persona: str, agent: int, model: str, grown: int) -> Vectors | None:
    """The mean vector of the latest items; read again when the collection has `grown` by as many. That of fewer items
    is not kept, since it would tell much of one that is erased."""
    usual = source_of(VIEWS[persona](Agent(pk=agent)), "id, embedding", "model = %(model)s AND active")
    statement = (
        "SELECT avg(embedding)::real[] FROM"  # noqa: S608
        f" (SELECT embedding FROM {usual} AS usual ORDER BY id DESC LIMIT {USUAL_ITEMS}) AS latest"
    )
    [(mean,)] = rows_prepared(statement, {"model": model})
    return None if mean is None else np.asarray(mean, np.float32)
