"""Which names and numbers of an answer stand nowhere in what the agent was given."""

import pytest

from context.feedback.absent_words import absent_words

GIVEN = """## Values
2. A true picture.
- [2026-10-14] At 02:10 UTC checkout's p99 rose to 1.9 s; Bob set the carts in Redis from 24 hours to 30 days.
- [2026-11-28] order_events holds 410 GB on orders-1; extend it by 100 GB. The queue moves to PostgreSQL.
"""
CITED = ["[2026-11-28] order_events holds 410 GB on orders-1; extend it by 100 GB."]


def absent(answer: str) -> list[str]:
    return [answer[start:end] for start, end in absent_words(answer, GIVEN, CITED)[1]]


@pytest.mark.parametrize(
    "answer",
    [
        "The table order_events holds 410GB. I'd ask Bob about orders-1.",
        "On October 14 at 2:10 a.m. the p99 was 1,900 ms, for more than one day.",
        "Carts lived for one day, then thirty days; that's twice as long as... no, 30 times as long.",
        "With 410 GB and 100 GB more it is 510 GB since Saturday.",
        "## Root Cause\n\n**Next Steps:**\n1. Extend by 100 GB.\n2. Ask Bob.\n3. Wait.\n\nThree steps in Postgres.",
        "- **Cause**: Bob. It took two steps: (1) extend it, (2) ask, (7) wait.",
        "| Date | Cause |\n|---|---|\n| 14 October | Redis |",
        'Bob moved it: "the carts in Redis" were set `from 24 hours`.',
        "Die Warteschlange steht still, sagt der Wachhund.",
    ],
)
def test_what_stands_in_the_prompt_in_another_form_is_not_absent(answer: str) -> None:
    assert absent(answer) == []


def test_nothing_is_said_of_names_where_capitals_are_no_sign_of_them() -> None:
    assert absent_words("Frau Schmidt aus Hamburg nennt 410 GB und Herr Wagner nicht.", GIVEN) == (0, [])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("Extend it by 250 GB on Tuesday.", ["250 GB", "Tuesday"]),
        ("Monday is free. Carol isn't.", ["Monday", "Carol"]),
        ("It was 410 MB and 2 days, said Dave's team.", ["410 MB", "2 days", "Dave's"]),
        ("Promote orders-2 at 02:40, not on 15 October.", ["orders-2", "02:40", "15 October"]),
        ('He said "drop the carts", so run `redis-cli flushall`.', ['"drop the carts"', "`redis-cli flushall`"]),
        (
            "See https://wiki.example.com/carts, v2.14.1 and Grafana.",
            ["https://wiki.example.com/carts", "v2.14.1", "Grafana"],
        ),
    ],
)
def test_names_and_numbers_of_nowhere_are_absent(answer: str, words: list[str]) -> None:
    assert absent(answer) == words


@pytest.mark.parametrize(
    ("given", "answer", "told"),
    [
        ("Mail goes through two providers; peek(n=3).", "It was set back to 2 seconds.", (0, [])),
        ("Mail goes through two providers; peek(n=3).", "Wait for 3 hours.", (0, [])),
        ("The pause is 2 seconds.", "The pause is 2 days.", (1, [(13, 19)])),
        ("Carts live from two to 30 days.", "Carts live for 2 days.", (1, [])),
        ("It takes 24–30 hours.", "It takes one day.", (1, [])),
        ("410 of 780 GB are used.", "It has 780 GB, and 410 GB are used.", (2, [])),
        ("timeout_ms=300", "It waits for 0.3 seconds.", (1, [])),
        ("| pause (minutes) |\n|---|\n| 20 |", "It waits for 20 minutes.", (0, [])),
        ("Durations in minutes: 20", "It waits for 20 minutes.", (1, [])),
        ("Time: 02:10", "It began at 02:10.", (1, [])),
        ("Two stand by, and three more work.", "With 2 and 3 it takes 5 days.", (0, [])),
    ],
)
def test_number_without_a_unit_vouches_for_none(given: str, answer: str, told: tuple[int, list[object]]) -> None:
    assert absent_words(answer, given) == told


@pytest.mark.parametrize(
    "text",
    ["Ask Dave about 250 GB on Tuesday. ", "\n", "“", "a", "7 ", "1,000", "- ", "Ab ", "`", "| |\n", "2026-99-99 "],
)
def test_odd_answers_are_compared(text: str) -> None:
    checked, spans = absent_words(text * (100_000 // len(text)), GIVEN, [text])
    assert checked >= len(spans)


def test_thousands_of_sizes_are_compared() -> None:
    """Each with each would take minutes."""
    sizes = range(1, 10_000)
    assert absent_words(" ".join(f"{n} GB" for n in sizes), " ".join(f"{n}000 MB" for n in sizes))[1] == []
    assert len(absent_words(" ".join(f"{n} GB" for n in sizes), " ".join(f"{n} ms" for n in sizes))[1]) == len(sizes)


def test_texts_that_look_like_tokens_of_a_time_are_compared() -> None:
    given = "Set t:x to 5. Is the flag t:ab2? See d:1-2, t:?9 and d:?-x-30."
    for answer in ("At 5 pm.", "On 30 June at 09:00.", "t:x d:? t:", given):
        absent_words(answer, given)


def test_thousands_of_dates_and_times_are_compared() -> None:
    """Each with each would take minutes."""
    dates = " ".join(f"{year}-10-14 {year % 24}:{year % 60:02}," for year in range(1000, 9999))
    others = " ".join(f"{year}-10-15 {year}" for year in range(1000, 9999))
    assert absent_words(dates, dates)[1] == []
    assert len(absent_words(others[:20_000], dates)[1]) > 1_000
