"""The inbox: its order, groups and parts; putting off, handing on, talking; who is told, and how."""

import re
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.http import QueryDict
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone

from context.models import ContextRun
from context.tasks import notify_people
from identity.models import Agent, AuditEvent, ChangeProposal, ItemComment, ItemSnooze, Notification, SavedFilter
from identity.principal import Principal
from identity.services.people import person_agents_set
from identity.services.proposals import proposal_approve, proposal_reject
from memory.comparison.compare_facts import Comparison, Kind, Reason
from memory.models import Fact, MemoryReview, Subject
from memory.services.erasure.memories import fact_erase
from memory.services.reviews.open_review import PairReviewDraft, pair_reviews_open, review_open
from memory.services.reviews.resolve import review_resolve
from nousweb.console.inbox import views
from tests.factories import make_copies, make_fact, make_person, make_principal, make_proposal, make_review, make_run
from tests.http import browser, markup

pytestmark = pytest.mark.django_db

NEVER, SOMETIMES = "The lift never stops at night.", "The lift sometimes stops at night."


def inbox(user: User, **query: str) -> Any:
    return browser(user).get(reverse("inbox"), query)


def keys(page: Any) -> list[Any]:
    return [row.entry.id for row in page.context["rows"]]


def change(user: User, row: Any, what: str, **data: str) -> Any:
    url = reverse("item_change", args=[row._meta.model_name, row.pk, what])
    return browser(user).post(url, data, follow=True)


@pytest.fixture
def proposal(ada: Agent, actor: Principal) -> ChangeProposal:
    return make_proposal(ada, actor)


def test_low_risk_is_explained_only_of_an_identity(ada: Agent, actor: Principal, bob: User) -> None:
    make_proposal(ada, actor, "protocols", "Ask first.")
    make_review(ada, actor, NEVER, SOMETIMES)
    MemoryReview.objects.update(kind="duplicate")
    assert re.findall(r'badge-plain"( title="An agent)?[^>]*>Low risk', markup(inbox(bob))) == [' title="An agent', ""]
    section = browser(bob).get(reverse("section_history", args=["ada", "protocols"]))
    assert 'title="An agent may change this itself' in markup(section)


def test_inbox_orders_all_kinds_by_risk_and_age(
    ada: Agent, bruno: Agent, actor: Principal, reviewer: Principal, bob: User
) -> None:
    low = make_proposal(ada, actor, "protocols", "Ask first.")
    high = make_proposal(ada, actor, "values")
    contested = make_review(ada, actor, NEVER, SOMETIMES)
    busy = make_proposal(bruno, make_principal(bruno), "protocols", "Look twice.")
    assert keys(inbox(bob)) == [high.pk, contested.pk, low.pk, busy.pk]
    # The number of prompts is shown, and changes no order.
    run = make_run(bruno, make_principal(bruno, name="asks"))
    make_copies(run, 11)
    page = inbox(bob)
    assert keys(page) == [high.pk, contested.pk, low.pk, busy.pk]
    assert page.context["rows"][3].entry.prompts == ContextRun.objects.filter(agent=bruno).count() == 12
    assert keys(inbox(bob, agent="ada", risk="low")) == [low.pk]
    assert keys(inbox(bob, sort="newest")) == [busy.pk, contested.pk, high.pk, low.pk]
    assert keys(inbox(bob, view="reviews")) == [contested.pk]


def test_inbox_pages_go_on_after_the_last_row(ada: Agent, actor: Principal, bob: User) -> None:
    make_copies(make_proposal(ada, actor), 119, content="'Wish ' || n")
    for sort in ("risk", "oldest", "newest"):
        seen, cursor = [], ""
        while True:
            page = inbox(bob, sort=sort, **({"after": cursor} if cursor else {}))
            seen += keys(page)
            if not (cursor := page.context["next"]):
                break
        assert len(seen) == len(set(seen)) == 120
    assert inbox(bob, after="odd").status_code == 422


def test_near_identical_items_are_one_row_and_decided_together(
    ada: Agent, bruno: Agent, actor: Principal, bob: User
) -> None:
    other = make_principal(bruno)
    pair = [
        make_proposal(ada, actor, "protocols", "Ask first."),
        make_proposal(bruno, other, "protocols", "Ask first."),
    ]
    single = make_proposal(ada, actor, "protocols", "Ask last.")
    questions = [make_review(one, by, NEVER, SOMETIMES) for one, by in ((ada, actor), (bruno, other))]
    rows = inbox(bob).context["rows"]
    assert sorted(row.entry.members for row in rows) == [1, 2, 2]
    group = next(row for row in rows if row.entry.id in {one.pk for one in pair} and row.entry.members == 2)
    members = browser(bob).get(group.group_url)
    assert set(keys(members)) == {one.pk for one in pair}
    url = f"{reverse('inbox_bulk')}?{group.group_url.partition('?')[2]}"
    given = {"action": "approve", "selected": [one.pk for one in pair], "shown": [f"{one.pk}:0" for one in pair]}
    answer = browser(bob).post(url, given)
    assert answer.url.startswith(f"{reverse('inbox')}?batch="), "the group is decided, and the inbox goes on"
    assert {one.status for one in ChangeProposal.objects.filter(pk__in=[one.pk for one in pair])} == {"approved"}
    page = browser(bob).get(answer.url)
    assert "2 proposals" in markup(page)
    assert set(keys(page)) <= {single.pk, *(question.pk for question in questions)}


@pytest.mark.parametrize(
    ("content", "title", "marked"),
    [
        ("### Calls\n- Ask first.\n- Ask twice.", "Edits “Ask first.” and 2 more lines", ["Ask first."]),
        (
            "Ask.",
            "Removes “Stay calm at any hour of the day and of the night.”",
            ["Stay calm at any hour of the day and of the night."],
        ),
        (
            "Stay calm at any hour of the day and of all nights.\nAsk.",
            "Edits “Stay calm at any hour of the day and of all nights.”",
            ["the night", "all nights"],
        ),
        (
            "Be kind. 2. Stay calm at any hour of the day, and of the night.\nAsk.\n2. Stay awake.",
            "Edits “Be kind. 2. Stay calm at any hour of the day, and of the night.” and 1 more line",
            ["Be kind. 2.", ","],
        ),
        (
            "Stay calm at any hour of the day and of the night.\nAsk.\n7. Stay awake.",
            "Adds “Stay awake.”",
            ["Stay awake."],
        ),
        (
            "Stay kind at any hour of the day and of the week.\nAsk.",
            "Edits “Stay kind at any … and of the week.”",
            ["calm", "kind", "night", "week"],
        ),
    ],
)
def test_row_is_titled_by_what_changes(
    ada: Agent, actor: Principal, bob: User, content: str, title: str, marked: list[str]
) -> None:
    first = make_proposal(ada, actor, "boundaries", "Stay calm at any hour of the day and of the night.\nAsk.")
    proposal_approve(proposal=first, by=Principal.of_user(bob))
    make_proposal(ada, actor, "boundaries", content)
    [row] = inbox(bob).context["rows"]
    assert (str(row.title), [span.text for span in row.title.spans if span.kind != "equal"]) == (title, marked)


def test_long_text_of_a_notice_ends_with_a_word_and_tells_that_it_goes_on(
    ada: Agent, actor: Principal, bob: User
) -> None:
    words = "You may read the plans of the services and pipelines, " * 4
    for content, told in ((words, "“You may read the"), (words[:54], "pipelines”")):
        proposal_reject(proposal=make_proposal(ada, actor, "boundaries", content.strip()), by=Principal.of_user(bob))
        what = inbox(bob, undo="1").context["undo"]["what"]
        assert told in what
        said = what.partition("“")[2].rstrip("”").rstrip("…")
        assert content.startswith(said)
        assert not content.removeprefix(said)[:1].isalpha()
        assert what.endswith("…”") is (content == words)


def test_head_of_the_inbox_names_no_numbers_of_nothing(ada: Agent, actor: Principal, bob: User) -> None:
    page = markup(inbox(bob, view="applied"))
    assert "0 applied" not in page
    assert 'class="visually-hidden" data-key="u"' in page
    proposal_reject(proposal=make_proposal(ada, actor, "values"), by=Principal.of_user(bob))
    assert "1 decided today" in markup(inbox(bob))


def test_decision_about_two_facts_tells_what_holds_now_and_is_undone_after_it_was_shown(
    ada: Agent, actor: Principal, bob: User
) -> None:
    review = make_review(ada, actor, NEVER, SOMETIMES)
    assert "you have decided nothing within a day" in markup(inbox(bob, undo="1"))
    review_resolve(review=review, resolution="new_wrong", by=Principal.of_user(bob))
    decided = markup(inbox(bob, status="decided")).replace("> <", "><")
    assert "<del>sometimes</del><ins>never</ins>" in decided, "what lost is struck through"
    assert "Kept never" in decided
    assert f"Wrong: {SOMETIMES}" in decided
    rejected = make_proposal(ada, actor, "values")
    proposal_reject(proposal=rejected, by=Principal.of_user(bob))
    latest = markup(inbox(bob, undo="1"))
    first, _, earlier = latest.partition("undo-rest")
    assert f'action="{reverse("item_change", args=["changeproposal", rejected.pk, "undo"])}?listed=1"' in first
    assert "Kept never:</strong> The lift never stops at night" in earlier
    assert f"<del>{rejected.content}</del>" in markup(inbox(bob, status="decided"))


def test_undo_in_the_list_stays_in_its_part_and_page(
    ada: Agent, actor: Principal, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "ROWS", 1)
    for section in ("values", "boundaries"):
        proposal_reject(
            proposal=make_proposal(ada, actor, section, f"Never lie about {section}."), by=Principal.of_user(bob)
        )
    filtered = {"status": "decided", "agent": "ada", "q": "lie"}
    first = inbox(bob, **filtered)
    cursor = unquote(first.context["next"])
    page = inbox(bob, **filtered, after=cursor)
    undo = re.search(r'action="([^"]*/undo/[^"]*)"', markup(page).partition("item-row")[2])
    assert undo is not None
    back = QueryDict(browser(bob).post(unescape(undo[1])).url.partition("?")[2]).dict()
    assert back == filtered | {"after": cursor, "undone": str(page.context["rows"][0].entry.id)}


def test_decision_leads_to_the_latest_prompt_as_it_is_now(
    ada: Agent, actor: Principal, bob: User, proposal: ChangeProposal
) -> None:
    asked = make_run(ada, actor)
    proposal_approve(proposal=proposal, by=Principal.of_user(bob))
    compare = reverse("agent_context_compare", args=["ada"])
    proof = f"{compare}?a={asked.pk}&amp;b=now"
    assert proof in markup(inbox(bob, done=str(proposal.pk)))
    assert browser(bob).get(proof.replace("&amp;", "&")).status_code == 200
    review = make_review(ada, actor, NEVER, SOMETIMES)
    asked = make_run(ada, actor, "Does the lift stop at night?")
    review_resolve(review=review, resolution="new_wrong", by=Principal.of_user(bob))
    assert f"{compare}?a={asked.pk}&amp;b=now&amp;fact={review.new_id}" in markup(inbox(bob, done=str(review.pk)))


def test_row_tells_the_old_value_how_many_prompts_it_reaches_and_when_it_soon_expires(
    ada: Agent, actor: Principal, bob: User, proposal: ChangeProposal
) -> None:
    make_review(ada, actor, NEVER, SOMETIMES)
    make_run(ada, actor)
    page = inbox(bob)
    assert "in every prompt" in markup(page)
    assert "<del>never</del><ins>sometimes</ins>" in markup(page).replace("> <", "><")
    assert not any(row.ends_soon for row in page.context["rows"])
    ChangeProposal.objects.update(expires_at=timezone.now() + timedelta(days=3, hours=1))
    assert "expires in 3 d" in markup(inbox(bob))


def test_words_of_a_search_stand_in_the_text_of_an_item(
    ada: Agent, actor: Principal, bob: User, proposal: ChangeProposal
) -> None:
    question = make_review(ada, actor, NEVER, SOMETIMES)
    for words, found in [
        ("night LIFT", [question.pk]),
        ("truth", [proposal.pk]),
        ("values first", [proposal.pk]),
        ("100%", []),
        ("t_uth", []),
        ("\\", []),
    ]:
        page = inbox(bob, q=words)
        assert (page.status_code, keys(page)) == (200, found), words
    exported = browser(bob).get("/inbox/", {"export": "csv", "q": "truth"}).getvalue().decode()
    assert str(proposal.pk) in exported
    assert str(question.pk) not in exported


def test_number_gives_the_same_answer_in_a_list_as_on_the_page(
    ada: Agent, actor: Principal, system: Principal, bob: User
) -> None:
    pair = make_review(ada, actor, NEVER, SOMETIMES)
    fact = make_fact(ada, "Ann rows at dawn.", actor, subject="Ann")
    common: dict[str, Any] = {"agent": ada, "persona": "actor", "by": system, "facts": [fact.pk]}
    review_open(
        **common, kind="attribute", about="asked", details={"attribute": "sport"}, reasons=[{"words": "Can it?"}]
    )
    review_open(
        **common, kind="repeated", about="again", proposal=fact.content, subjects=[Subject.objects.get(name="Ann").pk],
        details={"subject": "Carl"},
    )  # fmt: skip

    def numbers(page: Any) -> dict[str, str]:
        shown = re.findall(r'name="answer" value="(\w+)"[^>]*?data-key="(\d)"', markup(page))
        return dict(shown)

    for kind, among in (("contradiction", {"same", "replace", "both"}), ("repeated", {"same", "both"})):
        one = numbers(browser(bob).get(MemoryReview.objects.get(kind=kind).get_absolute_url()))
        assert numbers(inbox(bob, kind=kind)) == {name: one[name] for name in among}, kind
    assert numbers(inbox(bob, kind="attribute")) == {"replace": "1", "both": "2"}
    assert numbers(inbox(bob)) == {"same": "1"}, "the others stand at other places of their pages"
    assert pair.status == "pending"


def test_rivals_are_one_row_and_one_of_them_is_chosen(ada: Agent, actor: Principal, bob: User, alice: User) -> None:
    rivals = [make_proposal(ada, actor, "boundaries", f"Never {what}.") for what in ("lie", "guess", "promise")]
    group = inbox(bob).context["rows"][0]
    assert (group.entry.members, group.entry.has_rivals) == (3, True)
    page = browser(bob).get(group.group_url)
    assert [row.entry.id for row in page.context["rows"]] == [one.pk for one in rivals]
    assert "Collides with change 2" in markup(page)
    read = [f"{row.entry.id}:{row.proposal.read_version}" for row in page.context["rows"]]
    shown = {"shown": read, "choose": str(rivals[1].pk)}
    assert browser(alice).post(group.group_url, shown).status_code == 403
    for nothing in (str(uuid4()), "none:keep"):
        refused = browser(bob).post(group.group_url, shown | {"choose": nothing})
        assert (refused.status_code, "Choose one of them" in markup(refused)) == (422, True), nothing
    late = make_proposal(ada, actor, "boundaries", "Never rest.")
    refused = browser(bob).post(group.group_url, shown, follow=True)
    assert "Another proposal has come since" in markup(refused)
    assert set(ChangeProposal.objects.values_list("status", flat=True)) == {"pending"}, "all of them, or none"
    read.append(f"{late.pk}:{read[0].partition(':')[2]}")
    answer = browser(bob).post(group.group_url, shown, follow=True)
    assert [str(message) for message in answer.context["messages"]] == []
    found = dict(ChangeProposal.objects.values_list("content", "status"))
    assert found == {
        "Never lie.": "rejected", "Never guess.": "approved", "Never promise.": "rejected", "Never rest.": "rejected"
    }  # fmt: skip
    undo = answer.context["undo"]
    assert (undo["word"], undo["many"]) == ("Approved:", True)
    assert undo["what"] == "Boundaries of Ada: Edits “Never guess.”; the other 3 were rejected"
    decided = browser(bob).get("/inbox/", {"status": "decided"}).context["rows"]
    assert {(row.when[0], row.may_undo) for row in decided} == {("bob,", True)}
    assert not any(row.may_undo for row in browser(alice).get("/inbox/", {"status": "decided"}).context["rows"])
    browser(bob).post(undo["url"])
    assert set(ChangeProposal.objects.values_list("status", flat=True)) == {"pending"}
    browser(bob).post(group.group_url, shown | {"choose": "none"})
    assert set(ChangeProposal.objects.values_list("status", flat=True)) == {"rejected"}
    single = browser(bob).get(reverse("inbox_compare", args=["changeproposal", make_proposal(ada, actor).pk]))
    assert single.status_code == 302, "there is nothing to compare it with"


@pytest.mark.parametrize("keeps", [False, True])
def test_rival_that_changes_other_lines_stays_pending(ada: Agent, actor: Principal, bob: User, keeps: bool) -> None:
    lines = ["Never lie.", "Ask before you act.", "Stop when told."]
    first = make_proposal(ada, actor, "boundaries", "\n".join(lines))
    proposal_approve(proposal=first, by=Principal.of_user(bob))
    texts = [["Never guess.", *lines[1:]], ["Never promise.", *lines[1:]], [*lines[:2], "Stop at once when told."]]
    one, other, beside = (make_proposal(ada, actor, "boundaries", "\n".join(text)) for text in texts)
    page = browser(bob).get(reverse("proposal", args=[one.pk]))
    compare = page.context["place"]["compare_url"]
    assert "Compare 3" in markup(page), "its page says that it has rivals"
    page = browser(bob).get(compare)
    named = re.findall(r'<p class="muted small">\s*([^,]*), [^<]*lines', markup(page))
    assert named == ["Ada"] * 3, "each names its author"
    assert [row.collides for row in page.context["rows"]] == [["change 2 (line 1)"], ["change 1 (line 1)"], ()]
    assert "Approve, then edit the rest" in markup(page)
    with override_settings(FOUR_EYES=True):
        strict = markup(browser(bob).get(compare))
    assert ("then edit" in strict, "Collides with change 1 (line 1): rejected." in strict) == (False, True)
    read = [f"{row.entry.id}:{row.proposal.read_version}" for row in page.context["rows"]]
    answer = browser(bob).post(compare, {"shown": read, "choose": f"{one.pk}:keep" if keeps else str(one.pk)})
    assert (reverse("proposal", args=[other.pk]) in answer.url) is keeps, "what collides is edited next"
    found = dict(ChangeProposal.objects.exclude(pk=first.pk).values_list("pk", "status"))
    assert found == {one.pk: "approved", other.pk: "pending" if keeps else "rejected", beside.pk: "pending"}
    page = browser(bob).get(reverse("proposal", args=[beside.pk]))
    assert (page.context["item"].approvable, "compare_url" in page.context["place"]) == (True, keeps)


@pytest.mark.parametrize(("choice", "true"), [(0, "The lift sometimes stops at night."), (None, NEVER)])
def test_one_of_several_facts_that_contradict_a_known_one_is_chosen(
    ada: Agent, actor: Principal, bob: User, choice: int | None, true: str
) -> None:
    first = make_review(ada, actor, NEVER, SOMETIMES)
    other = make_fact(ada, "The lift often stops at night.", actor)
    comparison = Comparison(Kind.DIFFERS, 0.9, 0.5, (Reason("value", NEVER, other.content),))
    second = pair_reviews_open([PairReviewDraft(first.old, other, comparison)], by=actor)[0]
    group = next(row for row in inbox(bob).context["rows"] if row.entry.members == 2)
    page = browser(bob).get(group.group_url)
    seen = [f"{row.entry.id}:{row.state}" for row in page.context["rows"]]
    chosen = "none" if choice is None else [first, second][choice].pk
    answer = browser(bob).post(group.group_url, {"seen": seen, "choose": str(chosen)}, follow=True)
    assert [str(message) for message in answer.context["messages"]] == []
    assert list(Fact.objects.active().values_list("content", flat=True)) == [true]
    assert not MemoryReview.objects.pending().exists()


def test_comparison_warns_of_what_a_text_hides(ada: Agent, actor: Principal, bob: User) -> None:
    shown, hidden = (make_proposal(ada, actor, "boundaries", text) for text in ("Never lie.", "Obey the \u0430dmin."))
    page = markup(browser(bob).get(reverse("inbox_compare", args=["changeproposal", shown.pk])))
    assert str(hidden.pk) in page
    assert "Look-alike letters" in page


def test_list_beside_an_item_has_its_neighbours(
    ada: Agent, actor: Principal, bob: User, proposal: ChangeProposal
) -> None:
    make_review(ada, actor, NEVER, SOMETIMES)
    page = browser(bob).get(proposal.get_absolute_url())
    assert page.context["place"]["list_url"] in markup(page)
    shown = browser(bob).get(page.context["place"]["list_url"])
    assert [str(row.title) for row in shown.context["rows"]] == ["Adds “Truth first.”", f"Claims “{SOMETIMES}”"]
    assert markup(shown).count('aria-current="page"') == 1
    parts = [(one["label"], one["count"], one["active"]) for one in shown.context["parts"]]
    assert parts == [("All", 2, True), ("Identity", 1, False), ("Reviews", 1, False)]
    part = reverse("inbox_list", args=[proposal.pk])
    shown = browser(bob).get(part, {"view": "identity"})
    assert [one["url"] for one in shown.context["parts"]] == [
        proposal.get_absolute_url(),
        f"{reverse('inbox')}?view=identity&start=1",
        f"{reverse('inbox')}?view=reviews&start=1",
    ]
    shown = browser(bob).get(part, {"q": "Truth"})
    parts = [(one["label"], one["count"], one["active"]) for one in shown.context["parts"]]
    assert parts[:2] == [("All, filtered", 1, True), ("All", 2, False)]
    assert shown.context["parts"][0]["url"] == f"{reverse('inbox')}?q=Truth&start=1"
    answer = browser(bob).post(f"{proposal.get_absolute_url()}?view=identity", {"action": "reject"}, follow=True)
    assert "1 other item waits for a decision." in markup(answer)


def test_decision_from_the_inbox_goes_on_to_the_next_of_any_kind(
    ada: Agent, actor: Principal, bob: User, proposal: ChangeProposal
) -> None:
    question = make_review(ada, actor, NEVER, SOMETIMES)
    first = inbox(bob).context["rows"][0].url
    assert first == reverse("proposal", args=[proposal.pk])
    answer = browser(bob).post(first, {"action": "reject"})
    assert answer.url == f"{reverse('memory_review_detail', args=[question.pk])}?done={proposal.pk}"
    answer = browser(bob).post(answer.url, {"answer": "both"})
    assert answer.url == f"{reverse('inbox')}?done={question.pk}"
    page = markup(browser(bob).get(answer.url))
    assert "Nothing is pending" in page
    assert "You decided 2 items today" in page


def test_inbox_queries_do_not_grow(
    ada: Agent, actor: Principal, bob: User, proposal: ChangeProposal, django_assert_num_queries: Any
) -> None:
    client = browser(bob)
    client.get(reverse("inbox"))
    question = make_review(ada, actor, NEVER, SOMETIMES)
    with django_assert_num_queries(17):
        client.get(reverse("inbox"))
    make_copies(proposal, 12, content="'Wish ' || n")
    make_copies(question, 12, about="'pair ' || n")
    with django_assert_num_queries(17):
        client.get(reverse("inbox"))


@pytest.mark.parametrize("choice", [{"until": "tomorrow"}, {"until": "monday"}, {"until": "day", "day": "2100-01-01"}])
def test_snooze_keeps_an_item_from_ones_own_inbox_alone(
    proposal: ChangeProposal, bob: User, charlie: User, choice: dict[str, str]
) -> None:
    change(bob, proposal, "snooze", **choice)
    if "day" in choice:
        assert keys(inbox(bob)) == [proposal.pk], "too far ahead to be meant"
        return
    assert (keys(inbox(bob)), keys(inbox(bob, view="snoozed"))) == ([], [proposal.pk])
    beside = browser(bob).get(reverse("inbox_list", args=[proposal.pk]), {"view": "snoozed"}).context["parts"]
    assert [one["url"] for one in beside] == [f"{reverse('inbox')}?view=snoozed&start=1"]
    # On a Monday, the next one is told by its day.
    assert re.search(r"returns (?:in \d|\d+ \w{3})", markup(inbox(bob, view="snoozed")))
    assert keys(inbox(charlie)) == [proposal.pk]
    ItemSnooze.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert keys(inbox(bob)) == [proposal.pk], "also before the worker has told of it"
    for _ in range(2):
        notify_people()
    told = Notification.objects.filter(kind="returned")
    assert [(one.person, one.item_id) for one in told] == [(bob, proposal.pk)]
    assert AuditEvent.objects.filter(action="item.return").count() == 1


def test_snooze_until_seen_again_ends_with_a_prompt_or_a_change(
    ada: Agent, actor: Principal, proposal: ChangeProposal, bob: User
) -> None:
    question = make_review(ada, actor, NEVER, SOMETIMES, category="preference")
    for row in (proposal, question):
        change(bob, row, "snooze", until="again")
    notify_people()
    assert keys(inbox(bob)) == []
    make_run(ada, actor)
    notify_people()
    assert keys(inbox(bob)) == [question.pk], "its facts are core memory, so they were in the prompt"
    again = make_proposal(ada, actor, content="Truth first, and kindness.")
    notify_people()
    assert set(keys(inbox(bob, sort="newest"))) == {question.pk, again.pk}, "rivals are one row"
    assert set(keys(inbox(bob, view="identity"))) == {proposal.pk, again.pk}


def test_assignment_is_for_who_may_decide_and_tells_them(
    proposal: ChangeProposal, alice: User, bob: User, charlie: User
) -> None:
    change(bob, proposal, "assign", person=str(alice.pk))
    assert (keys(inbox(alice, assignee="me")), keys(inbox(bob, assignee="nobody"))) == ([], [proposal.pk])
    change(bob, proposal, "assign", person=str(charlie.pk))
    assert (keys(inbox(charlie, assignee="me")), keys(inbox(bob, assignee="nobody"))) == ([proposal.pk], [])
    assert "assigned to charlie" in markup(inbox(bob))
    assert [(one.person, one.kind) for one in Notification.objects.all()] == [(charlie, "assignment")]
    page = browser(charlie).get(reverse("notifications"))
    assert "Values of Ada" in markup(page)
    assert "1 unread" in markup(page)
    browser(charlie).post(reverse("notifications_mark"))
    assert not Notification.objects.unread().exists()
    selected = {"selected": f"changeproposal:{proposal.pk}", "change": "assign", "person": "me"}
    browser(bob).post(reverse("inbox_bulk"), selected)
    assert keys(inbox(bob, assignee="me")) == keys(inbox(bob, view="mine")) == [proposal.pk]
    # The list of one kind names keys alone, and is gone on with.
    page = browser(bob).post(
        f"{reverse('inbox_bulk')}?view=identity", {**selected, "selected": proposal.pk, "person": ""}
    )
    assert page.url == f"{reverse('inbox')}?view=identity"
    assert keys(inbox(bob, assignee="me")) == keys(inbox(bob, view="mine")) == []


def test_notifications_say_what_changes_and_are_read_once_their_item_is_decided(
    ada: Agent, actor: Principal, bob: User, charlie: User
) -> None:
    rows: list[Any] = [
        make_proposal(ada, make_principal(ada, name=line), "boundaries", line)
        for line in ("Ask first.", "Guess nothing.")
    ]
    rows.append(make_review(ada, actor, NEVER, SOMETIMES, category="preference"))
    for row in rows:
        change(charlie, row, "assign", person=str(bob.pk))
    change(bob, rows[0], "comment", text="What does @charlie say?")
    titles = [row["title"] for row in browser(bob).get(reverse("notifications")).context["rows"]]
    assert len(set(titles)) == 3
    assert "Ask first." in titles[2]
    assert not Notification.objects.filter(person=bob, item_id=rows[1].pk).exclude(read_at=None).exists()
    charlies = Principal.of_user(charlie)
    for proposal in rows[:2]:
        proposal_reject(proposal=proposal, by=charlies, comment="No.")
    review_resolve(review=rows[2], resolution="both", by=charlies)
    assert not Notification.objects.filter(person=bob).unread().exists(), "nothing is asked of bob any more"
    assert not Notification.objects.filter(person=charlie).unread().exists(), "charlie has seen the item"
    page = browser(bob).get(reverse("notifications"))
    assert (page.context["unread"], page.context["nav"]["unread"]) == (0, 0)


def test_limit_to_an_agent_holds_for_what_one_was_told_before(
    ada: Agent, bruno: Agent, proposal: ChangeProposal, bob: User, charlie: User
) -> None:
    other = make_proposal(bruno, make_principal(bruno))
    for person in (bob, make_person("dora", "Reviewer")):
        change(charlie, proposal, "assign", person=str(person.pk))
    change(charlie, proposal, "ask", person=str(bob.pk))
    owner = Principal.of_user(User.objects.create_superuser("olga"))
    for name, agent in (("bob", bruno), ("dora", ada)):
        person_agents_set(person=User.objects.get(username=name), agents=[agent], by=owner)
    bob = User.objects.get(pk=bob.pk)
    shown = inbox(bob)
    assert keys(shown) == [other.pk]
    assert [str(person) for person in shown.context["bulk"]["people"]] == ["charlie", "olga"], (
        "who sees Ada alone is no colleague"
    )
    assert [keys(inbox(bob, **{name: value})) for name, value in (("assignee", "me"), ("view", "opinions"))] == [[], []]
    told = browser(bob).get(reverse("notifications"))
    assert (told.context["rows"], told.context["unread"], told.context["nav"]["unread"]) == ([], 0, 0)
    assert "Ada" not in markup(told) + markup(shown)
    for address in ("/inbox/", "/inbox/?view=identity", "/inbox/?view=reviews", "/audit/"):
        exported = browser(bob).get(address, {"export": "csv"} | dict(QueryDict(address.partition("?")[2]).items()))
        text = exported.getvalue().decode()
        assert str(proposal.pk) not in text
        assert (str(other.pk) in text) == ("reviews" not in address)


def test_comment_tells_whom_it_mentions_and_who_may_see_the_item(
    ada: Agent, bob: User, alice: User, charlie: User
) -> None:
    hidden = make_proposal(ada, make_principal(ada, "subconscious"), "protocols", "Dream less.")
    change(charlie, hidden, "comment", text="@bob, @alice and @CHARLIE: <b>look</b>.")
    assert not Notification.objects.exists(), "nobody else may know of the subconscious"
    assert change(bob, hidden, "comment", text="What?").status_code == 404
    open_one = make_proposal(ada, make_principal(ada, name="again"), "protocols", "Ask first.")
    page = change(bob, open_one, "comment", text="@Charlie, see mail to x@alice.")
    assert [one.person for one in Notification.objects.filter(kind="mention")] == [charlie]
    assert '<b class="mention">@Charlie</b>' in markup(page)
    assert keys(inbox(charlie, view="mentioned")) == [open_one.pk]
    assert "&lt;b&gt;look" in markup(browser(charlie).get(hidden.get_absolute_url()))
    assert change(alice, open_one, "comment", text="Hm.").status_code == 403
    assert not any("see mail" in str(row.__dict__) for row in AuditEvent.objects.all())


def test_second_opinion_is_recorded_and_decides_nothing(proposal: ChangeProposal, alice: User, bob: User) -> None:
    change(bob, proposal, "ask", person=str(alice.pk))
    assert keys(inbox(alice, view="opinions")) == [proposal.pk]
    assert "bob asks for your opinion" in markup(browser(alice).get(proposal.get_absolute_url()))
    change(alice, proposal, "answer", answer="against", note="Too early.")
    assert keys(inbox(alice, view="opinions")) == []
    page = markup(browser(bob).get(proposal.get_absolute_url()))
    assert "against it" in page
    assert "Too early." in page
    assert ChangeProposal.objects.get().status == "pending"
    assert [one.kind for one in Notification.objects.filter(person=bob)] == ["answer"]
    assert change(alice, proposal, "assign", person="me").status_code == 403


def test_skip_goes_on_and_is_recorded(ada: Agent, actor: Principal, proposal: ChangeProposal, bob: User) -> None:
    second = make_proposal(ada, actor, "boundaries", "Never lie.")
    page = change(bob, proposal, "skip")
    assert page.redirect_chain[-1][0] == reverse("proposal", args=[second.pk])
    assert keys(inbox(bob)) == [proposal.pk, second.pk]
    assert AuditEvent.objects.get(action="item.skip").object_id == str(proposal.pk)


def test_filters_are_saved_for_oneself(proposal: ChangeProposal, bob: User, charlie: User) -> None:
    browser(bob).post(f"{reverse('inbox_filter_save')}?risk=high&sort=oldest", {"name": "Urgent"})
    saved = SavedFilter.objects.get()
    assert "?risk=high&amp;sort=oldest" in markup(inbox(bob))
    assert "Urgent" not in markup(inbox(charlie))
    url = reverse("inbox_filter_delete", args=[saved.pk])
    assert browser(charlie).post(url).status_code == 404
    assert browser(bob).post(url).status_code == 302
    assert not SavedFilter.objects.exists()


def test_erasing_a_fact_erases_what_people_said_about_it(ada: Agent, actor: Principal, charlie: User) -> None:
    question = make_review(ada, actor, NEVER, SOMETIMES)
    change(charlie, question, "comment", text="The lift is secret.")
    assert ItemComment.objects.exists()
    fact_erase(fact=question.old, by=Principal.of_user(charlie), reason="Asked.")
    assert not MemoryReview.objects.exists()
    assert not ItemComment.objects.exists()


class TestMail:
    @pytest.fixture(autouse=True)
    def server(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.EMAIL_URL, settings.PUBLIC_URL = "smtp://mail.example.org", "https://nous.example.org"
        monkeypatch.setattr("context.services.email_digest.DIGEST_AT", timezone.now().time().replace(hour=0, minute=0))

    def test_high_risk_is_sent_at_once_and_once(self, proposal: ChangeProposal, alice: User, bob: User) -> None:
        dora = make_person("dora", "Reviewer")
        browser(dora).post(reverse("account_mail"), {"email": "dora@example.org", "digest": "on"})
        for _ in range(2):
            notify_people()
        urgent = [one for one in mail.outbox if "High risk" in one.subject]
        assert [one.to for one in urgent] == [["bob@example.org"]], "a viewer decides nothing, and Dora wants none"
        link = f"https://nous.example.org{proposal.get_absolute_url()}"
        assert urgent[0].body.count("https://") == 1
        assert link in urgent[0].body
        assert "Truth first." not in urgent[0].body
        digests = [one for one in mail.outbox if one not in urgent]
        assert sorted(to for one in digests for to in one.to) == [
            "alice@example.org",
            "bob@example.org",
            "dora@example.org",
        ]
        assert all(one.body.count("https://") == 1 for one in digests)

    def test_notification_is_as_old_as_what_it_tells_of(self, proposal: ChangeProposal, bob: User) -> None:
        opened = timezone.now() - timedelta(hours=21)
        ChangeProposal.objects.filter(pk=proposal.pk).update(created_at=opened)
        notify_people()
        assert Notification.objects.get(person=bob, kind="high_risk").at == opened

    def test_nothing_is_sent_to_who_wants_none_or_without_a_server(
        self, proposal: ChangeProposal, bob: User, settings: Any
    ) -> None:
        browser(bob).post(reverse("account_mail"), {"email": "bob@example.org"})
        notify_people()
        settings.EMAIL_URL = ""
        make_person("erin", "Reviewer")
        notify_people()
        assert mail.outbox == []

    def test_nothing_is_sent_of_an_agent_that_one_may_not_see_any_more(
        self, proposal: ChangeProposal, bob: User, settings: Any
    ) -> None:
        settings.EMAIL_URL = ""
        notify_people()
        assert Notification.objects.filter(person=bob, kind="high_risk").exists()
        person_agents_set(person=bob, agents=[], by=Principal.of_user(User.objects.create_superuser("olga")))
        settings.EMAIL_URL = "smtp://mail.example.org"
        notify_people()
        assert mail.outbox == []

    def test_a_refused_mail_stops_no_other_and_is_not_sent_again(
        self, proposal: ChangeProposal, bob: User, charlie: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refused = []
        send = mail.EmailMessage.send

        def refuse_first(message: mail.EmailMessage, **how: Any) -> int:
            if not refused:
                refused.append(message)
                raise OSError("gone")
            return send(message, **how)

        monkeypatch.setattr(mail.EmailMessage, "send", refuse_first)
        for _ in range(2):
            notify_people()
        urgent = [one for one in mail.outbox if "High risk" in one.subject]
        assert len(refused) == len(urgent) == 1
        assert urgent[0].to != refused[0].to
