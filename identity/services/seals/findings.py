"""Findings of a verification, as sentences."""

from dataclasses import dataclass, field

from identity.models import LogSeal
from identity.policy.sealed_tables import SealedTable

MAX_FINDINGS = 1_000
"""Maximum number of findings that are stored as sentences; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class SealFinding:
    """One problem: its code, a sentence, and the agent and persona concerned."""

    code: str
    sentence: str
    agent_id: int | None = None
    persona: str = ""
    key: str = ""
    serial: int = 0


@dataclass(slots=True)
class Report:
    """The result of a verification. `findings` are the first of `problems`; `tail` is the number of unsealed rows."""

    seals: int = 0
    rows: int = 0
    holes: int = 0
    tail: int = 0
    problems: int = 0
    findings: list[SealFinding] = field(default_factory=list)

    def add(self, finding: SealFinding) -> None:
        """Add a problem."""
        self.problems += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)


def of_row(code: str, seal: LogSeal, table: SealedTable, key: str, what: str) -> SealFinding:
    """A finding about a sealed row."""
    agent = f" of {seal.agent_slug}" if seal.agent_slug else ""
    sentence = f"{table.label} {key}{agent} {what} (seal {seal.serial} of {seal.sealed_at:%Y-%m-%d %H:%M} UTC)."
    return SealFinding(code, sentence, seal.agent_id, seal.persona, key, seal.serial)


def of_seal(code: str, seal: LogSeal, what: str) -> SealFinding:
    """A finding about a seal."""
    return SealFinding(code, f"Seal {seal.serial} {what}.", seal.agent_id, seal.persona, serial=seal.serial)


def of_unsealed(table: SealedTable, key: str, agent_id: int | None, persona: str, what: str) -> SealFinding:
    """A finding about a row that is in no seal."""
    return SealFinding("inserted", f"{table.label} {key} {what}.", agent_id, persona, key)
