"""Recognise standing instructions: an instruction ("Always show the units when I ask about physics") or a
preference ("I prefer small libraries"). It matters for tasks of its topic that share no word with it.

Rules over English sentences. What they take too much of costs little: it is looked at by meaning like anything else.
"""

import re

INSTRUCTION = "instruction"
PREFERENCE = "preference"
MAX_CHARACTERS = 20_000

_BEGINS = r"(?:^|[.!?\n:;]\s*|\band )(?:please,? |hey,? |so,? |also,? |\w+: )?"
_INSTRUCTION = re.compile(
    rf"{_BEGINS}(?:always|never|from now on|going forward|in (?:the )?future|every time|whenever|remember to"
    r"|do not ever|don['’]t ever|make sure (?:to|you|that you) (?:always|never))\b"
    r"|\b(?:always|never)\b[^.!?\n]{3,160}\bwhen(?:ever)? (?:i|we|you)\b"
    r"|\bi(?:['’]d like| want| need| expect) you to\b[^.!?\n]{0,80}\b(?:always|never|whenever|every time|from now on)\b"
    r"|\b(?:you (?:should|must)|please) (?:always|never)\b",
    re.I,
)
_PREFERENCE = re.compile(
    r"\bi(?:['’]d| would)?(?: \w+ly| much| still| also| do)? prefer\b|\b(?:as|like|since|because) i prefer"
    r"|\bmy (?:\w+ )?preferences?\b|\bi(?:['’]d| would) rather\b|\bi(?:['’]m| am) (?:more comfortable|happier) with\b"
    r"|\bi (?:always|usually|never|generally) (?:use|choose|go for|go with|write|work|eat|drink|take|avoid|buy)\b"
    r"|\bmy favou?rite\b|\bi (?:really )?(?:like|love|hate|dislike) (?:it when|to have|to keep)\b"
    r"|\bi want to (?:avoid|keep (?:it|things|everything))\b",
    re.I,
)


def standing_of(text: str) -> str:
    """INSTRUCTION, PREFERENCE or "" for a text that somebody says to an agent."""
    said = text[:MAX_CHARACTERS]
    if _INSTRUCTION.search(said):
        return INSTRUCTION
    return PREFERENCE if _PREFERENCE.search(said) else ""
