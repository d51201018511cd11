"""Every page of the console with the arguments of its address, and a story that has something of everything."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User

from context.engine.analysis.request import ContextRequest
from context.expectations.services import expectation_create, expectations_verify, request_of
from context.models import ContextRun, Expectation
from context.services.context import context_assemble
from identity.models import Agent, ApiToken, AuditEvent, ChangeProposal, OAuthClient, Webhook
from identity.principal import Principal
from identity.services.oauth import oauth_client_register
from identity.services.people import invitation_create
from identity.services.proposals import identity_propose
from identity.services.webhooks import webhook_create
from memory.jobs import job_queue
from memory.models import (
    Censor,
    Document,
    Episode,
    Event,
    Fact,
    FileRun,
    Job,
    MemoryReview,
    Procedure,
    SearchItem,
    Subject,
)
from memory.services.censors import censor_create
from memory.services.decisions import decision_record
from memory.services.documents import document_put
from memory.services.episodes import episode_append, episode_close, episode_open
from memory.services.events import events_record
from memory.services.facts import fact_invalidate, fact_learn, fact_supersede
from memory.services.procedures import procedure_create
from memory.services.reviews.open_review import escalation_announce
from memory.services.working_memory import working_item_add, working_thread_open
from memory.transfer.file_runs import export_start, import_create, import_receive, run_work
from memory.types import MEMORY_TYPES

Arguments = Callable[[], list[Any]]


def proposals(**fields: Any) -> Arguments:
    return lambda: [ChangeProposal.objects.filter(**fields).earliest("created_at").pk]


def none() -> list[Any]:
    return []


def of_ada(*more: Any) -> Arguments:
    return lambda: ["ada", *more]


def memory(model: Any, *more: Any, **fields: Any) -> Arguments:
    return lambda: ["ada", model.objects.filter(**fields).earliest("pk").pk, *more]


def _all_selected() -> str:
    """Every proposal that waits."""
    waiting = ChangeProposal.objects.filter(status="pending").values_list("pk", flat=True)
    return "?" + "&".join(f"selected={pk}" for pk in waiting)


def _invited() -> list[Any]:
    owner = Principal.of_user(User.objects.get(username="owner"))
    return [invitation_create(role="Viewer", note="Somebody", by=owner)[1]]


def connection_asked(client: OAuthClient) -> dict[str, str]:
    """What a client asks a person for."""
    return {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uris[0],
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
    }


def question(**fields: Any) -> Arguments:
    return lambda: [MemoryReview.objects.filter(**fields).earliest("created_at").pk]


def of_type(model: Any) -> Arguments:
    """A memory of the story, or an empty one of a type that the story does not have."""
    return lambda: ["ada", (model.objects.earliest("pk") if model.objects.exists() else _empty(model)).pk]


def _empty(model: Any) -> Any:
    return model.objects.create(agent=Agent.objects.get(slug="ada"))


PAGES: dict[str, tuple[str, Arguments, str | Callable[[], str]]] = {
    **{f"{name}s": (f"agent_{name}s", of_ada(), "") for name in MEMORY_TYPES},
    **{str(name): (f"agent_{name}", of_type(declared.model), "") for name, declared in MEMORY_TYPES.items()},
    "login": ("login", none, ""),
    "login, code": ("login_code", none, ""),
    "home": ("home", none, ""),
    "usage": ("usage", none, ""),
    "inbox": ("inbox", none, ""),
    "inbox, one part": ("inbox", none, "?view=applied&sort=newest"),
    "inbox, compared": ("inbox_compare", lambda: ["changeproposal", *proposals(section="values")()], ""),
    "inbox, empty": ("inbox", none, "?view=mentioned"),
    "notifications": ("notifications", none, ""),
    "queue": ("review", none, ""),
    "queue, applied": ("review", none, "?status=applied"),
    "queue, decided": ("review", none, "?status=decided"),
    "queue, empty": ("review", none, "?agent=nobody"),
    "proposal": ("proposal", proposals(status="pending", section="boundaries"), ""),
    "proposal, unified": ("proposal", proposals(status="pending", section="boundaries"), "?layout=unified"),
    "proposal, stale": ("proposal", proposals(status="pending", section="values"), ""),
    "proposal, applied": ("proposal", proposals(status="applied"), "?status=applied"),
    "proposal, decided": ("proposal", proposals(status="approved"), "?status=decided"),
    "audit": ("audit", none, ""),
    "record": ("audit_event", lambda: [AuditEvent.objects.filter(action="proposal.create").latest("pk").pk], ""),
    "integrity": ("integrity", none, ""),
    "agents": ("agents", none, ""),
    "new agent": ("agent_new", none, ""),
    "agent's settings": ("agent_settings", of_ada(), ""),
    "initiate": ("agent_initiate", of_ada(), ""),
    "identity": ("agent_identity", of_ada(), ""),
    "history": ("section_history", of_ada("values"), ""),
    "history, none": ("section_history", of_ada("environment"), ""),
    "compare": ("section_compare", of_ada("values"), "?from=1&to=2"),
    "compare, missing": ("section_compare", of_ada("values"), "?from=1&to=7"),
    "propose": ("section_propose", of_ada("values"), ""),
    "roll back": ("section_rollback", of_ada("values", 1), ""),
    "people": ("people", none, ""),
    "log-in rules": ("second_factor_requirements", none, ""),
    "person": ("person", lambda: [User.objects.get(username="bob").pk], ""),
    "account": ("account", none, ""),
    "account, second factor": ("second_factor", none, ""),
    "account, fresh code": ("account_confirm", none, ""),
    "second factor": ("second_factor", none, ""),
    "invitation": ("invitation", _invited, ""),
    "connect": ("agent_connect", of_ada(), ""),
    "tokens": ("agent_tokens", of_ada(), ""),
    "clients": ("oauth_clients", none, ""),
    "client, delete": ("oauth_client_delete", lambda: [OAuthClient.objects.latest("pk").pk], ""),
    "consent": ("oauth_authorize", none, lambda: f"?{urlencode(connection_asked(OAuthClient.objects.latest('pk')))}"),
    "consent, refused": ("oauth_authorize", none, "?client_id=none"),
    "changes": ("agent_changes", of_ada(), ""),
    "webhooks": ("agent_webhooks", of_ada(), ""),
    "webhook": ("agent_webhook", memory(Webhook), ""),
    "webhook, edit": ("agent_webhook_edit", memory(Webhook), ""),
    "webhook, delete": ("agent_webhook_delete", memory(Webhook), ""),
    "revoke": ("agent_token_revoke", lambda: ["ada", ApiToken.objects.latest("pk").pk], ""),
    "token, new secret": ("agent_token_rotate", lambda: ["ada", ApiToken.objects.latest("pk").pk], ""),
    "questions": ("memory_review", none, ""),
    "questions, answered": ("memory_review", none, "?status=decided"),
    "questions, empty": ("memory_review", none, "?agent=nobody"),
    "question": ("memory_review_detail", question(subject="harbour"), ""),
    "question, escalation": ("memory_review_detail", question(kind="escalation"), ""),
    "automatic decisions": ("automatic_decisions", none, ""),
    "endings": ("agent_endings", of_ada(), ""),
    "document, end": ("agent_document_expiry", memory(Document), ""),
    "supersessions": ("agent_supersessions", of_ada(), ""),
    "subject": ("agent_subject", of_ada("Ms Lind"), ""),
    "facts, as of": ("agent_facts", of_ada(), "?as_of=2026-01-01T00:00"),
    "subjects": ("agent_subjects", of_ada(), ""),
    "subject by id": ("agent_subject_thing", memory(Subject, name="Ms Lind"), ""),
    "lifecycle": ("lifecycle", none, ""),
    "lifecycle, done": ("lifecycle", none, "?status=done"),
    "lifecycle, given up": ("lifecycle", none, "?status=dead"),
    "lifecycle, schedules": ("lifecycle", none, "?tab=schedules"),
    "facts, nothing found": ("agent_facts", of_ada(), "?q=nothing"),
    "add fact": ("agent_fact_add", of_ada(), ""),
    "facts of both": ("agent_facts", of_ada(), "?persona=subconscious&state=all"),
    "fact": ("agent_fact", memory(Fact, active=True), ""),
    "fact, superseded": ("agent_fact", memory(Fact, superseded_by__isnull=False), ""),
    "fact, found wrong": ("agent_fact", memory(Fact, invalidated_at__isnull=False), ""),
    **{
        f"fact, {change}": ("agent_fact_change", memory(Fact, change, active=True), "")
        for change in ("supersede", "edit")
    },
    "fact, restore": ("agent_fact_change", memory(Fact, "restore", active=False), ""),
    "erase fact": ("agent_fact_erase", memory(Fact, active=True), ""),
    "erase subject": ("agent_subject_erase", of_ada(), "?subject=Ms+Lind"),
    "erase event": ("agent_event_erase", memory(Event), ""),
    "erase document": ("agent_document_erase", memory(Document), ""),
    "erase project": ("agent_project_erase", of_ada(), "?project=regatta"),
    "erase agent": ("agent_erase", of_ada(), ""),
    "users": ("agent_users", of_ada(), ""),
    "user": ("agent_user", of_ada("mia"), ""),
    "erase user": ("agent_user_erase", of_ada(), "?user=mia"),
    "events, each": ("agent_events", of_ada(), "?view=events"),
    "event": ("agent_event", memory(Event, kind="tool_result"), ""),
    "event, wrong": ("agent_event_wrong", memory(Event, kind="tool_result"), ""),
    "loop": ("agent_loop", of_ada("loop 1/a"), ""),
    "episode, edit": ("agent_episode_edit", memory(Episode), ""),
    "episode, close": ("agent_episode_close", memory(Episode), ""),
    "procedure, edit": ("agent_procedure_edit", memory(Procedure), ""),
    "censors": ("agent_censors", of_ada(), ""),
    "censor": ("agent_censor", memory(Censor), ""),
    "add censor": ("agent_censor_add", of_ada(), ""),
    "edit censor": ("agent_censor_edit", memory(Censor), ""),
    "bench": ("agent_censor_bench", of_ada(), "?text=Now+drop+the+table"),
    "working memory": ("agent_working", of_ada(), ""),
    "search": ("agent_search", of_ada(), ""),
    "search, found": ("agent_search", of_ada(), "?q=who+is+Ms+Lind"),
    "index": ("agent_index", of_ada(), ""),
    "health": ("agent_health", of_ada(), ""),
    "health, a list": ("agent_health_list", of_ada("contested"), ""),
    "health, tokens": ("agent_health_ledger", of_ada(), ""),
    "imports": ("agent_imports", of_ada(), ""),
    "import": ("agent_import", memory(FileRun, kind="import"), ""),
    "playground": ("agent_playground", of_ada(), ""),
    "playground, side by side": ("agent_playground_compare", of_ada(), ""),
    "playground, on questions": ("agent_playground_compare", of_ada(), "?table=1"),
    "export": ("agent_export", memory(FileRun, kind="export"), ""),
    "context": ("agent_context", of_ada(), "?input=Hello"),
    "run": ("agent_context_run", lambda: ["ada", ContextRun.objects.latest("created_at").pk], ""),
    **{
        f"run, {tab}": ("agent_context_run", lambda: ["ada", ContextRun.objects.latest("created_at").pk], f"?tab={tab}")
        for tab in ("prompt", "left", "why")
    },
    "context, left": ("agent_context", of_ada(), "?input=Hello&tab=left"),
    "context, empty": ("agent_context", of_ada(), ""),
    "context, refused": ("agent_context", of_ada(), "?input=Hello&conversation=nobody"),
    "context, session": ("agent_context_session", of_ada(), "?session=s"),
    "context, bisect": (
        "agent_context_bisect",
        lambda: ["ada", ContextRun.objects.latest("created_at").pk],
        "?since=2020-01-01T00:00",
    ),
    "context, log": ("agent_context_runs", of_ada(), ""),
    "context, compare": (
        "agent_context_compare",
        of_ada(),
        lambda: f"?a={ContextRun.objects.latest('created_at').pk}&b=now&b_frame=decision",
    ),
    "context, compare nothing": ("agent_context_compare", of_ada(), ""),
    "context, fingerprints": ("agent_context_fingerprints", of_ada(), ""),
    "context, impact": ("agent_context_blast", of_ada(), "?pattern=tea&severity=block"),
    "context, impact of one": (
        "agent_context_blast",
        of_ada(),
        lambda: f"?pattern=tea&run={ContextRun.objects.latest('created_at').pk}",
    ),
    "context, impact of proposals": ("context_blast_proposals", none, _all_selected),
    "context, impact of nothing": ("context_blast_questions", none, "?answer=same"),
    "context, settings": ("agent_context_settings", of_ada(), ""),
    "consent rules": ("agent_consent", of_ada(), ""),
    "expectations": ("agent_expectations", of_ada(), ""),
    "expectations, none in a state": ("agent_expectations", of_ada(), "?state=retired"),
    "expectation": ("agent_expectation", memory(Expectation), ""),
    "context, pins": ("agent_context_pins", of_ada(), ""),
    "profiles": ("context_profiles", none, ""),
    "profile": ("context_profile", lambda: ["squire_default"], ""),
    "profile, edit": ("context_profile_edit", lambda: ["squire_default"], ""),
    "profile, copy": ("context_profile_copy", lambda: ["squire_default"], ""),
    "profile, history": ("context_profile_history", lambda: ["squire_default"], ""),
    "search, everything": ("search", none, "?q=tea"),
    "refused": ("proposal", lambda: ["00000000-0000-4000-8000-000000000000"], ""),
}
NO_PAGES = {
    "styleguide",
    "account_provider",
    "agent",
    "openid_connect_callback",
    "openid_connect_login",
    "person_agents",
    "person_deactivate",
    "person_reactivate",
    "person_second_factor_reset",
    "person_sign_out",
    "person_staff_give",
    "person_staff_take",
    "recovery_codes_renew",
    "second_factor_remove",
    "invitation_revoke",
    "account_mail",
    "account_name",
    "account_sessions_end",
    "inbox_bulk",
    "inbox_list",
    "inbox_filter_delete",
    "inbox_filter_save",
    "inbox_undo",
    "item_change",
    "notifications_mark",
    "oauth_resource",
    "oauth_resource_mcp",
    "oauth_server",
    "oauth_register",
    "oauth_token",
    "oauth_revoke",
    "agent_connect_state",
    "agent_context_cause",
    "agent_context_item",
    "agent_expectation_demand",
    "agent_expectation_undo",
    "agent_expectations_check",
    "agent_context_outcome",
    "agent_context_profile",
    "agent_context_settings_restore",
    "agent_context_tokens",
    "agent_censor_false_positive",
    "agent_index_retry",
    "agent_import_state",
    "integrity_state",
    "integrity_verify",
    "demo_tour_leave",
    "demo_tour_resume",
    "agent_import_part",
    "agent_import_change",
    "agent_exports",
    "agent_export_state",
    "agent_export_file",
    "agent_export_change",
    "agent_procedure_use",
    "agent_subject_add",
    "agent_subject_beside",
    "agent_subject_change",
    "agent_supersession_undo",
    "lifecycle_retry",
    "lifecycle_schedule",
    "lifecycle_screening",
    "automatic_decisions_undo",
    "agent_health_bulk",
    "logout",
    "proposal_preview",
    "section_preview",
    "agent_document_change",
}
"""Addresses that answer a form or a part of a page, or developers only."""


def story_told(ada: Agent, actor: Principal, bob: User, charlie: User) -> None:
    """Something of everything."""
    by = Principal.of_user(bob)
    webhook_create(agent=ada, url="https://example.org/changes", scopes=["memory:read"], by=Principal.of_system("test"))
    oauth_client_register(name="Desk", redirect_uris=["http://127.0.0.1/"], address="127.0.0.1")
    identity_propose(agent=ada, section="values", content="One.\nTwo.", by=by)
    identity_propose(agent=ada, section="values", content="One.\n\n## Three.", by=actor)
    identity_propose(agent=ada, section="values", content="One.\nTwo, and more.", by=by)
    identity_propose(agent=ada, section="boundaries", content="Never lie.\nAsk.", reason="Learned.", by=actor)
    identity_propose(agent=ada, section="preferences", content="Tables.", by=actor)
    word = "Donaudampfschifffahrt" * 8
    fact_learn(agent=ada, content=f"{word} {'is written as one word ' * 30}", subject=word[:100], by=actor)
    for category in ("person", "preference", "tool"):
        fact_learn(agent=ada, content=f"A {category}.", category=category, subject="Ms Lind", by=actor)
    context_assemble(agent=ada, request=ContextRequest("s", "Hello"), by=actor)
    remember(ada, actor, by)
    for requirement in ("present", "absent"):
        demand = {"requirement": requirement, "target": "section", "section": "identity", "reason": "Because."}
        expectation_create(agent=ada, request=request_of("Who are you?"), by=by, **demand)
    expectations_verify(agent=ada, by=by)
    lines = b'{"record": "fact", "content": "The mole is long."}\n{"record": "fact", "content": " "}\n'
    admin = Principal.of_user(charlie)
    uploaded = import_create(
        agent=ada, file_name="notes.jsonl", file_bytes=len(lines), by=admin, options={"skip_refused": True}
    )
    import_receive(run=uploaded, offset=0, part=lines, by=admin)
    run_work(uploaded.pk)
    run_work(export_start(agent=ada, by=admin).pk)


def remember(ada: Agent, actor: Principal, by: Principal) -> None:
    """Something of every store of memory."""
    said = [
        {"kind": kind, "content": f"<b>{kind}</b>\n{'said ' * 300}", "loop_id": "loop 1/a", "metadata": {"tool": "t"}}
        for kind in ("user_input", "tool_call", "tool_result", "error", "actor_output")
    ]
    recorded = events_record(agent=ada, events=said, by=actor)
    old, new, wrong = (
        fact_learn(agent=ada, content=f"Ms Lind is {what}.", subject="Ms Lind", tags=["crew"], by=actor).fact
        for what in ("a pilot", "a captain", "a nurse")
    )
    fact_supersede(old=old, new=new, by=by, reason="Promoted.", score=0.9)
    fact_invalidate(fact=wrong, by=by, reason="Mixed up.")
    episode = episode_open(agent=ada, title="A night", participants=["Tom"], by=actor)
    episode_append(episode=episode, event_ids=[each.event.pk for each in recorded], by=actor)
    episode_close(episode=episode, outcome="partial", summary="It went well.", lessons=["Look twice."], by=actor)
    decision_record(agent=ada, description="Wait.", reasons=["Safe."], stakes="critical", episode=episode, by=actor)
    note = {"namespace": ["memories"], "key": "/memories/notes.md", "ttl": 86_400}
    for said in ("One.", "One.\nTwo."):
        document_put(agent=ada, value={"content": said}, by=actor, **note)
    procedure_create(agent=ada, name="Wait well", steps=["Sit.", "Wait."], by=actor)
    censor_create(agent=ada, pattern="drop (the )?table", severity="block", reason="No.", by=by)
    working_item_add(agent=ada, session_id="s", text="It rains.", by=actor)
    working_thread_open(agent=ada, session_id="s", text="Ask Tom.", by=actor)
    learn = {"agent": ada, "subject": "harbour", "by": actor}
    fact_learn(content="The harbour's twin is in Graz.", **learn)
    fact_learn(content="The harbour's twin is in Linz.", **learn)
    fact_learn(agent=ada, content="The regatta begins at noon.", project="regatta", user="mia", ttl=86_400, by=actor)
    censor = censor_create(agent=ada, pattern="harbour master", by=actor)
    escalation_announce(censor=censor, by=Principal.of_system("lifecycle"))
    given_up = job_queue("fact_check", agent=ada, persona="actor", subject=ada)
    Job.objects.filter(pk=given_up.pk).update(status="dead", attempts=5, error="It could not be done.")
    first = SearchItem.objects.filter(item_type="fact").earliest("pk")
    SearchItem.objects.filter(pk=first.pk).update(status="failed", error="The text is too long.", attempts=8)
