"""The change feed of one agent, as its readers get it, the latest first; and its webhooks, with what each was sent."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count, F, Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from identity.models import Agent, Persona, Webhook, WebhookDelivery
from identity.policy.changes import CHANGE_KINDS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.change_feed import changes_latest, kinds_of, stream_publish, streams_of
from identity.services.webhooks import (
    RECEIVER_SCOPES,
    deliveries_replay,
    secret_make,
    webhook_create,
    webhook_delete,
    webhook_update,
    webhooks_of,
)
from nousweb.console.common import (
    FORM,
    PAGE_SIZE,
    Column,
    ListExport,
    ListPage,
    Title,
    act,
    agent_page,
    change_details,
    change_links,
    export_format,
    form_page,
    keyset_rows,
    kind_choices,
    kind_title,
    list_export,
    model_columns,
    page_of,
    query_without,
    refused_on,
    uuid_of,
)
from nousweb.console.identity.token_forms import scope_label
from nousweb.console.templatetags.parts import badge
from nousweb.lib.keyset_page import KeysetPage

MAX_DIGITS = 18


class ChangesForm(forms.Form):
    kind = forms.ChoiceField(required=False)
    agent = forms.ChoiceField(required=False)
    persona = forms.ChoiceField(
        required=False, choices=[("actor", "Actor"), ("subconscious", "Subconscious"), ("both", "Both personas")]
    )

    def __init__(
        self, *args: Any, kinds: frozenset[str], agent: Agent, by: Principal, both: bool, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "Everything"), *kind_choices(kinds, whole_groups=True)]
        self.fields["kind"].choices = choices  # type: ignore[attr-defined]
        agents = Agent.objects.visible_to(by).order_by("name").values_list("slug", "name")[:200]
        self.fields["agent"].choices = list(agents)  # type: ignore[attr-defined]
        self.fields["agent"].initial = agent.slug
        if not both:
            del self.fields["persona"]


LIST = ListPage(
    title="Changes",
    noun="change",
    about="What programs that follow this agent are told, the latest first.",
    empty="All changes of this agent are listed here and sent to readers of GET /api/changes and to webhooks.",
    is_exported=False,
)


@agent_page()
def agent_changes(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The feed of an agent, a page at a time: of the kinds and personas that this person may know of."""
    allowed = kinds_of(by)
    if not allowed:
        by.require("identity.view_agent", agent)
    streams = streams_of(by)
    asked = request.GET.copy()
    asked.setdefault("agent", agent.slug)
    form = ChangesForm(asked, kinds=allowed, agent=agent, by=by, both=len(streams) > 1)
    filters = form.cleaned_data if form.is_valid() else {}
    if filters.get("agent", agent.slug) not in ("", agent.slug):
        query = query_without(request, "agent")
        return redirect(f"{reverse('agent_changes', args=[filters['agent']])}{f'?{query}' if query else ''}")
    # What the subconscious did by itself is most of a feed.
    if (shown := filters.get("persona") or Persona.ACTOR) in streams:
        streams = (shown,)
    # One kind, all of a group ("fact.*"), or all.
    kind = str(filters.get("kind") or "*")
    is_group = kind.endswith("*")
    kinds = frozenset(one for one in allowed if one == kind or (is_group and one.startswith(kind[:-1])))
    for persona in streams:
        stream_publish(agent.pk, persona)
    before = _places(request.GET.get("after", ""))
    found, following = changes_latest(agent=agent, streams=streams, kinds=kinds, before=before, limit=PAGE_SIZE)
    links = change_links(agent, found, streams)
    rows = [
        (change, kind_title(change.kind), links[change.pk], change_details(change.kind, change.details))
        for change in found
    ]
    is_filtered = bool(filters.get("kind")) or shown != Persona.ACTOR
    page = KeysetPage(list(found), "", _cursor(following))
    context = {
        **LIST.context(request, page, form, is_filtered),
        "agent": agent,
        "rows": [] if form.errors else rows,
        "query": query_without(request, "agent"),
        "past_first": bool(before),
    }
    return render(request, "identity/changes.html", context)


def _places(text: str) -> dict[str, int]:
    """Parse a text of `_cursor`; {} for anything else, which is the first page."""
    names = {persona[0]: persona for persona in Persona.values}
    parts = [part for part in text.split(".") if part]
    if not all(part[0] in names and part[1:].isascii() and part[1:].isdigit() for part in parts):
        return {}
    return {names[part[0]]: int(part[1:]) for part in parts if len(part) <= MAX_DIGITS + 1}


def _cursor(before: dict[str, int]) -> str:
    """The beginning of the next page, for an address: "a17.s4"."""
    return ".".join(f"{persona[0]}{position}" for persona, position in before.items())


DELIVERIES = ListExport("Deliveries", model_columns(WebhookDelivery))
STATE_KINDS = {"active": "ok", "paused": "neutral", "disabled": "block"}
WEBHOOKS = ListPage(
    title="Webhooks",
    noun="webhook",
    empty="A webhook sends changes of this agent to an address of yours as they happen.",
    numbered=True,
    is_exported=False,
    template="identity/webhooks.html",
    row=Title("url"),
    columns=(
        Column("Persona", Webhook.get_persona_display, is_usual=lambda webhook: webhook.persona == Persona.ACTOR),
        Column("Changes", lambda webhook: ", ".join(webhook.kinds), empty="all"),
        Column("Created by", "created_by"),
        Column("Created", "created_at", "time"),
        Column("Failed messages", "dead", "count", is_usual=lambda webhook: not webhook.dead),
        Column("State", lambda webhook: badge(webhook.get_state_display(), STATE_KINDS[webhook.state])),
    ),
)
STATUS_KINDS = {"waiting": "neutral", "delivered": "ok", "dead": "block"}


class WebhookFields(forms.Form):
    url = forms.CharField(max_length=500, label="Address", help_text="Each message is a signed POST to it.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope_label(scope)) for scope in RECEIVER_SCOPES],
        widget=forms.CheckboxSelectMultiple,
        initial=list(RECEIVER_SCOPES),
        label="The receiver may",
    )
    kinds = forms.MultipleChoiceField(
        choices=kind_choices(frozenset(CHANGE_KINDS), whole_groups=False),
        required=False,
        widget=forms.SelectMultiple(attrs={"size": 8}),
        label="Only these changes",
        help_text="If none is chosen, all changes that the scopes allow are sent.",
    )
    bodies = forms.BooleanField(
        required=False,
        label="Include the object of each change",
        help_text="If not selected, only ids and kinds are sent.",
    )


class WebhookEditForm(WebhookFields):
    active = forms.BooleanField(required=False, label="Active", help_text="While inactive, changes are queued.")


class WebhookForm(WebhookFields):
    persona = forms.ChoiceField(
        choices=Persona.choices, help_text="The subconscious receives the changes of both personas."
    )
    field_order = ("url", "scopes", "kinds", "persona", "bodies")

    def __init__(self, *args: Any, by: Principal, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not by.may(VIEW_SUBCONSCIOUS):
            del self.fields["persona"]


@agent_page(methods=FORM, fresh=True)
def agent_webhooks(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The list and the form; a new webhook's secret stands in the answer to its form, and nowhere else."""
    found = webhooks_of(agent, by)
    form = WebhookForm(request.POST or None, by=by)
    made: Webhook | None = None
    secret = ""
    if request.method == "POST" and form.is_valid():
        with refused_on(form):
            made, secret = webhook_create(agent=agent, by=by, **form.cleaned_data)
            form = WebhookForm(by=by)
    counted = found.annotate(
        dead=Count("deliveries", filter=Q(deliveries__status="dead", deliveries__agent=F("agent")))
    )
    listed = WEBHOOKS.context(
        request, WEBHOOKS.page(request, counted.select_related("agent").order_by("created_at", "id"))
    )
    shown = {"agent": agent, "creation_form": form, "made": made, "secret": secret, **listed}
    return render(request, WEBHOOKS.template, shown, status=422 if form.errors else 200)


@agent_page(methods=FORM)
def agent_webhook(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponseBase:
    """One webhook and its messages; its buttons pause it, resume it, and send again."""
    webhook = _webhook(by, agent, pk)
    if request.method == "POST":
        return _act(request, by, agent, webhook)
    status = asked if (asked := request.GET.get("status", "")) in WebhookDelivery.Status.values else ""
    found = webhook.messages.filter(**({"status": status} if status else {})).order_by("-number")
    if export_format(request):
        both = webhook.persona == Persona.SUBCONSCIOUS
        return list_export(request, DELIVERIES, keyset_rows(found, "created_at"), agent=agent, both=both)
    waiting = webhook.messages.filter(status="waiting", attempts__gt=0).exists()
    page = page_of(request, found)
    tabs = [
        {"label": label, "url": f"?status={value}" if value else "?", "active": value == status}
        for value, label in [("", "All"), *WebhookDelivery.Status.choices]
    ]
    return render(
        request,
        "identity/webhook.html",
        {
            "agent": agent,
            "webhook": webhook,
            "state_kind": STATE_KINDS[webhook.state],
            "tabs": tabs,
            "status": status,
            "query": f"status={status}" if status else "",
            "page": page,
            "rows": [(delivery, *_state(delivery)) for delivery in page],
            "next_try": webhook.due_at if waiting and webhook.state == Webhook.State.ACTIVE else None,
            "dead": webhook.messages.filter(status="dead").count(),
        },
    )


def _state(delivery: WebhookDelivery) -> tuple[str, str, str]:
    """The badge of a message, its kind and word, and the label of its button."""
    if delivery.status == WebhookDelivery.Status.WAITING and delivery.attempts:
        return "warn", "Retried", "Try now"
    return STATUS_KINDS[delivery.status], delivery.get_status_display(), "Resend"


def _act(request: HttpRequest, by: Principal, agent: Agent, webhook: Webhook) -> HttpResponse:
    action = request.POST.get("action", "")
    if action in ("pause", "resume"):
        webhook_update(webhook=webhook, active=action == "resume", by=by)
        messages.success(request, "Resumed." if action == "resume" else "Paused. New changes are queued.")
    elif action == "replay":
        key = request.POST.get("delivery")
        delivery = get_object_or_404(webhook.messages, pk=uuid_of(key)) if key else None
        count = deliveries_replay(webhook=webhook, by=by, delivery=delivery)
        messages.success(request, f"{count} will be resent by the worker.")
    return redirect("agent_webhook", slug=agent.slug, pk=webhook.pk)


@agent_page(methods=FORM, fresh=True)
def agent_webhook_edit(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """The form of a webhook; a new secret stands in the answer to its button, and nowhere else."""
    webhook, secret = _webhook(by, agent, pk), ""
    if request.POST.get("action") == "rotate":
        secret = secret_make()
        webhook_update(webhook=webhook, secret=secret, by=by)
    initial = {name: getattr(webhook, name) for name in ("url", "scopes", "kinds", "bodies")}
    return form_page(
        request,
        "identity/webhook_edit.html",
        WebhookEditForm(
            request.POST if request.method == "POST" and not secret else None,
            initial=initial | {"active": webhook.state == Webhook.State.ACTIVE},
        ),
        lambda given: webhook_update(webhook=webhook, by=by, **given),
        done="Saved. The changes apply from the next message on.",
        back=reverse("agent_webhook", args=[agent.slug, webhook.pk]),
        context={"agent": agent, "webhook": webhook, "secret": secret},
    )


@agent_page(methods=FORM)
def agent_webhook_delete(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """Asks for confirmation, since the sent messages are deleted with it."""
    webhook = _webhook(by, agent, pk)
    if request.method == "POST":
        return act(
            request,
            lambda: webhook_delete(webhook=webhook, by=by),
            reverse("agent_webhooks", args=[agent.slug]),
            "The webhook was deleted. Nothing is sent to this address any more.",
        )
    return render(request, "identity/webhook_delete.html", {"agent": agent, "webhook": webhook})


def _webhook(by: Principal, agent: Agent, pk: UUID) -> Webhook:
    return get_object_or_404(webhooks_of(agent, by).select_related("agent"), pk=pk)
