"""Profiles: the settings of prompts for each kind of agent; every edit is a new version."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.paginator import Paginator
from django.db.models import F, FilteredRelation, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from context.models import ContextProfile
from context.services.agent_settings import (
    EffectiveSetting,
    effective_settings,
    profile_assign,
    profile_create,
    profile_get,
    profile_update,
)
from identity.models import Agent
from identity.principal import Principal
from nousweb.console.common import FORM, POST, Column, ListPage, Title, act, agent_page, form_page, number_of, page
from nousweb.console.context.forms import words_read
from nousweb.console.context.profile_settings import SETTINGS, setting_words, settings_text
from nousweb.lib.errors import NotFound
from nousweb.lib.textdiff import diff_texts

NONE = "none"
"""Typed for a list that is empty on purpose, as nothing typed means inherited."""


class ProfileForm(forms.Form):
    """The own settings of a profile. `effective` has the values that empty fields inherit."""

    reason = forms.CharField(
        required=False,
        max_length=2_000,
        label="Why",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For the history.",
    )

    def __init__(self, *args: Any, inherited: Mapping[str, EffectiveSetting], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        made: dict[str, forms.Field] = {}
        for name, setting in SETTINGS.items():
            hint = setting_words(inherited[name].value)
            field: forms.Field
            attrs = {"placeholder": f"inherits {hint}"}
            if setting.form == "yes":
                choices = [("", f"Inherit ({hint})"), ("yes", "Yes"), ("no", "No")]
                field = forms.ChoiceField(required=False, choices=choices)
            elif setting.form == "share":
                widget = forms.NumberInput(attrs={**attrs, "step": "0.01"})
                field = forms.FloatField(required=False, min_value=0, max_value=1, widget=widget)
            elif setting.form == "count":
                widget = forms.NumberInput(attrs={**attrs, "step": "1"})
                field = forms.IntegerField(required=False, min_value=0, max_value=50, widget=widget)
            else:
                field = forms.CharField(required=False, max_length=500, widget=forms.TextInput(attrs=attrs))
            field.label, field.help_text = setting.label, setting.help
            made[name] = field
        self.fields = {**made, **self.fields}

    def values(self) -> dict[str, Any]:
        """The profile's own settings: the fields that were filled in."""
        values: dict[str, Any] = {}
        for name, setting in SETTINGS.items():
            given = self.cleaned_data[name]
            if given in ("", None):
                continue
            if setting.form == "yes":
                values[name] = given == "yes"
            elif setting.form == "words":
                values[name] = [] if given.strip().lower() == NONE else list(words_read(given))
            elif setting.form == "text" and given.strip().lower() == NONE:
                values[name] = ""
            else:
                values[name] = given
        return values

    @staticmethod
    def initial_of(values: Mapping[str, Any]) -> dict[str, Any]:
        """The initial values of the fields for a profile's own settings."""
        return {
            name: values[name] if setting.form in ("share", "count") else setting_words(values[name])
            for name, setting in SETTINGS.items()
            if name in values
        }


class ProfileCopyForm(forms.Form):
    """A profile of one's own that begins as another one is."""

    slug = forms.SlugField(
        max_length=50, label="Short name", help_text="Lower-case letters, digits, - or _. It cannot be changed later."
    )
    name = forms.CharField(max_length=100, label="Name")
    inherit = forms.BooleanField(
        required=False,
        initial=True,
        label="Inherit later changes of the original",
        help_text="If not selected, the current values are written into the copy.",
    )


VIEW = "context.view_contextprofile"
ADD = "context.add_contextprofile"
CHANGE = "context.change_contextprofile"
ASSIGN = "identity.change_agent"
AGENTS_SHOWN = 200
VERSIONS_SHOWN = 25


LIST = ListPage(
    title="Prompt profiles",
    noun="profile",
    about="What the prompts of each kind of agent contain.",
    empty="",
    numbered=True,
    is_exported=False,
    row=Title("name", detail=lambda profile: profile.get_kind_display().partition(": ")[2] or profile.slug),
    columns=(
        Column("Used by", look="context/_profile_users.html"),
        Column("Inherits from", "base", empty="the defaults"),
        Column("Version", "version", "count"),
        Column("Changed by", "author"),
        Column("Changed", "changed_at", "time"),
    ),
)


@page(VIEW)
def context_profiles(request: HttpRequest, by: Principal) -> HttpResponse:
    """All profiles with their versions and the agents they are in force for."""
    current = FilteredRelation("versions", condition=Q(versions__is_current=True))
    fields = {
        "version": F("current__version"),
        "author": F("current__author_name"),
        "changed_at": F("current__created_at"),
    }
    profiles = ContextProfile.objects.select_related("base").annotate(current=current, **fields)
    context = LIST.context(request, LIST.page(request, profiles))
    users = _users(by)
    for profile in context["rows"]:
        profile.used_by = users.get(profile.slug, [])
    return render(request, LIST.template, context)


@page(VIEW)
def context_profile(request: HttpRequest, by: Principal, profile_slug: str) -> HttpResponse:
    """One profile: every effective value and its origin, and the agents that use it."""
    profile = profile_get(profile_slug)
    return render(
        request,
        "context/profile.html",
        {
            "profile": profile,
            "version": profile.versions.filter(is_current=True).first(),
            "rows": [
                {
                    "setting": SETTINGS[setting.name],
                    "value": setting_words(setting.value),
                    "origin": setting.origin,
                    "base": setting.base,
                }
                for setting in effective_settings(profile)
            ],
            "agents": _users(by).get(profile.slug, []),
            "all_agents": list(Agent.objects.visible_to(by)[:AGENTS_SHOWN]),
            "heirs": list(profile.heirs.all()[:AGENTS_SHOWN]),
            "may_change": by.may(CHANGE),
            "may_add": by.may(ADD),
            "may_assign": by.may(ASSIGN),
        },
    )


@page(CHANGE, methods=FORM)
def context_profile_edit(request: HttpRequest, by: Principal, profile_slug: str) -> HttpResponse:
    """A new version: the difference is shown before it can be saved."""
    profile = profile_get(profile_slug)
    current = profile.versions.filter(is_current=True).first()
    values = current.values if current else {}
    inherited = {setting.name: setting for setting in effective_settings(profile.base or ContextProfile())}
    form = ProfileForm(
        request.POST if request.method == "POST" else None,
        initial=ProfileForm.initial_of(values),
        inherited=inherited,
    )
    context: dict[str, Any] = {"profile": profile, "form": form, "version": current.version if current else 0}
    template, base_version = "context/profile_edit.html", number_of(request.POST.get("base_version"))
    if form.is_valid():
        context["diff"] = diff_texts(settings_text(values), settings_text(form.values()))
        if request.POST.get("action") != "save":
            return render(request, template, context)
    return form_page(
        request,
        template,
        form,
        lambda given: profile_update(
            profile=profile,
            values=form.values(),
            by=by,
            base_version=-1 if base_version is None else base_version,
            reason=given["reason"],
        ),
        done=lambda made: f"Saved. Version {made.version} is in use.",
        back=reverse("context_profile", args=[profile.slug]),
        context=context,
        conflict="refusal",
    )


@page(ADD, methods=FORM)
def context_profile_copy(request: HttpRequest, by: Principal, profile_slug: str) -> HttpResponse:
    """A profile of one's own, that follows the original or starts from its values."""
    original = profile_get(profile_slug)

    def copy(given: dict[str, Any]) -> ContextProfile:
        inherit = given["inherit"]
        return profile_create(
            slug=given["slug"],
            name=given["name"],
            base=original if inherit else None,
            values={} if inherit else {setting.name: setting.value for setting in effective_settings(original)},
            reason=f"Copied from {original.slug}.",
            by=by,
        )

    return form_page(
        request,
        "context/profile_copy.html",
        ProfileCopyForm(request.POST if request.method == "POST" else None, initial={"name": f"{original.name}, own"}),
        copy,
        done="The profile was copied.",
        back=lambda made: reverse("context_profile", args=[made.slug]),
        context={"profile": original},
        conflict="slug",
    )


@page(VIEW)
def context_profile_history(request: HttpRequest, by: Principal, profile_slug: str) -> HttpResponse:
    """Every version with its changes."""
    profile = profile_get(profile_slug)
    page = Paginator(profile.versions.order_by("-version"), VERSIONS_SHOWN).get_page(request.GET.get("page"))
    versions = list(page)
    older = {
        version.version: version.values
        for version in profile.versions.filter(version__in=[version.version - 1 for version in versions])
    }
    rows = [
        {
            "version": version,
            "diff": diff_texts(
                settings_text(older.get(version.version - 1, {})), settings_text(version.values), context=0
            ),
        }
        for version in versions
    ]
    return render(request, "context/profile_history.html", {"profile": profile, "rows": rows, "page": page})


@agent_page(ASSIGN, methods=POST)
def agent_context_profile(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Make a profile an agent's own, or give it back its kind's."""
    chosen = request.POST.get("profile", "")
    said = "this profile from now on" if chosen else "its kind's profile again"
    return act(
        request,
        lambda: profile_assign(agent=agent, slug=chosen, by=by),
        "context_profiles",
        f"{agent.name} uses {said}.",
        then=lambda _: reverse("context_profile", args=[chosen]) if chosen else "context_profiles",
        refusals=(NotFound,),
    )


def _users(by: Principal) -> dict[str, list[tuple[Agent, bool]]]:
    """The agents by the slug of the profile in force, each with whether it was chosen for it."""
    by_kind = dict(ContextProfile.objects.exclude(kind="").values_list("kind", "slug"))
    users: dict[str, list[tuple[Agent, bool]]] = {}
    for agent in Agent.objects.visible_to(by)[:AGENTS_SHOWN]:
        own = str(agent.config.get("profile") or "")
        users.setdefault(own or by_kind.get(agent.kind, ""), []).append((agent, bool(own)))
    return users
