"""Quarantine of memories whose text reads like an instruction to the agent, until a person has read them.

The transaction that writes a memory also scans its text, by rules on words (`nousweb.lib.injection.scan`) and, of what
tools and the web say, by the meaning of its sentences (`memory.services.quarantine.requests`).
Quarantined memories are inactive: they have no row in the search index, are in no prompt, and tokens
cannot read them. People get one review for each distinct text. Their resolution also applies to later memories with the
same words.
"""

import hashlib
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import (
    KEYS,
    Censor,
    Event,
    Fact,
    FactChange,
    LongTermEntry,
    MemoryReview,
    Trust,
    WorkingMemory,
)
from memory.persona import PersonaMemory
from memory.policy import (
    MAX_ITEMS_PER_QUARANTINE_REVIEW,
    MAX_PENDING_QUARANTINE_REVIEWS,
    MAX_PENDING_REVIEWS_PER_TOKEN,
    REVIEW_RETRY_SECONDS,
)
from memory.policy.oversight import ConsentRequest
from memory.services.quarantine.requests import scan_new_text
from memory.services.reviews.open_review import review_open
from memory.services.reviews.states import Kind, Resolution, Status, review_reopen, reviews_settle
from memory.services.search_index.writer import index_remove
from memory.services.trust import screening_class
from memory.types import all_texts
from nousweb.lib import TooMany, clock
from nousweb.lib.injection.pieces import scan_cached, scan_pieces
from nousweb.lib.injection.scan import InjectionMatch, fold_text, scan_text
from nousweb.lib.json_texts import json_texts

BY = Principal.of_system("screening")
WAITING = InjectionMatch(("consent",), 0.0, "")
"""Instead of a match, for what the consent policy of the agent lets wait."""
SHOWN = InjectionMatch(("shown",), 0.0, "")
"""The same, for what it shows to people."""
MARKED = InjectionMatch(("marked",), 0.0, "")
"""The same, for what a person marked as wrong."""
NAME_FIELDS = ("kind", "category", "domain", *KEYS, "loop_id")
"""Attributes of memories that are names given by the writer."""


def quarantine_review_key(agent_id: int, persona: str, text: str) -> str:
    """The key (`MemoryReview.about`) of the review of a text. Spaces and capitals make no difference to it."""
    digest = hashlib.sha256(" ".join(fold_text(text).split()).encode()).hexdigest()
    return f"quarantined:{agent_id}:{persona}:{digest}"


def scan_agent_text(
    agent: Agent, persona: str, text: str, trust: str, names: str = ""
) -> tuple[InjectionMatch | None, bool]:
    """Scan a text of an agent's persona: the match, or None, and whether people have allowed the same words before.

    A text that people have allowed has no match. `names` are scanned by themselves.
    """
    match = scan_new_text(text, trust) or (scan_cached(names, trust) if names else None)
    if match is None:
        return None, False
    return (None, True) if is_allowed(agent, persona, text) else (match, False)


def is_allowed(agent: Agent, persona: str, text: str) -> bool:
    """Whether a person has allowed these words."""
    return _decided(agent, persona, text) == Resolution.ALLOW


def _decided(agent: Agent, persona: str, text: str) -> str | None:
    """What people decided about these words."""
    about = quarantine_review_key(agent.pk, persona, text)
    resolved = MemoryReview.objects.filter(agent=agent, about=about, status=Status.RESOLVED)
    return resolved.values_list("resolution", flat=True).first()


def _waits(consent: ConsentRequest | None, agent: Agent, persona: str, text: str) -> bool:
    """Whether a text that reads like no instruction waits for people all the same: they are asked before it is used, or
    have rejected its words when it was shown."""
    return consent is not None and (consent.waits or _decided(agent, persona, text) == Resolution.HOLD)


def scan_memory(memory: Any) -> InjectionMatch | None:
    """Scan all text fields of a memory: the match, or None. Texts that people wrote are never matched.

    Side effect: if people have allowed the same words, this sets `memory.origin` to the trust class PERSON and returns
    None. The caller must save the field.
    """
    if memory.trust == Trust.PERSON:
        return None
    text, trust = memory_text(memory), memory.screened_as or screening_class(memory.trust, type_name(memory))
    match = scan_new_text(text, trust) or scan_text(memory_text(memory, " "), trust)
    match = match or scan_cached(memory_names(memory), trust)
    if match is None and (given := getattr(memory, "as_given", "")):
        match = scan_new_text(given, trust)
    if match is None and _waits(memory.consent, memory.agent, memory.persona, text):
        match = WAITING
    if match is None:
        return None
    if is_allowed(memory.agent, memory.persona, text):
        memory.origin = Trust.PERSON.value
        return None
    return match


def memory_text(memory: Any, between: str = ".\n") -> str:
    """All text fields of a memory, joined by `between`. Joined by a space, a phrase that is split across two fields is
    matched too."""
    texts = (memory.pattern, memory.reason) if isinstance(memory, Censor) else all_texts(memory)
    return between.join(text for text in texts if text)


def memory_names(memory: Any) -> str:
    """The names of a memory, and each text of an event's metadata: they stand beside its words in answers and prompts,
    and an instruction may begin with each of them."""
    metadata = json_texts(memory.metadata) if isinstance(memory, Event) else ()
    names = (getattr(memory, name, "") for name in NAME_FIELDS)
    return ". ".join(str(text) for text in (*names, *metadata) if text)


def quarantine_if_needed(memory: Any) -> bool:
    """Scan a memory that has just been stored or changed, and quarantine it on a match, or show it to people where its
    consent says so; returns whether it is quarantined.

    Call it in the transaction of the write, before the memory's row is put into the index. The memory must be locked
    or new.
    """
    if memory.quarantined:
        return bool(memory.quarantined)
    before = memory.origin
    match = scan_memory(memory)
    if memory.origin != before:
        memory.save(update_fields=["origin"])
    if match is None:
        show_to_people(memory)
        return False
    quarantine_memory(memory)
    items = [(type_name(memory), str(memory.pk))]
    review = open_quarantine_review(memory.agent, memory.persona, items, memory_text(memory), match, memory.consent)
    memory.pending, memory.review = match is WAITING, review and review.pk
    return True


def show_to_people(memory: Any) -> MemoryReview | None:
    """Ask people about a memory that is in use, where its consent says so; returns the review, None if nobody is
    asked."""
    if memory.consent is None or memory.quarantined or memory.trust == Trust.PERSON:
        return None
    items = [(type_name(memory), str(memory.pk))]
    review = open_quarantine_review(memory.agent, memory.persona, items, memory_text(memory), SHOWN, memory.consent)
    memory.review = review and review.pk
    return review if review and review.status == Status.PENDING else None


def event_show(entry: LongTermEntry) -> None:
    """`show_to_people` of a new event."""
    if entry.consent is not None and not entry.quarantined and entry.origin != Trust.PERSON:
        items, text = [("event", str(entry.event_id))], event_text(entry.event)
        open_quarantine_review(entry.event.agent, entry.persona, items, text, SHOWN, entry.consent)


def quarantine_memory(memory: Any, *, at: datetime | None = None) -> None:
    """Remove a memory from prompts, from searches and from the reads of tokens, and record that. `at` is the time, for
    a memory that was in use until then."""
    before = {"quarantined": False, "active": memory.active}
    memory.quarantined = True
    if memory.active:
        memory.active, memory.retired_at = False, at or _retired_at(memory)
    memory.save(update_fields=["quarantined", "active", "retired_at"])
    if isinstance(memory, Fact):
        FactChange.objects.create(
            agent_id=memory.agent_id,
            fact=memory,
            action=FactChange.Action.QUARANTINED,
            at=memory.retired_at or clock.now(),
            before={"active": before["active"]},
            author_kind=BY.kind,
            author_id=BY.id,
            author_name=BY.name,
        )
        reviews_settle(agent_id=memory.agent_id, facts=[memory.pk])
    if isinstance(memory, Censor):
        reviews_settle(agent_id=memory.agent_id, censors=[memory.pk])
    else:
        index_remove(memory.agent_id, memory.persona, type_name(memory), [str(memory.pk)])
    audit_record(
        by=BY, action="memory.hold", target=memory, agent=memory.agent, before=before,
        after={"quarantined": True, "active": False},
    )  # fmt: skip


def _retired_at(memory: Any) -> Any:
    """The time at which a memory goes out of use: for a new one its creation, since nobody could have read it."""
    created = memory.recorded_at if isinstance(memory, Fact) else memory.created_at
    is_new = memory._state.adding or created == getattr(memory, "updated_at", created)
    return created if is_new else max(created, clock.now())


def open_quarantine_review(
    agent: Agent,
    persona: str,
    items: Iterable[tuple[str, str]],
    text: str,
    match: InjectionMatch,
    consent: ConsentRequest | None = None,
) -> MemoryReview | None:
    """Open a review of memories with the same words, or add them to the review of these words; returns the review, or
    None if MAX_PENDING_QUARANTINE_REVIEWS of the persona are pending.

    `items` are pairs of memory type and key; `consent` groups reviews of new memories. The review does not contain the
    text, so tokens cannot read it there: only people see the memories that it names.
    Raises TooMany if a writer asks for consent while MAX_PENDING_REVIEWS_PER_TOKEN are pending.
    """
    about = quarantine_review_key(agent.pk, persona, text)
    new = [list(item) for item in items]
    review = MemoryReview.objects.select_for_update(of=("self",), no_key=True).filter(agent=agent, about=about).first()
    if review is not None:
        if review.status == Status.EXPIRED or review.resolution == Resolution.MOOT:
            review_reopen(review, BY)
        before = review.details.get("items", [])
        review.details = {**review.details, "items": [*before, *(item for item in new if item not in before)]}
        if match is not MARKED and review.is_mark:
            # The words that a person marked come again, and there is something to ask now.
            review.kind, review.reasons = _kind(match), _reasons(match)
            review.details["codes"] = list(match.codes)
            review.save(update_fields=["kind", "reasons", "details"])
        if len(review.details["items"]) <= MAX_ITEMS_PER_QUARANTINE_REVIEW:
            review.facts = _fact_ids(review.details["items"])
            review.save(update_fields=["details", "facts"])
        return review
    kind = _kind(match)
    pending = MemoryReview.objects.pending().filter(agent=agent, persona=persona, kind=kind).count()
    if kind == Kind.QUARANTINED and pending >= MAX_PENDING_QUARANTINE_REVIEWS:
        return None
    if kind == Kind.NEW_MEMORY and consent and consent.limited and pending >= MAX_PENDING_REVIEWS_PER_TOKEN:
        if match is SHOWN:
            return None
        raise TooMany(
            f"{pending:,} new memories wait for consent, which is the limit.", retry_after=REVIEW_RETRY_SECONDS
        )
    return review_open(
        agent=agent,
        persona=persona,
        kind=kind,
        about=about,
        by=BY,
        subject=new[0][0] if kind == Kind.QUARANTINED else "",
        facts=_fact_ids(new),
        details={"items": new, "codes": list(match.codes), **(consent.as_json(agent.pk) if consent else {})},
        score=round(match.score, 1) or None,
        expires_at=clock.now() + timedelta(days=consent.days) if consent and consent.days else None,
        reasons=_reasons(match),
    )


def _kind(match: InjectionMatch) -> Kind:
    return Kind.NEW_MEMORY if match in (WAITING, SHOWN, MARKED) else Kind.QUARANTINED


def _reasons(match: InjectionMatch) -> list[dict[str, str]]:
    return [
        {"code": code, "words": words, "old": "", "new": ""}
        for code, words in zip(match.codes, match.words, strict=True)
    ]


def _fact_ids(items: Iterable[Collection[str]]) -> list[str]:
    return [key for kind, key in items if kind == "fact"]


def type_name(memory: Any) -> str:
    """The name of a memory's type in the items of a review: the name of its model."""
    return str(memory._meta.model_name)


def quarantine_entries(entries: Iterable[LongTermEntry]) -> list[tuple[LongTermEntry, str, InjectionMatch]]:
    """Scan the events of new, unsaved entries and mark those that match as quarantined.

    Returns the marked entries, each with its text and its match. The caller saves them and opens their reviews.
    """
    quarantined = []
    for entry in entries:
        if entry.origin == Trust.PERSON:
            continue
        text = event_text(entry.event)
        match, allowed = scan_agent_text(
            entry.event.agent, entry.persona, text, entry.screened_as or entry.origin, memory_names(entry.event)
        )
        if match is None and not allowed and _waits(entry.consent, entry.event.agent, entry.persona, text):
            allowed = is_allowed(entry.event.agent, entry.persona, text)
            match = None if allowed else WAITING
        if allowed:
            entry.origin = Trust.PERSON.value
        if match is not None:
            entry.quarantined = True
            quarantined.append((entry, text, match))
    return quarantined


def quarantine_imported_row(row: Any) -> None:
    """Quarantine a row of an imported agent if its text matches, and open a review if it is quarantined, here or at its
    source.

    For an event, `row` is its long-term entry. Exports do not contain the reviews themselves.
    """
    if isinstance(row, LongTermEntry):
        was_quarantined = row.quarantined
        for entry, text, match in quarantine_entries([row]):
            if not was_quarantined:
                entry.save(update_fields=["quarantined"])
            open_quarantine_review(entry.event.agent, entry.persona, [("event", str(entry.event_id))], text, match)
    elif row.quarantined:
        row_match = scan_memory(row) or WAITING
        open_quarantine_review(row.agent, row.persona, [(type_name(row), str(row.pk))], memory_text(row), row_match)
    else:
        quarantine_if_needed(row)


def event_text(event: Event) -> str:
    """All texts of an event: its content and the texts of its metadata, which search results contain."""
    return " ".join([event.content, *json_texts(event.metadata)])


TRUSTED = "trusted"
"""Marks an item or an open thread that a person wrote or allowed."""

WORKING_PARTS = {"item": "items", "thread": "open_threads", "task": "task", "frame": "frame"}
"""The fields of a working memory by the part that a quarantined text is of."""

Entry = dict[str, Any]


def screen_working_text(working: WorkingMemory, part: str, entry: Entry) -> bool:
    """Scan a new text of a session's working memory, and quarantine it on a match; returns whether it is quarantined.

    `part` is "item", "thread", "task" or "frame". The row is locked; the caller saves it.
    """
    new = str(entry["text"])
    match, allowed = scan_agent_text(working.agent, working.persona, new, Trust.AGENT)
    about = new
    if match is None and not allowed and (match := _match_with_others(working, new, part)):
        about = f"{new}\n{match.sentence}"
        allowed = is_allowed(working.agent, working.persona, about)
    if allowed:
        entry[TRUSTED] = True
    if match is None or allowed:
        return False
    working.quarantined_entries = [*working.quarantined_entries, {**entry, "part": part}]
    open_quarantine_review(working.agent, working.persona, [("working", f"{working.pk}:{entry['id']}")], about, match)
    return True


def _match_with_others(working: WorkingMemory, new: str, part: str) -> InjectionMatch | None:
    """The match of a new text joined with the other texts and keys of the session: an instruction can be split."""
    named = ". ".join(filter(None, (working.session_id, working.project, working.task_key, working.user)))
    if match := scan_cached(f"{named}.\n{new}", Trust.AGENT):
        return match
    texts = [] if part == "task" else [working.task]
    texts += [str(other["text"]) for other in (*working.items, *working.open_threads) if not other.get(TRUSTED)]
    # A new task is read before the items, any other text after them.
    texts = [new, *texts] if part == "task" else [*texts, new]
    place = texts.index(new)
    found = scan_pieces(texts, [Trust.AGENT if text else "" for text in texts])
    return next((one.match for one in found if len(one.places) > 1 and place in one.places), None)


def is_task_trusted(view: PersonaMemory, session_id: str, task: str, user: str = "") -> bool:
    """Whether the task of a session needs no screening: it is harmless, or a person wrote or allowed it."""
    if scan_cached(task, Trust.AGENT) is None:
        return False
    if is_allowed(view.agent, view.persona, task):
        return True
    row = WorkingMemory.objects.filter(agent=view.agent, persona=view.persona, session_id=session_id, user=user).first()
    written = AuditEvent.objects.of_object("workingmemory", row.pk if row else "").filter(agent=view.agent)
    return written.filter(action="working.set", author_kind="person", after__task=task).exists()


def release_working_text(agent_id: int, key: str) -> bool:
    """Move a quarantined text into the session's working memory; False if it no longer exists."""
    working, entry = _quarantined_entry(agent_id, key)
    if working is None or entry is None:
        return False
    working.quarantined_entries = [other for other in working.quarantined_entries if other["id"] != entry["id"]]
    released = {**{name: value for name, value in entry.items() if name != "part"}, TRUSTED: True}
    held = getattr(working, WORKING_PARTS[entry["part"]])
    setattr(working, WORKING_PARTS[entry["part"]], [*held, released] if isinstance(held, list) else entry["text"])
    working.save(update_fields=["quarantined_entries", *WORKING_PARTS.values()])
    return True


def quarantine_working_text(agent_id: int, key: str) -> None:
    """Quarantine a text that is in a session's working memory. `key` is "<id of the row>:<id of the text>"."""
    working, quarantined = _quarantined_entry(agent_id, key)
    if working is None or quarantined is not None:
        return
    name = key.partition(":")[2]
    for part, attribute in WORKING_PARTS.items():
        held = getattr(working, attribute)
        entries = held if isinstance(held, list) else [{"id": part, "text": held}] if held else []
        if found := [{**entry, "part": part} for entry in entries if entry["id"] == name]:
            working.quarantined_entries = [*working.quarantined_entries, *found]
            kept = [entry for entry in entries if entry["id"] != name]
            setattr(working, attribute, kept if isinstance(held, list) else "")
    working.save(update_fields=["quarantined_entries", *WORKING_PARTS.values()])


def _quarantined_entry(agent_id: int, key: str) -> tuple[WorkingMemory | None, Entry | None]:
    session, _, name = key.partition(":")
    rows = WorkingMemory.objects.select_for_update(of=("self",), no_key=True)
    working = rows.filter(agent=agent_id, pk=int(session)).first()
    entries = working.quarantined_entries if working is not None else []
    return working, next((entry for entry in entries if entry["id"] == name), None)
