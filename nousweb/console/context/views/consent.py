"""The page of an agent's consent policy: its rules as a table, and what they would have kept back lately."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from context.models import VIEW_RUN
from context.services.agent_settings import CHANGE, settings_get, settings_update
from context.what_if.consent_impact import consent_impact
from identity.models import Agent, ApiToken, Persona
from identity.policy.sections import MAX_REASON_CHARACTERS
from identity.principal import Principal
from memory.models import Fact, Trust
from memory.policy import KNOWN_CATEGORIES
from memory.policy.oversight import (
    CORE_MEMORY,
    MAX_DAYS,
    MAX_RULES,
    UNTRUSTED_WORDS,
    ConsentAction,
    ConsentPolicy,
    ConsentRule,
)
from memory.types import MEMORY_TYPES
from nousweb.console.common import FORM, agent_page, number_of
from nousweb.lib.bounds import MAX_KEY_CHARACTERS
from nousweb.lib.errors import Invalid, StaleEdit

SHOWN = 10
"""Memories that are listed of those that would be kept back."""
MAX_CATEGORIES_OFFERED = 30
ACTIONS = {
    ConsentAction.USE: "Use at once",
    ConsentAction.SHOW: "Use, and show to people",
    ConsentAction.PENDING: "Wait for a person",
    ConsentAction.REFUSE: "Refuse",
}
DONE = {
    ConsentAction.USE: "are used at once",
    ConsentAction.SHOW: "are used at once and shown to people",
    ConsentAction.PENDING: "wait for a person",
    ConsentAction.REFUSE: "are refused",
}
TYPES = {name: str(one.model._meta.verbose_name_plural) for name, one in MEMORY_TYPES.items() if name != "fact"}
TRUST = {
    Trust.AGENT: "the agent itself",
    Trust.TOOL: "tools",
    Trust.IMPORTED: "imports",
    Trust.WEB: "the web",
    UNTRUSTED_WORDS: "tools, the web or a token’s import",
}


def rule_words(rule: ConsentRule) -> str:
    """A rule as a sentence."""
    core = "facts of core memory" if rule.category == CORE_MEMORY else f"facts of the category “{rule.category}”"
    what = TYPES.get(rule.category, core) if rule.category else "facts" if rule.instructs else "memories"
    said = [
        "that tell their reader what to do" if rule.instructs else "",
        f"from {TRUST.get(rule.trust, 'people')}" if rule.trust else "",
        f"by {rule.writer}" if rule.writer else "",
        f"in the project {rule.project}" if rule.project else "",
    ]
    days = f", for {rule.days} days" if rule.days and rule.action is ConsentAction.PENDING else ""
    return f"New {' '.join(filter(None, [what, *said]))} {DONE[rule.action]}{days}."


class RuleForm(forms.Form):
    """One rule, as a row."""

    action = forms.ChoiceField(choices=list(ACTIONS.items()), label="Decision")
    category = forms.ChoiceField(required=False, label="Memories")
    instructs = forms.BooleanField(required=False, label="Only if it tells its reader what to do")
    trust = forms.ChoiceField(
        required=False,
        label="From",
        choices=[("", "Anybody"), *((key, words.capitalize()) for key, words in TRUST.items())],
    )
    writer = forms.ChoiceField(required=False, label="Written by")
    project = forms.CharField(required=False, max_length=MAX_KEY_CHARACTERS)
    days = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_DAYS,
        label="Days to wait",
        widget=forms.NumberInput(attrs={"placeholder": "usual"}),
    )

    def __init__(self, data: Mapping[str, Any], number: int, categories: Sequence[str], writers: Sequence[str]) -> None:
        super().__init__({f"rule{number}-{name}": value for name, value in data.items()}, prefix=f"rule{number}")
        looks = {"Up": "", "Down": "", "Remove": "danger"}
        self.moves = [(word, f"{word.lower()}:{number}", look) for word, look in looks.items()]
        self.is_blank = not any(value for name, value in data.items() if name != "action")
        kinds = {"": "All", CORE_MEMORY: "Facts of core memory", **{name: f"Facts: {name}" for name in categories}}
        kinds |= {name: label.capitalize() for name, label in TYPES.items()}
        self.fields["category"].choices = list(kinds.items())  # type: ignore[attr-defined]
        self.fields["writer"].choices = [("", "Any token"), *((name, name) for name in writers)]  # type: ignore[attr-defined]

    @property
    def sentence(self) -> str:
        """The rule in words."""
        return rule_words(ConsentRule(**self.rule)) if self.is_valid() else "A rule that is not complete."

    @property
    def rule(self) -> dict[str, Any]:
        """The fields of a ConsentRule."""
        given = {name: value for name, value in self.cleaned_data.items() if value}
        return {**given, "action": ConsentAction(given["action"])}


@agent_page(CHANGE, methods=FORM)
def agent_consent(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The consent policy: its rows come back with each change, with the sentences of what is chosen (and no impact,
    which was that of another choice), and nothing is stored before it is saved."""
    current = settings_get(agent=agent, by=by)
    change = request.POST.get("change", "save") if request.method == "POST" else ""
    rows = _changed(_posted(request), change) if change else [rule.as_json() for rule in current.consent.rules]
    of_facts = Fact.objects.filter(agent=agent, persona=Persona.ACTOR).active().order_by("category")
    own = of_facts.values_list("category", flat=True).distinct()[:MAX_CATEGORIES_OFFERED]
    kept = [rule.category for rule in current.consent.rules if rule.category not in (*TYPES, CORE_MEMORY, "")]
    categories = list(dict.fromkeys([*KNOWN_CATEGORIES, *own, *kept]))
    tokens = ApiToken.objects.filter(agent=agent).order_by("name").values_list("name", flat=True)
    writers = list(dict.fromkeys([*tokens, *filter(None, (rule.writer for rule in current.consent.rules))]))
    form = [RuleForm(row, number, categories, writers) for number, row in enumerate(rows)]
    base, reason = request.POST.get("base_version", ""), request.POST.get("reason", "")[:MAX_REASON_CHARACTERS]
    refusal, policy, impact, status = "", None, None, 200
    if change in ("save", "impact"):
        try:
            if not all(row.is_valid() for row in form):
                raise Invalid("A rule is not complete.", field="consent")
            policy = ConsentPolicy.checked(row.rule for row in form)
            if change == "save":
                settings_update(agent=agent, consent=policy, base_version=number_of(base), reason=reason, by=by)
                messages.success(request, "The rules were saved. They apply to new memories.")
                return redirect("agent_consent", agent.slug)
            impact = consent_impact(agent=agent, policy=policy, by=by)
        except (Invalid, StaleEdit) as error:
            refusal, status = error.detail, error.status
    return render(
        request,
        "context/consent.html",
        {
            "agent": agent,
            "rows": form,
            "base_version": base or current.version,
            "reason": reason,
            "refusal": refusal,
            "impact": impact,
            "listed": [(ACTIONS[one.action], one) for one in impact.memories[:SHOWN]] if impact else [],
            "may_preview": by.may(VIEW_RUN),
            "is_unsaved": bool(change) and policy != current.consent,
        },
        status=status,
    )


def _posted(request: HttpRequest) -> list[dict[str, Any]]:
    """The rules as the page sent them."""
    prefixes = (f"rule{number}-" for number in range(MAX_RULES + 1))
    return [
        {name: request.POST.get(prefix + name, "") for name in RuleForm.base_fields}
        for prefix in takewhile(lambda prefix: f"{prefix}action" in request.POST, prefixes)
    ]


def _changed(rows: list[dict[str, Any]], change: str) -> list[dict[str, Any]]:
    """The rules after the press of a button: "add", or "up:2", "down:2" and "remove:2" for the third one."""
    word, _, place = change.partition(":")
    if word == "add":
        return [*rows, {"action": ConsentAction.PENDING}][:MAX_RULES]
    number = number_of(place, 2)
    if number is None or number >= len(rows):
        return rows
    row = rows.pop(number)
    if word in ("up", "down"):
        rows.insert(max(0, number + (1 if word == "down" else -1)), row)
    return rows
