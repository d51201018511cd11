"""Two users of one agent, told through every interface, get the prompts that an agent of their own would give each."""

import io
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import call_command
from nous_client import Nous

from context.services.agent_settings import settings_update
from identity.principal import Principal
from identity.services.agents import agent_create
from memory.lifecycle.runner import job_run
from memory.models import Job, LoopSummary
from memory.services.erasure import user_erase
from memory.services.loops import loop_close, loop_summarise
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.factories import SYSTEM, make_token
from tests.interfaces.interfaces import McpInterface
from tests.late_imports import Late
from tests.memory.test_users import traces

pytestmark = pytest.mark.django_db(transaction=True)

memory_tool = Late("nous_client.anthropic")
langgraph = Late("nous_client.langgraph")
mem0 = Late("nous_client.mem0")

STORIES = {
    "mia": {
        "job": "Mia is a nurse at the harbour clinic.", "likes": "Mia wants short answers.", "pet": "Her cat is Pluto.",
        "trip": "The trip to Bergen was rained off.", "plan": "Rent the blue boat in June.",
        "how": "Check the weather.", "said": "I sail on Sundays with my sister.",
        "tea": "I drink green tea from Kyoto.", "car": "The car is red.",
        "hat": "Her hat is made of straw.", "desk": "Her desk is by the window.",
    },
    "noah": {
        "job": "Noah is a pilot of cargo planes.", "likes": "Noah wants long answers.", "pet": "His dog is Rex.",
        "trip": "The trip to Bergen was sunny.", "plan": "Sell the old boat in May.",
        "how": "Ask the dealer.", "said": "I fly on Mondays to Oslo.", "tea": "I drink black tea with milk.",
        "car": "The car is blue.", "hat": "His hat is made of wool.", "desk": "His desk is in the hangar.",
    },
}  # fmt: skip
QUESTIONS = (
    "Who am I, and what is my job?", "What did we say of the trip to Bergen?", "What about the boat?",
    "Which tea do I drink?", "What colour is the car?", "How do I plan a trip?", "What do I do on Sundays and Mondays?",
    "What is the hat made of?", "Where is the desk?",
    "What did we talk about yesterday?",
)  # fmt: skip
IDS = re.compile(r"\b[0-9a-f]{64}\b|\d{4}-\d\d-\d\d|\b(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat) \d\d:\d\d|\d\d:\d\d")


def tell(live_server, api, slug: str, secret: str, story: dict[str, str], user: str, tmp_path) -> None:
    """Tell a story of a `user`, or with "" of the agent's only one, each part through another interface."""
    keys = {"user": user} if user else {}
    caller = api.as_token(secret)
    with Nous(live_server.url, secret, retries=0) as nous:
        nous.learn_fact(story["job"], subject="job", importance=0.9, **keys)
        caller.post("/facts", {"content": story["likes"], "category": "preference", **keys})
        with nous.turn(f"talk of {user or slug}", story["said"], **keys) as turn:
            turn.answer = "Noted."
        caller.post("/episodes", {"title": "Trip", "summary": story["trip"], "detail": story["trip"], **keys})
        caller.post("/decisions", {"description": story["plan"], **keys})
        caller.post("/procedures", {"name": "Plan a trip", "description": story["how"], "steps": ["Go."], **keys})
        nous.keep_in_mind("s", story["pet"], **keys)
        memory_tool.MemoryTool(nous, **keys).call(
            {"command": "create", "path": "/memories/car.md", "file_text": story["car"]}
        )
        store = langgraph.NousStore(nous, user_label=1 if user else None)
        store.put(("notes", user or "mine"), "pet", {"text": story["pet"]})
        assert store.get(("notes", user or "mine"), "pet").value["text"] == story["pet"]
        if user:
            mem0.Memory(nous).add(story["tea"], user_id=user, infer=False)
        else:
            mem0.Memory(nous).add(story["tea"], run_id="mine", infer=False)
    mcp = McpInterface(live_server.url, secret, tmp_path)
    mcp.tool("learn_fact", content=story["hat"], subject="hat", **keys)
    mcp.tool("put_document", namespace=["office"], key="desk", value={"text": story["desk"]}, **keys)
    assert story["hat"] in json.dumps(mcp.tool("recall", q="the hat", min_score=0, **keys))
    file = tmp_path / f"{slug}-{user}.jsonl"
    line = {"record": "fact", "content": f"As imported: {story['plan']}", "subject": "boat", **keys}
    file.write_text(json.dumps(line) + "\n")
    call_command("importmemory", str(file), agent=slug, stdout=io.StringIO(), stderr=io.StringIO())


def settle(agents) -> None:
    """Run what the worker would."""
    embed_pending_rows()
    for loop in LoopSummary.objects.filter(agent__in=agents):
        loop_close(agent=loop.agent, loop_id=loop.loop_id, by=SYSTEM)
        loop_summarise(loop.pk)
    for job in Job.objects.filter(agent__in=agents, status="pending").order_by("pk"):
        job_run(job.pk)
    embed_pending_rows()


def test_prompts_are_those_of_an_agent_of_ones_own(live_server, api, tmp_path, charlie):
    agents = {
        slug: agent_create(slug=slug, name="Sam", kind="squire", by=SYSTEM)
        for slug in ("both", "only-mia", "only-noah")
    }
    settings_update(agent=agents["both"], serves_users=True, by=Principal.of_user(charlie))
    secrets = {slug: make_token(agent) for slug, agent in agents.items()}
    for user, story in STORIES.items():
        tell(live_server, api, "both", secrets["both"], story, user, tmp_path)
        tell(live_server, api, f"only-{user}", secrets[f"only-{user}"], story, "", tmp_path)
    settle(agents.values())
    for user, other in (("mia", "noah"), ("noah", "mia")):
        for question in QUESTIONS:
            ask = {"session_id": "s", "input": question, "dry_run": True}
            shared = api.as_token(secrets["both"]).post("/context", {**ask, "user": user}).json()["system_prompt"]
            own = api.as_token(secrets[f"only-{user}"]).post("/context", ask).json()["system_prompt"]
            by_mcp = McpInterface(live_server.url, secrets["both"], tmp_path)
            told = by_mcp.tool("get_context", **ask, user=user)["system_prompt"]
            assert sorted(IDS.sub("", told).splitlines()) == sorted(IDS.sub("", own).splitlines()), question
            assert sorted(IDS.sub("", shared).splitlines()) == sorted(IDS.sub("", own).splitlines()), question
            assert not [text for text in STORIES[other].values() if text in shared]
        for question in QUESTIONS[:4]:
            everybody = api.as_token(secrets["both"]).post("/context", {"session_id": "x", "input": question}).json()
            told = [text for story in STORIES.values() for text in story.values() if text in everybody["system_prompt"]]
            assert not told


def test_nothing_is_left_of_a_user_who_is_erased_under_load(live_server, ada, charlie):
    secret = make_token(ada)
    stop, begun = threading.Event(), threading.Event()
    acknowledged: list[str] = []
    failures: list[Exception] = []

    def client(user: str, number: int) -> None:
        with Nous(live_server.url, secret) as nous:
            for turn in range(10_000):
                if stop.is_set() or (user == "mia" and begun.is_set()):
                    return
                word = f"{user}word{number}x{turn}"
                try:
                    nous.learn_fact(f"The mast {word} is high.", subject=f"mast {word}", user=user)
                    with nous.turn(f"talk {user} {number}", f"What of {word}?", user=user) as one:
                        one.answer = f"It is {word}."
                    nous.put_document(["notes"], f"{number}", {"text": f"About {word}."}, user=user)
                    nous.keep_in_mind(f"desk {number}", f"Mind {word}.", user=user)
                except Exception as error:
                    failures.append(error)
                    return
                acknowledged.append(word)

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(client, user, number) for user in ("mia", "noah") for number in (1, 2)]
        while len(acknowledged) < 24 and not failures:
            stop.wait(0.05)
        begun.set()
        for done in clients[:2]:
            done.result()
        gone = [word for word in acknowledged if word.startswith("mia")]
        embed_pending_rows()
        user_erase(agent=ada, user="mia", by=Principal.of_user(charlie), reason="Asked for.")
        stop.set()
    assert not failures
    assert gone
    assert traces("miaword") == {}
    kept = [word for word in acknowledged if word.startswith("noah")]
    assert kept
    assert traces(kept[0])["memory_fact"] == 1
