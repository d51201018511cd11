"""The page of the console's components, for its developers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import Engine

from identity.principal import Principal
from nousweb.console.common import page, stacked_bar
from nousweb.lib import clock
from nousweb.lib.textdiff import diff_texts

COMPONENTS = Path(Engine.get_default().dirs[0]) / "components"


class ExampleForm(forms.Form):
    """One field of each kind."""

    name = forms.CharField(help_text="An explanation in one line.")
    kind = forms.ChoiceField(choices=[("a", "The first"), ("b", "The second")])
    number = forms.IntegerField(widget=forms.NumberInput(attrs={"placeholder": "300"}))
    several = forms.MultipleChoiceField(
        choices=[("a", "The first"), ("b", "The second")], widget=forms.CheckboxSelectMultiple
    )
    agreed = forms.BooleanField(label="A choice", required=False)
    text = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}))


@page()
def styleguide(request: HttpRequest, by: Principal) -> HttpResponse:
    """Every component, in light and dark. Raises Http404 unless DEBUG is on."""
    if not settings.DEBUG:
        raise Http404("The components are shown where NOUS_DEBUG is on.")
    now = clock.now()
    given = {"name": "", "kind": "b", "number": "x", "several": ["a"], "text": "Some text."}
    shown: dict[str, Any] = {
        "schemes": [(scheme, ExampleForm(given, auto_id=f"{scheme}_%s")) for scheme in ("light", "dark")],
        "badges": ("neutral", "accent", "ok", "added", "removed", "warn", "block"),
        "notices": ("accent", "ok", "warn", "error", "block"),
        "buttons": ("", "primary", "danger", "quiet", "sm", "sm quiet", "sm danger"),
        "moments": [now - timedelta(minutes=3), now - timedelta(days=40), now + timedelta(days=2)],
        "diff": diff_texts("Ask first.\nNever lie.", "Ask first.\nNever promise a date.\nBe brief."),
        "layouts": ("words", "unified", "split"),
        "tabs": [{"label": "All", "url": "#", "active": True, "count": 3}, {"label": "Own", "url": "#"}],
        "pages": Paginator(range(90), 10).page(3),
        "bar": stacked_bar([("Identity", 30, "seg-1"), ("Facts", 12, "seg-2")], width=1000, height=12, capacity=60),
        "series": [(f"day {day}", value) for day, value in enumerate((3, 5, None, 0, 4, 8, 6), 1)],
        "components": [
            (path.stem, _comment(path.read_text())) for path in sorted(COMPONENTS.glob("*.html"))
        ],
    }  # fmt: skip
    return render(request, "styleguide.html", shown)


def _comment(source: str) -> str:
    """What a component says of itself at its beginning."""
    for begin, end in (("{#", "#}"), ("{% comment %}", "{% endcomment %}")):
        if source.startswith(begin):
            return " ".join(source[len(begin) : source.index(end)].split())
    return ""
