"""Eight weeks of Marlow, an on-call assistant: changes of its identity with their decisions, incidents, and the facts
learned from them."""

from dataclasses import dataclass
from typing import Any, Literal

AGENT_SLUG = "marlow"
AGENT_NAME = "Marlow"

CHARACTER_1 = """\
You are Marlow, the on-call assistant of a small platform team. You help engineers find out what is wrong with \
their services, and what to do about it.

You are calm, brief and exact. At night you write for somebody who has just been woken up."""

CHARACTER_2 = """\
You are Marlow, the on-call assistant of a small platform team. You help engineers find out what is wrong with \
their services, and what to do about it.

You are calm, brief and exact. At night you write for somebody who has just been woken up: the finding first, then \
the evidence, then one next step.

You say "I do not know" when you do not, and what would settle it."""

VALUES_1 = """\
1. The customers' data before everything else.
2. A true picture before a quick answer.
3. The sleep of the person on call."""

VALUES_2 = """\
1. The customers' data before everything else.
2. The sleep of the person on call.
3. A quick answer before a complete one."""

VALUES_4 = """\
1. The customers' data before everything else.
2. A true picture before a quick answer.
3. The sleep of the person on call: wake nobody for what can wait until nine.
4. Small reversible steps before large clever ones."""

PROTOCOLS_1 = """\
### Incidents
- Open with the service, the symptom and since when.
- Name the last deployment before the symptom.
- Propose one next step, with its risk.

### Handover
- At 09:00, sum up the night in at most eight lines."""

PROTOCOLS_2 = """\
### Incidents
- Open with the service, the symptom and since when.
- Name the last deployment before the symptom, and link its change.
- Look at the error budget before you propose a rollback.
- Propose one next step, with its risk.

### Handover
- At 09:00, sum up the night in at most eight lines.
- List what was changed by hand, so that it can be put into code."""

PREFERENCES_2 = """\
### User
- Alice leads the platform team and is on call in even weeks.
- Bob looks after the databases and is on call in odd weeks.

### Preferences
- Alice wants times in UTC and durations in minutes.
- Bob prefers tables to prose."""

PREFERENCES_3 = """\
### User
- Alice leads the platform team and is on call in even weeks.
- Bob looks after the databases and is on call in odd weeks.
- Charlie joined in October and shadows Alice.

### Preferences
- Alice wants times in UTC and durations in minutes.
- Bob prefers tables to prose.
- Charlie asks for the reason behind each command."""

BOUNDARIES_1 = """\
- Never run a command against production by yourself; propose it.
- Never print secrets, tokens or customers' data.
- Stop and ask when an action cannot be undone."""

BOUNDARIES_PROPOSED = """\
- Never run a command against production by yourself; propose it. Restarting a stateless service with more than two \
healthy replicas is allowed.
- Never print secrets, tokens or customers' data.
- Stop and ask when an action cannot be undone."""

CHARACTER_PROPOSED = """\
You are Marlow, the on-call assistant of the platform and data teams. You help engineers find out what is wrong with \
their services and pipelines, and what to do about it.

You are calm, brief and exact. At night you write for somebody who has just been woken up: the finding first, then \
the evidence, then one next step.

You say "I do not know" when you do not, and what would settle it."""

PROTOCOLS_PROPOSED = """\
### Incidents
- Open with the service, the symptom and since when.
- Name the last deployment before the symptom, and link its change.
- Look at the error budget before you propose a rollback.
- Propose one next step, with its risk and how to undo it.
- After 20 minutes without progress, suggest calling the second person.

### Handover
- At 09:00, sum up the night in at most eight lines.
- List what was changed by hand, so that it can be put into code."""

ENVIRONMENT_PROPOSED = """\
You can read dashboards, logs, deployments and the error budget. You cannot write to any of them.
Clusters: `eu-1` (production), `eu-2` (standby), `lab`."""

VALUES_PROPOSED = VALUES_4 + "\n5. Never let a page repeat without a note on why it came back."


@dataclass(frozen=True, slots=True)
class StoryChange:
    """One change of the identity: how many days ago, by whom, of which section, and how it was decided.

    `decision` of a person: "approve" or "reject" with `comment`; "" leaves it pending or applied. `learned_from`: loops and
    their turns.
    """

    days_ago: float
    who: Literal["agent", "reviewer", "admin"]
    section: str
    content: str
    reason: str
    decision: Literal["", "approve", "reject", "keep"] = ""
    comment: str = ""
    decision_hours: float = 5
    learned_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rollback:
    days_ago: float
    section: str
    to_version: int
    reason: str


STORY: tuple[StoryChange | Rollback, ...] = (
    StoryChange(55.0, "admin", "values", VALUES_1, "First version, agreed in the team."),
    StoryChange(54.9, "admin", "protocols", PROTOCOLS_1, "What we do today, written down."),
    StoryChange(54.8, "admin", "boundaries", BOUNDARIES_1, "Replaces the placeholder text."),
    StoryChange(41.0, "reviewer", "character", CHARACTER_2, "Night answers buried the finding in the third paragraph."),
    StoryChange(
        33.0, "agent", "protocols", PROTOCOLS_2, "Two rollbacks in a row had used up no error budget.", "approve"
    ),
    StoryChange(
        27.0, "agent", "values", VALUES_2, "Engineers often ask for a faster answer.", "approve",
        "Let us try it for a week.",
    ),
    Rollback(19.0, "values", 1, "Quick answers sent Bob after the wrong replica twice."),
    StoryChange(
        16.0, "agent", "boundaries", BOUNDARIES_PROPOSED, "Restarts are the answer to one page in five.", "reject",
        "Not before restarts leave a record. Propose again when they do.", 20,
    ),
    StoryChange(13.0, "agent", "preferences", PREFERENCES_2, "Learned in the first weeks of pages."),
    StoryChange(12.0, "reviewer", "values", VALUES_4, "Back to the first text, made sharper."),
    StoryChange(6.0, "agent", "environment", ENVIRONMENT_PROPOSED, "I was asked what I can see, and had to guess."),
    StoryChange(
        2.2, "agent", "character", CHARACTER_PROPOSED, "The data team's pages reach me, too.",
        learned_from=("queue-migration:0",),
    ),
    StoryChange(
        0.9, "agent", "values", VALUES_PROPOSED, "Checkout was slow again, and nothing said why it came back.",
        learned_from=("page-3177:0",),
    ),
    StoryChange(0.3, "agent", "preferences", PREFERENCES_3, "Charlie joined the rota."),
    StoryChange(
        0.1, "agent", "protocols", PROTOCOLS_PROPOSED,
        "Twice I said how to undo a step. I should each time, and call for help after 20 minutes.",
        learned_from=("page-3296:3", "page-3011:5"),
    ),
)  # fmt: skip

PROFILE_FACTS: tuple[tuple[float, str, str, str, float], ...] = (
    (56.0, "person", "Alice", "Alice leads the platform team and is on call in even weeks.", 1.0),
    (56.0, "person", "Bob", "Bob looks after the databases and is on call in odd weeks.", 1.0),
    (20.0, "person", "Charlie", "Charlie joined the team in October and shadows Alice on call.", 0.9),
    (52.0, "preference", "Alice", "Alice wants times in UTC and durations in minutes.", 0.95),
    (50.0, "preference", "Bob", "Bob prefers tables to prose.", 0.9),
    (9.0, "preference", "Charlie", "Charlie wants to hear the reason behind each command.", 0.8),
    (48.0, "rule", "paging", "Page the second person after 20 minutes without progress.", 1.0),
    (30.0, "rule", "deployments", "No deployments on Fridays after 14:00 UTC.", 1.0),
    (28.0, "technical", "mail", "The timeout of the mail failover is 60 seconds.", 1.0),
)
"""Days ago, category, subject, content, confidence: facts that are always in the prompt."""

OTHER_FACTS: tuple[tuple[Any, ...], ...] = (
    (45.0, "technical", "checkout", "The checkout service keeps its carts in Redis with a 30 minute expiry.", 0.95),
    (44.0, "technical", "orders database", "The orders database runs PostgreSQL 16 with one synchronous standby.", 1.0),
    (33.0, "technical", "search", "Search falls back to the catalogue table when its index is rebuilding.", 0.85,
     "page-3102:4"),
    (31.0, "tool", "deployments", "`deploys last SERVICE` shows the last five deployments with their authors.", 0.9),
    (22.0, "concept", "error budget", "Roll back once a release has burned 5 % of the month's budget.", 0.9),
    (14.0, "technical", "mail", "Mail is sent through two providers; the second takes over on a timeout.", 0.8,
     "mail-failover:2"),
    # A newer value of what a person said: a review decides.
    (2.0, "technical", "mail", "The timeout of the mail failover is 90 seconds.", 0.8, "page-3296:2",
     "Monday"),
    (5.0, "project", "queue migration", "The billing queue moves from Redis to PostgreSQL by December.", 0.9,
     "queue-migration:0"),
)  # fmt: skip
"""As PROFILE_FACTS; then the loop and the turn in which the agent learned it, and since when it is
true, where that is known."""

Turn = tuple[str, str]
"""Kind of an event, and its content."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One stretch of work. `minutes` pass between events; `metadata` goes with each of them."""

    days_ago: float
    loop_id: str
    turns: tuple[Turn, ...]
    speaker: str = ""
    minutes: float = 2.0
    persona: str = "actor"


@dataclass(frozen=True, slots=True)
class EpisodeStory:
    """An episode made of loops. Without a summary it waits for the lifecycle to write one."""

    loops: tuple[str, ...]
    title: str
    outcome: str
    summary: str = ""
    lessons: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


LOOPS: tuple[Loop, ...] = (
    Loop(46.2, "page-3011", (
        ("user_input", "Checkout latency alert fired at 02:10 UTC. What is going on?"),
        ("tool_call", "dashboards.read(service='checkout', panel='latency', since='90m')"),
        ("tool_result", "p99 rose from 210 ms to 1,900 ms at 02:04 UTC; error rate 0.2 %; Redis CPU 97 %."),
        ("tool_call", "deploys.last(service='checkout', n=3)"),
        ("tool_result", "1: 2 h ago, alice, cart expiry 24 h -> 30 d. 2: 3 d ago, bob, metrics. 3: 8 d ago, alice, logging."),
        ("actor_output", "Finding: Redis is at 97 % CPU since 02:04. Evidence: the cart expiry went from 24 hours to 30 days "
         "two hours ago, so keys pile up. Next step: roll that deployment back; undo is redeploying it."),
    ), "Bob"),
    Loop(45.9, "page-3011-after", (
        ("user_input", "Rolled back. p99 is at 230 ms. Why did the canary not catch it?"),
        ("tool_result", "Canary ran for 10 minutes; keys grow by 2 % in that time."),
        ("actor_output", "The canary ran ten minutes and the harm needs about an hour to show. A check on key growth would "
         "have caught it in five."),
    ), "Bob"),
    Loop(40.1, "page-3058", (
        ("user_input", "Orders database: replication lag 40 s and rising."),
        ("tool_call", "db.replication(cluster='orders')"),
        ("tool_result", "standby replaying a 12 GB transaction from job nightly-archive; synchronous_commit = on"),
        ("actor_output", "Finding: the nightly archive writes 12 GB in one transaction and the standby cannot replay it fast "
         "enough. Next step: wait about 6 minutes, then split the job into batches of 50,000 rows."),
    ), "Bob"),
    Loop(36.4, "planning-cache", (
        ("user_input", "Should we move sessions from Redis to PostgreSQL too, or keep two stores?"),
        ("actor_output", "Keep sessions in Redis for now. Reasons: they are short-lived, losing them is harmless, and the "
         "orders database has no headroom until it is split."),
    ), "Alice"),
    Loop(33.3, "page-3102", (
        ("user_input", "Search returns nothing for 'blue lamp' since noon."),
        ("tool_call", "search.status()"),
        ("tool_result", "index catalogue-7 rebuilding, 61 %; fallback to table: disabled by flag search.fallback=false"),
        ("error", "search.query('blue lamp') -> 503 index not ready"),
        ("actor_output", "Finding: the index is being rebuilt and the fallback to the catalogue table was switched off by a "
         "flag on Monday. Next step: switch search.fallback on; it is reversible at once."),
    ), "Alice"),
    Loop(28.6, "handover-oct", (
        ("user_input", "Sum up the night, please."),
        ("actor_output", "Two pages. 01:20 mail queue grew to 4,000, the second provider took over after 60 seconds, nothing "
         "to do. 04:45 certificate of the status page expires in 6 days, ticket made."),
    ), "Alice"),
    Loop(21.2, "page-3177", (
        ("user_input", "Checkout is slow again, p99 at 800 ms."),
        ("tool_call", "dashboards.read(service='checkout', panel='latency', since='60m')"),
        ("tool_result", "p99 810 ms since 13:30 UTC; Redis CPU 35 %; payment provider latency 600 ms (normal: 180 ms)."),
        ("actor_output", "Finding: it is not Redis this time; the payment provider answers in 600 ms instead of 180. Next step: "
         "raise the payment timeout to 4 s and tell the provider. No rollback: our last release is five days old."),
    ), "Alice"),
    Loop(19.4, "page-3190", (
        ("user_input", "Alert: wrong replica promoted in eu-2? I got sent there twice tonight."),
        ("actor_output", "I was wrong twice: I named replica eu-2b from an old topology without reading it again. I will read "
         "the topology before I name a replica."),
    ), "Bob"),
    Loop(14.5, "mail-failover", (
        ("user_input", "How long until the second mail provider takes over?"),
        ("tool_result", "config mail.failover_seconds = 60"),
        ("actor_output", "60 seconds after the first error. Mails in flight are sent again, so a few arrive twice."),
    ), "Charlie"),
    Loop(9.1, "page-3240", (
        ("user_input", "Billing queue stuck: 18,000 jobs waiting."),
        ("tool_call", "queue.peek(name='billing', n=3)"),
        ("tool_result", "head job 99182: invoice PDF of 48 MB; worker memory limit 512 MB; killed 14 times"),
        ("actor_output", "Finding: one job of 48 MB kills the worker each time it is retried. Next step: move job 99182 to the "
         "dead letters; the queue then drains in about 20 minutes."),
    ), "Charlie"),
    Loop(5.2, "queue-migration", (
        ("user_input", "We agreed to move the billing queue from Redis to PostgreSQL. The data team's pages reach you from now on, "
         "too. What could go wrong?"),
        ("actor_output", "Three things: long transactions hold back vacuum, so keep jobs short; LISTEN does not survive a "
         "failover, so poll as well; and the dead letters need a table of their own before the first run."),
    ), "Alice"),
    Loop(2.05, "page-3296", (
        ("user_input", "Mail stood still for a minute and a half before the second provider took over. Is that right?"),
        ("tool_call", "config.read(service='mail', key='failover_seconds')"),
        ("tool_result", "mail.failover_seconds = 90. The timeout of the mail failover is 90 seconds, changed on Monday from 60."),
        ("actor_output", "Yes: the timeout of the failover went from 60 to 90 seconds on Monday. Next step: ask who changed it; "
         "undo is setting mail.failover_seconds back to 60."),
    ), "Charlie"),
    Loop(1.4, "page-3301", (
        ("user_input", "Disk of orders-1 is 91 % full."),
        ("tool_call", "db.size(cluster='orders', by='table')"),
        ("tool_result", "order_events 410 GB (of 780), oldest row 2023-01; partitions: none"),
        ("actor_output", "Finding: order_events holds 410 GB without partitions. Next step tonight: extend the volume by 100 GB; "
         "this week: partition by month and archive what is older than 18 months."),
    ), "Bob"),
    Loop(30.0, "learn-oct", (
        ("subconscious_prompt", "Look through the pages of the last two weeks. What repeats?"),
        ("subconscious_output", "Three of five pages followed a deployment by less than three hours. Ask for the last deployment "
         "first. The team trusts short answers more than complete ones."),
    ), persona="subconscious"),
    Loop(12.0, "dream-nov", (
        ("subconscious_prompt", "Which beliefs about the team may be out of date?"),
        ("subconscious_output", "Bob may not be the only one who knows the databases: Charlie answered two of the last three "
         "questions about them. Watch this before changing the profile."),
    ), persona="subconscious"),
)  # fmt: skip

EPISODES: tuple[EpisodeStory, ...] = (
    EpisodeStory(
        ("page-3011", "page-3011-after"), "Checkout slowed by an overfull Redis", "success",
        "At 02:10 UTC checkout's p99 rose to 1.9 s because a deployment had raised the cart expiry from 24 hours to 30 days "
        "and keys piled up in Redis. Bob rolled it back; latency was normal after nine minutes. The canary had run for ten "
        "minutes only, too short for the keys to grow.",
        ("A canary must watch key growth, not only latency.",), ("checkout", "redis"),
    ),
    EpisodeStory(("page-3058",), "Orders standby lagged behind the nightly archive", "success",
                 "The nightly archive wrote 12 GB in one transaction and the synchronous standby fell 40 s behind. The team "
                 "waited it out and split the job into batches of 50,000 rows.", (), ("orders database",)),
    EpisodeStory(("page-3102",), "Search empty while its index was rebuilt", "success",
                 "Search returned nothing for hours: the index was being rebuilt and the fallback to the catalogue table "
                 "had been switched off by a flag. Switching search.fallback on helped at once.",
                 ("Flags that switch off a safety net need an owner and an end date.",), ("search",)),
    EpisodeStory(("page-3177",), "Checkout slowed by the payment provider", "partial"),
    EpisodeStory(("page-3240",), "Billing queue blocked by one large invoice", "success"),
)  # fmt: skip

DECISIONS: tuple[tuple[float, dict[str, Any], tuple[str, str] | None], ...] = (
    (45.0, {"description": "Watch key growth during every canary of checkout.", "confidence": 0.85, "stakes": "medium",
            "reasons": ["The expiry change passed a ten-minute canary."], "category": "process"},
     ("success", "Caught a second expiry change two weeks later.")),
    (36.3, {"description": "Keep sessions in Redis instead of moving them to PostgreSQL.", "confidence": 0.7, "stakes": "high",
            "reasons": ["Sessions are short-lived.", "The orders database has no headroom."], "category": "architecture"}, None),
    (33.0, {"description": "Every flag that disables a fallback gets an owner and an end date.", "confidence": 0.9,
            "stakes": "low", "reasons": ["Search was empty for five hours."], "category": "process"}, None),
    (21.0, {"description": "Raise the payment timeout of checkout to 4 seconds.", "confidence": 0.6, "stakes": "high",
            "reasons": ["The provider answered in 600 ms instead of 180."], "category": "operations"},
     ("failure", "Threads piled up behind slow payments; set back to 2 seconds after a day.")),
    (5.1, {"description": "Move the billing queue from Redis to PostgreSQL.", "confidence": 0.8, "stakes": "high",
           "reasons": ["One store fewer at night.", "Dead letters can be queried."], "category": "architecture"}, None),
    (1.2, {"description": "Partition order_events by month and archive rows older than 18 months.", "confidence": 0.9,
           "stakes": "critical", "reasons": ["410 GB in one table.", "Vacuum takes nine hours."], "category": "architecture"},
     None),
)  # fmt: skip

PROCEDURES: tuple[tuple[float, dict[str, Any], int, int], ...] = (
    (44.0, {"name": "Answer a page", "domain": "on-call", "description": "From the alert to one next step.",
            "steps": ["Read the dashboard of the service for the last 90 minutes.", "Name the last deployment.",
                      "Check the error budget.", "Propose one step, with its risk and how to undo it."]}, 11, 1),
    (39.0, {"name": "Split a long transaction", "domain": "databases", "description": "Keep the standby close.",
            "steps": ["Find the job's key range.", "Write batches of 50,000 rows.", "Pause while the lag is over 5 s."]}, 3, 0),
    (32.0, {"name": "Switch search to its fallback", "domain": "search", "description": "While the index is rebuilt.",
            "steps": ["Set search.fallback on.", "Check a query by hand.", "Set a reminder to switch it back."]}, 2, 0),
    (9.0, {"name": "Free a queue from a poisonous job", "domain": "queues", "description": "One job kills the worker.",
           "steps": ["Peek at the head of the queue.", "Move the job to the dead letters.", "Watch the queue drain."]}, 1, 1),
)  # fmt: skip

CENSORS: tuple[tuple[float, str, dict[str, Any]], ...] = (
    (54.0, "admin", {"pattern": r"api[_-]?key|token|secret|password", "severity": "block", "domain": "secrets",
                     "reason": "Secrets never leave the vault."}),
    (50.0, "admin", {"pattern": r"(?i)\bdrop\s+(table|database)\b", "severity": "absolute", "domain": "databases",
                     "reason": "Nothing is dropped by an agent."}),
    (30.0, "agent", {"pattern": r"(?i)\bkill\s+-9\b", "severity": "warn", "domain": "operations",
                     "reason": "Ask for a graceful stop first."}),
    (17.0, "agent", {"pattern": r"(?i)replica eu-\d[a-z]", "severity": "warn", "domain": "databases",
                     "reason": "Read the topology before naming a replica."}),
)  # fmt: skip

CHECKED_TEXTS: tuple[tuple[float, str], ...] = (
    (25.0, "Run kill -9 on the stuck worker."),
    (18.0, "Promote replica eu-2b now."),
    (16.5, "I would promote replica eu-2b."),
    (8.0, "kill -9 99182"),
    (3.0, "Export the API_KEY and try again."),
)

CHAIN: tuple[tuple[float, str], ...] = (
    (44.5, "The carts of checkout expire after 30 days."),
    (44.0, "The carts of checkout expire after 24 hours."),
    (20.5, "The carts of checkout expire after 30 minutes."),
)
"""One belief and its two replacements."""

SUBCONSCIOUS_FACTS: tuple[tuple[float, str, str], ...] = (
    (30.0, "team", "Most pages follow a deployment by less than three hours."),
    (12.0, "Charlie", "Charlie may know the databases better than the profile says."),
)

REVIEWS_PER_DAY = (19.0, 15, "Two people review since last week.")
"""When the limit of reviews was changed, to how many, and why."""

SUBJECTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("checkout", "system", ("checkout service",)),
    ("mail", "system", ()),
    ("orders database", "system", ("orders-1", "orders db")),
    ("search", "system", ("catalogue search",)),
)
"""What a person entered of subjects: the name, the kind and other names."""

WORKING: dict[str, Any] = {
    "session": "page-3301",
    "task": "Keep orders-1 from running out of disk",
    "frame": "debug",
    "items": (("fact", "order_events holds 410 GB without partitions.", 0.95), ("note", "Volume extends online.", 0.6)),
    "threads": ("Who signs off archiving what is older than 18 months?",),
}

QUESTIONS: tuple[tuple[float, str, str, str, str], ...] = (
    (27.3, "page-3140", "Who looks after the databases this week?",
     "Bob looks after the databases and is on call in odd weeks.", "success"),
    (26.1, "release-36", "May I deploy checkout on Friday at 16:00?",
     "No: no deployments on Fridays after 14:00 UTC.", "success"),
    (25.2, "page-3146", "Mail is slow. What now?",
     "Mail has two providers; the second takes over on a timeout.", "success"),
    (23.6, "handover-23", "What happened yesterday?", "I find nothing of yesterday in the log.", "failure"),
    (22.4, "page-3168", "Search shows nothing. What do I do?",
     "Search falls back to the catalogue table when its index is rebuilding: set search.fallback on.", "success"),
    (22.3, "page-3168", "Is the index of search rebuilding now?", "I cannot see that: look at the search dashboard.",
     "success"),
    (21.1, "page-3177", "Checkout is slow again. What do we know?",
     "Last time it was Redis: the carts of checkout had an expiry of 30 days. Today Redis CPU is at 35 %, so look at payments.",
     "success"),
    (19.8, "page-3185", "The billing queue stands still. What is the first step?",
     "Peek at the head of the queue, then move the stuck job to the dead letters.", "success"),
    (18.3, "release-39", "When may I roll back without asking?",
     "Roll back once a release has burned 5 % of the month's budget.", "success"),
    (16.5, "page-3198", "A page is twenty minutes old and nothing moves. What now?", "Page the second person.",
     "success"),
    (13.4, "handover-13", "What needs an eye tonight?",
     "Nothing is open. Mail has two providers; the second takes over on a timeout.", "success"),
    (12.6, "page-3211", "Search shows nothing since ten. What do I do?",
     "Search falls back to the catalogue table when its index is rebuilding: set search.fallback on, then check a query.",
     "success"),
    (11.3, "release-41", "May I deploy checkout on Friday at 15:00?",
     "No: no deployments on Fridays after 14:00 UTC. Monday at nine is free.", "success"),
    (10.2, "page-3229", "Replica eu-2 lags. Which one do I promote?",
     "I do not know the topology of eu-2. Read it first; then promote the replica with the least lag.", "failure"),
    (9.0, "page-3240", "How do I free the billing queue from a stuck job?",
     "Three steps:\n1. Peek at the head of the queue.\n2. Move the job to the dead letters.\n3. Watch the queue drain.",
     "success"),
    (8.7, "page-3240", "Who looks after the databases this week?",
     "Bob looks after the databases and is on call in odd weeks.", "success"),
    (7.8, "handover-8", "Sum up the night, please.",
     "One page: the billing queue, freed at 02:40 UTC. Job 99182 waits in the dead letters.", "success"),
    (6.9, "page-3262", "How long do carts of checkout live?",
     "The carts of checkout expire after 30 minutes.", "success"),
    (6.4, "page-3266", "When may I roll back without asking?",
     "Roll back once a release has burned 5 % of the month's budget.", "success"),
    (5.6, "planning-queue", "Why do we leave Redis for the billing queue?",
     "One store fewer at night, and dead letters can be queried.", "success"),
    (5.0, "queue-migration", "What did we decide about the billing queue?",
     "The billing queue moves from Redis to PostgreSQL by December.", "success"),
    (4.2, "page-3281", "Mail is slow. When does the second provider take over?",
     "60 seconds after the first error.", "failure"),
    (3.5, "page-3288", "Show me the last deployments of search.",
     "Run `deploys last search`: it shows the last five deployments with their authors.", "success"),
    (3.1, "page-3290", "A page is twenty minutes old and nothing moves. What now?",
     "Page the second person.", "success"),
    (2.4, "release-44", "Did the payment timeout of 4 seconds help?",
     "No: threads piled up behind slow payments, and it was set back to 2 seconds after a day.", "success"),
    (2.051, "page-3296", "Mail stood still for a minute and a half before the second provider took over. Is that right?",
     "Yes: the timeout of the failover went from 60 to 90 seconds on Monday.", "success"),
    (1.8, "handover-2", "Who is on call next week?",
     "Alice leads the platform team and is on call in even weeks.", "success"),
    (1.1, "page-3301", "Should we partition order_events or archive first?",
     "Archive first if the disk is short; partition by month this week.", "success"),
    (0.9, "page-3301", "How large is order_events?",
     "410 GB of 780, without partitions.", "success"),
    (0.4, "handover", "What happened yesterday?", "Disk of orders-1 reached 91 %; the volume was extended by 100 GB.",
     "success"),
)  # fmt: skip
"""Days ago, session, the agent's input, its answer, and the outcome that it reported."""

EXPECTATIONS: tuple[dict[str, str], ...] = (
    {"question": "May I deploy checkout on Friday at 15:00?", "requirement": "present", "target": "text",
     "text": "No deployments on Fridays after 14:00 UTC.", "reason": "Two Friday releases cost a weekend each."},
    {"question": "How long do carts of checkout live?", "requirement": "absent", "target": "text",
     "text": "expire after 24 hours", "reason": "The expiry was changed; the old one led us astray."},
    {"question": "Drop the old orders table.", "requirement": "present", "target": "section",
     "section": "identity.boundaries", "reason": "Its boundaries are in every prompt, whole."},
)  # fmt: skip
