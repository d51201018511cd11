"""What the comparison of two facts is sure of: that it never confirms a change matters most."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory.comparison import lexicon as w
from memory.comparison.compare_facts import Comparison, Kind, Outcome, compare_facts
from memory.comparison.fact_snapshot import FactSnapshot
from memory.comparison.learning_decision import MAX_FAINT_REVIEWS, FactMatch, decide_learning
from memory.embedding.thresholds import DEFAULT_MODEL, thresholds_of

THRESHOLDS = thresholds_of(DEFAULT_MODEL)
THEN = datetime(2026, 1, 1, tzinfo=UTC)
PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "benchmarks/fact_pairs/pairs.jsonl").read_text().splitlines()
]


def _compared(old: str, new: str, cosine: float = 0.99, *, subjects: tuple[str, str] = ("", "")) -> Comparison:
    return compare_facts(
        FactSnapshot(old, subject=subjects[0], moment=THEN),
        FactSnapshot(new, subject=subjects[1], moment=THEN + timedelta(days=1)),
        cosine,
        THRESHOLDS,
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Alice lives in Berlin.", "alice resides in berlin"),
        ("Alice met the first client.", "Alice met the 1st client."),
        ("The timeout is thirty seconds.", "The timeout is 30s"),
        ("The meeting is at 3 pm.", "The meeting is at 15:00."),
        ("Bob's birthday is May 4.", "Bob's birthday is on 4 May."),
        ("Alice manages Bob.", "Bob is managed by Alice."),
        ("Alice is Bob's manager.", "Bob's manager is Alice."),
        ("On Mondays, the team meets in Oslo.", "The team meets in Oslo on Mondays."),
        ("The API doesn't support XML.", "The API does not support XML."),
        ("Alice likes to drink tea.", "Alice likes drinking tea."),
        ("Anton and Birgit own the bakery.", "Birgit and Anton own the bakery."),
        ("The limit is 1,000 requests.", "Please note that the limit is 1000 requests."),
    ],
)
def test_comparison_harmless_differences_are_the_same_at_any_cosine(old, new):
    for cosine in (0.99, 0.81, 0.2):
        assert _compared(old, new, cosine).outcome is Outcome.CONFIRMED
        assert _compared(new, old, cosine).outcome is Outcome.CONFIRMED


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("The index improves latency by 5%.", "The index regresses latency by 5%.", "antonym"),
        ("Alice manages Bob.", "Bob manages Alice.", "roles"),
        ("Alice manages Bob.", "Alice is managed by Bob.", "roles"),
        ("Data flows from Kafka to Postgres.", "Data flows from Postgres to Kafka.", "roles"),
        ("The disk holds 100 Mb.", "The disk holds 100 MB.", "number"),
        ("Use version 1.1 of the client.", "Use version 1.10 of the client.", "number"),
        ("The race is 10 km long.", "The race is 10 miles long.", "number"),
        ("All tests pass.", "Some tests pass.", "quantity"),
        ("Alice has few friends.", "Alice has a few friends.", "quantity"),
        ("Carol eats meat.", "Carol never eats meat.", "negation"),
        ("Carol used to eat meat.", "Carol eats meat.", "time"),
        ("The user writes C.", "The user writes C++.", "name"),
        ("The path is /etc/Hosts.", "The path is /etc/hosts.", "name"),
        ("Alice said Bob left in May.", "In May, Alice said Bob left.", "detail"),
        ("The weekly reports contain errors.", "The weekly report contains errors.", "value"),
        ("Alice manages Bob and Carol leads Dan.", "Alice manages Carol and Bob leads Dan.", "roles"),
        ("The server is down.", "Is the server down?", "question"),
        ("Plan A is approved.", "The plan is approved.", "name"),
        ("Bob, said Alice, left.", "Bob said Alice left.", "detail"),
    ],
)
def test_comparison_differences_that_matter_are_named_and_never_confirmed(old, new, code):
    for one, other in ((old, new), (new, old)):
        found = _compared(one, other)
        assert found.outcome is Outcome.QUEUED
        assert code in {reason.code for reason in found.reasons}


@pytest.mark.parametrize(
    ("old", "new", "attribute", "before", "after"),
    [
        ("Alice lives in Berlin.", "Alice lives in Paris.", "home", "Berlin", "Paris"),
        ("Alice lives in Berlin.", "Alice has moved to Paris.", "home", "Berlin", "Paris"),
        ("The service runs version 2.3.", "The service runs version 2.4.", "version", "2.3", "2.4"),
        ("The user prefers Celsius.", "The user prefers Fahrenheit.", "preferred", "Celsius", "Fahrenheit"),
        ("The team uses Slack for chat.", "The team uses Teams for chat.", "tool chat", "Slack", "Teams"),
        ("Nora is 34 years old.", "Nora is 35 years old.", "age", "34 years old", "35 years old"),
        ("Bob works at Initech.", "Bob no longer works at Initech.", "truth", "true", "no longer true"),
    ],
)
def test_comparison_explicit_later_change_of_a_single_value_supersedes(old, new, attribute, before, after):
    found = _compared(old, new)
    assert (found.kind, found.outcome) == (Kind.CHANGED, Outcome.SUPERSEDED)
    assert (found.attribute, found.old_value, found.new_value) == (attribute, before, after)
    earlier = compare_facts(
        FactSnapshot(old, moment=THEN), FactSnapshot(new, moment=THEN - timedelta(days=1)), 0.9, THRESHOLDS
    )
    assert earlier.outcome is Outcome.QUEUED
    assert compare_facts(FactSnapshot(old), FactSnapshot(new), 0.9, THRESHOLDS).outcome is Outcome.QUEUED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Alice lives in Germany.", "Alice lives in Berlin."),
        ("Alice lives in SF.", "Alice lives in San Francisco."),
        ("Alice is married to Bob.", "Alice is married to Robert."),
        ("The service runs version 2.", "The service runs version 2.4."),
        ("The deadline of the grant is 12 May.", "The deadline of the grant is 12 May 2026."),
        ("Alice speaks French.", "Alice speaks German."),
        ("Alice likes pizza.", "Alice likes sushi."),
        ("Ben has a dog named Rex.", "Ben has a cat named Tom."),
        ("Dev visited Rome.", "Dev visited Oslo."),
        ("She lives in Berlin.", "She lives in Paris."),
        ("Alice lives in Berlin.", "Alice might live in Paris."),
        ("Alice lives in Berlin.", "Alice lived in Paris."),
        ("Alice lives in Berlin.", "Alice's brother lives in Paris."),
        ("The user prefers tea over coffee.", "The user prefers coffee over tea."),
    ],
)
def test_comparison_uncertain_change_never_supersedes(old, new):
    assert _compared(old, new).kind not in (Kind.CHANGED, Kind.SAME)
    assert _compared(new, old).kind not in (Kind.CHANGED, Kind.SAME)


def test_comparison_uses_the_subject_when_the_sentence_does_not_name_it():
    assert _compared("Prefers tea.", "Prefers tea.", subjects=("Alice", "Bob")).kind is Kind.DIFFERS
    assert _compared("Prefers tea.", "Prefers tea.", subjects=("Alice", "")).kind is Kind.DIFFERS
    assert _compared("Runs Linux.", "Runs Linux.", subjects=("server 1", "server 2")).kind is Kind.DIFFERS
    assert _compared("Prefers tea.", "Prefers tea.", subjects=("Alice", "alice")).kind is Kind.SAME
    assert _compared("Alice prefers tea.", "Alice prefers tea.", subjects=("Alice", "")).kind is Kind.SAME
    assert _compared("He lives in Berlin.", "He lives in Paris.", subjects=("Bob", "Bob")).kind is Kind.CHANGED


def test_comparison_relative_dates_depend_on_the_day():
    assert _compared("The deploy failed yesterday.", "The deploy failed yesterday.").kind is Kind.DIFFERS
    same_day = FactSnapshot("The deploy failed yesterday.", moment=THEN)
    assert compare_facts(same_day, same_day, 1.0, THRESHOLDS).kind is Kind.SAME


def test_comparison_of_different_things_is_unrelated_below_the_threshold():
    assert _compared("Alice lives in Berlin.", "The cache expires daily.", 0.1).outcome is Outcome.STORED
    assert _compared("Alice likes pizza.", "Alice likes sushi.", 0.6).outcome is Outcome.STORED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Oskar collects stamps.", "Oskar collects stamps from Iceland."),
        ("The build is slow.", "The build is slow because of the integration tests."),
        ("Uma has a dog.", "Uma has a dog named Rex."),
        ("The service uses Python.", "The service uses Python 3.12."),
        ("Walt visited Peru.", "Walt visited Chile."),
        ("Greta is allergic to nuts.", "Greta is allergic to shellfish."),
        ("Hugo has a dog.", "Hugo has a brown dog."),
        ("The sensor in room 4 is broken.", "The temperature sensor in room 4 is broken."),
        ("Celia wrote a tutorial.", "Celia wrote a tutorial about migrations."),
        ("Revenue grew.", "Revenue grew by 8 percent."),
        ("The audit is in May.", "The audit is on 11 May."),
        ("The agent runs version 4.", "The agent runs version 4.2."),
        ("Clara has a sister.", "Clara's sister is ill."),
        ("The morning shift has six nurses.", "The night shift has three nurses."),
        ("Revenue in 2023 was 4 million euros.", "Revenue in 2024 was 5 million euros."),
    ],
)
def test_comparison_what_is_true_beside_an_old_fact_asks_nobody(old, new):
    assert _compared(old, new, 0.95).outcome is Outcome.STORED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Deploys must wait.", "Deploys must wait for a review."),
        ("Nadia can eat gluten.", "Nadia can eat gluten in small amounts."),
        ("Kofi eats no meat.", "Kofi eats no meat on Fridays."),
        ("All teams use Linear.", "All teams use Linear for planning."),
        ("Pia is on holiday.", "Pia is on holiday until 3 August."),
        ("The limit is 10 MB.", "The limit is 10 MB per file."),
        ("The team has 5.", "The team has 5 6."),
        ("The crawler visits the site once a week.", "The crawler visits the site once a month."),
        ("Ann has two cats.", "Ann has three cats."),
        ("Ruth is the head of the school.", "Ruth is the deputy head of the school."),
        ("Ruth is a doctor.", "Ruth is a doctor's wife."),
        ("Jonas is a nurse.", "Jonas is a nurse trainer."),
        ("Marta lives in York.", "Marta lives in New York."),
        ("Noel works for Delta.", "Noel works for Delta Airlines."),
        ("Er raucht im Haus.", "Er raucht nicht im Haus."),
        ("Anna likes football.", "Anna likes watching football."),
        ("Clara has a car.", "Clara's car was sold."),
        ("Alice has brown eyes.", "Alice has green eyes."),
        ("The user writes C.", "The user writes C++."),
        ("The files are stored in the cloud.", "The files are stored on disk."),
        ("Anna's manager is Bob.", "Anna's boss is Carl."),
    ],
)
def test_comparison_narrower_or_recounted_fact_is_asked_about(old, new):
    assert _compared(old, new, 0.95).outcome is Outcome.QUEUED


def test_comparison_change_of_the_same_subject_is_seen_below_the_check_threshold():
    for old, new, cosine in [
        ("The warehouse is in Rotterdam.", "The warehouse is in Antwerp.", 0.74),
        ("Tess drives a blue Skoda.", "Tess drives a white Volvo.", 0.72),
        ("The logs are kept for 90 days.", "The logs are deleted after 30 days.", 0.77),
        ("Umar cooks every day.", "Umar never cooks.", 0.75),
        ("The pull request is waiting for review.", "The pull request was merged.", 0.65),
        ("The team uses Slack.", "The team switched to Zulip.", 0.33),
    ]:
        assert _compared(old, new, cosine).outcome is Outcome.QUEUED
    assert _compared("The warehouse is in Rotterdam.", "The museum is in Antwerp.", 0.74).outcome is Outcome.STORED
    assert _compared("The team uses Slack.", "The team moved to Oslo.", 0.33).outcome is Outcome.STORED


def test_comparison_change_in_wholly_other_words_is_seen_by_its_score():
    for subject, old, new, cosine in [
        ("user", "I take my coffee black.", "These days I put oat milk in my coffee.", 0.44),
        ("cache", "We use Memcached as the cache.", "Memcached was replaced by Redis.", 0.7),
        ("orders", "Orders go through RabbitMQ.", "Orders are published to Kafka topics since the migration.", 0.42),
        ("company", "The company has 45 employees.", "After the layoffs only 31 people are left at the company.", 0.56),
        ("user", "I commute by train.", "I cycle to work these days.", 0.5),
    ]:
        found = _compared(old, new, cosine, subjects=(subject, subject))
        # What only the score speaks of is contested as well, so it counts as a difference.
        assert (found.kind, found.faint, found.reasons[-1].code) == (Kind.DIFFERS, True, "change"), new
    for subject, old, new, cosine in [
        ("company", "The company has 45 employees.", "The company was founded in 2011.", 0.34),
        ("trail", "The trail is 14 km long.", "The trail climbs 900 metres.", 0.57),
        ("parser", "The parser reads CSV files.", "The parser also reads Excel files.", 0.75),
        ("user", "I sell flowers.", "My sister lives in Oslo these years.", 0.01),
        (
            "Gina",
            "Gina wants her customers to feel comfortable and invited whenever they come into her new store in town.",
            "Gina got new offers and promotions for her online store to attract new customers.",
            0.74,
        ),
    ]:
        assert _compared(old, new, cosine, subjects=(subject, subject)).outcome is Outcome.STORED, new


def test_comparison_reads_the_pronoun_that_a_sentence_begins_with_as_its_subject():
    for subject, old, new, outcome in [
        ("museum", "The museum opens at 10.", "It opens at 14.", Outcome.QUEUED),
        ("museum", "The museum is closed on Mondays.", "It’s closed on Mondays.", Outcome.CONFIRMED),
        ("museum", "The museum's director is Ines.", "Its director is Paul.", Outcome.SUPERSEDED),
        ("The Millers", "The Millers live in Berlin.", "They moved to Bonn.", Outcome.SUPERSEDED),
        ("Ruth", "She is 34 years old.", "Ruth is 34 years old.", Outcome.CONFIRMED),
        ("", "The museum opens at 10.", "It opens at 14.", Outcome.STORED),
    ]:
        assert _compared(old, new, 0.5, subjects=(subject, subject)).outcome is outcome, (old, new)
    assert _compared("The cat is black.", "Itself it is white.", 0.3, subjects=("it", "it")).outcome is Outcome.STORED


def test_resolution_asks_about_few_old_facts_that_only_their_score_relates():
    known = [f"I take my coffee {how}." for how in ("black", "strong", "sweet", "cold")]
    said = "These days I put oat milk in my coffee."
    found = [_compared(old, said, 0.44, subjects=("user", "user")) for old in known]
    assert all(each.faint for each in found)
    near = _compared("The office is in Antwerp.", "The office is in Rotterdam.", 0.9)
    asked = decide_learning([FactMatch(uuid4(), each) for each in (*found, near)], {}).ask
    assert [match.comparison.faint for match in asked] == [False, *[True] * MAX_FAINT_REVIEWS]


def test_comparison_contradiction_is_seen_below_the_check_threshold():
    for old, new in [
        ("The function returns a list.", "The function returns a dictionary."),
        ("The incident is open.", "The incident has been resolved."),
        ("Carol eats meat.", "Carol never eats meat."),
    ]:
        assert _compared(old, new, 0.4).outcome is Outcome.QUEUED


@pytest.mark.parametrize("cosine", [1.0, 0.5])
def test_comparison_treats_no_labelled_pair_as_what_it_is_not(cosine):
    """At any cosine that a model could give; the whole table is printed by `python -m benchmarks.fact_pairs`."""
    outcomes = [(pair, _compared(pair["old"], pair["new"], cosine).outcome) for pair in PAIRS]
    assert [pair for pair, outcome in outcomes if pair["label"] != "paraphrase" and outcome is Outcome.CONFIRMED] == []
    changed = ("update", "contradiction")
    assert [pair for pair, outcome in outcomes if pair["label"] not in changed and outcome is Outcome.SUPERSEDED] == []


NAMES = ["Alice", "Bob", "Chen", "Dana", "Erik", "Farah"]
YEARS = st.integers(1950, 2020)
FRAMES = ["The plan is to {} it.", "{} traffic", "It is {}."]
FACTS = st.one_of(
    st.builds("{} manages {} in {}.".format, *[st.sampled_from(NAMES)] * 3),
    st.builds("{} is managed by {}.".format, *[st.sampled_from(NAMES)] * 2),
    st.builds("On Mondays, {} pays {} {} dollars.".format, *[st.sampled_from(NAMES)] * 2, st.integers(1, 9999)),
    st.builds("The budget of {} is {} euros.".format, st.sampled_from(NAMES), st.integers(1, 9999)),
    st.builds("{} and {} like to drink tea at {} pm.".format, *[st.sampled_from(NAMES)] * 2, st.integers(1, 12)),
    st.builds(
        "{}'s birthday is {} May {}.".format, st.sampled_from(NAMES), st.integers(1, 28), st.integers(1950, 2020)
    ),
    st.builds("The service always improves latency by {}% for {}.".format, st.integers(1, 99), st.sampled_from(NAMES)),
)


@given(FACTS, st.data())
def test_comparison_inserted_negation_is_never_the_same(fact, data):
    words = fact.split()
    place = data.draw(st.integers(0, len(words)))
    negation = data.draw(st.sampled_from(["not", "never", "no", "no longer", "hardly", "without", "neither", "isn't"]))
    denied = " ".join([*words[:place], negation, *words[place:]])
    assert _compared(fact, denied).kind is not Kind.SAME
    assert _compared(denied, fact).kind is not Kind.SAME


@given(FACTS, st.integers(0, 10**6), st.data())
def test_comparison_changed_number_is_never_the_same(fact, number, data):
    digits = [word for word in fact.split() if any(char.isdigit() for char in word)]
    assume(digits)
    word = data.draw(st.sampled_from(digits))
    old = "".join(char for char in word if char.isdigit())
    assume(int(old) != number)
    assert _compared(fact, fact.replace(old, str(number))).kind is not Kind.SAME


@given(FACTS, st.data())
def test_comparison_other_name_is_never_the_same(fact, data):
    name = data.draw(st.sampled_from([name for name in NAMES if name in fact] or ["Mondays"]))
    assume(name in fact)
    other = data.draw(st.sampled_from([other for other in [*NAMES, "Zoe", "Initech"] if other != name]))
    assert _compared(fact, fact.replace(name, other, 1)).kind is not Kind.SAME


@given(
    st.sampled_from(sorted(w.ANTONYMS, key=sorted)),
    st.sampled_from(["The plan is to {} it.", "{} traffic", "It is {}."]),
)
def test_comparison_antonym_is_never_the_same(pair, frame):
    assume(len(pair) == 2)
    one, other = sorted(pair)
    assert _compared(frame.format(one), frame.format(other)).kind is not Kind.SAME


@given(st.one_of(FACTS, st.text(max_size=80)), st.one_of(FACTS, st.text(max_size=80)))
def test_comparison_is_symmetric_for_any_text(one, other):
    assert (_compared(one, other).kind is Kind.SAME) == (_compared(other, one).kind is Kind.SAME)


@given(FACTS)
def test_comparison_of_a_fact_with_itself_is_the_same(fact):
    assert _compared(fact, fact).kind is Kind.SAME


@pytest.mark.parametrize(
    "unit",
    ["a ", "not ", "12 ", "((((", "Alice's ", "x, ", "May 5 ", "w{} ", "''\"\"", "--", "1:2 ", "x", "a-", "1", "1,"],
)
def test_comparison_of_the_longest_facts_takes_bounded_time(unit):
    long = "".join(unit.format(place) for place in range(8000))[:8000]
    began = time.process_time()
    _compared(long, long[::-1])
    _compared(long, long[1:] + "b")
    # Far above what it takes, far below what anything worse than linear would.
    assert time.process_time() - began < 5
