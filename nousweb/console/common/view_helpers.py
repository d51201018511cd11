"""Shared helpers of the console's views: the principal, parsing of addresses, and refusals on forms."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from types import MappingProxyType
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.views import defaults
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from identity.models import Agent, ChangeProposal
from identity.policy.sections import Section
from identity.principal import BETWEEN_NAMES, COMMAND, STARTED, Principal
from identity.selectors import agent_get
from nousweb.console.common.past import AS_OF, moment_named
from nousweb.lib.errors import Conflict, DomainError, Invalid, NotFound
from nousweb.lib.problem_documents import for_programs, page_above
from nousweb.lib.textdiff import TextDiff

View = Callable[..., HttpResponseBase]
READ, POST, FORM = require_safe, require_POST, require_http_methods(["GET", "HEAD", "POST"])
"""The methods of a page: one that is only read, one that only changes something, and one with a form."""
Refusals = list[tuple[str, str]]
"""What was refused, each with the reason."""
MAX_SELECTED = 200
"""Rows of a list that one bulk action takes."""
NAMED = 5
"""Refused rows that a message names for each reason."""


def principal_of(request: HttpRequest) -> Principal:
    """The signed-in person, as services know them; set by PrincipalMiddleware."""
    return cast(Principal, request.principal)  # type: ignore[attr-defined]


def query_without(request: HttpRequest, *names: str) -> str:
    """The query string without `names` and without where the page starts."""
    query = request.GET.copy()
    for name in ("page", "before", "after", *names):
        query.pop(name, None)
    return query.urlencode()


def page(
    *permissions: str | Callable[[Principal], None],
    methods: Callable[[View], View] = READ,
    fresh: bool = False,
    past: bool = False,
) -> Callable[[View], View]:
    """Declare a view: its permissions or checks, its methods, whether browsers must not keep it, and whether it tells
    of the `past_of` a request. It gets `by`, who in the past of an agent cannot change anything."""

    def declared(view: View) -> View:
        @methods
        @wraps(view)
        def checked(request: HttpRequest, **address: Any) -> HttpResponseBase:
            by = principal_of(request)
            request.tells_past = past and "slug" in address  # type: ignore[attr-defined]
            if "slug" in address and AS_OF in request.GET:
                if not request.GET[AS_OF]:
                    return redirect(f"{request.path}?{query_without(request, AS_OF)}".rstrip("?"))
                request.as_of = moment_named(request)  # type: ignore[attr-defined]
                request.principal = by.reading()  # type: ignore[attr-defined]
                by = by if methods is READ else principal_of(request)
            for permission in permissions:
                if callable(permission):
                    permission(by)
                else:
                    by.require(permission)
            return view(request, principal_of(request), **address)

        return never_cache(checked) if fresh else checked

    return declared


def agent_page(
    *permissions: str, methods: Callable[[View], View] = READ, fresh: bool = False, past: bool = False
) -> Callable[[View], View]:
    """As `page`, for a view of one agent, which it gets in place of the slug. Raises NotFound for an unknown one."""

    def declared(view: View) -> View:
        @wraps(view)
        def of_agent(request: HttpRequest, by: Principal, slug: str, **address: Any) -> HttpResponseBase:
            return view(request, by, agent_get(slug, by), **address)

        return page(*permissions, methods=methods, fresh=fresh, past=past)(of_agent)

    return declared


def section_named(name: str) -> Section:
    """The section that an address names. Raises NotFound."""
    if name not in Section.values:
        raise NotFound(f"There is no identity section {name[:60]!r}; the sections are {', '.join(Section.values)}.")
    return Section(name)


def layout_of(request: HttpRequest, diff: TextDiff) -> str:
    """The layout of a difference: from ?layout=, else from the browser's cookie; without a choice the words of prose,
    and else "auto" for the one that its width allows."""
    chosen = request.GET.get("layout") or request.COOKIES.get("layout", "")
    return chosen if chosen in ("words", "unified", "split") else "words" if diff.is_prose else "auto"


def moment_of(request: HttpRequest, name: str) -> datetime | None:
    """The moment in a field of a form; None if it is missing. Raises Invalid."""
    try:
        return datetime.fromisoformat(request.POST[name]) if request.POST.get(name) else None
    except ValueError:
        raise Invalid("Not a moment.", field=name) from None


def form_refuse(form: forms.Form, error: Invalid, **fields: str) -> None:
    """Show a service's refusal of a value beside the field that it names, with its label for that name; `fields` says
    where names differ."""
    name, detail = fields.get(error.field, error.field), error.detail
    if name in form.fields:
        # A name of one word is a word of the language, but for the first one.
        detail = re.sub(
            rf"{'' if '_' in error.field else '^'}{error.field}\b", lambda _: f"“{form[name].label}”", detail
        )
    form.add_error(name if name in form.fields else None, detail)


@contextmanager
def refused_on(
    form: forms.Form,
    conflict: str | None = None,
    refusals: tuple[type[DomainError], ...] = (Conflict,),
    **fields: str,
) -> Iterator[None]:
    """Show what a service refuses in this block on a form: an invalid value beside its field, a conflict, or whatever
    `refusals` are, at the top or beside the field `conflict`. `fields` says where names differ. The code after the
    block shows the form again."""
    try:
        yield
    except Invalid as error:
        form_refuse(form, error, **fields)
    except refusals as error:
        form.add_error(conflict, error.detail)


def act(
    request: HttpRequest,
    change: Callable[[], object],
    back: Any,
    done: str | Callable[[Any], str] = str,
    *,
    then: Callable[[Any], Any] | None = None,
    refusals: tuple[type[DomainError], ...] = (Conflict, Invalid),
) -> HttpResponse:
    """Make a change, and redirect `back` with a message: `done`, which may depend on what the change returns and by
    default is that, or why it was refused. `then`: where it leads once it is made, by what it returned."""
    try:
        made = change()
    except refusals as error:
        messages.error(request, error.detail)
        return redirect(back)
    messages.success(request, done if isinstance(done, str) else done(made))
    return redirect(then(made) if then else back)


def next_prompt_link(slug: str, run: Any, fact: str = "") -> SafeString:
    """A link to the prompt of a logged request as it is now, beside what it was, and whether it has a `fact`: the proof
    of a change."""
    query = urlencode({"a": str(run.pk), "b": "now", "fact": fact})
    url = f"{reverse('agent_context_compare', args=[slug])}?{query}"
    return format_html('<a href="{}">See the next prompt</a>', url)


def form_page(
    request: HttpRequest,
    template: str,
    form: forms.Form,
    save: Callable[[dict[str, Any]], Any],
    *,
    done: str | Callable[[Any], str],
    back: Any,
    context: Mapping[str, Any],
    conflict: str | None = None,
    refusals: tuple[type[DomainError], ...] = (Conflict,),
    fields: Mapping[str, str] = MappingProxyType({}),
) -> HttpResponse:
    """The page of a form. What a valid one describes is saved, and `done` shown on the page `back`: both may depend
    on what was saved.

    A refused form is shown again with its values. A conflict stands beside the field `conflict`; where that is
    "refusal", it is a variable of the template. `fields` says where the names of the service differ.
    """
    refusal = ""
    if request.method == "POST" and form.is_valid():
        try:
            saved = save(form.cleaned_data)
        except Invalid as error:
            form_refuse(form, error, **fields)
        except refusals as error:
            refusal = error.detail
            if conflict != "refusal":
                form.add_error(conflict, refusal)
        else:
            messages.success(request, done if isinstance(done, str) else done(saved))
            return redirect(back(saved) if callable(back) else back)
    status = 422 if form.errors else 409 if refusal else 200
    return render(request, template, {**context, "form": form, "refusal": refusal}, status=status)


def applied_offer(request: HttpRequest, agent: Agent) -> dict[str, Any]:
    """For identity/_applied_notice.html: the change that ?applied= names, and whether it can be undone."""
    proposals = ChangeProposal.objects.visible_to(principal_of(request))
    proposal = (
        proposals.filter(pk__in=uuids_of([request.GET.get("applied", "")]), agent=agent)
        .select_related("version", "restores")
        .first()
    )
    if proposal is None or proposal.version is None:
        return {}
    undoable = proposal.version.is_current and proposal.status == "approved"
    return {"applied": {"proposal": proposal, "undoable": undoable}}


def uuid_of(value: object) -> uuid.UUID | None:
    """The id that a text is; None for any other."""
    try:
        return uuid.UUID(str(value))
    except ValueError:
        return None


def number_of(value: str | None, digits: int = 9) -> int | None:
    """The number that a text of at most so many digits is; None for any other."""
    return int(value) if value and value.isascii() and value.isdigit() and len(value) <= digits else None


def uuids_of(values: Sequence[str]) -> list[uuid.UUID]:
    """The values that are valid ids."""
    return [key for value in values if (key := uuid_of(value))]


def attempt_each(
    rows: Iterable[Any], change: Callable[[Any], Any], name: Callable[[Any], str] = str
) -> tuple[list[Any], Refusals]:
    """Make a change of each row: what the changes return, and the rows that were refused."""
    done, refused = [], []
    for row in rows:
        try:
            done.append(change(row))
        except DomainError as error:
            refused.append((name(row), error.detail))
    return done, refused


def tell_each(
    request: HttpRequest,
    said: Sequence[str],
    refused: Refusals,
    nothing: str = "Nothing was selected.",
    *,
    undoing: bool = False,
) -> None:
    """Report on changes of several rows; `nothing`: what to say where there were none."""
    if refused:
        messages.error(request, refusals_summary(refused, undoing=undoing))
    for text in said:
        messages.success(request, text)
    if nothing and not said and not refused:
        messages.warning(request, nothing)


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


def author_words(of: Any, kind: str = "") -> str:
    """The name of an author as people say it, `of` a row or by name: of a token, its agent; of the product, Nous."""
    if not isinstance(of, str):
        of, kind = of.author_name, getattr(of, "author_kind", "")
    name, found, _ = of.removeprefix(STARTED).partition(BETWEEN_NAMES)
    if found:
        return name.replace("-", " ").capitalize()
    if of == COMMAND:
        return of.capitalize()
    return "Nous" if kind == "system" and name == of else name


def page_missing(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler of addresses that nothing answers: people get a page in the console's frame."""
    user = getattr(request, "user", None)
    if for_programs(request) or user is None or not user.is_authenticated:
        return defaults.page_not_found(request, exception)
    said = {
        "title": "Page not found",
        "detail": "The page may have moved, its object may have been erased, or you may not have access to it.",
        "above": page_above(request.path),
    }
    return render(request, "refused.html", said, status=404)
