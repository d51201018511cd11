"""Times: the zone and the languages in which an agent's inputs name them, the time that a text asks about, and when the
memories of a prompt were told, by which their lines are dated (`nousweb.lib.dated_lines`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings

from identity.models import Agent
from memory.comparison.fact_snapshot import FactSnapshot
from memory.models import ItemType, ProjectScope
from memory.persona import PersonaMemory
from memory.policy.attributes import (
    VOLATILE,
    Cardinality,
    attribute_named,
    attribute_rule,
    attribute_words,
    volatile_days,
)
from memory.policy.slot_phrases import PHRASES, RUNS
from memory.search.request import Period, SearchRequest
from memory.search.search import search
from memory.services.search_index.reembedding import language_used
from nousweb.lib import Invalid
from nousweb.lib.dated_lines import Told
from nousweb.lib.time_ranges import NOW, TimeAnchor, TimeExpression, may_name_time, time_anchor, time_expressions
from nousweb.lib.time_words import TIME_WORDS

_PHRASES = [line.strip().split(" = ") for *_, text in PHRASES for line in text.strip().splitlines()]
_SIGN = re.compile(
    r"\b(?:"
    + "|".join(
        [
            *(name.replace("_", "[ _-]") for names in VOLATILE.values() for name in names.split()),
            *(
                phrase.strip()
                for phrases, name in _PHRASES
                if volatile_days(name.strip())
                for phrase in phrases.split(",")
            ),
            *RUNS,
            "number of",
        ]
    )
    + r")\b",
    re.IGNORECASE,
)
"""A sentence that states a volatile attribute has one of these."""
LEAST_AGE = timedelta(days=min(VOLATILE))


@dataclass(frozen=True, slots=True)
class LineClock:
    """The moment of a prompt, and the time zone of its agent."""

    now: datetime
    zone: ZoneInfo

    def told(
        self,
        began: datetime,
        recorded: datetime,
        *,
        dated: bool = False,
        always: bool = False,
        changed: datetime | None = None,
    ) -> Told:
        """When a memory was told: of the time that it speaks of, and its record. `dated`: its label says the day;
        `changed`: when its source did."""
        return Told(began, recorded, self.zone, dated, always, changed if changed and changed <= self.now else None)

    def fact_told(
        self,
        content: str,
        attribute: str,
        began: datetime,
        recorded: datetime,
        *,
        always: bool = False,
        changed: datetime | None = None,
        core: bool = False,
    ) -> Told:
        """The same of a fact. The line of an old value of a volatile attribute always says its day; in `core` memory of
        any value of one, since what is there must not change with the clock."""
        age = timedelta.max if core else self.now - began
        volatile = not always and age >= LEAST_AGE and (lasts := _lasts(content, attribute)) and age >= lasts
        return self.told(began, recorded, always=always or bool(volatile), changed=changed)

    @property
    def told_now(self) -> Told:
        """The same of what is told now."""
        return self.told(self.now, self.now)


@lru_cache(maxsize=8_192)
def _lasts(content: str, attribute: str) -> timedelta | None:
    """How long a fact is told without its day; None if it lasts. `attribute`: what its writer named, "" for none."""
    if attribute:
        names = [attribute_named(attribute_words(attribute))]
    else:
        names = [slot.attribute for slot in FactSnapshot(content).slots] if _SIGN.search(content) else []
    days = [days for name in names if (days := volatile_days(name))]
    return timedelta(days=min(days)) if days else None


def repeated_slots(slots: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs of subject and attribute that come more than once, of attributes that may have one value."""
    counts = Counter(slot for slot in slots if slot[1])
    again = {slot for slot, count in counts.items() if count > 1}
    return {slot for slot in again if attribute_rule(attribute_named(attribute_words(slot[1])))[0] != Cardinality.MANY}


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """Patterns of one language: `asks` and `requests` begin a question, `has_done` one about the past only, and
    `not_past` one that wants something done. `types` are the verbs that ask for a type of memory, `fillers` are words
    that say nothing about what is asked for, `recap` are questions about what was last spoken of."""

    asks: str
    has_done: str
    requests: str
    not_past: str
    types: Mapping[str, str]
    fillers: str
    recap: str


WORDS: Mapping[str, QuestionWords] = {
    "en": QuestionWords(
        asks=r"(?:(?:about|at|by|for|from|in|of|on|to|with) )?"
        r"(?:what(?:['’]?s)?|which|who|whom|whose|where|when|why|how)",
        has_done=r"did|have|has|had|was|were|any\w*",
        requests=r"(?:(?:can|could|would|will) you )?(?:please )?(?:show|list|remind|summari[sz]e|recap|recall|"
        r"tell (?:me|us)|give (?:me|us)|find|look up|search)",
        not_past=r"(?:\w+ ){1,2}(?:should|can|could|will|would|shall|must|may|are you|is it)|\w+ to",
        types={
            "decision": r"deci\w+|chose\w*|choose|agree\w*|settle\w*",
            "fact": r"learn\w*|facts?|know|knew",
            "episode": r"do|did|done|doing|happen\w*|talk\w*|discuss\w*|work\w*|episodes?|conversations?|going on",
        },
        fillers="""a an the i you we they he she it me us my our your this that these those is are was were be been am
        do does did have has had what whats which who whom whose where when why how about at by for from in of on to
        with
        and or so please show list remind summarize summarise recap recall tell give find look up search any anything
        something everything all new there made make took take said say told tell noted note notes memory memories
        remember recorded stored got get went between during around back then things thing stuff up yet still also
        entire whole day date week exactly s ve d ll re don t planned plan changed change conclude concluded""",
        recap=r"where (?:were|did) we|what (?:did|were|have) (?:we|i) (?:\w+ )?(?:last|recently|talk\w* about)"
        r"|recap|catch me up|pick up where|last conversations?|recent conversations?",
    ),
    "de": QuestionWords(
        asks=r"(?:(?:an|auf|aus|bei|bis|durch|für|in|mit|nach|seit|über|um|von|vor|zu|zwischen) )?"
        r"(?:was|welche[rnsm]?|wer|wem|wen|wessen|wann|warum|wieso|weshalb|wie|wo\w*)",
        has_done=r"(?:hab(?:e|en|t)|hast|hat|hatte\w*|war(?:en|st|t)?|wurden?) [^?]*"
        r"(?:(?:ge|be|ver|er|ent)\w+(?:t|en)|iert)",
        requests=r"(?:bitte )?(?:zeige?|liste?|erinnere?|fasse?|nenne?|sage? (?:mir|uns)|gib|suche?|finde?)",
        not_past=r"(?:\w+ ){1,2}(?:soll\w*|kann\w*|könn\w*|darf|muss|müss\w*|werde\w*|wird|würd\w*|geht es|gehts)",
        types={
            "decision": r"entsch[ei]\w+|beschl[oi]\w+|beschlüsse|vereinbar\w*|festgelegt",
            "fact": r"gelernt\w*|lern\w*|fakt\w*|tatsachen?|wissen|wussten?|weißt",
            "episode": r"gemacht|getan|passier\w*|gesch[ae]h\w*|gesprochen|besprochen|gearbeitet|gespräche?|los|lief",
        },
        fillers="""der die das den dem des ein eine einen einem einer ich du wir ihr sie er es mir mich dir dich uns
        euch
        mein meine unser unsere ist sind war waren wurde wurden habe haben hast hat hatte hatten was welche welcher
        welches welchen wer wem wen wann warum wieso wie wo woran worum worüber womit wofür an auf aus bei bis durch für
        in im am mit nach seit über um von vom vor zu zum zur zwischen und oder bitte zeig zeige liste erinnere fasse
        fass zusammen nenn nenne sag sage gib suche finde alle alles neu neues etwas denn so da dort gesagt erzählt
        notiert geändert erreicht galt stand herauskam heraus kam ging los fiel fielen während ende anfang daran
        war's geplant planten nochmal noch""",
        recap=r"wo (?:waren|sind) wir|was (?:haben|hatten) wir (?:zuletzt|kürzlich)|worüber (?:haben|sprachen) wir"
        r"|letzten? (?:gespräch|unterhaltung)\w*|zusammenfassung",
    ),
    "fr": QuestionWords(
        asks=r"(?:(?:à|avec|dans|de|d['’]|depuis|en|entre|par|pour|sur) ?)?"
        r"(?:qu['’]|que|quoi|quel(?:le)?s?|qui|où|quand|pourquoi|comment|combien)",
        has_done=r"(?:est-ce que )?(?:(?:as-tu|avons-nous|ai-je|a-t-on|avez-vous|ont-ils|y a-t-il eu)(?: \w+){0,2} "
        r"\w+(?:é|i|u)(?:e?s?|t)\b)",
        requests=r"(?:montre|liste|rappelle|résume|dis|donne|cherche|trouve)[\w-]*",
        not_past=r"(?:\w+['’ ]+){1,2}(?:doi\w*|dois-je|devons|devrai\w*|puis-je|peu[tx]\w*|pouv\w*|pourr\w*|va\w*|vais"
        r"|allons|faut)",
        types={
            "decision": r"décid\w*|décision\w*|chois\w*|convenu\w*|conclu\w*",
            "fact": r"appris\w*|apprend\w*|faits|savons|savions|sais",
            "episode": r"fait|passé\w*|parl\w*|discut\w*|travaill\w*|conversations?|s['’]agi\w*",
        },
        fillers="""le la les l un une des du de d à au aux en et ou dans par pour sur avec entre depuis avant après je
        j tu
        il elle on nous vous ils elles me moi te toi se s mon ma mes notre nos ce cet cette ces c ai as a avons avez ont
        est sont était étaient été ne pas qu que qui quoi quel quelle quels quelles où quand pourquoi comment combien
        est-ce t y montre montre-moi montre-nous liste rappelle rappelle-moi résume résume-moi dis dis-moi donne
        donne-moi cherche trouve tout tous toutes nouveau nouvelle nouvelles chose choses dit noté note notes prises
        prise pris changé prévu corrigé datent date savons fin début jusqu avait avions ai-je as-tu avons-nous a-t-on
        avez-vous avions-nous savions-nous savons-nous s'est-il est-il avait-il s'agissait-il agissait-il ci""",
        recap=r"où en étions|où en (?:sommes|est)|de quoi (?:avons|a-t-on|parlions)|récapitul\w*"
        r"|dernières? conversations?",
    ),
    "es": QuestionWords(
        asks=r"(?:(?:a|con|de|desde|en|entre|hasta|para|por|sobre) )?"
        r"(?:qué|que|cuál(?:es)?|quién(?:es)?|dónde|cuándo|cómo|cuánt[oa]s?)",
        has_done=r"he|has|ha|hemos|han|hubo|había|fue|hice|hicimos|decid\w+|aprend\w+|hablamos",
        requests=r"(?:muéstra|muestra|lista|recuérda|recuerda|resume|resúme|dime|dame|busca|encuentra)\w*",
        not_past=r"(?:\w+ ){1,2}(?:deb\w+|pued\w+|pod(?:emos|ría\w*)|voy|vas|va a|vamos a|hay que|teng\w+ que|está\w*"
        r"|quier\w+)",
        types={
            "decision": r"deci[ds]\w*|eleg\w*|acord\w*|conclu\w*",
            "fact": r"aprend\w*|hechos?|sabemos|sabíamos|sabes",
            "episode": r"hice|hicimos|hizo|pas[óo]|habl\w*|trabaj\w*|conversaci\w+|trató|hubo",
        },
        fillers="""el la los las lo un una unos unas de del a al en y o con por para sobre entre desde hasta antes
        después yo
        tú él ella nosotros ellos me mí te se nos mi mis nuestro nuestra este esta estos estas ese esa es son fue fueron
        era he has ha hemos han había que qué cuál cuáles quién dónde cuándo cómo muéstrame muestra lista recuérdame
        resume dime dame busca todo todos todas nuevo nueva algo dije conté contaste tomamos tomaste anotamos apunté
        notas nota cambió cambiado corregimos planeamos finales principios fin hay""",
        recap=r"dónde (?:estábamos|quedamos)|de qué (?:hablamos|estábamos)|últimas? conversaci\w+|recapitul\w*",
    ),
}  # fmt: skip
_SENTENCE_END = re.compile(r"[!?…\n;]+|(?<!\d)\.(?:\s|$)")
_OPENING = (
    r"^\W*(?:(?:so|and|ok|okay|well|hey|hi|hello|now|but|also|please|und|na|hallo|et|alors|bonjour|salut|y|hola)\W+)*"
)
_FOLLOW_UP = 1
"""A question of no more words beside its time, "and last week?", needs no word that asks."""
_HOW = re.compile(r"\W*(?:how|wie|comment|cómo)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


_RECENCY = ((1, 1.0), (7, 0.8), (14, 0.5), (62, 0.3))
"""The weight of recency of a time that begins so many days before today, or later, and by now."""
_RECAP_READ = 400


@dataclass(frozen=True, slots=True)
class TimeReading:
    """What an input says about a time: `recency` in [0, 1], the weight of being recent, by the words of time in it; the
    `period` that it asks about, if any; and whether it asks what was last spoken of (`recap`)."""

    recency: float = 0.0
    period: Period | None = None
    recap: bool = False


NO_TIME = TimeReading()


@lru_cache
def _compiled(language: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], frozenset[str]]:
    words = WORDS[language]

    def opening(*patterns: str) -> re.Pattern[str]:
        said = "|".join(patterns).replace(" ", r"\s+")
        return re.compile(rf"{_OPENING}(?:{said})(?!\w)", re.IGNORECASE)

    asks = re.compile(rf"{_OPENING}(?:{words.asks})".replace(" ", r"\s+") + "(?:(?<=['’])|(?!\\w))", re.IGNORECASE)
    return (
        re.compile(f"{asks.pattern}|{opening(words.has_done, words.requests).pattern}", re.IGNORECASE),
        opening(words.not_past),
        re.compile(rf"(?<!\w)(?:{words.recap})(?!\w)".replace(" ", r"\s+"), re.IGNORECASE),
        frozenset(words.fillers.split()),
    )


def time_read(text: str, now: datetime, zone: ZoneInfo, languages: Iterable[str] = ("en",)) -> TimeReading:
    """What `text` says about a time, in any of the `languages`. Only what it asks gives it a period."""
    languages = [language for language in dict.fromkeys(languages) if language in WORDS]
    named = time_expressions(text, now, zone, languages)
    midnight = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    ages = [midnight - one.start for one in named if one.start and one.start <= now]
    recency = max((weight for age in ages for days, weight in _RECENCY if age < timedelta(days)), default=0.0)
    return TimeReading(recency, _period_asked(text, named, languages), recap_asked(text))


def recap_asked(text: str) -> bool:
    """Whether `text` asks, in any language, what was last spoken of."""
    return any(_compiled(language)[2].search(text, 0, _RECAP_READ) for language in WORDS)


def _period_asked(text: str, named: Iterable[TimeExpression], languages: Sequence[str]) -> Period | None:
    for said in named:
        if said.granularity == NOW:
            continue
        begin = max((match.end() for match in _SENTENCE_END.finditer(text, 0, said.begin)), default=0)
        closing = _SENTENCE_END.search(text, said.finish)
        sentence = text[begin : closing.start() if closing else len(text)]
        is_asked = bool(closing and "?" in closing[0])
        beside = text[begin : said.begin] + " " + sentence[said.finish - begin :]
        asked = [
            _asked(said.text, said.start, said.end, beside, language)
            for language in languages
            if _asks(sentence, beside, language, is_asked=is_asked)
        ]
        if asked:
            # A word may begin questions in several languages ("was"): the one that knows more of the others is meant.
            return max(asked, key=lambda period: (period.alone, bool(period.types)))
    return None


def anchor_asked(text: str, languages: Iterable[str] = ("en",)) -> TimeAnchor | None:
    """The event beside which `text` asks what was; None where it asks nothing, or how to do something."""
    for language in dict.fromkeys(languages):
        anchor = time_anchor(text, [language]) if language in WORDS else None
        if anchor and _asks(text, "", language, is_asked=False) and not _HOW.match(text):
            return anchor
    return None


def anchored(anchor: TimeAnchor, day: date, zone: ZoneInfo, text: str, languages: Iterable[str]) -> Period:
    """The period that `text` asks about, where its event was on `day`."""
    start, end = (datetime(one.year, one.month, one.day, tzinfo=zone) for one in (day, day + timedelta(days=1)))
    ends = {"since": (start, None), "after": (end, None), "before": (None, start), "until": (None, end)}
    beside = text.replace(anchor.text, " ")
    language = next(one for one in languages if one in WORDS and time_anchor(text, [one]))
    return _asked(anchor.text, *ends[anchor.relation], beside, language)


def _asks(sentence: str, beside: str, language: str, *, is_asked: bool) -> bool:
    asks, not_past, _, _ = _compiled(language)
    if asks.search(sentence):
        return not not_past.search(sentence)
    return is_asked and len(_WORD.findall(beside)) <= _FOLLOW_UP and not not_past.search(sentence)


def _asked(text: str, start: datetime | None, end: datetime | None, beside: str, language: str) -> Period:
    words, fillers = WORDS[language], _compiled(language)[3]
    kinds = {kind: re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE) for kind, pattern in words.types.items()}
    types = [kind for kind, pattern in kinds.items() if pattern.search(beside)]
    # "What did I decide": doing is asked about only where no other verb is.
    named = tuple(kind for kind in types if kind != "episode") or tuple(types)
    spoken = [[word, *re.split("['’-]", word)] for word in map(str.lower, _WORD.findall(beside))]
    said = fillers.union(
        one for parts in spoken for one in parts if any(kind.fullmatch(one) for kind in kinds.values())
    )
    alone = all(word in said or said.issuperset(parts) for word, *parts in spoken)
    return Period(text, start, end, named, alone)


ZONE_KEY, RECENT_KEY = "time_zone", "recent"
SEVERAL = "xx"
MAX_ZONE_CHARACTERS = 64
ANCHOR_TYPES = (ItemType.EPISODE, ItemType.DECISION, ItemType.FACT, ItemType.EVENT)


class RecentMode(StrEnum):
    """When a prompt lists the last conversations."""

    ON_QUESTIONS = "on questions"
    ALWAYS = "always"
    NEVER = "never"


def zone_check(name: str, *, field: str = "time_zone") -> str:
    """An IANA name of a time zone, or "". Raises Invalid."""
    try:
        if name:
            ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Invalid(
            f"There is no time zone {name[:60]!r}; it is a name such as Europe/Berlin.", field=field
        ) from error
    return name


def zone_of_city(city: str) -> str:
    """The name of the only time zone that is named after a city; `city` itself if there is none."""
    wanted = city.strip().replace(" ", "_").casefold()
    found = [zone for zone in available_timezones() if zone.rpartition("/")[2].casefold() == wanted]
    return found[0] if len(found) == 1 else city


def zone_of(agent: Agent, named: str = "") -> ZoneInfo:
    """The zone `named`, else that of the agent's settings, else that of the server."""
    return ZoneInfo(named or str(agent.config.get(ZONE_KEY) or "") or settings.TIME_ZONE)


def recent_mode(agent: Agent) -> RecentMode:
    """When the agent's prompts list its last conversations."""
    return RecentMode(agent.config.get(RECENT_KEY) or RecentMode.ON_QUESTIONS)


def time_languages(agent: Agent) -> tuple[str, ...]:
    """The languages in which the agent's inputs may name times: its own, and English."""
    code = language_used(agent)
    return tuple(TIME_WORDS) if code == SEVERAL else tuple(dict.fromkeys([code, "en"]))


def agent_time_read(
    view: PersonaMemory, text: str, scope: ProjectScope, *, now: datetime, zone: ZoneInfo, as_of: datetime | None = None
) -> TimeReading:
    """What `text` says about a time: by its words, or beside an event in memory, which is searched for."""
    if not may_name_time(text):
        return TimeReading(recap=recap_asked(text))
    languages = time_languages(view.agent)
    reading = time_read(text, now, zone, languages)
    if reading.period or (anchor := anchor_asked(text, languages)) is None:
        return reading
    found = search(view, SearchRequest(anchor.phrase, scope, types=ANCHOR_TYPES, limit=1, as_of=as_of, now=now)).items
    if not found:
        return reading
    return replace(
        reading, period=anchored(anchor, found[0].happened_at.astimezone(zone).date(), zone, text, languages)
    )
