"""Facts whose answers change, asked at each date: python -m benchmarks.changing_facts

100 things of several domains change a value once or twice within a year: by valid times, by later facts, by facts that
say "currently" or "now", by dates in their text; or their value only grows old. Each is asked for on each date, when it
is that date ("live"), and at the end as of that date. As questions of SituatedQA do, a prompt answers right if it has
the value of that date, and if no line tells an older value, or one that soon changes, without a day or a mark.
"""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, pairwise
from typing import Any

from benchmarks.system import system

DATES = [datetime(2025, month, 5, 9, tzinfo=UTC) for month in (1, 3, 5, 7, 9, 11)]
NAMES = (
    "Aldona Brunk Cesar Dagmar Edvin Fiorella Gaspard Hedda Ismael Jolanda Kasimir Leonie Marek Ninette Oskar Petronela"
    " Quirin Rosalba Sigurd Tamara Ulrike Valerio Wanda Xenia Yorick Zdenka Amadeo Birgit Cosmo Delphine Emeric Fabiola"
    " Gunther Hortense Ilario Jarmila Kornel Lubomir Mireille Nestor Odette Pascual Renske Svante Tilda Ubaldo Violeta"
    " Wilmar Ysolde Zeno Adalbert Bettina Corrado Dorota Eulalia Ferenc Gisela Hannes Ingrid Jerzy Katalin Ludovic"
)
PLACES = "Graz Lille Porto Turku Ghent Bergen Trento Aarhus Kassel Vilnius Brno Malaga Cork Leiden Tampere Split"
THINGS = (
    "amber basalt cedar dahlia ember fennel garnet heron indigo juniper kelp lotus maple nettle onyx poppy quartz rowan"
    " saffron thistle umber violet willow yarrow zinnia"
)
MARKED = re.compile(r"- \((?:as of|contested|older)|\d{4}-\d\d|\b(?:19|20)\d\d\b")
"""A line with one of these says of when it is."""


@dataclass(frozen=True)
class Thing:
    """`told`: what is told on which of the dates: value, text and fields. `asked`: the question."""

    kind: str
    asked: str
    told: dict[int, tuple[str, dict[str, Any]]]

    def value(self, date: int) -> str:
        return self.told[max(at for at in self.told if at <= date)][0]

    def older(self, date: int) -> set[str]:
        return {value for at, (value, _) in self.told.items() if at <= date} - {self.value(date)}


def things() -> Iterator[Thing]:
    """100 things with their values, each of which is a word or a number that nothing else has."""
    names, places = iter([*NAMES.split(), *(f"{name}ova" for name in NAMES.split())]), cycle(PLACES.split())
    numbers = iter(range(4101, 9999, 37))
    turns = cycle([(0, 2), (0, 3), (0, 1, 4), (1, 3), (0, 2, 5)])
    for thing, when in zip(THINGS.split(), turns, strict=False):
        values = list(islice(names, len(when)))
        spans = [*pairwise(when), (when[-1], None)]
        told = {
            at: (value, {
                "content": f"The director of {thing.title()} Foods is {value}.",
                "valid_from": DATES[at],
                "valid_until": None if end is None else DATES[end],
            })
            for value, (at, end) in zip(values, spans, strict=True)
        }  # fmt: skip
        yield Thing("valid time", f"Who is the director of {thing.title()} Foods?", told)
    for thing, when in zip(THINGS.split(), turns, strict=False):
        told = {
            at: (str(value), {"content": f"The default port of the {thing} service is {value}."})
            for at, value in zip(when, numbers, strict=False)
        }
        yield Thing("update", f"What is the default port of the {thing} service?", told)
    for thing, when in zip(THINGS.split(), turns, strict=False):
        hall = next(places)
        texts = (f"Currently the {thing} choir of {hall} meets in room {{}}.",
                 f"The {thing} choir of {hall} now meets in room {{}}.")  # fmt: skip
        told = {
            at: (str(value), {"content": text.format(value)})
            for at, value, text in zip(when, numbers, cycle(texts), strict=False)
        }
        yield Thing("currently", f"In which room does the {thing} choir of {hall} meet?", told)
    for thing in THINGS.split()[:10]:
        one, other = islice(numbers, 2)
        told = {0: (str(one), {"content": f"The gate code of {thing} depot is {one} until 2025-04-30, then {other}."})}
        told[2] = (str(other), {})
        yield Thing("dates in the text", f"What is the gate code of {thing} depot?", told)
    for thing in THINGS.split()[:15]:
        value = next(numbers)
        told = {0: (str(value), {"content": f"The status of pump {thing} is error {value}."})}
        yield Thing("grows old", f"What is the status of pump {thing}?", told)


def main() -> None:
    every = list(things())
    with system() as running:
        running.agent("changing")
        from context.engine.analysis.request import ContextRequest
        from context.services.context import context_assemble
        from identity.models import Agent, ApiToken
        from identity.principal import Principal
        from memory.services.facts.learn import fact_learn
        from memory.services.search_index.row_embedding import embed_pending_rows
        from nousweb.lib import clock

        agent = Agent.objects.get(slug="changing")
        by = Principal.of_token(ApiToken.objects.select_related("agent").filter(agent=agent).get())
        right: dict[tuple[str, str], list[bool]] = defaultdict(list)
        faults: Counter[tuple[str, str]] = Counter()
        tokens: list[int] = []

        def ask(thing: Thing, date: int, way: str, as_of: datetime | None) -> None:
            if date < min(thing.told):
                return
            record = context_assemble(ContextRequest("s", thing.asked, as_of=as_of), agent=agent, by=by)
            tokens.append(record.tokens)
            lines = record.system_prompt.split("\n")
            has = any(re.search(rf"\b{thing.value(date)}\b", line) for line in lines)
            bare = [
                line
                for line in lines
                if not MARKED.search(line) and any(re.search(rf"\b{value}\b", line) for value in thing.older(date))
            ]
            if thing.kind == "grows old" and date:
                bare += [
                    line for line in lines if re.search(rf"\b{thing.value(date)}\b", line) and not MARKED.search(line)
                ]
            faults[thing.kind, "value missing"] += not has
            faults[thing.kind, "older value unmarked"] += bool(bare)
            right[thing.kind, way].append(has and not bare)

        for date, moment in enumerate(DATES):
            with clock.at(moment):
                for thing in every:
                    if fields := thing.told.get(date, ("", {}))[1]:
                        fact_learn(agent=agent, by=by, category="technical", **fields)
                embed_pending_rows()
            with clock.at(moment + timedelta(hours=8)):
                for thing in every:
                    ask(thing, date, "live", None)
        for date, moment in enumerate(DATES):
            for thing in every:
                ask(thing, date, "as of", moment + timedelta(hours=8))
    for (kind, way), answers in sorted(right.items()):
        print(f"{kind:18} {way:6} right {sum(answers):4} of {len(answers):4}")
    every_answer = [answer for answers in right.values() for answer in answers]
    print(f"all {sum(every_answer) / len(every_answer):.3f} of {len(every_answer)} questions; faults: {dict(+faults)}")
    print(f"tokens of a prompt: {statistics.mean(tokens):.1f}")


if __name__ == "__main__":
    main()
