"""Names of subjects in the forms in which they are compared, and the similarity of two, with the reason: candidates for
review, never a decision. Pure.

The key ignores case, white space and punctuation that only parts words, and reads letters that pass for Latin ones as
these. What punctuation can tell apart stays: C and C++, .NET and net, 1.5 and 15, an address and a host. The meaning
also writes alike what certainly says the same, by the tables of memory/subjects/name_lexicon.py. Two spellings of one
meaning are merged without asking anybody.

Each way in which names are written otherwise (an acronym, a nickname, a typo, …) has marks: what the one spelling
offers and the other one looks for. Spellings are compared only where a mark of the one is among those of the other, so
finding the partners of a new name is a look into an index, however many names there are.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import OSA

from memory.models import MAX_SPELLING_CHARACTERS
from memory.subjects import name_lexicon as w
from nousweb.lib.lookalikes import lookalike_fold
from nousweb.lib.validation import visible_text

_APOSTROPHES = str.maketrans(dict.fromkeys("’‘`´ʼ", "'"))
_QUOTES = re.compile(r"[\"“”„«»‹›]|'(?!s\b)")
"""A possessive stays: McDonald's is not McDonald, nor William's Williams."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DOTTED = re.compile(r"(?<=\w)\.(?=[^\W\d])|(?<=[^\W\d])\.(?=\w)")
"""A dot inside a word, where no number is parted by it."""
_PARTING = re.compile(r"[\s_()\[\]{}<>;:!?¡¿|·•–—…,]+|(?<=\w)-+(?=\w)|-+(?=\s|$)|(?<!\w)\.+(?=\s|$)|(?<=\w)\.+(?=\s|$)")
_INNER_DOT = re.compile(r"(?<=[^\W\d])\.(?=[^\W\d])")


def tokens_of(spelling: str) -> tuple[str, ...]:
    """The words of a spelling in lower case, without what only parts them."""
    text = _unspaced(spelling)
    text = _PARTING.sub(" ", _DOTTED.sub(" ", _THOUSANDS.sub("", text)))
    return tuple(text.split())


def key_of(spelling: str) -> str:
    """A key that is equal for spellings that differ only by case, white space and separating punctuation."""
    return _bounded(" ".join(tokens_of(spelling)) or " ".join(spelling.casefold().split()))


def meaning_of(spelling: str) -> str:
    """A key that is equal for spellings that certainly mean the same thing."""
    key = " ".join(tokens_of(spelling))
    if key in w.USER:
        return w.USER_MEANING
    joined = _INNER_DOT.sub("", _unspaced(spelling))
    words = tokens_of(joined) if len(joined) >= w.MIN_JOINED_CHARACTERS else tuple(key.split())
    written = " ".join(w.CERTAIN_WORDS.get(word, word) for word in words)
    return _bounded(w.CERTAIN_NAMES.get(written, written)) or key_of(spelling)


def is_users(spelling: str) -> bool:
    """Whether a spelling can only mean the user."""
    return meaning_of(spelling) == w.USER_MEANING


def _unspaced(spelling: str) -> str:
    shown = lookalike_fold(unicodedata.normalize("NFKC", visible_text(spelling)))
    return _QUOTES.sub("", shown.casefold().translate(_APOSTROPHES))


def _bounded(text: str) -> str:
    """Normal forms can be longer than what was written; what is too long keeps its beginning and a digest."""
    if len(text) <= MAX_SPELLING_CHARACTERS:
        return text
    return f"{text[:150]} {hashlib.sha256(text.encode()).hexdigest()[:32]}"


LEAST_TYPO, LEAST_MISSING, LEAST_EXCHANGED, LEAST_TWO_TYPOS = 5, 6, 8, 12
"""Letters of a word that may be doubled or turned round, miss one, have another one, or have two mistakes."""
MOST_LETTERS, MOST_WORDS, MOST_ACRONYM = 40, 6, 6
_DIGITS = re.compile(r"\d+")
_NUMERONYM = re.compile(r"([a-z])(\d{1,2})([a-z])")
_VOWELS = frozenset("aeiouy")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_GERMAN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


@dataclass(frozen=True, slots=True)
class Likeness:
    """Why two names may mean the same: `code` is for machines, `words` for people; `score` lies in [0, 1]."""

    code: str
    score: float

    @property
    def words(self) -> str:
        return REASONS[self.code][0]


REASONS: dict[str, tuple[str, float]] = {
    "spelling": ("They differ by spaces, accents, an ending, an article or a usual abbreviation.", 0.95),
    "numeronym": ("One counts the letters that the other one spells out.", 0.95),
    "order": ("The same words stand in another order.", 0.85),
    "typo": ("They differ by a letter or two, as a slip of the keys does.", 0.8),
    "initials": ("One has an initial where the other one has a name.", 0.8),
    "login": ("One looks like a log-in made of the other one.", 0.8),
    "nickname": ("One has a short form of the other one's first name.", 0.75),
    "acronym": ("One is made of the first letters of the other one.", 0.7),
    "middle_name": ("One has a name more in the middle.", 0.7),
    "part_of_name": ("One has a first name or a surname only.", 0.5),
}
"""By code: words for people, and how likely it is that both mean the same."""


@dataclass(frozen=True)
class Name:
    """A spelling as it is compared: `plain` are its words in their plain forms, `typed` as they were typed."""

    spelling: str
    words: tuple[str, ...]
    plain: tuple[str, ...]
    typed: tuple[str, ...]

    @property
    def compact(self) -> str:
        return "".join(self.plain)[:MOST_LETTERS]

    @property
    def is_person(self) -> bool:
        """Whether it is written as the full name of a person is."""
        capitals = [word[:1].isupper() for word in self.spelling.replace(",", " ").split()]
        short = 2 <= len(self.words) <= 4 and self.words[-1] not in w.GENERIC
        return short and all(capitals) and self.words[0] in w.GIVEN_NAMES and not _DIGITS.search(self.spelling)


@lru_cache(maxsize=4_096)
def name_of(spelling: str) -> Name:
    """A spelling read: its words, and the same in their plain forms."""
    words = tuple(word.removesuffix("'s") for word in tokens_of(spelling))
    apart = tuple(word.removesuffix("'s") for word in tokens_of(_CAMEL.sub(" ", spelling)))
    return Name(spelling, words, _plain(apart), tuple(map(_unaccented, words)))


def _plain(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without accents, titles, small and generic words; abbreviations in full, the last word in the singular."""
    kept = [_unaccented(word) for word in words]
    if len(kept) > 1 and kept[0] in w.TITLES:
        kept = kept[1:]
    while len(kept) > 1 and kept[-1] in w.GENERIC:
        kept.pop()
    kept = [word for word in kept if word not in w.SMALL] or kept
    if kept:
        kept[-1] = _singular(kept[-1])
    full = [w.ABBREVIATIONS.get(word) or w.CERTAIN_WORDS.get(word, word) for word in kept]
    whole = " ".join(full)
    return tuple(w.CERTAIN_NAMES.get(whole, whole).split())


def _unaccented(word: str) -> str:
    apart = unicodedata.normalize("NFD", word.translate(_GERMAN))
    bare = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return bare.replace("ß", "ss").replace("ø", "o").replace("ł", "l").replace("æ", "ae") or word


def _singular(word: str) -> str:
    if len(word) < LEAST_TYPO - 1 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > LEAST_TYPO:
        single = f"{word[:-3]}y"
    else:
        single = word[:-2] if word.endswith(("sses", "shes", "ches", "xes", "zes")) else word[:-1]
    # Williams is no plural of William, and users are not the user.
    return word if single in w.GIVEN_NAMES or single in w.USER else single


def marks_offered(spelling: str) -> frozenset[str]:
    """The marks of a spelling by which other spellings find it."""
    return frozenset(_offered(name_of(spelling)))


def marks_wanted(spelling: str) -> frozenset[str]:
    """The marks that this spelling looks for: a spelling that may mean the same has one of them in `marks_offered`."""
    return frozenset(_wanted(name_of(spelling)))


def _both(name: Name) -> Iterator[str]:
    """Marks that two spellings share."""
    yield f"spelling:{name.compact}"
    if len(name.plain) > 1:
        yield f"order:{' '.join(sorted(name.plain))}"
    typed = "".join(name.typed)[:MOST_LETTERS]
    if len(typed) >= LEAST_TYPO:
        yield f"typo:{typed}"
        yield from (f"typo:{typed[:place]}{typed[place + 1 :]}" for place in range(len(typed)))
    if len(typed) >= LEAST_TWO_TYPOS:
        yield f"bones:{_bones(typed)}"
    if len(name.words) > 1 and name.words[-1].isalpha() and len(name.words[-1]) > 1:
        yield f"initials:{name.words[0][:1]} {name.words[-1]}"
    if len(name.words) > 1 and name.words[0] in w.GIVEN_NAMES:
        yield f"initial_last:{name.words[0]} {name.words[-1][:1]}"
        yield f"middle_name:{name.words[0]} {name.words[-1]}"
    for full in w.NICKNAMES.get(name.words[0], frozenset()) | {name.words[0]} if name.words else ():
        if full in w.FULL_NAMES:
            yield f"nickname:{' '.join((full, *name.words[1:]))}"


def _bones(word: str) -> str:
    """A long name without its vowels and doubled letters, where two mistakes are rarely seen."""
    single = "".join(letter for letter, before in zip(word, f" {word}", strict=False) if letter != before)
    return single[:1] + "".join(letter for letter in single[1:] if letter not in _VOWELS)


def _offered(name: Name) -> Iterator[str]:
    yield from _both(name)
    yield f"plain:{' '.join(_joined(name.words))}"
    yield from (f"collapsed:{each}" for each in _collapsed(name.words))
    if len(name.words) == 1 and len(name.words[0]) >= LEAST_TYPO:
        word = name.words[0]
        yield f"counted:{word[0]}{len(word) - 2}{word[-1]}"
    elif _NUMERONYM.fullmatch("".join(name.words)):
        yield f"numeronym:{name.words[0]}"
    if name.is_person:
        yield f"first:{name.words[0]}"
        yield f"last:{name.words[-1]}"
        yield from (f"login:{login}" for login in _logins(name.words))
    if len(name.words) == 1:
        yield f"alone:{name.words[0]}"


def _wanted(name: Name) -> Iterator[str]:
    yield from _both(name)
    yield f"collapsed:{' '.join(_joined(name.words))}"
    yield from (f"plain:{each}" for each in _collapsed(name.words))
    if _NUMERONYM.fullmatch("".join(name.words)):
        yield f"counted:{name.words[0]}"
    if len(name.words) == 1 and len(name.words[0]) >= LEAST_TYPO:
        word = name.words[0]
        yield f"numeronym:{word[0]}{len(word) - 2}{word[-1]}"
        yield f"login:{word}"
    if len(name.words) == 1:
        yield f"first:{name.words[0]}"
        yield f"last:{name.words[0]}"
    if name.is_person:
        yield f"alone:{name.words[0]}"
        yield f"alone:{name.words[-1]}"
        yield from (f"alone:{login}" for login in _logins(name.words))


def _logins(words: tuple[str, ...]) -> tuple[str, ...]:
    first, last = words[0], words[-1]
    return (f"{first[0]}{last}", f"{last}{first[0]}", f"{first}{last[0]}")


def _joined(words: tuple[str, ...]) -> tuple[str, ...]:
    """Single letters in a row as one word: T. K. as tk."""
    return ("".join(words),) if len(words) > 1 and all(len(word) == 1 for word in words) else words


def _collapsed(words: tuple[str, ...]) -> set[str]:
    """The words with a run of them, two or more, as their first letters."""
    found = set()
    for kept in {words, tuple(word for word in words if word not in w.SMALL)}:
        if not 2 <= len(kept) <= MOST_WORDS:
            continue
        for begin in range(len(kept) - 1):
            for end in range(begin + 2, len(kept) + 1):
                run = kept[begin:end]
                if all(word[0].isalpha() and len(word) > 1 for word in run):
                    found.add(" ".join((*kept[:begin], "".join(word[0] for word in run), *kept[end:])))
    return found


def likeness(one: str, other: str) -> Likeness | None:
    """The best reason why two spellings may mean the same thing, or None. Symmetric."""
    if meaning_of(one) in w.USER or meaning_of(other) in w.USER:
        # Whoever the user is called like is known from what is said, not from how it is written.
        return None
    first, second = sorted((name_of(one), name_of(other)), key=lambda name: (name.compact, name.spelling))
    if not first.words or not second.words:
        return None
    found = [code for code in REASONS if _HOLDS[code](first, second) or _HOLDS[code](second, first)]
    same_numbers = sorted(_DIGITS.findall(" ".join(first.words))) == sorted(_DIGITS.findall(" ".join(second.words)))
    if not same_numbers:
        found = [code for code in found if code == "numeronym"]
    best = max((REASONS[code][1], code) for code in found) if found else None
    return Likeness(best[1], best[0]) if best else None


def _numeronym(one: Name, other: Name) -> bool:
    found = _NUMERONYM.fullmatch(one.words[0]) if len(one.words) == len(other.words) == 1 else None
    if found is None or not other.words[0].isalpha():
        return False
    return (other.words[0][0], len(other.words[0]) - 2, other.words[0][-1]) == (found[1], int(found[2]), found[3])


def _typo(one: Name, other: Name) -> bool:
    """Whether one letter, of long names two, is doubled, turned round, left out or exchanged, in one word of it."""
    if len(one.typed) == len(other.typed):
        differing = [pair for pair in zip(one.typed, other.typed, strict=True) if pair[0] != pair[1]]
        return len(differing) == 1 and _mistyped(*differing[0])
    return abs(len(one.typed) - len(other.typed)) == 1 and _mistyped("".join(one.typed), "".join(other.typed))


def _mistyped(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    if len(short) < LEAST_TYPO or not (short + long).isalpha() or short[0] != long[0]:
        return False
    if {one, other} <= w.GIVEN_NAMES:
        return False
    distance = OSA.distance(one, other, score_cutoff=2)
    if distance == 1:
        place = next(
            (place for place, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), len(short)
        )
        if len(short) == len(long):
            turned = short[place : place + 2] == long[place : place + 2][::-1]
            return turned or (len(short) >= LEAST_EXCHANGED and place < len(short) - 1)
        doubled = long[place] in (long[place - 1 : place], long[place + 1 : place + 2])
        # What ends otherwise is often another word: Nigeria, Paula, Andreas.
        return doubled or (len(short) >= LEAST_MISSING and place < len(short))
    return distance == 2 and len(short) >= LEAST_TWO_TYPOS and _bones(one) == _bones(other)


def _initials(one: Name, other: Name) -> bool:
    """J. Smith and John Smith; Tim K. and Tim Kowalski."""
    if not (1 < len(one.words) <= len(other.words) <= 4):
        return False
    capital = one.spelling[:1].isupper() and other.spelling[:1].isupper()
    if len(one.words[0]) == 1 and len(other.words[0]) > 1 and one.words[-1] == other.words[-1]:
        known = "." in one.spelling or other.words[0] in w.GIVEN_NAMES
        return capital and known and len(one.words[-1]) > 1 and one.words[0] == other.words[0][0]
    last = len(one.words[-1]) == 1 and other.words[-1].startswith(one.words[-1]) and len(other.words[-1]) > 1
    return last and capital and one.words[0] == other.words[0] and other.is_person


def _nickname(one: Name, other: Name) -> bool:
    """Bob and Robert, Liz and Lizzie; the rest of the name is the same."""
    if one.words[1:] != other.words[1:] or one.words[0] == other.words[0]:
        return False
    nicks = w.NICKNAMES.get(one.words[0], frozenset())
    related = (
        nicks & w.NICKNAMES.get(other.words[0], frozenset())
        and one.words[0][:3] == other.words[0][:3]
        and one.words[0].endswith(("y", "ie")) != other.words[0].endswith(("y", "ie"))
    )
    return other.words[0] in nicks or bool(related)


def _acronym(one: Name, other: Name) -> bool:
    short = " ".join(_joined(one.words))
    if short not in _collapsed(other.words):
        return False
    letters = next((word for word in short.split() if word not in other.words), "")
    written = "".join(letter for letter in one.spelling if letter.isalnum())
    # Two letters are too few, unless they are written as initials are.
    capitals = letters.upper() in written
    return 2 <= len(letters) <= MOST_ACRONYM and (len(letters) > 2 or capitals)


def _middle_name(one: Name, other: Name) -> bool:
    ends = (one.words[0], one.words[-1]) == (other.words[0], other.words[-1])
    return ends and len(one.words) == 2 and len(other.words) == 3 and one.is_person and other.is_person


def _part_of_name(one: Name, other: Name) -> bool:
    if len(one.words) != 1 or not other.is_person or not one.spelling[:1].isupper():
        return False
    first = {other.words[0], *w.NICKNAMES.get(other.words[0], ())}
    return one.words[0] in w.GIVEN_NAMES & first or (one.words[0] == other.words[-1] and len(one.words[0]) > 3)


_HOLDS = {
    "spelling": lambda one, other: one.compact == other.compact and bool(one.compact),
    "numeronym": _numeronym,
    "order": lambda one, other: (
        len(one.plain) > 1 and one.plain != other.plain and sorted(one.plain) == sorted(other.plain)
    ),
    "typo": _typo,
    "initials": _initials,
    "login": lambda one, other: (
        len(one.words) == 1 and other.is_person and len(one.words[0]) > 3 and one.words[0] in _logins(other.words)
    ),
    "nickname": _nickname,
    "acronym": _acronym,
    "middle_name": _middle_name,
    "part_of_name": _part_of_name,
}


def block_of(agent_id: int, persona: str, mark: str) -> int:
    """A mark as the index keeps it: a number that is one memory's own."""
    digest = hashlib.blake2b(f"{agent_id}:{persona}:{mark}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def blocks_offered(agent_id: int, persona: str, spelling: str) -> list[int]:
    """The numbers of a spelling that the index stores."""
    return sorted({block_of(agent_id, persona, mark) for mark in marks_offered(spelling)})


def blocks_wanted(agent_id: int, persona: str, spelling: str) -> list[int]:
    """The numbers by which the index is searched for a spelling."""
    return sorted({block_of(agent_id, persona, mark) for mark in marks_wanted(spelling)})
