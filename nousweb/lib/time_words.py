"""The words for times of each language that `time_ranges` reads: values of words, and the patterns of expressions.

A pattern names what it holds: `{day}`, `{part}`, `{shift}`, `{unit}`, `{weekday}`, `{month}`, `{n}`, `{quarter}`,
`{week}`, `{year}`, `{vague}` and `{now}` stand for the words of that table; `(?P<date>…)` cuts out a date, and the
empty groups `ago`, `last` and `ahead` say in which direction a number of units counts. Spaces match any white space.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MORNING, AFTERNOON, EVENING, LAST_NIGHT = (5, 12), (12, 18), (18, 24), (-6, 6)
"""Parts of a day, as hours from its midnight."""

Words = Mapping[str, str]
"""Values with the words for them, separated by "|"; words are patterns."""


@dataclass(frozen=True, slots=True)
class TimeWords:
    """The tables of one language. `bare` are patterns that are times only behind a word of `before_bare` or of a
    relation. `since`, `after`, `before` and `until` open a range at one end; `between` and `joiner` surround two ends.
    """

    day: Words
    part: Mapping[tuple[int, int], str]
    shift: Words
    unit: Words
    weekday: str
    month: str
    n: Words
    quarter: Words
    vague: Words
    now: str
    certain: Sequence[str]
    bare: Sequence[str]
    before_bare: str
    since: str
    after: str
    before: str
    until: str
    between: str
    joiner: str
    article: str
    anchor: str


ENGLISH = TimeWords(
    day={"0": "earlier today|today", "-2": "the day before yesterday", "-1": "yesterday",
         "2": "the day after tomorrow", "1": "tomorrow"},
    part={MORNING: "morning", AFTERNOON: "afternoon", EVENING: "evening|night|tonight", LAST_NIGHT: "last night"},
    shift={"0": "this|the current", "-1": "last|the previous|previous", "1": "next|the coming|the following"},
    unit={"minute": "minutes?", "hour": "hours?", "day": "days?", "weekend": "weekends?", "week": "weeks?",
          "month": "months?", "quarter": "quarters?", "year": "years?"},
    weekday="mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?",
    month="january|february|march|april|may|june|july|august|september|october|november|december",
    n={"1": "an?|one", "2": "a couple of|couple of|two", "3": "a few|few|three", "4": "several|four", "5": "five",
       "6": "six", "7": "seven", "8": "eight", "9": "nine", "10": "ten", "11": "eleven", "12": "twelve"},
    quarter={"1": "first|1st", "2": "second|2nd", "3": "third|3rd", "4": "fourth|last|4th"},
    vague={"2": "just now", "3": "the other day", "7": "recently|lately"},
    now="right now|at the moment|currently|now|at present",
    certain=(
        r"(?P<date>\d{1,2}(?:st|nd|rd|th)?(?: of)? {monthly}\.?(?:,? \d{4})?)",
        r"(?P<date>{monthly}\.? (?:the )?\d{1,2}(?:st|nd|rd|th)?(?!\d|[:.]\d)(?:,? \d{4}\b)?)",
        r"{day} {part}", r"{day}", r"this {part}", r"(?P<tonight>tonight|last night)",
        r"(?:the |these )?(?:last|past|previous) {n} {unit}(?P<last>)",
        r"(?:the past|(?:in|over|during|within|for) the last|past) {unit}(?P<last>)",
        r"{shift} {weekday} {part}", r"{shift} {weekday}", r"{weekday} {part}",
        r"{shift} {unit}(?! of)", r"{n} {unit} ago(?P<ago>)", r"in {n} {unit}(?P<ahead>)",
        r"{n} {unit} from now(?P<ahead>)",
        r"{weekday}", r"(?:over|at|on) the (?P<weekend>weekend)", r"{shift} {month}", r"{month},? (?:of )?{year}",
        r"Q{quarter},? (?:of |in )?{year}", r"{year}[- ]?Q{quarter}",
        r"(?:the )?{quarter} quarter(?:,?(?: of| in)? {year})?",
        r"(?:calendar )?week (?:number |no\.? ?)?{week}(?:,? (?:of |in )?{year})?", r"{vague}", r"{now}",
    ),
    bare=(r"{month}", r"{year}", r"Q{quarter}"),
    before_bare="in|on|during|of|for|throughout|back in",
    since="since|starting|beginning", after="after", before="before|prior to", until="until|till|up to|through",
    between="between|from", joiner="and|to|until|till|through|-|–",
    article="the|in|on|last|(?:beginning|start|end|middle) of",
    anchor=r"the|our|my|that|we|i",
)  # fmt: skip
GERMAN = TimeWords(
    day={"0": "heute", "-2": "vorgestern", "-1": "gestern", "2": "übermorgen", "1": "morgen"},
    part={MORNING: "vormittag|morgen|früh", AFTERNOON: "nachmittag|mittag", EVENING: "abend",
          LAST_NIGHT: "letzte nacht|heute nacht|vergangene nacht"},
    shift={"0": "diese[nrms]?|aktuelle[nrms]?", "-1": "letzte[nrms]?|vorige[nrms]?|vergangene[nrms]?",
           "1": "nächste[nrms]?|kommende[nrms]?"},
    unit={"minute": "minuten?", "hour": "stunden?", "day": "tage?n?", "weekend": "wochenenden?", "week": "wochen?",
          "month": "monate?n?s?", "quarter": "quartale?n?s?", "year": "jahre?n?s?"},
    weekday="montags?|dienstags?|mittwochs?|donnerstags?|freitags?|samstags?|sonntags?",
    month="januar|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember",
    n={"1": "eine[nrm]?|ein", "2": "zwei|ein paar", "3": "drei|wenigen|einigen", "4": "vier|mehreren", "5": "fünf",
       "6": "sechs", "7": "sieben", "8": "acht", "9": "neun", "10": "zehn", "11": "elf", "12": "zwölf"},
    quarter={"1": "ersten?s?", "2": "zweiten?s?", "3": "dritten?s?", "4": "vierten?s?"},
    vague={"2": "gerade eben|soeben|vorhin", "3": "neulich", "7": "kürzlich|in letzter zeit|zuletzt"},
    now="jetzt|gerade|derzeit|momentan|zurzeit|aktuell|im moment",
    certain=(
        r"(?P<date>\d{1,2}\.? {monthly}\.?(?: \d{4})?)", r"(?P<date>\d{1,2}\.\d{1,2}\.\d{4})",
        r"(?P<tonight>(?:letzte|vergangene|heute) nacht)", r"{day} {part}", r"{day}", r"diese[rn]? {part}",
        r"(?:(?:in )?(?:den |die |der )?(?:letzten|vergangenen)) {n} {unit}(?P<last>)", r"vor {n} {unit}(?P<ago>)",
        r"in {n} {unit}(?P<ahead>)", r"{shift} {weekday} ?{part}", r"{shift} {weekday}", r"{weekday} ?{part}",
        r"{weekday}", r"am (?P<weekend>Wochenende)", r"{shift} {unit}", r"{shift} {month}",
        r"{month} (?:des Jahres )?{year}", r"Q{quarter}[ /]{year}",
        r"{quarter} Quartal(?: (?:von |des Jahres )?{year})?",
        r"(?:KW|Kalenderwoche|Woche) ?{week}(?:[ /](?:von |des Jahres )?{year})?", r"{vague}", r"{now}",
    ),
    bare=(r"(?P<date>\d{1,2}\.\d{1,2}\.)", r"{month}", r"{year}", r"Q{quarter}"),
    before_bare="im|in|vom|von|des|am|den|dem|für|jahr|jahre|während|zum",
    since="seit|ab", after="nach", before="vor", until="bis",
    between="zwischen|vom|von", joiner="und|bis|-|–",
    article="anfang|mitte|ende|dem|der|den|des|zum|zur|die|am|im|in|jahr",
    anchor=r"de[rmn]|die|unsere[rmn]?|meine[rmn]?|wir|ich",
)  # fmt: skip
FRENCH = TimeWords(
    day={"0": "aujourd['’]hui", "-2": "avant[- ]hier", "-1": "hier", "2": "après[- ]demain", "1": "demain"},
    part={MORNING: "matin|matinée", AFTERNOON: "après[- ]midi", EVENING: "soir|soirée", LAST_NIGHT: "nuit"},
    shift={"0": "cette|cet|ce|en cours|actuelle?|courante?", "-1": "derni[eè]re?|passée?|précédente?",
           "1": "prochaine?|suivante?"},
    unit={"minute": "minutes?", "hour": "heures?", "day": "jours?", "weekend": "week[- ]?ends?", "week": "semaines?",
          "month": "mois", "quarter": "trimestres?", "year": "ans?|années?"},
    weekday="lundis?|mardis?|mercredis?|jeudis?|vendredis?|samedis?|dimanches?",
    month="janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre",
    n={"1": "une?", "2": "deux", "3": "trois|quelques", "4": "quatre|plusieurs", "5": "cinq", "6": "six", "7": "sept",
       "8": "huit", "9": "neuf", "10": "dix", "11": "onze", "12": "douze"},
    quarter={"1": "premier|1er", "2": "deuxième|second|2e", "3": "troisième|3e", "4": "quatrième|dernier|4e"},
    vague={"2": "tout à l['’]heure", "3": "l['’]autre jour", "7": "récemment|dernièrement|ces derniers temps"},
    now="maintenant|actuellement|en ce moment",
    certain=(
        r"(?P<date>\d{1,2}(?:er)? {monthly}\.?(?: \d{4})?)", r"(?P<tonight>cette nuit|la nuit dernière)",
        r"{day}(?: au)? {part}", r"{day}", r"(?:cet?|cette) {part}",
        r"(?:ces |les |des |au cours des )?{n} derni[eè]r(?:e?s) {unit}(?P<last>)",
        r"(?:ces |les |des )?derni[eè]r(?:e?s) {n} {unit}(?P<last>)", r"il y a {n} {unit}(?P<ago>)",
        r"dans {n} {unit}(?P<ahead>)", r"{weekday} {shift}(?: au)? {part}", r"{weekday} {shift}", r"{weekday} {part}",
        r"{weekday}", r"(?:cette|cet?) {unit}", r"{unit} {shift}", r"{month} {shift}", r"{month} (?:de )?{year}",
        r"[TQ]{quarter} (?:de )?{year}", r"{quarter} trimestre(?: (?:de )?{year})?",
        r"semaine (?:n[°o] ?)?{week}(?: (?:de )?{year})?", r"{vague}", r"{now}",
    ),
    bare=(r"{month}", r"{year}", r"[TQ]{quarter}"),
    before_bare="en|de|du|le|mois de|mois d['’]|d['’]|pendant|courant|pour",
    since="depuis|dès|à partir d[eu]|à partir", after="après", before="avant", until=r"jusqu['’]?(?:à|au|en)?",
    between="entre|de|du", joiner="et|à|au|jusqu['’](?:à|au)|-|–",
    article="les?|la|l['’]|en|à|au|début|fin|mois de|de|d['’]",
    anchor=r"les?|la|l['’]|notre|mon|ma|que",
)  # fmt: skip
SPANISH = TimeWords(
    day={"0": "hoy", "-2": "anteayer|antes de ayer|antier", "-1": "ayer", "2": "pasado mañana", "1": "mañana"},
    part={MORNING: "mañana", AFTERNOON: "tarde", EVENING: "noche", LAST_NIGHT: "anoche"},
    shift={"0": "est[ea]|actual|en curso", "-1": "pasad[oa]|últim[oa]|anterior",
           "1": "próxim[oa]|que viene|siguiente"},
    unit={"minute": "minutos?", "hour": "horas?", "day": "días?", "weekend": "fin(?:es)? de semana", "week": "semanas?",
          "month": "mes(?:es)?", "quarter": "trimestres?", "year": "años?"},
    weekday="lunes|martes|miércoles|jueves|viernes|sábados?|domingos?",
    month="enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre",
    n={"1": "una?", "2": "dos|un par de", "3": "tres|unos|unas|pocos|pocas", "4": "cuatro|varios|varias",
       "5": "cinco", "6": "seis", "7": "siete", "8": "ocho", "9": "nueve", "10": "diez", "11": "once", "12": "doce"},
    quarter={"1": "primer", "2": "segundo", "3": "tercer", "4": "cuarto|último"},
    vague={"2": "hace un momento|hace un rato", "3": "el otro día", "7": "recientemente|últimamente|hace poco"},
    now="ahora(?: mismo)?|actualmente|en este momento",
    certain=(
        r"(?P<date>\d{1,2}º? de {monthly}(?: del? \d{4})?)", r"(?P<tonight>anoche|ayer por la noche)",
        r"{day} (?:por|en|a) la {part}", r"{day}", r"esta {part}",
        r"(?:en )?(?:los |las |estos |estas )?últim[oa]s {n} {unit}(?P<last>)",
        r"(?:en )?(?:los |las )?{n} últim[oa]s {unit}(?P<last>)",
        r"hace {n} {unit}(?P<ago>)", r"dentro de {n} {unit}(?P<ahead>)",
        r"{weekday} (?:{shift} )?por la {part}", r"{weekday} {shift}", r"{weekday}",
        r"(?:est[ea]) {unit}", r"{unit} {shift}", r"(?:últim[oa]) {unit}(?P<last>)", r"{month} {shift}",
        r"{month} del? {year}", r"[TQ]{quarter} (?:del? )?{year}", r"{quarter} trimestre(?: del? {year})?",
        r"semana (?:n[°ºúu]m?(?:ero)?\.? ?)?{week}(?: del? {year})?", r"{vague}", r"{now}",
    ),
    bare=(r"{month}", r"{year}", r"[TQ]{quarter}"),
    before_bare="en|del?|el|durante|mes de|para|año",
    since="desde|a partir del?", after="después del?|tras", before="antes del?", until="hasta",
    between="entre|del?|desde", joiner="y|al?|hasta|-|–",
    article="el|la|los|las|en|mes de|(?:finale?s?|principios?|inicios?) del?",
    anchor=r"el|la|los|las|nuestr[oa]|mi|que",
)  # fmt: skip

TIME_WORDS: Mapping[str, TimeWords] = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH, "es": SPANISH}
"""By the code of the language."""
