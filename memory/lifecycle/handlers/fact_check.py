"""Comparing by meaning, later, a fact that was stored while its embedding could not be had."""

from typing import Any

from identity.principal import Principal
from memory.comparison.resolution import evidence_of, resolve
from memory.embedding import thresholds_of
from memory.lifecycle.handler import Defer, Handler
from memory.models import Fact, Job
from memory.services.facts.change import fact_confirm, fact_invalidate, fact_merge, fact_supersede, facts_lock
from memory.services.facts.comparison_candidates import Vector, candidates_compare
from memory.services.facts.learn import learning_lock
from memory.services.facts.precheck import vector_of
from memory.services.facts.rejected_facts import rejected_like, relearned_ask
from memory.services.review_opening import pair_ask
from nousweb.lib.errors import Conflict, Invalid

BY = Principal.of_system("lifecycle")


def _prepare(job: Job) -> Vector | None:
    fact = Fact.objects.filter(pk=job.subject_id, active=True).first()
    if fact is None:
        return None
    vector = vector_of(fact.content)
    if vector is None:
        raise Defer("The embedding model cannot be reached.")
    return vector


def _apply(job: Job, vector: Vector | None) -> dict[str, Any]:
    learning_lock(job.agent, job.persona)
    fact = Fact.objects.select_related("agent").filter(pk=job.subject_id, active=True).first()
    if fact is None or vector is None:
        return {"action": "gone"}
    compared = candidates_compare(
        fact, vector=vector, thresholds=thresholds_of(vector.model), across_subjects=not fact.endorsed
    )
    # Only what was known before this fact: the later ones were compared with it when they came, or will be.
    earlier = set(
        Fact.objects.filter(pk__in=[each.fact_id for each in compared], recorded_at__lte=fact.recorded_at).values_list(
            "pk", flat=True
        )
    )
    if not fact.endorsed and (wrong := rejected_like(fact, vector=vector, thresholds=thresholds_of(vector.model))):
        relearned_ask(fact=fact, rejected=wrong[0], each=wrong[1], by=BY)
        fact_invalidate(fact=fact, by=BY, reason="It says what people found wrong.")
        return {"action": "decided"}
    decision = resolve([each for each in compared if each.fact_id in earlier], {})
    olds = facts_lock([*earlier, fact.pk])
    if decision.confirm is not None and not fact.endorsed:
        known = fact_confirm(fact=olds[decision.confirm.fact_id], by=BY, reason="Learned again in other words.")
        evidence = evidence_of(decision.confirm.comparison)
        fact_merge(duplicate=fact, into=known, by=BY, reason="Known already.", evidence=evidence)
        return {"action": "confirmed"}
    # What a person wrote is merged into nothing by itself.
    ask = [*filter(None, [decision.confirm]), *decision.ask]
    superseded = 0
    for each in decision.supersede:
        try:
            fact_supersede(
                old=olds[each.fact_id],
                new=fact,
                by=BY,
                reason=each.comparison.reasons[0].words,
                score=round(each.comparison.cosine, 4),
                evidence=evidence_of(each.comparison),
            )
            superseded += 1
        except (Invalid, Conflict):
            ask.append(each)
    asked = [pair_ask(old=olds[each.fact_id], new=fact, comparison=each.comparison, by=BY) for each in ask]
    return {"action": decision.action, "superseded": superseded, "asked": sum(each is not None for each in asked)}


FACT_CHECK = Handler(apply=_apply, prepare=_prepare)
