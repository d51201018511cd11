"""Search across agents finds what one may see, and nothing else."""

from dataclasses import replace
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db.models import Func, TextField, Value
from django.db.models.functions import Cast

from context.models import ContextRun
from identity.models import Agent, AuditEvent, ItemComment
from identity.principal import Principal
from identity.services.proposals import proposal_approve
from memory.services.facts.changes import fact_invalidate
from nousweb.console.home import global_search
from nousweb.console.home.global_search import TEXT_SOURCES
from tests.factories import make_fact, make_principal, make_proposal, make_run
from tests.http import browser

pytestmark = pytest.mark.django_db
SEARCH = "/search/"


def groups(user: User, query: str, **more: str) -> dict[str, list[str]]:
    result = browser(user).get(SEARCH, {"q": query, **more}).context["result"]
    return {name: [one["label"] for one in found] for name, found in result.groups.items()}


def test_memories_of_several_agents_stand_in_one_order(
    ada: Agent, bruno: Agent, actor: Principal, alice: User, system: Principal
) -> None:
    make_fact(ada, "The lighthouse lamp is lit by paraffin oil.", actor, subject="lamp")
    make_fact(bruno, "The harbour's paraffin store burned down.", system, subject="store")
    found = groups(alice, "paraffin")
    assert {label.split()[1] for label in found["Memories"]} == {"lighthouse", "harbour's"}
    assert "Subjects" not in found
    assert groups(alice, "lamp")["Subjects"] == ["lamp"]


def test_agents_and_what_waits_are_found_by_name(ada: Agent, actor: Principal, alice: User) -> None:
    make_proposal(ada, actor, "values", reason="It learned of tides.")
    assert groups(alice, "ada")["Agents"] == ["Ada"]
    assert groups(alice, "tides")["Pending"] == ["Values of Ada: Adds “Truth first.”"]


def test_settings_are_found_by_their_words_and_lead_to_the_field(ada: Agent, alice: User, charlie: User) -> None:
    result = browser(charlie).get(SEARCH, {"q": "no limit"}).context["result"]
    (hit,) = result.groups["Settings"]
    assert (hit["label"], hit["kind"]) == ("Review everything", "Ada")
    address, _, field = hit["url"].partition("#")
    assert f'id="{field}"' in browser(charlie).get(address).content.decode()
    assert "Settings" not in groups(alice, "no limit")


def test_id_leads_to_its_page(ada: Agent, actor: Principal, alice: User) -> None:
    fact = make_fact(ada, "The lamp is lit at six.", actor)
    page = browser(alice).get(SEARCH, {"q": f" {fact.pk} "})
    assert [one["url"] for one in page.context["result"].groups["By id"]] == [fact.get_absolute_url()]
    assert "By id" not in groups(alice, str(uuid4()))


def test_subconscious_stays_hidden_whoever_asks(ada: Agent, alice: User, charlie: User) -> None:
    fact = make_fact(ada, "A dream of paraffin.", make_principal(ada, "subconscious"), subject="dream")
    for query in ("paraffin", "dream", str(fact.pk)):
        assert groups(alice, query) == {}


def test_nothing_asked_and_nothing_found_say_so(ada: Agent, alice: User) -> None:
    client = browser(alice)
    assert "Across all agents" in client.get(SEARCH).content.decode()
    assert "No results." in client.get(SEARCH, {"q": "zebra"}).content.decode()
    assert client.get(SEARCH, {"q": "\x00 "}).status_code in (200, 400)
    assert client.get(SEARCH, {"q": "x" * 5_000}).status_code == 200


def test_part_for_the_palette_has_no_frame(ada: Agent, alice: User) -> None:
    part = browser(alice).get(SEARCH, {"q": "ada"}, headers={"HX-Request": "true"}).content.decode()
    assert "Ada" in part
    assert "<html" not in part


@pytest.fixture
def told(ada: Agent, actor: Principal, alice: User, system: Principal) -> ContextRun:
    """Texts of every kind that only the tables hold, and of the subconscious beside them."""
    run = make_run(ada, actor, "Which day do you deliver?")
    ContextRun.objects.filter(pk=run.pk).update(response="Your voucher arrives on <b>Tuesday</b>; delivery is free.")
    old = make_fact(ada, "The ferry leaves from pier nine.", actor)
    fact_invalidate(fact=old, by=system, reason="It moved.")
    proposal = make_proposal(ada, actor, "values", content="Never promise a delivery date.", reason="Promises broke.")
    about = {"item_type": "changeproposal", "agent": ada, "persona": "actor", "author_name": "alice"}
    ItemComment.objects.create(**about, item_id=proposal.pk, text="Harsh wording")
    # Its item is gone, so that it leads nowhere.
    ItemComment.objects.create(**about, item_id=uuid4(), text="Harsh words")
    hidden = make_run(ada, make_principal(ada, "subconscious"), "A dreamt voucher")
    ContextRun.objects.filter(pk=hidden.pk).update(response="voucher of dreams")
    return run


def test_texts_are_found_by_words_parts_and_phrases(told: ContextRun, alice: User) -> None:
    page = browser(alice).get(SEARCH, {"q": "deliv vouch"})
    (hit,) = page.context["result"].groups["Prompts and answers"]
    assert hit["url"] == told.get_absolute_url()
    # Marked where it stands, and escaped.
    assert "Your <mark>vouch</mark>er arrives on &lt;b&gt;Tuesday" in page.content.decode()
    assert groups(alice, '"pier nine"')["Memories"] == ["The ferry leaves from pier nine."]
    assert "Memories" not in groups(alice, '"nine pier"', kind="Memories", since="2020-01-01")
    assert groups(alice, "promise a deliv")["Proposals"] == ["Never promise a delivery date."]
    page = browser(alice).get(SEARCH, {"q": "promise a deliv"})
    marked = "Never <mark>promise</mark> <mark>a</mark> <mark>deliv</mark>ery date."
    assert marked in page.content.decode(), "no part of another word"
    assert groups(alice, "harsh")["Comments"] == ["Harsh wording"]
    assert groups(alice, "ferry leaves")["Audit trail"]


def test_records_are_found_by_what_they_say_and_shown_as_sentences(
    ada: Agent, actor: Principal, bob: User, alice: User
) -> None:
    proposal = make_proposal(ada, actor, "values", content="Never promise a delivery date.\nSay “perhaps”.")
    proposal_approve(proposal=proposal, by=Principal.of_user(bob), comment="Customers asked for it.")
    client = browser(alice)

    def records(query: str) -> list[dict[str, str]]:
        return client.get(SEARCH, {"q": query, "kind": "Audit trail"}).context["result"].groups.get("Audit trail", [])

    for query in ("delivery date", "customers asked"):
        (first, *_) = records(query)
        assert (first["kind"], first["did"].startswith("approved")) == ("bob", True)
        assert query in first["label"].casefold()
        assert not set("{}[]\\") & set(first["did"] + first["label"])
        assert first["detail"] == "just now"
    for number in (3, 8):
        make_fact(ada, f"The store {'of the old harbour ' * number} sells paraffin of grade {number}.", actor)
    told = records("paraffin grade")
    assert [(record["kind"], record["did"].startswith("stored the fact")) for record in told] == [("Ada", True)] * 2
    assert all("paraffin" in record["label"] for record in told)
    assert "base_version" in AuditEvent.objects.filter(action="proposal.create").latest("pk").after
    assert records("base_version") == [], "the name of a member is no text"


def test_misspelt_word_is_replaced_by_one_that_a_text_has(told: ContextRun, alice: User) -> None:
    result = browser(alice).get(SEARCH, {"q": "vouchre", "kind": "Prompts and answers"}).context["result"]
    assert result.corrected == ("voucher",)
    assert len(result.groups["Prompts and answers"]) == 1
    other = browser(alice).get(SEARCH, {"q": "vouchre xylophone"}).context["result"]
    assert (other.groups, other.corrected) == ({}, ()), "it offers no word without a result"


def test_misspelt_word_offers_each_word_that_fits(ada: Agent, actor: Principal, alice: User) -> None:
    for question in ("How do vouchers expire?", "Are voucherless orders paid?"):
        make_run(ada, actor, question)
    page = browser(alice).get(SEARCH, {"q": "vouchre", "kind": "Prompts and answers"})
    result = page.context["result"]
    assert set(result.corrected) == {"vouchers", "voucherless"}
    assert len(result.groups["Prompts and answers"]) == 2
    assert "?q=voucherless" in page.content.decode()


def test_search_is_limited_to_a_kind_an_agent_and_days(told: ContextRun, bruno: Agent, alice: User) -> None:
    asked = {"kind": "Prompts and answers"}
    assert set(groups(alice, "voucher", **asked)) == {"Prompts and answers"}
    assert groups(alice, "voucher", **asked, agent=bruno.slug) == {}
    assert groups(alice, "voucher", **asked, until="2020-01-01") == {}
    assert set(groups(alice, "voucher", **asked, period="7")) == {"Prompts and answers"}
    page = browser(alice).get(SEARCH, {**asked, "q": "voucher", "since": "soon"})
    assert "Enter a valid date." in page.content.decode()


def test_texts_that_take_too_long_are_named(told: ContextRun, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeping = Func(Value(2.0), function="pg_sleep", template="(SELECT '' FROM %(function)s(%(expressions)s))")
    rows = ContextRun.objects.annotate(slow=Cast(sleeping, TextField()))
    slow = replace(TEXT_SOURCES[0], columns=("slow",), rows=lambda by: rows)
    monkeypatch.setattr(global_search, "TEXT_SOURCES", (slow, *TEXT_SOURCES[1:]))
    result = global_search.global_search("voucher", by=Principal.of_user(alice), seconds=0.3)
    assert result.unread[0] == "Prompts and answers"


def test_memories_are_found_however_few_there_are(
    told: ContextRun, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = groups(alice, "pier", kind="Memories", since="2020-01-01")["Memories"]
    assert found == ["The ferry leaves from pier nine."]
    # By reading all of them.
    monkeypatch.setattr(global_search, "SOON", 0.0)
    assert groups(alice, "pier", kind="Memories", since="2020-01-01")["Memories"] == found
