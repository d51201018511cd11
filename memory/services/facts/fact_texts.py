"""The words of new facts, as the index reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from identity.models import Agent
from memory.models import Fact
from memory.models.facts import SAME_WORDS
from memory.search.languages import dictionary_sql

_WORDS = "SELECT array_agg(lexeme) AS lexemes, array_agg(coalesce(cardinality(positions), 1)) AS counts FROM unnest"
# The index has the subject with the text where that does not begin with it.
_TEXTS = f"""
SELECT {SAME_WORDS.format("new.text")}, query.lexemes, held.lexemes, held.counts
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS new (text, subject, place)
CROSS JOIN LATERAL ({_WORDS}(nous_terms({{dictionary}}, new.text))) AS query
CROSS JOIN LATERAL ({_WORDS}(nous_terms({{dictionary}}, CASE WHEN starts_with(lower(new.text), lower(new.subject))
    THEN new.text ELSE new.subject || ' ' || new.text END))) AS held
ORDER BY new.place
"""  # noqa: S608  (constants)


@dataclass(frozen=True, slots=True)
class FactText:
    """A text by the language of its agent: the digest that equal words share, the words by which others are looked
    for, and those by which it is found, with how often each stands there."""

    digest: str
    query: frozenset[str]
    words: dict[str, int]


def texts_read(agent: Agent, facts: Sequence[Fact]) -> list[FactText]:
    """The texts of these facts of `agent`, in their order, by one statement."""
    with connection.cursor() as cursor:
        statement: Any = _TEXTS.format(dictionary=dictionary_sql(int(agent.pk)))
        cursor.execute(statement, [[fact.content for fact in facts], [fact.subject for fact in facts]])
        return [
            FactText(digest, frozenset(query or ()), dict(zip(words or (), counts or (), strict=True)))
            for digest, query, words, counts in cursor.fetchall()
        ]


def same_words_known(agent: Agent, persona: str, digests: Sequence[str]) -> set[str]:
    """Those of these digests whose words an active fact of the memory has."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT DISTINCT {SAME_WORDS.format('content')} FROM memory_fact"  # noqa: S608
            f" WHERE active AND agent_id = %s AND persona = %s AND {SAME_WORDS.format('content')} = ANY(%s)",
            [agent.pk, persona, list(digests)],
        )
        return {digest for (digest,) in cursor.fetchall()}
