"""Words whose meaning depends on a day, by language: those that name a time, and open ones ("now", an age).

`{day}`, `{part}`, `{weekday}`, `{month}`, `{n}` and `{unit}` are the words of `nousweb.lib.time_words`. Words that
mean something else in most texts are left out, or bound by what stands around them.
"""

from collections.abc import Mapping

_HOW_LONG = r"(?:days|weeks|months|years)"

NAMING: Mapping[str, tuple[str, ...]] = {
    "en": (
        r"{day}(?:['’]s)?(?: {part})?", r"tonight|last night|this (?:morning|afternoon|evening)",
        r"(?:this|last|next) (?:week(?:end)?|month|quarter|year|{weekday}|{month})(?! of\b)(?:['’]s)?",
        r"(?<!half ){n} {unit} ago",
        r"(?:(?<=due )|(?<=starts )|(?<=ends )|(?<=begins )|(?<=expires )|(?<=leaves )|(?<=opens )|(?<=closes )"
        r"|(?<=back )|(?<=again ))in {n} {unit}",
    ),
    "de": (
        r"gestern(?: {part})?|vorgestern|heute(?: {part}| nacht)?|übermorgen|letzte nacht",
        r"(?<!am )(?<!guten )(?<!jeden )(?<!de[nrs] )(?<!diesen )(?<!diesem )(?<!eines )(?<!zum )morgen"
        r"(?! des\b)(?: {part})?",
        r"(?:diese|letzte|nächste|vorige|vergangene|kommende)[nrms]? (?:woche|wochenende|monate?s?|quartal|jahre?s?"
        r"|{weekday})(?! de[rs]\b)",
        r"vor {n} {unit}",
    ),
    "fr": (
        r"(?:avant[- ])?hier(?:(?: au)? {part})?|aujourd['’]hui|(?:après[- ])?demain(?: {part})?",
        r"cette (?:nuit|semaine|année)|ce (?:matin|soir|mois|week[- ]?end|trimestre|{weekday})|cet après[- ]midi",
        r"(?:semaine|année|mois|trimestre|an|week[- ]?end|{weekday}) (?:derni[eè]re?|prochaine?|passée?)(?! de\b)",
        r"il y a {n} {unit}|dans {n} {unit}",
    ),
    "es": (
        r"anteayer|ayer(?: por la {part})?|hoy(?! en día)|anoche|pasado mañana|esta (?:mañana|tarde|noche)",
        r"(?<!la )(?<!esta )(?<!cada )(?<!una )(?<!pasado )mañana(?: por la {part})?",
        r"est[ea] (?:semana|mes|año|trimestre|fin de semana|{weekday})",
        r"(?:semana|mes|año|trimestre|fin de semana|{weekday}) (?:pasad[oa]|próxim[oa]|que viene)",
        r"(?:próxim[oa]|pasado) (?:semana|mes|año|trimestre|{weekday})", r"hace {n} {unit}|dentro de {n} {unit}",
    ),
}  # fmt: skip
OPEN: Mapping[str, tuple[str, ...]] = {
    "en": (
        r"currently|presently|nowadays|recently|lately|at (?:the moment|present)|right now|for now|so far this \w+"
        r"|(?:as of|until|by|just) now|these days|the other day|a while ago|over the weekend"
        r"|half a year ago|this past (?:week(?:end)?|month|year|{weekday})",
        r"(?<!from )(?<!until )(?<!by )(?<!just )(?<!right )(?<!for )(?-i:now)(?! and (?:then|again)\b| that\b)",
        # At the beginning of an instruction it only says that a step follows.
        r"(?-i:Now)(?= (?:\w+[^s\W]s|i|we|he|she|they|it|the)\b)",
        r"(?<=['’]s )current|(?<=my )current|(?<=his )current|(?<=her )current|(?<=its )current|(?<=our )current"
        r"|(?<=their )current",
        r"(?:in|over|during|for|within) the (?:last|past)(?: {n}| few| couple of)? (?:{unit})|the past {n} {unit}",
        rf"(?:ha(?:s|ve)|['’]ve) (?:\w+ ){{1,5}}for (?:{{n}}|\d+) {_HOW_LONG}",
        r"(?:{n}|\d+)[- ]years?[- ]old|(?<=aged )\d{1,3}", r"(?:this|last|next) (?:spring|summer|autumn|fall|winter)",
    ),
    "de": (
        r"jetzt|derzeit|momentan|zurzeit|zur zeit|im moment|gegenwärtig|aktuell|kürzlich|neulich|vor kurzem"
        r"|seit kurzem|in letzter zeit|heutzutage",
        r"(?:{n}|\d+) jahre alt", r"(?:seit|in) (?:{n}|\d+) (?:tagen|wochen|monaten|jahren)",
        r"(?:in )?(?:den|die) letzten (?:{n} )?(?:tagen?|wochen|monaten?|jahren?)",
    ),
    "fr": (
        r"maintenant|actuellement|en ce moment|pour l['’]instant|récemment|dernièrement|de nos jours"
        r"|ces derniers (?:temps|jours|mois)|ces dernières (?:semaines|années)",
        r"(?:a|âgée? de|ai|as) (?:{n}|\d+) ans", r"depuis (?:{n}|\d+) (?:jours|semaines|mois|ans)",
    ),
    "es": (
        r"ahora(?! bien\b)|actualmente|en este momento|de momento|recientemente|últimamente|hoy en día|hace poco",
        r"(?:tiene|tengo|tenía|cumplió) (?:{n}|\d+) años", r"desde hace (?:{n}|\d+) (?:días|semanas|meses|años)",
        r"en (?:los|las) últim[oa]s (?:{n} )?(?:días|semanas|meses|años)",
    ),
}  # fmt: skip
SIGNS = (
    "yesterday|today|tomorrow|tonight|this\\b|these\\b|last\\b|next\\b|ago\\b|now\\b|nowadays"
    "|current|presently|present\\b"
    "|recently|lately|moment|other day|past\\b|years?\\b|months?\\b|weeks?\\b|weekend|days\\b"
    "|aged\\b|in \\w+ (?:day|hour)"
    "|gestern|heut|übermorgen|morgen|letzte|nächste|vorige|vergangene|kommende|diese|vor|jetzt|derzeit|zur ?zeit"
    "|gegenwärtig|aktuell\\b|kürzlich|neulich|jahre|seit\\b|tagen|wochen|monaten"
    "|hier\\b|aujourd|demain|cet?\\b|cette|derni|prochain|passée?\\b|il y a\\b|maintenant|actuellement|instant"
    "|récemment|dans\\b|ans\\b|depuis\\b|nos jours"
    "|anteayer|ayer|hoy\\b|anoche|mañana|est[ea]\\b|pasad[oa]|próxim|viene\\b|hace\\b|dentro de"
    "|ahora|actualmente|momento"
    "|recientemente|últim|años\\b"
)
"""The beginnings of words, in small letters, of which a text that any of these expressions is in has one."""
