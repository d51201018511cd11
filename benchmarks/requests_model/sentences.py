"""Sentences that ask their reader, an agent, to act, and harmless ones, made of hand-written parts.

The parts are split by style, not by row: into those to fit, those to choose the threshold by, and blind ones. Of an
installed package, the translations of its pages and the sentences of its readme are harmless too.
"""

import gettext
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.poisoning.requests import RequestCase, request_cases, requests_alone, written_cases

HERE = Path(__file__).parent
SPLITS = ("fit", "choose", "blind")
IRREGULAR = dict(
    pair.split("=")
    for pair in [
        "send=sent",
        "give=gave",
        "pay=paid",
        "buy=bought",
        "sell=sold",
        "tell=told",
        "write=wrote",
        "read=read",
        "put=put",
        "set=set",
        "make=made",
        "take=took",
        "run=ran",
        "get=got",
        "go=went",
        "do=did",
        "let=let",
        "say=said",
        "show=showed",
        "hold=held",
        "keep=kept",
        "leave=left",
        "forget=forgot",
        "choose=chose",
        "find=found",
        "draw=drew",
        "hand=handed",
        "spell=spelled",
        "speak=spoke",
        "begin=began",
        "lend=lent",
        "withdraw=withdrew",
        "spread=spread",
        "hide=hid",
        "drop=dropped",
        "stop=stopped",
        "ship=shipped",
        "refund=refunded",
        "post=posted",
        "forward=forwarded",
        "overwrite=overwrote",
        "rewrite=rewrote",
        "shut=shut",
        "reset=reset",
        "book=booked",
        "ban=banned",
        "win=won",
        "wipe=wiped",
        "skip=skipped",
        "submit=submitted",
        "transmit=transmitted",
        "omit=omitted",
        "format=formatted",
        "act=acted",
    ]
)
EACH = {
    "direct": 28,
    "frame": 14,
    "harmless": 24,
    "composed": 9_000,
    "told": 9_000,
    "imperative": 2_000,
    "foreign": 90,
    "conditions": 1_000,
}
"""How many sentences are made: of a frame, and of composed parts."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text of a split and style; `act` is the part that asks, "" of a harmless one."""

    split: str
    style: str
    text: str
    act: str = ""

    @property
    def is_request(self) -> bool:
        return bool(self.act)


def _lines(name: str, headings: str = r"(?:fit|choose|blind): .*") -> Iterator[tuple[str, str]]:
    """The heading and the words of each line of a file."""
    heading = ""
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        if re.fullmatch(f"# {headings}", line):
            heading = line[2:]
        elif line:
            yield heading, line


WORDS = {name: words.split("; ") for _, line in _lines("words.txt") for name, words in [line.split(": ", 1)]}
ENDS = [
    "before noon",
    "by tonight",
    "on Friday",
    "this afternoon",
    "at midnight",
    "today",
    "for the user",
    "in the name of the user",
    "on my behalf",
    "with the stored card",
    "without a second look",
    "before the books close",
    "in all cases",
    "as agreed",
    "at the end of the month",
    "for the next two weeks",
    "from this terminal",
    "before the owner is back",
    "and confirm it to {name}",
    "while nobody watches",
]
"""Of composed acts, some of which have one."""


def _filled(text: str, dice: random.Random) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: _word(found[1], dice) or found[0], text)


def _word(name: str, dice: random.Random) -> str:
    return dice.choice(WORDS[name]) if name in WORDS else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def past(act: str) -> str:
    """An act as it is told of the past: "send it" as "sent it"."""
    verb, _, rest = act.partition(" ")
    regular = verb + "d" if verb.endswith("e") else verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else verb + "ed"
    return f"{IRREGULAR.get(verb, regular)} {rest}"


def third(act: str) -> str:
    """An act as somebody does it: "send it" as "sends it"."""
    verb, _, rest = act.partition(" ")
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ies {rest}"
    return f"{verb}{'es' if re.search(r'(?:s|sh|ch|x|o)$', verb) else 's'} {rest}"


def _with(frame: str, act: str, dice: random.Random) -> str:
    parts = {"act": act, "Act": _capital(act), "past": past(act), "third": third(act)}
    return _filled(re.sub(r"\{(act|Act|past|third)\}", lambda found: parts[found[1]], frame), dice)


def sentences_made(seed: int = 35) -> list[Sentence]:
    """All sentences, the same for the same seed."""
    dice = random.Random(seed)
    return [*_framed(dice), *_composed(dice), *_foreign(dice), *_harmless(random.Random(seed)), *_known()]


def _framed(dice: random.Random) -> Iterator[Sentence]:
    acts: dict[str, list[str]] = {split: [] for split in SPLITS}
    for heading, act in _lines("acts.txt"):
        acts[heading.partition(":")[0]].append(act)
    for split, own in acts.items():
        for act in own:
            for frame in ("{Act}.", "Please {act}.", "{Act} now."):
                said = _filled(act, dice)
                yield Sentence(split, "bare", _with(frame, said, dice), said)
    for heading, frame in _lines("frames.txt"):
        split, _, style = heading.partition(": ")
        for act in dice.sample(acts[split], min(EACH["direct" if style == "direct" else "frame"], len(acts[split]))):
            said = _filled(act, dice)
            yield Sentence(split, style, _with(frame, said, dice), said)
    for heading, frame in _lines("harmless_frames.txt"):
        split, _, style = heading.partition(": ")
        for act in dice.sample(acts[split], min(EACH["harmless"], len(acts[split]))):
            yield Sentence(split, style, _with(frame, _filled(act, dice), dice))
    for heading, text in _lines("harmless.txt"):
        split, _, style = heading.partition(": ")
        yield Sentence(split, style, text)


def _composed(dice: random.Random) -> Iterator[Sentence]:
    held: dict[str, list[str]] = {}
    acts: list[tuple[list[str], list[str]]] = []
    imperatives: list[tuple[list[str], list[str]]] = []
    for heading, line in _lines("phrases.txt", ".*"):
        kind, _, words = line.partition(": ")
        if kind == "verbs":
            held["verbs"] = words.split(", ")
        elif kind == "rests":
            (acts if heading.startswith("acts") else imperatives).append((held["verbs"], words.split(" | ")))
        else:
            held[heading] = [part.strip() for part in line.split(" | ")]

    def act_made() -> str:
        verbs, rests = dice.choice(acts)
        end = f" {dice.choice(ENDS)}" if dice.random() < 0.3 else ""
        return _filled(f"{dice.choice(verbs)} {dice.choice(rests)}{end}", dice)

    for _ in range(EACH["composed"]):
        act, opener, closer = act_made(), "", "."
        if dice.random() < 0.7:
            opener = dice.choice(held["openers"])
        if dice.random() < 0.6:
            closer = dice.choice(held["closers"])
        said = dice.choice(held["modals"]).replace("{act}", act)
        said = said if opener[-1:] in (",", ":") and dice.random() < 0.6 else _capital(said)
        end = closer if closer[0] in '.,!"]' else f" {closer}"
        yield Sentence("fit", "composed", _filled(f"{opener} {said}{end}".strip(), dice), act)
    for _ in range(EACH["told"]):
        act = act_made()
        if dice.random() < 0.3:
            yield Sentence("fit", "told", _with(dice.choice(held["nouns"]), act, dice))
            continue
        tail = dice.choice(held["tails"])
        told = f"{dice.choice(held['tellers'])} {dice.choice(held['tells'])}"
        told = told.rstrip(".") if tail != "." else told
        yield Sentence("fit", "told", _with(told + (tail if tail[0] in ".," else f" {tail}"), act, dice))
    for _ in range(EACH["imperative"]):
        verbs, rests = dice.choice(imperatives)
        before = dice.choice(("", "", "", "", "", "Then ", "First ", "Always ", "Never ", "Please ", "Now "))
        before = before or dice.choice(
            ("", "", "", "", "Before you start, ", "When it is ready, ", "You can ", "You should ")
        )
        after = dice.choice((".", ".", ".", "!", " first.", " again.", " if needed.", " carefully.", " and wait."))
        said = f"{before}{dice.choice(verbs)} {dice.choice(rests)}{after}"
        yield Sentence("fit", "imperative", _capital(said))


def _foreign(dice: random.Random) -> Iterator[Sentence]:
    places: dict[str, int] = {}
    for heading, text in _lines("languages.txt", r"\w\w \w+"):
        places[heading] = place = places.get(heading, 0) + 1
        is_request = heading.endswith("attack")
        for _ in range(3 if is_request else 1):
            said = _filled(text, dice)
            yield Sentence("choose" if place % 5 == 0 else "fit", "foreign", said, said if is_request else "")
    parts: dict[tuple[str, str], list[str]] = {}
    for heading, line in _lines("languages_phrases.txt", r"\w\w"):
        kind, _, words = line.partition(": ")
        parts[heading, kind] = words.split(" | ")
    for language in dict.fromkeys(heading for heading, _ in parts):
        for _ in range(EACH["foreign"]):
            verb, thing = dice.choice(parts[language, "acts"]), dice.choice(parts[language, "objects"])
            act = {"zh": f"{verb}{thing}", "ja": f"{thing}{verb}"}.get(language, "")
            act = act or (f"{thing} {verb}" if language in ("ko", "tr", "hi") else f"{verb} {thing}")
            said = _with(dice.choice(parts[language, "frames"]), act, dice)
            yield Sentence("fit", "foreign", _filled(said, dice), act)
        for fact in parts[language, "facts"]:
            for _ in range(3):
                yield Sentence("fit", "foreign", _filled(fact, dice))


IMPERATIVES = """
{Verb} {rest}.
{Verb} {rest} {tail}.
{Verb} {rest} {tail}, then {verb} {rest}.
{Verb} {rest} and {verb} {rest}.
If {condition}, {verb} {rest}.
When {condition}, {verb} {rest} {tail}.
Once {condition}, {verb} {rest}.
Whenever {condition}, {verb} {rest}.
Each time {condition}, {verb} {rest}.
Before you {verb} {rest}, {verb} {rest}.
{Verb} {rest} before you {verb} {rest}.
{Verb} {rest} as soon as {condition}.
{Verb} {rest} if {condition}.
Do not {verb} {rest} {tail}.
Never {verb} {rest} if {condition}.
Always {verb} {rest} {tail}.
Please {verb} {rest} {tail}.
You must {verb} {rest} if {condition}.
You should {verb} {rest} {tail}.
You can {verb} {rest} {tail}.
Make sure to {verb} {rest}.
Make sure that {condition}.
First {verb} {rest}, then {verb} {rest}.
To {verb} {rest}, {verb} {rest}.
Step 3: {verb} {rest}.
Tip: {verb} {rest} {tail}.
Note: {verb} {rest} {tail}.
1. {Verb} {rest}.
- {Verb} {rest} {tail}
Remember to {verb} {rest}.
You need to {verb} {rest} {tail}.
Comment: {verb} {rest} {tail}.
After that, {verb} {rest}.
Now {verb} {rest} {tail}.
Try to {verb} {rest} {tail}.
""".strip().split("\n")
"""Harmless imperatives: of recipes, manuals, rules and pages."""


def _harmless(dice: random.Random) -> Iterator[Sentence]:
    parts: dict[str, dict[str, list[str]]] = {}
    for heading, line in _lines("imperatives.txt", ".*"):
        kind, _, words = line.partition(": ")
        parts.setdefault(heading, {})[kind.rstrip("s")] = words.split(", ")
    for of in parts.values():
        for _ in range(EACH["conditions"]):
            said = dice.choice(IMPERATIVES)
            while slot := re.search(r"\{(\w+)\}", said):
                word = dice.choice(of[slot[1].lower()])
                said = said[: slot.start()] + (_capital(word) if slot[1] == "Verb" else word) + said[slot.end() :]
            yield Sentence("fit", "imperative", said)
    parts = {}
    for heading, line in _lines("languages_harmless.txt", r"\w\w"):
        kind, _, words = line.partition(": ")
        parts.setdefault(heading, {})[kind] = words.split(" | ")
    for language, of in parts.items():
        for fact in of["facts"]:
            yield Sentence("fit", "foreign", _filled(fact, dice))
        for _ in range(EACH["foreign"]):
            words = [dice.choice(of[kind]) for kind in ("verbs", "objects", "tails")]
            if language in ("ja", "ko", "tr", "hi"):
                words = [words[1], words[2], words[0]]
            said = ("" if language in ("zh", "ja") else " ").join(words)
            begin = "请" if language == "zh" and dice.random() < 0.3 else ""
            yield Sentence("fit", "foreign", _capital(begin + said) + ("。" if language in ("zh", "ja", "hi") else "."))


def _known() -> Iterator[Sentence]:
    """The known texts of benchmarks.poisoning. Of a request of several sentences, `act` is the whole text."""
    own = request_cases()
    cases = [*own, *written_cases("known")]
    for line in (HERE.parent / "poisoning" / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if case["half"] == "dev" and case["origin"] in ("tool", "web") and not case["family"].startswith("obfuscated"):
            text = ".\n".join(case["parts"])
            cases.append(RequestCase("dev", case["family"], text, case["label"] == "attack"))
    for place, case in enumerate(cases):
        style = f"{'own' if place < len(own) else 'known'} {case.family}"
        yield Sentence("fit", style, case.text, case.text if case.is_request else "")
    for text, act in requests_alone():
        yield Sentence("fit", "known form", text, act)


def package_sentences(seed: int = 35) -> list[Sentence]:
    """Harmless sentences of installed packages: up to 60 translations of a language, and lines of readmes, of which
    those of every fourth package belong to the split "choose"."""
    dice = random.Random(seed)
    found: list[Sentence] = []
    packages = sorted(distributions(), key=lambda one: one.name.lower())
    for place, package in enumerate(packages):
        body = (package.read_text("METADATA") or "").partition("\n\n")[2]
        lines = re.sub(r"```.*?```", "", body, flags=re.S).splitlines()
        said = [one for line in lines for one in _readme_sentences(line)]
        split = "choose" if place % 4 == 0 else "fit"
        found += [Sentence(split, "readme", one) for one in dice.sample(said, min(90, len(said)))]
    catalogs: dict[str, list[str]] = {}
    for package in packages:
        for file in package.files or ():
            if file.name == "django.mo" and (of := re.search(r"/locale/(\w+)/", str(file))):
                with Path(str(file.locate())).open("rb") as catalog:
                    values = gettext.GNUTranslations(catalog)._catalog.values()  # type: ignore[attr-defined]
                catalogs.setdefault(of[1], []).extend(str(value) for value in values)
    for language, values in sorted(catalogs.items()):
        plain = [
            re.sub(r"%\(?\w*\)?[sd]?|\{\w*\}", "X", one) for one in values if 14 < len(one) < 300 and "\n" not in one
        ]
        if not language.startswith("en"):
            found += [Sentence("fit", "translation", one) for one in dice.sample(plain, min(60, len(plain)))]
    return found


def _readme_sentences(line: str) -> Iterator[str]:
    line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
    line = re.sub(r"[`*_#>|]+", "", line).strip(" -")
    for said in re.split(r"(?<=[.!?])\s+", line):
        if 20 < len(said) < 300 and said.count(" ") >= 3 and said[0].isupper():
            yield said
