"""Whether a fact tells its reader what to do: by the known words of requests, or by the form of an English sentence.

An order is a clause that begins with a verb and its object. It counts where it names somebody, something or an address,
unlike a recipe or a manual.
"""

import re

from nousweb.lib.injection.scan import features_in, fold_text, scan_text, sentences, variants

_LEAD = r"(?i:please|kindly|also|always|never|now|then|just|only|do not|don't|dear \w+|first|finally|immediately)"
_OBJECT = (
    r"(?:the|an?|this|that|these|those|all|every|each|any|my|your|our|his|her|their|its|it|them|him|me|us|whatever"
    r"|whoever|questions|somebody|everybody|anybody|[\w.+-]+@\S+|https?:\S+)"
)
_BEGINS = rf"(?:^\W*|[,:;\]>=–—]\s+)(?:{_LEAD}[,:]?\s+)*"
_CLAUSE = re.compile(rf"{_BEGINS}([a-z][a-z-]{{1,14}})\s+{_OBJECT}(?!\w)")
_ASKS = re.compile(
    rf"{_BEGINS}(?:tell|ask|invite|pay|recommend|name|choose|take|grant|give|send|forward|mail|praise|answer|speak|refer"
    r"|reply|post|approve|mention|put|hand|treat|let|prefer|buy|book|order|call) (?:[A-Z][a-z]+|well|people|to|with"
    r"|only) "
)
"""A verb of requests, with a name or a preposition instead of an object."""
_NO_VERB = re.compile(r"[^s]s|.*(?:[^s]s|ed|ing|ly|tion|ity|ment|ness|ance|ence|ers?)")
_NO_VERBS = """
a about above across after again against ahead all almost along already also although always among an and another any
anybody anyone around as at back because been before behind below beside besides best better between beyond both bought
brought but by can caught could despite do done down due each either else enough even ever everybody everyone except few
fewer first for found free friday from full gave given gone had half has have he hence her here his how however if in
inside instead into is it its just kept last later least left less like made many may maybe me more most much must my
near neither never new next no nobody none nor not nothing now of off often old on once one only open or other otherwise
our out outside over own part past per perhaps quite rather ready said same saw second seen sent several shall she
should since so sold some somebody someone soon spent still such than that the their them then there these they third
this those though through throughout thus till to today together told tomorrow tonight too took toward two under unless
until up upon user very via was we went were what whatever when whenever where whether which while who whoever whole
whose why will with within without worse would yes yesterday yet you your
"""
_OTHER_WORDS = frozenset(_NO_VERBS.split())
_ENGLISH = re.compile(r"\b(?:the|of|to|with|that|this|your|my|all|every|it|is|as|by|and|for|from|whoever|at)\b", re.I)
_NAMED = re.compile(
    r"(?<![.!?:“\"] )(?<!^)(?<!\n)\b[A-Z][\w'&-]{2,}|\S@\S|\bhttps?:|\b[\w-]+\.(?:com|org|net|io|example)\b"
    r"|\bthe (?:user|person|owner|assistant|helper)\b|\byour (?:answers?|messages?|summar\w+|repl\w+|user\b(?! name))"
    r"|\d (?:euros?|dollars?)"
)
_LABEL = re.compile(
    r"\b(?i:click|choose|press|select|open|tap|fields?|menu|tab|key|variable)(?: on| the| button| of)* [A-Z]\w*"
    r"(?:(?:,| and| or| to)* [A-Z]\w*)*"
)
"""What a manual names: buttons, menus, variables."""
_TELLS = re.compile(
    r"(?!(?i:if|once|when\w*|as|you\w*|before|after|while|until)\b)"
    r"\w+ [a-z]+s? (?:is|are|was|were|has|have|can|may|of|for|between|per|ends?|runs?|moved|finished|meets?)\b"
    r"|(?:I|We|You|They|Nobody|Any(?:body|one)|(?:\w+ )?\w+s)(?: of [\w ]+)?(?: can| may)?"
    r" (?:now|always|only|also|just)\b"
)
"""A sentence whose first words are a subject, though one of them may be a verb of requests."""


def instructs(text: str) -> bool:
    """Whether a sentence asks its reader to do something, whoever says it, or says how an assistant has to behave."""
    said = list(sentences(text))
    asking = [sentence for sentence in said if not _TELLS.match(sentence)]
    match = scan_text(text if len(asking) == len(said) else "\n".join(asking), "tool")
    if match is not None and "request" in match.codes:
        return True
    if any(_is_order(sentence) for sentence in asking):
        return True
    return any("conduct" in features_in(readable) for readable, _ in variants(text))


def _is_order(sentence: str) -> bool:
    if not _ENGLISH.search(sentence) or not _NAMED.search(_LABEL.sub(" ", sentence)):
        return False
    lowered = sentence[:1].lower() + sentence[1:]
    verbs = (found[1] for found in _CLAUSE.finditer(lowered))
    asks = any(verb not in _OTHER_WORDS and not _NO_VERB.fullmatch(verb) for verb in verbs) or _ASKS.search(lowered)
    return bool(asks) and "reported" not in features_in(fold_text(sentence))
