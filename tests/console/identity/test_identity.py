"""The console's pages of agents and identity, without a browser: who may, what they answer, what they cost."""

import hashlib
import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from identity.models import Agent, AuditEvent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.proposals import identity_propose, identity_rollback, proposal_approve
from tests.http import browser, markup

pytestmark = pytest.mark.django_db

VALUES = ["ada", "values"]
# Session, person with role, the person's own rights and those of the groups, and the frame's agents and what waits.
FRAME = 6


def write(agent: Agent, by: User, *texts: str, section: str = "values") -> None:
    for text in texts:
        identity_propose(agent=agent, section=section, content=text, by=Principal.of_user(by))


def page(response: HttpResponse) -> str:
    return markup(response)


def seen(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def edit(content: str, base: int, action: str = "propose", **more: str) -> dict[str, str]:
    return {
        "content": content,
        "base_version": str(base),
        "reason": "",
        "action": action,
        "seen": seen(content),
        **more,
    }


@pytest.fixture
def many_versions(ada: Agent) -> int:
    """A thousand and one versions of Ada's values."""
    rows = [
        IdentityVersion(
            agent=ada,
            section="values",
            version=number,
            content=f"Value {number}.\n" * 20,
            is_current=number == 1001,
            author_kind="person",
            author_id="1",
            author_name="bob",
        )
        for number in range(1, 1002)
    ]
    for before, row in pairwise(rows):
        row.previous = before
    IdentityVersion.objects.bulk_create(rows)
    return len(rows)


PAGES = {
    "agents": [],
    "agent_new": [],
    "agent_settings": ["ada"],
    "agent_initiate": ["ada"],
    "agent_identity": ["ada"],
    "section_history": VALUES,
    "section_compare": VALUES,
    "section_propose": VALUES,
    "section_rollback": [*VALUES, 1],
}
REVIEWABLE = {"agents", "agent_identity", "section_history", "section_compare", "section_propose", "section_rollback"}


def test_identity_pages_open(ada: Agent, bob: User, charlie: User) -> None:
    """Whom each page is for is in the table of tests/api/test_access_matrix.py."""
    write(ada, bob, "One.", "Two.")
    client = browser(charlie)
    for name, arguments in PAGES.items():
        assert client.get(reverse(name, args=arguments)).status_code == 200, name


def test_identity_posts_are_refused_to_viewers(ada: Agent, alice: User, bob: User, subtests: pytest.Subtests) -> None:
    write(ada, bob, "One.", "Two.")
    for name in ["agent_new", "agent_settings", "agent_initiate", "section_propose", "section_rollback"]:
        with subtests.test(name=name):
            before = AuditEvent.objects.count()
            data = edit("Three.", 2, "apply", name="Eve", kind="knight", slug="eve")
            assert browser(alice).post(reverse(name, args=PAGES[name]), data).status_code == 403
            assert AuditEvent.objects.count() == before


def test_identity_pages_of_unknown_objects_are_not_found(ada: Agent, charlie: User, subtests: pytest.Subtests) -> None:
    for path in [
        "/agents/nobody/identity/",
        "/agents/nobody/settings/",
        "/agents/ada/identity/soul/",
        "/agents/ada/identity/soul/propose/",
        "/agents/ada/identity/soul/compare/",
        "/agents/ada/identity/character/rollback/99/",
        "/agents/ada/identity/character/rollback/99999999999999999999/",
    ]:
        with subtests.test(path=path):
            assert browser(charlie).get(path).status_code == 404


class TestQueryCounts:
    """What each page may cost, whatever there is to show."""

    def test_number_of_queries_of_a_long_history(
        self,
        bob: User,
        many_versions: int,
        django_assert_num_queries: DjangoAssertNumQueries,
        subtests: pytest.Subtests,
    ) -> None:
        for name, queries in [
            ("agent_identity", FRAME + 10),
            ("section_history", FRAME + 6),
            ("section_compare", FRAME + 7),
            ("section_propose", FRAME + 8),
            ("section_rollback", FRAME + 3),
        ]:
            with subtests.test(name=name, queries=queries):
                client = browser(bob)
                with django_assert_num_queries(queries):
                    assert client.get(reverse(name, args=PAGES[name])).status_code == 200

    @pytest.mark.parametrize("agents", [1, 60])
    def test_number_of_queries_of_the_list_of_agents(
        self, agents: int, alice: User, system: Principal, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        for number in range(agents):
            agent_create(slug=f"agent-{number}", prompt="You are one of many.", by=system)
        client = browser(alice)
        with django_assert_num_queries(FRAME + 3):
            response = client.get(reverse("agents"))
        assert page(response).count('class="faint small mono">agent-') == min(agents, 50)

    def test_number_of_queries_of_administration(
        self, ada: Agent, charlie: User, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        client = browser(charlie)
        for name, queries in (("agent_new", FRAME + 1), ("agent_settings", FRAME + 1)):
            with django_assert_num_queries(queries):
                client.get(reverse(name, args=PAGES[name]))

    def test_number_of_queries_of_the_preview(
        self, bob: User, many_versions: int, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        client = browser(bob)
        # No frame: session, person, rights; agent and current text; six for what of it a prompt would not hold.
        with django_assert_num_queries(12):
            assert client.post(reverse("section_preview", args=VALUES), {"content": "x"}).status_code == 200


class TestAgents:
    def test_agents_search_by_name_and_slug(self, ada: Agent, bruno: Agent, alice: User) -> None:
        client = browser(alice)
        for query, shown in (("BRU", {"Bruno"}), ("ada", {"Ada"}), ("x", set())):
            response = client.get(reverse("agents"), {"q": query})
            assert {row["agent"].name for row in response.context["rows"]} == shown
        assert "No agent matches" in page(response)

    def test_agent_is_created_with_a_character(self, charlie: User) -> None:
        data = {"name": "Córa", "slug": "", "kind": "knight", "prompt": "You are Cora."}
        response = browser(charlie).post(reverse("agent_new"), data)
        # Its slug is made from the name.
        assert response["Location"] == "/agents/cora/connect/"
        assert IdentityVersion.objects.get(agent__slug="cora", section="character").content == "You are Cora."

    @pytest.mark.parametrize(
        ("field", "value"), [("slug", "ada"), ("slug", "Not a slug"), ("name", ""), ("kind", "king")]
    )
    def test_agent_form_keeps_a_refused_input(self, field: str, value: str, ada: Agent, charlie: User) -> None:
        data = {"name": "Cora", "slug": "cora", "kind": "knight", "prompt": "You are Cora.", field: value}
        response = browser(charlie).post(reverse("agent_new"), data)
        assert response.status_code == 422
        assert field in response.context["form"].errors
        assert "You are Cora." in page(response)

    def test_name_without_letters_makes_no_slug(self, charlie: User) -> None:
        response = browser(charlie).post(reverse("agent_new"), {"name": "…", "slug": "", "kind": "knight"})
        assert "slug" in response.context["form"].errors

    def test_agent_settings_change_name_and_kind_and_not_the_slug(self, ada: Agent, charlie: User) -> None:
        data = {"name": "Ada II", "kind": "royalty", "slug": "other"}
        assert browser(charlie).post(reverse("agent_settings", args=["ada"]), data).status_code == 302
        ada.refresh_from_db()
        assert (ada.slug, ada.name, ada.kind) == ("ada", "Ada II", "royalty")

    def test_agent_reinitiation_does_what_was_shown_and_nothing_else(
        self, ada: Agent, charlie: User, settings: object
    ) -> None:
        settings.IDENTITY_PROMPT = "You are Ada, born again."  # type: ignore[attr-defined]
        client, url = browser(charlie), reverse("agent_initiate", args=["ada"])
        shown = client.get(url)
        assert "born again" in page(shown)
        settings.IDENTITY_PROMPT = "You are somebody else."  # type: ignore[attr-defined]
        refused = client.post(url, {"seen": shown.context["seen"], "reason": "New year."})
        assert refused.status_code == 409
        assert "somebody else" in page(refused)
        assert "New year." in page(refused)
        assert client.post(url, {"seen": refused.context["seen"], "reason": "New year."}).status_code == 302
        current = IdentityVersion.objects.current().get(agent=ada, section="character")
        assert (current.version, current.content, current.reason) == (2, "You are somebody else.", "New year.")


class TestIdentity:
    def test_identity_page_shows_every_section_with_tokens_and_pending_changes(
        self, ada: Agent, alice: User, bob: User
    ) -> None:
        for number in range(5):
            identity_propose(
                agent=ada, section="values", content=f"Wish {number}", by=Principal.of_user(bob), wait=True
            )
        response = browser(alice).get(reverse("agent_identity", args=["ada"]))
        sections = {item["section"]: item for item in response.context["sections"]}
        assert list(sections) == ["character", "values", "protocols", "preferences", "boundaries", "environment"]
        assert (len(sections["values"]["waiting"]), sections["values"]["waiting_count"]) == (3, 5)
        assert sections["character"]["tokens"] > 0
        assert "All 5 pending" in page(response)
        assert "No text. Who the agent is" not in page(response)
        assert "No text. Its priorities when goals conflict" in page(response)

    def test_identity_page_escapes_hostile_text(self, ada: Agent, bob: User) -> None:
        write(ada, bob, "<script>alert(1)</script>", "<img src=x onerror=alert(1)>")
        for name in REVIEWABLE:
            body = page(browser(bob).get(reverse(name, args=PAGES[name])))
            assert "<script>alert" not in body
            assert "<img src=x" not in body


class TestHistory:
    def test_history_is_paged_by_fifty(self, alice: User, many_versions: int) -> None:
        client = browser(alice)
        for number, first, last in (("1", 1001, 952), ("2", 951, 902), ("21", 1, 1), ("99", 1, 1), ("x", 1001, 952)):
            rows = client.get(reverse("section_history", args=VALUES), {"page": number}).context["rows"]
            assert (rows[0]["version"].version, rows[-1]["version"].version) == (first, last)

    def test_history_row_names_restored_version_and_approver(
        self, ada: Agent, actor: Principal, alice: User, bob: User
    ) -> None:
        wish = identity_propose(agent=ada, section="values", content="Mine.", by=actor).proposal
        assert wish is not None
        proposal_approve(proposal=wish, by=Principal.of_user(bob))
        write(ada, bob, "Bob's own, and longer.")
        identity_rollback(agent=ada, section="values", to_version=1, by=Principal.of_user(bob))
        response = browser(alice).get(reverse("section_history", args=VALUES))
        assert "approved by bob" in page(response)
        assert "restored in version 3 by bob" in page(response), "a line that was away for a version"
        assert [row["trend"] for row in response.context["rows"]] == [-4, 4, None]
        lines = ["Edits “Mine.”", "Edits “Bob's own, and longer.”", "None"]
        assert [str(row["example"]) for row in response.context["rows"]] == lines
        assert "<ins>Mine.</ins>" in page(response)
        assert response.context["rows"][0]["version"].restores.version == 1


class TestCompare:
    def test_diff_is_by_default_of_the_last_change(self, ada: Agent, alice: User, bob: User) -> None:
        write(ada, bob, "One.", "Two.", "Three.")
        context = browser(alice).get(reverse("section_compare", args=VALUES)).context
        assert (context["older"], context["newer"], context["layout"]) == (2, 3, "auto")

    @pytest.mark.parametrize(
        ("query", "status", "words"),
        [
            ({"from": "0", "to": "1"}, 200, "empty → version 1"),
            ({"from": "2", "to": "1"}, 200, "version 2 → version 1"),
            ({"from": "1", "to": "1"}, 200, "No differences."),
            ({"from": "1", "to": "9"}, 404, "Values has no version 9; its latest is 2."),
            ({"from": "8", "to": "9"}, 404, "Values has no version 8 and 9"),
            ({"from": "x", "to": "2"}, 422, "Enter the numbers of two versions."),
            ({"from": "-1", "to": "2"}, 422, "Enter the numbers of two versions."),
            ({"from": "", "to": ""}, 422, "Enter the numbers of two versions."),
            ({"from": "1", "to": "9" * 40}, 422, "Enter the numbers of two versions."),
        ],
    )
    def test_diff_refuses_bad_numbers(
        self, query: dict[str, str], status: int, words: str, ada: Agent, alice: User, bob: User
    ) -> None:
        write(ada, bob, "One.", "Two.")
        response = browser(alice).get(reverse("section_compare", args=VALUES), query)
        assert response.status_code == status
        assert words in page(response)

    def test_diff_marks_only_what_changed(self, ada: Agent, alice: User, bob: User) -> None:
        family = "A \U0001f468\u200d\U0001f469\u200d\U0001f467 lives here."
        long_line = "Look, and say what you saw. " * 260
        text = f"\u56de\u7b54\u65e5\u5386\u3002\ntoken_limit_is_1000_for_each\n{long_line}end\n{family}"
        changed = text.replace("\u65e5", "\u6708").replace("1000", "2000").replace("saw. end", "heard. end")
        write(ada, bob, text, changed.replace("\U0001f467", "\U0001f466"))
        shown = page(browser(alice).get(reverse("section_compare", args=VALUES), {"from": "1", "to": "2"}))
        family = "\U0001f468\u200d\U0001f469\u200d"
        for element, words in (
            ("del", ["\u65e5", "1000", "saw", f"{family}\U0001f467"]),
            ("ins", ["\u6708", "2000", "heard", f"{family}\U0001f466"]),
        ):
            assert re.findall(f"<{element}>(.*?)</{element}>", shown) == words

    def test_diff_of_a_section_without_versions(self, ada: Agent, alice: User) -> None:
        assert browser(alice).get(reverse("section_compare", args=VALUES)).status_code == 200


class TestPropose:
    @pytest.fixture
    def post(self, ada: Agent, bob: User) -> Callable[..., HttpResponse]:
        write(ada, bob, "One.")
        client = browser(bob)
        return lambda data: client.post(reverse("section_propose", args=VALUES), data)

    def test_edit_saves_nothing_whose_difference_was_not_shown(self, post: Callable[..., HttpResponse]) -> None:
        for data in (edit("Two.", 1, seen=""), edit("Two.", 1, seen=seen("Other.")), edit("Two.", 1, "preview")):
            response = post(data)
            assert response.status_code == 200
            assert response.context["preview"]["diff"].added == 1
            assert response.context["preview"]["seen"] == seen("Two.")
        assert ChangeProposal.objects.filter(content="Two.").count() == 0

    def test_edit_proposed_waits_and_applied_does_not(self, post: Callable[..., HttpResponse], ada: Agent) -> None:
        assert post(edit("Two.", 1)).status_code == 302
        assert ChangeProposal.objects.pending().get().content == "Two."
        response = post(edit("Three.", 1, "apply", reason="Because."))
        applied = ChangeProposal.objects.get(content="Three.")
        assert response["Location"] == f"/agents/ada/identity/?applied={applied.pk}"
        current = IdentityVersion.objects.current().get(agent=ada, section="values")
        assert (current.version, current.content, current.reason) == (2, "Three.", "Because.")

    def test_edit_under_four_eyes_becomes_a_proposal(
        self, post: Callable[..., HttpResponse], ada: Agent, bob: User, settings: object
    ) -> None:
        settings.FOUR_EYES = True  # type: ignore[attr-defined]
        assert "Apply now" not in page(browser(bob).get(reverse("section_propose", args=VALUES)))
        assert post(edit("Two.", 1, "apply")).status_code == 302
        assert ChangeProposal.objects.pending().get().content == "Two."
        assert IdentityVersion.objects.current().get(agent=ada, section="values").content == "One."

    def test_edit_on_a_stale_base_shows_three_texts_and_moves_on(
        self, post: Callable[..., HttpResponse], ada: Agent, charlie: User
    ) -> None:
        write(ada, charlie, "One, by Charlie.")
        response = post(edit("One, by Bob.", 1, reason="Mine."))
        assert response.status_code == 409
        form = response.context["form"]
        assert (form["content"].value(), form["reason"].value(), form["base_version"].value()) == (
            "One, by Bob.",
            "Mine.",
            "2",
        )
        assert post(edit("One, by both.", 2, "apply")).status_code == 302
        assert IdentityVersion.objects.current().get(agent=ada, section="values").content == "One, by both."

    @pytest.mark.parametrize(
        ("data", "field"),
        [
            (edit("x" * 20_001, 1), "content"),
            (edit("a\x00b", 1), "content"),
            (edit("Two.", 1, reason="y" * 2_001), "reason"),
            (edit("Two.", 1) | {"base_version": "one"}, "base_version"),
        ],
    )
    def test_edit_refused_keeps_the_input(
        self, data: dict[str, str], field: str, post: Callable[..., HttpResponse]
    ) -> None:
        response = post(data)
        assert response.status_code == 422
        assert field in response.context["form"].errors
        assert response.context["form"]["content"].value() == data["content"]
        assert ChangeProposal.objects.pending().count() == 0

    def test_edit_without_a_change_is_named(self, post: Callable[..., HttpResponse]) -> None:
        response = post(edit("One.", 1))
        assert response.status_code == 200
        assert "Nothing to save" in page(response)

    def test_edit_ignores_line_ends_of_a_browser(self, ada: Agent, bob: User) -> None:
        write(ada, bob, "One.\nTwo.")
        response = browser(bob).post(reverse("section_preview", args=VALUES), {"content": "One.\r\nTwo.\r\n"})
        assert response.context["preview"]["diff"].identical

    def test_edit_preview_refuses_what_could_not_be_saved(self, ada: Agent, bob: User) -> None:
        response = browser(bob).post(reverse("section_preview", args=VALUES), {"content": "x" * 20_001})
        assert response.status_code == 422
        assert "at most 20,000 characters" in page(response)


class TestRollback:
    URL = "/agents/ada/identity/values/rollback/1/"

    def test_rollback_writes_a_new_version_that_names_the_old_one(self, ada: Agent, bob: User) -> None:
        write(ada, bob, "One.", "Two.")
        client = browser(bob)
        assert client.get(self.URL).context["diff"].added == 1
        response = client.post(self.URL, {"base_version": "2", "reason": "Back."}, follow=True)
        assert "with the text of version 1" in page(response)
        current = IdentityVersion.objects.current().get(agent=ada, section="values")
        assert (current.version, current.content, current.restores.version) == (3, "One.", 1)

    def test_rollback_on_a_stale_base_is_refused_with_the_new_difference(self, ada: Agent, bob: User) -> None:
        write(ada, bob, "One.", "Two.", "Three.")
        response = browser(bob).post(self.URL, {"base_version": "2", "reason": "Back."})
        assert response.status_code == 409
        assert "Three" in page(response)
        assert "Back." in page(response)
        assert IdentityVersion.objects.current().get(agent=ada, section="values").version == 3

    def test_rollback_under_four_eyes_is_announced_and_proposed(self, ada: Agent, bob: User, settings: object) -> None:
        write(ada, bob, "One.", "Two.")
        settings.FOUR_EYES = True  # type: ignore[attr-defined]
        client = browser(bob)
        assert "another person must approve" in page(client.get(self.URL))
        client.post(self.URL, {"base_version": "2"})
        assert ChangeProposal.objects.pending().get().restores.version == 1
        assert IdentityVersion.objects.current().get(agent=ada, section="values").content == "Two."

    def test_rollback_of_the_current_version_is_not_offered(self, ada: Agent, bob: User) -> None:
        write(ada, bob, "One.")
        client = browser(bob)
        assert "Nothing to roll back" in page(client.get(self.URL))
        client.post(self.URL, {"base_version": "1"})
        assert IdentityVersion.objects.filter(agent=ada, section="values").count() == 1
