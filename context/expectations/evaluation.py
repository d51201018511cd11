"""Read the memories that expectations name, and evaluate an expectation against a prompt.

The evaluation is pure: all inputs are passed in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from context.engine.assembly import VerdictCode
from context.engine.context_record import OWN_WORDS, ContextRecord
from context.expectations.policy import IDENTITY_PARTS, MAX_UNINDEXED
from context.models import Expectation, ExpectationResult
from memory.models import IndexStatus, SearchItem, Validity, valid_at_q
from memory.persona import PersonaMemory
from memory.policy import PROFILE_CATEGORIES
from memory.subjects.name_similarity import meaning_of
from memory.types import MEMORY_TYPES
from nousweb.lib import clock
from nousweb.lib.prompt_escaping import plain_text

Key = tuple[str, str]
"""Type and id."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """An existing memory, active or not. `validity`: whether it is valid now. `successor`: id of the memory that
    replaced it."""

    content: str
    active: bool = True
    successor: str = ""
    invalid: bool = False
    validity: Validity = Validity.CURRENT


def targets_load(view: PersonaMemory, expectations: Iterable[Expectation]) -> dict[Key, TargetMemory]:
    """Load the target memories through the view. Erased and unknown ones are missing."""
    wanted = (one for one in expectations if one.target == Expectation.Target.MEMORY)
    return memories_named_load(view, ((one.item_type, one.item_id) for one in wanted))


def memories_named_load(view: PersonaMemory, keys: Iterable[Key]) -> dict[Key, TargetMemory]:
    """Load memories through the view, active or not. Erased and unknown ones are missing."""
    wanted: dict[str, set[str]] = {}
    for item_type, item_id in keys:
        wanted.setdefault(item_type, set()).add(item_id)
    found: dict[Key, TargetMemory] = {}
    for item_type, ids in wanted.items():
        own = MEMORY_TYPES.get(item_type)
        if own is not None:
            rows = view.rows(own.model).filter(pk__in=ids)
            found |= {
                (item_type, str(row.pk)): TargetMemory(
                    own.text(row),
                    getattr(row, "active", True),
                    str(getattr(row, "superseded_by_id", None) or ""),
                    getattr(row, "invalidated_at", None) is not None,
                    getattr(row, "validity", Validity.CURRENT),
                )
                for row in rows
            }
    return found


@dataclass(frozen=True, slots=True)
class FactSubject:
    """The subject of a fact: the subject in the registry, whatever the spelling; `meaning` is the key of its name.

    Each persona has a registry of its own, so subjects of two personas are compared by their names.
    """

    persona: str
    subject: str
    meaning: str

    def is_same(self, other: "FactSubject") -> bool:
        """Whether both are about one subject; facts without a subject never are."""
        if self.persona == other.persona and self.subject and other.subject:
            return self.subject == other.subject
        return bool(self.meaning) and self.meaning == other.meaning


def subjects_load(view: PersonaMemory, fact_ids: Iterable[str]) -> Mapping[str, FactSubject]:
    """The subjects of facts, by the ids of the facts."""
    columns = ("pk", "persona", "subject", "subject_alias__subject", "subject_alias__subject__name")
    rows = view.facts.filter(pk__in=list(fact_ids)).values_list(*columns)
    return {
        str(key): FactSubject(persona, str(thing or ""), meaning_of(name or written))
        for key, persona, written, thing, name in rows
    }


@dataclass(frozen=True, slots=True)
class Unindexed:
    """Memories that a search cannot weigh by meaning yet, since they have no vector: their texts, by type and id.

    `too_many`: there are more than are looked at.
    """

    texts: Mapping[Key, str] = field(default_factory=dict)
    too_many: bool = False


NOTHING_UNINDEXED = Unindexed()


def unindexed_load(view: PersonaMemory, expectations: Iterable[Expectation]) -> Unindexed:
    """Memories that wait for their vector, or failed to get one, if an expectation demands that something is absent.
    Core memory needs no search and is not included."""
    if all(expectation.requirement == Expectation.Requirement.PRESENT for expectation in expectations):
        return NOTHING_UNINDEXED
    rows = SearchItem.objects.filter(
        valid_at_q(SearchItem, clock.now()), agent=view.agent, persona__in=view.personas, active=True
    )
    waiting = rows.exclude(status=IndexStatus.READY).exclude(category__in=PROFILE_CATEGORIES)
    found = list(waiting.values_list("item_type", "item_id", "text")[: MAX_UNINDEXED + 1])
    return Unindexed({(kind, key): text for kind, key, text in found}, len(found) > MAX_UNINDEXED)


State = ExpectationResult.State


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a check. `code` is one of our fixed words; `detail` is a sentence without any text of a memory.

    `about` are the memories that it names, as type and id.
    """

    state: str
    code: str
    detail: str = ""
    about: tuple[Key, ...] = ()

    @property
    def passed(self) -> bool:
        return self.state == State.PASSED


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """Inputs for evaluating expectations besides the prompt: target memories, subjects of facts, and unindexed items.

    `replaced` are ids of facts that a hypothetical change would remove.
    """

    targets: Mapping[Key, TargetMemory] = field(default_factory=dict)
    subjects: Mapping[str, FactSubject] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    unindexed: Unindexed = NOTHING_UNINDEXED


def error_outcome(detail: str) -> Outcome:
    """The outcome of a check that could not run: neither passed nor failed."""
    return Outcome(State.ERROR, "error", detail)


_VERDICTS: Mapping[str, str] = {
    VerdictCode.NOT_PLANNED: "the plan for this question retrieves no memories of its type",
    VerdictCode.EXCLUDED_KIND: "the profile excludes its kind",
    VerdictCode.LOW_TRUST: "its trust class is below the profile's minimum",
    VerdictCode.QUARANTINED: "it reads like an instruction to the agent, or holds a secret",
    VerdictCode.LOW_IMPORTANCE: "its importance is below the profile's minimum",
    VerdictCode.BELOW_THRESHOLD: "it is too far from the question",
    VerdictCode.DUPLICATE_MESSAGE: "the conversation states the same already",
    VerdictCode.OTHER_PROJECT: "it belongs to another project, task or user",
    VerdictCode.DUPLICATE_INPUT: "the question states the same already",
    VerdictCode.DUPLICATE_ITEM: "another memory in the prompt has the same words",
    VerdictCode.INVALIDATED: "it states the same as a fact that people marked as wrong",
    VerdictCode.CONTESTED: "another fact contests it and takes precedence",
    VerdictCode.OVER_LIMIT: "other memories of its type are closer to the question",
    VerdictCode.OVER_BUDGET: "it has no room in the budget",
}


def missing_outcome(key: Key, record: ContextRecord, context: EvaluationContext) -> Outcome:
    """The failed outcome for a memory that should be in the prompt and is not, with the reason."""
    target = context.targets.get(key)
    if target is None:
        return Outcome(State.FAILED, "gone", "The memory was erased.", (key,))
    if key[0] == "fact" and key[1] in context.replaced:
        return Outcome(State.FAILED, "replaced", "It would be retired.", (key,))
    # A retired memory is in no prompt of today. For a prompt of the past, the prompt itself shows why.
    if not target.active and record.as_of is None:
        if target.successor:
            successor = (key[0], target.successor)
            return Outcome(
                State.FAILED, "superseded", f"It is superseded by {memory_name(successor)}.", (key, successor)
            )
        code = "invalidated" if target.invalid else "retired"
        return Outcome(State.FAILED, code, f"It is {code}.", (key,))
    if target.validity != Validity.CURRENT and record.as_of is None:
        return Outcome(State.FAILED, str(target.validity), f"It is {target.validity.label.lower()}.", (key,))
    for candidate in record.candidates:
        if (candidate["type"], candidate["id"]) == key:
            why = _VERDICTS.get(candidate["verdict"], "it was left out")
            return Outcome(State.FAILED, candidate["verdict"], f"It is left out: {why}.", (key,))
    for cut in record.truncated:
        if any((item["type"], item["id"]) == key for item in cut["items"]):
            return Outcome(State.FAILED, "truncated", f"It is left out: {cut['label']} has no room for it.", (key,))
    return Outcome(State.FAILED, "not_found", "The search for this question does not find it.", (key,))


def memory_name(key: Key) -> str:
    """A memory as a sentence names it: its type and id."""
    return f"{key[0]} {key[1]}"


Requirement, Target = Expectation.Requirement, Expectation.Target
Item = Mapping[str, Any]

MAX_NAMED = 5
"""Memories that the reason of a failure names."""


def outcome_of(expectation: Expectation, record: ContextRecord, context: EvaluationContext) -> Outcome:
    """Evaluate one prompt. A prompt that is incomplete because something failed to load gives an error."""
    if record.failed_sections:
        return error_outcome(f"The prompt is incomplete: {record.failed_sections[0][0]} could not be loaded.")
    if record.degraded:
        return error_outcome(f"Vector search was unavailable: {record.degraded}.")
    match expectation.target:
        case Target.MEMORY:
            found = _memory(expectation, record, context)
        case Target.TEXT:
            found = _text(expectation, record)
        case _:
            return _section(expectation, record)
    if found.passed and expectation.requirement != Requirement.PRESENT:
        return _not_weighed(expectation, context) or found
    return found


def _not_weighed(expectation: Expectation, context: EvaluationContext) -> Outcome | None:
    """An error if absence cannot be concluded: a memory that would break the expectation has no vector yet, so the
    search could find it only by its words."""
    unindexed = context.unindexed
    if unindexed.too_many:
        return error_outcome("Too many memories have no vector yet, so the check cannot confirm that nothing is found.")
    own = (expectation.item_type, expectation.item_id)
    if expectation.requirement == Requirement.ONLY:
        subject = context.subjects.get(own[1])
        waiting: Iterable[Key] = (
            key
            for key in unindexed.texts
            if key != own and (other := context.subjects.get(key[1])) and subject and other.is_same(subject)
        )
    else:
        target = context.targets.get(own)
        sentence = comparable_text(target.content if target else expectation.text)
        waiting = (
            key
            for key, text in unindexed.texts.items()
            if key == own or (sentence and sentence in comparable_text(text))
        )
    key = next(iter(waiting), None)
    return error_outcome(f"{memory_name(key)} has no vector yet, so the search could not score it.") if key else None


def comparable_text(text: str) -> str:
    """A text for comparison: on one line, case-folded, without invisible characters."""
    return " ".join(plain_text(text).replace("\\", "").split()).casefold()


def items_of(record: ContextRecord) -> list[tuple[str, Item]]:
    """The items of a prompt that do not repeat the request itself, each with the label of its section."""
    return [
        (section["label"], item)
        for section in record.sections
        for item in section["items"]
        if item["type"] not in OWN_WORDS
    ]


def facts_in(record: ContextRecord) -> list[str]:
    """The ids of the facts in a prompt."""
    return [item["id"] for _, item in items_of(record) if item["type"] == "fact"]


def _memory(expectation: Expectation, record: ContextRecord, context: EvaluationContext) -> Outcome:
    key = (expectation.item_type, expectation.item_id)
    if not expectation.item_id:
        return error_outcome("The expectation names no memory.")
    section = next((label for label, item in items_of(record) if (item["type"], item["id"]) == key), "")
    if expectation.requirement == Requirement.ABSENT:
        return _memory_absent(key, section, record, context)
    if not section:
        return missing_outcome(key, record, context)
    if expectation.requirement == Requirement.PRESENT:
        return Outcome(State.PASSED, "included", f"It is in {section}.")
    return _alone(key, record, context)


def _memory_absent(key: Key, section: str, record: ContextRecord, context: EvaluationContext) -> Outcome:
    if section:
        return Outcome(State.FAILED, "included", f"It is in {section}.", (key,))
    target = context.targets.get(key)
    sentence = comparable_text(target.content) if target else ""
    if sentence:
        for label, item in items_of(record):
            if sentence in comparable_text(item["text"]):
                other = (item["type"], item["id"])
                return Outcome(
                    State.FAILED, "same_words", f"{memory_name(other)} in {label} has the same words.", (other,)
                )
    return Outcome(State.PASSED, "absent", "It is not in the prompt.")


def _alone(key: Key, record: ContextRecord, context: EvaluationContext) -> Outcome:
    subject = context.subjects.get(key[1])
    if subject is None or not subject.is_same(subject):
        return Outcome(
            State.FAILED, "no_subject", "It has no subject, so it cannot be the only fact of its subject.", (key,)
        )
    others: list[Key] = [
        ("fact", other)
        for other in facts_in(record)
        if other != key[1] and (of := context.subjects.get(other)) is not None and of.is_same(subject)
    ]
    if others:
        named = ", ".join(memory_name(other) for other in others[:MAX_NAMED])
        return Outcome(State.FAILED, "not_alone", f"Its subject also has {named}.", tuple(others[:MAX_NAMED]))
    return Outcome(State.PASSED, "alone", "It is the only fact of its subject.")


def _text(expectation: Expectation, record: ContextRecord) -> Outcome:
    wanted = comparable_text(expectation.text)
    holding = [(label, item) for label, item in items_of(record) if wanted in comparable_text(item["text"])]
    about = tuple((item["type"], item["id"]) for _, item in holding[:MAX_NAMED])
    is_wanted = expectation.requirement == Requirement.PRESENT
    state = State.PASSED if bool(holding) is is_wanted else State.FAILED
    if not holding:
        return Outcome(state, "text_missing" if is_wanted else "absent", "Nothing in the prompt contains it.")
    said = f"{memory_name(about[0])} in {holding[0][0]} contains it."
    return Outcome(state, "included" if is_wanted else "text_found", said, about)


def _section(expectation: Expectation, record: ContextRecord) -> Outcome:
    key, part = expectation.section, ""
    if key in IDENTITY_PARTS:
        key, part = key.split(".", 1)
    items = [
        item
        for section in record.sections
        if section["key"] == key
        for item in section["items"]
        if not part or item["id"].split(":", 1)[0] == part
    ]
    if expectation.requirement == Requirement.ABSENT:
        if items:
            return Outcome(State.FAILED, "included", "It is in the prompt.")
        return Outcome(State.PASSED, "absent", "It is not in the prompt.")
    cut = _identity_cut(record, part) if key == "identity" else 0
    if not items:
        why = "the budget has no room for it" if cut else "the section is empty"
        return Outcome(State.FAILED, "section_missing", f"It is not in the prompt: {why}.")
    if cut:
        return Outcome(State.FAILED, "truncated", f"It is cut: {cut:,} tokens of it are not sent.")
    return Outcome(State.PASSED, "included", "It is in the prompt, complete.")


def _identity_cut(record: ContextRecord, part: str) -> int:
    """Tokens of the identity, or of one part of it, that the prompt omits."""
    cuts: Sequence[Mapping[str, Any]] = [cut for cut in record.truncated if cut["key"] == "identity"]
    if not part:
        return sum(int(cut["tokens_left_out"]) for cut in cuts)
    return sum(
        int(item["tokens_left_out"]) for cut in cuts for item in cut["items"] if item["id"].split(":", 1)[0] == part
    )
