"""How much of a prompt is, byte for byte, the beginning of the prompt before it: what a model's cache can keep.

    python -m benchmarks.prompt_prefix [TURNS]

A conversation of 50 turns whose questions change the frame. Between the turns the agent records events and decisions,
learns and confirms facts and reports its answers, and people confirm facts, review decisions and resolve reviews. The
script uses no endpoint and no field of the blocks, so that it runs on older versions too.
"""

import statistics
import sys
from itertools import takewhile

from benchmarks.system import Client, System, system

CHARACTER = "You are the assistant of a shipping office. " + "You answer in short words and name your sources.\n" * 40
QUESTIONS = (
    "Which depot got parcel {n}?",
    "Should we choose the night train or the truck for parcel {n}? We decided about it once.",
    "Fix the export of depot {n}, which fails with an error.",
    "Hello again!",
    "Which tea is Tim's ration?",
    "Write the note to the driver of truck {n} and update the plan.",
    "What did Tim say about gate {n} last week?",
    "Imagine a better name for gate {n}.",
)
PREFERENCES = (
    "Tim prefers tea to coffee.", "Tim writes dates as day, month, year.", "Tim lives in Lisbon.",
    "Tim's working day ends at six.", "Tim prefers short answers.", "Ann is Tim's deputy.",
    "Ann prefers calls to mail.", "Invoices are written in euros.", "Nothing is shipped on Sundays.",
    "Tim likes maps with the north on top.", "Ann speaks Portuguese.", "The office is closed in August.",
)  # fmt: skip
LIMITS = {"default": {}, "900 tokens": {"budget": 900}, "600 tokens": {"budget": 600}, "one frame": {"frame": "task"}}


def between(client: Client, slug: str, turn: int, answer: dict) -> None:
    """What happens after a turn."""
    from django.contrib.auth import get_user_model

    from identity.principal import Principal
    from memory.models import Decision, Fact, MemoryReview
    from memory.services.decisions import decision_review
    from memory.services.facts import fact_confirm, fact_edit
    from memory.services.reviews.resolve import review_resolve

    by = Principal.of_system("benchmark")
    client.post(f"/context/{answer['id']}/response", {"response": f"Parcel {turn}. {answer['system_prompt'][-200:]}"})
    said = {"kind": "user_input", "content": f"Parcel {turn} is late.", "loop_id": "talk"}
    client.post("/events", {"events": [said]})
    facts = Fact.objects.current().filter(agent__slug=slug, category="preference").order_by("recorded_at", "id")
    fact = facts[turn * 5 % len(facts)]
    step = turn % 6
    if step == 0:
        fact_confirm(fact=fact, by=by)
    elif step == 1:
        client.post("/decisions", {"description": f"Send parcel {turn} by night train.", "confidence": 0.8})
    elif step == 2:
        client.post("/facts", {"content": fact.content, "category": "preference"})
    elif step == 3:
        decision = Decision.objects.filter(agent__slug=slug, outcome="").order_by("created_at").first()
        if decision is not None:
            decision_review(decision=decision, outcome="success", by=by)
    elif step == 4:
        # What the daily upkeep does to facts that nobody has confirmed for long.
        fact_edit(fact=fact, confidence=round(max(fact.confidence - 0.05, 0.1), 4), by=by)
    else:
        content = f"The substrate of depot {turn % 9} is gravel {turn}."
        client.post("/facts", {"content": content, "category": "technical"})
    if turn % 17 == 16:
        sure = {"confidence": 0.4 + turn / 100}
        client.post("/facts", {"content": f"Tim likes depot {turn} best.", "category": "preference", **sure})
    if turn == 8:
        client.post("/facts", {"content": "Tim's ration is Assam tea.", "category": "preference"})
        client.post("/facts", {"content": "Tim's ration is Ceylon tea.", "category": "technical"})
    review = MemoryReview.objects.filter(agent__slug=slug, status="pending").order_by("created_at").first()
    if turn % 20 == 19 and review is not None:
        users = get_user_model().objects
        person = users.filter(username="reviewer").first() or users.create_superuser("reviewer")
        review_resolve(review=review, resolution="both", by=Principal.of_user(person))


def measured(running: System, name: str, limits: dict, turns: int) -> None:
    """Print the shares of one conversation."""
    slug = "prefix-" + name.replace(" ", "-")
    client = running.agent(slug, prompt=CHARACTER)
    for place, content in enumerate(PREFERENCES):
        sure = {"confidence": 0.5 + place * 7 % 12 / 30}
        client.post("/facts", {"content": content, "category": "preference", **sure})
    for pattern in ("payroll", "drop table"):
        client.post("/censors", {"pattern": pattern, "severity": "warn", "reason": "So decided."})
    stable_shares, shares, whole, tokens = [], [], 0, []
    before = ""
    for turn in range(turns):
        asked = {"session_id": "talk", "input": QUESTIONS[turn * 3 % len(QUESTIONS)].format(n=turn % 9), **limits}
        answer = client.post("/context", asked)
        prompt = answer["system_prompt"]
        if before:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, prompt, strict=False)))
            stable = prompt.index("\n\n## Current Frame")
            stable_shares.append(min(same, stable) / stable)
            whole += same >= stable
            shares.append(same / len(prompt))
        before = prompt
        tokens.append(answer["tokens"])
        between(client, slug, turn, answer)
        running.embed_all()
    print(
        f"{name}: same prefix {statistics.mean(stable_shares):.3f} of the stable part ({whole} of {turns - 1} whole), "
        f"{statistics.mean(shares):.3f} of the prompt; {statistics.mean(tokens):.0f} tokens on average",
        flush=True,
    )


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with system() as running:
        for name, limits in LIMITS.items():
            measured(running, name, limits, turns)


if __name__ == "__main__":
    main()
