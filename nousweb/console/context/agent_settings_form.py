"""The form of an agent's settings: what is left empty has its default."""

from collections.abc import Iterator, Mapping
from typing import Any

from django import forms

from context.engine.analysis.contested_policy import ContestedOrder, ContestedPolicy
from context.engine.analysis.plan import MAX_TOTAL, SECTION_BUDGETS
from context.models import ContextProfile
from context.services.agent_settings import TOTAL, AgentSettings
from identity.policy.sections import MAX_REASON_CHARACTERS
from memory.layers.event_policy import MAX_STM_WINDOW, STM_DEFAULTS
from nousweb.console.context.labels import PROMPT_SECTIONS
from nousweb.lib.errors import Invalid

SECTION_LABELS: Mapping[str, str] = {TOTAL: "The whole prompt", **PROMPT_SECTIONS}
STM_NUMBERS: Mapping[str, tuple[str, str]] = {
    "half_life_seconds": ("Half-life", "Seconds after which a loop counts half as recent."),
    "w_similarity": ("Weight of likeness", "0 to 1."),
    "w_recency": ("Weight of recency", "0 to 1."),
}
CONTESTED_LABELS: Mapping[ContestedOrder, str] = {
    ContestedOrder.NEWEST_FIRST: "The newer above the older, both marked",
    ContestedOrder.NEWEST_ONLY: "Only the newer, marked",
    ContestedOrder.BOTH: "Both where their relevance puts them, marked",
}
STM_BOOSTS: Mapping[str, str] = {"kind_boosts": "Factors by kind", "visibility_boosts": "Factors by visibility"}


class AgentSettingsForm(forms.Form):
    """Budgets, contested facts, short-term search and profile of an agent."""

    base_version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    reason = forms.CharField(
        required=False,
        max_length=MAX_REASON_CHARACTERS,
        label="Why",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For the history and the audit trail.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        made: dict[str, forms.Field] = {}
        profiles = [("", "That of its kind"), *ContextProfile.objects.order_by("slug").values_list("slug", "name")]
        made["profile"] = forms.ChoiceField(required=False, choices=profiles, label="Profile")
        for name in (TOTAL, *SECTION_BUDGETS):
            default = SECTION_BUDGETS.get(name)
            made[f"budget_{name}"] = forms.IntegerField(
                required=False,
                min_value=1 if name == TOTAL else 0,
                max_value=MAX_TOTAL,
                label=SECTION_LABELS.get(name, name),
                widget=forms.NumberInput(attrs={"placeholder": "the frame's" if default is None else str(default)}),
            )
        made["contested_order"] = forms.ChoiceField(
            required=False,
            choices=[(str(order), label) for order, label in CONTESTED_LABELS.items()],
            label="Contested facts",
            help_text="Two facts between which nobody has decided yet.",
        )
        made["contested_categories"] = forms.CharField(
            required=False,
            max_length=2_000,
            label="By category",
            help_text=f"As category=order, parted by commas; an order is {', '.join(ContestedOrder)}.",
            widget=forms.TextInput(attrs={"placeholder": "preference=newest_only"}),
        )
        for name, (label, help_text) in STM_NUMBERS.items():
            widget = forms.NumberInput(attrs={"placeholder": f"{STM_DEFAULTS[name]:g}", "step": "any"})
            made[f"stm_{name}"] = forms.FloatField(required=False, label=label, help_text=help_text, widget=widget)
        made["stm_window"] = forms.IntegerField(
            required=False,
            min_value=1,
            max_value=MAX_STM_WINDOW,
            label="Window",
            help_text="Loops that are looked through.",
            widget=forms.NumberInput(attrs={"placeholder": str(STM_DEFAULTS["window"])}),
        )
        for name, label in STM_BOOSTS.items():
            made[f"stm_{name}"] = forms.CharField(
                required=False,
                max_length=2_000,
                label=label,
                help_text="As word=factor, parted by commas.",
                widget=forms.TextInput(attrs={"placeholder": _boost_words(STM_DEFAULTS[name])}),
            )
        self.fields = {**made, **self.fields}

    @property
    def budget_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name.startswith("budget_")]

    @property
    def contested_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name.startswith("contested_")]

    @property
    def stm_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name.startswith("stm_")]

    def clean(self) -> dict[str, Any]:
        """Read the factors, which are typed as words."""
        cleaned = super().clean() or self.cleaned_data
        for name in STM_BOOSTS:
            try:
                cleaned[f"stm_{name}"] = _boosts_read(cleaned.get(f"stm_{name}") or "")
            except ValueError:
                self.add_error(f"stm_{name}", "Write word=factor, parted by commas, such as error=1.1.")
        order = cleaned.get("contested_order") or str(ContestedOrder.NEWEST_FIRST)
        try:
            categories = dict(_pairs_read(cleaned.get("contested_categories") or ""))
            cleaned["contested"] = ContestedPolicy.checked(order, categories)
        except ValueError:
            self.add_error("contested_categories", "Write category=order, parted by commas.")
        except Invalid as error:
            self.add_error("contested_categories", error.detail)
        return cleaned

    def values(self) -> dict[str, Any]:
        """What `settings_update` takes: what was filled in."""
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "", {})}
        return {
            "budgets": {name[7:]: value for name, value in given.items() if name.startswith("budget_")},
            "stm": {name[4:]: value for name, value in given.items() if name.startswith("stm_")},
            "profile": given.get("profile", ""),
            "contested": self.cleaned_data["contested"],
        }

    @staticmethod
    def initial_of(settings: AgentSettings) -> dict[str, Any]:
        """What the fields hold for the settings in force."""
        stm = {
            f"stm_{name}": _boost_words(value) if isinstance(value, Mapping) else value
            for name, value in settings.stm.items()
        }
        budgets = {f"budget_{name}": tokens for name, tokens in settings.budgets.items()}
        contested = {
            "contested_order": str(settings.contested.order),
            "contested_categories": contested_words(settings.contested),
        }
        return {**budgets, **stm, **contested, "profile": settings.profile, "base_version": settings.version}


def contested_words(policy: ContestedPolicy) -> str:
    """The orders by category as they are typed."""
    return ", ".join(f"{category}={order}" for category, order in policy.categories.items())


def _boost_words(boosts: Any) -> str:
    return ", ".join(f"{word}={factor:g}" for word, factor in boosts.items())


def _boosts_read(words: str) -> dict[str, float]:
    return {word: float(factor) for word, factor in _pairs_read(words)}


def _pairs_read(words: str) -> Iterator[tuple[str, str]]:
    for part in filter(str.strip, words.split(",")):
        name, value = part.split("=", 1)
        yield name.strip(), value.strip()
