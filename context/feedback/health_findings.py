"""Lists of possible problems of facts, each with a weight, advice and a statement.

Facts are compared by a hash of their words or by pending reviews, never each with each.
"""

from collections.abc import Mapping

# ruff: noqa: S608 - the statements are made of constants alone, and values are bound.
from dataclasses import dataclass
from datetime import timedelta

from context.models import ContextPin, ContextRun, MemoryUsage
from memory.lifecycle.handler import STALE_AFTER
from memory.models import EpisodeEvent, Event, Fact, ItemType, MemoryReview, SearchItem, valid_at_sql

HEALTH_WEIGHTS: Mapping[str, float] = {
    "quarantined": 1.0,
    "loops": 1.0,
    "contested": 0.5,
    "duplicates": 0.5,
    "stale": 0.25,
    "unreferenced": 0.25,
    "unshown": 0.1,
}
"""By the key of the list. A convention of this product (docs/lifecycle.md): facts that no prompt should show count
fully, facts that a person must decide half, facts that may still be useful a quarter or less."""


UNUSED_AFTER = timedelta(days=30)
"""A fact that has been known for so long and was in no prompt is never shown."""
OFTEN_SHOWN = 5
"""From this many prompts with a reported answer, a fact without a reference counts as never referenced."""
NEAR_LENGTH = 0.8
"""One text in another repeats it when it is at least so much of its length."""

_FACT, _REVIEW = Fact._meta.db_table, MemoryReview._meta.db_table
_USAGE, _INDEX, _RUN, _PIN = (model._meta.db_table for model in (MemoryUsage, SearchItem, ContextRun, ContextPin))
_OWN = "{0}.agent_id = %(agent)s AND {0}.persona = ANY(%(personas)s)"
ACTIVE = f"{_OWN.format('fact')} AND fact.active AND {valid_at_sql(Fact, '%(now)s', 'fact')}"
"""Facts that prompts may include now; those that have ended need nobody's care."""
_STATUSES = ", ".join(f"'{status}'" for status in MemoryReview.UNANSWERED)
_OPEN = f"{_OWN.format('review')} AND review.status IN ({_STATUSES})"
_WORDS = "rtrim(lower({0} COLLATE \"C\"), ' .!')"
"""A text without what its end and the capitals A to Z make of it: cheap, since it is made for each fact."""

PARTS: Mapping[str, str] = {
    # The usage log, once for all that is asked of it.
    "shown": f"""
        SELECT item_type, item_id, min(at) AS first_at, max(at) AS last_at, count(*) AS times,
               bool_or(referenced) AS referenced
        FROM {_USAGE} AS usage WHERE {_OWN.format("usage")} GROUP BY item_type, item_id""",
    "facts_shown": f"""
        SELECT item_id::uuid AS id, last_at, times, referenced FROM shown WHERE item_type = '{ItemType.FACT}'""",
    "keyed": f"""
        SELECT id, hashtextextended({_WORDS.format("content")}, 0) AS words
        FROM {_FACT} AS fact WHERE {ACTIVE}""",
    # Memories included in prompts, without those of the event log, from which facts are learned.
    "included": f"""
        SELECT shown.item_id, shown.first_at, hashtextextended({_WORDS.format("item.text")}, 0) AS words, item.text
        FROM shown JOIN {_INDEX} AS item ON item.item_type = shown.item_type AND item.item_id = shown.item_id
             AND {_OWN.format("item")}
        WHERE shown.item_type <> '{ItemType.EVENT}'""",
    # The sessions that an episode's facts were taken from, with when they were.
    "taken": f"""
        SELECT DISTINCT fact.id, fact.content, event.loop_id, fact.recorded_at
        FROM {_FACT} AS fact
        JOIN {EpisodeEvent._meta.db_table} AS place ON place.episode_id = fact.source_episode_id
             AND place.agent_id = fact.agent_id
        JOIN {Event._meta.db_table} AS event ON event.id = place.event_id AND event.agent_id = place.agent_id
        WHERE {ACTIVE} AND fact.source_episode_id IS NOT NULL AND fact.recorded_at >= %(unused)s""",
}

EACH = f"{_FACT} AS fact LEFT JOIN facts_shown AS shown USING (id) WHERE {ACTIVE}"
"""The current facts, with their usage."""
EACH_READS = ("shown", "facts_shown")


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One list of facts: what is in it (`meaning`), what that does to the agent's answers (`effect`), and what helps
    (`advice`). `weight`, 0 to 1, is the part of a listed fact that is lost from the score.

    `remedies` are what may be done to one of its facts, as `FACT_ACTIONS` of the console names them, the first as the
    button of its row. `condition` is a condition on a fact of `EACH`: one pass counts all lists that have one.
    Otherwise `statement` selects the ids of the facts, each once. `reads` names the parts of `PARTS` that it needs.
    """

    key: str
    label: str
    weight: float
    meaning: str
    effect: str
    advice: str
    statement: str = ""
    condition: str = ""
    reads: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ("confirm", "invalidate")


FINDINGS: Mapping[str, HealthFinding] = {
    one.key: one
    for one in (
        HealthFinding(
            "quarantined",
            "Quarantined",
            HEALTH_WEIGHTS["quarantined"],
            "Facts that read like an instruction or contain a secret.",
            "No prompt includes them, so the agent does not know them.",
            "Resolve the review: allow the text, or keep it quarantined.",
            f"""SELECT DISTINCT fact.id FROM {_REVIEW} AS review CROSS JOIN LATERAL unnest(review.facts) AS named (id)
                JOIN {_FACT} AS fact ON fact.id = named.id AND fact.agent_id = %(agent)s AND fact.quarantined
                WHERE {_OPEN} AND review.kind = '{MemoryReview.Kind.QUARANTINED}'""",
        ),
        HealthFinding(
            "loops",
            "Feedback loops",
            HEALTH_WEIGHTS["loops"],
            "Facts that repeat an earlier prompt: the agent has learned its own memory again.",
            "An error that it has told itself is believed once more.",
            "Mark the repetition as wrong, or confirm it if it comes from another source.",
            f"""SELECT fact.id FROM keyed JOIN included USING (words) JOIN {_FACT} AS fact ON fact.id = keyed.id
                     AND fact.agent_id = %(agent)s
                WHERE included.item_id <> fact.id::text AND included.first_at < fact.recorded_at
                UNION
                SELECT taken.id FROM taken JOIN {_RUN} AS run ON run.session_id = taken.loop_id
                     AND {_OWN.format("run")} AND run.created_at < taken.recorded_at
                JOIN {_USAGE} AS usage ON usage.run_id = run.id AND usage.agent_id = run.agent_id
                     AND usage.item_id <> taken.id::text
                JOIN included ON included.item_id = usage.item_id
                WHERE (strpos({_WORDS.format("included.text")}, {_WORDS.format("taken.content")}) > 0
                       OR strpos({_WORDS.format("taken.content")}, {_WORDS.format("included.text")}) > 0)
                  AND least(length(included.text), length(taken.content))
                      >= {NEAR_LENGTH} * greatest(length(included.text), length(taken.content))""",
            reads=("shown", "keyed", "included", "taken"),
        ),
        HealthFinding(
            "contested",
            "Contradicted",
            HEALTH_WEIGHTS["contested"],
            "Facts that another fact contradicts, or with another open review.",
            "The agent may answer with the wrong one.",
            "Say which of the facts that disagree is true.",
            f"""SELECT DISTINCT fact.id FROM {_REVIEW} AS review
                CROSS JOIN LATERAL (VALUES (review.old_id), (review.new_id)) AS side (id)
                JOIN {_FACT} AS fact ON fact.id = side.id AND {ACTIVE}
                WHERE {_OPEN}
                    AND review.kind NOT IN ('{MemoryReview.Kind.DUPLICATE}', '{MemoryReview.Kind.QUARANTINED}')
                    AND NOT EXISTS (SELECT 1 FROM {_FACT} AS gone WHERE gone.agent_id = %(agent)s
                        AND gone.id IN (review.old_id, review.new_id) AND NOT gone.active)""",
        ),
        HealthFinding(
            "duplicates",
            "Duplicates",
            HEALTH_WEIGHTS["duplicates"],
            "Facts that repeat another fact word for word, or are under review as duplicates.",
            "Prompts tell the agent the same thing twice.",
            "Mark the copy as wrong, or resolve the review with “same”.",
            f"""SELECT copy.id FROM (
                    SELECT fact.id, row_number() OVER (
                        PARTITION BY fact.persona, fact.project, fact.task, fact.user_key, words
                        ORDER BY fact.endorsed DESC, fact.recorded_at, fact.id
                    ) AS place
                    FROM keyed JOIN (SELECT words FROM keyed GROUP BY words HAVING count(*) > 1) AS repeated
                         USING (words)
                    JOIN {_FACT} AS fact ON fact.id = keyed.id AND fact.agent_id = %(agent)s
                ) AS copy WHERE copy.place > 1
                UNION
                SELECT fact.id FROM {_REVIEW} AS review JOIN {_FACT} AS fact ON fact.id = review.new_id
                     AND {ACTIVE}
                WHERE {_OPEN} AND review.kind = '{MemoryReview.Kind.DUPLICATE}'""",
            reads=("keyed",),
        ),
        HealthFinding(
            "stale",
            "Stale",
            HEALTH_WEIGHTS["stale"],
            f"Facts that nobody has confirmed and no prompt has shown for {STALE_AFTER.days} days.",
            "The agent may answer with what is no longer true.",
            "Confirm facts that are still true, and give the others an end.",
            condition="""fact.recorded_at < %(stale)s AND fact.category <> ALL(%(ageless)s)
                  AND (fact.last_confirmed_at IS NULL OR fact.last_confirmed_at < %(stale)s)
                  AND (shown.last_at IS NULL OR shown.last_at < %(stale)s)""",
            reads=EACH_READS,
            remedies=("confirm", "expiry"),
        ),
        HealthFinding(
            "unreferenced",
            "Never referenced",
            HEALTH_WEIGHTS["unreferenced"],
            f"Facts that a search found for at least {OFTEN_SHOWN} prompts, and no answer referred to.",
            "They take the place of memories that would help.",
            "Replace them by what answers can use, or give them an end.",
            # A preference, a person or a rule guides answers that do not quote it, and a pin is a person's wish.
            condition=f"""shown.times >= {OFTEN_SHOWN} AND NOT shown.referenced AND fact.category <> ALL(%(always)s)
                  AND NOT EXISTS (SELECT 1 FROM {_PIN} AS pin WHERE pin.agent_id = %(agent)s
                      AND pin.item_type = '{ItemType.FACT}' AND pin.item_id = fact.id::text)""",
            reads=EACH_READS,
            remedies=("supersede", "expiry"),
        ),
        HealthFinding(
            "unshown",
            "Never shown",
            HEALTH_WEIGHTS["unshown"],
            f"Facts known for {UNUSED_AFTER.days} days that were in no prompt with a reported answer.",
            "None so far: they cost nothing until a prompt includes them.",
            "Give those that nobody needs an end.",
            condition="""fact.recorded_at < %(unused)s AND fact.category <> ALL(%(always)s)
                  AND shown.times IS NULL AND EXISTS (SELECT 1 FROM shown)""",
            reads=EACH_READS,
            remedies=("expiry", "supersede"),
        ),
    )
}
"""By key, those that weigh most first."""
