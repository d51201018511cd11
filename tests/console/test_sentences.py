"""Sentences made of parts read as sentences, with one and several, with and without each part."""

import re
from datetime import timedelta
from uuid import uuid4

import pytest

from identity.models import AuditEvent, Notification
from identity.policy.changes import ACTIONS
from identity.services.audit import audit_record
from identity.services.inbox_items import InboxItem, item_snooze, notifications_read
from identity.services.proposals import proposal_approve
from memory.models import FactChange, MemoryReview
from memory.services.reviews.resolve import review_resolve
from nousweb.console.common.provenance import change_sentence
from nousweb.lib import clock
from tests.factories import make_fact, make_proposal, make_review
from tests.http import browser

pytestmark = pytest.mark.django_db
FAULTS = re.compile(
    r"\S +[,.;:](?= |$)|(?<!\.)\.\.(?!\.)|\b1 (?:were|are|items|facts|have)\b|\bNone\b|,$|\b[a-z]+_[a-z_]+\b|\dT\d"
)
"""A space before a sign, two full stops, a wrong plural, a missing value, a name of the code, a moment in ISO form."""


def shown_text(page: str) -> str:
    """The words of a page: inline tags vanish, others and runs of white space are one space."""
    page = re.sub(r"<(script|style|svg|select|textarea|title)\b.*?</\1>", "", page, flags=re.S)
    page = re.sub(r"</?(a|b|em|strong|span|kbd|code|time|small)\b[^>]*>", "", page)
    return " ".join(re.sub(r"<[^>]+>", "\n", page).split(" ")).strip()


def faults(text: str) -> list[str]:
    return [match[0] for line in text.splitlines() for match in FAULTS.finditer(" ".join(line.split()))]


@pytest.mark.parametrize("message", ["", "As agreed."])
def test_audit_trail_says_every_action_in_a_sentence(ada, reviewer, charlie, message):
    for action in ACTIONS:
        audit_record(by=reviewer, action=action, target=ada, agent=None, message=message)
    client, found = browser(charlie), []
    for page in range(1, 6):
        answer = client.get("/audit/", {"page": page})
        if answer.status_code == 200:
            body = answer.content.decode()
            found += faults(shown_text(body[body.index("<main") : body.index("</main")]))
    assert found == []


@pytest.mark.parametrize("edited", [True, False])
@pytest.mark.parametrize("comment", ["", "Well said."])
def test_decided_proposal_is_told_in_a_sentence(ada, actor, reviewer, bob, edited, comment):
    proposal = make_proposal(ada, actor, "values")
    content = "Be kind, and be brief." if edited else None
    proposal_approve(proposal=proposal, by=reviewer, content=content, comment=comment)
    text = " ".join(shown_text(browser(bob).get(f"/review/{proposal.pk}/").content.decode()).split())
    assert ("Approved by bob, with an edited text" if edited else "Approved by bob") in text


@pytest.mark.parametrize("number", [1, 2])
def test_notifications_are_counted_in_words(ada, reviewer, bob, number):
    for key in (uuid4() for _ in range(number)):
        Notification.objects.create(person=bob, agent=ada, kind="mention", item_type="memoryreview", item_id=key)
    notifications_read(by=reviewer)
    said = AuditEvent.objects.get(action="notification.read").message
    assert said == ("1 notification was marked as read." if number == 1 else "2 notifications were marked as read.")


def test_undo_offer_names_the_decision_once(ada, actor, bob, reviewer):
    review = make_review(ada, actor, "Tim never goes to the gym with Ann.", "Tim sometimes goes to the gym with Ann")
    MemoryReview.objects.update(subject="")
    review_resolve(review=review, resolution="both", by=reviewer)
    page = shown_text(browser(bob).get("/inbox/", {"undone": str(review.pk)}).content.decode())
    at = page.index("Kept both")
    told = " ".join(page[at : at + 200].split())
    assert told.startswith("Kept both: Tim sometimes goes to the gym with Ann")
    assert "Ann.." not in page


def test_home_is_not_well_beside_a_high_risk_item(ada, actor, bob):
    client = browser(bob)
    make_proposal(ada, actor, "values")
    page = client.get("/").content.decode()
    assert "all well" not in page


def test_snoozed_items_are_in_no_count(ada, actor, reviewer, bob, charlie):
    proposal = make_proposal(ada, actor, "values")
    item_snooze(item=InboxItem.of(proposal), until=clock.now() + timedelta(days=1), by=reviewer)
    for person, counted in ((bob, False), (charlie, True)):
        page = " ".join(browser(person).get("/").content.decode().split())
        assert ("1 item waits for you" in page) is counted
        assert bool(re.search(r'class="count">1<span class="visually-hidden"> pending', page)) is counted


def test_inbox_key_opens_the_whole_inbox_on_every_page(ada, actor, bob):
    make_proposal(ada, actor, "values")
    for address in ("/", "/agents/ada/identity/", "/inbox/"):
        keyed = re.findall(r'<a\b[^>]*data-key="g"[^>]*>', browser(bob).get(address).content.decode())
        assert [re.search(r'href="([^"]*)"', link)[1] for link in keyed] == ["/inbox/"], address


def test_restored_fact_is_what_it_was_and_its_history_is_in_sentences(api, ada, actor, bob):
    fact = make_fact(ada, "The gate is red.", actor, confidence=0.7)
    before = {name: getattr(fact, name) for name in ("endorsed", "origin", "confidence", "category", "valid_until")}
    person = api.as_person(bob)
    for body, endorsed in (({}, False), ({"endorse": True}, True)):
        assert person.post(f"/facts/{fact.pk}/invalidate", {}, {"agent": "ada"}).status_code == 200
        assert person.post(f"/facts/{fact.pk}/restore", body, {"agent": "ada"}).status_code == 200
        fact.refresh_from_db()
        assert {name: getattr(fact, name) for name in before} == before | {"endorsed": endorsed}
    page = browser(bob).get(f"/agents/ada/facts/{fact.pk}/").content.decode()
    history = shown_text(page[page.index('id="history"') : page.index("</section>", page.index('id="history"'))])
    assert "not verified by people" in history
    assert not faults(history)


@pytest.mark.parametrize(
    ("before", "sentence"),
    [
        ({"confirmation_count": 1, "last_confirmed_at": None}, "Before, it was confirmed once."),
        ({"valid_from": None}, "Before, it was valid from an unknown time."),
        ({"tags": [], "category": "a"}, "Before, it was without tags and with category “a”."),
    ],
)
def test_change_is_a_sentence(before, sentence):
    assert change_sentence(FactChange(action="edited", before=before)) == sentence
