"""The settings of an agent's prompts, and their versions."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from context.engine.analysis.contested_policy import ContestedPolicy
from context.services.agent_settings import (
    CHANGE,
    AgentSettings,
    settings_get,
    settings_history,
    settings_restore,
    settings_update,
)
from identity.models import Persona
from identity.selectors import agent_get
from memory.models import Fact
from memory.policy.attention import DEFAULT_BUDGET
from memory.policy.autonomy import DEFAULT_AUTONOMY
from memory.search.languages import LANGUAGES
from memory.services.search_index.agent_languages import language_used
from nousweb.console.common.view_helpers import form_refuse, principal_of
from nousweb.console.context.agent_settings_form import (
    ASKING_LABELS,
    CONTESTED_LABELS,
    MAX_CATEGORIES_OFFERED,
    SECTION_LABELS,
    AgentSettingsForm,
)
from nousweb.lib.errors import Conflict, Invalid, NotFound
from nousweb.lib.textdiff import diff_texts

VERSIONS_SHOWN = 50


@require_http_methods(["GET", "HEAD", "POST"])
def agent_context_settings(request: HttpRequest, slug: str) -> HttpResponse:
    """Budgets, contested facts, attention budget, short-term search, profile and language of an agent, and the history
    of their changes."""
    by = principal_of(request)
    by.require(CHANGE)
    agent = agent_get(slug, by)
    data = request.POST if request.method == "POST" else None
    current = settings_get(agent=agent, by=by)
    of_facts = Fact.objects.filter(agent=agent, persona=Persona.ACTOR).active().order_by("category")
    categories = list(of_facts.values_list("category", flat=True).distinct()[:MAX_CATEGORIES_OFFERED])
    form = AgentSettingsForm(data, settings=current, categories=categories)
    refusal = ""
    if data is not None and form.is_valid():
        try:
            given = form.cleaned_data
            settings_update(
                agent=agent, **form.values(), base_version=given["base_version"], reason=given["reason"], by=by
            )
        except Invalid as error:
            form_refuse(form, error)
        except Conflict as error:
            refusal = error.detail
        else:
            messages.success(request, "The settings were saved. They apply from the next prompt on.")
            return redirect("agent_context_settings", slug=agent.slug)
    history = settings_history(agent=agent, by=by)
    older = [*(one.settings for one in history[1:]), AgentSettings(0, {}, {}, "", ContestedPolicy())]
    rows = [
        {"version": one, "diff": diff_texts(_words(before), _words(one.settings), context=0)}
        for one, before in list(zip(history, older, strict=False))[:VERSIONS_SHOWN]
    ]
    context: dict[str, Any] = {
        "agent": agent,
        "form": form,
        "current": current,
        "language": LANGUAGES[language_used(agent)].name,
        "rows": rows,
        "refusal": refusal,
    }
    status = 409 if refusal else 422 if form.errors else 200
    return render(request, "context/agent_settings.html", context, status=status)


@require_POST
def agent_context_settings_restore(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """Restore the settings of an earlier version."""
    by = principal_of(request)
    by.require(CHANGE)
    agent = agent_get(slug, by)
    try:
        settings_restore(agent=agent, version=version, by=by)
    except (Invalid, NotFound) as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, f"The settings of version {version} were restored.")
    return redirect("agent_context_settings", slug=agent.slug)


def _words(settings: AgentSettings) -> str:
    """The settings as lines that can be compared."""
    lines = [f"Profile: {settings.profile or 'default for this kind of agent'}"]
    lines += [f"Language: {LANGUAGES[settings.language].name if settings.language in LANGUAGES else 'detected'}"]
    lines += [f"Budget of {SECTION_LABELS.get(name, name)}: {tokens:,}" for name, tokens in settings.budgets.items()]
    lines += [f"Contested facts: {CONTESTED_LABELS[settings.contested.order]}"]
    lines += [
        f"Contested facts of {category}: {CONTESTED_LABELS[order]}"
        for category, order in settings.contested.categories.items()
    ]
    attention = settings.attention
    if attention != DEFAULT_BUDGET:
        numbers = f"{attention.per_hundred_facts} reviews for 100 facts, {attention.per_day} a day"
        lines += [f"Attention budget: {'no limit' if attention.unlimited else numbers}"]
    if settings.autonomy.max_error != DEFAULT_AUTONOMY.max_error:
        lines += [f"Greatest error of automatic decisions: {settings.autonomy.max_error:g}"]
    lines += [f"People are asked about facts that are {ASKING_LABELS[one]}" for one in settings.autonomy.asking]
    lines += [f"Short-term search, {name}: {value}" for name, value in sorted(settings.stm.items())]
    return "\n".join(lines)
