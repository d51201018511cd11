"""Twenty changes of twenty kinds, each of which breaks one expectation: what the expectation was broken by is known."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from context.expectations.services import expectation_create, request_of
from context.models import Expectation
from context.services.agent_settings import (
    context_pin,
    context_unpin,
    profile_create,
    profile_get,
    profile_update,
    settings_update,
)
from identity.models import Agent
from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_approve
from memory.models import Fact, MemoryReview
from memory.services.censors import censor_create, censor_retire
from memory.services.decisions import decision_record, decision_update
from memory.services.episodes import episode_close, episode_open, episode_update
from memory.services.erasure import fact_erase
from memory.services.facts import fact_edit, fact_invalidate, fact_learn, fact_restore, fact_supersede
from memory.services.procedures import procedure_create, procedure_update
from memory.services.reviews.resolve import review_resolve
from memory.services.working_memory import working_item_add

Named = tuple[str, str]
"""Kind and object of a change."""


@dataclass(frozen=True, slots=True)
class Plant:
    """An expectation that passes, and the change that breaks it, which `apply` makes and names."""

    expectation: Expectation
    apply: Callable[[], Named]


class Garden:
    """Makes plants for one agent: `by` is a person who may do all."""

    def __init__(self, agent: Agent, by: Principal) -> None:
        self.agent, self.by = agent, by

    def plants(self) -> list[Plant]:
        """All of them, each about something of its own. The memories have no vectors yet."""
        return [getattr(self, name)() for name in sorted(dir(self)) if name.startswith("plant_")]

    def plant_01_invalidated(self) -> Plant:
        fact = self._fact("The harbour crane lifts forty tons.")
        return self._plant("What does the harbour crane lift?", fact, lambda: self._invalidated(fact))

    def plant_02_superseded(self) -> Plant:
        fact = self._fact("The lighthouse keeper is called Brandt.")

        def apply() -> Named:
            new = self._fact("Since spring a woman named Osei keeps watch over the light.")
            fact_supersede(old=fact, new=new, by=self.by)
            return "fact.superseded", str(fact.pk)

        return self._plant("What is the lighthouse keeper called?", fact, apply)

    def plant_03_edited(self) -> Plant:
        fact = self._fact("The bakery opens at five in the morning.")

        def apply() -> Named:
            fact_edit(fact=fact, by=self.by, importance=0.0, reason="Nobody asks.")
            return "fact.edited", str(fact.pk)

        return self._plant("When does the bakery open in the morning?", fact, apply)

    def plant_04_erased(self) -> Plant:
        fact = self._fact("The violin teacher lives above the pharmacy.")

        def apply() -> Named:
            key = str(fact.pk)
            fact_erase(fact=fact, by=self.by, reason="Asked for.")
            return "fact.erased", key

        return self._plant("Where does the violin teacher live?", fact, apply)

    def plant_05_restored(self) -> Plant:
        fact = self._fact("The museum lends its globe to schools.")
        self._invalidated(fact)

        def apply() -> Named:
            fact_restore(fact=fact, by=self.by, reason="It does.")
            return "fact.restored", str(fact.pk)

        return self._plant("What does the museum lend to schools?", fact, apply, "absent")

    def plant_06_learned(self) -> Plant:
        def apply() -> Named:
            return "fact.learned", str(self._fact("The glacier train runs on magnesium wheels.").pk)

        return self._plant("What wheels does the glacier train run on?", "magnesium wheels", apply, "absent")

    def plant_07_second_of_its_subject(self) -> Plant:
        fact = self._fact("The orchard grows quinces.", subject="orchard")

        def apply() -> Named:
            return "fact.learned", str(self._fact("Pears from the orchard ripen late.", subject="orchard").pk)

        return self._plant("What does the orchard grow?", fact, apply, "only_of_subject")

    def plant_08_procedure(self) -> Plant:
        row = procedure_create(
            agent=self.agent, name="Tune the church organ", steps=["Warm the pipes."], by=self.by, importance=0.9
        )

        def apply() -> Named:
            procedure_update(procedure=row, active=False, by=self.by)
            return "procedure.updated", str(row.pk)

        return self._plant("How do I tune the church organ?", row, apply)

    def plant_09_decision(self) -> Plant:
        row = decision_record(
            agent=self.agent, description="We chose slate for the chapel roof.", by=self.by, importance=0.9
        )

        def apply() -> Named:
            decision_update(decision=row, active=False, by=self.by)
            return "decision.updated", str(row.pk)

        return self._plant("What did we decide about the chapel roof?", row, apply)

    def plant_10_episode(self) -> Plant:
        row = episode_open(agent=self.agent, title="The ferry ran aground in fog", by=self.by, importance=0.9)
        row = episode_close(
            episode=row, summary="The ferry ran aground in fog near the sandbank and was towed free.", by=self.by
        )

        def apply() -> Named:
            episode_update(episode=row, active=False, by=self.by)
            return "episode.updated", str(row.pk)

        # The profile of knights excludes summaries.
        question = "What happened when the ferry ran aground in fog near the sandbank?"
        return self._plant(question, row, apply, profile="squire_default")

    def plant_11_censor_made(self) -> Plant:
        def apply() -> Named:
            censor = censor_create(agent=self.agent, pattern="saltpetre", reason="Not here.", by=self.by)
            return "censor.created", str(censor.pk)

        return self._plant("Tell me of the weather vane.", "saltpetre", apply, "absent")

    def plant_12_censor_retired(self) -> Plant:
        censor = censor_create(agent=self.agent, pattern="nitroglycerine", reason="Not here.", by=self.by)

        def apply() -> Named:
            censor_retire(censor=censor, by=self.by)
            return "censor.updated", str(censor.pk)

        return self._plant("Tell me of the sundial.", "nitroglycerine", apply)

    def plant_13_identity(self) -> Plant:
        self._section("Answer in whole sentences, as a ship's log does.")

        def apply() -> Named:
            return "identity.changed", self._section("Answer in lists.")

        return self._plant("Tell me of the anchor.", "as a ship's log does", apply)

    def plant_14_settings(self) -> Plant:
        def apply() -> Named:
            settings_update(agent=self.agent, by=self.by, budgets={"frame": 0})
            return "agent.changed", self.agent.slug

        return self._plant("Tell me of the compass.", "frame", apply, target="section")

    def plant_15_pin_removed(self) -> Plant:
        fact = self._fact("A heron nests behind the water mill.")
        context_pin(agent=self.agent, item_type="fact", item_id=str(fact.pk), by=self.by)

        def apply() -> Named:
            context_unpin(agent=self.agent, item_type="fact", item_id=str(fact.pk), by=self.by)
            return "pin.removed", str(fact.pk)

        return self._plant("Which invoices are overdue?", fact, apply)

    def plant_16_pin_added(self) -> Plant:
        fact = self._fact("An owl sleeps in the bell tower.")

        def apply() -> Named:
            context_pin(agent=self.agent, item_type="fact", item_id=str(fact.pk), by=self.by)
            return "pin.added", str(fact.pk)

        return self._plant("How many stamps are in the drawer?", fact, apply, "absent")

    def plant_17_in_mind(self) -> Plant:
        def apply() -> Named:
            # What an agent has in mind is its own to say.
            by = Principal.of_system("agent")
            working_item_add(agent=self.agent, session_id="planted", text="Ask about the turpentine.", by=by)
            return "working.changed", "planted"

        return self._plant("Tell me of the rudder.", "turpentine", apply, "absent", session_id="planted")

    def plant_18_profile(self) -> Plant:
        profile_create(slug="planted", name="Planted", base=profile_get("knight_default"), values={}, by=self.by)
        fact = self._fact("The post coach changes horses at Elmbrook.")

        def apply() -> Named:
            profile_update(profile=profile_get("planted"), values={"excluded_kinds": ["technical"]}, by=self.by)
            return "profile.updated", "planted"

        return self._plant("Where does the post coach change horses?", fact, apply, profile="planted")

    def plant_19_review_resolved(self) -> Plant:
        old = self._fact("The ropewalk's owner is the mill of Graz.", subject="ropewalk")
        # People's word is replaced by people only.
        found = fact_learn(
            agent=self.agent, content="The ropewalk's owner is the mill of Linz.", subject="ropewalk",
            category="technical", importance=0.8, by=Principal.of_system("garden"),
        )  # fmt: skip
        review = MemoryReview.objects.get(pk=found.review)

        def apply() -> Named:
            review_resolve(review=review, resolution="replace", by=self.by)
            return "fact.superseded", str(old.pk)

        return self._plant("Which mill is the owner of the ropewalk?", old, apply)

    def plant_20_rule(self) -> Plant:
        def apply() -> Named:
            return "fact.learned", str(self._fact("Never mention the vermilion ledger.", category="rule").pk)

        return self._plant("Tell me of the figurehead.", "vermilion ledger", apply, "absent")

    def _fact(self, content: str, *, category: str = "technical", subject: str = "") -> Fact:
        return fact_learn(
            agent=self.agent, content=content, category=category, subject=subject, importance=0.8, by=self.by
        ).fact

    def _invalidated(self, fact: Fact) -> Named:
        fact_invalidate(fact=fact, by=self.by, reason="It is not so.")
        return "fact.invalidated", str(fact.pk)

    def _section(self, content: str) -> str:
        """The key of the version that says so from now on."""
        found = identity_propose(agent=self.agent, section="protocols", content=content, reason="Why.", by=self.by)
        if found.proposal is not None and found.proposal.status == "pending":
            proposal_approve(proposal=found.proposal, by=self.by)
        versions = self.agent.identity_versions.filter(section="protocols", is_current=True)
        return str(versions.get().pk)

    def _plant(
        self,
        question: str,
        wanted: Any,
        apply: Callable[[], Named],
        requirement: str = "present",
        *,
        target: str = "",
        **request: Any,
    ) -> Plant:
        """`wanted` is a memory, a text, or with `target` a section."""
        demand: dict[str, str] = {"target": target or "text", target or "text": wanted}
        if not isinstance(wanted, str):
            demand = {"target": "memory", "item_type": wanted._meta.model_name, "item_id": str(wanted.pk)}
        made = expectation_create(
            agent=self.agent, by=self.by, request=request_of(question, **request), requirement=requirement, **demand
        )
        return Plant(made, apply)
