"""Erasure: what is erased is gone everywhere, what is not is untouched, and a receipt says so without the content."""

import io

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from context.feedback.health_score import snapshot_put
from context.models import ContextRun, FigureSnapshot
from identity.models import Agent, ApiToken, AuditEvent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.proposals import identity_propose
from memory.migration_operations import erasure_blanks, project_erasure_deletes
from memory.models import (
    Episode,
    EpisodeEvent,
    Event,
    Fact,
    FactChange,
    JudgeCall,
    MemoryReview,
    SearchItem,
    WorkingMemory,
)
from memory.services.decisions import decision_record
from memory.services.documents import document_put
from memory.services.erasure import (
    agent_erase,
    document_erase,
    event_erase,
    fact_erase,
    project_erase,
    subject_erase,
    user_erase,
)
from memory.services.events import events_record
from memory.services.facts import fact_learn
from memory.services.loops import derived_backfill
from memory.services.reviews.resolve import review_resolve
from nousweb.lib import clock
from nousweb.lib.errors import Invalid, NotAllowed, NotFound
from tests.database import as_the_owner
from tests.factories import make_events, make_review
from tests.http import browser
from tests.judge_server import JudgeServer

SECRET = 'Zanzibar "Q" Quux lives at 12 Elm\\Road'


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


def learn(agent, by, content, subject="Zanzibar"):
    return fact_learn(agent=agent, content=content, subject=subject, by=by).fact


def supersede(old, new, by):
    """`new` replaces `old`, with the rows that a supersession writes."""
    Fact.objects.filter(pk=old.pk).update(superseded_by=new, active=False, retired_at=clock.now())
    Fact.objects.filter(pk=new.pk).update(contradiction_of=old)
    for fact, other in ((old, new), (new, old)):
        FactChange.objects.create(
            agent=fact.agent, fact=fact, other=other, action="superseded", reason=f"not {other.content}",
            author_kind=by.kind, author_id=by.id, author_name=by.name,
        )  # fmt: skip
    audit_record(
        by=by, action="fact.supersede", target=old, agent=old.agent, before={"content": old.content},
        after={"content": new.content}, message=f"{new.content} it is",
    )  # fmt: skip


def everything(*, but=()):
    """The whole database as text, table by table."""
    found = {}
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            if model._meta.app_label in ("identity", "memory", "context", "django_q") and model not in but:
                table = connection.ops.quote_name(model._meta.db_table)
                cursor.execute(f"SELECT to_jsonb(t)::text FROM {table} t ORDER BY 1")  # noqa: S608
                found[model._meta.model_name] = [row[0] for row in cursor.fetchall()]
    return found


def assert_gone(*words):
    for name, rows in everything().items():
        for row in rows:
            assert not any(word in row for word in words), f"{name}: {row}"


def test_erasure_of_a_fact_leaves_only_a_receipt(ada, actor, admin, api, actor_token, charlie):
    fact = learn(ada, actor, SECRET)
    kept = learn(ada, actor, "The office is in Oslo.", "office")
    Fact.objects.filter(pk=fact.pk).update(category="person")
    shown = api.as_token(actor_token).post("/context", {"session_id": "s", "input": "Who is it?"})
    assert "Zanzibar" in shown.content.decode()
    before_erasure = ContextRun.objects.create(
        agent=ada, persona="actor", session_id="s", input="none of it", request={}, system_prompt="x", sections=[],
        tokens=1, duration_ms=1, principal_name="x",
    )  # fmt: skip
    WorkingMemory.objects.create(
        agent=ada, persona="actor", session_id="s", task="go",
        items=[{"id": str(fact.pk), "type": "fact", "text": SECRET}, {"id": "1", "type": "note", "text": "stays"}],
    )  # fmt: skip
    receipt = fact_erase(fact=fact, by=admin, reason="Asked by the person.")
    assert_gone("Zanzibar", "Elm")
    assert receipt.rows == {
        "contextrun": 1, "factchange": 1, "fact": 1, "searchitem": 1, "workingmemory": 1, "auditevent": 2,
        "subject": 1, "subjectalias": 1, "subjectchange": 1,
    }  # fmt: skip
    assert receipt.still_quoted == {}
    assert Fact.objects.get() == kept
    assert SearchItem.objects.get().item_id == str(kept.pk)
    assert ContextRun.objects.get() == before_erasure
    assert WorkingMemory.objects.get().items == [{"id": "1", "type": "note", "text": "stays"}]
    left = AuditEvent.objects.get(action="fact.erase")
    assert (left.author_name, left.object_id, left.object_label) == ("charlie", str(fact.pk), "A fact")
    assert (left.message, left.after) == ("Asked by the person.", {"rows": receipt.rows})


def test_erasure_keeps_audit_records_of_other_things(ada, bruno, actor, admin):
    learn(ada, actor, "The office is in Oslo.", "office")
    learn(bruno, Principal.of_system("tests"), SECRET)
    fact = learn(ada, actor, SECRET)
    about = [str(fact.pk), str(fact.subject_alias.subject_id)]
    about = AuditEvent.objects.filter(object_id__in=about).values_list("pk", flat=True)
    others = list(AuditEvent.objects.exclude(pk__in=list(about)).order_by("pk").values())
    fact_erase(fact=fact, by=admin, reason="x")
    assert list(AuditEvent.objects.filter(pk__in=[row["id"] for row in others]).order_by("pk").values()) == others
    assert Fact.objects.filter(agent=bruno).exists(), "another agent's memory is its own"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_erasure_closes_the_chain_over_the_fact(ada, actor, admin, place):
    chain = [learn(ada, actor, f"Fact number {name} of the chain.") for name in ("one", "two", "three")]
    supersede(chain[0], chain[1], actor)
    supersede(chain[1], chain[2], actor)
    gone = chain.pop(place)
    fact_erase(fact=gone, by=admin, reason="x")
    assert_gone(gone.content)
    first, second = (Fact.objects.get(pk=fact.pk) for fact in chain)
    assert (first.superseded_by_id, second.superseded_by_id) == (second.pk, None)
    assert second.contradiction_of_id == (None if place == 1 else first.pk)
    history = FactChange.objects.order_by("pk")
    assert {change.fact_id for change in history} == {first.pk, second.pk}
    named = [change for change in history if change.action == "superseded"]
    assert all(change.reason == "" for change in named if change.other_id is None)
    assert [change.other_id for change in named if change.other_id] == ([second.pk, first.pk] if place != 1 else [])
    stored = AuditEvent.objects.get(object_id=first.pk, action="fact.store")
    assert stored.object_label == first.content


def test_erasure_of_a_subject_ignores_case_and_covers_both_personas(ada, actor, admin, system):
    learn(ada, actor, "Zanzibar likes tea very much.", "Zanzibar Q")
    learn(ada, actor, "Tea is liked by nobody else.", "ZANZIBAR q")
    hidden = learn(ada, actor, "Zanzibar seems unhappy lately.", "zanzibar Q")
    Fact.objects.filter(pk=hidden.pk).update(persona="subconscious")
    learn(ada, actor, "The office is in Oslo.", "office")
    receipt = subject_erase(agent=ada, subject="zanzibar q", by=admin, reason="Asked by the person.")
    assert receipt.rows["fact"] == 3
    assert_gone("anzibar", "Tea is liked", "ANZIBAR")
    assert Fact.objects.count() == 1
    assert AuditEvent.objects.get(action="subject.erase").object_label == "A subject"
    with pytest.raises(NotFound):
        subject_erase(agent=ada, subject="zanzibar q", by=admin, reason="again")


@pytest.mark.parametrize(
    "erase",
    [
        lambda fact, event, **by: [fact_erase(fact=fact, **by), event_erase(event=event, **by)],
        lambda fact, event, **by: [event_erase(event=event, facts=[fact.pk], **by)],
        lambda fact, event, **by: [subject_erase(agent=fact.agent, subject="zanzibar", **by)],
        lambda fact, event, **by: [project_erase(agent=fact.agent, project="zeus", **by)],
        lambda fact, event, **by: [user_erase(agent=fact.agent, user="mia", **by)],
    ],
    ids=["fact and event", "event with facts", "subject", "project", "user"],
)
def test_erasure_leaves_no_name_of_it_in_what_a_proposal_was_learned_from(ada, actor, admin, erase):
    keys = {"project": "zeus", "user": "mia"}
    fact = fact_learn(agent=ada, content=SECRET, subject="Zanzibar", by=actor, **keys).fact
    [event] = make_events(ada, actor, "Ask at the harbour.", **keys)
    [kept] = make_events(ada, actor, "Ask at the harbour again.")
    named = [f"event {kept.pk}", f"fact {fact.pk}", f"event {event.pk}"]
    for place, status in enumerate(ChangeProposal.Status):
        proposal = identity_propose(
            agent=ada, section="values", content=f"Wish {place}.", learned_from=named, by=actor, wait=True
        ).proposal
        proposal.put(status=status)
    receipts = erase(fact, event, by=admin, reason="Asked.")
    gone = named[1:2] if Event.objects.filter(pk=event.pk).exists() else named[1:]
    left = ChangeProposal.objects.values_list("learned_from", flat=True)
    assert [*left] == [[name for name in named if name not in gone]] * len(ChangeProposal.Status)
    assert {receipt.rows["changeproposal"] for receipt in receipts} == {len(ChangeProposal.Status)}
    assert "changeproposal" not in receipts[0].still_quoted


def test_erasure_counts_and_keeps_what_still_quotes_the_fact(ada, actor, admin):
    fact = learn(ada, actor, SECRET)
    make_events(ada, actor, f"They say {SECRET}.")
    receipt = fact_erase(fact=fact, by=admin, reason="x")
    assert receipt.still_quoted == {"event": 1}


def rows_of(agent):
    wanted = f'"agent_id": {agent.pk},'
    return {name: [row for row in rows if wanted in row] for name, rows in everything().items()}


@pytest.fixture
def full(ada, actor, bruno, system):
    """Ada with a row of everything there is, and Bruno with some too."""
    for agent, by in ((ada, actor), (bruno, system)):
        made = events_record(
            agent=agent,
            events=[{"kind": "user_input", "content": SECRET}, {"kind": "actor_output", "content": "ok"}],
            by=by,
        )
        derived_backfill()
        facts = [learn(agent, by, SECRET), learn(agent, by, "Zanzibar moved away.")]
        supersede(*facts, by)
        episode = Episode.objects.create(agent=agent, title=SECRET)
        EpisodeEvent.objects.create(agent=episode.agent, episode=episode, event=made[0].event)
        Fact.objects.filter(agent=agent).update(source_event=made[0].event, source_episode=episode)
        WorkingMemory.objects.create(agent=agent, persona="actor", session_id="s", task=SECRET)
        identity_propose(agent=agent, section="character", content=SECRET, reason=SECRET, by=by)
        snapshot_put("health by day", agent.pk, {}, both=True)
    snapshot_put("growth", None, {}, both=True)
    return ada


def test_erasure_of_an_agent_leaves_blank_audit_records_and_a_receipt(full, bruno, admin):
    ada = full
    audited = AuditEvent.objects.filter(agent=ada).count()
    bruno_had = rows_of(bruno)
    receipt = agent_erase(agent=ada, by=admin, reason="The contract has ended.")
    for model in apps.get_models():
        names = {field.name for field in model._meta.concrete_fields}
        if "agent" in names and model is not AuditEvent:
            assert not model._default_manager.filter(agent_id=ada.pk).exists(), model
    assert not Agent.objects.filter(slug="ada").exists()
    left = AuditEvent.objects.filter(agent_id=ada.pk)
    assert left.count() == audited + 1
    for row in left.exclude(action="agent.erase"):
        assert (row.before, row.after, row.message, row.object_label) == (None, None, "", "")
        assert row.action
        assert row.author_name
    done = left.get(action="agent.erase")
    assert (done.message, done.object_label, done.after["rows"]) == ("The contract has ended.", "ada", receipt.rows)
    assert receipt.rows["event"] == receipt.rows["longtermentry"] == 2
    assert {"agent", "apitoken", "identityversion", "changeproposal", "fact", "factchange"} <= set(receipt.rows)
    assert rows_of(bruno) == bruno_had
    assert Event.objects.count() == 2
    assert EpisodeEvent.objects.count() == 1
    assert sorted(FigureSnapshot.objects.values_list("name", flat=True)) == ["growth", "health by day"]
    assert not any(SECRET[:8] in str(row.after) + row.object_label for row in left)


def test_erasure_of_an_agent_ends_its_tokens(full, api, actor_token, admin):
    assert api.as_token(actor_token).get("/events").status_code == 200
    agent_erase(agent=full, by=admin, reason="x")
    assert api.as_token(actor_token).get("/events").status_code == 401
    assert not ApiToken.objects.filter(agent_id=full.pk).exists()
    assert not IdentityVersion.objects.filter(agent_id=full.pk).exists()
    assert not ChangeProposal.objects.filter(agent_id=full.pk).exists()


def test_erasure_of_an_agent_keeps_earlier_receipts(ada, actor, admin):
    fact_erase(fact=learn(ada, actor, SECRET), by=admin, reason="first")
    agent_erase(agent=ada, by=admin, reason="second")
    assert AuditEvent.objects.get(action="fact.erase").message == "first"


def test_erasure_is_for_administrators(ada, actor, bob, alice, system):
    fact = learn(ada, actor, SECRET)
    before = everything()
    for by in (actor, Principal.of_user(bob), Principal.of_user(alice)):
        for erase, what in ((fact_erase, {"fact": fact}), (agent_erase, {"agent": ada})):
            with pytest.raises(NotAllowed):
                erase(**what, by=by, reason="x")
        with pytest.raises(NotAllowed):
            subject_erase(agent=ada, subject="Zanzibar", by=by, reason="x")
    assert everything() == before


def test_erasure_needs_a_reason_and_an_existing_object(ada, actor, admin):
    fact = learn(ada, actor, SECRET)
    with pytest.raises(Invalid):
        fact_erase(fact=fact, by=admin, reason="  ")
    fact_erase(fact=fact, by=admin, reason="x")
    with pytest.raises(NotFound):
        fact_erase(fact=fact, by=admin, reason="x")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE identity_auditevent SET message = 'other'",
        "UPDATE identity_auditevent SET message = '', action = 'other'",
        "UPDATE identity_auditevent SET before = '{}'",
        "UPDATE identity_auditevent SET author_name = ''",
        "UPDATE identity_auditevent SET at = now()",
        "UPDATE memory_factchange SET reason = ''",
        "UPDATE memory_event SET content = ''",
        "TRUNCATE identity_auditevent",
    ],
)
def test_erasure_bypasses_append_only_for_nothing_else(ada, actor, statement):
    learn(ada, actor, SECRET)
    make_events(ada, actor, "x")
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET LOCAL nous.erasure = 'on'")
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute(statement)


def test_erasure_restores_append_only_afterwards(ada, actor, admin):
    fact = learn(ada, actor, SECRET)
    fact_erase(fact=fact, by=admin, reason="x")
    for statement in ("DELETE FROM identity_auditevent", "UPDATE identity_auditevent SET message = ''"):
        with as_the_owner(), pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            connection.cursor().execute(statement)


def test_erasure_knows_every_reference_to_a_fact():
    """A new table that refers to facts has to be thought of in memory/services/erasure.py."""
    known = {(Fact, "superseded_by"), (Fact, "contradiction_of"), (FactChange, "fact"), (FactChange, "other")}
    known |= {(MemoryReview, "old"), (MemoryReview, "new")}
    relations = [one for one in Fact._meta.get_fields(include_hidden=True) if one.auto_created and one.is_relation]
    assert {(one.related_model, one.field.name) for one in relations} == known


def test_erasure_command_names_what_it_erased(ada, actor):
    fact = learn(ada, actor, SECRET)
    learn(ada, actor, "Zanzibar moved.", "Zanzibar")
    said = io.StringIO()
    call_command("erase", "fact", str(fact.pk), reason="asked", no_input=True, stderr=said)
    assert "1 fact," in said.getvalue()
    call_command("erase", "subject", "ada", "zanzibar", reason="asked", no_input=True, stderr=said)
    call_command("erase", "agent", "ada", reason="asked", no_input=True, stderr=said)
    assert not Agent.objects.exists()
    for gone in (("fact", str(fact.pk)), ("subject", "ada", "x"), ("agent", "ada")):
        with pytest.raises(CommandError, match="There is no"):
            call_command("erase", *gone, reason="asked", no_input=True)


def test_erasure_command_asks_first(ada, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: "yes")
    with pytest.raises(CommandError, match="Nothing was erased"):
        call_command("erase", "agent", "ada", reason="x")
    assert Agent.objects.exists()


def test_erasure_takes_reviews_and_jobs_about_the_fact(ada, actor, charlie):
    fact_learn(agent=ada, content="The job's twin is in Graz.", subject="job", by=actor)
    learned = fact_learn(agent=ada, content="The job's twin is in Linz.", subject="job", by=actor)
    assert MemoryReview.objects.filter(facts__contains=[learned.fact.pk]).exists()
    fact_erase(fact=learned.fact, by=Principal.of_user(charlie), reason="Asked for.")
    assert not MemoryReview.objects.exists()
    assert not any("Linz" in str(row) for row in FactChange.objects.values_list("evidence", flat=True))


def test_erasure_takes_what_a_judge_wrote_about_the_fact(ada, actor, admin):
    told = "It says where Zanzibar Quux sleeps."
    with JudgeServer() as server, server.configured():
        learn(ada, actor, "Zanzibar never sleeps at home on Mondays.")
        server.reply(relation="contradiction", confidence=0.9, reason=told)
        second = learn(ada, actor, "Zanzibar sometimes sleeps at home on Mondays.")
        server.reply(relation="update", confidence=0.3, reason=told)
        learn(ada, actor, "Zanzibar often sleeps at home on Mondays.")
    review_resolve(review=MemoryReview.objects.get(new=second), resolution="same", by=admin, comment=told)
    assert told in str(everything())
    subject_erase(agent=ada, subject="Zanzibar", by=admin, reason="They asked.")
    assert JudgeCall.objects.count() >= 2
    assert "Zanzibar" not in str(everything())


def test_erasure_of_one_fact_takes_what_was_written_about_the_pair(ada, actor, admin):
    told = "Both say where Zanzibar Quux sleeps."
    review = make_review(ada, actor, "Zanzibar bunks with Uli.", "Zanzibar bunks with Ivo.", subject="Zanzibar")
    second = review.new
    review_resolve(review=review, resolution="same", by=admin, comment=told)
    fact_erase(fact=second, by=admin, reason="They asked.")
    found = str(everything())
    assert told not in found
    assert "Ivo" not in found
    assert "Uli" in found


LONG = (
    "On the morning of the fourth the harbour master of Zanzibar wrote to the guild that no ship may leave before "
    "noon, since the tide had carried three barrels of indigo against the pier and nobody knew whose they were."
)


@pytest.mark.parametrize("begin", [0, 5, 31, 60, 100, len(LONG) - 70])
def test_erasure_takes_quotes_from_the_middle_of_a_text(ada, actor, admin, begin):
    fact = learn(ada, actor, LONG, "harbour")
    quote = LONG[begin : begin + 70]
    about = Episode.objects.create(agent=ada, title="Trip")
    audit_record(by=actor, action="episode.append", target=about, agent=ada, message=f"It says: {quote}")
    other = "On the morning of the fifth they sailed."
    audit_record(by=actor, action="episode.append", target=about, agent=ada, message=other)
    WorkingMemory.objects.create(
        agent=ada, persona="actor", session_id="s", items=[{"id": "1", "type": "note", "text": f"Note: {quote}"}]
    )
    receipt = fact_erase(fact=fact, by=admin, reason="x")
    assert_gone(quote[10:60])
    assert receipt.still_quoted == {}
    assert AuditEvent.objects.filter(message=other).exists(), "it quotes less than forty characters"


@pytest.mark.parametrize("what", ["fact", "document", "project", "subject"])
def test_erasure_takes_the_filters_of_exports_that_name_it(ada, actor, admin, charlie, what):
    fact = learn(ada, actor, "The lift to Zanzibar costs nine.", "Quux")
    notes = {"namespace": ["notes"], "value": {"text": "The lift to Zanzibar costs nine."}, "agent": ada, "by": actor}
    document = document_put(key="a", **notes).document
    decision_record(agent=ada, description="Zanzibar by lift.", project="Quux", by=actor)
    client = browser(charlie)
    for query in ("q=zanzibar", "subject=quux", "q=oslo", "state=all", "project=Quux"):
        assert client.get(f"/agents/ada/facts/?{query}&export=csv").status_code == 200
    if what == "fact":
        fact_erase(fact=fact, by=admin, reason="x")
    elif what == "subject":
        subject_erase(agent=ada, subject="Quux", by=admin, reason="x")
    elif what == "document":
        document_erase(document=document, by=admin, reason="x")
    else:
        project_erase(agent=ada, project="Quux", by=admin, reason="x")
    kept = AuditEvent.objects.filter(action="list.export").order_by("pk")
    filters = [record.after and record.after["filters"] for record in kept]
    named = {"fact": (0, 1, 4), "subject": (0, 1, 4), "document": (0,), "project": (0, 1, 4)}[what]
    given = [{"q": ["zanzibar"]}, {"subject": ["quux"]}, {"q": ["oslo"]}, {"state": ["all"]}, {"project": ["Quux"]}]
    assert filters == [None if place in named else one for place, one in enumerate(given)]


def sources(*calls: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"pg_get_functiondef('{call}'::regprocedure)" for call in calls))
        return list(cursor.fetchone())


def test_erasures_of_memories_learn_of_a_new_model(db: None) -> None:
    """As CONTRIBUTING.md has it for a new type of memory: the operation of a migration, forwards and backwards."""
    kinds = {"facts": "uuid[]", "documents": "uuid[]", "events": "bigint[]"}
    calls = [f"nous_erase_{name}(bigint, {key}, bigint[], jsonb)" for name, key in kinds.items()]
    operation = erasure_blanks("note")
    before = sources(*calls)
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute(operation.sql)
        assert all("a.object_type IN ('note', " in source for source in sources(*calls))
        cursor.execute(operation.reverse_sql)
    assert sources(*calls) == before


def test_erasures_of_a_project_and_a_user_learn_of_a_new_model(db: None) -> None:
    """As CONTRIBUTING.md has it for a new type of memory: the operation of a migration, forwards and backwards."""
    calls = {
        key: f"nous_erase_{name}(bigint, text, jsonb)" for name, key in (("project", "project"), ("user", "user_key"))
    }

    operation = project_erasure_deletes("note")
    before = sources(*calls.values())
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute(operation.sql)
        after = sources(*calls.values())
        cursor.execute(operation.reverse_sql)
    for key, source in zip(calls, after, strict=True):
        assert f"FROM memory_note d WHERE d.agent_id = agent AND d.{key} = named" in source
        assert "a.object_type IN ('decision', 'note', " in source
    assert sources(*calls.values()) == before
