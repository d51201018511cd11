"""The languages of lexical search, and the tokenizer of texts and queries: PostgreSQL's own dictionaries.

A language for which PostgreSQL has none is read as it is, without stemming. Scripts without spaces are read in
overlapping pieces whatever the language (`nous_terms`, memory/migrations/0001_initial.py).
"""

from dataclasses import dataclass

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
