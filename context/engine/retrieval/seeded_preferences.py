"""Preferences that were seeded from facts, in a prompt.

A line that repeats a fact of the agent follows that fact. While the fact is current, the User Profile tells it, once;
when it is superseded, marked as wrong or ends, nothing does. The stored text stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import F, Q, Subquery, TextField, Value
from django.db.models.expressions import Func
from django.db.models.functions import Trim

from identity.models import Agent, IdentityVersion, Persona
from identity.policy.sections import Section
from identity.services.agents import PROFILE_HEADINGS
from memory.models import GLOBAL, SAME_WORDS, Fact
from nousweb.lib import clock

Version = tuple[str, int, str]
"""Section, version and content of an identity."""
_HEADINGS = tuple(f"### {heading}" for _, heading in PROFILE_HEADINGS)
_ITEM = "- "
_ONE_LINE = Func(
    Trim("content"), Value(r"\s+"), Value(" "), Value("g"), function="regexp_replace", output_field=TextField()
)


def without_fact_copies(agent: Agent, versions: Iterable[Version]) -> list[Version]:
    """The versions, with seeded Preferences reduced to lines that repeat no fact. One statement, if there are any."""
    return [
        (section, version, _without_copies(agent.pk, version, content) if _is_seeded(section, content) else content)
        for section, version, content in versions
    ]


def tried_without_fact_copies(agent_id: int, texts: Mapping[str, str]) -> dict[str, str]:
    """The texts of sections that are tried, reduced as versions that are written now would be."""
    return {
        section: _without_copies(agent_id, None, content) if _is_seeded(section, content) else content
        for section, content in texts.items()
    }


def _is_seeded(section: str, content: str) -> bool:
    return section == Section.PREFERENCES and content.startswith(_HEADINGS)


def _without_copies(agent_id: int, version: int | None, content: str) -> str:
    lines = content.split("\n")
    copies = _copies(agent_id, version, {line.removeprefix(_ITEM) for line in lines if line.startswith(_ITEM)})
    kept = [line for line in lines if not (line.startswith(_ITEM) and line.removeprefix(_ITEM) in copies)]
    return "\n".join(line for place, line in enumerate(kept) if not _is_empty_heading(kept, place)).strip()


def _is_empty_heading(lines: Sequence[str], place: int) -> bool:
    after = next((line for line in lines[place + 1 :] if line.strip()), "#")
    return lines[place] in _HEADINGS and after.startswith("#")


def _copies(agent_id: int, version: int | None, texts: set[str]) -> set[str]:
    """The texts that were active facts when the version was written, None for one of now, whatever their present state.
    Other texts are the author's own."""
    plain = {text.removeprefix("\\"): text for text in texts}
    at: Value | Subquery = Value(clock.now())
    if version is not None:
        written = IdentityVersion.objects.filter(agent=agent_id, section=Section.PREFERENCES, version=version)
        at = Subquery(written.values("created_at")[:1])
    # By the index, without which each prompt would go through all facts.
    digests = f"ANY (ARRAY (SELECT {SAME_WORDS.format('line')} FROM unnest(%s::text[]) AS line))"  # noqa: S608
    same = Fact.objects.extra(where=[f"{SAME_WORDS.format('content')} = {digests}"], params=[list(plain)])  # noqa: S610
    known = (
        same.filter(GLOBAL.q, agent=agent_id, persona=Persona.ACTOR)
        .annotate(line=_ONE_LINE)
        .alias(at=at)
        .filter(Q(retired_at__isnull=True) | Q(retired_at__gt=F("at")), line__in=list(plain), recorded_at__lte=F("at"))
    )
    return {plain[line] for line in known.values_list("line", flat=True)}
