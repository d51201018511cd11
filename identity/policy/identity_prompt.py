"""An identity as text: the one place where sections become a prompt."""

from collections.abc import Mapping

from identity.policy.sections import SECTION_NAMES, Section, section_check
from nousweb.lib.prompt_escaping import fence_block

LABELS = {section.value: section.label for section in Section}


def assemble_prompt(sections: Mapping[str, str], *, level: int = 2) -> str:
    """Render `sections` (name to text) under headings of `level`, in the fixed order, without the empty ones.

    No section gives "". Headings inside a text can never stand level with the sections' own.
    Raises Invalid for an unknown section. Source: seed 008, A2.
    """
    for name in sections:
        section_check(name)
    marks = "#" * level
    parts = [
        f"{marks} {LABELS[name]}\n{fence_block(sections[name], level=level)}"
        for name in SECTION_NAMES
        if sections.get(name, "").strip()
    ]
    return "\n\n".join(parts)
