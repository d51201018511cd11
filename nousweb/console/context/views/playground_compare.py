"""The playground's first page: a change of the identity is tried before it is approved. Nothing is kept."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlencode
from django.utils.text import Truncator

from context.engine.analysis.request import Message
from context.engine.overrides import NO_OVERRIDES
from context.expectations.check_runner import ImpactCheck
from context.models import ASSEMBLE, ExpectationResult
from context.services.playground import TALK, playground_compare
from context.what_if.change_overrides import proposal_overrides
from context.what_if.impact import ImpactRow, change_row, impact_of
from identity.models import Agent, ChangeProposal, IdentityVersion, Persona
from identity.policy.sections import MAX_SECTION_CHARACTERS, Section
from identity.principal import Principal
from memory.services.model_chat import chat_model, chat_model_place
from nousweb.console.common import FORM, agent_page, author_words, refused_on, uuids_of
from nousweb.console.context.views.inspector import MAX_ADDRESS_CHARACTERS, questions_asked
from nousweb.console.context.views.playground import (
    MAX_MESSAGE_CHARACTERS,
    MAX_TALK_CHARACTERS,
    PREVIEW,
    PlaygroundForm,
    TurnView,
    conversation_with,
    turn_view,
)
from nousweb.console.inbox.item_titles import changed_words
from nousweb.console.inbox.proposal_items import ProposalItem, with_texts
from nousweb.console.templatetags.console import day, signed
from nousweb.lib.errors import NotFound
from nousweb.lib.textdiff import TextDiff, diff_texts
from nousweb.lib.visible_text import visible_plain

NOW, AS_IT_IS = "now", "As it is now"
OWN, MY_OWN = "own", "My own change"
GONE = "This identity cannot be tried: it is decided, in force, or gone."
MAX_CHOICES = 50
MAX_CARDS = 9
"""Proposals that stand as cards; with the change that a person writes there they fill two rows."""
TRIED, TRIED_SECONDS = 5, 2.0
"""Recent questions on which a change is tried, and the time that they may take; expectations take as much again."""
MAX_ROWS, FEW = 20, 3
"""Of all questions that are shown; more of them than a few that stay as before are folded."""
WORDS = 48
"""Characters of what an identity changes, in its name among others."""
SIDES = (("a", "conversation"), ("b", "conversation_b"))
"""The fields of each side: its identity and its conversation."""
State = ExpectationResult.State
STEADY = {(State.PASSED, State.PASSED), (State.FAILED, State.FAILED)}
Identities = Mapping[str, ChangeProposal | IdentityVersion]


def _identities(agent: Agent, by: Principal, named: Sequence[str]) -> Identities:
    """Pending proposals and earlier versions, the latest first, by their names in an address; those `named` are there
    however many came after them."""
    proposals = with_texts(ChangeProposal.objects.visible_to(by).pending().filter(agent=agent).order_by("-created_at"))
    versions = IdentityVersion.objects.filter(agent=agent, is_current=False).order_by("-created_at")
    latest = {str(one.pk): one for one in proposals[:MAX_CHOICES]}
    further = proposals.filter(pk__in=uuids_of([key for key in named if key not in latest]))
    pending = {**latest, **{str(one.pk): one for one in further}}
    for one in pending.values():
        # What approving it makes current, where other lines have changed since.
        one.content = ProposalItem(one).wished
    return {
        **pending,
        **{str(one.pk): one for one in versions[:MAX_CHOICES]},
    }


def _label(one: ChangeProposal | IdentityVersion, current: Mapping[str, str]) -> str:
    """Its section, whose it is, and the reason of a version, or how it first differs from what is in force
    (`current`)."""
    kind = "proposed" if isinstance(one, ChangeProposal) else f"version {one.version}"
    name = f"{one.get_section_display()}, {kind} by {author_words(one)} {day(one.created_at)}"
    if isinstance(one, IdentityVersion) and one.reason:
        return f"{name}: {visible_plain(Truncator(one.reason).chars(WORDS))}"
    change = changed_words(current.get(one.section, ""), one.content)
    sign = "−" if change and change.verb == "Removes" else "+"
    return f"{name}: {sign} {visible_plain(Truncator(change.words).chars(WORDS))}" if change else name


def _differences(
    sides: Sequence[ChangeProposal | IdentityVersion | None], current: Mapping[str, str]
) -> list[tuple[str, TextDiff]]:
    """The sections of which the two identities have different texts."""
    texts = [{one.section: one.content} if one else {} for one in sides]
    names = {one.section: one.get_section_display() for one in sides if one}
    pairs = [(name, *({**current, **own}.get(section, "") for own in texts)) for section, name in names.items()]
    return [(name, diff_texts(old, new)) for name, old, new in pairs if old != new]


class CompareForm(PlaygroundForm):
    """A message to an agent with two identities."""

    a = forms.ChoiceField(label="Before", error_messages={"invalid_choice": GONE})
    b = forms.ChoiceField(label="After", error_messages={"invalid_choice": GONE})
    conversation_b = forms.CharField(required=False, max_length=2 * MAX_TALK_CHARACTERS, widget=forms.HiddenInput)
    section = forms.ChoiceField(required=False, choices=Section.choices, widget=forms.HiddenInput)
    content = forms.CharField(
        required=False,
        strip=False,
        max_length=MAX_SECTION_CHARACTERS,
        label="Text to try",
        widget=forms.Textarea(attrs={"spellcheck": "true"}),
    )

    def __init__(self, *args: Any, identities: Identities, labels: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["keep"]
        self.fields["input"].label = "Another question"
        groups = [
            (name, [(key, labels[key]) for key, one in identities.items() if isinstance(one, kind)])
            for name, kind in (("Proposed", ChangeProposal), ("Earlier versions", IdentityVersion))
        ]
        choices = [(NOW, AS_IT_IS), *(group for group in groups if group[1])]
        self.fields["a"].choices = choices  # type: ignore[attr-defined]
        self.fields["b"].choices = [choices[0], (OWN, MY_OWN), *choices[1:]]  # type: ignore[attr-defined]

    def clean_conversation_b(self) -> tuple[Message, ...]:
        return self.read("conversation_b")


@agent_page(TALK, methods=FORM, fresh=True)
def agent_playground_compare(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The same message to the identities that ?a= and ?b= name, with the difference of their prompts.

    It begins with the latest proposal on the latest question. Only a message that is sent reaches the model, no
    `preview`, whose value may be the question. Both are posted, since a question may be longer than an address, of
    which it then is no part, and as a change that a person writes there (OWN) is.
    """
    if not by.may("identity.view_identityversion"):
        # The page's own tab leads here.
        return redirect("agent_playground", agent.slug)
    given = {name: (request.POST or request.GET).get(name, "") for name, _ in SIDES}
    identities = _identities(agent, by, [*given.values()])
    current = {one.section: one for one in agent.identity_versions.filter(is_current=True)}
    texts = {section: one.content for section, one in current.items()}
    labels = {NOW: AS_IT_IS, OWN: MY_OWN, **{key: _label(one, texts) for key, one in identities.items()}}
    known: dict[str, Any] = {"identities": identities, "labels": labels}
    wanted = (request.POST or request.GET).get("section", "")
    section = wanted if wanted in Section else Section.values[0]
    own = {"section": section, "content": texts.get(section, "")}
    said: list[tuple[Message, ...]] = [(), ()]
    # What many questions get is asked for by itself, since it takes longer than the one that is shown.
    is_part = bool(request.htmx) and "table" in request.GET  # type: ignore[attr-defined]
    if request.method == "POST":
        preview = request.POST.get("preview", "")
        form = CompareForm(own | request.POST.dict() | ({"input": preview} if len(preview) > 1 else {}), **known)
    else:
        if any(key not in ("", NOW, *identities) and (name, key) != ("b", OWN) for name, key in given.items()):
            raise NotFound(GONE)
        # What is in force stands on the other side of what is tried: before a proposal, after an earlier version.
        first = NOW if any(given.values()) else next(iter(identities), NOW)
        usual = {"a": first, "b": NOW} if isinstance(identities.get(first), IdentityVersion) else {"a": NOW, "b": first}
        latest = questions_asked(agent, by)[:1]
        asked = request.GET.get("input", latest[0][0] if latest else "")[:MAX_MESSAGE_CHARACTERS]
        initial = own | {name: given[name] or usual[name] for name in given} | {"session": PREVIEW, "input": asked}
        is_shown = bool(asked.strip()) and by.may(ASSEMBLE) and not is_part
        form = CompareForm(initial if is_shown else None, initial=initial, **known)
    last: list[TurnView] = []
    is_sent = request.method == "POST" and "preview" not in request.POST and not is_part
    written = str(own["content"] if "content" in form.errors else form["content"].value()).replace("\r\n", "\n").strip()
    identities = {**identities, OWN: IdentityVersion(agent=agent, section=section, content=written)}
    if form.is_valid():
        said = [form.cleaned_data[conversation] for _, conversation in SIDES]
        last = [] if is_part else _turns(form, identities, agent, by, ask=is_sent)
    chosen = [str(form[name].value()) for name, _ in SIDES]
    tried_now = [identities.get(key) for key in chosen]
    if last and all(one.turn.answer and not one.turn.blocked for one in last):
        form = _next(form, last, known)
    if is_sent:
        # The next question is asked where this one was.
        form.fields["input"].widget.attrs["autofocus"] = True
    cards = [(key, one) for key, one in identities.items() if isinstance(one, ChangeProposal)][:MAX_CARDS]
    context = {
        "agent": agent,
        "form": form,
        "swapped": "#asked, #tried" if chosen[1] == OWN else "#asked",
        "cards": [(key, one, changed_words(texts.get(one.section, ""), one.content)) for key, one in cards]
        + [(OWN, None, None)],
        "card": chosen[1] if chosen[0] == NOW and chosen[1] in (OWN, *dict(cards)) else "",
        "sections": [
            {
                "label": label,
                "url": f"?{urlencode({'a': chosen[0], 'b': OWN, 'section': key})}",
                "active": key == section,
            }
            for key, label in Section.choices
            if chosen[1] == OWN
        ],
        "in_force": current[section].version if section in current else 0,
        "section_tried": next((one.section for one in tried_now if one), section),
        "sides": [
            {"label": labels.get(key, ""), "said": said[place], "last": last[place] if last else None}
            for place, key in enumerate(chosen)
        ],
        "proposal": next((one for one in tried_now if isinstance(one, ChangeProposal)), None),
        "differences": _differences(tried_now, texts),
        "model": chat_model(),
        "place": chat_model_place(),
        "diff": diff_texts(*(one.turn.record.system_prompt for one in last)) if last else None,
        "tried": _tried(*last) if last else None,
        "trial": _trial(agent, by, tried_now) if "table" in request.GET and not form.errors else None,
    }
    template = "context/_trial.html" if is_part else "context/playground_compare.html"
    response = render(request, template, context, status=422 if form.errors else 200)
    if last:
        address = urlencode(
            {"a": chosen[0], "b": chosen[1]}
            | ({"section": section} if chosen[1] == OWN else {})
            | {"input": last[0].shown.record.request["input"]}
        )
        is_short = len(address) <= MAX_ADDRESS_CHARACTERS
        # Each choice is a place to go back to; a conversation goes on where it is, and so does a text.
        response["HX-Replace-Url" if is_sent or (request.POST and chosen[1] == OWN) else "HX-Push-Url"] = (
            f"{request.path}?{address if is_short else address.partition('&input=')[0]}"
        )
    return response


def _trial(agent: Agent, by: Principal, sides: Sequence[ChangeProposal | IdentityVersion | None]) -> dict[str, Any]:
    """What the change does to the latest questions and to all expectations, each question once: first those that it
    does more to than to change their tokens."""
    base, change = (proposal_overrides(one) if one else NO_OVERRIDES for one in sides)
    impact = impact_of(
        agent=agent, overrides=change, base=base, by=by, last=TRIED, seconds=TRIED_SECONDS, questions=True
    )
    rows: dict[Any, tuple[ImpactRow, list[ImpactCheck]]] = {_asked(row.run): (row, []) for row in impact.rows}
    for check in impact.expectations.checks:
        was, now = check.before.record, check.after.record
        if was and now:
            rows.setdefault(_asked(was), (change_row(check.expectation, was, now, change), []))[1].append(check)
    shown = [(asked[0], row, checks, ", ".join(filter(None, asked[1:]))) for asked, (row, checks) in rows.items()]
    shown.sort(key=_is_as_before)
    same = [one for one in shown[:MAX_ROWS] if _is_as_before(one)]
    folded = len(same) if len(same) > FEW else 0
    return {
        "rows": shown[: min(len(shown), MAX_ROWS) - folded],
        "same": same[:folded],
        "more": len(shown[MAX_ROWS:]),
        "figures": _figures(shown, len(impact.rows)) if shown else (),
        "longest": MAX_ADDRESS_CHARACTERS,
        "cut_short": impact.cut_short or impact.expectations.cut_short or impact.expectations.errors,
    }


def _is_as_before(one: tuple[Any, ...]) -> bool:
    """Whether no memory of a prompt comes or goes, and each expectation holds or fails as before."""
    _, row, checks, _ = one
    return not (row.words or row.not_sent) and all(check.states in STEADY for check in checks)


def _figures(rows: Sequence[tuple[Any, ...]], recent: int) -> list[tuple[str, str, str]]:
    """What happens to all of these: each a label, a value and what is more to say."""
    sizes = sorted({row.tokens_change for _, row, *_ in rows}, key=abs)
    other = sum(bool(row.words) for _, row, *_ in rows)
    states = Counter(check.states for *_, checks, _ in rows for check in checks)
    turns = (
        (states[State.PASSED, State.FAILED], "would fail"),
        (states[State.FAILED, State.PASSED], "would hold again"),
        (states[State.FAILED, State.FAILED], "fail as before"),
    )
    holds = sum(number for (_, now), number in states.items() if now == State.PASSED)
    return [
        ("Questions", f"{len(rows):,}", f"{recent:,} recent, {len(rows) - recent:,} of expectations"),
        ("Tokens", " to ".join(dict.fromkeys(map(signed, (sizes[0], sizes[-1])))), "per prompt"),
        ("Memories", f"{other:,} differ" if other else "the same", f"in {len(rows):,} prompts"),
        (
            "Expectations",
            f"{holds:,} of {states.total():,} hold" if states else "none",
            ", ".join(f"{number:,} {words}" for number, words in turns if number),
        ),
    ]


def _asked(made: Any) -> tuple[str, ...]:
    """The question of a prompt, logged or not, and what else its memories are of: persona, project, task, user."""
    request = made.request
    own = (str(request.get(name) or "") for name in ("project", "task", "user"))
    return str(request["input"]), "" if made.persona == Persona.ACTOR else made.persona, *own


def _tried(before: TurnView, after: TurnView) -> dict[str, Any]:
    """What a change does to a prompt beside its lines: its tokens, and the memories that come, go and stay."""
    was, now = ({(one["type"], one["id"]): one for one in side.shown.memories} for side in (before, after))
    groups = (
        ("Memories only after:", [one for key, one in now.items() if key not in was]),
        ("Memories only before:", [one for key, one in was.items() if key not in now]),
        ("Memories in both:", [one for key, one in now.items() if key in was]),
    )
    came, went, stay = (len(found) for _, found in groups)
    return {
        "question": before.shown.record.request["input"],
        "before": before.shown.record.tokens,
        "after": after.shown.record.tokens,
        "change": after.shown.record.tokens - before.shown.record.tokens,
        "words": f"+{came} −{went} memories" if came or went else f"the same {stay} memor{'y' if stay == 1 else 'ies'}",
        "memories": [(title, found, number < 2) for number, (title, found) in enumerate(groups) if found],
    }


def _turns(form: CompareForm, identities: Identities, agent: Agent, by: Principal, *, ask: bool) -> list[TurnView]:
    """A turn for each side; none if the form has an error, which it then shows."""
    given = form.cleaned_data
    with refused_on(form, refusals=(), session_id="session"):
        wanted = form.as_request()
        sides = [
            (
                replace(wanted, conversation=given[conversation]),
                {one.section: one.content} if (one := identities.get(given[name])) else {},
            )
            for name, conversation in SIDES
        ]
        turns = playground_compare(agent=agent, sides=sides, by=by, ask=ask)
        return [turn_view(form, turn, agent, by) for turn in turns]
    return []


def _next(form: CompareForm, last: list[TurnView], known: Mapping[str, Any]) -> CompareForm:
    """The form for the next message, with this one and its answers in the conversations."""
    given = form.cleaned_data
    kept = {name: given[name] for name in ("a", "b", "profile", "project", "user", "session", "section", "content")}
    kept |= {
        conversation: conversation_with(given[conversation], given["input"], view.turn.answer)
        for view, (_, conversation) in zip(last, SIDES, strict=True)
    }
    return CompareForm(initial=kept, **known)
