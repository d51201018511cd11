"""What a verification finds wrong, as sentences."""

from dataclasses import dataclass, field

from identity.models import LogSeal
from identity.policy.sealed_tables import SealedTable

MAX_FINDINGS = 1_000
"""So many are kept as sentences; the others are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its kind in a word, a sentence, and whom it is about."""

    code: str
    sentence: str
    agent_id: int | None = None
    persona: str = ""
    key: str = ""
    serial: int = 0


@dataclass(slots=True)
class Report:
    """What a verification came to. `findings` has the first of `problems`; `tail` are rows that wait for a seal."""

    seals: int = 0
    rows: int = 0
    holes: int = 0
    tail: int = 0
    problems: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Note what is wrong."""
        self.problems += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)


def of_row(code: str, seal: LogSeal, table: SealedTable, key: str, what: str) -> Finding:
    """A finding about a sealed row."""
    agent = f" of {seal.agent_slug}" if seal.agent_slug else ""
    sentence = f"{table.label} {key}{agent} {what} (seal {seal.serial} of {seal.sealed_at:%Y-%m-%d %H:%M} UTC)."
    return Finding(code, sentence, seal.agent_id, seal.persona, key, seal.serial)


def of_seal(code: str, seal: LogSeal, what: str) -> Finding:
    """A finding about a seal."""
    return Finding(code, f"Seal {seal.serial} {what}.", seal.agent_id, seal.persona, serial=seal.serial)


def of_unsealed(table: SealedTable, key: str, agent_id: int | None, persona: str, what: str) -> Finding:
    """A finding about a row that is in no seal."""
    return Finding("inserted", f"{table.label} {key} {what}.", agent_id, persona, key)
