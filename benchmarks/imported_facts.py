"""Facts as agents keep them, for measurements: the same for the same number, of as many subjects as they need.

A subject (a person, or a system of theirs) has about twenty facts, in the order of their dates mixed with those of the
others. Each is of another kind, until a subject has one of each of the kinds that it may have several of. Of a hundred
facts one repeats a sentence of before, one tells a newer value, and one says in other words what was said of before.
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SEED = 22
FACTS_PER_SUBJECT = 20
BEGIN = datetime(2023, 1, 1, tzinfo=UTC)
MINUTES = 3 * 365 * 24 * 60

WORDS = {
    "first": "Ada Bela Carla Dario Edith Farid Greta Hugo Ines Jonas Kira Luis Mara Nils Olga Pedro Quinn Rosa"
    " Samir Tessa Umar Vera Wanda Xenia Yusuf Zoe Arne Birgit Cyril Dunja Emil Fiona Goran Helga Igor Jana"
    " Karim Lotte Milan Nadia",
    "last": "Abel Brandt Castro Dahl Eriksen Fuchs Garcia Holm Ivanov Jansen Kowalski Lindgren Moreau Novak"
    " Okafor Petrov Quist Rossi Schmid Tanaka Ueda Varga Weiss Xu Yilmaz Zeman Albrecht Bauer Conti Duarte"
    " Eklund Ferrari Gruber Hansen Ito Jovanovic Kramer Laurent Marino Nagy Olsen Pereira Rahman Sato"
    " Torres Urban Vogel Wagner Young Zimmer",
    "city": "Lisbon Jena Kyoto Quito Dakar Hobart Galway Bergen Cusco Tartu Perth Izmir Nantes Porto Riga Oran"
    " Leeds Turin Bari Ghent Split Kazan Lviv Kiruna Basel Graz Brno Vigo Osaka Tunis Accra Lagos Nairobi"
    " Lima Bogota Austin Denver",
    "job": "nurse carpenter editor surveyor chemist baker translator pilot librarian plumber architect florist"
    " midwife accountant geologist tailor welder teacher painter optician",
    "team": "billing platform search mobile payments onboarding security data design support growth compliance",
    "tool": "Grafana Terraform Kafka Redis Jenkins Figma Ansible Vault Airflow Snowflake Datadog Sentry Nomad Consul",
    "language": "Portuguese Finnish Arabic Welsh Hungarian Swahili Korean Basque Turkish Polish Danish Catalan",
    "food": "lentils mushrooms herring rhubarb dumplings paprika olives kimchi quinces buckwheat chestnuts fennel",
    "hobby": "fencing pottery rowing birdwatching chess bookbinding archery calligraphy sailing juggling"
    " beekeeping choir",
    "thing": "lantern cello kettle compass sledge wardrobe telescope anvil clock ladder saddle violin barrel"
    " mirror tent loom bench stove globe drum map bell canoe bicycle tandem accordion microscope",
    "colour": "red green grey blue white black yellow brown orange purple silver copper",
    "month": "January February March April May June July August September October November December",
    "weekday": "Monday Tuesday Wednesday Thursday Friday",
    "noun": "Otter Falcon Juniper Basalt Comet Harbor Meadow Quartz Saffron Tundra Willow Zephyr Anchor Beacon Cobalt",
    "kind": "importer scheduler gateway exporter indexer notifier renderer ledger crawler broker planner archive",
    "region": "Frankfurt Dublin Oregon Mumbai Tokyo Stockholm Sydney Montreal",
    "bug": "timeouts duplicates deadlocks rounding drift retries truncation flicker throttling leaks",
    "book": "gardening navigation geometry cooking astronomy forestry typography weaving medicine glaciers",
}
CHOICES = {name: words.split() for name, words in WORDS.items()}

ONE_OF_PERSON = [
    "{s} lives in {city}.",
    "{s} works as a {job}.",
    "{s} was born in {month} {year}.",
    "{s}'s manager is {person}.",
    "{s} belongs to the {team} team.",
    "{s} prefers meetings on {weekday} at {hour}:00.",
    "{s}'s desk number is {number}.",
    "{s} grew up near {city}.",
    "{s} studied {book} at the university of {city}.",
    "{s}'s favourite colour is {colour}.",
    "{s} drives a {colour} van.",
    "{s} is married to {person}.",
    "{s}'s shoe size is {size}.",
]
MANY_OF_PERSON = [
    "{s} speaks {language}.",
    "{s} cannot stand {food}.",
    "{s} took up {hobby} in {month} {year}.",
    "{s} bought a {colour} {thing} in {city}.",
    "{s} lent the {thing} to {person}.",
    "{s} visited {city} in {month} {year}.",
    "{s} read a book about {book} by {person}.",
    "{s} asked how to set up {tool} for the {team} team.",
    "{s} met {person} at the fair in {city}.",
    "{s} repaired a {thing} together with {person}.",
    "{s} presented the {noun} {kind} in {month} {year}.",
    "{s} complained about {bug} in {tool}.",
    "{s} won the {hobby} contest of {city} in {year}.",
    "{s} donated a {colour} {thing} to the school in {city}.",
    "{s} wants a reminder about the {book} course in {month}.",
    "{s} reviewed change {number} of the {noun} {kind}.",
]
ONE_OF_SYSTEM = [
    "{s} runs in {region}.",
    "{s} is owned by the {team} team.",
    "{s} stores its data in {tool}.",
    "{s} is deployed every {weekday}.",
    "{s} listens on port {number}.",
    "The owner of {s} is {person}.",
    "{s} keeps logs for {size} days.",
    "{s} was started in {month} {year}.",
    "The budget of {s} is {number} euros a month.",
]
MANY_OF_SYSTEM = [
    "{s} had {bug} in {month} {year} after the update of {tool}.",
    "{person} fixed {bug} of {s} in {month} {year}.",
    "{s} sends reports to the {team} team on {weekday}.",
    "{s} reads from the {noun} {kind}.",
    "Ticket {number} asks {s} to support {language}.",
    "{s} failed over to {region} in {month} {year}.",
    "{person} asked for access to {s} in {month} {year}.",
    "{s} was tested with {number} requests by {person}.",
    "{s} writes metrics for {tool} since {month} {year}.",
    "The {team} team wants to replace {tool} in {s}.",
]
IN_OTHER_WORDS = {
    "{s} lives in {city}.": "The home of {s} is in {city}.",
    "{s} works as a {job}.": "{s} earns a living as a {job}.",
    "{s} cannot stand {food}.": "{s} dislikes {food} very much.",
    "{s} runs in {region}.": "{region} is where {s} runs.",
}
NEWER = {
    "{s} lives in {city}.": "{s} now lives in {city}.",
    "{s}'s manager is {person}.": "{s}'s manager is now {person}.",
    "{s} belongs to the {team} team.": "{s} has moved to the {team} team.",
    "{s} runs in {region}.": "{s} now runs in {region}.",
    "{s} is owned by the {team} team.": "{s} is now owned by the {team} team.",
}


def facts(count: int, seed: int = SEED) -> Iterator[tuple[str, str]]:
    """So many facts, each the name of its subject and a sentence."""
    dice = random.Random(seed)
    subjects = [_subject(dice, number) for number in range(max(1, count // FACTS_PER_SUBJECT))]
    left: dict[str, list[str]] = {}
    said: list[tuple[str, str, dict[str, Any]]] = []
    for _ in range(count):
        lot = dice.random()
        if said and lot < 0.03:
            name, template, values = dice.choice(said)
            if lot < 0.01:
                yield name, template.format(**values)
                continue
            others = NEWER if lot < 0.02 else IN_OTHER_WORDS
            if template in others:
                yield name, others[template].format(**(_values(dice, name) if lot < 0.02 else values))
                continue
        name, is_person = dice.choice(subjects)
        if not left.get(name):
            one = () if name in left else ONE_OF_PERSON if is_person else ONE_OF_SYSTEM
            left[name] = [*one, *(MANY_OF_PERSON if is_person else MANY_OF_SYSTEM)]
            dice.shuffle(left[name])
        template = left[name].pop()
        values = _values(dice, name)
        said.append((name, template, values))
        yield name, template.format(**values)


def facts_file(path: Path, count: int) -> None:
    """Facts as mem0 exports its memories."""
    dice = random.Random(SEED)
    with path.open("w") as file:
        file.write('{"results": [\n')
        for number, (subject, sentence) in enumerate(facts(count)):
            moment = BEGIN + timedelta(minutes=MINUTES * number / count + dice.random())
            memory = {
                "id": f"memory-{number}",
                "memory": sentence,
                "user_id": subject,
                "created_at": moment.isoformat(),
            }
            file.write(json.dumps(memory) + (",\n" if number < count - 1 else "\n"))
        file.write("]}\n")


def _subject(dice: random.Random, number: int) -> tuple[str, bool]:
    """The name of one that no other number has, and whether it is a person."""
    if number % 4:
        number -= number // 4 + 1
        first, last = CHOICES["first"], CHOICES["last"]
        turn, place = divmod(number, len(first) * len(last))
        middle = f" {CHOICES['noun'][turn % 15]}" if turn else ""
        return f"{first[place % len(first)]}{middle} {last[(place // len(first) + place) % len(last)]}", True
    number //= 4
    kinds, nouns = CHOICES["kind"], CHOICES["noun"]
    turn, place = divmod(number, len(kinds) * len(nouns))
    version = f" {turn + 1}" if turn else ""
    return f"{nouns[place % len(nouns)]} {kinds[(place // len(nouns)) % len(kinds)]}{version}", False


def _values(dice: random.Random, name: str) -> dict[str, Any]:
    drawn: dict[str, Any] = {key: dice.choice(words) for key, words in CHOICES.items()}
    person = f"{dice.choice(CHOICES['first'])} {dice.choice(CHOICES['last'])}"
    numbers = {"year": dice.randint(1960, 2025), "hour": dice.randint(8, 17), "size": dice.randint(20, 90)}
    return drawn | numbers | {"s": name, "person": person, "number": dice.randint(1_000, 99_999)}
