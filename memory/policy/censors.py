"""Limits of censors: severity by author, duration of a check, number per agent."""

CENSOR_SEVERITIES_BY_AUTHOR: dict[str, tuple[str, ...]] = {
    "person": ("warn", "block", "absolute"),
    "token": ("warn", "block"),
    "system": ("warn", "block"),
}
"""How strict a censor its author's kind may make, and how far one of theirs may ever rise by itself."""

ESCALATES_TO = {"warn": "block"}
"""The one step that a censor may rise by itself; to absolute only a person lifts it. Source: seed 009.1, part 4."""

CENSOR_CHECK_SECONDS = 2.0
"""After so long, a check starts no further censor of agents and reports the rest as timed out."""

BINDING_CENSOR_CHECK_SECONDS = 6.0
"""The same for those of people and the product, which are checked first. It is enough for the meanings of the longest
text, because what is not checked in time keeps the text back."""

MAX_ACTIVE_CENSORS = 500
"""Active censors of people and the product for one persona of an agent."""

MAX_ACTIVE_TOKEN_CENSORS = 100
"""Active censors that the tokens of one persona of an agent have made; they take no room from people's."""
