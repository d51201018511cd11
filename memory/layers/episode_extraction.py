"""Extract an episode's title and summary from its own sentences, if there is no judge. Pure and deterministic."""

import re
from collections import Counter

MAX_SUMMARY_WORDS = 150
MAX_TITLE_WORDS = 10
MAX_SENTENCES = 400
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORD = re.compile(r"\w[\w'-]*")
_COMMON_WORDS = """
    the a an and or but if of to in on at for with by from as is are was were be been it its this that these those i
    you he she we they me him her us them my your his our their not no do does did have has had will would can could
    should so then than there here what which who when how just also very about into out up
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def extract_summary(text: str) -> str:
    """The sentences of `text` that share most with the rest, in their order, in at most 150 words.

    The first and the last one are always there: how it began, and what came of it. "" for a text without words.
    """
    sentences = _sentences(text)
    if not sentences:
        return ""
    words = [_telling(sentence) for sentence in sentences]
    spread = Counter(word for each in words for word in set(each))
    scores = [sum(spread[word] for word in set(each)) / (len(each) + 5) for each in words]
    ranked = sorted(range(1, len(sentences) - 1), key=lambda place: (-scores[place], place))
    chosen: list[int] = []
    room = MAX_SUMMARY_WORDS
    for place in [0, *([len(sentences) - 1] if len(sentences) > 1 else []), *ranked]:
        length = len(sentences[place].split())
        if length <= room:
            chosen.append(place)
            room -= length
    if not chosen:
        return " ".join(sentences[0].split()[: MAX_SUMMARY_WORDS - 1]) + " …"
    return " ".join(sentences[place] for place in sorted(chosen))


def extract_title(text: str) -> str:
    """The first sentence of `text` with a word that tells something, in at most ten words and 200 characters."""
    sentences = _sentences(text)
    first = next((sentence for sentence in sentences if _telling(sentence)), sentences[0] if sentences else "")
    words = first.rstrip(".!? ").split()
    title = " ".join(words[:MAX_TITLE_WORDS])
    cut = len(words) > MAX_TITLE_WORDS or len(title) > 200
    return title[:198].rstrip(" ,;:") + " …" if cut else title


def _sentences(text: str) -> list[str]:
    found, seen = [], set()
    for match in _SENTENCE.finditer(text):
        sentence = " ".join(match[0].split())
        if _WORD.search(sentence) and sentence.casefold() not in seen:
            seen.add(sentence.casefold())
            found.append(sentence)
    if len(found) > MAX_SENTENCES:
        return [*found[: MAX_SENTENCES // 2], *found[-MAX_SENTENCES // 2 :]]
    return found


def _telling(sentence: str) -> list[str]:
    return [word for word in (each.casefold() for each in _WORD.findall(sentence)) if word not in _COMMON]
