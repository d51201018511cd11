"""Scan a text for prompt injection and secrets: a sum of weights for each sentence.

The rules are those of `nousweb.lib.injection.table`; no model is used, and the same words have the same result. The
patterns of all features form one automaton of RE2, whose time is linear in the length of the text.
"""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import re2

from nousweb.lib.injection.table import ABOUT_ATTACKS, FEATURES, KINDS, RULES, SECRETS, THRESHOLDS
from nousweb.lib.lookalikes import as_latin
from nousweb.lib.readable_text import readable_text

MAX_CHARACTERS = 200_000
BLOCK_CHARACTERS = 4_000
"""Size of the blocks of which a whole one is skipped if it has too few features for any rule."""
SHORT_LINE = 30
"""A line shorter than this may be part of a sentence that was split to evade the scan."""
SET_BYTES = 64 << 20
BROKEN_LINE = 60
"""A line up to this length without a full stop may continue in the next line."""
LOWERED = 2.0
"""Subtracted from the score if the features are spread over two sentences."""
DISGUISE = 1.5
"""Added to the score if the text is disguised, so that people or filters would miss it."""
MAX_DECODED = 20
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
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_HEX = re.compile(r"\b(?:[0-9a-f]{2}[ :]?){16,}\b", re.I)
_PERCENT = re.compile(r"(?:%[0-9a-f]{2}){6,}", re.I)
_ESCAPES = re.compile(r"(?:\\u[0-9a-f]{4}|\\x[0-9a-f]{2}){6,}", re.I)
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
def _automaton() -> tuple[re2.Set, tuple[str, ...]]:
    options = re2.Options()
    options.max_mem = SET_BYTES
    found = re2.Set.SearchSet(options)
    names = []
    for name, patterns in FEATURES.items():
        for pattern in patterns:
            found.Add(pattern)
            names.append(name)
    found.Compile()
    return found, tuple(names)


@lru_cache(maxsize=1)
def _secrets() -> tuple[tuple[str, re2._Regexp], ...]:
    return tuple((name, re2.compile(pattern)) for name, pattern in SECRETS.items())


def scan_text(text: str, trust: str) -> InjectionMatch | None:
    """Scan a text of trust class `trust`; returns the match for which it must be quarantined, or None.

    Only the first MAX_CHARACTERS are read.
    """
    threshold = THRESHOLDS.get(trust)
    text = text[:MAX_CHARACTERS]
    if threshold is None or not text:
        return None
    if secret := secret_in(text):
        return InjectionMatch(("secret",), threshold, secret)
    best: InjectionMatch | None = None
    plain = 0.0
    for readable, disguised in _variants(text):
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


def features_in(text: str) -> frozenset[str]:
    """The names of the features of a text that was folded by `fold_text`."""
    automaton, names = _automaton()
    return frozenset(names[place] for place in automaton.Match(text) or ())


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
        for sentence in _sentences(block):
            own = features_in(sentence)
            for words, features, less in (
                (sentence, own, 0.0),
                (f"{before[0]} {sentence}", own | before[1], LOWERED),
            )[: 2 if before[0] else 1]:
                found = _sentence_match(words, features, less, trust)
                if found is not None and (best is None or found.score > best.score):
                    best = found
            # A complete sentence does not continue in the next one.
            before = (sentence, own) if len(sentence) <= BROKEN_LINE and sentence[-1] not in ".!?" else ("", own)
    return best


def _sentence_match(sentence: str, features: frozenset[str], less: float, trust: str) -> InjectionMatch | None:
    counted = [rule for rule in RULES if rule.features <= features]
    if not counted:
        return None
    # The rule with the highest weight of each kind counts in full, the others by half: they overlap in meaning.
    best: dict[str, float] = {}
    total = 0.0
    for rule in sorted(counted, key=lambda rule: -rule.weight):
        total += rule.weight / 2 if rule.code in best else rule.weight
        best.setdefault(rule.code, rule.weight)
    if trust == "agent" and "about_attacks" in features:
        total += ABOUT_ATTACKS
    return InjectionMatch(tuple(best), total - less, sentence[:300])


def _sentences(text: str) -> Iterator[str]:
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


def _variants(text: str) -> Iterator[tuple[str, bool]]:
    """The folded text and its decoded or respelled variants, each with whether it was disguised."""
    read = readable_text(text)
    shown = fold_text(read.text if read else text)
    yield shown, False
    if read is not None and _disguised(text, read.text):
        yield shown, True
    if not text.isascii() and _MIXED.search(plain := fold_text(text)):
        yield as_latin(plain), True
    if tagged := _TAGGED.findall(text):
        yield fold_text(" ".join("".join(chr(ord(one) - 0xE0000) for one in run) for run in tagged)), True
    if _MANY_INTRA.search(shown) or _SPACED.search(shown):
        yield _unspaced(shown), True
    if (words := len(_LEET.findall(shown))) >= 3:
        yield _leet_read(shown, with_numbers=words >= MANY_LEET), True
    for decoded in _decoded(text):
        yield fold_text(decoded), True


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


def _decoded(text: str) -> Iterator[str]:
    """Decoded parts of a text: base64, hexadecimal, percent or backslash escapes, and HTML entities."""
    runs: list[tuple[str, Sequence[str]]] = [("base64", _BASE64.findall(text)), ("hex", _HEX.findall(text))]
    for way, found in runs:
        for run in found[:MAX_DECODED]:
            if (said := _plain(way, run)) is not None:
                yield said
    for pattern in (_PERCENT, _ESCAPES):
        for run in pattern.findall(text)[:MAX_DECODED]:
            yield bytes.fromhex(re.sub(r"%|\\x|\\u00", "", run)).decode("utf-8", "replace") if _even(run) else run
    if "&#" in text:
        yield html.unescape(text)


def _even(run: str) -> bool:
    return len(re.sub(r"%|\\x|\\u00", "", run)) % 2 == 0 and "\\u" not in re.sub(r"\\u00", "", run)


def _plain(way: str, run: str) -> str | None:
    try:
        if way == "hex":
            raw = bytes.fromhex(re.sub(r"[ :]", "", run))
        else:
            run = run.replace("-", "+").replace("_", "/").rstrip("=")
            raw = base64.b64decode(run + "=" * (-len(run) % 4), validate=True)
        said = raw.decode("utf-8")
    except (ValueError, binascii.Error):
        return None
    return said if said.isprintable() and " " in said else None
