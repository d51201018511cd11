"""Which names are one attribute: spellings fold, and whatever may be two attributes stays two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.comparison.attribute_names import same_attribute, stated_name
from memory.models import Fact, MemoryReview
from memory.policy.attributes import ALIASES, attribute_spellings, attribute_words, plural
from tests.memory.test_attributes import BEAR, FOX, OWL
from tests.memory.test_learning import learn  # noqa: F401


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["job title", "Job Title", "jobTitle", "JobTitle", "job_title", "job-title", "the job titles", "JOB_TITLE",
          "profession", "position at work", "Occupations", " job  title "], "job_title"),
        (["e-mail", "Email", "e_mail", "E-Mail Address", "emailAddresses", "mail address"], "email"),
        (["home phone", "home phones", "homePhone", "Home-Phone", "a home phone"], "home_phone"),
        (["hobby", "hobbies", "a hobby", "Hobby"], "hobby"),
        (["spirit animal", "spiritAnimal", "spirit_animals", "Spirit-Animals", "the spirit animal"], "spirit_animal"),
        (["working hours", "workingHours", "Working-Hours"], "working_hours"),
        (["cache", "caches"], "cache"), (["box", "boxes"], "box"), (["status", "Status"], "status"),
        (["user ID", "userID", "user_id"], "user_id"), (["GraphQL endpoint", "graphql_endpoints"], "graphql_endpoint"),
        (["the"], "the"), (["A"], "a"), (["port2", "Port2"], "port2"),
    ],
)  # fmt: skip
def test_spellings_of_a_name_fold_to_one(names, folded):
    assert {stated_name(name) for name in names} == {folded}


SAME = [
    ("favourite colour", "favorite color"), ("colour", "color"), ("hair colour", "hair color"),
    ("email adress", "email address"), ("prefered editor", "preferred editor"), ("spirit animal", "spirit animl"),
    ("organisation unit", "organization unit"), ("escalation polcy", "escalation policy"),
]  # fmt: skip
DIFFERENT = [
    ("start date", "state date"), ("start date", "end date"), ("billing database", "billing database version"),
    ("first name", "last name"), ("port a", "port b"), ("emergency contact a", "emergency contact b"),
    ("primary port 1", "primary port 2"), ("escalation policy 1", "escalation policy"),
    ("contact number", "contract number"),
    ("country code", "county code"), ("internal notification address", "external notification address"),
    ("production rate", "reproduction rate"), ("dependent children", "independent children"), ("home", "hope"),
    ("mother", "brother"), ("husband", "hometown"), ("salary", "salami"), ("dog name", "dog names list"),
    ("authorised signatory list", "unauthorised signatory list"), ("port", "ports open"), ("height", "weight"),
    ("minimum order quantity", "maximum order quantity"), ("employer number", "employee number"),
    ("release branch", "release branch owner"), ("left hand ring size", "right hand ring size"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_near_spellings_are_one_attribute(one, other):
    assert same_attribute(stated_name(one), stated_name(other))
    assert same_attribute(stated_name(other), stated_name(one))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_names_that_may_be_two_attributes_are_two(one, other):
    assert not same_attribute(stated_name(one), stated_name(other))
    assert not same_attribute(stated_name(other), stated_name(one))


WORDS = st.lists(st.text("abcdeinorst", min_size=2, max_size=8), min_size=1, max_size=4)


@given(WORDS, st.sampled_from("ae"))
def test_case_separators_and_articles_make_no_difference(words, article):
    name = stated_name(" ".join(words))
    for spelling in ("_".join(words), "-".join(words), "  ".join(words).upper(), f"The {' '.join(words)}"):
        assert stated_name(spelling) == name
    assert stated_name(name) == name, "folding twice folds no further"
    assert same_attribute(name, name)


@given(WORDS, WORDS)
def test_sameness_has_no_direction_and_needs_as_many_words(one, other):
    left, right = "_".join(one), "_".join(other)
    assert same_attribute(left, right) == same_attribute(right, left)
    assert not same_attribute(left, f"{left}_{right}")


@given(WORDS, st.integers(0, 9), st.integers(0, 9))
def test_names_with_other_numbers_are_two(words, one, other):
    left, right = (f"{'_'.join(words)}_{number}" for number in (one, other))
    assert same_attribute(left, right) == (one == other)


@given(st.sampled_from(sorted({*ALIASES, *ALIASES.values()})))
def test_facts_of_a_name_are_found_by_each_of_its_spellings(alias):
    name = stated_name(alias)
    assert " ".join(attribute_words(alias)) in attribute_spellings(name)


def test_plurals_are_spelled_as_in_english():
    nouns = ["birthday", "hobby", "address", "box", "branch", "colour"]
    assert [plural(noun) for noun in nouns] == ["birthdays", "hobbies", "addresses", "boxes", "branches", "colours"]


@pytest.mark.parametrize(
    ("first", "second", "action"),
    [
        ("jobTitle", "Job-Titles", "superseded"),
        ("the job title", "position at work", "superseded"),
        ("favourite colour", "favorite color", "superseded"),
        ("prefered editor", "preferred editor", "superseded"),
        ("spirit animal", "spiritAnimals", "queued"),
        ("spirit animal", "spirit animl", "queued"),
        ("first name", "last name", "stored"),
        ("billing contact a", "billing contact b", "stored"),
        ("contact number", "contract number", "stored"),
    ],
)
def test_spelling_of_an_attribute_decides_what_a_fact_is_to_an_older_one(learn, first, second, action):  # noqa: F811
    learn("Tim has an owl with him.", subject="Tim", attribute=first, value="Alpha")
    told = learn("These days a fox goes with Tim.", subject="Tim", attribute=second, value="Beta")
    assert told["action"] == action


@pytest.mark.parametrize("name", ["jobTitle", "job_title", "Job-Title", "profession"])
def test_sentence_that_spells_an_attribute_so_meets_a_stated_one(learn, name):  # noqa: F811
    old = learn("Tim has worked with patients since May.", subject="Tim", attribute="job title", value="nurse")["fact"]
    told = learn(f"Tim's {name} is Pilot.", subject="Tim")
    assert told["superseded"] == [old["id"]]


def test_near_spelling_is_found_among_many_facts_of_its_subject(learn):  # noqa: F811
    old = learn("Tim has an owl with him.", subject="Tim", attribute="prefered editor", value="Alpha")["fact"]
    for number in range(15):
        learn(f"Tim painted room {number} in colour {number * 3}.", subject="Tim")
    told = learn("These days a fox goes with Tim.", subject="Tim", attribute="preferred editor", value="Beta")
    assert told["superseded"] == [old["id"]]


def test_near_spellings_of_an_unknown_attribute_have_one_review_and_one_answer(api, bob, learn):  # noqa: F811
    learn(**OWL)
    for told, spelling in ((FOX, "spirit animl"), (BEAR, "Spirit_Animals")):
        assert learn(**told | {"attribute": spelling})["action"] == "queued"
    review = MemoryReview.objects.get(kind="attribute")
    assert (len(review.facts), review.details["attribute"]) == (3, "spirit_animal")
    answer = api.as_person(bob).post(f"/reviews/{review.pk}/resolve", {"resolution": "both"}, {"agent": "ada"})
    assert answer.status_code == 200
    told = learn("Tim tends 3 swans.", subject="Tim", attribute="spirit anmal", value="swan")
    assert (told["action"], Fact.objects.active().count()) == ("stored", 4)
