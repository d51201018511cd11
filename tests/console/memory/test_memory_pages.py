"""The console's pages of episodes, decisions, procedures, censors, working memory, search and the index."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from identity.models import Agent, ApiToken, AuditEvent
from identity.principal import Principal
from memory.models import (
    Censor,
    Decision,
    EmbeddingModel,
    Episode,
    Procedure,
    SearchItem,
    SearchStatistics,
    WorkingMemory,
)
from memory.services.censors import censor_create
from memory.services.decisions import decision_record
from memory.services.documents import document_put
from memory.services.episodes import episode_append, episode_close, episode_open
from memory.services.events import events_record
from memory.services.facts import fact_learn
from memory.services.procedures import procedure_create, procedure_report
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.search_index.writer import index_put
from memory.services.working_memory import working_item_add, working_thread_open
from memory.types import IndexEntry
from tests.factories import make_copies
from tests.http import browser, markup


def url(name: str, *more: Any) -> str:
    return reverse(name, args=["ada", *more])


def titles(user: User, name: str, **query: str) -> list[str]:
    page = browser(user).get(url(name), query)
    assert page.status_code == 200
    found = page.context["page"]
    return [str(row) for row in getattr(found, "rows", found)]


@pytest.fixture
def episode(ada: Agent, actor: Principal) -> Episode:
    said = [{"kind": "user_input", "content": f"Line {n}.", "loop_id": "l"} for n in range(60)]
    recorded = events_record(agent=ada, events=said, by=actor)
    episode = episode_open(agent=ada, title="A night", participants=["Tom"], by=actor)
    episode_append(episode=episode, event_ids=[each.event.pk for each in recorded], by=actor)
    return episode


@pytest.fixture
def decision(ada: Agent, actor: Principal, episode: Episode) -> Decision:
    return decision_record(
        agent=ada, description="Wait for <Tom>.", reasons=["It is safe."], stakes="high", episode=episode, by=actor
    )


@pytest.fixture
def censor(ada: Agent, bob: User) -> Censor:
    by = Principal.of_user(bob)
    return censor_create(agent=ada, pattern="drop (the )?table", severity="block", reason="Ask first.", by=by)


def test_episode_page_shows_its_transcript_by_the_page(
    alice: User, actor: Principal, episode: Episode, decision: Decision
) -> None:
    episode_close(episode=episode, outcome="partial", summary="All calm.", lessons=["Look twice."], by=actor)
    client = browser(alice)
    page = client.get(url("agent_episode", episode.pk))
    text = page.content.decode()
    assert "Written by the agent" in text
    assert "Wait for &lt;Tom&gt;." in text
    assert "Look twice." in text
    assert [row.beginning for row in page.context["page"].rows] == [f"Line {n}." for n in range(50)]
    onward = client.get(url("agent_episode", episode.pk), {"after": page.context["page"].next})
    assert [row.beginning for row in onward.context["page"].rows] == [f"Line {n}." for n in range(50, 60)]


def test_episodes_page_is_filtered_by_words_state_and_outcome(
    ada: Agent, alice: User, actor: Principal, episode: Episode
) -> None:
    episode_close(episode=episode, outcome="failure", summary="All lost.", by=actor)
    episode_open(agent=ada, title="A day", by=actor)
    assert titles(alice, "agent_episodes") == ["A day", "A night"]
    assert titles(alice, "agent_episodes", q="LOST") == ["A night"]
    assert titles(alice, "agent_episodes", state="open") == ["A day"]
    assert titles(alice, "agent_episodes", outcome="failure", summary="given") == ["A night"]
    assert titles(alice, "agent_episodes", outcome="odd") == []


def test_episode_edit_touches_only_what_changed(ada: Agent, alice: User, bob: User, episode: Episode) -> None:
    Episode.objects.filter(pk=episode.pk).update(summary="They waited.\nTom came.", summary_kind="judge")
    page = url("agent_episode_edit", episode.pk)
    assert browser(alice).get(page).status_code == 403
    form = browser(bob).get(page).context["form"]
    given = {"title": form["title"].value(), "summary": "They waited.\r\nTom came.", "importance": "0.5"}
    given |= {"tags": "night, sea", "active": "on"}
    assert browser(bob).post(page, given).status_code == 302
    episode.refresh_from_db()
    assert (episode.tags, episode.summary_kind) == (["night", "sea"], "judge")
    assert browser(bob).post(page, given | {"summary": "Tom came.", "tags": ""}).status_code == 302
    episode.refresh_from_db()
    assert (episode.summary, episode.summary_kind, episode.tags) == ("Tom came.", "given", [])
    assert browser(bob).post(page, given | {"importance": "2"}).status_code == 422
    shown = url("agent_episode", episode.pk)
    assert f'href="{page}"' in browser(bob).get(shown).content.decode()
    assert f'href="{page}"' not in browser(alice).get(shown).content.decode()
    last = AuditEvent.objects.of_object("episode", episode.pk).latest("id")
    assert (last.action, last.author_name) == ("episode.update", "bob")


def test_episode_is_closed_once(ada: Agent, bob: User, actor: Principal, episode: Episode) -> None:
    page = url("agent_episode_close", episode.pk)
    given = {"outcome": "success", "summary": "", "lessons": "Bring a lamp.\r\n\r\nAsk Tom.", "ended_at": ""}
    early = given | {"ended_at": "2001-01-01T00:00"}
    refused = browser(bob).post(page, early)
    assert refused.status_code == 422
    assert "Bring a lamp." in refused.content.decode()
    assert browser(bob).post(page, given).status_code == 302
    episode.refresh_from_db()
    assert (episode.outcome, episode.lessons) == ("success", ["Bring a lamp.", "Ask Tom."])
    assert episode.ended_at is not None
    assert episode.summary_kind != "given", "it is left to the lifecycle"
    again = browser(bob).post(page, given)
    assert again.status_code == 409
    assert "already closed" in again.content.decode()


@pytest.mark.parametrize("kind", ["procedure", "censor", "episode", "fact"])
def test_second_tab_overwrites_nothing_unseen(ada: Agent, bob: User, kind: str) -> None:
    by = Principal.of_user(bob)
    make: dict[str, Callable[[], Any]] = {
        "procedure": lambda: procedure_create(agent=ada, name="Deploy", steps=["Tag."], by=by),
        "censor": lambda: censor_create(agent=ada, pattern="mayor", severity="warn", by=by),
        "episode": lambda: episode_open(agent=ada, title="A night", by=by),
        "fact": lambda: fact_learn(agent=ada, content="The mole is long.", subject="mole", by=by).fact,
    }
    row, client = make[kind](), browser(bob)
    address = url("agent_fact_change", row.pk, "edit") if kind == "fact" else url(f"agent_{kind}_edit", row.pk)
    theirs, mine = {
        "procedure": ({"steps": "Tag.\nPush."}, {"description": "Both."}),
        "censor": ({"severity": "block"}, {"reason": "Not him."}),
        "episode": ({"summary": "It rained."}, {"title": "A long night"}),
        "fact": ({"category": "person"}, {"tags": "harbour"}),
    }[kind]

    def typed(form: Any, **changed: str) -> dict[str, Any]:
        given = {field.html_name: field.field.widget.format_value(field.value()) for field in form}
        return {name: value for name, value in given.items() if value not in (None, False)} | changed

    first, second = (client.get(address).context["form"] for _ in range(2))
    assert client.post(address, typed(first, **theirs)).status_code == 302
    row.refresh_from_db()
    before = {field.attname: getattr(row, field.attname) for field in row._meta.fields}
    refused = client.post(address, typed(second, **mine))
    assert refused.status_code == 422
    assert "It has changed since this page was opened." in markup(refused)
    row.refresh_from_db()
    assert {field.attname: getattr(row, field.attname) for field in row._meta.fields} == before
    assert client.post(address, typed(refused.context["form"])).status_code == 302
    row.refresh_from_db()
    assert {field.attname: getattr(row, field.attname) for field in row._meta.fields} != before


def test_procedure_edit_keeps_its_counts(ada: Agent, alice: User, bob: User, actor: Principal) -> None:
    procedure = procedure_create(agent=ada, name="Wait well", steps=["Sit.", "Wait."], by=actor)
    procedure_report(procedure=procedure, success=True, by=actor)
    page = url("agent_procedure_edit", procedure.pk)
    assert browser(alice).get(page).status_code == 403
    assert "Sit.\nWait." in browser(bob).get(page).content.decode()
    given = {"name": "Wait better", "steps": "Sit.\r\nBreathe.\r\n", "scope": "project", "importance": "0.9"}
    assert browser(bob).post(page, given | {"tags": "calm, sea", "domain": "sea"}).status_code == 302
    procedure.refresh_from_db()
    assert (procedure.name, procedure.steps, procedure.scope) == ("Wait better", ["Sit.", "Breathe."], "project")
    assert (procedure.tags, procedure.domain, procedure.success_count) == (["calm", "sea"], "sea", 1)
    assert browser(bob).post(page, given | {"name": ""}).status_code == 422
    assert browser(bob).post(page, given | {"steps": "x\n" * 41}).status_code == 422
    assert SearchItem.objects.get(item_id=str(procedure.pk)).text.startswith("Wait better")


def test_audit_records_link_to_memories(
    ada: Agent, alice: User, charlie: User, actor: Principal, subconscious_token: str, episode: Episode
) -> None:
    def page(user: User, of: Any) -> str:
        record = AuditEvent.objects.of_object(of._meta.model_name, of.pk).latest("id")
        return browser(user).get(reverse("audit_event", args=[record.pk])).content.decode()

    assert f'href="{url("agent_episode", episode.pk)}"' in page(alice, episode)
    fact = fact_learn(agent=ada, content="Tom sails.", by=actor).fact
    assert f'href="{url("agent_fact", fact.pk)}"' in page(alice, fact)
    dreamer = Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))
    dream = fact_learn(agent=ada, content="A dream.", by=dreamer).fact
    assert f'href="{url("agent_fact", dream.pk)}' not in page(alice, dream)
    address = f"{url('agent_fact', dream.pk)}?persona=subconscious"
    assert f'href="{address}"' in page(charlie, dream)
    assert browser(charlie).get(address).status_code == 200


def test_decision_outcome_is_for_reviewers(alice: User, bob: User, decision: Decision) -> None:
    page = url("agent_decision", decision.pk)
    assert "Save review" not in browser(alice).get(page).content.decode()
    assert browser(alice).post(page, {"outcome": "success"}).status_code == 403
    assert browser(bob).post(page, {"outcome": "odd"}).status_code == 422
    assert titles(bob, "agent_decisions", review="open", stakes="high") == ["Wait for <Tom>."]
    assert browser(bob).post(page, {"outcome": "success", "note": "Tom came."}).status_code == 302
    decision.refresh_from_db()
    assert (decision.outcome, decision.outcome_note, decision.reviewed_by) == ("success", "Tom came.", "bob")
    assert titles(bob, "agent_decisions", review="open") == []


def test_procedure_page_shows_its_success_and_retires(ada: Agent, alice: User, bob: User, actor: Principal) -> None:
    procedure = procedure_create(agent=ada, name="Wait well", steps=["Sit.", "Wait."], domain="sea", by=actor)
    for success in (True, True, True, False):
        procedure_report(procedure=procedure, success=success, by=actor)
    text = browser(alice).get(url("agent_procedure", procedure.pk)).content.decode()
    assert "75" in text
    assert "Retire" not in text
    use = url("agent_procedure_use", procedure.pk)
    assert browser(alice).post(use, {"active": "no"}).status_code == 403
    assert browser(bob).post(use, {"active": "no"}).status_code == 302
    assert titles(bob, "agent_procedures", state="active") == []
    assert titles(bob, "agent_procedures", state="retired", domain="SEA") == ["Wait well"]
    assert browser(bob).post(use, {"active": "yes"}).status_code == 302
    assert Procedure.objects.get().active


def test_censor_bench_marks_triggers_and_counts_nothing(alice: User, censor: Censor) -> None:
    answer = browser(alice).post(url("agent_censor_bench"), {"text": "Now <drop the table> at once."})
    text = markup(answer)
    assert "Would block." in text
    assert '<mark class="mark-block"><span class="mark-number">1</span>drop the table</mark>' in text
    assert "Now &lt;" in text
    assert "Ask first." in text
    assert "False positive" not in text
    censor.refresh_from_db()
    assert censor.activation_count == 0
    assert not AuditEvent.objects.filter(action="censor.trigger").exists()


def test_censor_bench_answers_htmx_with_a_part_and_an_address(alice: User, censor: Censor) -> None:
    client = browser(alice)
    answer = client.post(url("agent_censor_bench"), {"text": "All calm."}, headers={"HX-Request": "true"})
    assert "No censor triggers." in answer.content.decode()
    assert "<html" not in answer.content.decode()
    assert answer["HX-Push-Url"] == url("agent_censor_bench") + "?text=All+calm.&domain="
    assert "No censor triggers." in client.get(answer["HX-Push-Url"]).content.decode()
    long = client.post(url("agent_censor_bench"), {"text": "calm " * 500}, headers={"HX-Request": "true"})
    assert long["HX-Push-Url"] == "false"


@pytest.mark.parametrize("given", [{"text": ""}, {"text": "x" * 100_001}, {"text": "x", "domain": "No Word"}])
def test_censor_bench_names_what_it_cannot_try(alice: User, censor: Censor, given: dict[str, str]) -> None:
    answer = browser(alice).post(url("agent_censor_bench"), given)
    assert answer.status_code == 422
    assert "Not tried." in answer.content.decode()


def test_censor_is_created_edited_and_retired(ada: Agent, bob: User) -> None:
    client = browser(bob)
    given = {"match": "regex", "pattern": "rm -rf", "severity": "absolute", "escalation_threshold": "3"}
    assert client.post(url("agent_censor_add"), {**given, "pattern": "(?=x)"}).status_code == 422
    assert client.post(url("agent_censor_add"), {**given, "similarity_threshold": "0.4"}).status_code == 302
    censor = Censor.objects.get()
    assert (censor.severity, censor.author_name, censor.active) == ("absolute", "bob", True)
    changed = {**given, "severity": "warn", "message": "Too strict."}
    assert client.post(url("agent_censor_edit", censor.pk), changed).status_code == 302
    censor.refresh_from_db()
    assert (censor.severity, censor.active) == ("warn", False)
    assert titles(bob, "agent_censors", state="active") == []
    assert AuditEvent.objects.get(action="censor.retire").message == "Too strict."


def test_censor_false_positive_is_for_reviewers(alice: User, bob: User, censor: Censor) -> None:
    mistaken = url("agent_censor_false_positive", censor.pk)
    assert browser(alice).post(mistaken).status_code == 403
    assert browser(bob).post(mistaken, {"reason": "A quotation."}).status_code == 302
    censor.refresh_from_db()
    assert censor.false_positive_count == 1
    assert browser(bob).get(mistaken).status_code == 405


def test_working_memory_page_shows_the_most_relevant_first(ada: Agent, alice: User, actor: Principal) -> None:
    for text, relevance in (("Little.", 0.2), ("Much.", 0.9)):
        working_item_add(agent=ada, session_id="s", text=text, relevance=relevance, by=actor)
    working_thread_open(agent=ada, session_id="s", text="Ask Tom.", by=actor)
    text = browser(alice).get(url("agent_working")).content.decode()
    assert text.index("Much.") < text.index("Little.")
    assert "Ask Tom." in text
    assert titles(alice, "agent_working", q="other") == []


def test_search_page_shows_results_and_near_misses(ada: Agent, alice: User, actor: Principal) -> None:
    tim = fact_learn(agent=ada, content="Tim sails a red boat to Norway.", by=actor).fact
    fact_learn(agent=ada, content="The kitchen has two ovens.", by=actor)
    embed_pending_rows()
    page = browser(alice).get(url("agent_search"), {"q": "where does Tim sail his boat", "type": "fact"})
    assert [row["hit"].id for row in page.context["above"]] == [str(tim.pk)]
    assert url("agent_fact", tim.pk) in page.content.decode()
    other = browser(alice).get(url("agent_search"), {"q": "where does Tim sail his boat", "type": "episode"})
    assert other.context["above"] == other.context["below"] == []
    assert "Nothing found" in other.content.decode()


@pytest.mark.parametrize("query", [{"q": ""}, {"q": "x", "type": "odd"}])
def test_search_page_names_what_it_cannot_read(ada: Agent, alice: User, query: dict[str, str]) -> None:
    page = browser(alice).get(url("agent_search"), query)
    assert page.status_code == 200
    assert "Not searched:" in page.content.decode()


def test_index_page_names_failed_rows_and_retries_them(
    ada: Agent, alice: User, bob: User, charlie: User, actor: Principal, subconscious_token: str
) -> None:
    fact_learn(agent=ada, content="Tim sails.", by=actor)
    fact_learn(agent=ada, content="Hidden.", by=Principal.of_token(ada.tokens.get(persona="subconscious")))
    SearchItem.objects.update(status="failed", error="The text is too long.", attempts=8)
    page = browser(alice).get(url("agent_index"))
    text = page.content.decode()
    assert page.context["totals"]["failed"] == 1
    assert "The text is too long." in text
    assert "Hidden." not in text
    assert "Retry" not in text
    both = browser(charlie).get(url("agent_index"), {"persona": "subconscious"})
    assert both.context["totals"]["failed"] == 2
    retry = url("agent_index_retry")
    assert browser(alice).post(retry).status_code == 403
    assert browser(bob).post(retry).status_code == 302
    assert set(SearchItem.objects.values_list("status", flat=True)) == {"pending"}


def test_index_page_names_the_search_of_each_collection(ada: Agent, alice: User, charlie: User) -> None:
    EmbeddingModel.objects.create(name="a", dimension=3, state="active")
    SearchStatistics.objects.create(agent=ada, persona="actor", items=12_345, mean_words=9, vector_index_model="a")
    text = browser(alice).get(url("agent_index")).content.decode()
    assert text.count("Approximate index</span>") == 1
    assert "12,345" in text
    assert "Subconscious" not in text.split("How it is searched")[1].split("</table>")[0]
    both = browser(charlie).get(url("agent_index"), {"persona": "subconscious"}).content.decode()
    assert both.count("Full scan") == both.count("at each search") == 1
    # An index of a model that is used no more helps nobody.
    EmbeddingModel.objects.update(name="b")
    assert "Full scan" in browser(alice).get(url("agent_index")).content.decode()


def test_agent_erasure_by_an_administrator(ada: Agent, bob: User, charlie: User, decision: Decision) -> None:
    erase = url("agent_erase")
    assert browser(bob).get(erase).status_code == 403
    client = browser(charlie)
    assert (60, "events") in client.get(erase).context["goes"]
    assert client.post(erase, {"reason": "", "name": "ada"}).status_code == 422
    answer = client.post(erase, {"reason": "The project ended.", "name": "ada"}, follow=True)
    assert "The project ended." in answer.content.decode()
    assert not Agent.objects.filter(slug="ada").exists()


LISTS = ("agent_episodes", "agent_decisions", "agent_procedures", "agent_censors", "agent_working", "agent_index")


@pytest.mark.parametrize("name", LISTS)
def test_memory_pages_number_of_queries_is_constant_at_ten_thousand(
    ada: Agent, charlie: User, name: str, django_assert_max_num_queries: Any
) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    author = {"author_kind": "token", "author_id": "1", "author_name": "x"}
    rows: dict[str, tuple[Any, dict[str, str]]] = {
        "agent_episodes": (Episode(), {"title": "'E' || n"}),
        "agent_decisions": (Decision(), {"description": "'D' || n"}),
        "agent_procedures": (Procedure(), {"name": "'P' || n"}),
        "agent_censors": (Censor(**author), {"pattern": "'c' || n"}),
        "agent_working": (WorkingMemory(persona="actor"), {"session_id": "'s' || n"}),
    }
    if name == "agent_index":
        index_put(IndexEntry(ada.pk, "actor", "event", str(n), "t", at, at) for n in range(10_000))
    else:
        row, changed = rows[name]
        row.agent = ada
        row.save()
        make_copies(row, 9_999, **changed)
    client = browser(charlie)
    client.get("/login/")
    with django_assert_max_num_queries(12 if name == "agent_index" else 10):
        assert client.get(url(name)).status_code == 200


def test_row_of_a_list_links_to_its_page(ada: Agent, alice: User, actor: Principal, subtests: pytest.Subtests) -> None:
    fact_learn(agent=ada, content="Tim sails.", subject="Tim", by=actor)
    procedure_create(agent=ada, name="Restart", by=actor)
    document_put(agent=ada, namespace=["notes"], key="plan", value={"text": "A"}, by=actor)
    censor_create(agent=ada, pattern="secret", reason="Never.", by=actor)
    for page in ["agent_subjects", "agent_procedures", "agent_documents", "agent_censors"]:
        with subtests.test(page=page):
            shown = browser(alice).get(url(page))
            (row,) = shown.context["rows"]
            assert f'href="{row.get_absolute_url()}"' in shown.content.decode()
