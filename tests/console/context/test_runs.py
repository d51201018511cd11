"""The log of real calls, one run, comparing, and what can be done about a memory."""

import re
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.urls import reverse
from django.utils.html import strip_tags

from context.models import ContextPin, ContextRun, MemoryUsage
from context.services.context import context_outcome, context_respond
from context.what_if.still_said import what_is_still_said
from identity.models import ApiToken
from identity.principal import Principal
from memory.comparison.compare_facts import Comparison, Kind
from memory.models import Fact, MemoryReview
from memory.services.facts import fact_supersede
from memory.services.reviews.open_review import PairReviewDraft, pair_reviews_open
from nousweb.console.context.views.context_runs import answer_lines, answer_pieces
from nousweb.lib import clock
from tests.factories import EXPORT, make_fact, make_facts, make_run, without_budget
from tests.http import browser, markup

LOG = "/agents/ada/context/runs/"
COMPARE = "/agents/ada/context/compare/"


@pytest.fixture
def ledger(ada, system):
    return make_fact(ada, "The ledger export failed because the replica lagged.", system, subject="Ledger")


@pytest.fixture
def dreamer(ada, subconscious_token):
    return Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))


def text(answer):
    return answer.content.decode()


def shown(client, **query):
    return [
        run.input
        for run in ContextRun.objects.filter(pk__in=[row.pk for row in client.get(LOG, query).context["page"].rows])
    ]


def test_runs_page_is_filtered_by_its_address(ada, actor, alice):
    make_run(ada, actor, "hello", "s-1")
    run = make_run(ada, actor, EXPORT, "s-2")
    ContextRun.objects.filter(pk=run.pk).update(outcome="failure", response="The replica lagged.")
    client = browser(alice)
    today = f"{clock.now():%Y-%m-%d}"
    tomorrow = f"{clock.now() + timedelta(days=2):%Y-%m-%d}"
    for query in (
        {"q": "ledger"}, {"q": "REPL"}, {"frame": "debug"}, {"session": "s-2"}, {"outcome": "failure"},
        {"min_tokens": str(run.tokens)}, {"fingerprint": run.fingerprint_id},
    ):  # fmt: skip
        assert shown(client, **query) == [EXPORT], query
    assert shown(client, outcome="none") == ["hello"]
    assert len(shown(client, profile="squire_default", since=today)) == 2
    assert len(shown(client, period="1")) == 2
    ContextRun.objects.filter(pk=run.pk).update(created_at=clock.now() - timedelta(days=2))
    assert (shown(client, period="1"), len(shown(client, period="7"))) == (["hello"], 2)
    assert shown(client, since=tomorrow) == []
    assert shown(client, frame="x") == []
    assert client.get(LOG, {"after": "x"}).status_code == 422


def test_row_shows_the_place_of_a_search_marked(ada, actor, alice):
    run = make_run(ada, actor, "hello", "s-1")
    ContextRun.objects.filter(pk=run.pk).update(response=f"{'It was quiet. ' * 40}Then the volume was extended.")
    page = markup(browser(alice).get(LOG, {"q": "EXTEN"}))
    assert "Then the volume was <mark>exten</mark>ded." in page
    assert "Then the volume" not in markup(browser(alice).get(LOG, {"q": "hello"}))


def test_runs_pages_follow_each_other_without_a_gap(ada, actor, alice, django_assert_num_queries):
    first = make_run(ada, actor, "hello")
    base = ContextRun.objects.values().get(pk=first.pk)
    base.pop("id")
    ContextRun.objects.bulk_create(
        ContextRun(**{**base, "input": f"n{number}", "created_at": clock.now() - timedelta(minutes=number // 3)})
        for number in range(130)
    )
    client = browser(alice)
    seen, query = [], {}
    client.get(LOG)
    while True:
        with django_assert_num_queries(9):
            page = client.get(LOG, query).context["page"]
        seen += [row.pk for row in page.rows]
        if not page.next:
            break
        query = {"after": page.next}
    assert len(seen) == len(set(seen)) == 131
    assert seen == list(ContextRun.objects.values_list("pk", flat=True))


def test_runs_show_answers_beside_questions_and_who_asked_where_that_differs(api, ada, actor, actor_token, alice, bob):
    made = make_run(ada, actor, "When does the ferry leave?")
    api.as_token(actor_token).post(f"/context/{made.pk}/response", {"response": "At <noon>."})
    page = text(browser(alice).get(LOG))
    assert "At &lt;noon&gt;." in page
    assert 'data-label="By"' not in page
    make_run(ada, Principal.of_user(bob), "And back?")
    page = text(browser(alice).get(LOG))
    assert page.count('data-label="By"') == 2


def test_runs_of_the_subconscious_need_the_permission(ada, dreamer, alice, charlie):
    run = make_run(ada, dreamer, "I dream")
    assert "I dream" not in text(browser(alice).get(LOG))
    assert "I dream" in text(browser(charlie).get(LOG))
    for url, refused in (
        (f"/agents/ada/context/{run.pk}/", 404),
        (f"{COMPARE}?a={run.pk}&b=now", 422),
        (f"/agents/ada/context/?run={run.pk}", 404),
    ):
        assert browser(alice).get(url).status_code == refused
        assert browser(charlie).get(url).status_code == 200


def test_run_page_is_made_from_the_stored_record(ada, ledger, actor, bob, django_assert_num_queries):
    run = make_run(ada, actor)
    client = browser(bob)
    url = f"/agents/ada/context/{run.pk}/"
    client.get(url)
    with django_assert_num_queries(15):
        page = client.get(url)
    assert "replica lagged" in text(page)
    # The pieces lie in the log: what becomes of the memory changes nothing here.
    Fact.objects.filter(pk=ledger.pk).update(content="Changed behind its back.")
    assert "Changed behind" not in text(client.get(url))
    assert f"/agents/ada/context/compare/?a={run.pk}&amp;b=now" in text(page)
    assert f"/agents/ada/context/?run={run.pk}" in text(page)
    assert text(page).count("Left out") == 1, "the tab"


def test_run_page_shows_referenced_items(api, ada, ledger, actor_token, alice):
    run = api.as_token(actor_token).post("/context", {"session_id": "s", "input": EXPORT}).json()["id"]
    url = f"/agents/ada/context/{run}/"
    assert "has not been reported" in text(browser(alice).get(url))
    assert "The answer refers to" not in text(browser(alice).get(url))
    api.as_token(actor_token).post(f"/context/{run}/response", {"response": "The replica lagged."})
    page = browser(alice).get(url)
    [[memory]] = [group["memories"] for group in page.context["turn"]["groups"]]
    assert (memory["id"], memory["use"].referenced, memory["number"]) == (str(ledger.pk), True, 1)
    assert memory["why"], "why it came"
    assert "The answer refers to 1" in text(page)


def test_run_outcome_is_set_by_people(ada, actor, alice, bob):
    run = make_run(ada, actor)
    url = reverse("agent_context_outcome", args=["ada", run.pk])
    assert browser(alice).post(url, {"outcome": "success"}).status_code == 403
    assert browser(bob).post(url, {"outcome": "success", "note": "Good."}).status_code == 302
    run.refresh_from_db()
    assert (run.outcome, run.outcome_note) == ("success", "Good.")
    told = re.sub(r"\s+", " ", markup(browser(alice).get(run.get_absolute_url())))
    assert 'Success</span> <span class="muted"> reported by bob' in told
    assert "Note on the outcome" not in told
    page = text(browser(bob).post(url, {"outcome": "maybe"}, follow=True))
    assert "outcome must be success or failure" in page


def test_run_page_says_how_its_prompt_begins_like_the_one_before_and_what_ended_that(ada, actor, alice):
    def beginning(run):
        page = text(browser(alice).get(f"/agents/ada/context/{run.pk}/"))
        return page.partition("<dt>Cache</dt> <dd>")[2].partition("</dd>")[0] or None

    first = make_run(ada, actor, "hello")
    assert beginning(first) is None
    again = make_run(ada, actor, "hello")
    compared = f'<a href="{COMPARE}?a={first.pk}&amp;b={again.pk}">previous prompt</a>'
    assert beginning(again) == f"All of it equals the {compared}"
    make_fact(ada, "Tim likes tea.", actor, category="preference")
    told = make_run(ada, actor, "hello")
    share = 100 * told.system_prompt.index("User Profile") // len(told.system_prompt)
    assert beginning(told).startswith(f"{share} % equals the ")
    assert beginning(told).endswith(
        "</a> and can come from the model's cache; User Profile is the first that differs (fact learned)."
    )
    asked = make_run(ada, actor, "Why does it fail?", session="another")
    assert f"a={told.pk}&amp;b={asked.pk}" in beginning(asked), (
        "the first of a session begins like the agent's last one"
    )
    assert beginning(asked).endswith(
        "</a> and can come from the model's cache; Current Frame is the first that differs (the request)."
    )


def test_run_without_structure_still_has_a_page(ada, actor, alice):
    run = make_run(ada, actor)
    ContextRun.objects.filter(pk=run.pk).update(
        decisions={}, candidates=[], fingerprint={}, timings={}, sections=[], fingerprint_id="", frame="", profile=""
    )
    for tab in ("memories", "left", "why"):
        assert browser(alice).get(f"/agents/ada/context/{run.pk}/", {"tab": tab}).status_code == 200
    page = browser(alice).get(f"/agents/ada/context/{run.pk}/", {"tab": "prompt"})
    assert "calm and exact" in text(page), "the prompt as it was sent, though its pieces are not known"


def test_run_comparison_with_today(ada, actor, system, alice):
    run = make_run(ada, actor)
    fact = make_fact(ada, "The ledger export failed because the replica lagged.", system)
    page = browser(alice).get(COMPARE, {"a": str(run.pk), "b": "now"})
    (item,) = page.context["comparison"].items
    assert (item.change, item.id) == ("added", str(fact.pk))
    assert "+2" in text(page) or page.context["comparison"].diff.added >= 2
    assert ContextRun.objects.count() == 1
    back = browser(alice).get(COMPARE, {"a": "now", "b": str(run.pk)}).context["comparison"].items
    assert [one.change for one in back] == ["removed"]


def test_run_comparison_with_variations(ada, ledger, actor, alice):
    run = make_run(ada, actor)
    client = browser(alice)
    same = client.get(COMPARE, {"a": str(run.pk), "b": "now"}).context["comparison"]
    assert (same.items, same.diff.identical, same.tokens_change) == ((), True, 0)
    past = client.get(COMPARE, {"a": str(run.pk), "b": str(run.pk), "b_as_of": "2020-01-01T00:00"}).context
    assert str(ledger.pk) in {one.id for one in past["comparison"].items if one.change == "removed"}
    framed = client.get(COMPARE, {"a": str(run.pk), "b": "now", "b_frame": "decision"}).context["comparison"]
    assert {one.type for one in framed.items} == {"frame"}
    profiled = client.get(COMPARE, {"a": str(run.pk), "b": "now", "b_profile": "royalty_default"})
    assert "profile royalty_default" in text(profiled)


@pytest.mark.parametrize(
    "query", [{"a": "x"}, {"a": "now", "b": "now"}, {"a": "00000000-0000-4000-8000-000000000000", "b": "now"}]
)
def test_run_comparison_names_what_cannot_be_compared(ada, alice, query):
    answer = browser(alice).get(COMPARE, query)
    assert answer.status_code == 422
    assert "Not compared." in text(answer)


def test_run_comparison_offers_the_latest_runs(ada, actor, dreamer, alice, bob):
    run, hidden = make_run(ada, actor), make_run(ada, dreamer)
    page = text(browser(alice).get(COMPARE))
    assert "Compare identity versions" not in page, "she may not talk to agents"
    assert "Compare identity versions" in text(browser(bob).get(COMPARE))
    assert f'<option value="{run.pk}">' in page
    assert '<option value="now">' in page
    assert str(hidden.pk) not in page


def test_run_timings_are_listed_in_order(ada, actor, alice):
    run = make_run(ada, actor)
    page = text(browser(alice).get(f"/agents/ada/context/{run.pk}/", {"tab": "why"}))
    places = [page.index(f"<dt>{word}</dt>") for word in ("Plan", "Search", "· words", "· scores", "Assembly")]
    assert places == sorted(places)
    assert "search." not in page


def test_run_comparison_names_moved_items_and_changed_verdicts(ada):
    from context.engine.context_record import ContextRecord
    from nousweb.console.context.views.compare_runs import compare_runs, fact_outcome

    def side(*ids, verdicts=()):
        items = [{"type": "fact", "id": one, "text": f"- {one}", "tokens": 1} for one in ids]
        section = {"label": "Facts", "key": "facts", "tier": 3, "tokens": 1, "budget": 1, "truncated": False}
        candidates = [
            {"type": "fact", "id": one, "text": one, "tokens": 0, "verdict": verdict, "score": 0.1}
            for one, verdict in verdicts
        ]
        return ContextRecord(
            persona="actor", request={}, system_prompt="\n".join(ids), tokens=1, budget_tokens=10,
            sections=[{**section, "items": items}], candidates=candidates, decisions={}, fingerprint={},
            failed_sections=[], timings={},
        )  # fmt: skip

    found = compare_runs(
        "ada",
        side("a", "b", "c", verdicts=[("x", "over_budget")]),
        side("new", "b", "a", "c", verdicts=[("x", "below_threshold")]),
    )
    assert {(one.id, one.change) for one in found.items} == {
        ("new", "added"), ("a", "moved"), ("b", "moved"), ("x", "verdict"),
    }  # fmt: skip
    assert found.same == 1
    assert found.words == "1 part added and 2 moved; 1 the same."
    told = fact_outcome(Fact(content="B", active=False), "ada", side("a", "b"))
    assert (told.is_right, told.words) == (
        False,
        "The fact is no longer in the prompt, but another memory still says the same.",
    )
    assert [one.text for one in told.others] == ["b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("60 seconds after the first error. Mails in flight are sent again.", True),
        ("Input: When does mail fail over? Output: after 60 seconds", True),
        ("The timeout of the mail failover is 60 seconds!", True),
        ("Mail goes on after a 60 second pause.", True),
        ("Does mail fail over after 60 seconds?", False),
        ("The mail failover takes 90 seconds, not 60 seconds.", False),
        ("It was wrong to say that mail fails over after 60 seconds.", False),
        ("The timeout of the mail failover is 90 seconds.", False),
        ("Checkout gives up after 60 seconds.", False),
    ],
)
def test_a_text_still_says_a_fact_by_its_value_and_subject(text, said):
    assert bool(what_is_still_said("The timeout of the mail failover is 60 seconds.", "mail", text)) is said


def test_memory_is_pinned_on_its_page_which_leads_back_to_the_preview(ada, ledger, bob):
    back = f"input={quote(EXPORT)}&frame=debug"
    preview = f"/agents/ada/context/?{back}"
    client = browser(bob)
    own = f"/agents/ada/facts/{ledger.pk}/"
    assert f'href="{own}?back=' in text(client.get(preview))
    page = text(client.get(f"{own}?back={quote(back)}"))
    assert f'href="{preview.replace("&", "&amp;")}"' in page
    assert "Prompts include it when it fits the question" in page
    pin = f"/agents/ada/context/items/fact/{ledger.pk}/?back={quote(back)}"
    assert client.get(pin)["Location"].startswith(f"{own}?back=")
    answer = client.post(pin, {"action": "pin"}, follow=True)
    assert preview.replace("&", "&amp;") in text(answer)
    assert "Pinned by" in text(answer)
    assert ContextPin.objects.get().item_id == str(ledger.pk)
    assert client.get("/agents/ada/context/pins/").context["rows"][0].text == ledger.content
    assert "back=" not in client.get(f"{own}?back={quote(back)}").context["share"].link
    client.post(pin, {"action": "unpin"})
    assert not ContextPin.objects.exists()
    assert client.post(pin, {"action": "unpin"}).status_code == 404
    client.post(f"{own}invalidate/", {"reason": "Nobody said so."})
    assert "replica lagged" not in client.get(preview).context["shown"].record.system_prompt
    page = text(client.get(own))
    assert "No prompt includes it" in page
    assert 'value="pin"' not in page
    assert client.post(pin, {"action": "pin"}).status_code == 404


def test_memory_page_offers_viewers_no_pin(ada, ledger, alice):
    page = text(browser(alice).get(ledger.get_absolute_url()))
    assert "Prompts include it when it fits the question" in page
    assert 'value="pin"' not in page
    assert "Add an expectation" not in page
    for action in ("pin", "unpin"):
        url = f"/agents/ada/context/items/fact/{ledger.pk}/"
        assert browser(alice).post(url, {"action": action}).status_code == 403
    assert not ContextPin.objects.exists()


def test_run_action_on_another_agents_memory_is_not_found(ada, bruno, ledger, alice, bob, dreamer):
    dream = make_fact(ada, "A dream.", dreamer)
    for url in (
        f"/agents/bruno/context/items/fact/{ledger.pk}/",
        f"/agents/ada/context/items/fact/{dream.pk}/",
        "/agents/ada/context/items/fact/x/",
    ):
        assert browser(alice).get(url, follow=True).status_code == 404
        assert browser(bob).post(url, {"action": "pin"}).status_code == 404


def test_fingerprints_page_shows_the_confidence(ada, actor, alice, django_assert_num_queries):
    runs = [make_run(ada, actor) for _ in range(4)]
    for run, outcome in zip(runs, ("success", "success", "failure"), strict=False):
        ContextRun.objects.filter(pk=run.pk).update(outcome=outcome)
    client = browser(alice)
    url = "/agents/ada/context/fingerprints/"
    client.get(url)
    with django_assert_num_queries(9):
        page = client.get(url)
    ((row, _),) = page.context["rows"]
    assert (row.runs, row.success, row.failure, row.percent, row.few) == (4, 2, 1, 67, True)
    assert (row.low, row.high) == (21, 94)
    for told in ("2 of 3", "21 to 94 %", "not yet reliable"):
        assert told in text(page), told
    ContextRun.objects.update(created_at=clock.now() - timedelta(days=3))
    assert client.get(url, {"days": "1"}).context["rows"] == []
    assert len(client.get(url, {"days": "7"}).context["rows"]) == 1
    assert client.get(url, {"days": "x"}).status_code == 200


def test_run_shows_the_answer_with_the_words_of_each_memory_marked(ada, actor, alice, ledger, system):
    make_fact(ada, "Tim drinks green tea in the morning.", system, category="preference")
    run = make_run(ada, actor)
    answer = "<b>Sorry</b>: the replica lagged, so the ledger export failed.\n\nBread needs time."
    context_respond(run=run, response=answer, by=actor)
    page = browser(alice).get(run.get_absolute_url())
    shown = text(page)
    assert "".join(piece.text for piece in page.context["answer"]) == answer
    assert next(piece.text for piece in page.context["answer"] if piece.numbers).startswith("replica lagged")
    memories = [one for group in page.context["turn"]["groups"] for one in group["memories"]]
    used = memories[0]
    for part in (f'href="{used["url"]}"', 'id="use-1"', 'class="answer-mark"'):
        assert part in shown
    assert [piece.text for piece in page.context["answer"] if piece.notes == []] == [" needs time."]
    assert shown.count(">no memory<") == 1, "of a sentence, however many lines are before it"
    assert "&lt;b&gt;Sorry" in shown
    assert [one["number"] for one in memories] == [1, None]
    assert "aria-sort" not in shown, "numbered memories are in the order of the answer"
    ranked = browser(alice).get(run.get_absolute_url(), {"order": "relevance"})
    assert text(ranked).count('aria-sort="descending"') == 1
    [found] = [[one["relevance"] or 0 for one in group["memories"]] for group in ranked.context["turn"]["groups"]]
    assert found == sorted(found, reverse=True)


def test_answer_of_several_lines_keeps_its_paragraphs_and_lists(ada, actor, alice, ledger):
    run = make_run(ada, actor)
    answer = "## Finding\nThe replica lagged.\nSo the export failed.\n\n1. Stop the job.\n2) Run `resync`.\n- Tell Tim."
    context_respond(run=run, response=answer, by=actor)
    shown = text(browser(alice).get(run.get_absolute_url()))
    lines = re.findall(r'<p class="is-(\w+)">(.*?)</p>', shown, re.DOTALL)
    assert [kind for kind, _ in lines] == ["head", "text", "text", "gap", "item", "item", "item"]
    words = [" ".join(strip_tags(line).split()) for _, line in lines]
    assert words[0] == "Finding"
    assert words[-2:] == ["2) Run `resync`.", "• Tell Tim."]


def test_code_and_tables_of_an_answer_are_shown_as_such(ada, actor, alice, ledger):
    run = make_run(ada, actor)
    answer = "Run:\n```sh\n  resync <b>\n```\n| Step | Who |\n|---|:-:|\n| stop | <i>Tim</i> |\nDone."
    context_respond(run=run, response=answer, by=actor)
    shown = text(browser(alice).get(run.get_absolute_url()))
    answer = shown.partition('class="answer-text"')[2].partition("answer-legend")[0]
    assert re.findall(r'<p class="is-(\w+)">', answer) == ["text", "code", "text"]
    plain = re.sub(r"\n\s*|</?span[^>]*>", "", answer)
    assert "  resync &lt;b&gt;</p>" in plain
    assert re.findall(r"<(th|td).*?> (.*?) </t", plain) == [
        ("th", "Step"),
        ("th", "Who"),
        ("td", "stop"),
        ("td", "&lt;i&gt;Tim&lt;/i&gt;"),
    ]


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        ("```nous serve``` starts it.\nThen open port 8080.", ["text", "text"]),
        ("````md\n```\nx\n```\n````\nDone.", ["code", "code", "code", "text"]),
        ("```\n| x |", ["code"]),
        ("||\n|---|\nSo.\n| a |\n| b |", ["text", "text", "text", "table"]),
        ("| a | b |\n|---|---|\n| - | - |\n| | |", ["table head"]),
    ],
)
def test_each_line_of_an_answer_is_shown_but_fences_and_separators(answer, kinds):
    lines = list(answer_lines(answer_pieces(answer)))
    assert [f"{kind} {mark}".strip() for kind, mark, _ in lines] == kinds
    rows = [
        [[piece.text for piece in cell] for cell in row] for kind, _, rows in lines if kind == "table" for row in rows
    ]
    assert len(rows) == {"table": 2, "table head": 3}.get(kinds[-1], 0)


def test_sentence_of_no_memory_says_so_once(ada, actor, alice, ledger, system):
    make_fact(ada, "Tim drinks green tea in the morning.", system, category="preference")
    run = make_run(ada, actor)
    answer = (
        "The replica lagged, so the ledger export failed.\nNobody bakes brown bread.\n\n\nTim drinks his morning tea."
    )
    context_respond(run=run, response=answer, by=actor)
    shown = text(browser(alice).get(run.get_absolute_url()))
    lines = re.findall(r'<p class="is-(\w+)">(.*?)</p>', shown, re.DOTALL)
    assert ["no memory" in line for kind, line in lines if kind == "text"] == [False, True, False]
    assert shown.count(">no memory<") == 1


def test_each_sentence_names_the_memories_of_its_words_and_claims_no_more(ada, actor, bob, system):
    for content in (
        "Backups of the ledger are kept for 30 days.",
        "The ledger export is planned to move to the archive.",
        "Charlie watches the ledger export at night.",
    ):
        make_fact(ada, content, system, category="preference")
    run = make_run(ada, actor)
    answer = (
        "Yes: backups of the ledger are kept for 30 days. Backups of the ledger are kept for 90 days. The ledger export"
        " has moved to the archive. Charlie does not watch the ledger export at night. Nobody bakes brown bread. Sure."
    )
    context_respond(run=run, response=answer, by=actor)
    page = browser(bob).get(run.get_absolute_url())
    said = [[(note.key, note.kind) for note in one.notes] for one in page.context["answer"] if one.notes is not None]
    assert said == [[(1, "same")], [(1, "changed")], [(2, ""), (3, "coming")], [(2, "changed")], []]
    shown = text(page)
    assert 'class="note is-same" href="#use-1" aria-label="Memory 1. Says the same."' in shown
    assert 'aria-label="Memory 3. Says it as still to come."' in shown
    legend = shown.partition('answer-legend"')[2].partition("</p>")[0]
    assert re.findall(r"</span> (memory \d says [^<]*)<", legend) == ["memory 1 says the same"]
    assert re.findall(r'">(memory \d)</a> ([^.]*)\.', shown) == [
        ("memory 1", "says something else"),
        ("memory 2", "says something else"),
        ("memory 3", "only plans this"),
    ], "the worst first"
    assert "Here: 90 days. There: 30 days." in shown
    assert shown.count(">no memory<") == 1, "nor of two words"
    [menu] = re.search(r'id="use-1".*?</tr>', shown, re.DOTALL)[0].split("menu-items")[1:]
    assert "Mark as wrong" in menu
    assert "Confirm" in menu
    elsewhere = text(browser(bob).get(run.get_absolute_url(), {"tab": "prompt"}))
    assert 'href="?tab=memories#use-1"' in elsewhere, "where the rows are not shown"


def test_answer_that_no_memory_supports_puts_its_success_in_doubt(ada, actor, alice, bob, system):
    make_fact(ada, "Kim will extend the ledger volume by 100 GB tomorrow.", system, category="preference")
    run = make_run(ada, actor)
    context_respond(run=run, response="The ledger volume was extended by 100 GB.", by=actor)
    context_outcome(run=run, outcome="success", note="", by=actor)
    page = browser(bob).get(run.get_absolute_url())
    shown = text(page)
    assert "only plans this." in shown
    assert [piece.text for piece in page.context["answer"] if piece.look == "answer-doubtful"] == ["was", "extended"]
    assert "Reported success, not supported by memory" in shown
    assert "Its names and numbers" not in shown
    assert f"?run={run.pk}#new" in shown
    assert re.search(r'<form[^>]*id="outcome"[^>]*><input type="hidden" name="csrfmiddlewaretoken"', page.text)
    assert "Set to failure" not in text(browser(alice).get(run.get_absolute_url())), "who may not"
    runs, session = reverse("agent_context_runs", args=["ada"]), reverse("agent_context_session", args=["ada"])
    listed = [runs, f"{runs}?outcome=doubt", f"{session}?session={run.session_id}"]
    doubt = 'title="Reported success, not supported by memory: one only plans this"'
    assert [doubt in text(browser(bob).get(address)) for address in listed] == [True] * 3
    home = text(browser(bob).get(reverse("home")))
    assert "Prompts that failed or are in doubt" in home
    assert "One in its prompt only plans this." in home
    browser(bob).post(reverse("agent_context_outcome", args=["ada", run.pk]), {"outcome": "success"})
    judged = text(browser(bob).get(run.get_absolute_url()))
    assert "Reported success, not supported" not in judged, "a person's word is not in doubt"
    assert not any(doubt in text(browser(bob).get(address)) for address in listed)
    assert "are in doubt" not in text(browser(bob).get(reverse("home")))
    judged = make_run(ada, actor)
    context_outcome(run=judged, outcome="success", note="", by=Principal.of_user(bob))
    context_respond(run=judged, response="The ledger volume was extended by 100 GB.", by=actor)
    judged.refresh_from_db()
    assert not judged.in_doubt, "nor if it came before the answer"


def test_failed_run_says_which_memory_of_its_prompt_is_contradicted_by_now(ada, actor, bob, system):
    old, new = make_facts(ada, ["The ledger export waits 60 seconds.", "Tim drinks green tea."], system)
    run = make_run(ada, actor)
    context_respond(run=run, response="Sorry, I do not know.", by=actor)
    context_outcome(run=run, outcome="failure", note="", by=actor)
    assert "contradicted" not in text(browser(bob).get(run.get_absolute_url()))
    without_budget(ada)
    [review] = pair_reviews_open([PairReviewDraft(old, new, Comparison(Kind.DIFFERS, 0.9, 0.5))], by=system)
    shown = text(browser(bob).get(run.get_absolute_url()))
    assert re.search(r"The prompt had “The ledger export waits 60 seconds.”, contradicted [^<]+\.", shown)
    assert f'href="{reverse("memory_review_detail", args=[review.pk])}">Resolve' in shown
    row = re.search(r"<tr data-keyitem(?:(?!</tr>).)*waits 60 seconds.*?</tr>", shown, re.DOTALL)[0]
    assert "Mark as wrong" in row.partition("menu-items")[2]


def test_memory_that_was_kept_as_one_of_the_most_recent_says_so_beside_what_it_has_in_common(ada, actor, alice, ledger):
    run = make_run(ada, actor)
    kept = [{**one, "place": "tail", "cosine": 0.5} for one in run.candidates]
    ContextRun.objects.filter(pk=run.pk).update(candidates=kept)
    shown = text(browser(alice).get(run.get_absolute_url()))
    assert re.search(r'class="reason">about Ledger · says “[^<]*” · one of the most recent<', shown)


def test_answer_that_was_recognised_as_of_no_memory_says_no_more_than_that(ada, actor, alice, ledger):
    run = make_run(ada, actor)
    ContextRun.objects.filter(pk=run.pk).update(
        response="Nobody bakes brown bread. A replica was late for an export.", responded_at=clock.now()
    )
    shown = text(browser(alice).get(run.get_absolute_url()))
    assert "No memory was recognised by the words of this answer." in shown
    assert shown.count(">no memory<") == 1, "the other sentence has words of one"


def test_each_memory_that_an_answer_refers_to_is_marked_in_it(ada, actor, alice, ledger, system):
    make_fact(ada, "The ledger export failed twice at noon.", system)
    run = make_run(ada, actor)
    context_respond(run=run, response="Sorry. The ledger export failed because the replica lagged.", by=actor)
    # As if all of its phrases were parts of longer ones of the other.
    MemoryUsage.objects.filter(run=run).exclude(item_id=ledger.pk).update(referenced=True, spans=[])
    page = browser(alice).get(run.get_absolute_url())
    memories = page.context["turn"]["groups"][0]["memories"]
    assert [(one["id"] == str(ledger.pk), one["number"]) for one in memories] == [(True, 1), (False, 2)]
    marked = " ".join(piece.text for piece in page.context["answer"] if 2 in piece.numbers)
    assert ("ledger export failed" in marked, "lagged" in marked, "Sorry" in marked) == (True, False, False)


def test_value_beside_the_marked_words_of_a_memory_is_marked_too(ada, actor, alice, ledger, system):
    make_fact(ada, "The ledger export failed because the replica disk was 91 % full.", system)
    run = make_run(ada, actor)
    context_respond(run=run, response="The replica disk reached 91 %; then the replica lagged.", by=actor)
    pieces = browser(alice).get(run.get_absolute_url()).context["answer"]
    assert any("91 %" in piece.text for piece in pieces if piece.numbers)


def test_run_says_which_names_and_numbers_of_its_answer_are_not_in_the_prompt(ada, actor, alice, ledger, system):
    make_fact(ada, "The ledger export failed because the replica disk was 91 % full.", system)
    run, client = make_run(ada, actor), browser(alice)
    context_respond(run=run, response="The ledger export failed: the replica disk was 91% full.", by=actor)
    page = text(client.get(run.get_absolute_url()))
    assert "Its names and numbers are all in what the agent was given; no more was checked." in page
    answer = "The replica disk was 91 % full of 250 GB. Ask Dave on Tuesday."
    left_out = {**run.candidates[0], "text": "The volume of the replica has 250 GB.", "verdict": "over_budget"}
    ContextRun.objects.filter(pk=run.pk).update(response=answer, candidates=[*run.candidates, left_out])
    shown = text(client.get(run.get_absolute_url()))
    assert "Not in the prompt: 250 GB, Dave, Tuesday." in shown
    assert shown.count("answer-absent") == 4, "three words and the legend"
    [where] = re.findall(r"“([^”]+)” stands in a memory that was left out: no room", shown)
    assert where == "250 GB"
    link = re.search(r'href="(\?q=250%20GB[^"]*)#parts">Show<', shown)[1].replace("&amp;", "&")
    led = client.get(f"{run.get_absolute_url()}{link}")
    assert [one["text"] for one in led.context["candidates"]] == [left_out["text"]]


def test_run_of_an_older_version_has_no_answer_to_show(ada, actor, alice, ledger):
    run = make_run(ada, actor)
    context_respond(run=run, response="The replica lagged, so the ledger export failed.", by=actor)
    ContextRun.objects.filter(pk=run.pk).update(response="")
    shown = text(browser(alice).get(run.get_absolute_url()))
    assert "The text of the answer was not kept." in shown
    assert "<mark" not in shown


def test_run_tells_which_facts_no_longer_hold_and_a_change_leads_to_its_proof(ada, actor, reviewer, system, alice, bob):
    wrong, old, kept = make_facts(
        ada, [f"The ledger export {what}." for what in ("failed at noon", "ran late", "is slow")], system
    )
    run = make_run(ada, actor)
    url = reverse("agent_context_run", args=["ada", run.pk])
    page = markup(browser(bob).get(url))
    marked = reverse("agent_fact_change", args=["ada", wrong.pk, "invalidate"])
    assert f'href="{marked}?run={run.pk}"' in page
    assert f'href="{marked.replace("invalidate", "supersede")}?run={run.pk}"' in page
    assert marked not in markup(browser(alice).get(url))
    assert " since<" not in page
    make_run(ada, actor, "Was the ledger export late at noon?")
    replaced = f"{marked.replace('invalidate', 'supersede')}?run={run.pk}"
    asked = markup(browser(bob).get(f"{marked}?run={run.pk}"))
    assert f'<a href="{replaced}">Replace with …</a>' in asked
    assert f'href="{url}">Cancel</a>' in asked
    done = browser(bob).post(f"{marked}?run={run.pk}", follow=True)
    assert done.redirect_chain == [(url, 302)]
    proof = f"{COMPARE}?a={run.pk}&b=now&fact={wrong.pk}"
    assert f'<a href="{proof.replace("&", "&amp;")}">See the next prompt</a>' in markup(done)
    assert "The fact is no longer in the prompt.</h2>" in text(browser(bob).get(proof))
    _, new = fact_supersede(old=old, new=make_fact(ada, "The ledger export ran early.", system), by=reviewer)
    shown = browser(bob).get(f"{COMPARE}?a={run.pk}&b=now&fact={old.pk}").context["fact"]
    assert (shown.words, [one.text for one in shown.others]) == (
        "The prompt has the new fact in its place.",
        ["The ledger export ran early."],
    )
    groups = browser(bob).get(url).context["turn"]["groups"]
    told = {one["id"]: one for group in groups for one in group["memories"]}
    assert told[str(wrong.pk)]["since"]["words"] == "later marked as wrong"
    assert (told[str(old.pk)]["since"]["words"], str(new.pk) in told[str(old.pk)]["since"]["url"]) == (
        "later replaced",
        True,
    )
    assert "since" not in told[str(kept.pk)]
    assert "Later marked as wrong" in markup(browser(alice).get(url))
    assert f'href="{marked}' not in markup(browser(bob).get(url))


def test_failure_tells_its_likely_cause(ada, actor, system, alice):
    run = make_run(ada, actor)
    context_respond(run=run, response="I cannot tell.", by=actor)
    part = reverse("agent_context_cause", args=["ada", run.pk])
    assert "No memory supports the answer." in markup(browser(alice).get(part))
    old, new = make_facts(ada, [f"The ledger export takes {number} minutes." for number in (40, 90)], system)
    run = make_run(ada, actor)
    context_respond(run=run, response="Wait for 40 minutes.", by=actor)
    context_outcome(run=run, outcome="failure", note="It took longer.", by=actor)
    part = reverse("agent_context_cause", args=["ada", run.pk])
    page = markup(browser(alice).get(part))
    assert "Reported: It took longer." in page
    assert "Used: “" in page
    about = {"kind": "contradiction", "old": old, "new": new, "persona": "actor", "expires_at": clock.now()}
    review = MemoryReview.objects.create(agent=ada, **about)
    page = markup(browser(alice).get(part))
    assert "Likely cause: “" in page
    assert f'<a href="{review.get_absolute_url()}">contradicted ' in page
    asked_by = MemoryReview.objects.create(agent=ada, **about | {"kind": "attribute", "about": "asked"})
    MemoryReview.objects.filter(pk=review.pk).update(status="joined", details={"question": str(asked_by.pk)})
    assert f'<a href="{asked_by.get_absolute_url()}">contradicted ' in markup(browser(alice).get(part))
    # What was decided is no question any more, though the review is a blind sample.
    Fact.objects.filter(pk=new.pk).update(active=False, retired_at=clock.now())
    assert "Used: “" in markup(browser(alice).get(part))
    Fact.objects.filter(pk=old.pk).update(active=False, retired_at=clock.now())
    assert "later retired" in markup(browser(alice).get(part))


def test_failure_names_the_memory_that_states_one_of_many_values_as_a_whole(ada, actor, system, alice):
    make_facts(ada, ["The ledger export takes 240 minutes.", "The ledger export waits 40  minutes."], system)
    run = make_run(ada, actor)
    many = " ".join(f"{number} seconds," for number in range(1500))
    context_respond(run=run, response=f"Wait\n{many}\nthen 40\nminutes.", by=actor)
    page = markup(browser(alice).get(reverse("agent_context_cause", args=["ada", run.pk])))
    assert "waits 40" in page


def test_a_mark_as_wrong_names_what_still_says_it(ada, actor, system, bob):
    texts = "The ledger export takes 40 minutes.", "At night the ledger export is through after 40 minutes."
    wrong, other = make_facts(ada, texts, system)
    run = make_run(ada, actor)
    marked = f"{reverse('agent_fact_change', args=['ada', wrong.pk, 'invalidate'])}?run={run.pk}"
    remedy = reverse("agent_fact_change", args=["ada", other.pk, "invalidate"])
    asked = markup(browser(bob).get(marked))
    assert "another memory still says “40 minutes”" in asked
    assert f'href="{remedy}"' in asked
    done = markup(browser(bob).post(marked, follow=True))
    assert "But another memory still says “40 minutes”." in done
    proof = browser(bob).get(COMPARE, {"a": run.pk, "b": "now"})
    assert "no longer in the prompt, but another memory still says “40 minutes”." in text(proof)
    assert f'href="{remedy}"' in markup(proof)


def test_a_change_of_what_no_prompt_had_promises_no_proof(ada, system, bob):
    fact = make_fact(ada, "Nobody asked for this.", system)
    done = browser(bob).post(reverse("agent_fact_change", args=["ada", fact.pk, "invalidate"]), follow=True)
    assert "Marked as wrong." in markup(done)
    assert "Run again now" not in markup(done)


def test_nothing_is_compared_with_itself(ada, actor, bob):
    run = make_run(ada, actor)
    client = browser(bob)
    assert 'type="radio"' not in markup(client.get(LOG))
    assert "Both sides are the same." in markup(client.get(COMPARE, {"a": run.pk, "b": run.pk}))
    assert "Both sides are the same." not in markup(client.get(COMPARE, {"a": run.pk, "b": "now"}))
    assert "Both sides are the same." not in markup(client.get(COMPARE, {"a": run.pk, "b": run.pk, "b_frame": "debug"}))
    other = make_run(ada, actor, "And now?")
    page = markup(client.get(LOG))
    checked = re.findall(r'name="([ab])"\s+value="([^"]+)"[^>]*checked', page)
    assert sorted(checked) == [("a", str(run.pk)), ("b", str(other.pk))]
