"""The screening rules of `rules.toml`, by which texts that read like instructions are recognised."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

READING = 2
"""Version of the scanning code: raise it if the same rules give other results."""

_TABLE = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))

RULES_NAME = hashlib.sha256(f"{READING}{json.dumps(_TABLE, sort_keys=True)}".encode()).hexdigest()[:12]
"""Version of the rules: it differs whenever a text may have another result."""
THRESHOLDS: Mapping[str, float] = _TABLE["thresholds"]
"""Minimum sum of weights for which a text is quarantined, by trust class."""
ABOUT_ATTACKS: float = _TABLE["about_attacks"]
KINDS: Mapping[str, str] = _TABLE["kinds"]
"""The kinds of matches, in words for people, by code."""
SECRETS: Mapping[str, str] = _TABLE["secrets"]
"""Patterns of secrets, by name."""
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
"""Patterns of each feature, by name; one match is enough."""


@dataclass(frozen=True, slots=True)
class InjectionRule:
    """Adds `weight` if a sentence has all of `features`; `code` is one of KINDS."""

    code: str
    weight: float
    features: frozenset[str]


RULES: tuple[InjectionRule, ...] = tuple(
    InjectionRule(code, float(weight), frozenset(features.split())) for code, weight, features in _TABLE["rules"]
)
assert all(rule.code in KINDS and rule.features <= FEATURES.keys() for rule in RULES)  # noqa: S101
