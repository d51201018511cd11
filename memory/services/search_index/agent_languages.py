"""The language of an agent's search index: set by people or detected; a change reindexes it."""

import time
from typing import Any

import structlog
from django.db import transaction

from identity.models import Agent, Persona
from memory.jobs import message_send
from memory.models import SearchItem, SearchLanguage
from memory.search.languages import DEFAULT_DICTIONARY, LANGUAGES, PLAIN, language_of
from memory.search.query_word_counts import statistics_recount
from nousweb.lib import Invalid, clock
from nousweb.lib.transactions import advisory_lock, sql_change, sql_row

log = structlog.get_logger(__name__)

CONFIGURED = "language"
"""The entry of an agent's configuration by which people set it; without one it is detected."""
BATCH = 500
RUN_SECONDS = 60.0
LOOKED_AT = 200
"""Texts by which a language is detected, the latest."""
TEXT_CHARACTERS = 500
SETTLED = 1_000
"""With so many memories the language of an agent is known; before, it is looked at when there are twice as many."""


def language_check(code: str) -> str:
    """The code of a language that people may set; "" lets it be detected. Raises Invalid."""
    if code and code not in LANGUAGES:
        raise Invalid(f"There is no language {code[:20]!r}; they are {', '.join(LANGUAGES)}.", field="language")
    return code


def language_used(agent: Agent) -> str:
    """The code of the language by which the words of an agent are read."""
    configured = _configured(agent)
    if configured:
        return configured
    found = SearchLanguage.objects.filter(agent=agent).values_list("detected", flat=True).first()
    return found or "en"


def dictionary_of(agent_id: int) -> str:
    """The dictionary by which the words of an agent are read. One statement."""
    found = SearchLanguage.objects.filter(agent=agent_id).values_list("dictionary", flat=True).first()
    return found or DEFAULT_DICTIONARY


def language_apply(agent: Agent) -> None:
    """Let the words of an agent be read by the language that its configuration has, or by that which was detected.

    Inside the transaction of whoever changes it; what is in the index is read again in the background.
    """
    detected = SearchLanguage.objects.filter(agent=agent).values_list("detected", flat=True).first() or ""
    _use(agent, _configured(agent) or detected)


def languages_detect() -> int:
    """Detect the languages of agents whose memory has grown, where people have set none; returns how many changed.

    By the memories of the actor alone: what the subconscious writes must not show in what the actor finds.
    """
    changed = 0
    known = SearchLanguage.objects.in_bulk()
    for agent in Agent.objects.order_by("pk").iterator():
        row = known.get(agent.pk)
        if _configured(agent) or (row and row.looked_at >= SETTLED):
            continue
        items = SearchItem.objects.filter(agent=agent, persona=Persona.ACTOR, active=True)
        size = items.values("pk")[:SETTLED].count()
        if not size or (row and size < 2 * row.looked_at):
            continue
        latest = items.order_by("-id").values_list("text", flat=True)[:LOOKED_AT]
        detected = language_of([text[:TEXT_CHARACTERS] for text in latest])
        with transaction.atomic():
            row, _ = SearchLanguage.objects.get_or_create(agent=agent)
            SearchLanguage.objects.filter(agent=row.agent_id).update(looked_at=size, detected=detected or row.detected)
            if detected:
                changed += _use(agent, detected)
    return changed


def words_reread(*, seconds: float = RUN_SECONDS) -> int:
    """Read rows of the index and spellings again that were read by another dictionary than their agent's.

    For about `seconds`; what is left follows in another run. One run at a time does it. Returns how many were read.
    """
    with advisory_lock("nous.search.words") as mine:
        return _reread(time.monotonic() + seconds) if mine else 0


def _configured(agent: Agent) -> str:
    code = agent.config.get(CONFIGURED)
    return code if isinstance(code, str) and code in LANGUAGES else ""


def _use(agent: Agent, code: str) -> bool:
    """Let `code` be the language of an agent; "" is the default. Returns whether its dictionary is another now."""
    dictionary = _dictionary(code)
    row, _ = SearchLanguage.objects.get_or_create(agent=agent)
    if row.dictionary == dictionary:
        return False
    SearchLanguage.objects.filter(agent=agent).update(dictionary=dictionary, since=clock.now())
    log.info("search_language", agent=agent.slug, language=code, dictionary=dictionary)
    message_send("memory.tasks.reread_words")
    return True


def _dictionary(code: str) -> str:
    """PostgreSQL's dictionary for a language, or words as they are where this server has none."""
    if not code:
        return DEFAULT_DICTIONARY
    wanted = LANGUAGES[code].dictionary
    return wanted if sql_row("SELECT EXISTS (SELECT 1 FROM pg_ts_config WHERE cfgname = %s)", [wanted])[0] else PLAIN


_ITEMS = """
WITH batch AS (
    SELECT item.persona, item.id FROM memory_searchitem AS item
    WHERE item.agent_id = %(agent)s AND item.persona = %(persona)s AND item.id > %(after)s
      AND item.dictionary <> %(dictionary)s
    ORDER BY item.id LIMIT %(batch)s FOR UPDATE
), read AS (
    UPDATE memory_searchitem AS item SET dictionary = %(dictionary)s FROM batch
    WHERE item.agent_id = %(agent)s AND item.persona = batch.persona AND item.id = batch.id RETURNING item.id
)
SELECT count(*), max(id) FROM read
"""
_SPELLINGS = """
UPDATE memory_subjectalias SET dictionary = %(dictionary)s WHERE agent_id = %(agent)s AND dictionary <> %(dictionary)s
"""


def _reread(deadline: float) -> int:
    done = 0
    for row in SearchLanguage.objects.select_related("agent").order_by("agent"):
        changed = 0
        values: dict[str, Any] = {"agent": row.agent_id, "dictionary": row.dictionary, "batch": BATCH}
        sql_change(_SPELLINGS, values)
        for persona in Persona.values:
            after = 0
            while True:
                count, last = sql_row(_ITEMS, {**values, "persona": persona, "after": after})
                if not count:
                    break
                changed, after = changed + count, last
                if time.monotonic() > deadline:
                    message_send("memory.tasks.reread_words")
                    return done + changed
        if changed:
            statistics_recount(row.agent_id)
        done += changed
    return done
