"""The inspector's page: every state has an address, mistakes are named, and nothing is left behind."""

import json
import re
import time
from datetime import timedelta

import pytest
from django.urls import reverse

from context.engine.analysis.request import ContextRequest, Message
from context.engine.assembly.prompt_section import line_parts
from context.models import ContextRun
from context.services.agent_settings import context_pin
from context.services.context import context_assemble
from identity.models import Agent, ApiToken, AuditEvent
from identity.principal import Principal
from memory.models import Fact
from memory.services.decisions import decision_record
from memory.services.facts import fact_invalidate, fact_learn
from memory.services.reviews.resolve import review_resolve
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.console.context.forms import conversation_read, conversation_write, inspector_values
from nousweb.console.context.presentation import contested_links
from nousweb.console.context.reasons import reason_of
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from tests.context.test_contested import make_pair
from tests.context.test_topics import LAYERS, LOOPS, remember
from tests.factories import EXPORT, make_events, make_fact, make_facts, make_run
from tests.http import browser, markup

URL = "/agents/ada/context/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def ledger(ada, system):
    make_fact(
        ada, "Bananas, which grow in bunches on tall plants, are what traders export by ship.", system, subject="Fruit"
    )
    return make_fact(ada, "The ledger export failed because the replica lagged.", system, subject="Ledger")


def text(answer):
    return markup(answer)


def test_inspector_shows_all_that_led_to_the_prompt(ada, ledger, alice, charlie):
    for tab in ("", "memories", "prompt"):
        page = text(browser(alice).get(URL, {"input": EXPORT, "tab": tab}))
        assert f'href="/agents/ada/facts/{ledger.pk}/?back=' in page, "the piece leads to its memory"
        assert "replica lagged" in page
        left = page.partition('aria-label="Left out"')[2]
        assert all(told in left for told in ("1 too far from the question", "Bananas", "only “export”")), (
            "what was left out, and why, stands beside what is in the prompt"
        )
    page = text(browser(alice).get(URL, {"input": EXPORT}))
    parts = re.findall(r'<details data-section="seg-\w+" ?(\w*) ?>.*?<span class="truncate"[^>]*>([^<]+)<', page)
    folded = [name for is_open, name in parts if not is_open]
    assert folded == ["Identity", "Current Frame"], "what is in every prompt"
    assert re.search(r'data-relevance="“ledger” \+\d" data-tokens=" +\d+"', page), "at the right edge of the memory"
    page = text(browser(alice).get(URL, {"input": EXPORT, "tab": "left"}))
    assert "What would include it:" in page
    assert "They have too little in common with it; one that you pin on its page is included all the same." in page
    page = text(browser(alice).get(URL, {"input": EXPORT, "tab": "why"}))
    assert "Debugging, because of" in page
    assert "squire_default, version 1" in page
    assert re.search(r"relevance [01]\.\d\d</span>\s*<span>needed 0\.25<", page), "numbers are here alone"
    assert "<strong>Needed</strong>: the least relevance for its type." in page
    assert "· candidates" in page
    assert not ContextRun.objects.exists()
    assert not AuditEvent.objects.filter(author_kind="person").exists()


def test_inspector_says_what_sessions_lack_to_be_in_the_prompt(ada, actor, alice):
    remember(ada, actor, LOOPS)
    asked = {"input": "Is the ferry painted green?", "profile_override": json.dumps(LAYERS)}
    page = " ".join(text(browser(alice).get(URL, asked)).split())
    assert re.search(r'for you in Oslo\?</a> <span class="muted">little in common</span> <progress', page)
    assert "What would include the nearest: More of the question&#x27;s words in the memory, or a pin on it." in page


def test_inspector_says_that_the_time_of_the_question_put_a_memory_first(ada, actor, alice):
    make_events(ada, actor, "The ferry ran late.", loop_id="one", ts=clock.now() - timedelta(days=1))
    embed_pending_rows()
    page = browser(alice).get(URL, {"input": "What happened yesterday?"})
    assert 'data-relevance="“yesterday”"' in text(page)
    page = browser(alice).get(URL, {"input": "What happened yesterday?", "tab": "memories"})
    shown = page.context["shown"]
    [ferry] = [one for one in shown.memories if one["text"] == "The ferry ran late."]
    assert re.fullmatch(r"asked about “yesterday”: \d{4}-\d\d-\d\d", ferry["why"]), "though it has no word of it"
    assert re.search(r'class="reason">asked about “yesterday”: \d+ \w+<', text(page))
    assert text(page).count("what happened then comes first") == 1, "above all"
    assert re.search(r"“yesterday” is \d+ \w+: what happened", text(page))
    page = browser(alice).get(URL, {"input": "What happened yesterday?", "verdict": "all"})
    assert re.search(r'data-label="Relevance"[^>]*>\s*asked about “yesterday”', text(page)), (
        "so in the list of what was considered"
    )


def test_inspector_tells_in_a_word_why_each_memory_is_there_or_excluded(ada, ledger, system, alice, reviewer):
    make_fact(ada, "Traders like tea.", system, category="preference", subject="Traders")
    pin, tool = make_fact(ada, "Apples are red.", system), "The ledger export wrote 40 rows."
    context_pin(agent=ada, item_type="fact", item_id=str(pin.pk), by=reviewer)
    make_fact(ada, tool, system, kind="tool_output")
    page = text(browser(alice).get(URL, {"input": EXPORT}))
    told = {line: why for why, line in re.findall(r'data-relevance="([^"]*)"[^>]*>-? ?([^<]*)<', page)}
    assert {why for line, why in told.items() if "tea" in line} == {"always"}
    assert {why for line, why in told.items() if "Apples" in line} == {"pinned"}
    assert {why for line, why in told.items() if "Current task" in line} == {"session"}
    assert re.search(rf'{tool}</a>\s*<span class="muted">tool output<', page), "the rule, not how relevant it is"
    page = text(browser(alice).get(URL, {"input": EXPORT, "tab": "left"}))
    assert re.search(r'data-label="Kind"[^>]*>\s*tool output', page)


def test_inspector_says_why_any_memory_is_not_in_the_prompt(ada, actor, ledger, alice):
    [far] = make_events(ada, actor, "Penguins breed on the southern pier.")
    embed_pending_rows()
    asked = {"input": EXPORT, "missing": "penguins", "profile_override": '{"layers": []}'}
    page = browser(alice).get(URL, asked)
    assert "event" not in {one["type"] for one in page.context["shown"].record.candidates}
    answer = r'[^<]*</a>\s*<p class="muted small">(.*?)</p>'
    row = re.search(rf"/{far.pk}/[^>]*>Penguins {answer}", text(page))[1]
    assert "The search for this question does not find it." in row
    assert "What would include it: The words of the question in it, or a pin on its page." in row
    page = text(browser(alice).get(URL, asked | {"missing": "replica lagged"}))
    assert "In the prompt, under Relevant Facts" in re.search(rf"/{ledger.pk}/[^>]*>{answer}", page)[1]
    run = make_run(ada, actor)
    page = text(browser(alice).get(run.get_absolute_url(), {"tab": "left", "q": "walrus"}))
    assert f'href="/agents/ada/context/?run={run.pk}&amp;missing=walrus">Ask why' in page
    for url, query in ((run.get_absolute_url(), {}), (URL, {"input": EXPORT})):
        page = text(browser(alice).get(url, query | {"tab": "left", "verdict": "quarantined"}))
        assert "No memory has this verdict." in page
        assert "Ask why" not in page, "without words there is nothing to ask about"


def test_inspector_of_the_past_does_not_look_for_what_was_not_known(ada, actor, ledger, alice):
    before = f"{clock.now() - timedelta(minutes=1):%Y-%m-%dT%H:%M:%S}"
    make_events(ada, actor, "Penguins breed on the southern pier.")
    embed_pending_rows()
    asked = {"input": EXPORT, "missing": "penguins", "profile_override": '{"layers": []}'}
    assert "The search for this question does not find it." in text(browser(alice).get(URL, asked))
    page = text(browser(alice).get(URL, asked | {"as_of": before}))
    assert "Penguins breed" not in page
    assert "No memory has or fits these words." in page


def test_reason_names_other_forms_of_asked_words_also_among_thousands():
    said = " ".join(["We made the deployment and a shipment.", *(f"said{place}" for place in range(20_000))])
    asked = {"deploy", "ship", *(f"asked{place}" for place in range(20_000))}
    candidate = {"type": "fact", "verdict": "included", "text": said, "lexical": 0.1, "cosine": 0.1}
    began = time.process_time()
    assert reason_of(candidate, asked, {}) == "says “deployment”", "what is too short is another word"
    assert reason_of(candidate | {"text": "The deploy."}, {"deployment"}, {}) == "says “deploy”"
    assert time.process_time() - began < 5, "each word with each takes minutes"


def test_inspector_says_that_a_tool_result_is_there_whatever_it_says(ada, actor, alice):
    make_events(ada, actor, "3 failed, 12 passed", kind="tool_result", loop_id="fix-7")
    asked = {"input": "Go on with the parser.", "profile": "knight_default", "session": "fix-7"}
    assert 'data-relevance="latest"' in text(browser(alice).get(URL, asked))
    [told] = [one for one in browser(alice).get(URL, asked).context["shown"].memories if not one["always"]]
    assert told["why"] == "one of the latest tool results"


def test_inspector_accounts_for_each_token(ada, ledger, system, alice):
    make_fact(ada, "Traders like tea.", system, category="preference", subject="Traders")
    page = browser(alice).get(URL, {"input": EXPORT})
    shown = page.context["shown"]
    assert sum(one["tokens"] for one in (*shown.memories, *shown.other_parts)) == shown.record.tokens
    assert sum(one["tokens"] for one in shown.told) == shown.record.tokens, "the bar does too"
    assert {one["label"]: one["tokens"] for one in shown.told}["User Profile"] == shown.memories[1]["tokens"]
    assert round(sum(one.width for one, _, _ in shown.sections)) == 100, "the smallest can be told apart"
    assert min(one.width for one, tokens, _ in shown.sections if tokens) > 2
    assert f'value="{shown.share}" max="100"' in text(page), "of the budget"
    name, size = r"[A-Z][^<\n]*[a-z]", r'<span class="num">([\d,]+)[ <]'
    legend = re.findall(rf">({name})</a>\s*{size}", text(page).partition("budget-parts")[2])
    heads = re.findall(rf">({name})</span>\s*{size}", text(page))
    rest, whole = re.findall(r'prompt-rest">.*?([\d,]+)</', text(page))
    assert legend == [*heads, ("Headings and line breaks", rest)], "one size of each section"
    assert sum(int(tokens.replace(",", "")) for _, tokens in legend) == int(whole.replace(",", ""))
    links = re.findall(r'href="(#part-\w*)"', text(page))
    assert all(f'id="{link[1:]}"' in text(page) for link in links), "each leads to its section"
    page = browser(alice).get(URL, {"input": EXPORT, "tab": "memories"})
    found, always = shown.memories
    assert (found["about"], found["text"]) == ("Ledger", "The ledger export failed because the replica lagged.")
    assert (found["note"], found["always"], always["about"], always["relevance"]) == ("", False, "Traders", None)
    assert found["relevance"] > 0.3
    assert re.search(r'class="reason">very close in meaning · about Ledger<', text(page)), "what it has in common"
    assert shown.other_parts[0]["label"] == "Identity"
    assert "[Ledger]" not in text(page)


def test_inspector_begins_with_the_prompt_of_the_latest_question(ada, ledger, actor, alice):
    assert "Enter an input" in text(browser(alice).get(URL))
    for asked in ("What is the weather like?", EXPORT):
        make_run(ada, actor, asked)
    page = browser(alice).get(URL)
    assert "replica lagged" in text(page)
    assert f"{EXPORT}</textarea>" in text(page)
    assert "What is the weather like?" in text(page), "others are offered"
    assert ContextRun.objects.count() == 2
    assert "Enter an input" in text(browser(alice).get(URL, {"session": "preview"})), "cleared"


def test_inspector_says_how_a_prompt_that_was_sent_differs_from_one_now(ada, ledger, actor, system, alice):
    run = make_run(ada, actor)
    for query in ({}, {"run": run.pk}):
        assert "Since it was asked" not in text(browser(alice).get(URL, query)), "where it does not"
    new = make_fact(ada, "The ledger export failed twice at noon.", system)
    for query in ({}, {"run": run.pk}):
        page = text(browser(alice).get(URL, query)).partition("Since it was asked")[2].partition("</section>")[0]
        assert re.search(rf"Then ≈ {run.tokens} tokens with 1 memory, now ≈ \d+ tokens with 2 memories\.", page)
        assert re.search(r'Relevant Facts</span>\s*<span class="num">\d+ → \d+<', page)
        assert re.search(rf'/{new.pk}/[^>]*>\+ [^<]*at noon\.</a>\s*<span class="muted">new since then<', page)
        assert f"?a={run.pk}&amp;b=now" in page
    fact_invalidate(fact=ledger, reason="Never was.", by=system)
    gone = text(browser(alice).get(URL, {"run": run.pk}))
    assert re.search(rf'/{ledger.pk}/[^>]*>− [^<]*</a>\s*<span class="muted">now retired<', gone)
    assert f'name="run" value="{run.pk}"' in gone
    kept = {"run": run.pk, "tab": "memories"}
    for asked, differs in ((run.input, True), ("Is the ledger right?", False)):
        page = browser(alice).post(URL, {**kept, "input": asked}, headers=HTMX)
        assert ("Since it was asked" in text(page)) == differs, "while the question is the same"


def test_inspector_puts_down_to_time_only_what_was_not_typed(ada, ledger, actor, system, alice):
    own = {"run": make_run(ada, actor).pk, "input": EXPORT}
    make_facts(ada, [f"The ledger export failed {place} times at noon." for place in range(6)], system)

    def told(**typed):
        return text(browser(alice).get(URL, own | typed)).partition("Since it was asked")[2].partition("</section>")[0]

    for typed in ({"frame": "decision"}, {"budget": "900"}, {"pending": "on"}, {"session": "other"}, {"tags": "a"}):
        assert not told(**typed), typed
    assert told().count("at noon.</a>") == 4
    assert re.search(r"<span>\d more</span>", told()), "of the section, and leads nowhere"
    assert 'href=""' not in told()


def test_inspector_memories_are_ordered_by_relevance_or_a_number(ada, ledger, system, alice):
    make_facts(ada, [f"The ledger export failed {place} times at noon." for place in range(4)], system)
    make_fact(ada, "Traders like tea.", system, category="preference", subject="Traders")

    def ordered(page, number):
        return [[one[number] or 0 for one in group["memories"]] for group in page.context["table"]["turn"]["groups"]]

    usual = browser(alice).get(URL, {"input": EXPORT, "tab": "memories"})
    found, always = ordered(usual, "relevance")
    assert (found, always) == (sorted(found, reverse=True), [0])
    assert "1 always included" in text(usual)
    for order, number, falls in (("section", "place", False), ("tokens", "tokens", True)):
        page = browser(alice).post(URL, {"input": EXPORT, "order": order, "tab": "memories"}, headers=HTMX)
        [numbers] = ordered(page, number)
        assert numbers == sorted(numbers, reverse=falls)
        assert page["HX-Replace-Url"].endswith(f"&order={order}")
        again = browser(alice).get(page["HX-Replace-Url"])
        assert ordered(again, number) == [numbers]
        assert f'id="order-{order}" name="order" value="" class="th-sort"' in text(again)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("- Plain.", {"text": "Plain.", "day": "", "about": "", "mark": ""}),
        ("- [2026-11-07] Said.\n  More.", {"text": "Said.\n  More.", "day": "2026-11-07", "about": "", "mark": ""}),
        ("- (as of 2026-10-03) [Al] Is.", {"text": "Is.", "day": "", "about": "Al", "mark": "as of 2026-10-03"}),
    ],
)
def test_inspector_line_of_a_prompt_is_told_apart(line, parts):
    assert line_parts(line) == parts


def test_inspector_pieces_are_the_prompt_letter_for_letter(ada, ledger, alice):
    shown = browser(alice).get(URL, {"input": EXPORT}).context["shown"]
    assert shown.linked


def test_inspector_applies_each_setting(ada, ledger, alice, subtests):
    for given, expected in [
        ({"frame": "decision"}, "Decision, because the request names it"),
        ({"profile": "peasant_default"}, "peasant_default, version 1"),
        ({"budget": "60"}, "of 60"),
        ({"fill": "on", "budget": "4000"}, "lowered in proportion to the budget"),
        ({"profile_override": '{"min_importance": 0.9, "layers": []}'}, "minimum importance 0.9; raw layers none"),
        ({"profile_override": "min_importance"}, "This is not valid JSON"),
        ({"profile_override": "[1]"}, "Write the settings as an object"),
        ({"profile_override": '{"min_importance": 7}'}, "min_importance cannot be 7"),
        ({"as_of": "2020-01-01T00:00"}, "Reconstructed from the memories"),
        ({"mode": "implement", "tags": "a, b", "paths": "x.py"}, "implement"),
    ]:
        with subtests.test(given=given, expected=expected):
            assert expected in text(browser(alice).get(URL, {"input": EXPORT, "tab": "why", **given}))


def test_inspector_names_a_mistake_and_keeps_the_input(ada, alice, subtests):
    for given, expected in [
        ({"input": ""}, "This field is required"),
        ({"conversation": "hello"}, "Line 1 has no speaker"),
        ({"budget": "0"}, "greater than or equal to 1"),
        ({"budget": "x"}, "Enter a whole number"),
        ({"frame": "x"}, "not one of the available choices"),
        ({"tags": ",".join(f"t{number}" for number in range(21))}, "Task tags” holds at most 20 entries; this has 21."),
        ({"persona": "subconscious"}, ""),
    ]:
        with subtests.test(given=given, expected=expected):
            for answer in (
                browser(alice).get(URL, {"input": "Kept?", **given}),
                browser(alice).post(URL, {"input": "Kept?", **given}, headers=HTMX),
            ):
                assert answer.status_code == 200
                if given != {"input": ""} or answer.request["REQUEST_METHOD"] == "GET":
                    assert expected in text(answer)


def test_inspector_candidates_are_sorted_and_filtered_by_the_address(ada, ledger, alice):
    client = browser(alice)
    page = client.get(URL, {"input": EXPORT, "tab": "left"})
    assert [one["verdict"] for one in page.context["candidates"]] == ["below_threshold"], "what was left out"
    assert "1 of 2 considered" in text(page)
    codes = [one["verdict"] for one in client.get(URL, {"input": EXPORT, "verdict": "all"}).context["candidates"]]
    assert codes == ["included", "below_threshold"]
    only = client.get(URL, {"input": EXPORT, "verdict": "below_threshold"}).context["candidates"]
    assert [one["verdict"] for one in only] == ["below_threshold"]
    assert re.search(r'<select name="verdict"[^>]*>\s*<option value="left_out"', text(page)), "the first choice"
    for chosen in ("below_threshold", "all"):
        page = text(client.get(URL, {"input": EXPORT, "verdict": chosen, "tab": "left"}))
        assert re.search(rf'value="{chosen}"\s+selected', page)
    for sort in ("score", "relevance", "cosine", "lexical", "tokens", "recent"):
        found = client.get(URL, {"input": EXPORT, "sort": sort}).context["candidates"]
        values = [one["happened_at" if sort == "recent" else sort] or 0 for one in found]
        assert values == sorted(values, reverse=True)


def test_inspector_candidates_are_paged_with_the_included_first(ada, ledger, system, actor, alice):
    make_facts(ada, [f"Export number {number} of the ledger failed at noon." for number in range(30)], system)
    client = browser(alice)
    first, second = (client.get(URL, {"input": EXPORT, "verdict": "all", "page": page}) for page in "12")
    assert (first.context["candidates"].paginator.count, len(first.context["candidates"])) == (32, 12)
    codes = [one["verdict"] for one in first.context["candidates"]]
    assert codes == sorted(codes, key=lambda code: code != "included")
    assert codes[0] == "included"
    ids = [{one["id"] for one in page.context["candidates"]} for page in (first, second)]
    assert not ids[0] & ids[1]
    assert 'name="page" value="2"' in text(first), "the list is what such an address is about"
    for wrong in ("x", "0", "99"):
        assert client.get(URL, {"input": EXPORT, "page": wrong}).status_code == 200
    live = client.post(URL, {"input": EXPORT, "page": "2"}, headers=HTMX)
    assert live["HX-Replace-Url"].endswith("&page=2")
    run = make_run(ada, actor)
    logged = client.get(f"{URL}{run.pk}/", {"page": "2", "sort": "score", "verdict": "all"})
    assert logged.context["candidates"].number == 2
    assert "sort=score&amp;page=1#candidates" in text(logged)


def test_inspector_of_the_subconscious_needs_the_permission(ada, subconscious_token, alice, charlie):
    dreamer = Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))
    make_fact(ada, "A dream.", dreamer, category="preference")
    asked = {"input": "hello", "persona": "subconscious"}
    page = text(browser(alice).get(URL, asked))
    assert "A dream." not in page
    assert 'name="persona"' not in page
    assert "A dream." in text(browser(charlie).get(URL, asked))
    assert "A dream." not in text(browser(charlie).get(URL, {"input": "hello"}))


def test_inspector_links_to_subconscious_memories_for_permitted_people(ada, actor, subconscious_token, alice, charlie):
    dreamer = Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))
    client = browser(charlie)
    for by, shown_with in ((dreamer, "?persona=subconscious"), (actor, "")):
        fact = make_fact(ada, "A dream.", by)
        decision = decision_record(agent=ada, description="Dream on.", by=by)
        for item_type, row in (("fact", fact), ("decision", decision)):
            own = reverse(f"agent_{item_type}", args=["ada", row.pk])
            page = client.get(reverse("agent_context_item", args=["ada", item_type, row.pk]), follow=True)
            assert page.status_code == 200
            assert page.redirect_chain[-1][0] == own + shown_with
            assert browser(alice).get(own, follow=True).status_code == (404 if shown_with else 200)


def test_inspector_starts_from_a_logged_run(ada, ledger, actor, alice):
    run = make_run(ada, actor, conversation=(Message("user", "Hi\nthere"),), tags=("a", "b"), mode="plan", budget=500)
    page = browser(alice).get(URL, {"run": str(run.pk)})
    form = page.context["form"]
    assert form.is_valid(), form.errors
    request = form.as_request()
    assert (request.input, request.conversation, request.tags) == (EXPORT, (Message("user", "Hi\nthere"),), ("a", "b"))
    assert page.context["shown"].record.system_prompt == run.system_prompt
    assert inspector_values(run)["budget"] == 500
    other = browser(alice).get(URL, {"run": str(run.pk), "frame": "decision"})
    assert other.context["shown"].record.frame_id == "decision"
    for wrong in ("x", "00000000-0000-4000-8000-000000000000"):
        assert browser(alice).get(URL, {"run": wrong}).status_code == 404
        assert browser(alice).get(URL, {"run": wrong, "input": "Hello"}).status_code == 200


def test_inspector_live_part_follows_the_form(ada, ledger, alice):
    part = browser(alice).post(URL, {"input": EXPORT, "frame": "debug", "session": "preview"}, headers=HTMX)
    assert "<html" not in text(part)
    assert part["HX-Replace-Url"] == f"{URL}?input=Why+did+the+ledger+export+fail%3F&frame=debug"
    assert (
        browser(alice).get(part["HX-Replace-Url"]).context["shown"].record.system_prompt
        == part.context["shown"].record.system_prompt
    )
    empty = browser(alice).post(URL, {"input": ""}, headers=HTMX)
    assert "Enter an input" in text(empty)


def test_inspector_escapes_markup_in_memories(ada, system, alice):
    make_fact(ada, "<script>ledger</script> export <b>fail</b>", system, subject="<i>x</i>")
    page = text(browser(alice).get(URL, {"input": EXPORT, "verdict": "all"}))
    assert "<script>ledger" not in page
    assert "&lt;script&gt;ledger" in page


@pytest.mark.parametrize(
    ("typed", "messages"),
    [
        ("", ()),
        ("user: Hello.\n\nassistant: Hi: there", (Message("user", "Hello."), Message("assistant", "Hi: there"))),
        ("User: a\n  b", (Message("user", "a\nb"),)),
    ],
)
def test_inspector_conversation_is_read_by_lines(typed, messages):
    assert conversation_read(typed) == messages
    assert conversation_read(conversation_write(messages)) == messages


def test_inspector_conversation_line_without_a_speaker_is_named():
    with pytest.raises(Invalid, match="Line 2"):
        conversation_read("user: a\nand so on")


def test_inspector_number_of_queries_is_constant(ada, system, actor, alice, django_assert_num_queries):
    client = browser(alice)
    make_fact(ada, "The ledger export failed.", system)
    client.get(URL, {"input": EXPORT})
    for number in (0, 40):
        for place in range(number):
            make_fact(ada, f"The ledger export failed {place} times.", system)
        with django_assert_num_queries(16):
            client.get(URL, {"input": EXPORT})


def test_inspector_links_every_type_of_piece(ada):
    from nousweb.console.context.labels import memory_item_url

    assert memory_item_url("ada", "identity", "values:3") == reverse("section_history", args=["ada", "values"])
    assert memory_item_url("ada", "identity", "environment").endswith("/environment/")
    assert memory_item_url("ada", "frame", "task") == ""
    assert memory_item_url("ada", "fact", "proposed") == ""
    assert memory_item_url("ada", "task", "s") == reverse("agent_working", args=["ada"])


def test_inspector_goes_on_from_a_run_with_its_own_profile(ada, ledger, actor, alice):
    run = make_run(ada, actor, profile_override={"min_importance": 0.9}, fill=True)
    page = text(browser(alice).get(URL, {"run": run.pk, "tab": "why"}))
    assert "Overridden for this call" in page
    assert "lowered in proportion to the budget" in page
    shown = text(browser(alice).get(run.get_absolute_url(), {"tab": "why"}))
    assert "Overridden for this call" in shown


class TestContestedFacts:
    """Each contested piece has a badge that leads to the question about it."""

    ASKED = "Which PostgreSQL is the substrate of the billing database?"

    @pytest.fixture
    def question(self, ada, actor):
        return make_pair(ada, actor)

    def links(self, page):
        return re.findall(r'class="piece-contested"\s+href="([^"]+)"', page)

    def test_in_the_inspector_and_in_a_run(self, ada, actor, question, alice):
        run = make_run(ada, actor, self.ASKED)
        url = question.get_absolute_url()
        for address in (URL, reverse("agent_context_run", args=["ada", run.pk])):
            client, asked = browser(alice), {"input": self.ASKED}
            assert self.links(text(client.get(address, {**asked, "tab": "prompt"}))) == [url, url]
            answer = client.get(address, {**asked, "verdict": "all"})
            page = text(answer)
            assert page.count(f'<a href="{url}"') == 2, "beside both candidates"
            assert "Contradicted, newer" in page
            assert "Contradicted, older" in page
            assert answer.context["shown"].linked

    def test_in_core_memory(self, ada, actor, alice):
        question = make_pair(ada, actor, category="preference")
        page = text(browser(alice).get(URL, {"input": "Hello.", "tab": "prompt"}))
        assert self.links(page) == [question.get_absolute_url()] * 2

    def test_of_a_run_whose_question_is_decided_since(self, ada, actor, question, alice, bob):
        run = make_run(ada, actor, self.ASKED)
        review_resolve(review=question, resolution="replace", by=Principal.of_user(bob))
        url, prompt = reverse("agent_context_run", args=["ada", run.pk]), {"tab": "prompt"}
        assert "Contradicted, older, decided since" in text(browser(alice).get(url))
        assert self.links(text(browser(alice).get(url, prompt))) == [question.get_absolute_url()] * 2
        assert not self.links(text(browser(alice).get(URL, {"input": self.ASKED, **prompt})))

    def test_of_a_run_whose_fact_ended_while_nobody_answered(self, ada, actor, question, alice):
        run = make_run(ada, actor, self.ASKED)
        Fact.objects.filter(pk=question.old_id).update(active=False, retired_at=clock.now())
        url = reverse("agent_context_run", args=["ada", run.pk])
        assert "Contradicted, older, decided since" in text(browser(alice).get(url))

    def test_without_one_nothing_is_looked_up(self, ada, ledger, alice, django_assert_num_queries):
        record = context_assemble(agent=ada, request=ContextRequest("s", EXPORT), by=Principal.of_user(alice))
        with django_assert_num_queries(0):
            assert contested_links(record, ada, Principal.of_user(alice)) == {}


def test_prompt_with_what_waits_for_consent_leaves_it_waiting(ada, alice, actor):
    Agent.objects.filter(pk=ada.pk).update(config={"consent": [{"action": "pending"}]})
    ada.refresh_from_db()
    liked = fact_learn(agent=ada, by=actor, content="Grace likes green tea.", category="person").fact
    found = fact_learn(agent=ada, by=actor, content="The ledger export is green.", category="technical").fact
    said = make_events(ada, actor, "The ledger export was painted.", loop_id="paint")[0]
    asked = {"input": "Is the ledger export green or painted?"}

    def prompt(**more):
        return browser(alice).get(URL, asked | more).context["shown"].record.system_prompt

    assert "green" not in prompt().replace(asked["input"], "")
    shown = prompt(pending="on").replace(asked["input"], "")
    assert all(text in shown for text in (liked.content, found.content))
    assert said.content in shown
    assert "green" not in prompt().replace(asked["input"], "")
    assert Fact.objects.filter(agent=ada, quarantined=True, active=False).count() == 2
