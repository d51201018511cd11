"""Phrases of plain English sentences that state the value of an attribute, as data of memory/comparison/slots.py."""

from memory.policy.attributes import Cardinality, ValueShape

_ONE, _MANY = Cardinality.ONE, Cardinality.MANY
PHRASES: tuple[tuple[Cardinality, ValueShape, str], ...] = (
    (_ONE, ValueShape.NAME, """
        lives in, lives at, has lived in, has moved to, moved to, is living in, now lives in = home
        resides in, relocated to = home
        works at, works for, is employed by, is employed at, now works at, now works for, joined, has joined = employer
        is married to, married, has married, got married to = spouse
        is engaged to = fiance
        reports to, is managed by, now reports to = manager
        is owned by, belongs to, now belongs to = owner
        is led by, is headed by, is run by = leader
        is maintained by = maintainer
        is hosted by = provider
        is assigned to = assignee
        was born in, is born in, was born in the city of = birthplace
        died in, died in the city of = place_of_death
        is a citizen of, has citizenship of, is a national of = citizenship
        was founded by, is founded by = founder
        was created by, is created by = creator
        was developed by, is developed by = developer
        was written by, is written by = author
        was directed by, is directed by = director
        was produced by, is produced by = producer
        was performed by, is performed by = performer
        was designed by, is designed by = designer
        was made by, is made by, is manufactured by, was manufactured by = manufacturer
        was published by, is published by = publisher
        is based in, is headquartered in, is situated in, has its headquarters in, runs in, now runs in = location
        is hosted in, is deployed in, is deployed to, has moved its headquarters to = location
        is located in the continent of, is in the continent of = continent
        is located in the city of, is in the city of = city
        was created in the country of, comes from the country of = country
        is written in, was rewritten in, has been rewritten in, is implemented in = implementation_language
        was written in the language of = language
        works in the city of, worked in the city of = workplace_city
        banks with, banks at = bank
        is named after = namesake
    """),
    (_ONE, ValueShape.NUMBER, """
        costs, now costs = price
        weighs, now weighs = weight
        earns, now earns = income
        runs on port, listens on port, uses port, is on port, listens on = port
        runs version, is on version, runs on version, uses version, is at version, is running version = version
        starts at, is started at, starts on, begins in = start
        ends at, ends on, ends in, expires on, expires in, expires at, runs until, finishes at = end
        opens at = opening_time
        closes at = closing_time
        leaves at, departs at = departure
        arrives at = arrival
        is due on, is due by, is due in, is due = deadline
        is scheduled for, is planned for, was postponed to, takes place on, has been moved to, was moved to = date
        is kept for, are kept for, is retained for, are retained for, is stored for, are stored for = retention
        times out after = timeout
        wears size, takes size = shoe_size
        was born on, is born on = birthday
        renews in, renews on = renewal
        wakes up at, gets up at, wake up at, get up at = wake_up_time
        goes to bed at, go to bed at = bedtime
    """),
    (_ONE, ValueShape.ANY, """
        works as, is working as, now works as, is employed as, was promoted to, has been promoted to = job_title
        is called, is named, was renamed to, has been renamed to = name
        goes by = nickname
        works in the field of = field_of_work
        is associated with the sport of = sport
        is affiliated with the religion of = religion
        plays the position of, plays as = position
    """),
    (_MANY, ValueShape.ANY, """
        speaks, speaks the language of = spoken language
        owns = possession
        plays = played
        has visited, visited = visited
        uses, works with = tool
        studied = studied
        knows = known
    """),
)  # fmt: skip
"""How many values hold at a time, what they look like, and lines of `phrase, phrase = attribute`."""
COPULAS = (
    "is", "becomes", "became", "has become", "remains", "is set", "was set", "has been set", "was raised",
    "was increased", "was lowered", "was reduced", "was cut", "was changed", "was moved",
    "was switched", "was upgraded", "was updated",
    "was extended", "was shortened", "has been raised", "has been increased", "has been lowered", "has been reduced",
    "has been cut", "has been changed", "has been moved", "has been switched", "has been upgraded", "has been updated",
    "has been extended", "has been shortened", "has changed", "has risen", "has fallen", "has dropped", "rose", "fell",
    "changed", "dropped", "went up", "went down", "has gone up", "has gone down", "is raised", "is reduced",
)  # fmt: skip
"""What stands between an attribute and its value."""
_GOES_TO = (
    "is on",
    "has moved to",
    "upgraded to",
    "has upgraded to",
    "was upgraded to",
    "has been upgraded to",
    "downgraded to",
    "has downgraded to",
    "was downgraded to",
)
RUNS = (
    *_GOES_TO,
    "runs",
    "now runs",
    "is running",
    "was updated to",
    "has been updated to",
    "was migrated to",
    "has been migrated to",
)
"""What stands between a thing and the program with its version that it runs: "Staging runs PostgreSQL 17"."""
BUYS = (
    *_GOES_TO,
    "is now on",
    "has been downgraded to",
    "moved to",
    "was moved to",
    "has been moved to",
    "switched to",
    "has switched to",
    "was switched to",
    "has been switched to",
)
"""What stands between a customer and its plan: "Tim is on the Pro plan". Who "runs" a plan may run others."""
PLANS = ("plan", "tier", "subscription")
"""The words behind the name of a plan: attributes, of which a customer may have each."""
TIERS = (
    "Free", "Basic", "Lite", "Starter", "Standard", "Plus", "Pro", "Professional", "Team", "Business", "Premium",
    "Ultimate", "Enterprise",
)  # fmt: skip
"""Names of plans of which a customer has one; a Mobile plan goes with a Fiber plan."""
