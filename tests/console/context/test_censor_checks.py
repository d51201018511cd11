"""What censors said of an input and an answer, on the run's page, in the log of runs and in the inspector."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from context.models import ContextRun
from identity.models import AuditEvent
from identity.principal import Principal
from memory.embedding import EmbeddingFailed
from memory.models import Censor
from memory.services.censors import censor_create
from tests.http import browser, markup

LOG = "/agents/ada/context/runs/"
INSPECTOR = "/agents/ada/context/"
ASK = {"session_id": "s", "input": "Tell me: is it swordfish?"}
HARMLESS = {"session_id": "s", "input": "What is the weather like?"}


@pytest.fixture
def block(ada, bob):
    return censor_create(
        agent=ada, pattern="swordfish", severity="block", reason="Never speak of codes.", by=Principal.of_user(bob)
    )


@pytest.fixture
def warning(ada, bob):
    return censor_create(agent=ada, pattern="tell me", severity="warn", by=Principal.of_user(bob))


def page(user, url, **query):
    answer = browser(user).get(url, query)
    assert answer.status_code == 200
    return " ".join(markup(answer).split())


def asked(api, token, **more):
    return api.as_token(token).post("/context", {**ASK, **more}).json()["id"]


def test_run_page_names_what_blocked_the_input(api, ada, actor_token, alice, block, warning):
    shown = page(alice, f"/agents/ada/context/{asked(api, actor_token)}/")
    assert "The input was blocked by 1 censor:" in shown
    assert "The input triggered 1 warning:" in shown
    assert f'href="/agents/ada/censors/{block.pk}/"' in shown
    assert "Never speak of codes." in shown
    assert "would be" not in shown


def test_run_page_names_what_the_answer_triggered(api, ada, actor_token, alice, block):
    run = asked(api, actor_token, **HARMLESS)
    url = f"/agents/ada/context/{run}/"
    assert "None triggered" in page(alice, url)
    api.as_token(actor_token).post(f"/context/{run}/response", {"response": "It is swordfish, swordfish."})
    shown = page(alice, url)
    assert "in 2 places" in shown
    assert "The input was blocked" not in shown
    assert "Never speak of codes." in shown


def test_run_page_and_log_say_that_the_client_wanted_no_check(api, ada, actor_token, alice, block):
    run = asked(api, actor_token, censors="off")
    assert "The client requested no check by censors." in page(alice, f"/agents/ada/context/{run}/")
    assert "Censors off" in page(alice, LOG)


def test_log_marks_blocked_runs(api, ada, actor_token, alice, block):
    asked(api, actor_token, **HARMLESS)
    assert ">Blocked<" not in page(alice, LOG)
    asked(api, actor_token)
    assert page(alice, LOG).count(">Blocked<") == 1


def test_run_from_before_censors_were_checked_has_a_page(api, ada, actor_token, alice, block):
    run = asked(api, actor_token)
    ContextRun.objects.update(censors={})
    shown = page(alice, f"/agents/ada/context/{run}/")
    assert "not checked then" in shown
    assert "blocked" not in shown


def test_inspector_says_what_would_be_blocked_and_records_nothing(ada, alice, bob, block, warning):
    for person in (alice, bob):
        shown = page(person, INSPECTOR, input=ASK["input"])
        assert "The input would be blocked by 1 censor:" in shown
        assert "The input would trigger 1 warning:" in shown
    assert "Would be blocked" not in page(alice, INSPECTOR, input="hello")
    assert set(Censor.objects.values_list("activation_count", flat=True)) == {0}
    assert not AuditEvent.objects.filter(action="censor.trigger").exists()


def test_inspector_names_what_cannot_be_checked_as_blocking(ada, alice, bob, monkeypatch):
    censor_create(agent=ada, pattern="speaks of weapons", match="semantic", by=Principal.of_user(bob))

    def refuse(name):
        raise EmbeddingFailed("The embedder is down.")

    monkeypatch.setattr("memory.censoring.censor_matching.embedder_named", refuse)
    shown = page(alice, INSPECTOR, input="hello there")
    assert "The input would be blocked by 1 censor:" in shown
    assert "It could not be checked: Meanings cannot be compared at the moment: The embedder is down." in shown


def test_run_page_hides_what_the_subconscious_triggered(api, ada, subconscious_token, alice, charlie, block):
    run = asked(api, subconscious_token)
    assert browser(alice).get(f"/agents/ada/context/{run}/").status_code == 404
    assert "The input was blocked" in page(charlie, f"/agents/ada/context/{run}/")


def test_run_page_needs_no_further_statement_for_triggers(api, ada, actor_token, alice, block, warning):
    def statements(run):
        page(alice, f"/agents/ada/context/{run}/")
        client = browser(alice)
        client.get(f"/agents/ada/context/{run}/")
        with CaptureQueriesContext(connection) as found:
            client.get(f"/agents/ada/context/{run}/")
        return len(found)

    assert statements(asked(api, actor_token)) == statements(asked(api, actor_token, **HARMLESS))
