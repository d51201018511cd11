"""Shared helpers of the console's views: the principal, parsing of addresses, and refusals on forms."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest

from identity.models import Agent, ChangeProposal
from identity.policy.sections import Section
from identity.principal import Principal
from nousweb.lib.errors import Conflict, Invalid, NotFound

MAX_SELECTED = 200
"""Rows of a list that one bulk action takes."""
NAMED = 5
"""Refused rows that a message names for each reason."""


def principal_of(request: HttpRequest) -> Principal:
    """The signed-in person, as services know them; set by PrincipalMiddleware."""
    return cast(Principal, request.principal)  # type: ignore[attr-defined]


def section_named(name: str) -> Section:
    """The section that an address names. Raises NotFound."""
    if name not in Section.values:
        raise NotFound(f"There is no identity section {name[:60]!r}; the sections are {', '.join(Section.values)}.")
    return Section(name)


def layout_of(request: HttpRequest) -> Literal["split", "unified"]:
    """The layout of a diff: from ?layout=, else from the browser's cookie."""
    return "unified" if request.GET.get("layout", request.COOKIES.get("layout")) == "unified" else "split"


def moment_of(request: HttpRequest, name: str) -> datetime | None:
    """The moment in a field of a form; None if it is missing. Raises Invalid."""
    try:
        return datetime.fromisoformat(request.POST[name]) if request.POST.get(name) else None
    except ValueError:
        raise Invalid("Not a moment.", field=name) from None


def form_refuse(form: forms.Form, error: Invalid, **fields: str) -> None:
    """Show a service's refusal of a value beside the field that it names; `fields` says where names differ."""
    name = fields.get(error.field, error.field)
    form.add_error(name if name in form.fields else None, error.detail)


@contextmanager
def refused_on(form: forms.Form, conflict: str | None = None, **fields: str) -> Iterator[None]:
    """Show what a service refuses in this block on a form: an invalid value beside its field, a conflict at the top or
    beside the field `conflict`. `fields` says where names differ. The code after the block shows the form again."""
    try:
        yield
    except Invalid as error:
        form_refuse(form, error, **fields)
    except Conflict as error:
        form.add_error(conflict, error.detail)


def change_and_tell(request: HttpRequest, change: Callable[[], object], done: str) -> None:
    """Make a change, and report on the next page that it is `done`, or its conflict."""
    try:
        change()
    except Conflict as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, done)


def applied_offer(request: HttpRequest, agent: Agent) -> dict[str, Any]:
    """For identity/_applied_notice.html: the change that ?applied= names, and whether it can be undone."""
    try:
        key = uuid.UUID(request.GET.get("applied", ""))
    except ValueError:
        return {}
    proposals = ChangeProposal.objects.visible_to(principal_of(request))
    proposal = proposals.filter(pk=key, agent=agent).select_related("version", "restores").first()
    if proposal is None or proposal.version is None:
        return {}
    undoable = proposal.version.is_current and proposal.status == "approved"
    return {"applied": {"proposal": proposal, "undoable": undoable}}


def uuids_of(values: Sequence[str]) -> list[uuid.UUID]:
    """The values that are valid ids."""
    keys = []
    for value in values:
        try:
            keys.append(uuid.UUID(value))
        except ValueError:
            continue
    return keys


def refusals_summary(refused: Sequence[tuple[str, str]], *, undoing: bool = False) -> str:
    """One message for all refused items: `refused` has each item and its reason. Items with the same reason are
    grouped. `undoing`: their decisions were not undone, else they were not decided."""
    by_reason: dict[str, list[str]] = {}
    for what, why in refused:
        by_reason.setdefault(why, []).append(what)
    parts = []
    for why, whats in sorted(by_reason.items(), key=lambda reason: -len(reason[1])):
        more = f" and {len(whats) - NAMED} more" if len(whats) > NAMED else ""
        parts.append(f"{', '.join(whats[:NAMED])}{more}: {why}")
    number = f"{len(refused)} were" if len(refused) > 1 else "1 was"
    stay = "stay" if len(refused) > 1 else "stays"
    return f"{number} not {'undone' if undoing else f'decided and {stay} pending'}. {' '.join(parts)}"
