"""Outcomes of similar tasks."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from context.feedback.fingerprint_stats import FEW, fingerprints
from context.models import VIEW_RUN
from identity.selectors import agent_get
from nousweb.console.common.view_helpers import principal_of
from nousweb.lib import clock

PERIODS = {"": "Whole log", "1": "Last day", "7": "Last 7 days", "30": "Last 30 days"}


@require_safe
def agent_context_fingerprints(request: HttpRequest, slug: str) -> HttpResponse:
    """Runs, outcomes and tokens by fingerprint, over the period that ?days= names."""
    by = principal_of(request)
    by.require(VIEW_RUN)
    agent = agent_get(slug, by)
    days = request.GET.get("days", "")
    days = days if days in PERIODS else ""
    since = clock.now() - timedelta(days=int(days)) if days else None
    tabs = [
        {"label": label, "url": f"?days={value}" if value else "?", "active": value == days}
        for value, label in PERIODS.items()
    ]
    rows = fingerprints(agent, by, since)
    return render(
        request,
        "context/similar_tasks.html",
        {
            "agent": agent,
            "rows": rows,
            "tabs": tabs,
            "few": FEW,
            "since_query": f"&since={since:%Y-%m-%d}" if since else "",
        },
    )
