"""Whether a text asks its reader to act, by the meaning of its sentences: where a text is written or screened again.

Sentences that the words leave possible are embedded by the local model and judged by
`nousweb.lib.injection.request_model`; in prompts and answers only the rules on words look again.
"""

import heapq
import math
import re
from functools import lru_cache

from memory.embedding import EmbeddingUnavailable
from memory.embedding.registry import local_embedder
from memory.models import Trust
from nousweb.lib.injection.request_model import (
    LONGEST,
    MOST_SENTENCES,
    full_scores,
    lexical_scores,
    request_weights,
)
from nousweb.lib.injection.scan import (
    RULES,
    THRESHOLDS,
    InjectionMatch,
    features_in,
    judged_sentences,
    scan_text,
    sentences,
    variants,
)

READ_AS_DATA = frozenset({Trust.TOOL, Trust.WEB})
"""Trust classes whose words may ask their reader for nothing."""
CACHED_TEXTS = 2_000
"""A text is judged by its consent policy and by the screening."""


REQUEST_WEIGHT = next(rule.weight for rule in RULES if rule.code == "request")
"""A sentence that asks its reader to act counts as much as if the words did."""
_TELLS = re.compile(
    r"(?!(?i:if|once|when\w*|as|you\w*|before|after|while|until)\b)"
    r"\w+ [a-z]+s? (?:is|are|was|were|has|have|can|may|of|for|between|per|ends?|runs?|moved|finished|meets?)\b"
    r"|(?:I|We|You|They|Nobody|Any(?:body|one)|(?:\w+ )?\w+s)(?: of [\w ]+)?(?: can| may)?"
    r" (?:now|always|only|also|just)\b"
)
"""A sentence whose first words are a subject, though one of them may be a verb of requests."""


def scan_new_text(text: str, trust: str) -> InjectionMatch | None:
    """`scan_text`, and of a text that is only data, whether a sentence asks its reader to act."""
    match = scan_text(text, trust)
    if match or trust not in READ_AS_DATA or THRESHOLDS[trust] > REQUEST_WEIGHT:
        return match
    score, sentence = request_in(text)
    asks = score >= request_weights().asks
    return InjectionMatch(("request",), REQUEST_WEIGHT, sentence[:LONGEST]) if asks else None


def request_in(text: str) -> tuple[float, str]:
    """The sentence that most asks its reader to act, with its score in log-odds; minus infinity if none may."""
    try:
        return _judged(text)
    except EmbeddingUnavailable:
        # Without the model, nobody but a person can tell.
        return math.inf, text


@lru_cache(maxsize=CACHED_TEXTS)
def _judged(text: str) -> tuple[float, str]:
    possible: dict[str, tuple[float, float, str]] = {}
    for readable, _ in variants(text):
        for part, window in judged_sentences(readable):
            if part not in possible:
                scores = lexical_scores(part, features_in(part))
                if scores[0] >= request_weights().possible:
                    possible[part] = (*scores, window)
    judged = heapq.nlargest(MOST_SENTENCES, possible, key=possible.__getitem__)
    if not judged:
        return -math.inf, ""
    _, lexical, windows = zip(*(possible[part] for part in judged), strict=True)
    read = list(dict.fromkeys([*judged, *windows]))
    vectors = local_embedder().sentence_vectors(read)
    own, around = ([read.index(one) for one in texts] for texts in (judged, windows))
    return max(zip(full_scores(lexical, vectors[own], vectors[around]).tolist(), judged, strict=True))


def instructs(text: str) -> bool:
    """Whether a sentence asks its reader to do something, whoever says it, or says how an assistant has to behave."""
    if request_in(text)[0] >= request_weights().asks:
        return True
    asking = "\n".join(sentence for sentence in sentences(text) if not _TELLS.match(sentence))
    match = scan_text(asking, Trust.TOOL)
    if match is not None and "request" in match.codes:
        return True
    return any("conduct" in features_in(readable) for readable, _ in variants(text))
