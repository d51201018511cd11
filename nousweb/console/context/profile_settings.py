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
            "preferred_kinds",
            "Preferred kinds",
            "Memories of these kinds score 15 % higher. Separate kinds with commas.",
            "words",
        ),
        Setting(
            "excluded_kinds",
            "Excluded kinds",
            "Memories of these kinds are never included, not even when pinned.",
            "words",
        ),
        Setting("min_importance", "Minimum importance", "0 to 1. Less important memories are left out.", "share"),
        Setting(
            "least_trust",
            "Minimum trust",
            "Less trusted memories are left out: any:tool, or decision:agent for one type. Classes: person, agent,"
            " tool, imported, web.",
            "words",
        ),
        Setting("allow_compression", "Shortening", "Whether long items may be shortened to fit.", "yes"),
        Setting(
            "compression_aggressiveness",
            "Maximum shortening",
            "0 to 1: the share of a long item that may be cut before the whole item is left out.",
            "share",
        ),
        Setting("preserve_head", "Head", "Number of best items that come first, regardless of their scope.", "count"),
        Setting("preserve_tail", "Tail", "Number of most recent items that stay, even when they rank low.", "count"),
        Setting(
            "layers",
            "Raw layers",
            "long_term and short_term are searched in addition to the distilled memories; the latest tool_output is"
            " shown.",
            "words",
        ),
        Setting(
            "show_conversation",
            "Show the conversation",
            "For agents that do not send it to the model themselves.",
            "yes",
        ),
        Setting("description", "Description", "What the profile is for.", "text"),
        Setting("tags", "Tags", "For people only. Tags do not change prompts.", "words"),
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
