"""Importing what other tools export: what comes of each format, again without doubles, and mistakes with their place.

The files of mem0 and LangGraph are by mem0ai 2.2.1 and langgraph 1.2.22; the others follow the formats as documented.
"""

import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from identity.models import AuditEvent, ChangeProposal, IdentityVersion
from identity.services.proposals import proposal_reject
from memory.models import Event, Fact, ImportedMemory, MemoryReview
from memory.services.erasure import fact_erase, project_erase
from memory.services.facts import fact_invalidate
from memory.transfer.import_dry_run import ImportRequest
from memory.transfer.import_memory import BATCHES, memories_import
from memory.transfer.import_memory import _facts_learn as learn
from memory.transfer.json_stream import BadEntry, records_read
from nousweb.lib.errors import NotAllowed
from nousweb.lib.validation import first_unstorable

FILES = Path(__file__).parent / "exports"
BY_FILE = {
    "mem0_get_all.json": "mem0",
    "langgraph_search.json": "langgraph",
    "letta_agent.af": "letta",
    "letta_first_form.af": "letta",
    "chatgpt_conversations.json": "chatgpt",
    "claude_conversations.json": "claude",
    "nous.jsonl": "nous",
}


PAIRS = [("red", "lathe"), ("green", "press"), ("grey", "kiln"), ("blue", "crane"), ("white", "loom")]


@pytest.fixture
def run(ada, tmp_path):
    """Run the command over a file, or content written as one; returns what it printed."""

    def run(file, content=None, **options):
        path = FILES / file
        if content is not None:
            path = tmp_path / file
            raw = content if isinstance(content, bytes | str) else json.dumps(content)
            path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
        out = io.StringIO()
        call_command("importmemory", str(path), agent="ada", stdout=out, stderr=run.progress, **options)
        return out.getvalue()

    run.progress = io.StringIO()

    return run


def rows():
    """How many rows there are of everything that an import may make."""
    models = (Fact, Event, ChangeProposal, MemoryReview, ImportedMemory, AuditEvent)
    return {model.__name__: model.objects.count() for model in models}


def events():
    return list(Event.objects.order_by("pk").values_list("kind", "content"))


def memory(text, key="m1", **more):
    return {"id": key, "memory": text, "user_id": "ann", **more}


@pytest.mark.parametrize("file", BY_FILE)
def test_dry_run_stores_nothing_and_a_second_run_imports_nothing(run, file):
    before = rows()
    said = run(file, dry_run=True)
    assert said.startswith("Format: ")
    assert "Nothing was stored." in said
    assert rows() == before

    versions = IdentityVersion.objects.count()
    first = run(file)
    kept = rows()
    assert kept["ImportedMemory"] > before["ImportedMemory"]
    assert set(ImportedMemory.objects.values_list("system", "file")) == {(BY_FILE[file], file)}
    assert not Fact.objects.filter(endorsed=True).exists()
    assert IdentityVersion.objects.count() == versions, "nothing imported is identity before a person says so"

    again = run(file)
    assert rows() == kept, first
    assert "imported before" in again
    assert f"{kept['ImportedMemory'] - before['ImportedMemory']:,} were imported before." in again
    assert "imported before" in run(file, dry_run=True)


def test_mem0(run):
    run("mem0_get_all.json")
    fact = Fact.objects.get(content="Likes long walks by the river Spree.")
    assert (fact.subject, fact.tags, fact.persona, fact.category) == ("ann", ["leisure"], "actor", "concept")
    assert fact.valid_from.isoformat() == "2026-11-22T23:40:13.499535+00:00"
    assert fact.source == "mem0 e0e289a6-cfb9-4b86-8cba-157c0b7784ab"
    assert fact.recorded_at > fact.valid_from, "learned now, true since then"
    assert fact.changes.get().author_name == "command line, import of mem0_get_all.json"
    provenance = ImportedMemory.objects.get(item_id=str(fact.pk))
    assert (provenance.source_id, provenance.outcome) == ("e0e289a6-cfb9-4b86-8cba-157c0b7784ab", "stored")
    assert Fact.objects.get(content="Drinks tea without sugar.").subject == "ben"
    trail = AuditEvent.objects.get(action="memory.import")
    assert trail.after == {
        "format": "mem0", "file": "mem0_get_all.json", "stored": {"fact stored": 5},
        "known": 0, "skipped": 0, "refused": 0,
    }  # fmt: skip
    assert not MemoryReview.objects.exists()


def test_mem0_of_the_platform_and_older_versions(run):
    pages = {
        "count": 4,
        "next": None,
        "results": [
            memory("Plays chess on Sundays.", categories=["hobbies"], created_at="2026-02-01T09:00:00-07:00"),
            memory("Holds a season ticket.", "m2", expiration_date="2098-12-31", updated_at="2026-03-01T00:00:00"),
            memory("Held a day ticket.", "m4", expiration_date="2026-01-31", updated_at="2026-01-01T00:00:00"),
            memory(" ", "m3"),
        ],
        "relations": [{"source": "ann", "relationship": "plays", "target": "chess"}],
    }
    said = run("page.json", pages)
    day, ticket, chess = Fact.objects.order_by("content")
    assert (day.valid_until.isoformat(), day.expires_at) == ("2026-02-01T00:00:00+00:00", None)
    assert (chess.tags, chess.valid_from.isoformat()) == (["hobbies"], "2026-02-01T16:00:00+00:00")
    assert ticket.valid_from.isoformat() == "2026-03-01T00:00:00+00:00"
    assert (ticket.valid_until, ticket.expires_at.isoformat()) == (None, "2099-01-01T00:00:00+00:00")
    assert "1 skipped: a memory without words" in said
    assert "1 skipped: a relation of mem0's graph" in said
    lines = [memory("Owns a red bicycle.", "4"), {"next": None, "results": [memory("Has two sons.", "5")]}]
    run("lines.jsonl", "\n".join(map(json.dumps, lines)))
    assert Fact.objects.filter(content__in=["Owns a red bicycle.", "Has two sons."]).count() == 2


STATED = {"attribute": "Job title", "value": "nurse"}


def stated():
    return list(Fact.objects.order_by("recorded_at").values_list("content", "attribute", "value", "active"))


def test_mem0_states_an_attribute_by_its_metadata(run):
    run("a.json", [
        memory("Ann nurses.", metadata=STATED | {"mood": "calm"}, updated_at="2026-01-01T00:00:00Z"),
        memory("Ann flies.", "m2", metadata=STATED | {"value": "pilot"}, updated_at="2026-02-01T00:00:00Z"),
        memory("Ann rows.", "m3", metadata={"attribute": "hobby", "value": 7}, updated_at="2026-03-01T00:00:00Z"),
        memory("Ann sings.", "m4", metadata={"attribute": "a" * 81, "value": "b"}, updated_at="2026-04-01T00:00:00Z"),
    ])  # fmt: skip
    assert stated() == [
        ("Ann nurses.", "job title", "nurse", False),
        ("Ann flies.", "job title", "pilot", True),
        ("Ann rows.", "", "", True),
        ("Ann sings.", "", "", True),
    ]
    assert Fact.objects.get(content="Ann nurses.").tags == ["calm"]
    assert Fact.objects.get(content="Ann rows.").tags == ["hobby"]


def test_langgraph_states_an_attribute_beside_the_words(run):
    def item(key, value):
        return {"namespace": ["ann"], "key": key, "value": value, "updated_at": f"2026-01-0{key}T00:00:00Z"}

    run("store.json", [
        item("1", {"text": "Ann nurses.", **STATED}),
        item("2", {"content": {"content": "Ann flies.", **STATED, "value": "pilot"}, "kind": "Memory"}),
        item("3", STATED),
    ])  # fmt: skip
    found = stated()
    assert found[0] == ("Ann nurses.", "job title", "nurse", False)
    assert found[1] == ("Ann flies.", "job title", "pilot", True)
    assert found[2][1:] == ("", "", True)


def test_the_oldest_is_learned_first(run):
    newer = memory("Ann lives in Paris.", "1", updated_at="2026-03-01T00:00:00Z")
    older = memory("Ann lives in Berlin.", "2", updated_at="2026-01-01T00:00:00Z")
    run("a.json", [newer, older])
    assert list(Fact.objects.order_by("recorded_at").values_list("content", "active")) == [
        (older["memory"], False),
        (newer["memory"], True),
    ]


def test_langgraph(run):
    run("langgraph_search.json", only="memories")
    found = {fact.content: fact.tags for fact in Fact.objects.all()}
    assert found == {
        "Ann takes her tea without milk.": ["ann", "memories"],
        '{"text": "Ann owns a wooden rowing boat.", "rating": 4}': ["ann", "memories"],
        "Ben plays the viola in a quartet.": ["ben", "memories"],
    }
    assert ImportedMemory.objects.filter(source_id="memories/ann/tea").exists()
    assert "1 fact: stored" in run("langgraph_search.json", only="settings/ann")
    row = {"prefix": "memories.ann", "key": "new", "value": {"memory": "Ann moved to Kiel."}}
    assert "1 fact: stored" in run("table.jsonl", row, persona="subconscious")
    assert Fact.objects.get(content="Ann moved to Kiel.").persona == "subconscious"


def test_letta_blocks_wait_for_a_person(run, ada, reviewer):
    said = run("letta_agent.af", section=["routines=boundaries"])
    assert "3 proposals for the identity: proposed" in said
    waiting = ChangeProposal.objects.filter(agent=ada, status="pending")
    assert {(one.section, one.content[:12], one.reason) for one in waiting} == {
        ("character", "I am Harbour", "Letta's core memory: persona"),
        ("preferences", "The skipper ", "Letta's core memory: human"),
        ("boundaries", "Check the fo", "Letta's core memory: routines"),
    }
    assert set(Fact.objects.values_list("content", flat=True)) == {
        "The cutter draws one metre ninety.",
        "The home port is Stralsund.",
    }
    assert events() == [
        ("user_input", "When is high tide?"),
        ("tool_call", 'archival_memory_search({"query": "tide"})'),
        ("actor_output", "The user wants the tide."),
        ("tool_result", '{"status": "OK", "message": "At 14:20."}'),
        ("actor_output", "High tide is at 14:20."),
    ]
    assert Event.objects.order_by("pk").first().ts.isoformat() == "2026-03-01T09:01:00+00:00"
    for proposal in waiting:
        proposal_reject(proposal=proposal, by=reviewer)
    run("letta_agent.af", section=["routines=boundaries"])
    assert not ChangeProposal.objects.filter(agent=ada, status="pending").exists(), "what people refused stays refused"


def test_chatgpt_reads_the_branch_that_was_open_last(run):
    said = run("chatgpt_conversations.json")
    assert events() == [
        ("user_input", "Which knot holds a boat to a ring?"),
        ("tool_call", "print('round turn')"),
        ("tool_result", "round turn"),
        ("actor_output", "A round turn and two half hitches."),
        ("user_input", "[image_asset_pointer]\nIs this one?"),
        ("actor_output", "Yes — that is one. \U0001f6a4"),
    ]
    first = Event.objects.order_by("pk").first()
    assert first.ts.timestamp() == 1767603601.0
    assert first.loop_id == "chatgpt/6790c0de-0000-4000-8000-000000000001"
    assert first.metadata["title"] == "Sailing knots"
    assert first.metadata["imported"] == {"system": "chatgpt", "id": "6790c0de-0000-4000-8000-000000000001/u1"}
    assert "1 skipped: on a branch that was left" in said
    assert "1 skipped: thoughts of the model" in said
    assert "1 skipped: custom instructions, which would be identity" not in said
    assert not Fact.objects.exists()


def chat(key, role, text="", *, parent=None, at=None, **more):
    """A node of ChatGPT's tree."""
    message = {"id": key, "author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, **more}
    return {key: {"id": key, "message": {"create_time": at, **message}, "parent": parent, "children": []}}


def test_chatgpt_without_an_open_branch_follows_parents_and_then_time(run):
    tree = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["q"]},
        **chat("q", "user", "Which tea?", parent="root", at=1),
        **chat("old", "assistant", "Black tea.", parent="q", at=2),
        **chat("new", "assistant", "Green tea.", parent="q", at=3),
        **chat("thanks", "user", "Thanks.", parent="new", at=4),
        **chat("older", "user", "No.", parent="old", at=2.5),
    }
    said = run("chats.json", [{"conversation_id": "c", "mapping": tree, "current_node": None}], format="chatgpt")
    assert [content for _, content in events()] == ["Which tea?", "Green tea.", "Thanks."]
    assert "2 skipped: on a branch that was left" in said
    flat = (
        chat("b", "assistant", "Second.", at=20) | chat("a", "user", "First.", at=10) | chat("c", "user", "3rd", at=30)
    )
    said = run("flat.json", [{"conversation_id": "d", "mapping": flat}], format="chatgpt")
    assert [content for _, content in events()][3:] == ["First.", "Second.", "3rd"]
    assert "on a branch" not in said


def test_chatgpt_leaves_out_what_the_model_thought_and_what_is_not_to_be_remembered(run):
    def kind(name, **content):
        return {"content": {"content_type": name, **content}}

    marked = (
        'Ships \ue200entity\ue202["ship","Vasa","of 1628"]\ue201 sank \ue200cite\ue202turn0search1\ue201.'
        " See \ue200url\ue202the museum\ue202turn0search3\ue201【12†source】 and【4:0†log.pdf】 more"
        " citeturn0search1turn1view0:contentReference[oaicite:3]{index=3}."
    )
    parts = [{"content_type": "reasoning", "text": "Hidden."}, {"content_type": "hologram", "text": "Odd."}, "Said."]
    nodes = [
        chat("a", "user", "Keep 【1†source】.", at=1),
        chat("b", "assistant", at=2, **kind("reasoning_recap", content="Thought for 5s")),
        chat("c", "assistant", at=3, **kind("thinking", parts=["Secretly."])),
        chat("d", "assistant", at=4, **kind("token_budget", text="900")),
        chat("e", "assistant", "An analysis.", at=5, channel="analysis"),
        chat("f", "assistant", at=6, **kind("text", parts=parts)),
        chat("g", "assistant", marked, at=7),
    ]
    tree = {key: node for each in nodes for key, node in each.items()}
    secret = {"conversation_id": "x", "is_do_not_remember": True, "mapping": chat("s", "user", "Forget me.", at=1)}
    for dry in (True, False):
        said = run("c.json", [{"conversation_id": "c", "mapping": tree}, secret], format="chatgpt", dry_run=dry)
        for why in (
            "4 skipped: thoughts of the model",
            "1 skipped: bookkeeping of the chat",
            "1 skipped: a part of the kind 'hologram'",
            "1 skipped: a conversation that is not to be remembered",
            "1 skipped: citation marks",
        ):
            assert why in said, said
    assert events() == [
        ("user_input", "Keep 【1†source】."),
        ("actor_output", "Said."),
        ("actor_output", "Ships Vasa sank. See the museum and more."),
    ]


def test_claude_leaves_out_what_was_not_said(run):
    blocks = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "It is"},
        {"type": "token_budget", "remaining": 5},
        {"type": "text", "text": "tea【3†source】."},
        {"type": "server_tool_use", "name": "search", "input": {}},
        {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "text": "Leaves."}]},
    ]
    talk = {"uuid": "c", "chat_messages": [{"uuid": "m", "sender": "assistant", "content": blocks}]}
    said = run("claude.json", [talk, {**talk, "uuid": "d", "is_temporary": True}], format="claude")
    assert events() == [("actor_output", "It is\ntea."), ("tool_call", "search({})"), ("tool_result", "Leaves.")]
    assert "2 skipped: thoughts of the model" in said
    assert "1 skipped: bookkeeping of the chat" in said
    assert "1 skipped: citation marks" in said
    assert "1 skipped: a conversation that is not to be remembered" in said


def test_letta_leaves_out_thoughts(run):
    content = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Tea【1†source】."}]
    agent = {"id": "a", "name": "a", "messages": [{"role": "assistant", "content": content}]}
    said = run("letta.af", {"agents": [agent], "blocks": []}, format="letta")
    assert events() == [("actor_output", "Tea.")]
    assert "1 skipped: thoughts of the model" in said
    assert "1 skipped: citation marks" in said


def test_claude(run):
    said = run("claude_conversations.json", persona="subconscious", project="bakery")
    assert events() == [
        ("subconscious_prompt", "How long does the dough rest?"),
        ("subconscious_prompt", "Rye 500 g, water 380 g."),
        ("tool_call", 'web_search({"query": "rye dough rest"})'),
        ("tool_result", "18 hours"),
        ("subconscious_output", "Eighteen hours, in the cold."),
        ("subconscious_prompt", "Thanks."),
    ]
    assert set(Event.objects.values_list("persona", "project")) == {("subconscious", "bakery")}
    assert "1 skipped: thoughts of the model" in said
    assert "1 skipped: a message without words" in said


def test_own_lines(run):
    run("nous.jsonl", category="event")
    fact = Fact.objects.get()
    assert (fact.category, fact.confidence, fact.importance, fact.subject) == ("technical", 0.9, 0.6, "lighthouse")
    assert (Event.objects.get().loop_id, Event.objects.get().metadata["mood"]) == ("evening", "calm")
    assert ChangeProposal.objects.get(status="pending").section == "values"


def test_own_lines_of_the_document(run):
    text = (FILES.parents[2] / "docs" / "transfer.md").read_text(encoding="utf-8")
    run("own.jsonl", text.partition("```json\n")[2].partition("```")[0])
    assert (Fact.objects.count(), Event.objects.count()) == (1, 1)
    assert ChangeProposal.objects.get(status="pending").section == "values"


def test_archive_of_chats(run, tmp_path):
    talks = json.loads((FILES / "chatgpt_conversations.json").read_text())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.html", "<html></html>")
        archive.writestr("conversations-000.json", json.dumps(talks))
        archive.writestr("conversations-001.json", json.dumps([talks[0] | {"conversation_id": "second"}]))
    run("export.zip", packed.getvalue())
    assert Event.objects.count() == 12

    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * (40 << 20) + b"]")
    with pytest.raises(CommandError, match="more than 200 times its size"):
        run("bomb.zip", bomb.getvalue())
    with pytest.raises(CommandError, match=r"no conversations\.json"):
        run("other.zip", _packed("notes.txt", b"x"))
    spoilt = bytearray(packed.getvalue())
    place = spoilt.index(b"conversations-000.json") + 60
    spoilt[place : place + 40] = b"x" * 40
    with pytest.raises(CommandError, match="the archive cannot be read"):
        run("spoilt.zip", bytes(spoilt), format="chatgpt")


def _packed(name, raw):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, raw)
    return packed.getvalue()


NO_FILES = [
    ("", None, "its format is not recognised"),
    ("[]", None, "its format is not recognised"),
    ("nonsense", None, "line 1: this is neither a list nor an object"),
    (b"\xff\xfe[", "mem0", "this is not UTF-8"),
    ('[{"id": "a", "memory": "x"}', "mem0", "is missing"),
    ('[\n{"id": "a", "memory": "x"},\n{"id": "b", "memory": }\n]', "mem0", r"entry 2 \(line 3\): this is not JSON"),
    ('[{"memory": "x"} {"memory": "y"}]', "mem0", "“,” is missing"),
    ('{"results": [{"memory": "x"}]} more', "mem0", "there is more after the end"),
    ('{"results" [', "mem0", "“:” is missing"),
    ('[{"memory": NaN}]', "mem0", "it holds NaN"),
    ("[" * 100_000, "mem0", "nested more than 100 deep"),
    ('[{"memory": "x", "score": ' + "9" * 5_000 + "}]", "mem0", "too many digits"),
    (json.dumps({"format": "nous-agent", "version": 1, "agent": {}}), None, "this is an exported agent"),
]
"""Files of which nothing can be told: content, format, and what the refusal says."""

REFUSED = [
    ("mem0", [{"id": 5, "memory": "x"}], "entry 1 (line 1): id is not text."),
    ("mem0", [memory("x" * 8_001)], "content holds at most 8,000 characters; this has 8,001."),
    ("mem0", [memory("x", created_at="yesterday")], "its time is neither ISO 8601 nor seconds since 1970."),
    ("mem0", [memory("x", metadata=[1])], "metadata is not an object."),
    ("mem0", ["words"], "this is not an object."),
    ("mem0", [memory("x \ud800")], "entry 1"),
    ("mem0", [memory("a\0b")], "entry 1"),
    ("mem0", [memory("x", metadata=json.loads("[" * 120 + "]" * 120))], "nested more than 100 deep"),
    ("langgraph", [{"namespace": [1], "key": "k", "value": {}}], "namespace is no list of texts."),
    ("letta", {"agents": [{"block_ids": ["b"]}], "blocks": []}, "agent 1 block 1: it is not among the blocks"),
    ("letta", {"agents": [{"block_ids": ["b"]}], "blocks": 5}, "the file: blocks: this is not a list."),
    ("chatgpt", [{"mapping": {"a": {"parent": "b"}, "b": {"parent": "a"}}, "current_node": "a"}], "in a circle"),
    ("chatgpt", [{"mapping": {"a": {"parent": "b"}}, "current_node": "a"}], "the node 'b' is missing."),
    ("chatgpt", [{"mapping": {"a": {"message": {"author": {"role": 1}}}}}], "message 1: role is not text."),
    (
        "claude",
        [{"chat_messages": [{"sender": "owl", "text": "hu", "uuid": "1"}]}],
        "entry 1 (line 1) message 1: sender 'owl' is not known.",
    ),
    ("nous", [{"record": "fact", "content": "x", "category": "rule"}], "a rule affects every prompt"),
    ("nous", [{"record": "fact", "content": "x", "colour": "red"}], "a field is not known: 'colour'."),
    ("nous", [{"record": "wish", "content": "x"}], "record is one of fact, event, identity, not 'wish'."),
    ("nous", [{"record": "identity", "section": "soul", "content": "x"}], "There is no identity section 'soul'"),
    (
        "nous",
        [{"record": "event", "content": "x", "kind": "user_input", "ts": "2999-01-01T00:00:00Z"}],
        "ts must be between",
    ),
]
"""Entries that cannot be stored: format, content, and what the refusal says."""


def test_hostile_files_are_refused_with_their_place(run):
    before = rows()
    for content, format, why in NO_FILES:
        with pytest.raises(CommandError, match=why):
            run("file.json", content, **({"format": format} if format else {}))
    for format, content, why in REFUSED:
        with pytest.raises(CommandError) as refusal:
            run("file.json", content, format=format)
        assert why in str(refusal.value)
        assert "nothing was stored" in str(refusal.value)
    assert rows() == before


def test_the_rest_of_a_file_with_mistakes(run):
    lines = [
        json.dumps(memory("Keeps bees.", "1")),
        '{"id": "2", "memory": "Bro',
        json.dumps(memory("y" * 9_000, "3")),
        '{"id": "4", "memory": "half a pair \\ud83d"}',
        "",
        "[" * 5_000,
        json.dumps(memory("Mends clocks.", "5")),
    ]
    with pytest.raises(CommandError, match="4 entries cannot be imported") as refusal:
        run("lines.jsonl", "\n".join(lines))
    for place in ("line 2: this is not JSON", "line 3: content holds", "line 4: ", "line 6: it is nested"):
        assert place in str(refusal.value)
    assert not Fact.objects.exists()
    said = run("lines.jsonl", "\n".join(lines), skip_refused=True)
    assert set(Fact.objects.values_list("content", flat=True)) == {"Keeps bees.", "Mends clocks."}
    assert "4 refused:" in said


def test_nothing_in_a_file_commands_the_terminal(run):
    content = [memory("Clear \x1b[2J the \u202e screen.")]
    said = run("a.json", content, dry_run=True, format="mem0", skip_refused=True)
    talk = {"mapping": {"\x1b]0;x\x07": {"message": {"author": {"role": "\x1b[2J"}, "content": {"parts": ["x"]}}}}}
    said += run("b.json", [talk], dry_run=True)
    assert "Clear" in said
    assert all(character.isprintable() or character == "\n" for character in said)


def test_long_lines_and_entries_are_bounded(run, monkeypatch):
    monkeypatch.setattr("memory.transfer.json_stream.MAX_RECORD_CHARACTERS", 2_000_000)
    lines = [json.dumps(memory(text, text[:5])) for text in ("Keeps bees.", "z" * 4_500_000, "Mends clocks.")]
    said = run("lines.jsonl", "\n".join(lines), skip_refused=True)
    assert "line 2: it has more than 2,000,000 characters." in said
    assert Fact.objects.count() == 2
    with pytest.raises(CommandError, match=r"entry 2 \(from line 1\): it has more than 2,000,000 characters"):
        run("list.json", f"[{','.join(lines)}]")
    with pytest.raises(CommandError, match="line 4: the object has more than 2,000,000 characters"):
        run("object.json", json.dumps(dict.fromkeys("abc", "z" * 900_000), indent=1))
    with pytest.raises(CommandError, match="the object has more than 2,000,000 characters"):
        run("names.json", json.dumps({name * 900_000: 1 for name in "abc"}, indent=1))


def test_what_changed_in_its_source(run):
    run("a.json", [memory("The office is in Bonn.", created_at="2026-01-01T00:00:00Z")])
    run("b.json", [memory("The office is in Kiel.", updated_at="2026-02-01T00:00:00Z")])
    assert set(Fact.objects.values_list("content", flat=True)) == {"The office is in Bonn.", "The office is in Kiel."}
    assert ImportedMemory.objects.count() == 1
    old, new = Fact.objects.order_by("recorded_at")
    assert (old.superseded_by, old.valid_until, new.active) == (new, new.valid_from, True)
    assert ImportedMemory.objects.get().outcome == "superseded"
    kept = rows()
    run("b.json", [memory("The office is in Kiel.", updated_at="2026-02-01T00:00:00Z")])
    assert rows() == kept
    line = {"record": "event", "id": "e", "kind": "user_input", "content": "One."}
    run("e.jsonl", line)
    said = run("e.jsonl", line | {"content": "Two."})
    assert "1 of them say something else now, and stay as they were." in said
    assert events() == [("user_input", "One.")]


def test_what_people_found_wrong_or_erased_does_not_come_back(run, ada, reviewer, system):
    content = [memory("The safe opens with 4711.", "1"), memory("The cellar floods in spring.", "2")]
    run("a.json", content, project="house")
    wrong, erased = Fact.objects.order_by("content").reverse()
    fact_invalidate(fact=wrong, by=reviewer, reason="No.")
    fact_erase(fact=erased, by=system, reason="secret")
    row = ImportedMemory.objects.get(outcome="erased")
    assert (row.source_id, row.item_id, row.content_hash, row.file) == ("", "", "", "")
    run("a.json", content, project="house")
    assert Fact.objects.filter(active=True).count() == 0
    assert not Fact.objects.filter(content=erased.content).exists()
    # An erased text that its source has replaced since does not come back by an older export either.
    for text in ("The gate opens with 4711.", "The gate opens with 4712.", "The gate stays shut."):
        run("b.json", [memory(text, "3")])
    fact_erase(fact=Fact.objects.get(content="The gate opens with 4711."), by=system, reason="secret")
    row = ImportedMemory.objects.get(system="mem0", outcome="erased", key=hashlib.sha256(b"fact\0003").hexdigest())
    assert (row.source_id, row.item_id, row.content_hash, row.earlier_item_ids) == ("", "", "", [])
    run("b.json", [memory("The gate opens with 4711.", "3")])
    assert not Fact.objects.filter(content="The gate opens with 4711.").exists()
    run("chatgpt_conversations.json", project="house")
    project_erase(agent=ada, project="house", by=system, reason="over")
    run("chatgpt_conversations.json", project="house")
    assert not Event.objects.exists()


def test_who_may_import_and_what_may_be_chosen(run, ada, actor, reviewer):
    for by in (actor, reviewer):
        with pytest.raises(NotAllowed):
            memories_import(agent=ada, request=ImportRequest(FILES / "nous.jsonl"), by=by)
    for options, why in (
        ({"category": "rule"}, "imports cannot create a rule"),
        ({"section": ["routines=soul"]}, "There is no identity section 'soul'"),
        ({"section": ["routines"]}, "BLOCK=SECTION"),
        ({"project": " x"}, "project: A key is printable text"),
    ):
        with pytest.raises(CommandError, match=why):
            run("letta_agent.af", **options)
    with pytest.raises(CommandError, match="No such file"):
        call_command("importmemory", "/nonexistent", agent="ada", stderr=io.StringIO())


def test_an_import_that_stops_goes_on_where_it_was(run, monkeypatch):
    texts = [f"The {colour} {thing} stands in hall {place}." for place in "ABC" for colour, thing in PAIRS]
    content = [memory(text, text) for text in texts]
    monkeypatch.setitem(BATCHES, "fact", 4)
    calls = []

    def stop(**given):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(1)
        return learn(**given)

    with monkeypatch.context() as patch:
        patch.setattr("memory.transfer.import_memory._facts_learn", stop)
        with pytest.raises(KeyboardInterrupt):
            run("a.json", content)
    assert ImportedMemory.objects.count() == 8
    said = run("a.json", content)
    assert "8 were imported before." in said
    assert "100% 15 stored, 8 known" not in run.progress.getvalue()
    assert "100% 7 stored, 8 known" in run.progress.getvalue()
    assert ImportedMemory.objects.count() == len(texts)
    assert sorted(ImportedMemory.objects.values_list("source_id", flat=True)) == sorted(texts)


JSON_VALUES = st.recursive(
    st.none()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('abc\\"{[', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON_VALUES, max_size=6), st.sampled_from([None, 1]), st.booleans(), st.integers(1, 40))
@settings(max_examples=150)
def test_records_are_those_of_the_whole_file_however_it_is_read(values, indent, plain, chunk):
    values = [value for value in values if first_unstorable(value) is None]
    text = json.dumps(values, indent=indent, ensure_ascii=plain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memory.transfer.json_stream.CHUNK", chunk)
        for whole, name in ((text, ""), (f' {{"next": "n", "results": {text}, "count": 3}}\n', "results")):
            found = list(records_read(io.BytesIO(whole.encode()), {"results"}))
            assert [record.value for record in found] == values
            assert all(record.list_name == name for record in found)
        # Cut short anywhere, it is refused; it never gives another record.
        objects = [{"value": value} for value in values]
        text = json.dumps(objects, indent=indent)
        for end in range(1, len(text), max(1, len(text) // 7)):
            read = []
            with pytest.raises(BadEntry):
                read.extend(record.value for record in records_read(io.BytesIO(text[:end].encode()), ()))
            assert read == objects[: len(read)]
