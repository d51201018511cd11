"""What people decide about proposals: approve, reject, withdraw, expire, keep, revert, roll back, undo."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from identity.models import AuditEvent, ChangeProposal, IdentityVersion
from identity.policy.permissions import PEOPLE_ONLY_PERMISSIONS, SCOPE_PERMISSIONS
from identity.principal import Principal
from identity.services.agents import agent_reinitiate
from identity.services.proposals import (
    identity_propose,
    identity_rollback,
    proposal_approve,
    proposal_keep,
    proposal_reject,
    proposal_revert,
    proposal_undo,
    proposal_withdraw,
    proposals_batch,
    proposals_expire,
)
from identity.services.tokens import token_create
from identity.services.versions import StaleBase
from nousweb.lib.errors import Conflict, Invalid, NotAllowed, NotFound
from tests.factories import make_principal

Status = ChangeProposal.Status
FIRST = "You are Ada, calm and exact."


@pytest.fixture
def by_charlie(charlie):
    return Principal.of_user(charlie)


@pytest.fixture
def pending(ada, actor):
    """Ada's wish to be brisk, which waits."""
    return identity_propose(agent=ada, section="character", content="You are Ada, brisk.", by=actor).proposal


@pytest.fixture
def applied(ada, actor):
    """What Ada applied herself."""
    return identity_propose(agent=ada, section="preferences", content="Tea.", by=actor).proposal


def current(agent, section="character"):
    return IdentityVersion.objects.current().get(agent=agent, section=section)


def test_approval_makes_the_text_current_and_keeps_its_author(ada, pending, reviewer):
    version = proposal_approve(proposal=pending, by=reviewer, comment=" Fine. ")
    assert current(ada) == version
    assert (version.version, version.content, version.previous.content) == (2, "You are Ada, brisk.", FIRST)
    assert (version.author_kind, version.author_name) == ("token", "ada · actor")
    pending.refresh_from_db()
    assert (pending.status, pending.reviewer_name, pending.comment) == (Status.APPROVED, "bob", "Fine.")
    assert (pending.version, pending.edited) == (version, False)


def test_approval_with_an_edit_is_the_reviewers_text(ada, pending, reviewer):
    version = proposal_approve(proposal=pending, by=reviewer, content="You are Ada, brisk and kind.")
    assert (version.content, version.author_kind, version.author_name) == (
        "You are Ada, brisk and kind.", "person", "bob",
    )  # fmt: skip
    pending.refresh_from_db()
    assert pending.edited
    assert pending.content == "You are Ada, brisk.", "what was proposed stays as it was proposed"


@pytest.mark.parametrize("content", ["You are Ada, brisk.", " You are Ada, brisk.\r\n"])
def test_approval_with_an_edit_without_a_change_is_no_edit(ada, pending, reviewer, content):
    version = proposal_approve(proposal=pending, by=reviewer, content=content)
    assert version.author_kind == "token"
    assert not version.proposals.get().edited


def test_approval_of_a_stale_proposal_is_refused_with_three_texts(ada, pending, reviewer):
    identity_propose(agent=ada, section="character", content="You are Ada, slow.", by=reviewer)
    with pytest.raises(StaleBase) as refused:
        proposal_approve(proposal=pending, by=reviewer)
    assert refused.value.extra["base"] == {"version": 1, "content": FIRST}
    assert refused.value.extra["current"] == {"version": 2, "content": "You are Ada, slow."}
    assert refused.value.extra["yours"] == {"content": "You are Ada, brisk."}
    pending.refresh_from_db()
    assert pending.status == Status.PENDING


def test_approval_of_a_stale_proposal_after_an_update(ada, pending, reviewer):
    identity_propose(agent=ada, section="character", content="You are Ada, slow.", by=reviewer)
    merged = {"content": "You are Ada, brisk or slow."}
    version = proposal_approve(proposal=pending, by=reviewer, base_version=2, **merged)
    assert (version.version, version.content, version.previous.version) == (3, merged["content"], 2)


def test_approval_of_a_proposal_stale_by_now_names_the_newest(ada, pending, reviewer):
    for text in ("You are Ada, slow.", "You are Ada, slower."):
        identity_propose(agent=ada, section="character", content=text, by=reviewer)
    with pytest.raises(StaleBase) as refused:
        proposal_approve(proposal=pending, by=reviewer, content="Merged.", base_version=2)
    assert refused.value.extra["current"]["version"] == 3
    assert refused.value.extra["yours"] == {"content": "Merged."}


@pytest.mark.parametrize("again", [proposal_approve, proposal_reject])
@pytest.mark.parametrize("first", [proposal_approve, proposal_reject])
def test_proposal_is_decided_once(ada, pending, reviewer, by_charlie, first, again):
    first(proposal=pending, by=reviewer)
    events = AuditEvent.objects.count()
    with pytest.raises(Conflict, match="by bob"):
        again(proposal=pending, by=by_charlie)
    assert AuditEvent.objects.count() == events


def test_rejection_keeps_the_comment_and_changes_no_text(ada, pending, reviewer):
    proposal_reject(proposal=pending, by=reviewer, comment="Why?")
    pending.refresh_from_db()
    assert (pending.status, pending.comment, pending.version) == (Status.REJECTED, "Why?", None)
    assert current(ada).content == FIRST


def test_comment_has_limits(ada, pending, applied, reviewer, subtests):
    for decide in [proposal_approve, proposal_reject, proposal_keep, proposal_revert]:
        for comment, why in [("x" * 2_001, "2,000"), ("\x00", "NUL"), ("\ud800", "surrogate")]:
            with subtests.test(decide=decide, comment=comment, why=why):
                proposal = pending if decide in (proposal_approve, proposal_reject) else applied
                status = proposal.status
                with pytest.raises(Invalid, match=why) as refused:
                    decide(proposal=proposal, by=reviewer, comment=comment)
                assert refused.value.field == "comment"
                proposal.refresh_from_db()
                assert proposal.status == status


def test_withdrawal_by_the_author(ada, pending, actor, reviewer):
    assert proposal_withdraw(proposal=pending, by=actor).status == Status.WITHDRAWN
    with pytest.raises(Conflict):
        proposal_approve(proposal=pending, by=reviewer)
    own = identity_propose(agent=ada, section="values", content="Care.", by=reviewer, wait=True).proposal
    assert proposal_withdraw(proposal=own, by=reviewer).status == Status.WITHDRAWN


def test_withdrawal_by_another_person_is_refused(ada, pending, actor, reviewer, by_charlie):
    with pytest.raises(NotAllowed):
        proposal_withdraw(proposal=pending, by=reviewer)
    of_bob = identity_propose(agent=ada, section="values", content="Care.", by=reviewer, wait=True).proposal
    for other in (actor, by_charlie):
        with pytest.raises(NotAllowed):
            proposal_withdraw(proposal=of_bob, by=other)


def test_withdrawal_by_another_agent_is_refused(pending, bruno, system):
    other = make_principal(bruno, name="t")
    with pytest.raises(NotFound):
        proposal_withdraw(proposal=pending, by=other)


def test_expiry_comes_at_its_time_and_not_before(ada, pending, system, reviewer):
    ends = pending.expires_at
    assert proposals_expire(by=system, now=ends - timedelta(seconds=1)) == 0
    assert proposals_expire(by=system, now=ends) == 1
    assert proposals_expire(by=system, now=ends + timedelta(days=9)) == 0
    pending.refresh_from_db()
    assert (pending.status, pending.decided_at) == (Status.EXPIRED, ends)
    with pytest.raises(Conflict, match="expired"):
        proposal_approve(proposal=pending, by=reviewer)


def test_expiry_holds_before_the_schedule_has_run(ada, pending, reviewer):
    ChangeProposal.objects.filter(pk=pending.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    for decide in (proposal_approve, proposal_reject):
        with pytest.raises(Conflict, match="expired"):
            decide(proposal=pending, by=reviewer)


def test_expiry_is_for_pending_proposals_only(ada, applied, system, reviewer):
    assert proposals_expire(by=system, now=applied.expires_at) == 0


def test_applied_change_is_kept(ada, applied, reviewer):
    assert proposal_keep(proposal=applied, by=reviewer, comment="Good.").status == Status.APPROVED
    assert current(ada, "preferences").version == 1
    with pytest.raises(Conflict, match="nothing to keep"):
        proposal_keep(proposal=applied, by=reviewer)


def test_applied_change_kept_and_undone_waits_for_review_again(ada, applied, reviewer):
    proposal_keep(proposal=applied, by=reviewer)
    undone = proposal_undo(proposal=applied, by=reviewer)
    assert (undone.status, undone.reviewer_name) == (Status.APPLIED, "")
    assert undone.version.version == 1
    assert current(ada, "preferences").content == "Tea."
    proposal_revert(proposal=applied, by=reviewer)


def test_applied_change_is_reverted_by_a_new_version(ada, applied, reviewer):
    version = proposal_revert(proposal=applied, by=reviewer, comment="No.")
    assert (version.version, version.content, version.restores) == (2, "", None)
    assert version.author_name == "bob"
    applied.refresh_from_db()
    assert (applied.status, applied.version.version) == (Status.REVERTED, 1)
    with pytest.raises(Conflict):
        proposal_revert(proposal=applied, by=reviewer)
    with pytest.raises(Conflict):
        proposal_undo(proposal=applied, by=reviewer)


def test_applied_change_is_not_reverted_after_a_later_one(ada, applied, reviewer):
    identity_propose(agent=ada, section="preferences", content="Coffee.", by=reviewer)
    with pytest.raises(Conflict, match="changed since"):
        proposal_revert(proposal=applied, by=reviewer)
    assert current(ada, "preferences").content == "Coffee."


def test_applied_change_reverted_gives_no_further_update_of_the_day(ada, applied, actor, reviewer):
    proposal_revert(proposal=applied, by=reviewer)
    assert identity_propose(agent=ada, section="protocols", content="Check.", by=actor).action == "proposed"


def test_approval_does_not_use_the_agents_daily_update(ada, pending, actor, reviewer):
    proposal_approve(proposal=pending, by=reviewer)
    assert identity_propose(agent=ada, section="preferences", content="Tea.", by=actor).action == "applied"


def test_undo_of_an_approval_restores_the_text_and_waits_again(ada, pending, reviewer):
    proposal_approve(proposal=pending, by=reviewer, comment="Oops.")
    undone = proposal_undo(proposal=pending, by=reviewer)
    assert (undone.status, undone.reviewer_name, undone.comment, undone.version) == (Status.PENDING, "", "", None)
    now = current(ada)
    assert (now.version, now.content, now.restores.version) == (3, FIRST, 1)
    assert undone.base_version == 3
    assert proposal_approve(proposal=pending, by=reviewer).version == 4


def test_undo_of_a_first_version_restores_the_empty_section(ada, actor, reviewer):
    proposal = identity_propose(agent=ada, section="values", content="Truth.", by=actor).proposal
    proposal_approve(proposal=proposal, by=reviewer)
    proposal_undo(proposal=proposal, by=reviewer)
    now = current(ada, "values")
    assert (now.version, now.content, now.restores) == (2, "", None)


def test_undo_of_a_rollback_files_no_proposal(ada, reviewer):
    for content in ("One.", "Two."):
        identity_propose(agent=ada, section="values", content=content, by=reviewer)
    rolled = identity_rollback(agent=ada, section="values", to_version=1, by=reviewer).proposal
    undone = proposal_undo(proposal=rolled, by=reviewer)
    assert (undone.status, undone.reviewer_name) == (Status.REVERTED, reviewer.name)
    assert (current(ada, "values").content, current(ada, "values").version) == ("Two.", 4)
    assert not ChangeProposal.objects.pending().exists()
    with pytest.raises(Conflict, match="nothing to undo"):
        proposal_undo(proposal=rolled, by=reviewer)


def test_undo_of_a_change_applied_at_once_files_no_proposal(ada, reviewer):
    applied = identity_propose(agent=ada, section="values", content="One.", by=reviewer).proposal
    assert proposal_undo(proposal=applied, by=reviewer).status == Status.REVERTED
    assert not ChangeProposal.objects.pending().exists()


def test_undo_of_an_approval_after_a_later_change_is_refused(ada, pending, reviewer):
    proposal_approve(proposal=pending, by=reviewer)
    identity_propose(agent=ada, section="character", content="Later.", by=reviewer)
    with pytest.raises(Conflict, match="changed since"):
        proposal_undo(proposal=pending, by=reviewer)
    assert current(ada).content == "Later."


def test_undo_of_a_rejection_waits_again_with_a_new_expiry(ada, pending, reviewer):
    proposal_reject(proposal=pending, by=reviewer, comment="No.")
    ChangeProposal.objects.filter(pk=pending.pk).update(expires_at=timezone.now() - timedelta(days=3))
    undone = proposal_undo(proposal=pending, by=reviewer)
    assert (undone.status, undone.comment, undone.decided_at) == (Status.PENDING, "", None)
    assert undone.expires_at > timezone.now() + timedelta(hours=23)


@pytest.mark.parametrize("state", ["pending", "withdrawn", "expired"])
def test_undo_of_what_no_reviewer_decided_is_refused(ada, pending, actor, system, reviewer, state):
    if state == "withdrawn":
        proposal_withdraw(proposal=pending, by=actor)
    elif state == "expired":
        proposals_expire(by=system, now=pending.expires_at)
    with pytest.raises(Conflict, match="nothing to undo"):
        proposal_undo(proposal=pending, by=reviewer)


def test_undo_of_a_batch_is_one(ada, actor, reviewer):
    batch = uuid4()
    made = [
        identity_propose(agent=ada, section=section, content=text, by=actor).proposal
        for section, text in (("values", "Truth."), ("boundaries", "None."), ("character", "Brisk."))
    ]
    proposal_approve(proposal=made[0], by=reviewer, batch=batch)
    proposal_reject(proposal=made[1], by=reviewer, batch=batch)
    proposal_approve(proposal=made[2], by=reviewer, batch=batch)
    for proposal in proposals_batch(batch, reviewer):
        proposal_undo(proposal=proposal, by=reviewer)
    assert {proposal.status for proposal in ChangeProposal.objects.all()} == {Status.PENDING}
    assert current(ada).content == FIRST
    assert current(ada, "values").content == ""
    assert list(proposals_batch(batch, reviewer)) == [], "a batch is undone once"


def test_rollback_makes_a_new_version_that_names_the_restored_one(ada, reviewer):
    for text in ("Two.", "Three."):
        identity_propose(agent=ada, section="character", content=text, by=reviewer)
    result = identity_rollback(agent=ada, section="character", to_version=1, by=reviewer)
    assert result.action == "applied"
    version = current(ada)
    assert (version.version, version.content, version.restores.version) == (4, FIRST, 1)
    assert version.reason == "Roll back to version 1."
    assert AuditEvent.objects.latest("id").action == "identity.rollback"
    assert AuditEvent.objects.latest("id").after["restores"] == 1
    assert list(IdentityVersion.objects.filter(section="character").values_list("version", flat=True)) == [4, 3, 2, 1]


def test_rollback_to_the_current_version_changes_nothing(ada, reviewer):
    assert identity_rollback(agent=ada, section="character", to_version=1, by=reviewer).action == "unchanged"


def test_rollback_on_a_stale_base_is_refused(ada, reviewer):
    identity_propose(agent=ada, section="character", content="Two.", by=reviewer)
    with pytest.raises(StaleBase):
        identity_rollback(agent=ada, section="character", to_version=1, base_version=1, by=reviewer)


def test_rollback_to_a_missing_version_is_not_found(ada, reviewer):
    with pytest.raises(NotFound):
        identity_rollback(agent=ada, section="character", to_version=2, by=reviewer)
    with pytest.raises(Invalid):
        identity_rollback(agent=ada, section="nonsense", to_version=1, by=reviewer)


class TestFourEyes:
    @pytest.fixture(autouse=True)
    def _on(self, settings):
        settings.FOUR_EYES = True

    def test_four_eyes_refuse_approval_to_the_author(self, ada, reviewer, by_charlie):
        proposal = identity_propose(agent=ada, section="values", content="Care.", by=reviewer).proposal
        with pytest.raises(NotAllowed, match="another person"):
            proposal_approve(proposal=proposal, by=reviewer)
        assert proposal_approve(proposal=proposal, by=by_charlie).content == "Care."

    def test_four_eyes_refuse_an_own_text_while_approving(self, pending, reviewer):
        with pytest.raises(NotAllowed, match="proposal of its own"):
            proposal_approve(proposal=pending, by=reviewer, content="Mine.")

    def test_four_eyes_let_one_person_approve_an_agents_proposal(self, ada, pending, reviewer):
        assert proposal_approve(proposal=pending, by=reviewer).version == 2

    def test_four_eyes_make_a_rollback_wait_that_names_the_restored_version(self, ada, reviewer, by_charlie, settings):
        settings.FOUR_EYES = False
        identity_propose(agent=ada, section="character", content="Two.", by=reviewer)
        settings.FOUR_EYES = True
        result = identity_rollback(agent=ada, section="character", to_version=1, by=reviewer)
        assert result.action == "proposed"
        with pytest.raises(NotAllowed):
            proposal_approve(proposal=result.proposal, by=reviewer)
        assert proposal_approve(proposal=result.proposal, by=by_charlie).restores.version == 1

    def test_four_eyes_let_the_author_reject_and_withdraw(self, ada, reviewer):
        proposal = identity_propose(agent=ada, section="values", content="Care.", by=reviewer).proposal
        assert proposal_reject(proposal=proposal, by=reviewer).status == Status.REJECTED


REVIEWS = {
    "approve": lambda ada, pending, applied, by: proposal_approve(proposal=pending, by=by),
    "reject": lambda ada, pending, applied, by: proposal_reject(proposal=pending, by=by),
    "keep": lambda ada, pending, applied, by: proposal_keep(proposal=applied, by=by),
    "revert": lambda ada, pending, applied, by: proposal_revert(proposal=applied, by=by),
    "undo": lambda ada, pending, applied, by: proposal_undo(proposal=pending, by=by),
    "rollback": lambda ada, pending, applied, by: identity_rollback(
        agent=ada, section="character", to_version=1, by=by
    ),
    "reinitiate": lambda ada, pending, applied, by: agent_reinitiate(agent=ada, by=by),
}


def test_decision_is_refused_to_tokens_of_every_scope(ada, pending, applied, system, subtests):
    for verb in REVIEWS:
        with subtests.test(verb=verb):
            token, _ = token_create(agent=ada, persona="actor", name="all", scopes=list(SCOPE_PERMISSIONS), by=system)
            # Even one that somebody wrote into the table by hand.
            token.scopes = [*SCOPE_PERMISSIONS, *PEOPLE_ONLY_PERMISSIONS, "*"]
            token.save()
            events = AuditEvent.objects.count()
            with pytest.raises(NotAllowed, match="no token can"):
                REVIEWS[verb](ada, pending, applied, Principal.of_token(token))
            assert AuditEvent.objects.count() == events
            assert current(ada).content == FIRST


def test_decision_is_refused_to_viewers_and_the_system(ada, pending, applied, alice, system, subtests):
    for verb in [verb for verb in REVIEWS if verb != "reinitiate"]:
        with subtests.test(verb=verb):
            for by in (Principal.of_user(alice), system):
                with pytest.raises(NotAllowed):
                    REVIEWS[verb](ada, pending, applied, by)


@pytest.mark.parametrize("scope", SCOPE_PERMISSIONS)
def test_scopes_hold_no_permission_of_people(scope):
    assert not SCOPE_PERMISSIONS[scope] & PEOPLE_ONLY_PERMISSIONS


def test_token_holds_nothing_beyond_its_scopes(ada, system):
    everything = frozenset().union(*SCOPE_PERMISSIONS.values()) | PEOPLE_ONLY_PERMISSIONS
    for scope, granted in SCOPE_PERMISSIONS.items():
        token, _ = token_create(agent=ada, persona="actor", name=scope, scopes=[scope], by=system)
        by = Principal.of_token(token)
        assert {permission for permission in everything if by.may(permission)} == granted
