"""Anthropic's memory tool over the real server: what the SDK's own tool for files answers, this one answers too."""

import random
import re

import pytest
from nous_client import AsyncNous, Nous

from memory.models import Document
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.event_loops import to_its_end
from tests.judge_server import KEY, JudgeServer, Reply
from tests.late_imports import Late

anthropic = Late("anthropic")
sdk_tools = Late("anthropic.lib.tools")
sdk_memory_tool = Late("anthropic.lib.tools._beta_builtin_memory_tool")
adapter = Late("nous_client.anthropic")
pytestmark = pytest.mark.django_db(transaction=True)

PATHS = [
    "/memories",
    "/memories/notes.md",
    "/memories/people/tim.md",
    "/memories/people/tom.md",
    "/memories/people",
    "/memories/a/b/c/deep.txt",
    "/memories/a/b",
    "/memories/.hidden",
    "/memories/none",
    "/memories/people/../notes.md",
    "/memories/../etc/passwd",
    "/etc/passwd",
]
FILES = [path for path in PATHS if path not in ("/memories/a/b", "/memories/people")]
TEXTS = ["", "One.\n", "One.\nTwo.\nThree.\nFour.\nFive.\nSix.", "Tim likes tea.\nTim likes tea.\n", "é\r\nx" * 400]


@pytest.fixture
def nous(live_server, other_token):
    with Nous(live_server.url, other_token, retries=0) as client:
        yield client


@pytest.fixture
def tool(nous):
    return adapter.MemoryTool(nous)


def said(tool, command):
    """What a command answers, or the error that the model reads. Sizes of directories, which disks differ in, are left
    out."""
    try:
        answer = tool.call(command)
    except sdk_tools.ToolError as error:
        answer = f"error: {error.content}"
    return re.sub(r"(?m)^\S+\t(/memories(?:/\S*/|/\S*(?=$)|$))", _size_of_file, answer)


def _size_of_file(match):
    whole, path = match[0], match[1]
    return whole if re.search(r"\.(md|txt)$", path) else f"-\t{path}"


def any_command(rng):
    path = rng.choice(PATHS)
    match rng.choice(["view", "view", "create", "create", "str_replace", "insert", "delete", "rename"]):
        case "view":
            return {"command": "view", "path": path} | rng.choice(
                [{}, {"view_range": [2, 3]}, {"view_range": [0, -1]}, {"view_range": [9, 12]}]
            )
        case "create":
            return {"command": "create", "path": rng.choice(FILES[1:]), "file_text": rng.choice(TEXTS)}
        case "str_replace":
            old = rng.choice(["One.", "Tim likes tea.", "Three.\n", "nothing", "x"])
            return {"command": "str_replace", "path": path, "old_str": old, "new_str": rng.choice(["", "New.\nLine."])}
        case "insert":
            text = rng.choice(["In.\n", "In.", "In.\nMore."])
            return {"command": "insert", "path": path, "insert_line": rng.choice([-1, 0, 1, 99]), "insert_text": text}
        case "delete":
            return {"command": "delete", "path": path}
    return {"command": "rename", "old_path": path, "new_path": rng.choice(FILES)}


def comparable(tool, command):
    """Whether a disk would do the same: it keeps empty directories, and refuses a few things by other errors."""
    paths = [command[name] for name in ("path", "old_path", "new_path") if name in command]
    if command["command"] == "rename":
        return not any(one == "/memories" or one.startswith(f"{other}/") for one in paths for other in paths)
    return True


def test_tool_answers_as_that_of_the_sdk(tool, bruno, tmp_path):
    rng = random.Random(7)
    known = sdk_memory_tool.BetaLocalFilesystemMemoryTool(str(tmp_path))
    done = 0
    for _ in range(90):
        command = any_command(rng)
        if not comparable(tool, command):
            continue
        answer = said(known, command)
        _empty_directories_remove(known.memory_root)
        assert said(tool, command) == answer, command
        done += not answer.startswith("error")
    assert done > 25


def _empty_directories_remove(root):
    for directory in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        if not any(directory.iterdir()):
            directory.rmdir()


def test_tool_keeps_versions_that_people_see_and_undo(tool, nous, bruno, api, charlie):
    path = "/memories/tea.md"
    tool.call({"command": "create", "path": path, "file_text": "Tim likes tea.\n"})
    tool.call({"command": "str_replace", "path": path, "old_str": "tea", "new_str": "rum"})
    tool.call({"command": "rename", "old_path": path, "new_path": "/memories/drinks.md"})
    assert [row.value["content"] for row in Document.objects.filter(key=path).order_by("version")] == [
        "Tim likes tea.\n", "Tim likes rum.\n",
    ]  # fmt: skip
    first = Document.objects.get(key=path, version=1)
    assert api.as_person(charlie).post(f"/documents/{first.pk}/restore?agent=bruno", {}).status_code == 200
    assert "Tim likes tea." in tool.call({"command": "view", "path": path})
    for command in (
        {"command": "str_replace", "path": path, "old_str": "tea", "new_str": "rum"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "No."},
        {"command": "delete", "path": path},
        {"command": "delete", "path": "/memories/tea.md"},
    ):
        with pytest.raises(sdk_tools.ToolError, match="only people can change it"):
            tool.call(command)
    tool.call({"command": "delete", "path": "/memories/drinks.md"})
    # Nothing is lost: what was deleted is retired.
    assert Document.objects.filter(key="/memories/drinks.md", active=False).count() == 1
    # A value that was written elsewhere is shown as JSON; too long a file is refused in a sentence.
    nous.put_document(["memories"], "/memories/x.json", {"a": 1})
    assert '"a": 1' in tool.call({"command": "view", "path": "/memories/x.json"})
    with pytest.raises(sdk_tools.ToolError, match="100,000 characters"):
        tool.call({"command": "create", "path": "/memories/long.md", "file_text": "x" * 100_001})
    with pytest.raises(sdk_tools.ToolError, match="not a directory"):
        tool.call({"command": "create", "path": f"{path}/more.md", "file_text": "x"})
    with pytest.raises(sdk_tools.ToolError, match="lies in"):
        tool.call({"command": "rename", "old_path": path, "new_path": f"{path}/x"})


def test_tool_changes_a_file_that_somebody_else_changed_meanwhile(tool, nous, bruno, monkeypatch):
    path = "/memories/notes.md"
    tool.call({"command": "create", "path": path, "file_text": "a\nb\n"})
    send, meanwhile = nous.send, iter(["a\nb\nc\n", None])

    def interrupted(call):
        if call.method == "PUT" and (text := next(meanwhile, None)):
            nous.put_document(["memories"], path, {"content": text})
        return send(call)

    monkeypatch.setattr(nous, "send", interrupted)
    tool.call({"command": "str_replace", "path": path, "old_str": "b", "new_str": "B"})
    assert nous.document(["memories"], path).value == {"content": "a\nB\nc\n"}


def test_tool_moves_what_somebody_else_changed_meanwhile_as_it_was_kept(tool, nous, bruno, monkeypatch):
    path, kept = "/memories/a.md", {"index": [], "tags": ["x"], "importance": 0.9}
    nous.put_document(["memories"], path, {"content": "a\n"}, **kept)
    tool.call({"command": "insert", "path": path, "insert_line": 1, "insert_text": "b"})
    send, meanwhile = nous.send, iter(["a\nb\nc\n"])

    def interrupted(call):
        if call.method == "DELETE" and (text := next(meanwhile, None)):
            nous.put_document(["memories"], path, {"content": text}, **kept)
        return send(call)

    monkeypatch.setattr(nous, "send", interrupted)
    tool.call({"command": "rename", "old_path": path, "new_path": "/memories/b.md"})
    moved = Document.objects.get(active=True)
    assert (moved.key, moved.value) == ("/memories/b.md", {"content": "a\nb\nc\n"})
    assert (moved.index_fields, moved.tags, moved.importance) == ([], ["x"], 0.9)


def test_tool_finds_its_files_among_those_of_narrower_namespaces(tool, nous, bruno, monkeypatch):
    monkeypatch.setattr("nous_client.anthropic.PAGE", 2)
    tool.call({"command": "create", "path": "/memories/d/own.md", "file_text": "Mine."})
    for number in range(4):
        nous.put_document(["memories", "more"], f"/memories/d/{number}.md", {"content": "Not mine."})
    send, calls = nous.send, iter(range(20))
    monkeypatch.setattr(nous, "send", lambda call: (next(calls), send(call))[1])
    assert tool.call({"command": "view", "path": "/memories/d"}).splitlines()[1:] == [
        "5B\t/memories/d", "5B\t/memories/d/own.md",
    ]  # fmt: skip
    with pytest.raises(sdk_tools.ToolError, match="already exists"):
        tool.call({"command": "create", "path": "/memories/d", "file_text": "x"})


def test_tool_in_a_run_of_the_sdk_and_in_the_next_prompt(nous, api, other_token, bruno):
    """A whole turn: the model writes a file, the turn is reported, and the next prompt says what the file says."""
    command = {"command": "create", "path": "/memories/tea.md", "file_text": "Tim drinks green tea from Kyoto."}
    with JudgeServer() as server:
        use = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": command}
        server.queue(
            Reply(content=[use], stop_reason="tool_use"),
            Reply(content=[{"type": "text", "text": "I will remember it."}], stop_reason="end_turn"),
        )
        model = anthropic.Anthropic(api_key=KEY, base_url=server.url)
        with nous.turn("s", "I drink green tea from Kyoto.") as turn:
            runner = model.beta.messages.tool_runner(
                model="claude-sonnet-5",
                max_tokens=200,
                system=turn.system_prompt,
                messages=[{"role": "user", "content": turn.input}],
                tools=[adapter.MemoryTool(nous)],
            )
            turn.answer = runner.until_done().content[0].text
        assert server.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
        result = server.requests[1]["messages"][-1]["content"][0]
        assert result["content"] == "File created successfully at: /memories/tea.md"
    embed_pending_rows()
    question = "Which tea does Tim drink?"
    prompt = nous.context(question, "s").system_prompt
    assert "Tim drinks green tea from Kyoto." in prompt
    asked = api.as_token(other_token).post("/context", {"session_id": "s", "input": question, "dry_run": True}).json()
    assert asked["system_prompt"] == prompt


def test_tool_works_asynchronously_and_by_project(live_server, other_token, bruno):
    async def run():
        async with AsyncNous(live_server.url, other_token) as nous:
            tool = adapter.AsyncMemoryTool(nous, project="regatta")
            answers = [
                await tool.call(command)
                for command in (
                    {"command": "create", "path": "/memories/a.md", "file_text": "One."},
                    {"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": "Two."},
                    {"command": "str_replace", "path": "/memories/a.md", "old_str": "One", "new_str": "1"},
                    {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b.md"},
                    {"command": "view", "path": "/memories"},
                    {"command": "delete", "path": "/memories/b.md"},
                )
            ]
            await tool.call({"command": "create", "path": "/memories/c/d.md", "file_text": "One."})
            return answers, await tool.clear_all_memory()

    answers, cleared = to_its_end(run())
    assert answers[4].splitlines()[1:] == ["8B\t/memories", "8B\t/memories/b.md"]
    assert answers[5] == "Successfully deleted /memories/b.md"
    assert cleared == "All memory cleared"
    assert not Document.objects.filter(active=True).exists()
    assert set(Document.objects.values_list("project", flat=True)) == {"regatta"}


def test_tool_takes_what_models_leave_out_and_keeps_blank_lines(tool, nous, bruno):
    path = "/memories/a.md"
    tool.call({"command": "create", "path": path, "file_text": "One two.\n\n"})
    tool.call({"command": "str_replace", "path": path, "old_str": " two"})
    tool.call({"command": "insert", "path": path, "insert_line": 1, "insert_text": "In.\n\n"})
    assert nous.document(["memories"], path).value == {"content": "One.\nIn.\n\n\n"}
    tool.call({"command": "insert", "path": path, "insert_line": 0, "insert_text": ""})
    assert nous.document(["memories"], path).value == {"content": "\nOne.\nIn.\n\n\n"}
    for command, name in (
        ({"command": "create", "path": path}, "file_text"),
        ({"command": "view"}, "path"),
        ({"command": "view", "path": "/memories/a\0"}, "`path` has a NUL"),
        ({"command": "str_replace", "path": path, "old_str": "\ud800", "new_str": ""}, "`old_str` has"),
        ({"command": "view", "path": path, "view_range": "1"}, "view_range"),
        ({"command": "str_replace", "path": path, "new_str": "x"}, "old_str"),
        ({"command": "insert", "path": path, "insert_text": "x"}, "insert_line"),
    ):
        with pytest.raises(sdk_tools.ToolError, match=name):
            tool.call(command)


def test_tool_has_one_file_for_equivalent_spellings_of_a_path(tool, nous, bruno):
    composed, apart = "/memories/caf\u00e9", "/memories/cafe\u0301"
    tool.call({"command": "create", "path": f"{apart}/a.md", "file_text": "One."})
    for path in (composed, apart):
        assert "a.md" in tool.call({"command": "view", "path": path})
        with pytest.raises(sdk_tools.ToolError, match="already exists"):
            tool.call({"command": "create", "path": f"{path}/a.md", "file_text": "Two."})
    assert [document.key for document in nous.documents(key_prefix=apart)] == [f"{composed}/a.md"]
    assert nous.put_document(["\u0301e"], "cafe\u0301", {"a": 1}).document.key == "caf\u00e9"
    tool.call({"command": "delete", "path": apart})
    assert not Document.objects.filter(active=True, key__startswith=composed).exists()
