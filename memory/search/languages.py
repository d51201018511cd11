"""The languages of lexical search, and the tokenizer of texts and queries: PostgreSQL's own dictionaries.

A language for which PostgreSQL has none is read as it is, without stemming. Scripts without spaces are read in
overlapping pieces whatever the language (`nous_terms`, memory/migrations/0001_initial.py).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nousweb.lib.transactions import sql_row

SCRIPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ja", re.compile("[\u3041-\u30ff]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("ko", re.compile("[\uac00-\ud7a3]")),
    ("th", re.compile("[\u0e01-\u0e4e]")),
    ("ar", re.compile("[\u0620-\u064a]")),
    ("he", re.compile("[\u05d0-\u05ea]")),
    ("el", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ta", re.compile("[\u0b80-\u0bff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
"""A language of each script; where others are written in it too, people say so."""
LATIN = ("en", "da", "nl", "fi", "fr", "de", "hu", "it", "no", "pt", "es", "sv", "tr")
"""Languages in Latin letters of which PostgreSQL has stop words."""
LEAST_LETTERS = 200
LEAST_SHARE = 0.5
"""Of the letters that are of one script, for that to be the script."""
LEAST_KANA = 0.1
"""Of the Chinese characters and kana of a Japanese text at least so many are kana."""
LEAST_STOP_WORDS = 0.2
"""Of the words of a text in that language."""
AHEAD = 1.2
"""So many times as many stop words as the next language has."""

_LETTER = re.compile(r"[^\W\d_]")


def language_of(texts: Sequence[str]) -> str:
    """The code of the language that most of the texts are in; "" when they are too few, or in none that is known."""
    whole = "\n".join(texts)
    letters = len(_LETTER.findall(whole))
    if letters < LEAST_LETTERS:
        return ""
    counts = {code: len(pattern.findall(whole)) for code, pattern in SCRIPTS}
    unspaced = counts["ja"] + counts["zh"]
    if unspaced >= LEAST_SHARE * letters / 2:  # A character says about as much as two letters.
        return "ja" if counts["ja"] >= LEAST_KANA * unspaced else "zh"
    found = next((code for code, count in counts.items() if count >= LEAST_SHARE * letters), "")
    return found or _by_stop_words(whole)


def _by_stop_words(text: str) -> str:
    dropped = ", ".join(f"nous_word_count(to_tsvector('{LANGUAGES[code].dictionary}', %(text)s))" for code in LATIN)
    words, *kept = sql_row(f"SELECT nous_word_count(to_tsvector('simple', %(text)s)), {dropped}", {"text": text})
    shares = sorted(((1 - left / max(words, 1), code) for left, code in zip(kept, LATIN, strict=True)), reverse=True)
    (best, code), (second, _) = shares[:2]
    return code if best >= LEAST_STOP_WORDS and best >= AHEAD * second else ""


DEFAULT_DICTIONARY = "english"
PLAIN = "simple"
"""Words as they are: for languages without a dictionary."""


@dataclass(frozen=True, slots=True)
class Language:
    """`dictionary` is the name of PostgreSQL's text search configuration."""

    name: str
    dictionary: str = PLAIN


LANGUAGES: dict[str, Language] = {
    "ar": Language("Arabic", "arabic"),
    "ca": Language("Catalan", "catalan"),
    "zh": Language("Chinese"),
    "cs": Language("Czech"),
    "da": Language("Danish", "danish"),
    "nl": Language("Dutch", "dutch"),
    "en": Language("English", "english"),
    "fi": Language("Finnish", "finnish"),
    "fr": Language("French", "french"),
    "de": Language("German", "german"),
    "el": Language("Greek", "greek"),
    "he": Language("Hebrew"),
    "hi": Language("Hindi", "hindi"),
    "hu": Language("Hungarian", "hungarian"),
    "id": Language("Indonesian", "indonesian"),
    "ga": Language("Irish", "irish"),
    "it": Language("Italian", "italian"),
    "ja": Language("Japanese"),
    "ko": Language("Korean"),
    "lt": Language("Lithuanian", "lithuanian"),
    "ne": Language("Nepali", "nepali"),
    "no": Language("Norwegian", "norwegian"),
    "fa": Language("Persian"),
    "pl": Language("Polish"),
    "pt": Language("Portuguese", "portuguese"),
    "ro": Language("Romanian", "romanian"),
    "ru": Language("Russian", "russian"),
    "sr": Language("Serbian", "serbian"),
    "es": Language("Spanish", "spanish"),
    "sv": Language("Swedish", "swedish"),
    "ta": Language("Tamil", "tamil"),
    "th": Language("Thai"),
    "tr": Language("Turkish", "turkish"),
    "uk": Language("Ukrainian"),
    "vi": Language("Vietnamese"),
    "xx": Language("Another language, or several"),
}
"""By their codes of ISO 639-1, those that people may set; "xx" is read without a dictionary."""


def dictionary_sql(agent_id: int | str) -> str:
    """The dictionary by which the words of an agent are read, as an expression; `agent_id` is a number or a column."""
    return (
        f"coalesce((SELECT dictionary FROM memory_searchlanguage WHERE agent_id = {agent_id}), '{DEFAULT_DICTIONARY}')"  # noqa: S608
    )


def terms_sql(agent_id: int, words: str) -> str:
    """The words of an expression as the index of the agent has them: the one way to read a query or a text."""
    return f"nous_terms({dictionary_sql(int(agent_id))}, {words})"
