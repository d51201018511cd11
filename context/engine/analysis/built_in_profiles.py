"""The profile of each kind of agent that comes with the product, and how the mode of a task changes its weights."""

from collections.abc import Mapping
from types import MappingProxyType

from context.engine.analysis.profiles import TOOL_OUTPUT, Profile

BUILT_IN: Mapping[str, Profile] = MappingProxyType(
    {
        "knight": Profile(
            "knight_default",
            task_weight=0.5,
            project_weight=0.3,
            global_weight=0.2,
            preferred_kinds=("code", "test", "tool_output", "plan", "convention"),
            excluded_kinds=("conversation", "summary", "preference"),
            min_importance=0.3,
            compression_aggressiveness=0.6,
            preserve_head=3,
            preserve_tail=3,
            layers=(TOOL_OUTPUT,),
            description="Code-focused profile for implementation agents",
            tags=("knight", "implementation"),
        ),
        "squire": Profile(
            "squire_default",
            task_weight=0.4,
            project_weight=0.4,
            global_weight=0.2,
            preferred_kinds=("plan", "reasoning", "decision", "failure", "review"),
            excluded_kinds=("tool_output", "verbose_log"),
            min_importance=0.4,
            compression_aggressiveness=0.4,
            preserve_head=4,
            preserve_tail=2,
            layers=("long_term", "short_term"),
            description="Analysis-focused profile for review agents",
            tags=("squire", "review"),
        ),
        "royalty": Profile(
            "royalty_default",
            task_weight=0.2,
            project_weight=0.5,
            global_weight=0.3,
            preferred_kinds=("summary", "decision", "convention", "preference", "pattern"),
            excluded_kinds=("code", "tool_output", "test"),
            min_importance=0.5,
            compression_aggressiveness=0.3,
            preserve_head=5,
            preserve_tail=1,
            layers=("short_term",),
            description="Strategic profile for planning agents",
            tags=("royalty", "planning"),
        ),
        "peasant": Profile(
            "peasant_default",
            task_weight=0.8,
            project_weight=0.1,
            global_weight=0.1,
            preferred_kinds=("task_input",),
            excluded_kinds=("code", "test", "decision", "summary"),
            allow_compression=False,
            compression_aggressiveness=0.0,
            preserve_head=1,
            preserve_tail=1,
            description="Minimal profile for helper LLM tools",
            tags=("peasant", "helper"),
        ),
    }
)
"""By agent kind."""
