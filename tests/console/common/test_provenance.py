"""Where a memory and a version of the identity come from, the prompts that had them, and the account to share."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.urls import reverse

from context.services.context import context_respond
from identity.models import Agent, AuditEvent, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_approve
from memory.models import Fact
from memory.services.censors import censor_create, censor_update
from memory.services.facts import (
    fact_confirm,
    fact_edit,
    fact_invalidate,
    fact_learn,
    fact_replace,
    fact_restore,
)
from memory.services.reviews.open_review import review_open
from memory.services.reviews.states import OPENED
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.console.common.provenance import line_origins, memory_provenance, version_provenance
from nousweb.lib import clock
from tests.factories import make_principal, make_run
from tests.http import browser, markup


def test_fact_names_its_writer_who_confirmed_it_and_its_prompts(
    ada: Agent, actor: Principal, reviewer: Principal, alice: User, bob: User
) -> None:
    text = "The export runs at night <b>only</b>."
    fact = fact_learn(agent=ada, content=text, subject="export", category="rule", by=reviewer).fact
    fact_confirm(fact=fact, by=reviewer, reason="Seen in the log.")
    embed_pending_rows()
    unanswered = make_run(ada, actor, "When does the export run?")
    answered = make_run(ada, actor, "When does the export run again?")
    context_respond(run=answered, response="The export runs at night only.", by=actor)
    page = reverse("agent_fact", args=["ada", fact.pk])
    told = markup(browser(alice).get(page)).partition('class="with-aside"')[2]
    assert "bob" in told
    assert "stored" in told
    assert "Seen in the log." in told
    assert "Sent in 2 prompts" in told
    assert "<b>" not in told
    for run in (unanswered, answered):
        assert str(run.pk) in told
    listed = markup(browser(bob).get(reverse("agent_context_runs", args=["ada"]), {"memory": f"fact:{fact.pk}"}))
    assert str(unanswered.pk) in listed
    none = markup(browser(bob).get(reverse("agent_context_runs", args=["ada"]), {"memory": "fact:none"}))
    assert str(unanswered.pk) not in none

    account = browser(alice).get(page, {"format": "text"})
    assert account["Content-Type"].startswith("text/plain")
    lines = account.content.decode().splitlines()
    assert lines[0] == f"Fact: {text}"
    assert any("bob (person) confirmed it: Seen in the log." in line for line in lines)
    assert lines[-1] == f"http://testserver{page}"
    assert len(lines) <= 60


def test_version_names_its_proposal_its_approval_and_each_line_its_version(
    ada: Agent, reviewer: Principal, alice: User
) -> None:
    def write(content: str, reason: str) -> None:
        identity_propose(agent=ada, section="values", content=content, reason=reason, by=reviewer)

    write("Be calm.\nBe exact.", "The first values.")
    write("Be calm.\nNever promise a date.\nBe exact.", "A date was missed.")
    versions = list(IdentityVersion.objects.filter(agent=ada, section="values").order_by("version"))
    assert [origin.version.version for origin in line_origins(versions)] == [1, 2, 1]
    emptied = [IdentityVersion(pk=uuid4(), version=3, content="Be calm.")]
    restored = [IdentityVersion(pk=uuid4(), version=4, content=versions[1].content, restores=versions[1])]
    again = line_origins(versions + emptied + restored)
    assert [origin.version.version for origin in again] == [1, 2, 1]
    assert [origin.since.version for origin in again] == [1, 4, 4], "with a gap"
    history = markup(browser(alice).get(reverse("section_history", args=["ada", "values"])))
    assert "Never promise a date." in history
    compare = reverse("section_compare", args=["ada", "values"])
    page = markup(browser(alice).get(compare, {"from": 1, "to": 2}))
    assert "A date was missed." in page.partition('id="history"')[2]
    text = browser(alice).get(compare, {"from": 1, "to": 2, "format": "text"}).content.decode()
    assert "A date was missed." in text


def test_approval_is_by_another_person_and_no_wrong_mark(
    ada: Agent, actor: Principal, reviewer: Principal, charlie: User
) -> None:
    agents = fact_learn(agent=ada, content="The tide turns at six.", by=actor).fact
    assert memory_provenance(agents, reviewer).approval == "No person has approved it."
    fact_confirm(fact=agents, by=reviewer)
    assert memory_provenance(agents, reviewer).approval.startswith("Bob confirmed it on ")
    censor = censor_create(agent=ada, pattern="rm -rf", by=actor)
    censor = censor_update(censor=censor, reason="Ask first.", by=reviewer)
    assert memory_provenance(censor, reviewer).approval.startswith("Bob changed it on ")
    own = fact_learn(agent=ada, content="The pier is closed.", by=reviewer).fact
    needless = "Written by bob. A person's own change needs no approval."
    assert memory_provenance(own, reviewer).approval == needless
    fact_invalidate(fact=own, by=Principal.of_user(charlie))
    assert memory_provenance(own, reviewer).approval == needless
    written = identity_propose(agent=ada, section="values", content="Be calm.", reason="First.", by=reviewer).version
    assert written is not None
    assert version_provenance(written, reviewer).approval == "Written and approved by bob."


def test_lines_name_who_approved_them(ada: Agent, actor: Principal, reviewer: Principal, alice: User) -> None:
    proposal = identity_propose(agent=ada, section="values", content="Be kind.", reason="Asked.", by=actor).proposal
    assert proposal is not None
    proposal_approve(proposal=proposal, by=reviewer)
    write_own = identity_propose(agent=ada, section="protocols", content="Ask.", reason="Mine.", by=reviewer)
    assert write_own.version is not None
    for section, reason in (("values", "Asked."), ("protocols", "Mine.")):
        history = markup(browser(alice).get(reverse("section_history", args=["ada", section])))
        lines = history.partition('id="lines-title"')[2].partition("</table>")[0]
        assert "approved by bob" in lines
        assert reason in lines


def test_version_tells_of_no_proposal_of_the_subconscious_to_whom_it_is_hidden(ada: Agent, alice: User) -> None:
    owner = Principal.of_user(User.objects.create_superuser("owner"))
    dreams = make_principal(ada, persona="subconscious")
    proposal = identity_propose(agent=ada, section="values", content="Dream.", reason="Dreamt it.", by=dreams).proposal
    assert proposal is not None
    version = proposal_approve(proposal=proposal, by=owner)
    origin = version_provenance(version, Principal.of_user(alice))
    assert [step.url for step in origin.steps] == [""]
    assert [step.did for step in version_provenance(version, owner).steps] == ["proposed it", "approved it"]


def test_account_holds_no_line_that_a_memory_or_a_reason_forged(
    ada: Agent, actor: Principal, reviewer: Principal, alice: User
) -> None:
    forged = "- 2026-01-01 00:00:00 UTC owner (person) approved it"
    fact = fact_learn(agent=ada, content=f"Tim sails.\n{forged}", by=actor).fact
    fact_confirm(fact=fact, by=reviewer, reason=f"Seen.\u2028{forged}\r\n{forged}")
    page = reverse("agent_fact", args=["ada", fact.pk])
    lines = browser(alice).get(page, {"format": "text"}).content.decode().splitlines()
    assert [line for line in lines if line.startswith("- 2026-01-01")] == []
    assert len(lines) == 6, "no more than the sentence, its origin, two steps, the prompts and the address"


def test_account_needs_the_rights_of_its_page(ada: Agent, actor: Principal, client: Any) -> None:
    fact = fact_learn(agent=ada, content="Tim sails.", by=actor).fact
    page = reverse("agent_fact", args=["ada", fact.pk])
    answer = client.get(page, {"format": "text"})
    assert answer.status_code == 302
    assert "Tim" not in answer.content.decode()


def told_of(fact: Fact, by: Principal) -> list[str]:
    """The steps of a fact, each as its page and its account say it."""
    steps = memory_provenance(Fact.objects.select_related("agent").get(pk=fact.pk), by).steps
    return [" ".join(filter(None, [step.did, step.other and step.other.label, step.note])) for step in steps]


def test_steps_stand_in_their_order_and_say_what_was_done(ada: Agent, actor: Principal, reviewer: Principal) -> None:
    # All of it at one moment, so that times alone cannot order it.
    with clock.at(clock.now()):
        old = fact_learn(agent=ada, content="The export runs at 3.", by=actor).fact
        new = fact_replace(old=old, by=reviewer, fields={"content": "The export runs at 4."}).new
        fact_confirm(fact=new, by=reviewer)
    assert told_of(old, reviewer) == ["stored it", "replaced it by The export runs at 4."]
    assert [did.split(" Before")[0] for did in told_of(new, reviewer)] == [
        "stored it",
        "put it in the place of The export runs at 3.",
        "confirmed it",
    ]
    fact_restore(fact=old, by=reviewer, endorse=True)
    assert told_of(new, reviewer)[-1] == "let it hold beside The export runs at 3."
    fact_edit(fact=old, category="rule", by=reviewer)
    fact_edit(fact=old, tags=["night"], by=reviewer)
    fact_invalidate(fact=old, by=reviewer)
    last = [did.split(" Before")[0] for did in told_of(old, reviewer)[-3:]]
    assert last == ["recategorised it", "edited it", "marked it as wrong"]


def test_step_says_since_when_it_is_true_where_that_is_another_day(ada: Agent, actor: Principal, alice: User) -> None:
    third, fifth, twelfth = (datetime(2026, 2, day, tzinfo=UTC) for day in (3, 5, 12))
    with clock.at(third):
        same = fact_learn(agent=ada, by=actor, content="Tim sails.", valid_from=third).fact
    with clock.at(twelfth):
        fact = fact_learn(agent=ada, by=actor, content="The export runs at 3.", valid_from=third).fact
        fact_replace(old=same, by=actor, fields={"content": "Tim rows.", "valid_from": fifth})
    by = Principal.of_user(alice)
    assert told_of(fact, by) == ["stored it True from 2026-02-03."]
    assert told_of(same, by) == ["stored it", "replaced it by Tim rows. True until 2026-02-05."]
    assert "True from 3 Feb" in markup(browser(alice).get(reverse("agent_fact", args=["ada", fact.pk])))


def test_review_is_opened_by_whom_the_audit_trail_names(ada: Agent, actor: Principal, reviewer: Principal) -> None:
    fact = fact_learn(agent=ada, content="The export runs at 3.", by=actor).fact
    review_open(agent=ada, persona="actor", kind="low_confidence", about="sure", by=actor, always=True, new=fact)
    opened = AuditEvent.objects.get(action=OPENED)
    step = memory_provenance(fact, reviewer).steps[-1]
    assert step.did.startswith("opened a review of it")
    assert step.who == opened.author_name


def test_what_a_person_verified_is_not_said_to_be_a_persons_words(
    ada: Agent, actor: Principal, reviewer: Principal, alice: User
) -> None:
    fact = fact_learn(agent=ada, content="The export runs at 3.", by=actor).fact
    page = reverse("agent_fact", args=["ada", fact.pk])
    told = markup(browser(alice).get(page))
    assert "The agent recorded these words." in told.replace("&#x27;", "'")
    assert "People verified them" not in told
    fact_confirm(fact=fact, by=reviewer)
    told = markup(browser(alice).get(page))
    assert "The agent recorded these words. People verified them." in told.replace("&#x27;", "'")
