"""The overrides of changes that are not made yet, for their impact."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from django.db.models import Q

from context.engine.overrides import CensorDraft, FactDraft, MetadataChange, Overrides
from context.engine.retrieval.fixed_sections import pins_of, sureness
from context.engine.retrieval.seeded_preferences import tried_without_fact_copies
from identity.models import ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.versions import is_self_approval
from memory.models import (
    KEYS,
    SAME_WORDS,
    Censor,
    Fact,
    MemoryReview,
    Validity,
    keys_changed,
    keys_of,
    tier_of,
    validity_at,
)
from memory.policy import DEFAULT_CATEGORY, ESCALATES_TO
from memory.search.invalidated_matches import InvalidatedFact
from memory.services.facts.repeated_facts import unstored_fact_fields
from memory.services.reviews.quarantine_resolution import attribute_pairs
from memory.services.reviews.resolve import BULK_RESOLUTIONS, RESOLUTIONS
from memory.services.subjects.registry import alias_find
from nousweb.lib import Conflict, Invalid, choice_check, clock, storable_check, tags_check, unit_check, word_check

Resolution = MemoryReview.Resolution
CHANGING = (Resolution.SAME, Resolution.REPLACE)
MAX_CORE_FACTS = 1_000
"""Facts of core memory that are looked at for a fact's place among them; a prompt loads a tenth."""


def proposal_overrides(proposal: ChangeProposal | IdentityVersion, content: str | None = None) -> Overrides:
    """Overrides of approving a proposal, or of an earlier version: its text, or `content`, in its section."""
    text = proposal.content if content is None else content
    return Overrides(identity=tried_without_fact_copies(proposal.agent_id, {proposal.section: text}))


def fact_overrides(fact: Fact, content: str | None) -> Overrides:
    """Overrides of replacing a fact with `content`, or of removing it if `content` is None."""
    storable_check("content", content or "")
    return Overrides(facts={str(fact.pk): content}, subjects={str(fact.pk): _subject_name(fact)})


def bulk_invalidation_overrides(facts: Sequence[Fact]) -> Overrides:
    """Overrides of invalidating all of these facts together."""
    keys = [fact.pk for fact in facts]
    return Overrides.merge(invalidation_overrides(fact, together_with=keys) for fact in facts)


def invalidation_overrides(fact: Fact, *, together_with: Collection[UUID] = ()) -> Overrides:
    """Overrides of invalidating a fact. Memories that repeat it are left out too, unless a current fact has the same
    words; facts that are invalidated `together_with` it do not count."""
    overrides = fact_overrides(fact, None)
    same_words = SAME_WORDS.format("content"), SAME_WORDS.format("%s::text")
    others = Fact.objects.current().filter(agent=fact.agent_id, persona=fact.persona)
    same = others.exclude(pk__in={fact.pk, *together_with})
    if same.extra(where=[f"{same_words[0]} = {same_words[1]}"], params=[fact.content]).exists():  # noqa: S610
        return overrides
    return replace(overrides, invalidated=(InvalidatedFact(fact.content, *keys_of(fact).values()),))


def metadata_overrides(
    fact: Fact,
    *,
    category: str | None = None,
    scope: str | None = None,
    project: str | None = None,
    task: str | None = None,
    user: str | None = None,
    tags: Sequence[str] | None = None,
    importance: float | None = None,
) -> Overrides:
    """Overrides of changing a fact's metadata; None leaves a field as it is. Raises Invalid, naming the field.

    Facts of the categories person, preference and rule are core memory, which is always included; all others are
    searched. The position in core memory follows from pins, and from when its facts were recorded.
    """
    keys = {"scope": fact.scope, **keys_of(fact)}
    keys |= keys_changed(fact, scope, project, task, user)
    change = MetadataChange(
        id=str(fact.pk),
        persona=fact.persona,
        subject_name=_subject_name(fact),
        content=fact.content,
        kind=fact.kind,
        was=fact.category,
        category=fact.category if category is None else word_check("category", category),
        **keys,
        moved=any(keys[name] != key for name, key in keys_of(fact).items()),
        tags=frozenset(fact.tags if tags is None else tags_check(tags)),
        importance=fact.importance if importance is None else unit_check("importance", importance),
        attribute=fact.attribute,
        began=fact.valid_from or fact.recorded_at,
        recorded=fact.recorded_at,
    )
    if not fact.is_current:
        state = fact.validity.label.lower() if fact.active else "retired"
        raise Conflict(f"This fact is {state}: no prompt includes it, whatever its metadata.")
    if change.is_core_memory:
        choice_key = sureness(fact.confidence, change.importance, fact.recorded_at)
        change = replace(change, after=_core_memory_before(fact), choice_key=choice_key)
    return Overrides(metadata={change.id: change})


def _core_memory_before(fact: Fact) -> frozenset[str]:
    """Ids of the facts of core memory that come before a fact: pinned ones and those recorded earlier."""
    core = Fact.objects.current().filter(agent=fact.agent_id).profile()
    since = Q(recorded_at__lt=fact.recorded_at) | Q(recorded_at=fact.recorded_at, pk__lt=fact.pk)
    earlier = {str(key) for key in core.filter(since).surest_first().values_list("pk", flat=True)[:MAX_CORE_FACTS]}
    pinned = {item_id for item_type, item_id in pins_of(fact.agent) if item_type == "fact"}
    return frozenset(pinned & earlier if str(fact.pk) in pinned else pinned | earlier)


def bulk_proposal_overrides(proposals: Sequence[ChangeProposal], by: Principal) -> tuple[Overrides, list[str]]:
    """Overrides of approving these proposals of one agent in turn, and descriptions of those that would be refused.

    `proposals` need their `current_version` (`with_stale`).
    """
    parts: list[Overrides] = []
    refused: list[str] = []
    changed: set[str] = set()
    for proposal in proposals:
        why = ""
        if proposal.status != ChangeProposal.Status.PENDING:
            why = "it is no longer pending"
        elif is_self_approval(proposal, by):
            why = "you proposed it, so another person must approve it"
        elif proposal.section in changed:
            why = "another selected proposal changes this section first"
        elif proposal.base_version != getattr(proposal, "current_version", proposal.base_version):
            why = "the section has changed since it was written"
        if why:
            refused.append(f"{proposal.get_section_display()} by {proposal.author_name}: {why}.")
            continue
        changed.add(proposal.section)
        parts.append(proposal_overrides(proposal))
    return Overrides.merge(parts), refused


def bulk_resolution_overrides(reviews: Sequence[MemoryReview], answer: str) -> tuple[Overrides, list[str]]:
    """Overrides of resolving these reviews of one agent in turn with the same answer, and descriptions of those that
    would be refused. Raises Invalid for an answer that needs a text."""
    choice_check("answer", answer, BULK_RESOLUTIONS)
    parts: list[Overrides] = []
    refused: list[str] = []
    gone: set[str] = set()
    for review in reviews:
        pair = [fact for fact in (review.old, review.new) if fact is not None]
        why, is_blind = "", "blind" in review.details
        if review.status == MemoryReview.Status.RESOLVED:
            why = "it is resolved already"
        elif answer not in RESOLUTIONS[review.kind]:
            why = f"it cannot be resolved with “{MemoryReview.Resolution(answer).label}”"
        elif answer in CHANGING and any(not fact.active or str(fact.pk) in gone for fact in pair) and not is_blind:
            why = "one of its facts is retired, or another selected review would retire it"
        if why:
            refused.append(f"{review}: {why}.")
            continue
        part = resolution_overrides(review, answer)
        gone |= {key for key, text in part.facts.items() if text is None}
        parts.append(part)
    return Overrides.merge(parts), refused


def resolution_overrides(review: MemoryReview, answer: str, content: str = "") -> Overrides:
    """Overrides of resolving a pending review; `content` is the text of a merge.

    Empty for an answer that changes nothing. Raises Invalid for an answer that the review does not accept.
    """
    choice_check("answer", answer, RESOLUTIONS[review.kind])
    if review.kind in (MemoryReview.Kind.SAME_SUBJECT, MemoryReview.Kind.REPEATED):
        return _about_subjects(review, answer)
    if review.kind == MemoryReview.Kind.ATTRIBUTE:
        ended = attribute_pairs(review) if answer == Resolution.REPLACE else []
        return Overrides.merge([fact_overrides(old, None) for old, _, _ in ended])
    gone: dict[str, Fact | None] = {
        "same": review.new,
        "replace": review.old,
        "old_wrong": review.old,
        "new_wrong": review.new,
    }
    stays = [one for one in (review.old, review.new) if one is not None and one is not gone.get(answer)]
    endorsed = frozenset(str(stay.pk) for stay in stays)
    if fact := gone.get(answer):
        wrong = answer in (Resolution.OLD_WRONG, Resolution.NEW_WRONG)
        return replace(invalidation_overrides(fact) if wrong else fact_overrides(fact, None), endorsed=endorsed)
    if answer == "reverse" and review.censor is not None:
        was = next((low for low, high in ESCALATES_TO.items() if high == review.censor.severity), "")
        return censor_overrides(review.censor, severity=was) if was else Overrides()
    if answer == "merge":
        return _merged(review, content)
    return Overrides(resolved_pairs=frozenset({endorsed}), endorsed=endorsed) if answer == "both" else Overrides()


def _merged(review: MemoryReview, content: str) -> Overrides:
    """The text replaces the first of the facts, and the others are gone."""
    text = storable_check("content", content.strip() or review.proposal)
    if not text:
        raise Invalid("Write the text that replaces all of them.", field="content")
    keys = [review.old_id, review.new_id] if review.old_id else review.facts
    sources = Fact.objects.active().filter(pk__in=[key for key in keys if key]).order_by("recorded_at", "id")
    if not sources:
        raise Conflict("None of these facts is active any more; there is nothing to merge.")
    first, *others = sources
    return Overrides(
        facts={str(first.pk): text, **{str(fact.pk): None for fact in others}},
        subjects={str(first.pk): _subject_name(first)},
    )


def _about_subjects(review: MemoryReview, answer: str) -> Overrides:
    """Same: the newer subject is merged into the older one. Both: the sentence is stored again for the other one."""
    known = frozenset(str(key) for key in review.facts)
    if answer == Resolution.SAME:
        keys = list(review.subjects)
        return Overrides(merged=((keys[1], keys[0]),) if len(keys) == 2 else (), endorsed=known)
    if answer != Resolution.BOTH or not review.facts:
        return Overrides()
    fields = unstored_fact_fields(review)
    if validity_at(fields.get("valid_from"), fields.get("valid_until"), clock.now()) != Validity.CURRENT:
        return Overrides()
    alias = alias_find(agent=review.agent, persona=review.persona, spelling=fields.get("subject", ""))
    project, task, user = (fields.get(name, "") for name in KEYS)
    added = FactDraft(
        persona=review.persona,
        subject_name=alias.subject.name if alias else fields.get("subject", ""),
        content=fields["content"],
        category=fields.get("category", DEFAULT_CATEGORY),
        kind=fields.get("kind", ""),
        scope=tier_of(fields.get("scope", "global"), project, task),
        project=project,
        task=task,
        user=user,
        tags=frozenset(fields.get("tags", ())),
        importance=fields.get("importance", 0.5),
    )
    return Overrides(added_facts={str(review.facts[0]): added})


def _subject_name(fact: Fact) -> str:
    """The name that prompts use for the subject of a fact."""
    return fact.subject_alias.subject.name if fact.subject_alias else fact.subject


def censor_overrides(censor: Censor | None, *, pattern: str = "", severity: str = "", reason: str = "") -> Overrides:
    """Overrides of adding a censor, changing `censor`, or (without other arguments) removing it."""
    for name, value in (("pattern", pattern), ("reason", reason)):
        storable_check(name, value)
    if censor is not None and not pattern and not severity:
        return Overrides(removed_censors=frozenset({str(censor.pk)}))
    severity = severity or (censor.severity if censor else "warn")
    choice_check("severity", severity, Censor.Severity.values)
    if censor is None:
        return Overrides(censors=(CensorDraft(pattern, severity, reason),))
    own = (pattern or censor.pattern, severity, reason or censor.reason, str(censor.pk), censor.persona)
    return Overrides(censors=(CensorDraft(*own),))
