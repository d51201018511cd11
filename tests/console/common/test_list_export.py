"""Lists as files: the rows of their pages, for whom the pages are, and nothing that a spreadsheet computes."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from context.expectations.services import expectation_create, request_of
from identity.models import AuditEvent, WebhookDelivery
from identity.policy.changes import ACTIONS
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.webhooks import webhook_create
from memory.models import Censor, Decision, Document, Episode, Fact, Procedure
from memory.services.subjects.changes import subject_create
from nousweb.console.common import list_page
from tests.factories import (
    SYSTEM,
    make_copies,
    make_events,
    make_person,
    make_principal,
    make_proposal,
    make_review,
    make_run,
)
from tests.http import browser

pytestmark = pytest.mark.django_db
FORMULA = "=HYPERLINK(1)"
"""Stands where an agent may write: it must be in the page and in the file."""
PAGES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "agent_facts": ("", "content", lambda page: [one.content for one in page["page"]]),
    "agent_events": ("view=events", "id", lambda page: [str(one.pk) for one in page["page"].rows]),
    "agent_events loops": ("", "loop_id", lambda page: [one.loop_id for one, _ in page["rows"]]),
    "agent_episodes": ("", "title", lambda page: [one.title for one in page["page"].rows]),
    "agent_decisions": ("", "description", lambda page: [one.description for one in page["page"].rows]),
    "agent_procedures": ("", "name", lambda page: [one.name for one in page["page"]]),
    "agent_documents": ("", "key", lambda page: [one.key for one in page["page"].rows]),
    "agent_subjects": ("", "name", lambda page: [one.name for one in page["rows"]]),
    "agent_censors": ("", "pattern", lambda page: [one.pattern for one in page["page"]]),
    "agent_context_runs": ("", "id", lambda page: [str(one.pk) for one in page["page"].rows]),
    "agent_expectations": ("", "id", lambda page: [str(row["one"].pk) for row in page["rows"]]),
    "agent_webhook": ("", "number", lambda page: [str(row[0].number) for row in page["rows"]]),
    "inbox": ("", "id", lambda page: [str(row.entry.id) for row in page["rows"]]),
    "inbox identity": ("view=identity", "id", lambda page: [str(row.entry.id) for row in page["rows"]]),
    "inbox reviews": ("view=reviews", "id", lambda page: [str(row.entry.id) for row in page["rows"]]),
    "audit": (
        "action=proposal.create",
        "id",
        lambda page: [str(one.pk) for row in page["rows"] for one in (row, *row.more)],
    ),
    "people": ("", "username", lambda page: [one.username for one in page["rows"]]),
}
"""By list: a query, the column that tells rows apart, and what the page shows of it."""


@pytest.fixture(scope="module")
def world(module_db: None) -> dict[str, Any]:
    """An agent with a few rows in each list, and who may see all of them."""
    ada = agent_create(slug="ada", name="Ada", kind="knight", prompt="You are Ada.", by=SYSTEM)
    charlie = make_person("charlie", "Administrator")
    charlie.is_superuser = True
    charlie.save()
    actor, person = make_principal(ada), Principal.of_user(charlie)
    make_review(ada, actor, "The lift never stops at night.", "The lift sometimes stops at night.")
    subject_create(agent=ada, name="@Harbour", kind="other", by=person)
    make_events(ada, actor, FORMULA, "Later.", loop_id="morning")
    Fact.objects.create(agent=ada, content=FORMULA)
    Fact.objects.create(agent=ada, content="Of the subconscious.", persona="subconscious")
    for number in range(2):
        Episode.objects.create(agent=ada, title=f"Episode {number}", detail="All of it.")
        Decision.objects.create(agent=ada, description=f"Decision {number}")
        Procedure.objects.create(agent=ada, name=f"Procedure {number}", steps=["One, two", "Three"])
        Document.objects.create(agent=ada, namespace=["n"], key=f"key {number}", address=f"{number}")
        Censor.objects.create(agent=ada, pattern=f"pattern {number}")
        make_run(ada, actor, f"What of {number}?")
        make_proposal(ada, actor, ("values", "boundaries")[number])
        expectation_create(
            agent=ada,
            by=person,
            request=request_of(f"What of {number}?"),
            requirement="present",
            target="text",
            text="night",
        )
    webhook = webhook_create(agent=ada, url="https://example.org/hook", scopes=["memory:read"], by=person)[0]
    WebhookDelivery.objects.create(agent=ada, webhook=webhook, number=1, changes=[1], kinds=["fact.learned"])
    return {"ada": ada, "charlie": charlie, "webhook": webhook}


def address(name: str, world: dict[str, Any]) -> str:
    name = name.split()[0]
    args = [world["ada"].slug] if name.startswith("agent_") else []
    return reverse(name, args=[*args, world["webhook"].pk] if name == "agent_webhook" else args)


def text_of(answer: Any) -> str:
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).decode()


def csv_of(client: Client, url: str, query: str = "") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(client.get(f"{url}?{query}&export=csv")), newline="")))


@pytest.mark.parametrize("name", PAGES)
def test_list_export_has_the_rows_of_the_page(name: str, world: dict[str, Any]) -> None:
    client, url = browser(world["charlie"]), address(name, world)
    query, column, shown = PAGES[name]
    page = client.get(f"{url}?{query}")
    assert "export=jsonl" in page.content.decode()
    expected = shown(page.context)
    assert expected
    rows = csv_of(client, url, query)
    assert sorted(row[column].removeprefix("'") for row in rows) == sorted(expected)
    answer = client.get(f"{url}?{query}&export=jsonl")
    assert answer["Cache-Control"] == "no-store"
    assert "default-src" in answer["Content-Security-Policy"]
    lines = [json.loads(line) for line in text_of(answer).splitlines()]
    assert [str(line[column]) for line in lines] == [row[column].removeprefix("'") for row in rows]


def test_list_export_leaves_one_record(world: dict[str, Any]) -> None:
    client = browser(world["charlie"])
    answer = client.get("/agents/ada/facts/?q=lift&persona=subconscious&page=2&export=csv")
    assert answer["Content-Disposition"].startswith('attachment; filename="ada-facts-20')
    assert answer["Nous-Export-Rows"] == "2"
    assert client.head("/agents/ada/facts/?export=csv").status_code == 200
    (record,) = AuditEvent.objects.filter(action="list.export")
    assert (record.object_label, record.author_name, record.persona) == ("Facts of Ada", "charlie", "both")
    filters = {"q": ["lift"], "persona": ["subconscious"]}
    assert record.after == {"format": "csv", "rows": 2, "cut": False, "filters": filters}
    assert "list.export" in ACTIONS


def test_list_export_neutralises_formulas_in_csv_only(world: dict[str, Any], client: Client) -> None:
    starts = ["=1", "+1", "-1", "@x", "\t=1", "\r=1", "＝1", "plain", "a=1"]
    Fact.objects.bulk_create(Fact(agent=world["ada"], content=text, subject="cells") for text in starts)
    signed = browser(world["charlie"])
    cells = [row["content"] for row in csv_of(signed, "/agents/ada/facts/", "q=cells")]
    assert sorted(cells) == sorted([f"'{text}" for text in starts[:7]] + starts[7:])
    lines = text_of(signed.get("/agents/ada/facts/?q=cells&export=jsonl")).split("\n")[:-1]
    assert sorted(json.loads(line)["content"] for line in lines) == sorted(starts)


def test_list_export_is_for_whom_the_page_is(world: dict[str, Any], db: None) -> None:
    ada, viewer, nobody = world["ada"], browser(make_person("alice", "Viewer")), browser(make_person("eve"))
    assert "Of the subconscious." not in str(csv_of(viewer, "/agents/ada/facts/"))
    assert viewer.get("/agents/ada/facts/?persona=subconscious&export=csv").status_code in (403, 404)
    for name in PAGES:
        url = address(name, {**world, "ada": ada})
        for client in (viewer, nobody):
            assert client.get(f"{url}?export=csv").status_code == client.get(url).status_code
        assert Client().get(f"{url}?export=csv").status_code == 302
    assert viewer.get("/people/?export=csv").status_code == 403
    assert "export=csv" not in viewer.get("/agents/ada/facts/?as_of=never").content.decode()
    assert "text/html" in viewer.get("/agents/ada/facts/?as_of=never&export=csv")["Content-Type"]


def test_list_export_is_cut_and_says_so(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_page, "MAX_EXPORT_ROWS", 5)
    monkeypatch.setattr(list_page, "BATCH_ROWS", 2)
    make_copies(Fact.objects.create(agent=world["ada"], content="Fact.", subject="cut"), 6)
    client = browser(world["charlie"])
    answer = client.get("/agents/ada/facts/?q=cut&export=csv")
    assert (answer["Nous-Export-Rows"], answer["Nous-Export-Cut"]) == ("5", "true")
    lines = text_of(answer).splitlines()
    assert len(lines) == 7
    assert lines[-1] == "The export was cut after 5 rows. Filter the list to export the others."
    last = text_of(client.get("/agents/ada/facts/?q=cut&export=jsonl")).splitlines()[-1]
    assert json.loads(last) == {"cut": lines[-1]}


@pytest.mark.parametrize("rows", [1, 1_200])
def test_list_export_takes_one_query_a_batch(rows: int, world: dict[str, Any], django_assert_num_queries: Any) -> None:
    fact = Fact.objects.create(agent=world["ada"], content="Fact.", subject="many")
    make_copies(fact, rows - 1)
    client = browser(world["charlie"])
    csv_of(client, "/agents/ada/facts/", "q=nothing")
    with django_assert_num_queries(8 + rows // list_page.BATCH_ROWS):
        assert len({row["id"] for row in csv_of(client, "/agents/ada/facts/", "q=many")}) == rows
