"""Importing conversations: each format as events, again and again without doubles, and errors that say where."""

import gzip
import io
import json
import random
import re
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from identity.principal import Principal
from memory.models import Event, LongTermEntry, LoopSummary, SearchItem
from memory.services.erasure import event_erase
from memory.services.loops import derived_backfill
from tests.security.scale import scaled


@pytest.fixture
def run(ada, tmp_path):
    """Run the command over content written as a file; returns what it said."""

    def run(format, content, name="talk.json", **options):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        said = io.StringIO()
        call_command("importconversation", str(path), agent="ada", format=format, stderr=said, **options)
        return said.getvalue()

    return run


def told():
    return list(Event.objects.order_by("pk").values_list("kind", "content", "loop_id"))


def sample(name, sessions):
    talk = {"speaker_a": "Ann", "speaker_b": "Ben"}
    for number, turns in sessions.items():
        talk[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        talk[f"session_{number}"] = [
            {"speaker": speaker, "dia_id": f"D{number}:{place}", "text": text, **more}
            for place, (speaker, text, more) in enumerate(turns, 1)
        ]
    return {"sample_id": name, "conversation": talk, "qa": []}


LOCOMO = [
    sample(
        "c1",
        {
            1: [("Ann", "Hi!", {}), ("Ben", "Hello.", {"blip_caption": "a red dog"})],
            10: [("Ben", "Late.", {})],
            2: [("Ann", "Two", {})],
        },
    ),
    sample("c2", {1: [("Ann", "Other talk", {})]}),
]


def test_conversation_import_of_locomo_sessions(run):
    run("locomo", LOCOMO)
    assert told() == [
        ("user_input", "Ann: Hi!", "c1/session_1"),
        ("actor_output", "Ben: Hello. [a red dog]", "c1/session_1"),
        ("user_input", "Ann: Two", "c1/session_2"),
        ("actor_output", "Ben: Late.", "c1/session_10"),
        ("user_input", "Ann: Other talk", "c2/session_1"),
    ]
    first = Event.objects.order_by("pk")[0]
    assert first.ts == datetime(2023, 5, 1, 13, 56, tzinfo=UTC)
    assert first.metadata == {"speaker": "Ann", "dia_id": "D1:1"}
    assert LongTermEntry.objects.get(event=first).text == "Ann: Hi!"
    derived_backfill()
    loop = LoopSummary.objects.get(loop_id="c1/session_1")
    assert (loop.summary, loop.event_count, loop.covered_events) == (
        "Input: Ann: Hi!\nOutput: Ben: Hello. [a red dog]", 2, 2,
    )  # fmt: skip


def test_conversation_import_leaves_out_what_people_erased_and_goes_on(run, charlie):
    lines = [json.dumps({"kind": "user_input", "content": f"Turn {number}."}) for number in range(3)]
    run("jsonl", "\n".join(lines), name="talk.jsonl")
    event_erase(event=Event.objects.get(content="Turn 1."), by=Principal.of_user(charlie), reason="It was private.")
    said = run("jsonl", "\n".join([*lines, json.dumps({"kind": "user_input", "content": "New."})]), name="talk.jsonl")
    assert [content for _, content, _ in told()] == ["Turn 0.", "Turn 2.", "New."]
    assert "erased" in said


def test_conversation_import_of_one_of_several(run):
    run("locomo", LOCOMO, conversation="2")
    assert [loop for _, _, loop in told()] == ["c2/session_1"]
    assert "1 events stored, 0 were" not in run("locomo", LOCOMO), "the rest follows"
    assert Event.objects.count() == 5
    with pytest.raises(CommandError, match="there are 2 conversations"):
        run("locomo", LOCOMO, conversation="3")


def test_conversation_import_again_stores_nothing_twice_and_continues(run, monkeypatch):
    monkeypatch.setattr("memory.transfer.conversation_readers.BATCH", 3)
    lines = [json.dumps({"kind": "user_input", "content": f"line {n}"}) for n in range(10)]
    with pytest.raises(CommandError, match=r"line 8: content must not be empty"):
        run("jsonl", "\n".join([*lines[:7], '{"kind": "error", "content": ""}']), "log.jsonl")
    assert not Event.objects.exists(), "a file is read through before any of it is stored"
    # As a run that was stopped after its second batch leaves it.
    run("jsonl", "\n".join(lines[:6]), "log.jsonl")
    said = run("jsonl", "\n".join(lines), "log.jsonl")
    assert "4 events stored, 6 were there already." in said
    said = run("jsonl", "\n".join(lines), "log.jsonl")
    assert "0 events stored, 10 were there already." in said
    assert [content for _, content, _ in told()] == [f"line {n}" for n in range(10)]
    assert SearchItem.objects.count() == LongTermEntry.objects.count() == 10
    with pytest.raises(CommandError, match=r"line 1: key: 'log\.jsonl:line 1' already names another event"):
        run("jsonl", '{"kind": "user_input", "content": "something else"}', "log.jsonl")


def test_conversation_import_of_jsonl_takes_every_field(run):
    line = {
        "kind": "tool_call", "content": "x", "loop_id": "L", "ts": "2026-01-02T03:04:05Z", "visibility": "private",
        "metadata": {"a": 1}, "key": "mine",
    }  # fmt: skip
    run("jsonl", json.dumps(line) + "\n\n" + json.dumps({"kind": "error", "content": "y"}) + "\n", "log.jsonl")
    first, second = Event.objects.order_by("pk")
    assert (first.kind, first.loop_id, first.visibility, first.metadata, first.key) == (
        "tool_call",
        "L",
        "private",
        {"a": 1},
        "mine",
    )
    assert first.ts == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (second.loop_id, second.key) == ("log", "log.jsonl:line 3")


OPENAI = {
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}, {"type": "image_url"}], "name": "Zoe"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "function": {"name": "weather", "arguments": '{"in": "Oslo"}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "rain"},
        {"role": "assistant", "content": "It rains.", "timestamp": 1_700_000_000},
    ]
}


@pytest.mark.parametrize(
    "content",
    [OPENAI, OPENAI["messages"], [OPENAI], json.dumps(OPENAI, indent=1), json.dumps(OPENAI) + "\n"],
    ids=["object", "messages", "list", "indented", "line"],
)
def test_conversation_import_of_openai_messages(run, content):
    run("openai", content)
    assert told() == [
        ("system_event", "Be kind.", "talk/1"),
        ("user_input", "Weather?\n[image_url]", "talk/1"),
        ("tool_call", 'weather({"in": "Oslo"})', "talk/1"),
        ("tool_result", "rain", "talk/1"),
        ("actor_output", "It rains.", "talk/1"),
    ]
    assert Event.objects.get(kind="tool_call").metadata == {"tool": "weather", "id": "t1"}
    assert Event.objects.get(kind="user_input").metadata == {"speaker": "Zoe"}
    assert Event.objects.get(kind="actor_output").ts == datetime.fromtimestamp(1_700_000_000, UTC)


def test_conversation_import_of_openai_lines_separates_them(run):
    line = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    run("openai", f"{line}\n{line}\n")
    assert [loop for _, _, loop in told()] == ["talk/1", "talk/2"]


def test_conversation_import_of_anthropic_messages(run):
    run(
        "anthropic",
        {
            "id": "chat-9",
            "system": "Be kind.",
            "messages": [
                {"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "tool_use", "id": "t", "name": "weather", "input": {"in": "Oslo"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "rain"}]},
                    {"type": "tool_result", "tool_use_id": "u", "content": "broken", "is_error": True},
                ]},
                {"role": "assistant", "content": [{"type": "text", "text": "It rains."}]},
            ],
        },
    )  # fmt: skip
    assert told() == [
        ("system_event", "Be kind.", "chat-9"),
        ("user_input", "Weather?", "chat-9"),
        ("tool_call", 'weather({"in": "Oslo"})', "chat-9"),
        ("tool_result", "rain", "chat-9"),
        ("error", "broken", "chat-9"),
        ("actor_output", "It rains.", "chat-9"),
    ]


def test_conversation_import_leaves_out_what_was_not_said_and_tells_of_it(run):
    openai = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": None, "refusal": "I cannot.", "reasoning_content": "Hm."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}, {"type": "reasoning", "text": "Hm."}]},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": "Tea【1†source】.", "audio": {"transcript": "Spoken."}},
        {"role": "assistant", "content": [{"type": "hologram", "text": "?"}, {"type": "token_budget", "text": "9"}]},
    ]
    said = run("openai", openai)
    assert [event[:2] for event in told()] == [
        ("user_input", "Hi\n[image_url]"),
        ("actor_output", "I cannot."),
        ("actor_output", "No."),
        ("tool_call", "f({})"),
        ("actor_output", "Tea.\nSpoken."),
    ]
    for why in (
        "2 left out: thoughts",
        "1 left out: citation",
        "1 left out: a part of the kind 'hologram'",
        "1 left out: book",
    ):
        assert why in said
    blocks = [
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "Hm."},
        {"type": "token_budget"},
    ]
    said = run("anthropic", [{"role": "assistant", "content": [*blocks, {"type": "text", "text": "Yes."}]}])
    assert [event[:2] for event in told()][5:] == [("actor_output", "Yes.")]
    assert "2 left out: thoughts" in said


def test_conversation_import_into_the_subconscious(run):
    run("openai", OPENAI, persona="subconscious")
    assert set(Event.objects.values_list("persona", flat=True)) == {"subconscious"}
    assert {"subconscious_prompt", "subconscious_output"} <= {kind for kind, _, _ in told()}


@pytest.mark.parametrize(
    ("format", "content", "where"),
    [
        ("jsonl", '{"kind": "error", "content": "x"}\n{"kind": ', "line 2: this is not JSON"),
        ("jsonl", b'{"kind": "error", "content": "\xff"}', "line 1: this is not JSON in UTF-8"),
        ("jsonl", '{"kind": "shout", "content": "x"}', "line 1: kind is one of"),
        ("jsonl", '{"kind": "error", "content": "x", "persona": "subconscious"}', "line 1: a field is not known"),
        ("jsonl", '{"kind": "error", "content": "x", "ts": "2026-01-01T00:00:00"}', "line 1: its time lacks its zone"),
        ("jsonl", '{"kind": "error", "content": "x", "ts": "soon"}', "line 1: its time is neither"),
        ("jsonl", '{"kind": "error", "content": 7}', "line 1: content must be text"),
        ("jsonl", "17", "line 1: this is not an object"),
        ("locomo", '[\n{"a": 1},\n]', "line 3: this is not JSON"),
        ("locomo", [{"sample_id": "c"}], "c: conversation is missing"),
        ("locomo", [sample("c", {1: [("Ann", None, {})]})], "c session 1 turn 1: text is missing"),
        ("openai", {"messages": [{"role": "wizard", "content": "x"}]}, "conversation 1 message 1: role 'wizard'"),
        ("openai", {"messages": ["x"]}, "conversation 1 message 1: this is not an object"),
        ("openai", {"talk": []}, "conversation 1: messages is missing"),
        ("openai", '{"messages": []}\n{"messages": [}', "line 2: this is not JSON"),
        ("openai", "17", "there are no messages"),
        ("anthropic", {"messages": [{"role": "user", "content": ["x"]}]}, "message 1: block 1 is not an object"),
    ],
)
def test_conversation_import_of_an_unusable_file_names_the_place(run, format, content, where):
    with pytest.raises(CommandError) as refused:
        run(format, content)
    assert where in str(refused.value)
    assert not Event.objects.exists()


def test_conversation_import_of_a_missing_file_or_agent(run, tmp_path):
    with pytest.raises(CommandError, match="No such file"):
        call_command("importconversation", str(tmp_path / "none"), agent="ada", format="jsonl")
    with pytest.raises(CommandError, match="There is no agent 'nobody'"):
        call_command("importconversation", str(tmp_path / "none"), agent="nobody", format="jsonl")


FILES = {
    "locomo": LOCOMO,
    "openai": [
        {
            "id": "c",
            "system": "Be brief.",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi"}, "there"], "name": "Tim", "timestamp": 1},
                {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "content": "7", "tool_call_id": "1", "created_at": "2026-01-01T00:00:00Z"},
            ],
        }
    ],
    "anthropic": {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"text": "7"}]}]},
        ],
    },
    "jsonl": {
        "kind": "user_input", "content": "Hi", "loop_id": "l", "ts": "2026-01-01T00:00:00Z", "visibility": "public",
        "metadata": {"a": [1]}, "key": "k",
    },
}  # fmt: skip
WRONG = (
    None, True, 0, -1, 1.5, 10**400, 1e300, "", " ", "\u200b", "x" * 200_000, "a\x00", "\ud800", [], [None], [1], [[]],
    {},
    {"a": 1}, {"text": 1}, [{"type": 7}], "9999-12-31T23:59:59-14:00", json.loads("[" * 300 + "]" * 300),
)  # fmt: skip


def places_in(value, path=()):
    """The path of every value inside `value`, and of itself."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in parts:
        yield from places_in(inner, (*path, name))


def put(value, path, new):
    """A copy of `value` with `new` at `path`."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(copy[path[0]], path[1:], new)
    return copy


def refused_or_taken(run, format, content):
    """What an import says, after undoing it; "" when it is taken. Nothing else may come of it."""
    try:
        with transaction.atomic():
            run(format, content, "wrong.json")
            transaction.set_rollback(True)
    except CommandError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("format", FILES)
def test_conversation_import_value_of_another_type_never_breaks(run, format):
    rng = random.Random(1)
    answers = [
        refused_or_taken(run, format, json.dumps(put(FILES[format], place, value)))
        for place in places_in(FILES[format])
        for value in rng.sample(WRONG, scaled(2, len(WRONG)))
    ]
    assert "" in answers
    refusals = [said for said in answers if said]
    assert refusals
    assert all(re.fullmatch(r"wrong\.json, .{10,500}", said) for said in refusals), refusals
    assert not Event.objects.exists()


@pytest.mark.parametrize("name", ["x" * 200_000, "a\nb\r\nc\u2028d"], ids=["long", "lines"])
def test_conversation_import_refusal_is_short_for_any_name(run, name):
    for spoilt in ({"conversation": None}, {}):
        said = refused_or_taken(run, "locomo", json.dumps([{**LOCOMO[0], "sample_id": name, **spoilt}]))
        assert re.fullmatch(r"wrong\.json, .{10,500}", said)


@pytest.mark.parametrize("format", FILES)
def test_conversation_import_of_a_damaged_file_is_refused_in_a_sentence(run, tmp_path, format):
    raw = json.dumps(FILES[format]).encode()
    spoilt = (
        raw[: len(raw) // 2], bytes(range(256)), gzip.compress(raw), raw.decode().encode("utf-16"),
        b"\xef\xbb\xbf" + raw, b"[" * 100_000, b'{"a": NaN}', b'{"content": 1e999, "kind": "error"}', b"9" * 5_000,
        b'"\\ud800"', b"[[[]]]", b'{"messages": ' + b"[" * 500 + b"]" * 500 + b"}",
    )  # fmt: skip
    for content in spoilt:
        assert re.fullmatch(r"wrong\.json, .{10,500}", refused_or_taken(run, format, content)), content[:40]
    assert not Event.objects.exists()
    with pytest.raises(CommandError):
        call_command("importconversation", str(tmp_path), agent="ada", format=format)
