"""A request to the context engine, from the API, the inspector or a replay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from context.engine.analysis.frames import FRAMES
from context.engine.analysis.mode_weights import MODE_WEIGHTS
from context.engine.analysis.profiles import override_check
from context.engine.analysis.retrieval_plan import SECTION_BUDGETS
from context.engine.section_budgets import MAX_TOTAL
from memory.models.project_scope import ProjectScope
from memory.policy.size_limits import MAX_SESSION_CHARACTERS
from nousweb.lib import clock
from nousweb.lib.constrained_types import MAX_TAGS
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import choice_check, first_unstorable, moment_check, whole_check

MAX_INPUT_CHARACTERS = 100_000
MAX_MESSAGES = 200
CENSOR_MODES = ["check", "off"]
NOT_LOGGED = ("dry_run", "explain", "scope")
"""Fields that change nothing in the prompt, or follow from others."""


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A request to the engine; everything but the session and the input is optional.

    `budget` is the total in tokens; `budgets` are the operator's own by section, which win. `mode` and `tags` describe
    the task, `files` are its files besides those in the input. `as_of` requests the past. `profile_override` holds
    settings that replace the profile's own for this request. With `fill`, less certain memories use the rest of the
    budget. `project` and `task` are the keys of the task: nothing of another project or task is shown, unless
    `include_projects` or `all_projects` request it (`memory.models.project_scope.ProjectScope`). `censors` is "check",
    or "off" if the client wants no check. `scope` follows from these: the projects and tasks whose memory the prompt
    may show. With `dry_run` nothing is stored; with `explain`, replaced, retired and outranked memories are looked up
    too. Raises Invalid, naming the field.
    """

    session_id: str
    input: str
    frame: str | None = None
    profile: str | None = None
    profile_override: Mapping[str, Any] = field(default_factory=dict)
    conversation: tuple[Message, ...] = ()
    mode: str | None = None
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    budget: int | None = None
    budgets: Mapping[str, int] = field(default_factory=dict)
    fill: bool = False
    as_of: datetime | None = None
    censors: str = "check"
    dry_run: bool = False
    explain: bool = False
    project: str = ""
    task: str = ""
    include_projects: tuple[str, ...] = ()
    all_projects: bool = False
    scope: ProjectScope = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if reason := first_unstorable(self.as_json()):
            raise Invalid(reason, field="input")
        if not 1 <= len(self.session_id) <= MAX_SESSION_CHARACTERS:
            raise Invalid(f"session_id must have 1 to {MAX_SESSION_CHARACTERS} characters.", field="session_id")
        if len(self.input) > MAX_INPUT_CHARACTERS:
            raise Invalid(
                f"input holds at most {MAX_INPUT_CHARACTERS:,} characters; this has {len(self.input):,}.", field="input"
            )
        if self.frame is not None:
            choice_check("frame", self.frame, [*FRAMES])
        if self.mode is not None:
            choice_check("mode", self.mode, [*MODE_WEIGHTS])
        object.__setattr__(self, "profile_override", override_check(self.profile_override))
        choice_check("censors", self.censors, CENSOR_MODES)
        if len(self.conversation) > MAX_MESSAGES:
            raise Invalid(f"conversation holds at most {MAX_MESSAGES} messages.", field="conversation")
        if any(len(message.content) > MAX_INPUT_CHARACTERS for message in self.conversation):
            raise Invalid(f"A message holds at most {MAX_INPUT_CHARACTERS:,} characters.", field="conversation")
        for name, given in (("tags", self.tags), ("files", self.files)):
            if len(given) > MAX_TAGS:
                raise Invalid(f"{name} holds at most {MAX_TAGS} entries; this has {len(given):,}.", field=name)
        scope = ProjectScope(self.project, self.task, self.include_projects, self.all_projects)
        object.__setattr__(self, "scope", scope)
        for name in ("project", "task", "include_projects"):
            object.__setattr__(self, name, getattr(scope, name))
        object.__setattr__(self, "as_of", moment_check("as_of", self.as_of))
        if self.as_of is not None and self.as_of > clock.now():
            raise Invalid("as_of is in the future.", field="as_of")
        if self.budget is not None:
            whole_check("budget", self.budget, 1, MAX_TOTAL)
        for name, tokens in self.budgets.items():
            if name not in SECTION_BUDGETS:
                raise Invalid(
                    f"There is no section {name[:60]!r}; they are {', '.join(SECTION_BUDGETS)}.", field="budgets"
                )
            if not 0 <= tokens <= MAX_TOTAL:
                raise Invalid(f"The budget of {name} must be between 0 and {MAX_TOTAL:,} tokens.", field="budgets")

    def as_json(self) -> dict[str, Any]:
        """The request as it is logged, without options that do not change its prompt; `of_json` reads it back."""
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name not in NOT_LOGGED},
            "conversation": [{"role": message.role, "content": message.content} for message in self.conversation],
            "tags": list(self.tags),
            "files": list(self.files),
            "include_projects": list(self.include_projects),
            "budgets": dict(self.budgets),
            "profile_override": dict(self.profile_override),
            "as_of": self.as_of.isoformat() if self.as_of else None,
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Self:
        """A logged request; fields that it lacks have their defaults."""
        moment = values.get("as_of")
        messages: Sequence[Mapping[str, str]] = values.get("conversation") or ()
        return cls(
            session_id=values["session_id"],
            input=values["input"],
            frame=values.get("frame"),
            profile=values.get("profile"),
            profile_override=values.get("profile_override") or {},
            conversation=tuple(Message(message["role"], message["content"]) for message in messages),
            mode=values.get("mode"),
            tags=tuple(values.get("tags") or ()),
            files=tuple(values.get("files") or ()),
            budget=values.get("budget"),
            budgets=values.get("budgets") or {},
            fill=bool(values.get("fill")),
            as_of=datetime.fromisoformat(moment) if moment else None,
            censors=values.get("censors") or "check",
            project=values.get("project") or "",
            task=values.get("task") or "",
            include_projects=tuple(values.get("include_projects") or ()),
            all_projects=bool(values.get("all_projects")),
        )
