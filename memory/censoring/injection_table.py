"""The table of `injection_rules.toml`: what is known of texts that read like instructions to the agent."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

READING = 1
"""Counts what the code that reads texts by the table has come to: raise it where that gives other answers."""

_TABLE = tomllib.loads(Path(__file__).with_name("injection_rules.toml").read_text(encoding="utf-8"))

RULES_NAME = hashlib.sha256(f"{READING}{json.dumps(_TABLE, sort_keys=True)}".encode()).hexdigest()[:12]
"""Names these rules: another one wherever a text may be answered otherwise."""
THRESHOLDS: Mapping[str, float] = _TABLE["thresholds"]
"""The least sum of weights that holds a text back, by trust class."""
ABOUT_ATTACKS: float = _TABLE["about_attacks"]
KINDS: Mapping[str, str] = _TABLE["kinds"]
"""What a rule finds, in words for people."""
SECRETS: Mapping[str, str] = _TABLE["secrets"]
"""What secrets look like, by what each is called."""
FEATURES: Mapping[str, tuple[str, ...]] = {
    name: (
        *patterns,
        *(
            rf"{_TABLE['before_imperative']['pattern']}(?:{verbs})\b"
            for of, verbs in _TABLE["imperative"].items()
            if of == name
        ),
    )
    for name, patterns in _TABLE["features"].items()
}
"""By name, the patterns of which one is enough."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Counts `weight` where a sentence has all of `features`; `code` is one of KINDS."""

    code: str
    weight: float
    features: frozenset[str]


RULES: tuple[Rule, ...] = tuple(
    Rule(code, float(weight), frozenset(features.split())) for code, weight, features in _TABLE["rules"]
)
assert all(rule.code in KINDS and rule.features <= FEATURES.keys() for rule in RULES)  # noqa: S101
