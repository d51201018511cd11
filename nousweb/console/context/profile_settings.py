"""Explanations of the settings of a profile."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its label, its effect, and its kind of field: share, count, yes, words or text."""

    name: str
    label: str
    help: str
    form: str


SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("task_weight", "Share of task memory", "0 to 1. The three shares are scaled to add up to 1.", "share"),
        Setting("project_weight", "Share of project memory", "0 to 1.", "share"),
        Setting("global_weight", "Share of global memory", "0 to 1.", "share"),
        Setting(
            "preferred_kinds", "Preferred kinds", "Memories of these kinds score 15 % higher. Commas between.", "words"
        ),
        Setting(
            "excluded_kinds", "Excluded kinds", "Memories of these kinds are never included, pinned or not.", "words"
        ),
        Setting("min_importance", "Least importance", "0 to 1. What is less important is left out.", "share"),
        Setting(
            "least_trust",
            "Least trust",
            "What is trusted less is left out: any:tool, or decision:agent for one type. person, agent, tool, imported,"
            " web.",
            "words",
        ),
        Setting("allow_compression", "Shortening", "Whether long items may be shortened to fit.", "yes"),
        Setting(
            "compression_aggressiveness",
            "Most that may go",
            "0 to 1: the share of a long item that may be left out before the item is.",
            "share",
        ),
        Setting("preserve_head", "Head", "So many of the best items come first, whatever their scope.", "count"),
        Setting("preserve_tail", "Tail", "So many of the most recent items stay, though they rank low.", "count"),
        Setting(
            "layers",
            "Raw layers",
            "long_term and short_term are searched beside the distilled memories; of tool_output the latest are shown.",
            "words",
        ),
        Setting(
            "show_conversation",
            "Show the conversation",
            "For agents that do not send it to the model themselves.",
            "yes",
        ),
        Setting("description", "Description", "What the profile is for.", "text"),
        Setting("tags", "Tags", "For people; they change no prompt.", "words"),
    )
}
"""By name, in the order in which a person meets them."""


def setting_words(value: Any) -> str:
    """A setting's value in words."""
    if value is True or value is False:
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(value) or "none"
    return "none" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def settings_text(values: Mapping[str, Any]) -> str:
    """Own settings as lines, for a difference between two versions."""
    return "\n".join(f"{SETTINGS[name].label}: {setting_words(values[name])}" for name in SETTINGS if name in values)
