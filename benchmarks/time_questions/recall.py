"""Recall of what was decided, learnt and done at a time: python -m benchmarks.time_questions.recall

60 decisions, facts and episodes lie on four days, among as many of other days. Each question names a time and a type,
in four languages, and no word of them; recall@10 is the share of those of that time and type among the first ten of a
search. A second number asks with a topic: the one memory of that time and topic.
"""

import statistics
from datetime import UTC, datetime, timedelta

from benchmarks.system import system

NOW = datetime(2026, 1, 14, 15, 30, tzinfo=UTC)
"""A Wednesday."""
DAYS = {
    "today": NOW - timedelta(hours=3),
    "last week": NOW - timedelta(days=7),
    "18 March": datetime(2025, 3, 18, 9, tzinfo=UTC),
    "yesterday": NOW - timedelta(days=1),
}
OTHER_DAYS = [NOW - timedelta(days=days) for days in (20, 45, 70, 120, 200)]
ASKED = {
    ("decision", "today"): (
        "What did I decide today?",
        "Was habe ich heute entschieden?",
        "Qu'ai-je décidé aujourd'hui ?",
        "¿Qué decidí hoy?",
    ),
    ("decision", "last week"): (
        "What did we decide last week?",
        "Was haben wir letzte Woche entschieden?",
        "Qu'avons-nous décidé la semaine dernière ?",
        "¿Qué decidimos la semana pasada?",
    ),
    ("decision", "18 March"): (
        "What was decided on 18 March?",
        "Was wurde am 18. März entschieden?",
        "Qu'avons-nous décidé le 18 mars ?",
        "¿Qué decidimos el 18 de marzo?",
    ),
    ("decision", "yesterday"): (
        "What did I decide yesterday?",
        "Was habe ich gestern entschieden?",
        "Qu'ai-je décidé hier ?",
        "¿Qué decidí ayer?",
    ),
    ("fact", "today"): (
        "What did you learn today?",
        "Was hast du heute gelernt?",
        "Qu'as-tu appris aujourd'hui ?",
        "¿Qué aprendiste hoy?",
    ),
    ("fact", "last week"): (
        "What did you learn last week?",
        "Was hast du letzte Woche gelernt?",
        "Qu'as-tu appris la semaine dernière ?",
        "¿Qué aprendiste la semana pasada?",
    ),
    ("fact", "18 March"): (
        "What did you learn on 18 March?",
        "Was hast du am 18. März gelernt?",
        "Qu'as-tu appris le 18 mars ?",
        "¿Qué aprendiste el 18 de marzo?",
    ),
    ("fact", "yesterday"): (
        "What did you learn yesterday?",
        "Was hast du gestern gelernt?",
        "Qu'as-tu appris hier ?",
        "¿Qué aprendiste ayer?",
    ),
    ("episode", "today"): (
        "What did we do today?",
        "Was haben wir heute gemacht?",
        "Qu'avons-nous fait aujourd'hui ?",
        "¿Qué hicimos hoy?",
    ),
    ("episode", "last week"): (
        "What happened last week?",
        "Was ist letzte Woche passiert?",
        "Que s'est-il passé la semaine dernière ?",
        "¿Qué pasó la semana pasada?",
    ),
    ("episode", "18 March"): (
        "What happened on 18 March?",
        "Was ist am 18. März passiert?",
        "Que s'est-il passé le 18 mars ?",
        "¿Qué pasó el 18 de marzo?",
    ),
    ("episode", "yesterday"): (
        "What did we do yesterday?",
        "Was haben wir gestern gemacht?",
        "Qu'avons-nous fait hier ?",
        "¿Qué hicimos ayer?",
    ),
}
THINGS = [
    "amber bridge",
    "cedar fence",
    "harbour crane",
    "maple syrup",
    "tin roof",
    "sailing course",
    "choir concert",
    "apple press",
    "clay oven",
    "night bus",
    "stone wall",
    "garden pump",
    "library card",
    "train ticket",
    "window frame",
    "beehive lid",
    "copper kettle",
    "ski pass",
    "paper mill",
    "rowing boat",
]
TOPICS = [
    f"{thing} of {place}" for place in ["Graz", "Lille", "Porto", "Turku", "Ghent", "Brno", "Cork"] for thing in THINGS
]
"""Each is of one memory."""
SAID = {"decision": "Order a new {}.", "fact": "The {} costs {} crowns.", "episode": "Repair of the {}"}


def main() -> None:
    recalled: dict[str, list[float]] = {"time alone": [], "time and topic": []}
    with system() as running:
        running.agent("diary")
        from context.engine.analysis.agent_time import agent_time_read, zone_of
        from identity.models import Agent
        from identity.principal import Principal
        from memory.models import GLOBAL
        from memory.persona import ActorMemory
        from memory.search.request import SearchRequest
        from memory.search.search import search
        from memory.services.decisions import decision_record
        from memory.services.episodes import episode_close, episode_open
        from memory.services.facts.learn import fact_learn
        from memory.services.search_index.row_embedding import embed_pending_rows
        from nousweb.lib import clock

        agent, by = Agent.objects.get(slug="diary"), Principal.of_system("benchmark")
        topics, prices = iter(TOPICS), iter(range(20, 2_000, 7))
        kept: dict[tuple[str, str], dict[str, str]] = {}
        for day, moment in (*DAYS.items(), *(("", moment) for moment in OTHER_DAYS)):
            for type_name in SAID:
                for number in range(5):
                    topic = next(topics)
                    text = SAID[type_name].format(topic, next(prices))
                    with clock.at(moment + timedelta(minutes=number)):
                        if type_name == "decision":
                            made = decision_record(agent=agent, description=text, by=by)
                        elif type_name == "fact":
                            made = fact_learn(agent=agent, content=text, category="technical", by=by).fact
                        else:
                            made = episode_open(agent=agent, title=text, by=by)
                            episode_close(episode=made, summary=f"{text} took an hour.", by=by)
                    if day:
                        kept.setdefault((type_name, day), {})[topic] = str(made.pk)
        embed_pending_rows()
        agent.config["language"] = "xx"
        agent.save()
        view = ActorMemory(agent)

        def first_ten(text: str) -> list[str]:
            with clock.at(NOW):
                read = agent_time_read(view, text, GLOBAL, now=NOW, zone=zone_of(agent))
                found = search(view, SearchRequest(text, GLOBAL, period=read.period, limit=10, now=NOW))
            return [hit.id for hit in found.items]

        for (type_name, day), texts in ASKED.items():
            own = kept[type_name, day]
            for text in texts:
                found = first_ten(text)
                recalled["time alone"].append(len(set(found) & set(own.values())) / len(own))
            for topic, key in own.items():
                text = f"{texts[0][:-1]} about the {topic}?"
                recalled["time and topic"].append(float(key in first_ten(text)[:3]))
    for name, values in recalled.items():
        print(f"{name}: {statistics.mean(values):.3f} of {len(values)} questions")


if __name__ == "__main__":
    main()
