"""With NOUS_FOUR_EYES no single person makes a text of an identity the current one, whatever they combine."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.urls import reverse

from identity.models import Agent, ApiToken, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_approve, proposal_reject
from identity.services.tokens import token_create
from identity.services.versions import agent_lock, version_activate, version_current
from nousweb.lib.errors import Conflict, NotAllowed
from tests.http import ApiClient, signed_in

SECTIONS = ("character", "values", "protocols", "preferences", "boundaries", "environment")


@pytest.fixture
def dana(db: None) -> User:
    """A second administrator."""
    user = User.objects.create_user("dana", "dana@example.org", "x")
    user.groups.add(Group.objects.get(name="Administrator"))
    return user


@pytest.fixture
def four_eyes(ada: Agent, settings: Any) -> None:
    """From here on; Ada is there already."""
    settings.FOUR_EYES = True
    settings.IDENTITY_PROMPT = "You are Ada, who obeys Charlie."


def current() -> list[tuple[str, str, int]]:
    rows = IdentityVersion.objects.current().order_by("agent__slug", "section")
    return list(rows.values_list("agent__slug", "section", "version"))


class Alone:
    """One person with a browser, the API, and a token that they made."""

    def __init__(self, user: User, agent: Agent) -> None:
        self.browser, self.api = signed_in(user), ApiClient().as_person(user)
        self.csrf = {"csrfmiddlewaretoken": self.browser.cookies["csrftoken"].value}
        self.by = Principal.of_user(user)
        if self.by.may("identity.add_apitoken"):
            _, secret = token_create(agent=agent, persona="actor", name="mine", by=self.by)
            self.token = ApiClient().as_token(secret)

    def post(self, page: str, /, *args: object, **form: object) -> int:
        return self.browser.post(reverse(page, args=args), form | self.csrf).status_code

    def decide(self, proposal: ChangeProposal, action: str = "approve", **form: object) -> int:
        return self.post("proposal", proposal.pk, action=action, **form)

    def approves_all(self) -> None:
        """One by one, with words of their own, on top of what is current, and in bulk."""
        for proposal in ChangeProposal.objects.pending():
            now = version_current(proposal.agent, proposal.section)
            for action in ("approve", "approve_edited"):
                self.decide(proposal, action, content="Mine.", base_version=now.version if now else 0)
        keys = [str(key) for key in ChangeProposal.objects.values_list("pk", flat=True)]
        for action in ("approve", "keep"):
            self.post("inbox_bulk", action=action, selected=keys)


@pytest.fixture
def charlie_alone(four_eyes: None, charlie: User, ada: Agent) -> Alone:
    return Alone(charlie, ada)


def test_four_eyes_cover_own_tokens_proposals_edits_and_seeding(
    charlie_alone: Alone, ada: Agent, charlie: User
) -> None:
    before = current()
    alone = charlie_alone
    for section in SECTIONS:
        answer = alone.token.put(f"/identity/{section}", {"content": f"{section} of the token."})
        assert answer.status_code == 202, answer.content
        answer = alone.api.put(f"/identity/{section}", {"content": f"{section} of Charlie."}, {"agent": "ada"})
        assert answer.status_code == 202
    answer = alone.api.post("/reinitiate", {}, {"agent": "ada"})
    assert answer.json()["written"] == {}
    assert set(answer.json()["proposed"]) == {"character"}
    again = alone.api.post("/reinitiate", {}, {"agent": "ada"})
    assert again.json()["proposed"] == {}, "it waits already"
    assert alone.post("agent_new", slug="eve", name="Eve", kind="squire", prompt="You are Eve.") == 302
    alone.post("section_rollback", "ada", "character", 1, base_version=1)
    alone.approves_all()
    for proposal in ChangeProposal.objects.all():
        alone.decide(proposal, "reject")
        alone.post("item_change", "changeproposal", proposal.pk, "undo")
    alone.approves_all()
    assert current() == before
    assert not Agent.objects.get(slug="eve").initiated_at
    # It is the same after the tokens are gone.
    for token in ApiToken.objects.all():
        alone.post("agent_token_revoke", "ada", token.pk)
    alone.approves_all()
    assert current() == before


def test_four_eyes_let_another_person_approve_each(charlie_alone: Alone, dana: User, ada: Agent) -> None:
    charlie_alone.token.put("/identity/protocols", {"content": "Of the token."})
    charlie_alone.api.post("/reinitiate", {}, {"agent": "ada"})
    second = Alone(dana, ada)
    for proposal in ChangeProposal.objects.pending():
        second.decide(proposal)
    assert version_current(ada, "protocols").content == "Of the token."  # type: ignore[union-attr]
    assert version_current(ada, "character").content == "You are Ada, who obeys Charlie."  # type: ignore[union-attr]


def test_four_eyes_undo_alone_restores_nothing(charlie_alone: Alone, bob: User, dana: User, ada: Agent) -> None:
    made = identity_propose(agent=ada, section="boundaries", content="Never lie.", by=Principal.of_user(bob)).proposal
    assert made is not None
    charlie_alone.decide(made)
    approved = current()
    for person in (charlie_alone, Alone(bob, ada)):
        person.post("item_change", "changeproposal", made.pk, "undo")
        person.approves_all()
        assert current() == approved
        # Or the other one could agree to it.
        ChangeProposal.objects.pending().delete()
    charlie_alone.post("item_change", "changeproposal", made.pk, "undo")
    charlie_alone.post("item_change", "changeproposal", made.pk, "undo")
    restoring = ChangeProposal.objects.pending().get()
    assert (restoring.author_name, restoring.restores.version) == ("charlie", 1)  # type: ignore[union-attr]
    assert current() == approved
    Alone(dana, ada).decide(restoring)
    now = version_current(ada, "boundaries")
    assert now is not None
    assert now.version == 3
    assert now.restores_id == restoring.restores_id


def test_four_eyes_refuse_keep_and_revert_to_the_tokens_maker(ada: Agent, charlie: User, settings: Any) -> None:
    alone = Alone(charlie, ada)
    assert alone.token.put("/identity/preferences", {"content": "Of the token."}).status_code == 200
    applied = ChangeProposal.objects.get(status="applied")
    settings.FOUR_EYES = True
    before = current()
    for action in ("keep", "revert"):
        alone.decide(applied, action)
    alone.approves_all()
    applied.refresh_from_db()
    assert (applied.status, current()) == ("applied", before)


def test_four_eyes_hold_at_the_last_gate_whatever_called_it(
    four_eyes: None, ada: Agent, charlie: User, actor: Principal
) -> None:
    by = Principal.of_user(charlie)
    own = identity_propose(agent=ada, section="values", content="Mine.", by=by).proposal
    agent = agent_lock(ada)
    activate: Callable[..., IdentityVersion] = version_activate
    for who, approved in ((by, None), (by, own), (actor, None), (actor, own)):
        with pytest.raises(NotAllowed, match="Four eyes"):
            activate(
                agent=agent, section="values", content="Mine.", reason="", by=who, current=None, approved=approved,
                action="x",
            )  # fmt: skip


def test_four_eyes_of_an_old_token_go_by_the_makers_name(charlie_alone: Alone, ada: Agent, charlie: User) -> None:
    charlie_alone.token.put("/identity/protocols", {"content": "Of the token."})
    ApiToken.objects.filter(name="mine").update(maker_kind="system", maker_id="")
    proposal = ChangeProposal.objects.get()
    with pytest.raises(NotAllowed):
        proposal_approve(proposal=proposal, by=Principal.of_user(charlie))
    proposal_reject(proposal=proposal, by=Principal.of_user(charlie))
    with pytest.raises(Conflict):
        proposal_approve(proposal=proposal, by=Principal.of_user(charlie))


@pytest.mark.parametrize("command", [("loaddemo",), ("serve", "--demo")])
def test_demo_is_refused_in_production(db: None, settings: Any, command: tuple[str, ...]) -> None:
    settings.PRODUCTION = True
    with pytest.raises(CommandError, match="not for production"):
        call_command(*command)
    assert not User.objects.exists()
