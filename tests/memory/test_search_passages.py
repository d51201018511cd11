"""Long texts and what is to be kept to, as callers of the API find them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.models import SearchItem, SearchPassage
from memory.search.passages import LEAST_CHARACTERS, MOST_CHARACTERS, passages_of
from memory.services.erasure import agent_erase
from memory.services.search_index.reembedding import index_rebuild
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.types.stores import INSTRUCTION, PREFERENCE, standing_of
from tests.factories import make_token

FILLER = (
    "The committee went through the minutes of the last meeting and had nothing to add to them.",
    "Somebody asked whether the windows of the hall can be opened, and nobody knew.",
    "The coffee was praised, as was the cake that came with it.",
    "There will be a list at the entrance on which everybody puts a name.",
    "The speaker thanked all who had come in spite of the rain.",
)
NEEDLE = "The treasurer keeps the spare key of the boathouse behind the red toolbox."
LONG = "\n".join([*(FILLER * 6), NEEDLE, *(FILLER * 6)])

pytestmark = pytest.mark.django_db


def said(text, kind="user_input", loop="one"):
    return {"kind": kind, "content": text, "loop_id": loop}


def post(api, token, *events):
    answer = api.as_token(token).post("/events", {"events": list(events)})
    assert answer.status_code == 201, answer.content
    embed_pending_rows()
    return [str(event["id"]) for event in answer.json()["events"]]


def recall(api, token, q, **query):
    return api.as_token(token).get("/recall", {"q": q} | query).json()["items"]


TEXTS = st.lists(st.sampled_from(["a", "b ", ". ", "\n", "word ", "。", "x" * 90, "y" * 450]), max_size=120)


@given(TEXTS.map("".join))
def test_passages_cover_a_text_in_order_and_in_bounds(text):
    found = passages_of(text)
    assert not found or len(found) > 1
    places = [0, *(place for span in found for place in span), len(text)]
    assert places == sorted(places)
    assert all(0 < end - begin <= MOST_CHARACTERS + LEAST_CHARACTERS for begin, end in found)
    left_out = zip(places[::2], places[1::2], strict=True)
    assert not found or not any(text[begin:end].strip() for begin, end in left_out)


@pytest.mark.parametrize(
    ("text", "standing"),
    [
        ("Always include version numbers when I ask about software dependencies.", INSTRUCTION),
        ("Thanks! From now on, answer in metric units.", INSTRUCTION),
        ("I'm adding a login, and I prefer simple, minimal dependencies, how would I start?", PREFERENCE),
        ("I'd rather work in short bursts.", PREFERENCE),
        ("The train is always late in winter.", ""),
        ("I have never been to Riga.", ""),
        ("What would you prefer?", ""),
    ],
)
def test_standing_text_is_recognised(text, standing):
    assert standing_of(text) == standing


def test_recall_finds_the_middle_of_a_long_message_and_shows_it(api, actor_token):
    long, *_ = post(api, actor_token, said(LONG), *(said(text, loop=str(n)) for n, text in enumerate(FILLER)))
    first = recall(api, actor_token, "Where is the key to the boathouse?", min_score=0)[0]
    assert (first["id"], first["content"]) == (long, LONG)
    assert NEEDLE in first["excerpt"]
    assert len(first["excerpt"]) <= MOST_CHARACTERS + LEAST_CHARACTERS
    [short] = recall(api, actor_token, "Was the coffee praised?", min_score=0, limit=1)
    assert short["excerpt"] == ""


def test_prompt_shows_the_passage_of_a_message_that_does_not_fit(api, bruno):
    token = make_token(bruno)
    post(api, token, said(LONG * 3, loop="earlier"))
    asked = "Where is the key to the boathouse?"
    body = {"session_id": "s", "input": asked, "budget": 700, "dry_run": True, "explain": True}
    answer = api.as_token(token).post("/context", body).json()
    assert NEEDLE in answer["system_prompt"]


def test_passages_follow_their_memory_and_never_another_agent(api, actor_token, ada, bruno, system):
    post(api, actor_token, said(LONG))
    kept = SearchPassage.objects.filter(agent=ada).count()
    assert kept == SearchItem.objects.get(agent=ada, item_type="event").passages > 1
    token = make_token(bruno)
    post(api, token, said(FILLER[0]))
    assert recall(api, token, "Where is the key to the boathouse?", min_score=0, limit=100)[0]["content"] == FILLER[0]
    agent_erase(agent=ada, by=system, reason="A test.")
    assert not SearchPassage.objects.exists()


def test_reindex_upgrades_what_was_stored_before_passages(api, actor_token, ada):
    post(api, actor_token, said(LONG), said("Always answer briefly when I ask about trains.", loop="two"))
    SearchPassage.objects.all().delete()
    # As an earlier version has left it: no passages, and only the beginning of the text.
    SearchItem.objects.filter(agent=ada).update(passages=None, standing="")
    item = SearchItem.objects.get(agent=ada, text__startswith=FILLER[0])
    item.text = item.text[:1900]
    item.save(update_fields=["text"])
    index_rebuild(agent=ada)
    embed_pending_rows()
    item.refresh_from_db()
    assert item.text == LONG
    assert item.passages == SearchPassage.objects.filter(agent=ada, row_id=item.pk).count() > 1
    assert SearchItem.objects.filter(agent=ada, standing=INSTRUCTION).count() == 1
    assert NEEDLE in recall(api, actor_token, "Where is the key to the boathouse?", min_score=0)[0]["excerpt"]
