"""An identity as text: the one place where sections become a prompt."""

from collections.abc import Mapping

from identity.policy import Section
from nousweb.lib.errors import Invalid
from nousweb.lib.fencing import fence_block


def section_check(name: str) -> str:
    """Return `name` if it is a section; raise Invalid, naming it, otherwise."""
    if name not in Section.values:
        raise Invalid(
            f"There is no identity section {name[:60]!r}; the sections are {', '.join(Section.values)}.",
            field="section",
        )
    return name


def assemble_prompt(sections: Mapping[str, str], *, level: int = 2) -> str:
    """Render `sections` (name to text) under headings of `level`, in the fixed order, without the empty ones.

    No section gives "". Headings inside a text can never stand level with the sections' own.
    Raises Invalid for an unknown section. Source: seed 008, A2.
    """
    for name in sections:
        section_check(name)
    marks = "#" * level
    parts = [
        f"{marks} {Section(name).label}\n{fence_block(sections[name], level=level)}"
        for name in Section.values
        if sections.get(name, "").strip()
    ]
    return "\n\n".join(parts)
