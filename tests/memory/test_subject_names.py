"""Which spellings meet: the pairs of benchmarks/subject_names, and the same learned over HTTP."""

from collections import Counter

import pytest

from benchmarks.subject_names.__main__ import outcome_of, pairs_read
from memory.models import MemoryReview, Subject
from memory.subjects.name_similarity import key_of, likeness

PAIRS = pairs_read()


def test_pairs_of_one_thing_meet_and_near_misses_stay_apart():
    assert Counter(what for what, _, _ in PAIRS) == {"same": 40, "near": 40}
    outcomes = Counter((what, outcome_of(one, other).partition(":")[0]) for what, one, other in PAIRS)
    assert outcomes["same", "apart"] <= 40 - 34
    assert outcomes["near", "merged"] == 0
    assert outcomes["near", "proposed"] <= 4


def test_pairs_meet_where_they_are_learned(api, actor_token):
    """Some of the pairs are learned; of one thing there is then one subject, or a question about two."""
    caller = api.as_token(actor_token)
    met, merged = 0, 0
    some = PAIRS[::7]
    for place, (what, one, other) in enumerate(some):
        for turn, spelling in enumerate((one, other)):
            # Sentences of a place of their own, so that nothing but the names is alike.
            content = f"Entry {'abcdefghij'[place % 10] * (place // 10 + 2)}{'xy'[turn] * 3} stands alone."
            assert caller.post("/facts", {"content": content, "subject": spelling}).status_code == 201
        subjects = [_subject(spelling) for spelling in (one, other)]
        asked = MemoryReview.objects.filter(kind="same_subject", subjects__contains=[row.pk for row in subjects])
        met += what == "same" and (subjects[0] == subjects[1] or asked.exists())
        merged += what == "near" and subjects[0] == subjects[1]
    assert (met, merged) == (sum(what == "same" for what, _, _ in some), 0)


def _subject(spelling):
    return Subject.objects.called(key_of(spelling)).get(persona="actor")


@pytest.mark.parametrize("name", ["", " ", "???", "🎉", "‮abc", "x" * 200, "العربية", "a\u200bb", "ﷺ" * 60])
def test_hostile_names_have_a_key_and_are_compared(name):
    assert len(key_of(name)) <= 200
    assert likeness(name, "Tim") is None
