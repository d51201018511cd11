"""Messages: what is said, not asked, finds remarks with which it shares hardly a word."""

from itertools import combinations

import numpy as np
import pytest

from identity.models import Agent
from identity.principal import Principal
from memory.models import GLOBAL
from memory.persona import ActorMemory
from memory.search.input_kinds import input_kind
from memory.search.ranking import orders_merged
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.console.context.labels import intent_words
from tests.factories import make_events
from tests.http import ApiClient

CHAT = (
    "I feel silly about it, honestly.",
    "That felt so good, I am really happy about it.",
    "I am paying more attention to how I feel these days.",
    "It is strange how much I worry about small things.",
    "I told my friend about it and she laughed.",
    "I am not sure what I want to do about it.",
    "My weekend was lovely, we did nothing at all.",
    "I have been thinking about it a lot lately.",
    "It made me so proud, I cannot believe it.",
    "I really need to spend less money on stuff.",
    "I had such a great time yesterday.",
    "I am so tired, this week was a lot.",
    "I cannot wait to see everybody again.",
    "I was nervous at first, and then it went fine.",
    "I am glad that you asked, it means a lot to me.",
    "It felt weird to pay somebody for that.",
    "I keep telling myself that it will be okay.",
    "I am trying to be kinder to myself.",
    "We talked for hours and it was wonderful.",
    "I do not know why I still care about that.",
)
REMARKS = {
    "I feel silly about paying a stranger two hundred euros just to get the gutters cleaned.":
        "After the ladder slipped last spring I stopped going up on the roof.",
    "I feel embarrassed that I was late again because I could not leave the house.":
        "Since the burglary at my aunt's place I check every window twice.",
    "I feel proud, I ordered a herbal tea today and nobody had to remind me.":
        "My doctor said that my heart does not like coffee any more.",
    "I told my boss no today, and it felt strange to leave before six.":
        "I promised Lea that I would be home for dinner on weekdays.",
}  # fmt: skip
"""By message, the remark that matters to it. Their cosines are lower than those of up to eleven remarks of CHAT."""
KIND_OF = {
    "I spent the whole evening on the sofa and I am still tired.": "message",
    "My sister moved out last week. The flat is very quiet now.": "message",
    "I bought a lamp instead of a phone—who am I?": "message",
    "Who knew that sleeping on a floor would make me so calm?": "message",
    "Who would have thought that lamps are so cheap?": "statement",
    "Seit dem Umzug schlafe ich endlich wieder durch und meine Frau auch.": "message",
    "Depuis ce matin je n'arrive plus à me concentrer.": "message",
    "Hoy por fin terminé mi novela y no sé qué hacer.": "message",
    "They moved the weekly call to half past four.": "statement",
    "The hotel has lovely big windows and no curtains": "statement",
    "My sister moved out last week. How far is her new flat from mine?": "told_question",
    "I ended up with that project again. Any advice?": "told_question",
    "What did I say about the sofa?": "question",
    "so what do you think": "question",
    "Please tell me more of the lamps that I bought.": "question",
    "Deploy my app to staging with the new cache.": "question",
    "Was habe ich über den Umzug gesagt?": "question",
    "I would like to know where I left the lamp.": "told_question",
    "I forgot which lamp we chose for the hall.": "told_question",
    "Ich möchte gern wissen, wo die Lampe steht.": "told_question",
    "Je me demande où est la lampe du salon.": "told_question",
    "Quiero saber dónde está mi lámpara.": "told_question",
    "When did I buy the lamp?": "time",
    "Can you summarise what I said about lamps?": "list",
    "Which lamp is better than the old one?": "question",
    "voucher policy of the mail failover": "words",
    "RX-44817": "words",
    "": "words",
    "Thanks, that helps.": "small_talk",
    "Perfect, that is exactly what I needed!": "small_talk",
    "Good morning, how are you?": "small_talk",
    "Thanks a lot, Karl!": "small_talk",
    "The deal is off": "statement",
    "Alles klar, bis morgen.": "small_talk",
    "Merci beaucoup, c'est parfait.": "small_talk",
    "Vale, perfecto, hasta luego.": "small_talk",
    "Thanks, and what about the lamp?": "question",
}
MEMORIES = (
    "The team agreed that nobody merges on Fridays after three.",
    "The user is vegetarian and avoids mushrooms.",
    "The staging database is reset every night at two.",
    "The user's dog Bruno is afraid of fireworks.",
    "Customers in Norway must get invoices in kroner.",
    "The printer on the second floor only takes recycled paper.",
    "The contract with the hosting company ends in November.",
    "The user's flat has a lease until the end of August.",
)
MATTERS = {
    "I have a big merge planned for Friday afternoon.": [MEMORIES[0]],
    "My aunt is cooking mushroom risotto for us on Saturday.": [MEMORIES[1]],
    "I set the invoices for Norway to euros.": [MEMORIES[4]],
    "I saw two swans in the harbour.": [],
    "The museum has a new dinosaur.": [],
    "Thank you so much for your help!": [],
}

SENTENCES = (
    "Press the green button for three seconds.",
    "Let the dough rest under a cloth.",
    "The client asked for a second copy of the invoice.",
    "If the lamp blinks, replace the fuse.",
    "Rinse the beans twice and drain them.",
    "Support replied that the parcel is on its way.",
)
REPORTS = [*SENTENCES, *map(" ".join, combinations(SENTENCES, 2)), *map(" ".join, combinations(SENTENCES, 3))]


@pytest.mark.parametrize(("text", "kind"), KIND_OF.items())
def test_kind_of_an_input_is_read_from_its_words(text: str, kind: str) -> None:
    assert input_kind(text).name == kind
    assert [*intent_words({"kind": kind, "is_greeting": kind == "small_talk"})]


@pytest.mark.parametrize(("message", "matters"), MATTERS.items())
@pytest.mark.django_db
def test_message_is_told_what_matters_more_likely_than_not(
    ada: Agent, actor: Principal, api: ApiClient, actor_token: str, message: str, matters: list[str]
) -> None:
    make_events(ada, actor, *MEMORIES)
    embed_pending_rows()
    found = api.as_token(actor_token).get("/recall", {"q": message}).json()["items"]
    assert [item["content"] for item in found] == matters


@pytest.mark.parametrize("before", ["", "What do you know of this: "])
@pytest.mark.django_db
def test_input_that_repeats_a_report_is_told_it_though_others_share_its_sentences(
    ada: Agent, actor: Principal, api: ApiClient, actor_token: str, before: str
) -> None:
    make_events(ada, actor, *REPORTS)
    embed_pending_rows()
    ask = api.as_token(actor_token).get
    found = {text: ask("/recall", {"q": f"{before}{text}"}).json()["items"] for text in REPORTS}
    assert [text for text, items in found.items() if text not in [item["content"] for item in items]] == []


def test_merged_order_takes_turns_and_holds_each_once() -> None:
    merged = orders_merged([np.array([4, 3, 2, 1, 0]), np.array([0, 4, 1, 2, 3]), np.array([1])], (2, 1, 1))
    assert merged.tolist() == [4, 3, 0, 1, 2]


@pytest.mark.django_db
def test_message_finds_the_remark_that_matters_before_chatter(ada: Agent, actor: Principal) -> None:
    make_events(ada, actor, *CHAT, *REMARKS.values())
    embed_pending_rows()
    for message, remark in REMARKS.items():
        found = search(ActorMemory(ada), SearchRequest(message, GLOBAL, min_score=0, limit=8))
        assert remark in [hit.content for hit in found.items], message
        scores = [hit.score for hit in found.items]
        assert scores == sorted(scores, reverse=True)
