"""The promises of all interfaces, in one table. A promise without a cell for an interface, or an interface without a
column, fails."""

import tomllib
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from identity.models import AuditEvent, ChangeProposal, IdentityVersion
from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS
from identity.principal import Principal
from identity.services.oauth import oauth_client_create
from memory.models import Document, Fact, FileRun, MemoryReview
from memory.services.documents import document_put
from memory.services.facts import fact_invalidate
from tests.factories import make_fact, make_principal, make_proposal, make_review, make_token
from tests.http import browser
from tests.interfaces.interfaces import INTERFACES, refusal_of
from tests.product import PROJECT

pytestmark = pytest.mark.django_db(transaction=True)

NO_ID = "00000000-0000-4000-8000-000000000000"
PENDING = "waits for a person"
IMPORTS = ("import", "console import")
KEPT = "is kept, and is no identity"

# What each interface does with an act that comes near to approving, and says of what makes no sense or lacks a scope.
TABLE = {
    "a proposer never approves": {
        "API": (PENDING, "Only a signed-in person may do this"),
        "MCP": (PENDING, "mode: there is no such argument"),
        "MCP, handshake": (PENDING, "mode: there is no such argument"),
        "MCP, OAuth": (PENDING, "mode: there is no such argument"),
        "MCP, stdio": (PENDING, "mode: there is no such argument"),
        "client": (PENDING, "Only a signed-in person may do this"),
        "memory tool": (KEPT, "approve"),
        "LangGraph": (KEPT, "a document that says so, and nothing else"),
        "mem0": (KEPT, "not found"),
        "import": (PENDING, "a field is not known: 'status'"),
        "console import": (PENDING, "a field is not known: 'status'"),
    },
    "what people decided stays": {
        "API": "only people can change it",
        "MCP": "only people can change it",
        "MCP, handshake": "only people can change it",
        "MCP, OAuth": "only people can change it",
        "MCP, stdio": "only people can change it",
        "client": "only people can change it",
        "memory tool": "people",
        "LangGraph": "only people can change it",
        "mem0": "only people can change it",
        "import": "does not come back",
        "console import": "does not come back",
    },
    "an actor never reads the subconscious": dict.fromkeys(INTERFACES, "nothing"),
    "another agent's ids do not exist": {
        "API": "not_found",
        "MCP": "404, not_found",
        "MCP, handshake": "404, not_found",
        "MCP, OAuth": "404, not_found",
        "MCP, stdio": "404, not_found",
        "client": "404 not_found",
        "memory tool": "does not exist",
        "LangGraph": "None",
        "mem0": "None",
        "import": "another fact",
        "console import": "another fact",
    },
    "scopes hold": {
        "API": "This token lacks the scope memory:write",
        "MCP": "This token lacks the scope memory:write",
        "MCP, handshake": "This token lacks the scope memory:write",
        "MCP, OAuth": "This token lacks the scope memory:write",
        "MCP, stdio": "This token lacks the scope memory:write",
        "client": "This token lacks the scope memory:write",
        "memory tool": "This token lacks the scope memory:write",
        "LangGraph": "This token lacks the scope memory:write",
        "mem0": "This token lacks the scope memory:write",
        "import": "Only the system itself can import",
        "console import": "An owner can give you the role Administrator.",
    },
    "bad input is refused in the interface's own words": {
        "API": '"field": "limit"',
        "MCP": "limit: Input should be greater than or equal to 1",
        "MCP, handshake": "limit: Input should be greater than or equal to 1",
        "MCP, OAuth": "limit: Input should be greater than or equal to 1",
        "MCP, stdio": "limit: Input should be greater than or equal to 1",
        "client": "(422 ",
        "memory tool": "Invalid `insert_line` parameter: 99. It should be within the range",
        "LangGraph": "Namespace cannot be empty",
        "mem0": "At least one of 'user_id', 'agent_id' or 'run_id' must be provided",
        "import": "line 2: a field is not known: 'colour'",
        "console import": "line 2: a field is not known: 'colour'",
    },
    "the audit names the interface": {
        "API": "api",
        "MCP": "mcp",
        "MCP, handshake": "mcp",
        "MCP, OAuth": "mcp",
        "MCP, stdio": "mcp",
        "client": "api",
        "memory tool": "api",
        "LangGraph": "api",
        "mem0": "api",
        "import": "import",
        "console import": "console, import",
    },
}


class World:
    """Ada with one of everything that an interface must not reach, and Bruno, whom her token must not see."""

    def __init__(self, ada, bruno, bob, charlie, url, folder, interface):
        self.ada, self.bob, self.url, self.folder, self.interface = ada, bob, url, folder, interface
        self.client = None
        if interface == "MCP, OAuth":
            made = {"name": "Desk", "redirect_uris": ["http://127.0.0.1/"], "by": Principal.of_user(charlie)}
            self.client = oauth_client_create(**made)
        self.theirs = make_fact(bruno, "Bruno hides the lighthouse key.", make_principal(bruno))
        document_put(
            agent=bruno, namespace=["interfaces"], key="theirs", value={"text": "lighthouse"}, by=make_principal(bruno)
        )
        own = make_principal(ada, "subconscious", name="under")
        make_fact(ada, "The actor repeats itself about the lighthouse.", own)
        for namespace, key in (
            (["interfaces"], "place"),
            (["memories"], "/memories/place.md"),
            (["mem0"], str(uuid4())),
        ):
            value = {"text": "lighthouse below", "content": "lighthouse below", "data": "lighthouse", "user_id": "tim"}
            document_put(agent=ada, namespace=namespace, key=key, value=value, by=own)
        self.proposal = make_proposal(ada, make_principal(ada, name="proposer"))
        self.review = make_review(
            ada, make_principal(ada, name="asker"), "Tim never sails at night.", "Tim sometimes sails at night."
        )
        self.opened = []

    def open(self, scopes=tuple(SCOPE_PERMISSIONS)):
        """The interface, opened with a new token of Ada's actor."""
        given = {"name": str(uuid4()), "scopes": list(scopes)}
        if self.client:
            given |= {"client": self.client, "resource": f"{self.url}/mcp"}
        made = INTERFACES[self.interface](self.url, make_token(self.ada, **given), self.folder)
        self.opened.append(made)
        return made


def never_approves(world, expected):
    """Neither who the agent is nor what waits for people changes, however it is put."""
    outcome, words = expected
    versions, waiting = IdentityVersion.objects.count(), ChangeProposal.objects.filter(status="pending").count()
    interface = world.open()
    interface.propose()
    proposed = ChangeProposal.objects.filter(status="pending").count() - waiting
    assert proposed == (1 if outcome == PENDING else 0)
    assert words in refusal_of(lambda: interface.approve(str(world.proposal.pk), str(world.review.pk)))
    assert IdentityVersion.objects.count() == versions
    assert not ChangeProposal.objects.exclude(status="pending").exists()
    assert MemoryReview.objects.get(pk=world.review.pk).status == "pending"


def decided_stays(world, words):
    """A person's memory is neither replaced nor deleted through the interface; an invalidated fact stays so."""
    interface, bob = world.open(), Principal.of_user(world.bob)
    interface.keep("Tim likes tea.")
    if world.interface in IMPORTS:
        fact = Fact.objects.get(agent=world.ada, content="Tim likes tea.")
        fact_invalidate(fact=fact, by=bob, reason="Wrong.")
        interface.keep("Tim likes tea.")
        interface.lines({"record": "fact", "id": "again", "content": "Tim likes tea.", "subject": "Tim"})
        assert not Fact.objects.filter(agent=world.ada, content="Tim likes tea.", active=True).exists()
        assert words
        return
    kept = Document.objects.filter(agent=world.ada, persona="actor", active=True).order_by("-created_at")
    row = next(row for row in kept if "Tim likes tea." in row.value.values())
    value = {name: "Tim likes coffee." if held == "Tim likes tea." else held for name, held in row.value.items()}
    place = {"namespace": row.namespace, "key": row.key, "user": row.user}
    document_put(agent=world.ada, value=value, by=bob, **place)
    assert words in refusal_of(lambda: interface.keep("Tim likes rum."))
    assert words in refusal_of(interface.discard)
    held = Document.objects.get(agent=world.ada, persona="actor", active=True, **place)
    assert held.value == value


def nothing_of_the_subconscious(world, expected):
    """Searching, listing and reading at the very same place give nothing of it."""
    assert expected == "nothing"
    interface = world.open()
    assert "lighthouse" not in interface.found("What does the actor repeat itself about?")
    if world.interface not in IMPORTS:
        interface.keep("Tim likes tea.")
        assert "Tim likes tea." in interface.found("What does Tim like?")
    assert not Fact.objects.filter(agent=world.ada, persona="subconscious", content="x").exists()


def other_ids_do_not_exist(world, words):
    """An id of another agent's is answered as one of nothing is."""
    interface = world.open()
    before = Fact.objects.filter(pk=world.theirs.pk).values().get()
    said = [refusal_of(lambda key=key: interface.by_id(key)) for key in (str(world.theirs.pk), "theirs", NO_ID)]
    assert words in said[0]
    assert words in said[2]
    assert "lighthouse" not in "".join(said)
    assert _without_ids(said[0], str(world.theirs.pk)) == _without_ids(said[2], NO_ID)
    assert Fact.objects.filter(pk=world.theirs.pk).values().get() == before


def _without_ids(said, key):
    """A refusal without the id that was asked for, and without that of the request."""
    told = said.replace(key, "…")
    return told.partition('"request_id"')[0]


def scopes_hold(world, words):
    """Whoever may only read writes nothing."""
    if world.interface == "console import":
        file = SimpleUploadedFile("scopes.jsonl", b'{"record": "fact", "content": "Tea is hot."}\n')
        answer = browser(world.bob).post(reverse("agent_imports", args=["ada"]), {"persona": "actor", "file": file})
        assert answer.status_code == 403
        assert words in answer.content.decode()
        assert not FileRun.objects.exists()
    elif world.interface in IMPORTS:
        from memory.transfer.import_dry_run import ImportRequest
        from memory.transfer.import_memory import memories_import

        path = world.folder / "scopes.jsonl"
        path.write_text('{"record": "fact", "content": "Tea is hot."}\n')
        by = make_principal(world.ada, name="all", scopes=list(SCOPE_PERMISSIONS))
        request = ImportRequest(path=path)
        assert words in refusal_of(lambda: memories_import(agent=world.ada, request=request, by=by))
    else:
        reading = [scope for scope in DEFAULT_SCOPES if scope.endswith(":read")]
        interface = world.open(reading)
        assert words in refusal_of(lambda: interface.keep("Tea is hot."))
        assert "Tea is hot." not in interface.found("tea")
    assert not Fact.objects.filter(content="Tea is hot.").exists()
    assert not Document.objects.filter(agent=world.ada, persona="actor").exists()


def bad_input_is_named(world, words):
    """It says what is wrong, and nothing is stored."""
    interface = world.open()
    if world.interface not in IMPORTS:
        interface.keep("Tim likes tea.")
    # That a file was uploaded is on record, whatever is in it.
    records = AuditEvent.objects.exclude(action="memory_import.create")
    before = records.count(), Fact.objects.count(), Document.objects.count()
    assert words in refusal_of(interface.wrong)
    assert (records.count(), Fact.objects.count(), Document.objects.count()) == before


def audit_names_the_interface(world, channel):
    """The audit records of a write name the interface, and no other one."""
    last = AuditEvent.objects.latest("id").pk
    interface = world.open()
    made = AuditEvent.objects.filter(pk__gt=last, object_type="apitoken").values("pk")
    assert interface.channel in channel.split(", ")
    interface.keep("Tim likes tea.")
    records = AuditEvent.objects.filter(pk__gt=last).exclude(pk__in=made)
    assert records
    assert {record.channel for record in records} == set(channel.split(", "))


# In an order in which none stands in the way of the next: a person's word ends what may be written, so it comes last.
PROMISES = {
    "scopes hold": scopes_hold,
    "the audit names the interface": audit_names_the_interface,
    "bad input is refused in the interface's own words": bad_input_is_named,
    "another agent's ids do not exist": other_ids_do_not_exist,
    "an actor never reads the subconscious": nothing_of_the_subconscious,
    "a proposer never approves": never_approves,
    "what people decided stays": decided_stays,
}


def test_every_promise_has_a_cell_for_every_interface():
    assert PROMISES.keys() == TABLE.keys()
    for promise, cells in TABLE.items():
        assert cells.keys() == INTERFACES.keys(), promise
        assert all(cells.values()), promise


def test_every_way_in_is_a_interface():
    """Each adapter of the client, and each channel of the audit trail but those of people, is in the table."""
    adapters = tomllib.loads((PROJECT / "clients/python/pyproject.toml").read_text())["project"]
    package = PROJECT / "clients/python/src/nous_client"
    found = {name for name in ("anthropic", "langgraph", "mem0") if (package / f"{name}.py").exists()}
    # Turns take the messages of the OpenAI SDK as they are: its extra has no adapter.
    assert set(adapters["optional-dependencies"]) - {"openai"} <= found
    modules = {interface.__mro__[0].__name__ for interface in INTERFACES.values()}
    assert {"MemoryToolInterface", "LangGraphInterface", "Mem0Interface"} <= modules
    assert {interface.channel for interface in INTERFACES.values()} == {name for name, _ in AuditEvent.CHANNELS} - {
        "console",
        "command",
    }


@pytest.mark.parametrize("interface", INTERFACES)
def test_promises_hold_at_the_interface(live_server, tmp_path, ada, bruno, bob, charlie, interface, subtests):
    """One world for all of them, in their order: to make one takes as long as most promises."""
    world = World(ada, bruno, bob, charlie, live_server.url, tmp_path, interface)
    for promise, held in PROMISES.items():
        with subtests.test(promise):
            try:
                held(world, TABLE[promise][interface])
            finally:
                while world.opened:
                    world.opened.pop().close()
