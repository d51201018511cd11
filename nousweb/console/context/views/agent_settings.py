"""The page of an agent's settings and its form, whose empty fields have their defaults."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from context.engine.analysis.agent_time import MAX_ZONE_CHARACTERS, RecentMode
from context.engine.analysis.frames import FRAMES, SECTION_BUDGETS
from context.engine.analysis.profiles import ContestedOrder, ContestedPolicy
from context.engine.section_budgets import MAX_TOTAL
from context.models import VIEW_RUN
from context.selectors import SectionUse, sections_used
from context.services.agent_settings import (
    BUDGETS,
    CHANGE,
    TOTAL,
    AgentSettings,
    settings_get,
    settings_history,
    settings_restore,
    settings_update,
)
from identity.models import Agent, Persona
from identity.policy.sections import MAX_REASON_CHARACTERS
from identity.principal import Principal
from memory.layers.short_term_search import MAX_STM_BOOST, MAX_STM_WINDOW, STM_DEFAULTS
from memory.models import EventKind, Fact, MemoryReview
from memory.policy import KNOWN_CATEGORIES
from memory.policy.oversight import (
    DAY,
    DEFAULT_AUTONOMY,
    DEFAULT_BUDGET,
    MAX_REVIEWS,
    AttentionBudget,
    AutomaticDecision,
    Autonomy,
)
from memory.search.languages import LANGUAGES
from memory.services.search_index.reembedding import language_used
from nousweb.console.common import FORM, POST, PROMPT_SECTIONS, act, agent_page, form_page
from nousweb.console.context.forms import profile_choices
from nousweb.console.context.views.consent import MAX_CATEGORIES_OFFERED, rule_words
from nousweb.lib import clock
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.textdiff import diff_texts

VERSIONS_SHOWN = 50
ENOUGH_STEP = 10
"""Tokens to whose multiple an offered budget is rounded up."""
UNSET = AgentSettings(0, {}, {}, "", ContestedPolicy())
PARTS = (
    ("general", "Basics"),
    ("budgets", "Budgets"),
    ("contested", "Contradicted facts"),
    ("reviews", "Reviews"),
)
"""The sections of the page: the beginning of the id of their heading, and its words."""


@cache
def zones() -> list[str]:
    """The time zones to choose from: those of places."""
    return sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))


@agent_page(CHANGE, methods=FORM)
def agent_context_settings(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Budgets, contested facts, attention budget, short-term search, profile and language of an agent, and the history
    of their changes."""
    current = settings_get(agent=agent, by=by)
    of_facts = Fact.objects.filter(agent=agent, persona=Persona.ACTOR).active().order_by("category")
    categories = list(of_facts.values_list("category", flat=True).distinct()[:MAX_CATEGORIES_OFFERED])
    language = LANGUAGES[language_used(agent)].name
    form = AgentSettingsForm(
        request.POST if request.method == "POST" else None,
        settings=current,
        categories=categories,
        detected=language,
        kind=agent.get_kind_display(),
    )
    history = settings_history(agent=agent, by=by)
    older = [*(change.settings for change in history[1:]), UNSET]
    rows = [
        {"version": one, "diff": diff_texts(_words(before), _words(one.settings), context=0)}
        for one, before in list(zip(history, older, strict=False))[:VERSIONS_SHOWN]
    ]
    reviews = MemoryReview.objects.filter(agent=agent, asked_at__gt=clock.now() - DAY)
    measured, used = sections_used(agent, by) if by.may(VIEW_RUN) else (0, {})
    return form_page(
        request,
        "context/agent_settings.html",
        form,
        lambda given: settings_update(
            agent=agent, **form.values(), base_version=given["base_version"], reason=given["reason"], by=by
        ),
        done="The settings were saved. They apply from the next prompt on.",
        back=reverse("agent_context_settings", args=[agent.slug]),
        context={
            "agent": agent,
            "current": current,
            "rows": rows,
            "parts": [*PARTS, *[("history", "History")] * bool(rows)],
            "records": f"?object=agent:{agent.pk}&about=settings",
            "zones": zones(),
            "asked": reviews.count(),
            "measured": measured,
            "budget_heads": "Section|Budget, tokens" + f"|Highest, last {measured} prompts:num" * bool(measured),
            "budgets": (budgets := _budget_rows(form, current, used if measured else {})),
            "budgets_sum": sum(row["budget"] or 0 for row in budgets if row["field"].name != f"budget_{TOTAL}"),
            # Their bars have one scale, so that sections can be compared: the whole prompt has its own.
            "scale": max(
                (
                    max(row["budget"], row["use"].tokens if row["use"] else 0)
                    for row in budgets
                    if row["budget"] and not row["whole"]
                ),
                default=1,
            ),
        },
        conflict="refusal",
    )


def _budget_rows(
    form: "AgentSettingsForm", current: AgentSettings, used: Mapping[str, SectionUse]
) -> list[dict[str, Any]]:
    """Of each section the field, its budget and use in the last prompts in tokens, and a budget that is `enough` where
    that was more. Those at their default that no prompt used come last, and the first of them has their number."""
    rows: list[dict[str, Any]] = []
    unused: list[dict[str, Any]] = []
    for name in BUDGETS:
        field, use = form[f"budget_{name}"], used.get(name)
        budget = current.budgets.get(name, SECTION_BUDGETS.get(name))
        enough = (
            ENOUGH_STEP * ceil(use.tokens / ENOUGH_STEP) if use and budget is not None and use.tokens > budget else 0
        )
        is_used = not used or use or name in current.budgets or field.errors
        (rows if is_used else unused).append(
            {"field": field, "budget": budget, "use": use, "enough": enough, "whole": name == TOTAL and budget}
        )
    if unused:
        unused[0]["begins_unused"] = len(unused)
    return rows + unused


@agent_page(CHANGE, methods=POST)
def agent_context_settings_restore(request: HttpRequest, by: Principal, agent: Agent, version: int) -> HttpResponse:
    """Restore the settings of an earlier version."""
    return act(
        request,
        lambda: settings_restore(agent=agent, version=version, by=by),
        reverse("agent_context_settings", args=[agent.slug]),
        f"The settings of version {version} were restored.",
        refusals=(Invalid, NotFound),
    )


def _words(settings: AgentSettings) -> str:
    """The settings as lines that can be compared."""
    attention, autonomy = settings.attention, settings.autonomy
    numbers = f"{attention.per_hundred_facts} reviews for 100 facts, {attention.per_day} a day"
    lines = [
        f"Profile: {settings.profile or 'default for this kind of agent'}",
        f"Language: {LANGUAGES[settings.language].name if settings.language in LANGUAGES else 'detected'}",
        *([f"Time zone: {settings.time_zone}"] if settings.time_zone else []),
        f"{PROMPT_SECTIONS['recent']}: {RECENT_LABELS[settings.recent].lower()}",
        *(["Serves many users"] if settings.serves_users else []),
        *(f"Budget of {SECTION_LABELS.get(name, name)}: {tokens:,}" for name, tokens in settings.budgets.items()),
        f"Contradicted facts: {CONTESTED_LABELS[settings.contested.order]}",
        *(
            f"Contradicted facts of {category}: {CONTESTED_LABELS[order]}"
            for category, order in settings.contested.categories.items()
        ),
        *(
            [f"Attention budget: {'no limit' if attention.unlimited else numbers}"]
            if attention != DEFAULT_BUDGET
            else []
        ),
        *(
            [f"Highest error rate of automatic decisions: {100 * autonomy.max_error:g} %"]
            if autonomy.max_error != DEFAULT_AUTONOMY.max_error
            else []
        ),
        *(f"People are asked about facts that are {ASKING_LABELS[one]}" for one in autonomy.asking),
        *(rule_words(rule) for rule in settings.consent.rules),
        *(f"Short-term search, {name}: {value}" for name, value in sorted(settings.stm.items())),
    ]
    return "\n".join(lines)


SECTION_LABELS: Mapping[str, str] = {TOTAL: "The whole prompt", **PROMPT_SECTIONS}
SECTION_NOTES = {
    TOTAL: f"Automatic: {min(one.total for one in FRAMES.values()):,} to {max(one.total for one in FRAMES.values()):,}"
    " tokens, by the kind of question.",
    "identity": "Who it is: character, values, boundaries.",
    "user_profile": "Preferences, people and rules, in every prompt.",
    "censors": "What it must not say or do.",
    "frame": "The kind of question, and what is looked for.",
    "working_memory": "What this session is working on.",
    "recent": "Titles of earlier sessions.",
    "conversation": "The last messages of this session.",
    "decisions": "What was decided that concerns the question.",
    "facts": "Facts that fit the question.",
    "procedures": "How something is done, step by step.",
    "episodes": "What happened in earlier work.",
    "documents": "Passages of documents.",
    "long_term": "Earlier events that fit the question.",
    "short_term": "Summaries of recent sessions.",
}
STM_NUMBERS: Mapping[str, tuple[str, str]] = {
    "half_life_seconds": ("Half-life", "After this time a turn counts half as recent."),
    "w_similarity": ("Weight of similarity", ""),
    "w_recency": ("Weight of recency", ""),
}
CONTESTED_LABELS: Mapping[ContestedOrder, str] = {
    ContestedOrder.NEWEST_FIRST: "Newer above older, both marked",
    ContestedOrder.NEWEST_ONLY: "Only the newer, marked",
    ContestedOrder.BOTH: "Both in order of relevance, marked",
}
STM_BOOSTS: Mapping[str, Mapping[str, str]] = {
    "kind_boosts": {kind.value: f"Factor of a turn that ends with: {kind.label.lower()}" for kind in EventKind},
    "visibility_boosts": {
        word: f"Factor of a turn with {word} events"
        for word in STM_DEFAULTS["visibility_boosts"]  # type: ignore[attr-defined]
    },
}
"""By setting: the kind of loop, and the label of its factor."""
ATTENTION_NUMBERS: Mapping[str, tuple[str, str]] = {
    "per_hundred_facts": ("Reviews per 100 facts", "For each 100 facts that it learns. 0 opens no reviews."),
    "per_day": ("Reviews per day", "In any 24 hours. Above it, people are not asked."),
}
ASKING_LABELS: Mapping[str, str] = {
    AutomaticDecision.SUPERSEDED: "replaced by a newer one",
    AutomaticDecision.CONFIRMED: "the same in other words",
    AutomaticDecision.UNDECIDED: "contradicted",
}
RECENT_LABELS: Mapping[str, str] = {
    RecentMode.ON_QUESTIONS: "For questions about the past",
    RecentMode.ALWAYS: "Always",
    RecentMode.NEVER: "Never",
}
UNITS: Mapping[str, str] = {
    "stm_half_life_seconds": "seconds",
    "stm_w_similarity": "0 to 1",
    "stm_w_recency": "0 to 1",
    "stm_window": "turns",
    "attention_per_hundred_facts": "reviews",
    "attention_per_day": "reviews a day",
    "autonomy_max_error": "%",
}
"""By field: what stands beside its number."""


class PercentField(forms.FloatField):
    """A share, 0 to 1, that people read and type in percent."""

    default_error_messages = dict.fromkeys(("min_value", "max_value"), "Enter a percentage from 0 to 100.")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=1, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return f"{100 * value:g}" if isinstance(value, int | float) else value

    def to_python(self, value: Any) -> Any:
        percent = super().to_python(value)
        return None if percent is None else round(percent / 100, 6)

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return {**super().widget_attrs(widget), "max": 100}


class AgentSettingsForm(forms.Form):
    """Budgets, contested facts, attention budget, short-term search and profile of an agent."""

    base_version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    reason = forms.CharField(
        required=False,
        max_length=MAX_REASON_CHARACTERS,
        label="Why",
        widget=forms.TextInput(attrs={"placeholder": "For the history and the audit trail", "form": "settings"}),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None,
        *,
        settings: AgentSettings,
        categories: Sequence[str] = (),
        detected: str = "",
        kind: str,
    ) -> None:
        super().__init__(data, initial=_initial_of(settings))
        named = dict.fromkeys((*settings.contested.categories, *KNOWN_CATEGORIES, *categories))
        self.categories = list(named)[: max(MAX_CATEGORIES_OFFERED, len(settings.contested.categories))]
        self.boosts = {
            name: {**labels, **{word: word for word in settings.stm.get(name, {}) if word not in labels}}
            for name, labels in STM_BOOSTS.items()
        }
        usual = ("", f"Default: {kind.partition(':')[0]}")
        made: dict[str, forms.Field] = {
            "profile": forms.ChoiceField(
                required=False,
                choices=lambda: [usual, *profile_choices()],
                label="Profile",
                help_text=f"{kind}. It says which memories prompts prefer, and which they leave out.",
            ),
            "language": forms.ChoiceField(
                required=False,
                choices=[("", "Detected"), *((code, one.name) for code, one in LANGUAGES.items())],
                label="Language of its memories",
                help_text=f"Search finds other forms of its words, too. Detected: {detected}."
                if not settings.language
                else "A change processes all memories again.",
            ),
            "time_zone": forms.CharField(
                required=False,
                max_length=MAX_ZONE_CHARACTERS,
                label="Time zone of its users",
                help_text="What “today” and “last week” mean in questions. Type a city, such as Berlin.",
                widget=forms.TextInput(
                    attrs={"placeholder": "Server time (UTC)", "list": "zones", "autocomplete": "off"}
                ),
            ),
            "recent": forms.ChoiceField(
                required=False,
                choices=RECENT_LABELS.items(),
                label=PROMPT_SECTIONS["recent"],
                help_text="Whether prompts name what earlier sessions were about: at most 5, of the last 48 hours.",
            ),
            "serves_users": forms.BooleanField(
                required=False,
                label="Serves many users",
                help_text="Each new memory must name its user. Existing memories are left out of prompts until someone"
                " assigns them to a user.",
            ),
            **{
                f"budget_{name}": forms.IntegerField(
                    required=False,
                    min_value=1 if name == TOTAL else 0,
                    max_value=MAX_TOTAL,
                    label=SECTION_LABELS.get(name, name),
                    help_text=SECTION_NOTES.get(name, ""),
                    widget=forms.NumberInput(attrs={"placeholder": str(SECTION_BUDGETS.get(name, "Automatic"))}),
                )
                for name in (TOTAL, *SECTION_BUDGETS)
            },
            "contested_order": forms.ChoiceField(
                required=False,
                choices=[(str(order), label) for order, label in CONTESTED_LABELS.items()],
                label="In prompts",
                help_text="What a prompt says where two facts contradict each other.",
            ),
            **{
                f"contested_of_{category}": forms.ChoiceField(
                    required=False,
                    choices=[
                        ("", "Same as all facts"),
                        *((str(order), label) for order, label in CONTESTED_LABELS.items()),
                    ],
                    label=f"Facts of the category “{category}”",
                )
                for category in self.categories
            },
            "attention_unlimited": forms.BooleanField(
                required=False,
                label="Review everything",
                help_text="No limit on reviews. Those held back earlier stay in the inbox under Held back.",
            ),
            **{
                f"attention_{name}": forms.IntegerField(
                    required=False,
                    min_value=0,
                    max_value=MAX_REVIEWS[name],
                    label=label,
                    help_text=help_text,
                    widget=forms.NumberInput(attrs={"placeholder": str(getattr(DEFAULT_BUDGET, name))}),
                )
                for name, (label, help_text) in ATTENTION_NUMBERS.items()
            },
            "autonomy_max_error": PercentField(
                required=False,
                label="Highest error rate",
                help_text="When automatic decisions of a kind are wrong more often than this, people decide instead.",
                widget=forms.NumberInput(attrs={"placeholder": f"{100 * DEFAULT_AUTONOMY.max_error:g}", "step": "any"}),
            ),
            "autonomy_asking": forms.MultipleChoiceField(
                required=False,
                choices=ASKING_LABELS.items(),
                label="Always ask about facts that are",
                widget=forms.CheckboxSelectMultiple,
            ),
            **{
                f"stm_{name}": forms.FloatField(
                    required=False,
                    label=label,
                    help_text=help_text,
                    widget=forms.NumberInput(attrs={"placeholder": f"{STM_DEFAULTS[name]:g}", "step": "any"}),
                )
                for name, (label, help_text) in STM_NUMBERS.items()
            },
            "stm_window": forms.IntegerField(
                required=False,
                min_value=1,
                max_value=MAX_STM_WINDOW,
                label="Window",
                help_text="How many of the latest are searched.",
                widget=forms.NumberInput(attrs={"placeholder": str(STM_DEFAULTS["window"])}),
            ),
            **{
                f"stm_{name}.{word}": forms.FloatField(
                    required=False,
                    min_value=0,
                    max_value=MAX_STM_BOOST,
                    label=label,
                    widget=forms.NumberInput(
                        attrs={"placeholder": f"{STM_DEFAULTS[name].get(word, 1.0):g}", "step": "any"}  # type: ignore[attr-defined]
                    ),
                )
                for name, words in self.boosts.items()
                for word, label in words.items()
            },
        }
        for name, unit in UNITS.items():
            made[name].unit = unit  # type: ignore[attr-defined]
        self.fields = {**made, **self.fields}
        # The fields by the part of the page that shows them.
        self.groups = {
            "categories": [self[f"contested_of_{category}"] for category in self.categories],
            "attention": [self[name] for name in self.fields if name.startswith(("attention_", "autonomy_"))],
            "stm": [self[name] for name in self.fields if name.startswith("stm_") and "." not in name],
            "factors": [self[name] for name in self.fields if name.startswith("stm_") and "." in name],
        }

    def clean(self) -> dict[str, Any]:
        """Read the policy of contested facts."""
        cleaned = super().clean() or self.cleaned_data
        order = cleaned.get("contested_order") or str(ContestedOrder.NEWEST_FIRST)
        chosen = {category: cleaned.get(f"contested_of_{category}") for category in self.categories}
        try:
            cleaned["contested"] = ContestedPolicy.checked(order, {name: one for name, one in chosen.items() if one})
        except Invalid as error:
            self.add_error("contested_order", error.detail)
        return cleaned

    def values(self) -> dict[str, Any]:
        """The filled fields, as arguments of `settings_update`."""
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "", {})}
        stm: dict[str, Any] = {}
        for name, value in given.items():
            setting, _, word = name.removeprefix("stm_").partition(".")
            if name.startswith("stm_") and word:
                stm.setdefault(setting, {})[word] = value
            elif name.startswith("stm_"):
                stm[setting] = value
        return {
            "budgets": {name[7:]: value for name, value in given.items() if name.startswith("budget_")},
            "stm": stm,
            "profile": given.get("profile", ""),
            "contested": self.cleaned_data["contested"],
            "attention": AttentionBudget.checked(
                **{name[10:]: value for name, value in given.items() if name.startswith("attention_")}
            ),
            "autonomy": Autonomy.checked(
                **{name[9:]: value for name, value in given.items() if name.startswith("autonomy_")}
            ),
            "language": given.get("language", ""),
            "time_zone": given.get("time_zone", ""),
            "recent": given.get("recent", ""),
            "serves_users": bool(given.get("serves_users")),
        }


def _initial_of(settings: AgentSettings) -> dict[str, Any]:
    """The initial values of the fields for the current settings."""
    limits, usual = settings.attention.as_json(), DEFAULT_BUDGET.as_json()
    found: dict[str, Any] = {
        "profile": settings.profile,
        "base_version": settings.version,
        **{name: getattr(settings, name) for name in ("language", "time_zone", "recent", "serves_users")},
        **{f"budget_{name}": tokens for name, tokens in settings.budgets.items()},
        **{f"attention_{name}": value for name, value in limits.items() if value != usual[name]},
        "autonomy_asking": list(settings.autonomy.asking),
        "contested_order": str(settings.contested.order),
        **{f"contested_of_{name}": str(one) for name, one in settings.contested.categories.items()},
    }
    for name, value in settings.stm.items():
        words = value.items() if isinstance(value, Mapping) else ()
        found |= {f"stm_{name}.{word}": factor for word, factor in words} or {f"stm_{name}": value}
    if settings.autonomy.max_error != DEFAULT_AUTONOMY.max_error:
        found["autonomy_max_error"] = settings.autonomy.max_error
    return found
