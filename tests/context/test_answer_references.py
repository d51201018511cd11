"""References by what is known of a prompt's memories: how rare their words are in the store, and their vectors."""

import cProfile
import pstats

import numpy as np
import pytest

from context.feedback import reference_detector, reference_features
from context.feedback.content_words import content_words, windows_of
from context.feedback.reference_detector import Meaning, answer_references, rarity_of, references_of, word_rarity
from context.feedback.reference_features import ShownMemories
from context.models import MemoryUsage
from context.services.context import context_respond
from memory.embedding import EmbeddingUnavailable
from memory.persona import ActorMemory
from nousweb.console.context.views.context_runs import answer_marks, answer_pieces
from tests.context.test_references import MEMORIES
from tests.factories import make_fact, make_run

PROMPT = [
    "- [Tim] Tim commutes to the office on a bicycle.",
    "- [Tim] Tim prepares dinner for his family on weekdays.",
    "- [Tim] Tim collects stamps from overseas.",
]
ODD = {
    "nothing": "",
    "blanks": " \n\t " * 25_000,
    "one word": "a" * 100_000,
    "marks": ".!?…。" * 20_000,
    "no sentence": "billing replica turtle Lisbon " * 3_500,
    "memories again and again": (" ".join(MEMORIES) + "\n") * 350,
    "Chinese": "数据库在夜间导出账本。" * 9_000,
    "Arabic": "قاعدة البيانات تقرأ من النسخة. " * 3_200,
    "emoji": "🐢🎻" * 50_000,
    "dates that are none": "May 99, 31 February 2023, 2023-99-99, month99999999999999, ²³ June " * 1_500,
    "brackets": "[](" * 33_000,
}


def calls(answer):
    profile = cProfile.Profile()
    profile.runcall(references_of, answer, MEMORIES, question="What does Tim drink?")
    return pstats.Stats(profile).total_calls


@pytest.mark.parametrize("kind", ODD)
def test_references_of_odd_answers_are_found_in_linear_time(kind):
    answer = ODD[kind]
    whole = calls(answer)
    assert whole <= 2.5 * calls(answer[: len(answer) // 2]) + 2_000
    assert whole < 40 * len(answer) + 2_000
    for one in references_of(answer, MEMORIES, question=answer):
        assert all(0 <= begin < end <= len(answer) for begin, end in one.spans)


def test_references_compare_no_more_than_so_many_windows(monkeypatch):
    monkeypatch.setattr(reference_features, "MAX_ROWS", 40)
    memories = [f"- [Tim] Tim keeps {name} turtles." for name in ("green", "old", "small", "quick")]
    answer = "Turtles are kept. Tim keeps green turtles. " * 20
    rows = ShownMemories(memories, "", {}).rows(answer, windows_of(answer, content_words(answer)))
    assert len(rows) == 40
    assert all(row.memory == 0 for row in rows[:5])


def test_word_rarity_is_of_the_store_of_the_persona(ada, bruno, system):
    for number in range(8):
        make_fact(ada, f"The ledger keeps number {number}.", system, subject=f"ledger {number}")
    make_fact(ada, "Orchids need shade.", system)
    make_fact(bruno, "Violins need a bow.", system)
    ledger, orchids, orchid, violin, the = word_rarity(
        ActorMemory(ada), ["ledger", "Orchids", "orchid", "violin", "the"]
    )
    assert ledger < orchids == orchid < violin == 1.0
    assert the is None
    assert word_rarity(ActorMemory(ada), []) == []


def test_rarity_is_asked_for_words_of_the_answer_in_one_statement(ada, django_assert_num_queries):
    with django_assert_num_queries(1):
        found = rarity_of(ActorMemory(ada), "The replicas were read on 5 May 2023.", MEMORIES)
    assert found == {"replica": 1.0, "read": 1.0}


class Toy:
    """Vectors in which bicycle and bike mean the same."""

    def __init__(self, texts=()):
        self.asked = []
        self.vectors = np.array([self._vector(text) for text in texts], np.float32)

    def embed(self, texts):
        self.asked.append(list(texts))
        return np.array([self._vector(text) for text in texts], np.float32)

    @staticmethod
    def _vector(text):
        about = ("bicycle", "commut", "bike", "cycl")
        vector = np.array([0.1 + sum(word in text.lower() for word in about), 1.0, "dinner" in text, "stamp" in text])
        return vector / np.linalg.norm(vector)


def test_references_by_meaning_prefer_what_the_answer_comes_closer_to():
    toy = Toy(PROMPT)
    question, answer = "How does Tim get to work?", "Tim cycles to the office by bike."
    near = references_of(answer, PROMPT, question=question, meaning=Meaning(toy.vectors, toy.embed))
    far = references_of(answer, PROMPT, question=question, meaning=Meaning(toy.vectors[::-1], toy.embed))
    assert near[0].score > far[0].score
    assert [one.spans for one in near] == [one.spans for one in references_of(answer, PROMPT, question=question)]
    assert toy.asked == [[question, answer]] * 2


def test_references_without_vectors_are_by_words():
    toy = Toy(PROMPT)
    missing = Meaning(np.full_like(toy.vectors, np.nan), toy.embed)
    question, answer = "How does Tim get to work?", "Tim cycles to the office by bike."
    assert references_of(answer, PROMPT, question=question, meaning=missing) == references_of(
        answer, PROMPT, question=question
    )
    assert not toy.asked


def test_references_are_by_words_while_the_model_is_away(ada, actor, monkeypatch):
    def refuse(texts):
        raise EmbeddingUnavailable("The model is away.")

    run = make_run(ada, actor, "What does Tim drink?")
    items = [{"type": "fact", "id": str(number), "text": text} for number, text in enumerate(MEMORIES)]
    vectors = np.eye(len(items), dtype=np.float32)
    monkeypatch.setattr(reference_detector, "meaning_of", lambda view, items: Meaning(vectors, refuse))
    found = answer_references(run, "He drinks green tea in the morning.", items)
    assert [one.referenced for one in found] == [True, False, False, False, False]


def test_usage_keeps_where_the_answer_refers_to_it_and_the_page_marks_that(ada, actor, system):
    tea = make_fact(ada, "Tim drinks green tea in the morning.", system)
    run = make_run(ada, actor, "What does Tim drink?")
    answer = "Sure. He drinks green tea."
    context_respond(run=run, response=answer, by=actor)
    run.refresh_from_db()
    use = MemoryUsage.objects.get(run=run, item_id=str(tea.pk))
    assert [answer[begin:end] for begin, end in use.spans] == ["drinks", "green", "tea"]
    pieces = answer_pieces(answer, answer_marks(run, [use]).values())
    assert [piece.text for piece in pieces if piece.numbers] == ["drinks green tea"]
    # What older versions noted has no places: they are found again by the words.
    use.spans = None
    assert answer_pieces(answer, answer_marks(run, [use]).values()) == pieces
    # And an answer that was cut short since is shown as it stands.
    use.spans, run.response = [[6, 400]], "Sure."
    assert "".join(piece.text for piece in answer_pieces("Sure.", answer_marks(run, [use]).values())) == "Sure."
