"""Which memories an answer refers to: properties that hold of any text, and cases that readers expect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.feedback.content_words import STOP_WORDS, content_words
from context.feedback.reference_detector import MAX_COMPARED, references_of

NAMES = [
    "Maria",
    "Tim",
    "billing",
    "database",
    "replica",
    "export",
    "ledger",
    "harbour",
    "violin",
    "Lisbon",
    "orchid",
    "turtle",
    "invoice",
    "marathon",
]
MEMORIES = [
    "- [Tim] Tim drinks green tea in the morning.",
    "- [billing] The ledger export reads from the replica at night.",
    "- [2026-05-08] Maria: I adopted two turtles from the shelter in Lisbon.",
    "- [Maria] Maria plays the violin in an orchestra.",
    "- [deploy] Releases are cut on Thursdays by the platform team.",
]
UNRELATED = """To bake a good loaf you need time, flour, water and salt. Mix them in the morning and let the dough
rest at room temperature until it has doubled. Fold it every half hour, then shape it and leave it in a basket.
The oven should be as hot as it gets, with a pot inside. After the first half hour take off the lid, so that the
crust turns brown. Most people cut the bread too early: it goes on cooking inside while it cools. Keep what is
left in a cloth, not in plastic, and toast it on the third day. If the crumb is dense, the dough was too young or
the water too cold; if it spreads, it stood too long. Write down what you did, change one thing at a time, and you
will know your own flour after a month of trying."""
FOREIGN = ["zuvex", "qorim", "plathe", "wundo", "frisk", "blorn", "gempa", "tulix", "harvo", "snell"]


def scores(answer, memories=tuple(MEMORIES), question=""):
    return [one.score for one in references_of(answer, memories, question=question)]


def marked(answer, memories=tuple(MEMORIES), question=""):
    return [place for place, one in enumerate(references_of(answer, memories, question=question)) if one.referenced]


foreign_sentences = st.lists(st.sampled_from(FOREIGN), min_size=1, max_size=12).map(
    lambda words: " ".join(words) + ". "
)
answers = st.lists(
    st.lists(st.sampled_from([*NAMES, "drinks", "tea", "adopted", "the", "of", *FOREIGN]), min_size=1, max_size=9)
    .map(lambda words: " ".join(words) + ". "),
    min_size=1, max_size=5,
)  # fmt: skip


@given(answers, st.lists(foreign_sentences, min_size=1, max_size=6), st.integers(0, 5))
def test_references_foreign_sentences_never_raise_a_score(sentences, foreign, at):
    before = scores("".join(sentences))
    after = scores("".join([*sentences[:at], *foreign, *sentences[at:]]))
    assert all(late <= early + 1e-9 for early, late in zip(before, after, strict=True))


@given(st.lists(st.sampled_from(sorted(STOP_WORDS)), max_size=200))
def test_references_stop_words_alone_refer_to_nothing(words):
    answer = " ".join(words)
    assert scores(answer) == [0.0] * len(MEMORIES)
    assert scores(answer, ["- It is what it is.", "- The one and only."]) == [0.0, 0.0]


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=20),
    st.lists(foreign_sentences, max_size=20),
    st.lists(foreign_sentences, max_size=20),
    st.booleans(),
)
def test_references_what_is_repeated_word_for_word_is_always_found(words, before, after, labelled):
    text = " ".join(words)
    memory = f"- [{words[0]}] {text}" if labelled else f"- {text}"
    answer = f"{''.join(before)}{text}. {''.join(after)}"
    (*_, one) = references_of(answer, [*MEMORIES, memory])
    assert one.score == 1.0
    assert one.spans


@given(st.text(max_size=400), st.lists(st.text(max_size=120), max_size=6), st.text(max_size=80))
def test_references_take_any_text(answer, memories, question):
    found = references_of(answer, memories, question=question)
    assert len(found) == len(memories)
    for one in found:
        assert 0.0 <= one.score <= 1.0
        assert list(one.spans) == sorted(one.spans)
        assert all(0 <= start < end <= len(answer) for start, end in one.spans)


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ("He starts his day with green tea.", [0]),
        ("It reads from the replica, and does so at night.", [1]),
        ("She has two turtles, adopted in Lisbon on 8 May.", [2]),
        ("Maria is a person whom I know well. She is kind to all and the others like her.", []),
        ("I have made a plan for the next steps, and will go over it with you in the afternoon.", []),
        ("", []),
    ],
)
def test_references_are_those_a_reader_would_name(answer, places):
    assert marked(answer) == places


def test_references_of_a_long_unrelated_answer_are_none():
    assert marked(" ".join(UNRELATED.split())) == []


def test_references_of_an_answer_are_looked_for_in_its_beginning():
    memory = "Maria plays the violin in an orchestra."
    filler = f"{UNRELATED} " * (1 + MAX_COMPARED // len(UNRELATED))
    assert scores(memory + filler) == scores(memory + filler * 9)
    assert marked(memory + filler) == [3]
    assert marked(filler + memory) == []


def test_references_names_that_are_everywhere_count_little_in_any_language():
    memories = [f"- Ольга любит {what}" for what in ("скрипку и горы", "зелёный чай", "старые карты", "шахматы и море")]
    found = references_of("Ольга пьёт зелёный чай.", memories)
    assert [one.referenced for one in found] == [False, True, False, False]
    assert marked("Ольга уехала.", memories) == []


def test_references_spans_are_the_words_in_the_answer():
    answer = "Sure. He drinks green tea."
    one = references_of(answer, MEMORIES)[0]
    assert [answer[start:end] for start, end in one.spans] == ["drinks", "green", "tea"]


def test_references_words_are_compared_without_endings_and_dates_in_any_form():
    def words(text):
        return [word.text for word in content_words(text)]

    assert words("adopted turtles") == words("Adopts a turtle")
    assert words("8 May 2026") == ["8", "month5", "2026"]
    assert sorted(words("2026-05-08")) == sorted(words("8 May 2026"))
    assert words("you may go") == []


def cited(answer, memories, question=""):
    return [
        [answer[start:end] for start, end in one.spans] for one in references_of(answer, memories, question=question)
    ]


def test_references_cite_a_number_only_with_its_unit():
    stand_up, kept = "- [team] The daily call is at 13:30 UTC.", "- [backup] Backups are kept for 30 days."
    answer = "Backups are kept for 30 days."
    assert cited(answer, [stand_up, kept]) == [[], ["Backups", "kept", "30", "days"]]
    assert cited("The export takes 5 hours.", ["- The import takes 1.5 hours."]) == [[]]
    assert cited("The price rises by 30% a year.", ["- A price of 30 days.", "- Rises by 30% a year."]) == [
        [],
        ["rises", "30", "year"],
    ]
    assert cited("It was on 8 May.", ["- [2026-05-08] The launch."]) == [["8", "May"]]


def test_references_cite_no_single_words():
    answer = "The replica of billing is read at night by the export team."
    memories = ["- [deploy] The platform team deploys the export.", "- [billing] The export team reads at noon."]
    assert cited(answer, memories) == [[], ["export", "team"]]


def test_references_credit_the_memory_with_the_longer_phrase():
    memories = [
        "- [export] The ledger export reads the replica at night.",
        "- [ledger] The ledger export is owned by Maria.",
    ]
    answer = "The ledger export reads the replica at night, and the ledger export is owned by Maria."
    assert cited(answer, memories) == [
        ["ledger", "export", "reads", "replica", "night"],
        ["ledger", "export", "owned", "Maria"],
    ]
