"""Create, change and retire censors, and check a text against them."""

from collections.abc import Mapping, Sequence

from django.db import transaction
from django.db.models import F

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.censoring.censor_matching import (
    CensorOutcome,
    CensorRule,
    Similarities,
    default_threshold,
    match_censors,
    meaning_check,
    pattern_check,
    pattern_cost_check,
    semantic_similarities,
)
from memory.jobs import job_queue
from memory.models import (
    NO_KEYS,
    Censor,
)
from memory.persona import change_check, memory_of
from memory.policy import (
    CENSOR_SEVERITIES_BY_AUTHOR,
    ESCALATES_TO,
    MAX_ACTIVE_CENSORS,
    MAX_ACTIVE_TOKEN_CENSORS,
    MAX_DETAIL_CHARACTERS,
    MAX_ESCALATION_THRESHOLD,
    MAX_REMARK_CHARACTERS,
)
from memory.services.memory_write import fields_change, memory_add, memory_lock
from memory.services.reviews.states import reviews_settle
from memory.services.trust import origin_of
from nousweb.lib import (
    Conflict,
    Invalid,
    NotAllowed,
    choice_check,
    clock,
    length_check,
    storable_check,
    text_check,
    unit_check,
    whole_check,
    word_check,
)
from nousweb.lib.transactions import transaction_lock

Severity = Censor.Severity


@agent_transaction()
def censor_create(
    *,
    agent: Agent,
    pattern: str,
    by: Principal,
    match: str = Censor.Match.REGEX,
    severity: str = Severity.WARN,
    reason: str = "",
    domain: str = "",
    similarity_threshold: float | None = None,
    escalation_threshold: int = 5,
) -> Censor:
    """Make a censor for the persona that `by` acts as.

    `pattern` is a regular expression (RE2, case ignored), or for a semantic match a text that describes what is
    meant; `similarity_threshold` is the least cosine for it, by default that of the embedder in use. Raises
    Invalid, naming the field, for a pattern that cannot be read, never matches as meant or matches everything, or,
    from a token, costs too much; NotAllowed for a severity beyond what this author's kind may give; Conflict when
    there are too many.
    """
    by.require("memory.add_censor", agent)
    choice_check("match", match, Censor.Match.values)
    _severity_check(severity, by)
    semantic = match == Censor.Match.SEMANTIC
    if similarity_threshold is not None and not semantic:
        raise Invalid("similarity_threshold applies only to a semantic match.", field="similarity_threshold")
    threshold = default_threshold() if similarity_threshold is None else similarity_threshold
    censor = Censor(
        agent=agent,
        persona=by.persona,
        pattern=meaning_check(pattern) if semantic else _pattern_check(pattern, by),
        match=match,
        similarity_threshold=_threshold_check(threshold),
        severity=severity,
        reason=text_check("reason", reason, MAX_REMARK_CHARACTERS),
        domain=word_check("domain", domain) if domain else "",
        escalation_threshold=_escalation_check(escalation_threshold),
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
        origin=origin_of(by),
    )
    _room_check(censor)
    told = ("pattern", "match", "severity", "domain", "reason", "escalation_threshold")
    return memory_add(censor, by, "censor.create", {name: getattr(censor, name) for name in told})


@agent_transaction(of="censor")
def censor_update(
    *,
    censor: Censor,
    by: Principal,
    pattern: str | None = None,
    severity: str | None = None,
    reason: str | None = None,
    domain: str | None = None,
    similarity_threshold: float | None = None,
    escalation_threshold: int | None = None,
    active: bool | None = None,
    message: str = "",
) -> Censor:
    """Change a censor, retire it or bring it back; None leaves a field alone. Only people, and the system's rules.

    Raises Invalid, naming the field, or NotAllowed.
    """
    message = text_check("message", message, MAX_REMARK_CHARACTERS)
    censor = memory_lock(censor, by, "memory.change_censor", endorsed_too=True)
    if severity is not None:
        _severity_check(severity, by)
    if active and not censor.active:
        _room_check(censor, binding=censor.binding or by.is_person)
    if pattern is not None:
        pattern = meaning_check(pattern) if censor.match == Censor.Match.SEMANTIC else pattern_check(pattern)
    before, after = fields_change(
        censor,
        {
            "pattern": pattern,
            "severity": severity,
            "reason": None if reason is None else text_check("reason", reason, MAX_REMARK_CHARACTERS),
            "domain": word_check("domain", domain) if domain else domain,
            "similarity_threshold": None if similarity_threshold is None else _threshold_check(similarity_threshold),
            "escalation_threshold": None if escalation_threshold is None else _escalation_check(escalation_threshold),
            "active": active,
        },
    )
    if after:
        if by.is_person and active is not False and not censor.binding:
            censor.put(endorsed=True)
        action = {False: "censor.retire", True: "censor.revive"}.get(after.get("active"), "censor.update")  # type: ignore[arg-type]
        audit_record(
            by=by, action=action, target=censor, agent=censor.agent, before=before, after=after, message=message
        )
        reviews_settle(agent_id=censor.agent_id, censors=[censor.pk])
    return censor


def censor_retire(*, censor: Censor, by: Principal, message: str = "") -> Censor:
    """Take a censor out of use; it stays readable and can come back. Raises Conflict when it is retired already."""
    with transaction.atomic():
        if not memory_lock(censor, by, "memory.change_censor", endorsed_too=True).active:
            raise Conflict("This censor is already retired.")
        return censor_update(censor=censor, by=by, active=False, message=message)


@agent_transaction(of="censor")
def censor_false_positive(*, censor: Censor, by: Principal, message: str = "") -> Censor:
    """Count that a person found a match of this censor to be mistaken."""
    change_check(censor, by, "memory.change_censor")
    message = text_check("message", message, MAX_REMARK_CHARACTERS)
    Censor.objects.filter(agent=censor.agent_id, pk=censor.pk).update(
        false_positive_count=F("false_positive_count") + 1, updated_at=clock.now()
    )
    censor.refresh_from_db()
    audit_record(
        by=by,
        action="censor.false_positive",
        target=censor,
        agent=censor.agent,
        after={"false_positive_count": censor.false_positive_count},
        message=message,
    )
    return censor


def censor_check(
    *,
    text: str,
    agent: Agent,
    by: Principal,
    count: bool,
    domain: str = "",
    similarities: Similarities = semantic_similarities,
) -> tuple[CensorOutcome, dict[str, Censor]]:
    """Match `text` against the active censors that `by` may read; returns the outcome and the censors by id.

    With `count`, each censor of the caller's own persona that matched counts one activation, and one audit record
    tells of the check (not of the text); without, nothing changes. `domain` leaves out the censors of other domains. A
    censor that could not be checked is listed, and blocks the text where it is binding. Raises Invalid for a text that
    is too long or cannot be stored. Not to be called in a transaction: it may wait for an embedder.
    """
    by.require("memory.trigger_censor" if count else "memory.view_censor", agent)
    length_check("text", storable_check("text", text), MAX_DETAIL_CHARACTERS)
    found = memory_of(agent, by).censors.active().strictest_first()
    if domain:
        found = found.filter(domain__in=["", word_check("domain", domain)])
    censors = {str(censor.pk): censor for censor in found}
    outcome = match_censors(text, [censor_rule(censor) for censor in censors.values()], similarities=similarities)
    if count and (outcome.matches or outcome.timed_out):
        with transaction.atomic():
            censors_count(
                agent=agent,
                persona=by.persona,
                matched=[match.rule.id for match in outcome.matches],
                timed_out=[missed.rule.id for missed in outcome.timed_out],
                verdict=outcome.verdict,
                by=by,
            )
    return outcome, censors


def censors_count(
    *,
    agent: Agent,
    persona: str,
    matched: Sequence[str],
    timed_out: Sequence[str],
    verdict: str,
    by: Principal,
    about: Mapping[str, str] | None = None,
) -> None:
    """Count one activation of each of these censors that is `persona`'s own, and let those rise that are due.

    Censors hold for all projects, so a token that may not write global memory, or everybody's, counts none.
    One audit record names the censors by id, and with `about` what was checked, never its text. Called inside the
    transaction of what was checked, so that the same text is not counted again.
    """
    # The subconscious reads the actor's censors too, but its checks neither count there nor let one rise.
    counted = matched if by.writes(NO_KEYS) else []
    own = Censor.objects.filter(agent=agent, pk__in=counted, persona=persona)
    # Locked in one order first, so that two checks at once cannot wait for each other.
    list(own.select_for_update(no_key=True).order_by("pk").values_list("pk"))
    own.update(activation_count=F("activation_count") + 1, last_activated_at=clock.now())
    for censor in own.filter(severity__in=ESCALATES_TO, activation_count__gte=F("escalation_threshold")):
        key = f"censor_escalate:{censor.pk}:{censor.activation_count}"
        job_queue("censor_escalate", agent=agent, persona=censor.persona, subject=censor, key=key)
    audit_record(
        by=by,
        action="censor.trigger",
        target=agent,
        agent=agent,
        after={"verdict": verdict, "censors": list(matched), "timed_out": list(timed_out), **(about or {})},
        persona=persona if persona == Persona.SUBCONSCIOUS else "",
    )
    feed_changes_record(
        feed_change_draft("censor.triggered", agent, persona, "censor", censor_id, {"verdict": verdict})
        for censor_id in matched
    )


def censor_rule(censor: Censor) -> CensorRule:
    """A censor as matching needs it."""
    semantic = censor.match == Censor.Match.SEMANTIC
    return CensorRule(
        str(censor.pk), censor.pattern, censor.severity, semantic, censor.similarity_threshold, censor.binding
    )


def _pattern_check(pattern: str, by: Principal) -> str:
    pattern = pattern_check(pattern)
    if by.kind == "token":
        pattern_cost_check(pattern)
    return pattern


def _room_check(censor: Censor, *, binding: bool | None = None) -> None:
    """Raise Conflict where no further censor of its kind may be in force; those who ask at once wait for each other."""
    binding = censor.binding if binding is None else binding
    transaction_lock(f"censors:{censor.agent_id}:{censor.persona}:{binding}")
    active = Censor.objects.active().filter(agent=censor.agent, persona=censor.persona)
    alike = active.binding() if binding else active.filter(author_kind="token", endorsed=False)
    limit = MAX_ACTIVE_CENSORS if binding else MAX_ACTIVE_TOKEN_CENSORS
    if alike.count() >= limit:
        whose = "" if binding else " that it made itself"
        raise Conflict(f"This agent has {limit:,} active censors{whose}; retire some first.")


def _severity_check(severity: str, by: Principal) -> None:
    choice_check("severity", severity, Severity.values)
    if severity not in CENSOR_SEVERITIES_BY_AUTHOR[by.kind]:
        raise NotAllowed(f"Only a person may make a censor {severity}.", field="severity")


def _escalation_check(value: int) -> int:
    return whole_check("escalation_threshold", value, 1, MAX_ESCALATION_THRESHOLD)


def _threshold_check(value: float) -> float:
    if unit_check("similarity_threshold", value) == 0:
        raise Invalid("A similarity of 0 matches every text.", field="similarity_threshold")
    return value
