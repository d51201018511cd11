"""Why a memory was in a prompt, or too far from its question, in words: what the two have in common.

The log has no words, only their share of the question (`lexical`) and the closeness of the meanings (`cosine`). So
words are only named where the search matched some.
"""

from collections.abc import Collection, Mapping, Set
from datetime import datetime
from itertools import islice
from typing import Any

from context.feedback.content_words import content_words

ALWAYS = "always"
"""Why a section is in the prompt that is not searched, and of those that are in every one."""
UNSEARCHED = {"recent": "recent", "working_memory": "session"}
WORDS_SAID, LATEST = 3, "latest"
NEARLY_THE_SAME, CLOSE, LOOSE = 0.7, 0.5, 0.3
"""Closeness of meanings, on the scale of the search's own constants; unrelated texts have less than the last."""
ENDINGS, LEAST_STEM = frozenset(("ment", "er", "al", "ion")), 5
"""What two forms of a word may differ by that the search reads as one, and the letters that they share at least."""


def reason_of(candidate: Mapping[str, Any], asked: Set[str], time: Mapping[str, str]) -> str:
    """Why a candidate is in the prompt: its pin, the `time` that the question asks about, as its intent has it, or what
    it has in common with the words that are `asked`."""
    if fixed := _whatever_it_says(candidate):
        return "one of the latest tool results" if fixed == LATEST else fixed
    if day := day_asked(candidate, time):
        return f"asked about “{time['text']}”: {'learned ' if candidate['type'] == 'fact' else ''}{day}"
    said, cosine = _said(candidate, asked), candidate.get("cosine") or 0
    told = ["very close in meaning"] if cosine >= NEARLY_THE_SAME else []
    label = {word.text for word in content_words(candidate.get("label", ""))} if said else set()
    if label and all(_among(word, asked) for word in label):
        told.append(f"about {candidate['label']}")
        said = [word for word in said if not _among(word.casefold(), label)]
    if said and cosine < NEARLY_THE_SAME:
        told.append(_says(said))
    told = told or [_meaning(candidate)]
    return " · ".join([*told, "one of the most recent"] if candidate.get("place") == "tail" else told)


def short_reason(candidate: Mapping[str, Any], asked: Set[str], time: Mapping[str, str]) -> str:
    """The same in a word or two, where there is no room for more."""
    if fixed := _whatever_it_says(candidate):
        return fixed
    if day_asked(candidate, time):
        return f"“{time['text']}”"
    if said := _said(candidate, asked):
        return f"“{said[0][:12]}”" + (f" +{len(said) - 1}" if said[1:] else "")
    return "meaning" if (candidate.get("cosine") or 0) >= LOOSE or candidate["type"] != "event" else "conversation"


def distance_of(candidate: Mapping[str, Any], asked: Set[str]) -> str:
    """What little a candidate has in common with the question that is too far from it."""
    if said := _said(candidate, asked):
        return f"only {_says(said[:2]).removeprefix('says ')}"
    return "little in common" if candidate.get("lexical") else "no word in common"


def excluded_kinds(candidate: Mapping[str, Any], kinds: Collection[str]) -> str:
    """The kinds for which the profile excludes a candidate, whatever its relevance; "" if it does not."""
    found = candidate.get("kinds", ()) if candidate["verdict"] == "excluded_kind" else ()
    return ", ".join(kind.replace("_", " ") for kind in found if kind in kinds)


def day_asked(candidate: Mapping[str, Any], time: Mapping[str, str]) -> str:
    """The day of a memory that was found because the question asks about its time, whatever its words."""
    found_at = str(candidate.get("found_at") or candidate.get("happened_at") or "")
    if not (time and found_at and candidate.get("relevance")) or candidate["verdict"] == "below_threshold":
        return ""
    start, end, at = (
        datetime.fromisoformat(text) if text else None for text in (time.get("start"), time.get("end"), found_at)
    )
    return found_at[:10] if at and (start is None or start <= at) and (end is None or at < end) else ""


def _whatever_it_says(candidate: Mapping[str, Any]) -> str:
    """Why a candidate is in the prompt, whatever its words; "" where they are the reason."""
    is_below = (candidate.get("relevance") or 0) < (candidate.get("threshold") or 0)
    return "pinned" if candidate.get("pinned") else LATEST if candidate["verdict"] == "included" and is_below else ""


def _said(candidate: Mapping[str, Any], asked: Set[str]) -> list[str]:
    """The words of a candidate that the question has too, as it writes them; none where the search matched none."""
    if not candidate.get("lexical"):
        return []
    text = f"{candidate['text']}\n{candidate.get('label', '')}"
    found: dict[str, str] = {}
    for word in content_words(text):
        if _among(word.text, asked):
            found.setdefault(word.text, text[word.start : word.end])
    return list(found.values())


def _among(word: str, others: Set[str]) -> bool:
    """Whether a word, or another form of it, is among the others."""
    return word in others or any(
        (len(word) >= LEAST_STEM and word + ending in others)
        or (word.endswith(ending) and len(stem := word.removesuffix(ending)) >= LEAST_STEM and stem in others)
        for ending in ENDINGS
    )


def _says(words: Collection[str]) -> str:
    more = f" and {len(words) - WORDS_SAID} more" if len(words) > WORDS_SAID else ""
    return f"says {', '.join(f'“{word}”' for word in islice(words, WORDS_SAID))}{more}"


def _meaning(candidate: Mapping[str, Any]) -> str:
    cosine = candidate.get("cosine") or 0
    if candidate.get("lexical"):
        return "words of the question in its full text"
    if cosine >= CLOSE:
        return "close in meaning"
    if cosine < LOOSE and candidate["type"] == "event":
        return "its conversation is about this"
    return f"{'loosely ' * (cosine < LOOSE)}related in meaning"
