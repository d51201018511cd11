"""Every mutation leaves exactly one record: who, what, before and after, in which request, and why."""

import json

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from identity.models import Agent, ApiToken, AuditEvent, ChangeProposal
from identity.principal import Principal
from identity.services.agents import agent_create, agent_reinitiate, agent_update
from identity.services.proposals import (
    identity_propose,
    identity_rollback,
    proposal_approve,
    proposal_keep,
    proposal_reject,
    proposal_revert,
    proposal_undo,
    proposal_withdraw,
    proposals_expire,
)
from identity.services.tokens import token_create, token_revoke
from memory.services.facts import fact_learn
from tests.http import ApiClient

FIRST = "You are Ada, calm and exact."


class World:
    """Everything that a mutation may start from; `by` is Charlie in the request that is looked at."""

    def __init__(self, ada, actor, charlie):
        self.ada = ada
        self.by = Principal.of_user(charlie, request_id="request-1")
        self.agent = actor
        self.pending = identity_propose(agent=ada, section="character", content="Brisk.", by=actor).proposal
        self.applied = identity_propose(agent=ada, section="preferences", content="Tea.", by=actor).proposal
        self.own = identity_propose(agent=ada, section="values", content="Care.", by=self.by, wait=True).proposal
        self.rejected = identity_propose(agent=ada, section="boundaries", content="None.", by=actor).proposal
        proposal_reject(proposal=self.rejected, by=self.by)
        self.approved = identity_propose(agent=ada, section="environment", content="Unix.", by=actor).proposal
        proposal_approve(proposal=self.approved, by=self.by)
        self.kept = identity_propose(agent=ada, section="protocols", content="Check.", by=self.by).proposal
        self.token = ApiToken.objects.get(agent=ada, name="actor")


def _expire(world):
    ChangeProposal.objects.exclude(pk=world.pending.pk).filter(status="pending").update(
        expires_at=timezone.now() + timezone.timedelta(days=900)
    )
    return proposals_expire(by=world.by, now=world.pending.expires_at)


def _rollback(world):
    _propose(world, "protocols", "Twice.")
    return identity_rollback(agent=world.ada, section="protocols", to_version=1, by=world.by, reason="Once is enough.")


def _revoke(world):
    return token_revoke(token=world.token, by=world.by)


def _propose(world, section, content, **more):
    return identity_propose(agent=world.ada, section=section, content=content, by=world.by, **more)


PENDING, APPROVED, APPLIED, REJECTED = (
    {"status": "pending"}, {"status": "approved"}, {"status": "applied"}, {"status": "rejected"},
)  # fmt: skip
MUTATIONS = {
    # verb: what is done, the action's name, the object's type, before, after, message
    "update": (
        lambda w: _propose(w, "preferences", "Coffee.", reason="Asked."), "identity.update", "identityversion",
        {"version": 1, "content": "Tea."}, {"version": 2, "content": "Coffee.", "restores": None}, "Asked.",
    ),
    "propose": (
        lambda w: _propose(w, "character", "Slow.", reason="Hm.", wait=True), "proposal.create", "changeproposal",
        {"version": 1, "content": FIRST}, {"content": "Slow.", "base_version": 1}, "Hm.",
    ),
    "approve": (
        lambda w: proposal_approve(proposal=w.pending, by=w.by, comment="Yes."), "proposal.approve",
        "identityversion", {"version": 1, "content": FIRST}, {"version": 2, "content": "Brisk.", "restores": None},
        "Yes.",
    ),
    "reject": (
        lambda w: proposal_reject(proposal=w.pending, by=w.by, comment="No."), "proposal.reject", "changeproposal",
        PENDING, REJECTED, "No.",
    ),
    "keep": (
        lambda w: proposal_keep(proposal=w.applied, by=w.by, comment="Fine."), "proposal.keep", "changeproposal",
        APPLIED, APPROVED, "Fine.",
    ),
    "revert": (
        lambda w: proposal_revert(proposal=w.applied, by=w.by, comment="Back."), "proposal.revert",
        "identityversion", {"version": 1, "content": "Tea."}, {"version": 2, "content": "", "restores": None}, "Back.",
    ),
    "withdraw": (
        lambda w: proposal_withdraw(proposal=w.own, by=w.by), "proposal.withdraw", "changeproposal",
        PENDING, {"status": "withdrawn"}, "",
    ),
    "undo rejection": (
        lambda w: proposal_undo(proposal=w.rejected, by=w.by), "proposal.undo", "changeproposal",
        REJECTED, PENDING, "",
    ),
    "undo approval": (
        lambda w: proposal_undo(proposal=w.approved, by=w.by), "proposal.undo", "identityversion",
        {"version": 1, "content": "Unix."}, {"version": 2, "content": "", "restores": None}, "Undo of an approval.",
    ),
    "expire": (
        _expire, "proposal.expire", "changeproposal", PENDING, {"status": "expired"}, "Nobody decided in time.",
    ),
    "rollback": (
        _rollback,
        "identity.rollback",
        "identityversion",
        {"version": 2, "content": "Twice."},
        {"version": 3, "content": "Check.", "restores": 1},
        "Once is enough.",
    ),
    "rename": (
        lambda w: agent_update(agent=w.ada, name="Ada L.", kind="knight", by=w.by), "agent.update", "agent",
        {"name": "Ada", "kind": "knight"}, {"name": "Ada L.", "kind": "knight"}, "",
    ),
    "create agent": (
        lambda w: agent_create(slug="new", prompt="", by=w.by), "agent.create", "agent",
        None, {"slug": "new", "name": "new", "kind": "squire"}, "",
    ),
    "revoke": (_revoke, "token.revoke", "apitoken", {"state": "active"}, {"state": "revoked"}, ""),
    "learn": (
        lambda w: fact_learn(agent=w.ada, content="Tim sails.", subject="Tim", by=w.by), "fact.store", "fact",
        None, {"content": "Tim sails.", "subject": "Tim", "category": "concept"}, "",
    ),
}  # fmt: skip
SEVERAL = {"rollback": 2, "learn": 2}
"""Records of verbs that need a mutation before the one that is looked at, or make a subject known."""


@pytest.fixture
def world(ada, actor, charlie):
    return World(ada, actor, charlie)


@pytest.mark.parametrize("verb", MUTATIONS)
def test_audit_of_one_mutation_is_one_record(world, verb):
    do, action, object_type, before, after, message = MUTATIONS[verb]
    count = AuditEvent.objects.count()
    do(world)
    assert AuditEvent.objects.count() == count + SEVERAL.get(verb, 1)
    record = AuditEvent.objects.latest("id")
    assert (record.action, record.object_type) == (action, object_type)
    assert (record.before, record.after, record.message) == (before, after, message)
    assert (record.author_kind, record.author_name, record.request_id) == ("person", "charlie", "request-1")
    assert record.agent_slug == ("new" if verb == "create agent" else "ada")
    assert record.object_label
    assert record.object_id


def test_audit_of_a_new_token_hides_its_secret(world):
    count = AuditEvent.objects.count()
    token, secret = token_create(agent=world.ada, persona="actor", name="phone", scopes=["memory:read"], by=world.by)
    record = AuditEvent.objects.latest("id")
    assert AuditEvent.objects.count() == count + 1
    assert record.after == {
        "name": "phone", "persona": "actor", "scopes": ["memory:read"], "prefix": token.prefix,
    }  # fmt: skip
    assert secret not in json.dumps(list(AuditEvent.objects.values("before", "after", "message", "object_label")))


def test_audit_of_a_reinitiation_is_as_a_whole_and_by_version(world, settings):
    settings.IDENTITY_PROMPT = "You are Ada, anew."
    count = AuditEvent.objects.count()
    written, _ = agent_reinitiate(agent=world.ada, by=world.by, reason="Start again.")
    records = list(AuditEvent.objects.order_by("id")[count:])
    assert [record.action for record in records] == ["identity.seed"] * len(written) + ["agent.reinitiate"]
    assert records[-1].after["sections"] == {"character": 2}
    assert {record.message for record in records} == {"Start again."}


@pytest.mark.parametrize("verb", ["unchanged", "refused", "stale", "same name"])
def test_audit_of_no_change_is_no_record(world, alice, verb):
    count = AuditEvent.objects.count()
    if verb == "unchanged":
        _propose(world, "character", FIRST)
    elif verb == "same name":
        agent_update(agent=world.ada, name="Ada", kind="knight", by=world.by)
    else:
        by = Principal.of_user(alice) if verb == "refused" else world.by
        with pytest.raises(Exception, match=r"role|based on"):
            identity_propose(agent=world.ada, section="character", content="X.", base_version=9, by=by)
    assert AuditEvent.objects.count() == count


def test_audit_record_has_the_request_id(ada, actor_token):
    caller = ApiClient().as_token(actor_token)
    caller.with_headers(X_Request_Id="call-7").put("/identity/preferences", {"content": "Tea."})
    assert AuditEvent.objects.latest("id").request_id == "call-7"
    answer = caller.with_headers(X_Request_Id="not well formed").put("/identity/values", {"content": "Truth."})
    assert AuditEvent.objects.latest("id").request_id == answer["X-Request-Id"]


def test_audit_names_outlive_people_and_tokens(world, charlie):
    proposal_approve(proposal=world.pending, by=world.by, comment="Yes.")
    charlie.delete()
    world.token.delete()
    assert not User.objects.filter(username="charlie").exists()
    record = AuditEvent.objects.get(action="proposal.approve", message="Yes.")
    assert (record.author_name, record.author_id) == ("charlie", world.by.id)
    world.pending.refresh_from_db()
    assert (world.pending.reviewer_name, world.pending.author_name) == ("charlie", "ada · actor")
    assert world.pending.version.author_name == "ada · actor"


def test_audit_record_keeps_the_name_of_its_object(world):
    agent_update(agent=world.ada, name="Ada L.", kind="knight", by=world.by)
    assert AuditEvent.objects.get(action="agent.create", agent_slug="ada").object_label == "Ada"
    assert Agent.objects.get(slug="ada").name == "Ada L."


def test_audit_of_a_failed_mutation_is_no_record(world, monkeypatch):
    """Record and change are one transaction: neither comes without the other."""

    def fail(**kwargs):
        raise RuntimeError("the trail is broken")

    monkeypatch.setattr("identity.services.versions.audit_record", fail)
    with pytest.raises(RuntimeError):
        proposal_reject(proposal=world.pending, by=world.by)
    world.pending.refresh_from_db()
    assert world.pending.status == "pending"
