"""The words of new facts, by the rules of the search index."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from identity.models import Agent
from memory.models import Fact
from memory.models.facts import SAME_WORDS
from memory.search.languages import dictionary_sql

_WORDS = "SELECT array_agg(lexeme) AS lexemes, array_agg(coalesce(cardinality(positions), 1)) AS counts FROM unnest"
# Index rows contain the subject before a text that does not begin with it.
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
    """The words of a fact, stemmed for the language of its agent.

    `digest`: equal for equal words. `query`: the words with which other facts are searched. `words`: the words by which
    the fact is found, with their counts.
    """

    digest: str
    query: frozenset[str]
    words: dict[str, int]


def read_fact_texts(agent: Agent, facts: Sequence[Fact]) -> list[FactText]:
    """The texts of these facts of `agent`, in order. One statement."""
    with connection.cursor() as cursor:
        statement: Any = _TEXTS.format(dictionary=dictionary_sql(int(agent.pk)))
        cursor.execute(statement, [[fact.content for fact in facts], [fact.subject for fact in facts]])
        return [
            FactText(digest, frozenset(query or ()), dict(zip(words or (), counts or (), strict=True)))
            for digest, query, words, counts in cursor.fetchall()
        ]


def digests_of_active_facts(agent: Agent, persona: str, digests: Sequence[str]) -> set[str]:
    """The digests among `digests` that an active fact of the memory has."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT DISTINCT {SAME_WORDS.format('content')} FROM memory_fact"  # noqa: S608
            f" WHERE active AND agent_id = %s AND persona = %s AND {SAME_WORDS.format('content')} = ANY(%s)",
            [agent.pk, persona, list(digests)],
        )
        return {digest for (digest,) in cursor.fetchall()}
