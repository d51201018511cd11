"""Scan a text for prompt injection and secrets: a sum of weights for each sentence.

The rules are those of `rules.toml`, and the words by which a request to the reader is known, by language, those of
`requests.toml`; what all words of a sentence make unlikely (`request_model`) is none. The same words have the same
result. The patterns of the features form automata of RE2, whose time is linear in the length of the text.
"""

import base64
import binascii
import hashlib
import html
import json
import re
import tomllib
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import re2

from nousweb.lib.characters import shows_all
from nousweb.lib.injection.request_model import WEIGHTS_FILE, judged_parts, lexical_scores, request_weights
from nousweb.lib.lookalikes import as_latin
from nousweb.lib.readable_text import readable_text

READING = 5
"""Version of the scanning code: raise it if the same rules give other results."""

_TABLE = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
_REQUESTS = tomllib.loads(Path(__file__).with_name("requests.toml").read_text(encoding="utf-8"))

_VERSION = f"{READING}{json.dumps([_TABLE, _REQUESTS], sort_keys=True)}".encode() + WEIGHTS_FILE.read_bytes()
RULES_NAME = hashlib.sha256(_VERSION).hexdigest()[:12]
"""Version of the rules: it differs whenever a text may have another result."""
THRESHOLDS: Mapping[str, float] = _TABLE["thresholds"]
"""Minimum sum of weights for which a text is quarantined, by trust class."""
OWN_WORDS: float = _TABLE["own_words"]
KINDS: Mapping[str, str] = _TABLE["kinds"]
"""The kinds of matches, in words for people, by code."""
SECRETS: Mapping[str, str] = _TABLE["secrets"]
"""Patterns of secrets, by name."""
REPORTED: float = _TABLE["reported"]

OWN_REQUESTS = frozenset(_TABLE["own_requests"])
"""Trust classes whose words may say what is to be done, as long as they do not address whoever reads them."""
ADDRESSED = frozenset({"reader", "occasion"})
"""Features by which a sentence is meant for whoever reads it."""


def _request_patterns(words: Mapping[str, Any]) -> dict[str, list[str]]:
    """The patterns of the features of requests in one language of requests.toml."""
    edge = r"\b" if words["edge"] else ""
    # Of a program, a name with a bracket or a dot follows; of a sentence, words.
    end = r"(?:\s+[^\s(=.]|\s*[.!?,:;]?\s*$|[!?,:;]|\.\s)" if words["edge"] else ""
    acts, weak, things, must = (f"(?:{words[name]})" for name in ("acts", "weak", "things", "must"))
    verbs = "|".join(filter(None, [acts, weak, words.get("verbs")]))
    # A clause begins at a sign, and may go on with words before its verb.
    sign = r"(?:^\W{0,4}|[.!?:;,>]\s+|>|[。！？：；，、]\s*|\n\W*|\s[\"'“„«(\[*•–-]+\s*)"
    begins = rf"(?:{sign}|{edge}(?:{words['lead']})\s*[,:]?\s*)(?:{edge}(?:{words['lead']})\s*[,:]?\s*)*"
    asks = [f"{begins}{edge}", rf"{edge}{must}\s*(?:(?:{words['lead']})\s*)?{edge}"]
    return {
        "request": [
            pattern for ask in asks for pattern in (f"{ask}{acts}{edge}", f"{ask}{weak}{edge}[^!?\n]*{things}")
        ],
        "order": [f"{ask}(?:{verbs}){edge}{end}" for ask in asks],
        "reader": words["reader"],
        "occasion": words["occasion"],
        "reported": words["reported"],
    }


_BY_LANGUAGE = [_request_patterns(words) for words in _REQUESTS.values()]
FEATURES: Mapping[str, tuple[str, ...]] = {
    name: tuple(pattern for one in _BY_LANGUAGE for pattern in one[name]) for name in _BY_LANGUAGE[0]
} | {
    name: (
        *patterns,
        *(
            rf"{_TABLE['before_imperative']['pattern']}(?:{verbs})\b"
            for of, verbs in _TABLE["imperative"].items()
            if of == name
        ),
    )
    for name, patterns in _TABLE["features"].items()
}
"""Patterns of each feature, by name; one match is enough."""


@dataclass(frozen=True, slots=True)
class InjectionRule:
    """Adds `weight` if a sentence has all of `features`; `code` is one of KINDS."""

    code: str
    weight: float
    features: frozenset[str]


RULES: tuple[InjectionRule, ...] = tuple(
    InjectionRule(code, float(weight), frozenset(features.split())) for code, weight, features in _TABLE["rules"]
)
assert all(rule.code in KINDS and rule.features <= FEATURES.keys() for rule in RULES)  # noqa: S101


BLOCK_CHARACTERS = 4_000
"""Size of the blocks of which a whole one is skipped if it has too few features for any rule."""
SHORT_LINE = 30
"""A line shorter than this may be part of a sentence that was split to evade the scan."""
SET_BYTES = 32 << 20
WINDOW = 1_000
"""Characters of the sentences around a sentence that are read with it."""
BROKEN_LINE = 60
"""A line up to this length without a full stop may continue in the next line."""
LOWERED = 2.0
"""Subtracted from the score if the features are spread over two sentences."""
DISGUISE = 1.5
"""Added to the score if the text is disguised, so that people or filters would miss it."""
MAX_LAYERS = 2
"""A text that was encoded this often is decoded."""
MANY_LEET = 5
"""From this number of words spelled with digits on, numbers are read as words too."""

_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]?\s+|[。！？]|\n+|(?<=;)\s")
_MARKED_LATIN = {
    code: base
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if (base := unicodedata.normalize("NFKD", chr(code))[0]).isascii() and base != chr(code)
}
_MIXED = re.compile(r"[a-z][\u0370-\u04ff]|[\u0370-\u04ff][a-z]")
_TAGGED = re.compile("[\U000e0020-\U000e007e]{4,}")
_SPACED = re.compile(r"(?:\b\w[^\w\n]{1,6}){6,}\w\b")
_INTRA = re.compile(r"\b(?:\w[._*|-]){1,}\w\b")
_MANY_INTRA = re.compile(r"\b(?:\w[._*|-]){3,}\w\b")
_LEET = re.compile(r"[a-z][0-9$@]+[a-z]|\b[0-9$@][a-z]{2,}|[a-z]{2}[0-9$@]\b", re.I)
_LEET_WORD = re.compile(r"[a-z0-9$@]+")
_LEET_LETTERS = str.maketrans("4310$7@5", "aeiostas")
_BASE64 = re.compile(
    r"[A-Za-z0-9+/_-]{8,}+(?:(?:[ \t]*+\r?\n[ \t]*+|(?<=[A-Za-z0-9+/_-]{16}) ++)[A-Za-z0-9+/_-]{2,}+)*+={0,2}"
)
_SHORTEST_BASE64 = 20
_HEX = re.compile(r"\b(?:[0-9a-f]{2}[ :]?){16,}\b", re.I)
_PERCENT = re.compile(r"(?:%[0-9a-f]{2}.{0,20}?){3,}", re.I)
_ESCAPES = re.compile(r"(?:\\u[0-9a-f]{4}|\\x[0-9a-f]{2}){6,}", re.I)
_ENTITY = re.compile(r"&(?:#|[a-z]{2,8};)", re.I)
_MARKUP = re2.compile(r"(?is)<!--.*?-->|</?[a-z][^<>]{0,200}>")
_NAME = re.compile(r"(?<![a-z])[a-z]++(?:[_+=/.-]++[a-z]++){2,}+")
_NAME_SIGNS = re.compile(r"[_+=/.-]+")
_REVERSED = re.compile("[\u202e\u2067]([^\u202c\u2069\n]{8,})")
_PLAIN_ASCII = re2.compile(
    r"[A-Za-z0-9+/_-]{20}|[A-Za-z0-9+/_-]{8}[ \t]*\r?\n[ \t]*[A-Za-z0-9+/_-]{8}|%[0-9A-Fa-f]{2}"
    r"|\\[ux][0-9a-fA-F]{2}|&[#a-zA-Z]|(?:[0-9A-Fa-f]{2}[ :]?){16}|\b\w(?:[^\w\n]{1,6}\w\b){5}|\b\w(?:[._*|-]\w\b){3}"
    r"|[A-Za-z][0-9$@]+[A-Za-z]|\b[0-9$@][A-Za-z]{2}|[A-Za-z]{2}[0-9$@]\b|<[!/a-zA-Z]|[a-zA-Z](?:[_+=/.-]+[a-zA-Z]+){2}"
)
"""A text of ASCII without a match has no variant: RE2 looks for all of them in one pass."""
_SECRET_HINT = re.compile(
    r"-----BEGIN|AKIA|ASIA|k_live_|sk-|gh[pousr]_|github_pat|glpat-|xox|AIza|eyJ|hf_|npm_|pypi_|nous_|://[^\s/]*@"
    r"|(?i:pass|pwd|kennwort|contrase|senha|парол|secret|token|api.?key)"
)


@dataclass(frozen=True, slots=True)
class InjectionMatch:
    """Result of a scan: the matched `codes` of KINDS (highest weight first), the score, and the matching sentence."""

    codes: tuple[str, ...]
    score: float
    sentence: str

    @property
    def words(self) -> tuple[str, ...]:
        """The matched kinds in words for people."""
        return tuple(KINDS[code] for code in self.codes)


@lru_cache(maxsize=1)
def _automata() -> tuple[tuple[re2.Set, tuple[str, ...]], ...]:
    """An automaton with the features of its patterns for the rules, and one for the requests of each language: a single
    one of all would outgrow its memory and be built again and again."""
    rules = {name: patterns for name, patterns in FEATURES.items() if name not in _BY_LANGUAGE[0]}
    return (_automaton(rules), *(_automaton(language) for language in _BY_LANGUAGE))


def _automaton(features: Mapping[str, Sequence[str]]) -> tuple[re2.Set, tuple[str, ...]]:
    options = re2.Options()
    options.max_mem = SET_BYTES
    found = re2.Set.SearchSet(options)
    names = []
    for name, patterns in features.items():
        for pattern in patterns:
            found.Add(pattern)
            names.append(name)
    found.Compile()
    return found, tuple(names)


@lru_cache(maxsize=1)
def _secrets() -> tuple[tuple[str, re2._Regexp], ...]:
    return tuple((name, re2.compile(pattern)) for name, pattern in SECRETS.items())


def scan_text(text: str, trust: str) -> InjectionMatch | None:
    """Scan a text of trust class `trust`; returns the match for which it must be quarantined, or None."""
    threshold = THRESHOLDS.get(trust)
    if threshold is None or not text:
        return None
    if secret := secret_in(text):
        return InjectionMatch(("secret",), threshold, secret)
    best: InjectionMatch | None = None
    plain = 0.0
    for readable, disguised in variants(text):
        found = _best_match(readable, threshold, trust)
        if found is None:
            continue
        # A score that the plain text reaches too is not due to a disguise.
        hides = disguised and found.score > plain
        plain = max(plain, found.score) if not disguised else plain
        score = found.score + (DISGUISE if hides else 0)
        codes = (*found.codes, "hidden") if hides and "hidden" not in found.codes else found.codes
        if score >= threshold and (best is None or score > best.score):
            best = InjectionMatch(codes, score, found.sentence)
    return best


def secret_in(text: str) -> str:
    """The kind of secret that a text contains, "" for none."""
    if not _SECRET_HINT.search(text):
        return ""
    return next((name for name, pattern in _secrets() if pattern.search(text)), "")


_OF_SECRETS = re.compile(r"(?!-----|[\dT:.+-]+Z?$)(?=.*\d|\S{16})(?=.*[^\W\d_])\S{5,}")
"""What is so rarely said of anything else that texts with it can be found: with digits and letters, and no moment."""


def secrets_in(text: str) -> frozenset[str]:
    """The secrets that a text contains, each without what names it ("password: "), as far as others can be found by
    them. Of a private key, of which only the first line always looks the same, there is none."""
    if not _SECRET_HINT.search(text):
        return frozenset()
    matches = (match for _, pattern in _secrets() for match in pattern.finditer(text))
    values = (match[match.re.groups].split("&")[0].rstrip(".,;:!?)") for match in matches)
    return frozenset(one for one in values if _OF_SECRETS.fullmatch(one))


@lru_cache(maxsize=64)
def features_in(text: str) -> frozenset[str]:
    """The names of the features of a text that was folded by `fold_text`. A text is often its only sentence, and asked
    for again as a piece of a longer one."""
    read = text.encode()
    return frozenset(names[place] for automaton, names in _automata() for place in automaton.Match(read) or ())


def fold_text(text: str) -> str:
    """Fold a text for matching: lower case, Latin letters without diacritics."""
    lowered = text.lower() if text.isascii() else text.translate(_MARKED_LATIN).lower()
    return lowered.replace("’", "'")


def _best_match(text: str, threshold: float, trust: str) -> InjectionMatch | None:
    """The match of the sentence, or of two adjacent sentences, with the highest score."""
    best: InjectionMatch | None = None
    for start in range(0, len(text), BLOCK_CHARACTERS):
        # Blocks overlap, so that a sentence across the end of a block is scanned in the next one.
        block = text[max(start - 300, 0) : start + BLOCK_CHARACTERS]
        held = features_in(block)
        if sum(rule.weight for rule in RULES if rule.features <= held) < threshold - DISGUISE:
            continue
        before: tuple[str, frozenset[str]] = ("", frozenset())
        for sentence in sentences(block):
            own = features_in(sentence)
            both = own | before[1]
            if both not in (own, before[1]):
                # Of two sentences that each say something, none says nothing but a wish.
                both -= {"manner"}
            for words, features, less in (
                (sentence, own, 0.0),
                (f"{before[0]} {sentence}", both, LOWERED),
            )[: 2 if before[0] else 1]:
                found = _sentence_match(words, features, less, trust)
                if found is not None and (best is None or found.score > best.score):
                    best = found
            # A complete sentence does not continue in the next one.
            before = (sentence, own) if len(sentence) <= BROKEN_LINE and sentence[-1] not in ".!?" else ("", own)
    return best


def _sentence_match(sentence: str, features: frozenset[str], less: float, trust: str) -> InjectionMatch | None:
    counted = [rule for rule in RULES if rule.features <= features]
    if (
        not features & ADDRESSED
        and any(rule.code == "request" for rule in counted)
        and (trust in OWN_REQUESTS or lexical_scores(sentence, features)[0] < request_weights().harmless)
    ):
        counted = [rule for rule in counted if rule.code != "request"]
    if not counted:
        return None
    # The rule with the highest weight of each kind counts in full, the others by half: they overlap in meaning.
    best: dict[str, float] = {}
    total = 0.0
    for rule in sorted(counted, key=lambda rule: -rule.weight):
        total += rule.weight / 2 if rule.code in best else rule.weight
        best.setdefault(rule.code, rule.weight)
    if trust == "agent" and not features.isdisjoint(("about_attacks", "manner")):
        total += OWN_WORDS
    if "reported" in features and not features & ADDRESSED:
        total += REPORTED
    return InjectionMatch(tuple(best), total - less, sentence[:300])


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text; short lines without a full stop are joined with the next line."""
    held = ""
    for part in _SENTENCE.split(text):
        part = part.strip()
        if not part:
            continue
        held = f"{held} {part}" if held else part
        if len(part) < SHORT_LINE and part[-1] not in ".!?" and len(held) < 8 * SHORT_LINE:
            continue
        yield held
        held = ""
    if held:
        yield held


def judged_sentences(text: str) -> Iterator[tuple[str, str]]:
    """The sentences of a folded text in the parts that are judged, each with its window: the sentences around it, up to
    WINDOW characters."""
    window: list[str] = []
    for sentence in [*sentences(text), ""]:
        if window and (not sentence or sum(map(len, window)) + len(sentence) > WINDOW):
            around = " ".join(window)[:WINDOW]
            yield from ((part, around) for held in window for part in judged_parts(held))
            window = []
        window.append(sentence)


def variants(text: str) -> Iterator[tuple[str, bool]]:
    """The folded text and its decoded or respelled variants, each with whether it was disguised."""
    if text.isascii() and shows_all(text) and not _PLAIN_ASCII.search(text):
        yield text.lower(), False
        return
    read = readable_text(text)
    shown = fold_text(read.text if read else text)
    yield shown, False
    if read is not None and _disguised(text, read.text):
        yield shown, True
    if not text.isascii():
        if _MIXED.search(plain := fold_text(text)):
            yield as_latin(plain), True
        if tagged := _TAGGED.findall(text):
            yield fold_text(" ".join("".join(chr(ord(one) - 0xE0000) for one in run) for run in tagged)), True
        if backwards := _REVERSED.findall(text):
            yield fold_text(" ".join(run[::-1] for run in backwards)), True
    if _MANY_INTRA.search(shown) or _SPACED.search(shown):
        yield _unspaced(shown), True
    if _NAME.search(shown):
        yield _NAME.sub(lambda found: _NAME_SIGNS.sub(" ", found.group()), shown), False
    if "<" in shown and (bare := _MARKUP.sub("", shown)) != shown:
        yield bare, False
    if (words := len(_LEET.findall(shown))) >= 3:
        yield _leet_read(shown, with_numbers=words >= MANY_LEET), True
    for decoded in _decoded(text):
        yield _read_folded(decoded), True


def _read_folded(text: str) -> str:
    read = readable_text(text)
    return fold_text(read.text if read else text)


def _disguised(text: str, shown: str) -> bool:
    """Whether the normalised text differs from the raw one in more than eight letters."""
    if text.isascii():
        return False
    changed = len(text) - len(shown)
    if changed > 8:
        return True
    return sum(1 for one, other in zip(text, shown, strict=False) if one != other) > 8 and changed == 0


def _leet_read(text: str, *, with_numbers: bool) -> str:
    """Replace digits by letters in words spelled with digits; `with_numbers`: in numbers too."""

    def read(found: re.Match[str]) -> str:
        word = found.group()
        return word.translate(_LEET_LETTERS) if with_numbers or any(map(str.isalpha, word)) else word

    return _LEET_WORD.sub(read, text)


def _unspaced(text: str) -> str:
    """Join letters that are separated by blanks or signs; wider gaps separate words."""

    def joined(found: re.Match[str]) -> str:
        words = re.split(r"\s{2,}", found.group())
        return " ".join(re.sub(r"[\s._*|-]", "", word) for word in words)

    return _SPACED.sub(joined, _INTRA.sub(lambda found: re.sub(r"[._*|-]", "", found.group()), text))


def _decoded(text: str, layer: int = 1) -> Iterator[str]:
    """Decoded parts of a text: base64, hexadecimal, percent or backslash escapes, and HTML entities."""
    for decoded in _decoded_once(text):
        yield decoded
        if layer < MAX_LAYERS:
            yield from _decoded(decoded, layer + 1)


def _decoded_once(text: str) -> Iterator[str]:
    runs = [said for run in _BASE64.findall(text) if len(run) >= _SHORTEST_BASE64 for said in _of_base64(run)]
    runs += [said for run in _HEX.findall(text) if (said := _of_hex(run))]
    if runs:
        yield "\n".join(runs)
    if _PERCENT.search(text):
        yield urllib.parse.unquote_plus(text)
    for run in _ESCAPES.findall(text):
        yield bytes.fromhex(re.sub(r"\\x|\\u00", "", run)).decode("utf-8", "replace") if _even(run) else run
    if _ENTITY.search(text) and (plain := html.unescape(text)) != text:
        yield plain


def _even(run: str) -> bool:
    return len(re.sub(r"\\x|\\u00", "", run)) % 2 == 0 and "\\u" not in re.sub(r"\\u00", "", run)


def _of_base64(run: str) -> list[str]:
    """The texts that a run of base64 stands for: its lines as one, also without a word before or after it, and each
    line."""
    parts = run.split()
    whole = [parts, parts[:-1], parts[1:], parts[1:-1]] if len(parts) > 1 else []
    packed = ["".join(some) for some in whole] + parts
    return list(filter(None, map(_of_packed, packed)))


def _of_packed(packed: str) -> str:
    if len(packed) < _SHORTEST_BASE64:
        return ""
    packed = packed.replace("-", "+").replace("_", "/").rstrip("=")
    return _text_of(lambda: base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True))


def _of_hex(run: str) -> str:
    return _text_of(lambda: bytes.fromhex(re.sub(r"[ :]", "", run)))


def _text_of(decode: Callable[[], bytes]) -> str:
    try:
        said = decode().decode("utf-8")
    except (ValueError, binascii.Error):
        return ""
    return said if _shows_most(said) else ""


def _shows_most(text: str) -> bool:
    """Whether a decoded text is one: its characters can be printed, but for line breaks and invisible letters."""
    return all(one.isprintable() or one.isspace() or unicodedata.category(one) == "Cf" for one in text)
