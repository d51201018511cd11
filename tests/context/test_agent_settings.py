"""The settings of an agent's prompts: people set them, each change is a version, and the past uses its own."""

import re
from datetime import timedelta

import pytest
from django.urls import reverse

from context.engine.analysis.frames import SECTION_BUDGETS
from context.engine.analysis.profiles import ContestedOrder, ContestedPolicy
from context.models import ContextRun
from identity.models import AuditEvent
from memory.policy.oversight import AttentionBudget
from memory.services.loops import derived_backfill
from nousweb.lib import clock
from tests.api.problems import assert_problem
from tests.factories import make_facts
from tests.http import browser, markup

AGENT = {"agent": "ada"}
BAD_ORDERS = ({"contested_of_preference": "never"}, {"contested_order": "preference"})
BY_DEFAULT = {"order": "newest_first", "categories": {}}
BUDGET = {"per_hundred_facts": 3, "per_day": 10, "unlimited": False}
AUTONOMY = {"max_error": 0.05, "asking": []}
DEFAULTS = {"budgets": {}, "stm": {}, "profile": "", "contested": BY_DEFAULT, "attention": BUDGET, "autonomy": AUTONOMY}
DEFAULTS |= {"consent": [], "language": "", "time_zone": "", "recent": "on questions", "serves_users": False}
ASK = {"session_id": "s-1", "input": "hello there"}


@pytest.fixture
def admin(api, ada, charlie):
    return api.as_person(charlie)


def settings_put(caller, **body):
    answer = caller.put("/settings", body, AGENT)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_settings_begin_with_the_defaults(admin):
    found = admin.get("/settings", AGENT).json()
    assert found == {"version": 0, **DEFAULTS}
    assert admin.get("/settings/history", AGENT).json() == {"items": []}


def test_settings_hold_from_the_next_prompt_on(api, admin, actor_token):
    made = settings_put(admin, budgets={"total": 700, "facts": 50}, profile="royalty_default", reason="Short.")
    assert (made["version"], made["budgets"]) == (1, {"total": 700, "facts": 50})
    body = api.as_token(actor_token).post("/context", ASK | {"explain": True}).json()
    assert (body["budget"], body["profile"]) == (700, "royalty_default")
    assert body["explanation"]["budget"]["sections"]["facts"] == 50
    record = AuditEvent.objects.get(action="agent.configure")
    assert (record.author_name, record.message) == ("charlie", "Short.")
    assert record.before == {"budgets": None, "profile": None}


def test_settings_left_out_stay_and_empty_ones_go_back(admin):
    settings_put(admin, budgets={"facts": 50}, stm={"window": 9})
    assert settings_put(admin, stm={})["budgets"] == {"facts": 50}
    assert settings_put(admin, budgets={}) == {"version": 3, **DEFAULTS}


def test_settings_version_is_restored_as_a_new_one(admin):
    settings_put(admin, budgets={"facts": 50})
    settings_put(admin, budgets={"facts": 60}, stm={"window": 9})
    answer = admin.post("/settings/restore", {"version": 1}, AGENT)
    assert answer.json() == {"version": 3, **DEFAULTS, "budgets": {"facts": 50}}
    latest, *older = admin.get("/settings/history", AGENT).json()["items"]
    assert (latest["author_name"], latest["reason"]) == ("charlie", "Restores version 1.")
    assert [one["settings"]["budgets"] for one in older] == [{"facts": 60}, {"facts": 50}]
    assert admin.post("/settings/restore", {"version": 0}, AGENT).json()["budgets"] == {}
    assert_problem(admin.post("/settings/restore", {"version": 9}, AGENT), 404, "not_found")


def test_settings_of_contested_facts_hold_and_are_restored(admin, ada):
    policy = {"order": "both", "categories": {"preference": "newest_only"}}
    assert settings_put(admin, contested=policy)["contested"] == policy
    ada.refresh_from_db()
    assert ContestedPolicy.of_config(ada.config).of("preference") is ContestedOrder.NEWEST_ONLY
    assert settings_put(admin, budgets={"facts": 50})["contested"] == policy
    assert settings_put(admin, contested={})["contested"] == BY_DEFAULT
    ada.refresh_from_db()
    assert "contested" not in ada.config
    assert admin.post("/settings/restore", {"version": 2}, AGENT).json()["contested"] == policy


def test_settings_of_the_attention_budget_hold_and_are_restored(admin, ada):
    changed = BUDGET | {"per_day": 2}
    assert settings_put(admin, attention={"per_day": 2})["attention"] == changed
    ada.refresh_from_db()
    assert AttentionBudget.of_config(ada.config) == AttentionBudget(per_day=2)
    assert settings_put(admin, attention={"unlimited": True})["attention"] == BUDGET | {"unlimited": True}
    assert settings_put(admin, attention={})["attention"] == BUDGET
    ada.refresh_from_db()
    assert "attention" not in ada.config
    assert admin.post("/settings/restore", {"version": 1}, AGENT).json()["attention"] == changed
    assert AuditEvent.objects.filter(action="agent.configure", author_kind="person").count() == 4


def test_settings_page_sets_the_attention_budget(ada, charlie):
    url, admin = reverse("agent_context_settings", args=["ada"]), browser(charlie)
    form = {"base_version": "0", "contested_order": "newest_first"}
    assert admin.post(url, form | {"attention_per_day": "0", "attention_unlimited": "on"}).status_code == 302
    ada.refresh_from_db()
    assert ada.config == {"attention": {"per_hundred_facts": 3, "per_day": 0, "unlimited": True}}
    page = admin.get(url)
    assert "Attention budget: no limit" in markup(page)
    typed = [page.context["form"][f"attention_{name}"].value() for name in ("per_day", "per_hundred_facts")]
    assert typed == [0, None], "what is as usual is no value of its own"
    assert admin.post(url, form | {"base_version": "1"}).status_code == 302
    ada.refresh_from_db()
    assert ada.config == {}
    assert admin.post(url, form | {"base_version": "2", "attention_per_day": "-1"}).status_code == 422


def test_settings_edit_of_an_older_version_is_refused(admin):
    settings_put(admin, budgets={"facts": 50}, base_version=0)
    answer = admin.put("/settings", {"budgets": {"facts": 60}, "base_version": 0}, AGENT)
    assert_problem(answer, 409, "conflict", detail="version 1")
    assert admin.get("/settings", AGENT).json()["budgets"] == {"facts": 50}


def test_settings_that_cannot_be_are_refused(admin, subtests):
    for body, field in [
        ({"budgets": {"nonsense": 1}}, "budgets"),
        ({"budgets": {"facts": -1}}, "budgets"),
        ({"budgets": {"total": 0}}, "budgets"),
        ({"budgets": {"facts": 10**9}}, "budgets"),
        ({"stm": {"window": 0}}, "stm"),
        ({"stm": {"nonsense": 1}}, "stm"),
        ({"stm": {"kind_boosts": {"error": -1}}}, "stm"),
        ({"contested": {"order": "oldest_first"}}, "contested.order"),
        ({"contested": {"categories": {"preference": "never"}}}, "contested.categories.preference"),
        ({"contested": {"categories": {"": "both"}}}, "category"),
        ({"attention": {"per_day": -1}}, "attention.per_day"),
        ({"attention": {"per_hundred_facts": 101}}, "attention.per_hundred_facts"),
        ({"attention": {"unlimited": "perhaps"}}, "attention.unlimited"),
        ({"autonomy": {"max_error": 1.5}}, "autonomy.max_error"),
        ({"autonomy": {"asking": ["everything"]}}, "autonomy.asking.0"),
    ]:
        with subtests.test(body=body, field=field):
            assert_problem(admin.put("/settings", body, AGENT), 422, "invalid", field=field)
            assert not AuditEvent.objects.filter(action="agent.configure").exists()


def test_settings_of_an_unknown_profile_are_refused(admin):
    assert_problem(admin.put("/settings", {"profile": "nobody"}, AGENT), 404, "not_found")


def test_settings_are_out_of_reach_of_tokens_and_reviewers(api, ada, all_scopes_token, bob):
    for caller, query in ((api.as_token(all_scopes_token), None), (api.as_person(bob), AGENT)):
        for body in (
            {"budgets": {"identity": 0}},
            {"attention": {"unlimited": True}},
            # What they send is looked at after who sends it.
            {"contested": {"categories": {"": "both"}}},
        ):
            assert_problem(caller.put("/settings", body, query), 403, "not_allowed")
        assert_problem(caller.post("/settings/restore", {"version": 0}, query), 403, "not_allowed")
    assert_problem(api.as_token(all_scopes_token).get("/settings"), 403, "not_allowed")


def test_context_of_the_past_uses_the_settings_of_then(api, admin, actor_token):
    settings_put(admin, budgets={"total": 700})
    then = clock.now()
    settings_put(admin, budgets={"total": 900})
    caller = api.as_token(actor_token)
    assert caller.post("/context", ASK | {"as_of": then.isoformat()}).json()["budget"] == 700
    assert caller.post("/context", ASK).json()["budget"] == 900
    assert caller.post("/context", ASK | {"as_of": (then + timedelta(0)).isoformat()}).json()["budget"] == 700


def test_settings_page_saves_shows_history_and_restores(ada, charlie, bob):
    url = reverse("agent_context_settings", args=["ada"])
    assert browser(bob).get(url).status_code == 403
    admin = browser(charlie)
    page = markup(admin.get(url))
    assert "Saved: all settings are at their defaults" in page
    assert "at most 10 times a day" in page
    assert "<option>Europe/Berlin</option>" in page
    records = f"/audit/?object=agent:{ada.pk}&about=settings"
    assert records.replace("&", "&amp;") in page
    form = {"base_version": "0", "budget_identity": "600", "stm_window": "9", "stm_kind_boosts.error": "1.5"}
    form |= {"contested_order": "newest_only", "contested_of_preference": "both"}
    assert admin.post(url, form).status_code == 302
    ada.refresh_from_db()
    assert ada.config == {
        "budgets": {"identity": 600},
        "stm": {"window": 9, "kind_boosts": {"error": 1.5}},
        "contested": {"order": "newest_only", "categories": {"preference": "both"}},
    }
    page = markup(admin.get(url))
    assert 'value="600"' in page
    assert 'name="stm_kind_boosts.error" value="1.5"' in page
    assert "Budget of Identity: 600" in page
    assert {row.action for row in admin.get(records).context["rows"]} == {"agent.configure", "agent.create"}
    assert "Contradicted facts of preference: Both in order" in page
    assert '<option value="both" selected>' in page
    assert "Facts of the category “preference”" in page
    assert "category=" not in page
    stale = admin.post(url, form | {"budget_identity": "5"})
    assert stale.status_code == 409
    assert 'value="5"' in markup(stale), "what was typed is kept"
    for bad in (
        {"budget_identity": "-1"},
        {"stm_kind_boosts.error": "much"},
        {"stm_kind_boosts.error": "99"},
        *BAD_ORDERS,
    ):
        assert admin.post(url, form | {"base_version": "1"} | bad).status_code == 422
    assert admin.post(url, {"base_version": "1"}).status_code == 302
    restore = reverse("agent_context_settings_restore", args=["ada", 1])
    assert admin.post(restore).status_code == 302
    ada.refresh_from_db()
    assert ada.config["budgets"] == {"identity": 600}


def test_settings_of_short_term_search_hold_from_the_next_search_on(api, admin, actor_token):
    caller = api.as_token(actor_token)
    for loop in ("one", "two", "three"):
        caller.post("/events", {"events": [{"kind": "user_input", "content": f"Sail {loop}.", "loop_id": loop}]})
        assert caller.post(f"/loops/{loop}/close").status_code == 200
    derived_backfill()

    def found():
        return [item["loop"]["loop_id"] for item in caller.get("/stm", {"q": "sail"}).json()["items"]]

    assert sorted(found()) == ["one", "three", "two"]
    settings_put(admin, stm={"window": 1}, reason="Only the last.")
    assert found() == ["three"]
    record = AuditEvent.objects.get(action="agent.configure")
    assert (record.author_name, record.message, record.after["stm"]) == ("charlie", "Only the last.", {"window": 1})


def test_settings_of_time_are_checked_and_audited(admin):
    made = settings_put(admin, time_zone="Europe/Berlin", recent="always")
    assert (made["time_zone"], made["recent"]) == ("Europe/Berlin", "always")
    assert_problem(admin.put("/settings", {"time_zone": "Mars/Olympus"}, AGENT), 422, "invalid")
    assert_problem(admin.put("/settings", {"recent": "often"}, AGENT), 422, "invalid")
    record = AuditEvent.objects.get(action="agent.configure")
    assert record.after == {"time_zone": "Europe/Berlin", "recent": "always"}
    assert settings_put(admin, time_zone="new york")["time_zone"] == "America/New_York", "a city as people type it"
    assert settings_put(admin, time_zone="", recent="on questions")["time_zone"] == ""


def test_settings_page_shows_what_each_section_had_in_the_last_prompts(api, ada, actor, actor_token, charlie):
    url, admin = reverse("agent_context_settings", args=["ada"]), browser(charlie)
    assert "Highest, last" not in markup(admin.get(url))
    make_facts(ada, [f"Knot {number} holds the sail in wind." for number in range(30)], actor, category="preference")
    for _ in range(2):
        assert api.as_token(actor_token).post("/context", ASK).status_code == 200
    page = admin.get(url)
    assert "Highest, last 2 prompts" in markup(page)
    assert "Automatic: 3,000 to 12,000 tokens, by the kind of question." in markup(page)
    assert "Over its budget" not in markup(page)
    assert "Not used in the last 2 prompts" in markup(page)
    assert admin.post(url, {"base_version": "0", "budget_user_profile": "1"}).status_code == 302
    page = admin.get(url)
    assert [row["field"].name for row in page.context["budgets"] if row["enough"]] == ["budget_user_profile"]
    assert markup(page).count("Over its budget") == 1
    assert re.search(r'data-set="id_budget_user_profile"\s+value="\d+0"', markup(page))
    used = {row["field"].name: row["use"] for row in page.context["budgets"]}
    last = ContextRun.objects.latest("created_at")
    assert used["budget_total"].tokens == last.tokens
    profile = next(one for one in last.sections if one["key"] == "user_profile")
    assert (used["budget_user_profile"].tokens, used["budget_user_profile"].cut) == (profile["tokens"], 2)
    refused = admin.post(url, {"base_version": "0", "budget_facts": "-1"})
    assert re.search(r'id="id_budget_facts_error">[^<]*greater than or equal to 0', markup(refused))


def test_settings_page_compares_sections_only_with_each_other(api, admin, actor_token, charlie):
    assert api.as_token(actor_token).post("/context", ASK).status_code == 200
    page, person = reverse("agent_context_settings", args=["ada"]), browser(charlie)
    settings_put(admin, budgets={"total": 20_000})
    shown = person.get(page)
    assert shown.context["scale"] < 20_000
    assert 'viewBox="0 0 20000 1"' in markup(shown), "the whole prompt has a scale of its own"
    settings_put(admin, budgets=dict.fromkeys(SECTION_BUDGETS, 0))
    assert person.get(page).status_code == 200
