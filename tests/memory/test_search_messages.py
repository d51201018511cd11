"""Messages: what is said, not asked, finds remarks with which it shares hardly a word."""

import numpy as np
import pytest

from identity.models import Agent
from identity.principal import Principal
from memory.models import GLOBAL
from memory.persona import ActorMemory
from memory.search import SearchRequest, search
from memory.search.messages import is_message
from memory.search.ranking import orders_merged
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.factories import make_events

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
SAID = (
    "I spent the whole evening on the sofa and I am still tired.",
    "My sister moved out last week. The flat is very quiet now.",
    "I bought a lamp instead of a phone—who am I?",
    "Seit dem Umzug schlafe ich endlich wieder durch.",
    "Depuis ce matin je n'arrive plus à me concentrer.",
    "Hoy por fin terminé mi novela y no sé qué hacer.",
)
ASKED = (
    "What did I say about the sofa?",
    "My sister moved out last week. How far is her new flat from mine?",
    "Please list the lamps that I bought last year.",
    "Can you tell me about my flat? Mention only three things.",
    "Thanks, that helps.",
    "voucher policy of the mail failover",
    "Was habe ich über den Umzug gesagt?",
    "",
)


@pytest.mark.parametrize("text", SAID)
def test_first_person_statement_is_a_message(text: str) -> None:
    assert is_message(text)


@pytest.mark.parametrize("text", ASKED)
def test_question_request_or_thanks_is_none(text: str) -> None:
    assert not is_message(text)


def test_merged_order_takes_turns_and_holds_each_once() -> None:
    merged = orders_merged([np.array([4, 3, 2, 1, 0]), np.array([0, 4, 1, 2, 3])], (3, 1))
    assert merged.tolist() == [4, 3, 2, 0, 1]
    for k in range(1, 6):
        # The first k hold at least so many of the first of each.
        assert set([4, 3, 2, 1, 0][: k * 3 // 4]) <= set(merged[:k].tolist())


@pytest.mark.django_db
def test_message_finds_the_remark_that_matters_before_chatter(ada: Agent, actor: Principal) -> None:
    make_events(ada, actor, *CHAT, *REMARKS.values())
    embed_pending_rows()
    for message, remark in REMARKS.items():
        found = search(ActorMemory(ada), SearchRequest(message, GLOBAL, min_score=0, limit=8))
        assert remark in [hit.content for hit in found.items], message
        scores = [hit.score for hit in found.items]
        assert scores == sorted(scores, reverse=True)
