"""Several proposals on one section: what merges is merged, and nothing is let pass from the list that was not shown."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from django.urls import reverse

from identity.models import Agent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_approve
from tests.factories import make_proposal
from tests.http import browser

pytestmark = pytest.mark.django_db
BASE = "Ask first.\nLook twice.\nSay what you saw."


@pytest.fixture
def written(ada: Agent, bob: User) -> str:
    for section in ("protocols", "values"):
        identity_propose(agent=ada, section=section, content=BASE, by=Principal.of_user(bob))
    return BASE


def appended(ada: Agent, actor: Principal, section: str, number: int) -> list[ChangeProposal]:
    return [make_proposal(ada, actor, section, f"{BASE}\nLesson {place}.") for place in range(number)]


def bulk(user: User, proposals: Sequence[ChangeProposal], *, shown: int | None = 1, **data: Any) -> str:
    given = {"action": "approve", "selected": [str(one.pk) for one in proposals], **data}
    if shown is not None:
        given["shown"] = [f"{one.pk}:{shown}" for one in proposals]
    return browser(user).post(reverse("inbox_bulk"), given, follow=True).content.decode()


def text_of(section: str) -> str:
    return IdentityVersion.objects.current().get(section=section).content


def statuses(proposals: Sequence[ChangeProposal]) -> list[str]:
    return [ChangeProposal.objects.get(pk=one.pk).status for one in proposals]


def test_bulk_of_fifteen_appended_lines_keeps_all_and_is_undone_at_once(
    ada: Agent, actor: Principal, bob: User, written: str
) -> None:
    proposals = appended(ada, actor, "protocols", 15)
    page = bulk(bob, proposals)
    assert text_of("protocols") == "\n".join([BASE, *(f"Lesson {place}." for place in range(15))])
    assert "notice-error" not in page
    assert "15 proposals" in page
    batch = ChangeProposal.objects.get(pk=proposals[0].pk).batch
    browser(bob).post(reverse("inbox_undo", args=[batch]))
    assert set(statuses(proposals)) == {"pending"}
    assert text_of("protocols") == BASE
    assert "notice-error" not in bulk(
        bob, proposals, shown=IdentityVersion.objects.current().get(section="protocols").version
    )
    assert text_of("protocols").count("Lesson") == 15, "they can be approved again"


def test_sibling_is_shown_as_it_is_once_the_other_is_approved(
    ada: Agent, actor: Principal, bob: User, written: str
) -> None:
    first, second = appended(ada, actor, "protocols", 2)
    other = make_proposal(ada, actor, "values", f"{BASE}\nAnother.")
    url = reverse("proposal", args=[second.pk])
    client = browser(bob)
    assert client.get(url, {"approved": other.pk}).context["item"].read_version == 1, "of another section"
    item = client.get(url, {"approved": first.pk}).context["item"]
    assert (item.merged, item.read_version) == (f"{BASE}\nLesson 0.\nLesson 1.", 2)
    early = client.post(url, {"action": "approve_merged", "base_version": 2})
    assert early.status_code == 409, "the version that was shown is not there yet"
    client.post(reverse("proposal", args=[first.pk]), {"action": "approve", "base_version": 1})
    client.post(url, {"action": "approve_merged", "base_version": 2})
    assert text_of("protocols") == item.merged


def test_bulk_with_conflicts_merges_the_rest_and_says_so_once(
    ada: Agent, actor: Principal, bob: User, written: str
) -> None:
    good = appended(ada, actor, "protocols", 2)
    clash = [make_proposal(ada, actor, "protocols", BASE.replace("Look", word)) for word in ("Peer", "Stare", "Gaze")]
    page = bulk(bob, [*good, *clash])
    assert text_of("protocols") == BASE.replace("Look", "Peer") + "\nLesson 0.\nLesson 1."
    assert page.count("notice-error") == 1
    assert "2 were not decided" in page
    assert statuses(clash) == ["approved", "pending", "pending"]


def test_list_approves_no_text_that_was_not_shown(ada: Agent, actor: Principal, bob: User, written: str) -> None:
    (proposal,) = appended(ada, actor, "protocols", 1)
    assert "Expand the proposal and read it" in bulk(bob, [proposal], shown=None)
    one = {"approve": str(proposal.pk)}
    assert "Expand the proposal and read it" in browser(bob).post("/inbox/change/", one, follow=True).content.decode()
    identity_propose(agent=ada, section="protocols", content=f"Zero.\n{BASE}", by=Principal.of_user(bob))
    assert "1 was not decided" in bulk(bob, [proposal], shown=1), "it was read beside another text than the current one"
    assert text_of("protocols") == f"Zero.\n{BASE}"
    bulk(bob, [proposal], shown=2)
    assert text_of("protocols") == f"Zero.\n{BASE}\nLesson 0."


def test_high_risk_has_to_be_opened(ada: Agent, actor: Principal, bob: User, written: str) -> None:
    (proposal,) = appended(ada, actor, "values", 1)
    page = browser(bob).get("/review/").content.decode()
    assert f'value="{proposal.pk}:1"' not in page
    assert f'name="approve"\n          value="{proposal.pk}"' not in page
    assert "Open a proposal of high risk" in bulk(bob, [proposal])
    assert statuses([proposal]) == ["pending"]
    assert bulk(bob, [proposal], shown=None, action="reject").count("notice-error") == 0
    assert statuses([proposal]) == ["rejected"]


def test_size_raises_the_risk_and_keeps_an_agent_from_applying_it(ada: Agent, actor: Principal, bob: User) -> None:
    small = identity_propose(agent=ada, section="preferences", content="Tea.", by=actor)
    assert (small.action, small.proposal.risk) == ("applied", "low")
    for words, risk in ((60, "medium"), (250, "high")):
        text = "\n".join(f"Line {place} of the manual." for place in range(words))
        large = identity_propose(agent=ada, section="protocols", content=text, by=actor)
        assert (large.action, large.proposal.risk) == ("proposed", risk)
        assert "characters needs a person" in large.proposal.guardrail
    long = "\n".join(f"Line {place} of the manual." for place in range(250))
    identity_propose(agent=ada, section="environment", content=long, by=Principal.of_user(bob))
    one_word = identity_propose(agent=ada, section="environment", content=long + "!", by=actor)
    assert one_word.proposal.risk == "medium", "a small change of a long text stays what it is"


def test_clean_merge_is_shown_and_approved_by_one_button(
    ada: Agent, actor: Principal, bob: User, charlie: User, written: str
) -> None:
    first, second = appended(ada, actor, "values", 2)
    proposal_approve(proposal=first, by=Principal.of_user(charlie))
    page = browser(bob).get(reverse("proposal", args=[second.pk])).content.decode()
    assert "Approve merged <kbd>a</kbd>" in page
    given = {"action": "approve_merged", "base_version": "2"}
    browser(bob).post(reverse("proposal", args=[second.pk]), given)
    assert text_of("values") == f"{BASE}\nLesson 0.\nLesson 1."
    decided = browser(bob).get(reverse("inbox"), {"status": "decided", "undo": "1"})
    titles = [str(row.title) for row in decided.context["rows"]][:2]
    assert titles == ["Adds “Lesson 1.”", "Adds “Lesson 0.”"], "each brought one line, however many stood there by then"
    assert "Lesson 1" in decided.context["undo"]["what"]
    current = IdentityVersion.objects.current().get(section="values")
    assert current.author_kind == "token", "the words are still their author's"


def test_merge_read_beside_an_older_text_is_refused(
    ada: Agent, actor: Principal, bob: User, charlie: User, written: str
) -> None:
    first, second, third = appended(ada, actor, "values", 3)
    proposal_approve(proposal=first, by=Principal.of_user(charlie))
    proposal_approve(proposal=third, by=Principal.of_user(charlie), merge=True)
    given = {"action": "approve_merged", "base_version": "2"}
    answer = browser(bob).post(reverse("proposal", args=[second.pk]), given)
    assert answer.status_code == 409
    assert text_of("values") == f"{BASE}\nLesson 0.\nLesson 2."


@override_settings(FOUR_EYES=True)
def test_merge_is_no_edit_of_the_reviewer(ada: Agent, actor: Principal, bob: User, charlie: User) -> None:
    base = make_proposal(ada, actor, "protocols", BASE)
    proposal_approve(proposal=base, by=Principal.of_user(bob))
    first, second = appended(ada, actor, "protocols", 2)
    for one in (first, second):
        proposal_approve(proposal=one, by=Principal.of_user(bob), merge=True)
    assert text_of("protocols") == f"{BASE}\nLesson 0.\nLesson 1."
